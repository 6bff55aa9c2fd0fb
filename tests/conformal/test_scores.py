"""Conformity scores of regression and classes against their definitions, and what cannot be scored."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor

from skuq.conformal import ConformalRegressor, prediction_set
from skuq.conformal._scores import (
    SCORES,
    AbsoluteScore,
    Band,
    CQRScore,
    NormalizedScore,
    scores_rounded_to_cover,
)
from skuq.conformal._sets import APSScore, LACScore, scores_of_labels, select_score
from skuq.distributions import Normal, StudentT
from skuq.exceptions import NotProbabilisticError

Y = np.array([0.0, 1.0, 5.0])
PREDICTED = {
    "split": np.array([1.0, 1.0, 2.0]),
    "normalized": Normal([1.0, 1.0, 2.0], [0.5, 1.0, 2.0]),
    "cqr": Normal([1.0, 1.0, 2.0], [0.5, 1.0, 2.0]),
    "pit": Normal([1.0, 1.0, 2.0], [0.5, 1.0, 2.0]),
}
HALF_WIDTH = 1.6448536269514722 * np.array([0.5, 1.0, 2.0])
DISTANCES = {
    "split": [[1.0, 0.0, -3.0], [-1.0, 0.0, 3.0]],
    "normalized": [[2.0, 0.0, -1.5], [-2.0, 0.0, 1.5]],
    "cqr": [[1.0, 0.0, -3.0] - HALF_WIDTH, [-1.0, 0.0, 3.0] - HALF_WIDTH],
    "pit": [[2.0, 0.0, -1.5], [-2.0, 0.0, 1.5]],  # normal scores of the levels
}


class Predicts(RegressorMixin, BaseEstimator):
    """A finished model with the distribution that it is given."""

    def __init__(self, dist):
        self.dist = dist

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.dist.median()

    def predict_dist(self, X):
        return self.dist

    def __sklearn_is_fitted__(self):
        return True


class Endless:
    """Stands for a distribution whose second row has no finite interval."""

    def interval(self, coverage):
        return np.array([[0.0, 1.0], [-np.inf, np.inf]])


@pytest.mark.parametrize("method", SCORES)
def test_scores_by_hand(method):
    distances = np.array(DISTANCES[method])
    assert_allclose(SCORES[method](False).score(PREDICTED[method], Y, 0.9), distances, atol=1e-12)
    largest = distances.max(axis=0, keepdims=True)
    assert_allclose(SCORES[method](True).score(PREDICTED[method], Y, 0.9), largest, atol=1e-12)


@pytest.mark.parametrize("method", SCORES)
def test_the_interval_of_its_own_score_ends_at_y(method):
    prediction = PREDICTED[method]
    signed = SCORES[method](False)
    for bound in signed.invert(prediction, signed.score(prediction, Y, 0.9), 0.9):
        assert_allclose(bound, Y, atol=1e-12)
    symmetric = SCORES[method](True)
    lower, upper = symmetric.invert(prediction, symmetric.score(prediction, Y, 0.9), 0.9)
    assert_allclose(np.where(PREDICTED["split"] > Y, lower, upper), Y, atol=1e-12)
    assert ((lower <= Y + 1e-12) & (upper + 1e-12 >= Y)).all()


class ScaledCQRScore(CQRScore):
    """Distance to the predicted interval in units of its width."""

    def band(self, prediction, coverage):
        low, high, _ = super().band(prediction, coverage)
        return Band(low, high, high - low)


def test_the_score_of_a_new_band_is_in_units_of_its_scale():
    signed = ScaledCQRScore(False)
    scores = signed.score(PREDICTED["cqr"], Y, 0.9)
    assert_allclose(scores, np.array(DISTANCES["cqr"]) / (2 * HALF_WIDTH), atol=1e-12)
    for bound in signed.invert(PREDICTED["cqr"], scores, 0.9):
        assert_allclose(bound, Y, atol=1e-12)


@pytest.mark.parametrize("method", ["split", "normalized", "cqr"])  # the bounds of "pit" end with the support
def test_an_infinite_quantile_is_an_infinite_bound_even_without_spread(method):
    certain = np.zeros(2) if method == "split" else Normal([0.0, 0.0], [0.0, 1.0])
    lower, upper = SCORES[method](True).invert(certain, np.array([[np.inf, np.inf]]), 0.9)
    assert_array_equal([lower, upper], [[-np.inf, -np.inf], [np.inf, np.inf]])


def test_only_the_band_of_cqr_depends_on_the_coverage():
    assert [score.depends_on_coverage for score in SCORES.values()] == [False, False, True, False]
    for method in ("split", "normalized"):
        score = SCORES[method](True)
        assert_array_equal(score.band(PREDICTED[method], 0.5), score.band(PREDICTED[method], 0.9))
    score, prediction = CQRScore(True), PREDICTED["cqr"]
    assert (score.band(prediction, 0.5).low > score.band(prediction, 0.9).low).all()
    median = score.band(prediction, 0.0)
    assert_array_equal(median.low, prediction.median())
    assert_array_equal(median.high, prediction.median())


def test_which_estimators_and_predictions_a_score_accepts():
    AbsoluteScore(True).check_estimator(LinearRegression())
    with pytest.raises(NotProbabilisticError, match=r"UncertaintyRegressor\(LinearRegression"):
        NormalizedScore(True).check_estimator(LinearRegression())
    with pytest.raises(NotProbabilisticError, match=r"MultiQuantileRegressor\(QuantileRegressor"):
        CQRScore(True).check_estimator(QuantileRegressor())
    with pytest.raises(ValueError, match=r"finite quantiles, got the interval \[-inf, inf\] .*0\.9 at row 1"):
        CQRScore(True).score(Endless(), np.zeros(2), 0.9)


@pytest.mark.parametrize(
    ("dist", "got"),
    [
        (StudentT(np.zeros(30), 1.0, 1.0), r"has a mean only for `df`"),
        (StudentT(np.zeros(30), 1.0, 1.5), "got std inf at row 0"),
        (Normal(np.zeros(30), 0.0), r"`estimator` must have positive standard deviations .* got 0 at row 0"),
    ],
)
def test_without_moments_or_spread_the_error_names_the_estimator_and_the_other_method(dist, got):
    model = ConformalRegressor(FrozenEstimator(Predicts(dist)), "normalized")
    with pytest.raises(ValueError, match=got) as raised:
        model.fit(np.zeros((30, 1)), np.ones(30))
    if isinstance(dist, StudentT):
        assert "`estimator` must predict a finite mean and standard deviation in every row" in str(
            raised.value
        )
        assert "Method 'cqr' needs neither" in str(raised.value)


@pytest.fixture
def proba():
    return np.random.default_rng(0).dirichlet(np.full(6, 0.7), size=200)


def test_lac_is_one_minus_the_probability(proba):
    np.testing.assert_array_equal(LACScore().score(proba, None), 1 - proba)


@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize(("penalty", "k_reg"), [(0.0, 0), (0.1, 0), (0.3, 2)])
def test_aps_is_the_mass_above_a_share_of_the_class_and_the_penalty_of_its_rank(
    proba, randomized, penalty, k_reg
):
    uniform = np.random.default_rng(1).random(len(proba)) if randomized else None
    scores = APSScore(randomized, penalty, k_reg).score(proba, uniform)
    for i, row in enumerate(proba):
        for k, p in enumerate(row):
            rank = 1 + (row > p).sum()
            expected = row[row > p].sum() + penalty * max(rank - k_reg, 0)
            expected += uniform[i] * p if randomized else 0
            assert scores[i, k] == pytest.approx(expected, abs=1e-12)


def test_classes_of_less_mass_above_than_the_coverage_are_the_prediction_set(proba):
    for coverage in (0.5, 0.9, 0.99):
        above = APSScore(False, 0, 0).score(proba, None)
        np.testing.assert_array_equal(above < coverage, prediction_set(proba, coverage))


def test_equally_probable_classes_have_the_order_of_their_columns():
    scores = APSScore(False, 0, 0).score(np.array([[0.25, 0.25, 0.25, 0.25]]), None)
    np.testing.assert_array_equal(scores, [[0, 0.25, 0.5, 0.75]])


def test_probabilities_of_single_precision_are_summed_in_double():
    proba = np.full((1, 1000), 0.001, dtype=np.float32)
    assert APSScore(False, 0, 0).score(proba, None).max() == pytest.approx(0.999, abs=1e-6)
    assert LACScore().score(proba, None).dtype == np.float64


def test_a_label_that_is_no_class_has_an_infinite_score():
    scores = scores_of_labels(np.array([[0.1, 0.9], [0.3, 0.7]]), np.array([1, -1]))
    np.testing.assert_array_equal(scores, [0.9, np.inf])


def test_parameters_that_are_none_or_not_of_the_method_are_errors(subtests):
    for options, error, message in (
        ({"method": "score"}, ValueError, "`method` must be one of 'lac', 'aps', got 'score'"),
        ({"randomized": 1}, ValueError, "`randomized` must be one of True, False"),
        ({"method": "lac", "randomized": True}, ValueError, "`randomized` must be False with method 'lac'"),
        ({"method": "lac", "penalty": 0.1}, ValueError, "`penalty` must be 0.0 with method 'lac', got 0.1"),
        ({"method": "lac", "k_reg": 2}, ValueError, "`k_reg` must be 0 with method 'lac', got 2"),
        ({"penalty": -0.1}, ValueError, "`penalty` must be non-negative, got -0.1"),
        ({"penalty": np.nan}, ValueError, "`penalty` must be finite"),
        ({"k_reg": -1}, ValueError, "`k_reg` must be at least 0"),
        ({"k_reg": 1.5}, TypeError, "`k_reg` must be an integer"),
    ):
        with subtests.test(message), pytest.raises(error, match=message):
            select_score(**{"method": "aps", "randomized": False, "penalty": 0, "k_reg": 0} | options)


def test_scores_reach_their_own_targets_after_rounding():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(2, 1, size=5000), rng.uniform(0.3, 2, size=5000)
    y = rng.poisson(2, size=5000).astype(float)
    size = np.abs((y - mean) / std)
    lost = (y < mean - std * size) | (y > mean + std * size)
    assert lost.mean() > 0.01
    reaching = scores_rounded_to_cover(size, mean, mean, std, y)
    assert ((mean - std * reaching <= y) & (y <= mean + std * reaching)).all()
    assert_array_equal(reaching[~lost], size[~lost])
    assert_allclose(reaching, size, rtol=1e-12, atol=1e-14)


def test_a_score_that_is_not_a_distance_is_refused():
    with pytest.raises(TypeError, match=r"SquaredScore must define `band`, and not `score`.*linear in y"):

        class SquaredScore(AbsoluteScore):
            def score(self, prediction, y, coverage):
                return super().score(prediction, y, coverage) ** 2
