"""Conformity scores: score and invert are inverse to each other, and what cannot be scored raises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor

from skuq._conformal.scores import SCORES, AbsoluteScore, Band, CQRScore, NormalizedScore
from skuq.distributions import Normal, StudentT
from skuq.exceptions import NotProbabilisticError
from skuq.regressors import ConformalRegressor

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


def test_which_estimators_a_score_accepts():
    AbsoluteScore(True).check_estimator(LinearRegression())
    with pytest.raises(NotProbabilisticError, match=r"UncertaintyRegressor\(LinearRegression"):
        NormalizedScore(True).check_estimator(LinearRegression())
    with pytest.raises(NotProbabilisticError, match=r"MultiQuantileRegressor\(QuantileRegressor"):
        CQRScore(True).check_estimator(QuantileRegressor())


@pytest.mark.parametrize(
    ("df", "got"),
    [(1.0, "Reason: a Student t distribution has a mean only for `df`"), (1.5, "got std inf at row 0")],
)
def test_without_moments_the_error_names_the_estimator_and_the_other_method(df, got):
    model = FrozenEstimator(Predicts(StudentT(np.zeros(30), 1.0, df)))
    message = (
        "with method 'normalized', `estimator` must predict a finite mean and standard deviation in every row"
    )
    with pytest.raises(ValueError, match=rf"{message}.*Method 'cqr' needs neither") as raised:
        ConformalRegressor(model, "normalized").fit(np.zeros((30, 1)), np.zeros(30))
    assert got in str(raised.value)


def test_a_wrong_prediction_without_spread_names_the_estimator():
    model = FrozenEstimator(Predicts(Normal(np.zeros(30), 0.0)))
    with pytest.raises(
        ValueError, match=r"`estimator` must have positive standard deviations .* got 0 at row 0"
    ):
        ConformalRegressor(model, "normalized").fit(np.zeros((30, 1)), np.ones(30))


def test_infinite_quantiles_cannot_be_moved():
    with pytest.raises(ValueError, match=r"finite quantiles, got the interval \[-inf, inf\] .*0\.9 at row 1"):
        CQRScore(True).score(Endless(), np.zeros(2), 0.9)
