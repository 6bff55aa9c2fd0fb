"""Scores relative to a reference."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_regression
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import cross_val_score

from skuq.distributions import Empirical, Normal, StudentT
from skuq.exceptions import NoDensityError
from skuq.metrics import (
    crps_loss,
    crps_skill_score,
    get_scorer,
    get_scorer_names,
    make_scorer,
    mean_standardized_log_loss,
    nll_loss,
)
from skuq.metrics._skill import climatology_crps

BOTH = pytest.mark.parametrize("metric", [crps_skill_score, mean_standardized_log_loss])


@pytest.fixture
def train():
    return np.random.default_rng(3).normal(1.0, 2.0, size=37)


def test_climatology_is_the_crps_of_an_ensemble_of_all_training_targets(train):
    y = np.concatenate([np.random.default_rng(0).normal(size=20), train[:3], [1e6, -1e6]])
    for members in (train, np.round(train), train[:1], train + 1e9):
        expected = Empirical(np.tile(members, (y.size, 1))).crps(y)
        np.testing.assert_allclose(climatology_crps(y, members), expected, rtol=1e-9, atol=1e-7)


def test_skill_by_hand(forecast, train):
    y, dist = forecast
    reference = crps_loss(y, Empirical(np.tile(train, (y.size, 1))))
    expected = 1 - crps_loss(y, dist) / reference
    assert crps_skill_score(y, dist, y_train=train) == pytest.approx(expected, rel=1e-12)
    assert crps_skill_score(y, dist, reference=Empirical([train])) == pytest.approx(expected, rel=1e-12)
    normal = Normal(np.full(y.size, train.mean()), np.full(y.size, train.std()))
    expected = nll_loss(y, dist) - nll_loss(y, normal)
    assert mean_standardized_log_loss(y, dist, y_train=train) == pytest.approx(expected, rel=1e-12)


@BOTH
def test_one_row_of_reference_stands_for_all(metric, forecast):
    y, dist = forecast
    one = StudentT([0.3], [4.0], df=5.0)
    each = StudentT(np.full(y.size, 0.3), np.full(y.size, 4.0), df=5.0)
    weight = np.random.default_rng(0).integers(0, 3, size=y.size)
    for options in ({}, {"sample_weight": weight}):
        value = metric(y, dist, reference=one, **options)
        assert value == pytest.approx(metric(y, dist, reference=each, **options), rel=1e-12)
    frozen = stats.t(5.0, 0.3, 4.0)
    assert metric(y, dist, reference=frozen) == pytest.approx(metric(y, dist, reference=one), rel=1e-9)


@BOTH
def test_reference_of_itself_has_no_skill(metric, forecast):
    y, dist = forecast
    weight = np.random.default_rng(0).integers(0, 3, size=y.size)
    for options in ({}, {"sample_weight": weight}):
        assert metric(y, dist, reference=dist, **options) == pytest.approx(0, abs=1e-14)


@BOTH
def test_reference_is_required_once(metric, forecast, train):
    y, dist = forecast
    with pytest.raises(
        TypeError, match="exactly one of `y_train` and `reference` must be given, got neither"
    ):
        metric(y, dist)
    with pytest.raises(TypeError, match="got both"):
        metric(y, dist, y_train=train, reference=dist)
    with pytest.raises(ValueError, match="`reference` must have 600 rows or one row, got 3"):
        metric(y, dist, reference=dist[:3])
    with pytest.raises(ValueError, match="`y_train` must be finite"):
        metric(y, dist, y_train=[1.0, np.nan])
    with pytest.raises(TypeError, match=r"\(loc, scale\)"):
        metric(y, dist, reference=np.zeros((600, 2)))


def test_constant_training_targets(forecast):
    y, dist = forecast
    assert crps_skill_score(y, dist, y_train=[1.0, 1.0]) == pytest.approx(
        1 - crps_loss(y, dist) / np.mean(np.abs(y - 1))
    )
    with pytest.raises(ValueError, match="`y_train` must contain different values, got 1 in every row"):
        mean_standardized_log_loss(y, dist, y_train=[1.0, 1.0])
    with pytest.raises(NoDensityError):
        mean_standardized_log_loss(y, dist, reference=Normal([1.0], [0.0]))


def test_reference_without_error():
    y = np.array([1.0, 1.0])
    assert crps_skill_score(y, (y, np.zeros(2)), y_train=[1.0]) == 0
    assert crps_skill_score(y, (y, np.ones(2)), y_train=[1.0]) == -np.inf


def test_perfect_forecast_has_all_the_skill_there_is(train):
    y = np.array([0.3, 4.0])
    assert crps_skill_score(y, (y, np.zeros(2)), y_train=train) == 1


def test_skill_ranks_models_as_the_crps_does(forecast, train):
    y, dist = forecast
    models = [Normal(dist.loc, factor * dist.scale) for factor in (0.3, 0.7, 1.0, 1.3, 3.0)]
    by_loss = np.argsort([crps_loss(y, model) for model in models])
    by_skill = np.argsort([-crps_skill_score(y, model, y_train=train) for model in models])
    np.testing.assert_array_equal(by_loss, by_skill)


def test_skill_of_single_rows_prefers_a_narrow_forecast():
    """The counter-example to propriety: the mean of ratios is not the ratio of means."""
    y = np.random.default_rng(0).normal(size=2000)
    one = Normal([0.0], [1.0])
    mean_skill = {
        scale: np.mean([crps_skill_score([t], ([0.0], [scale]), reference=one) for t in y])
        for scale in (1.0, 0.6)
    }
    assert mean_skill[0.6] > mean_skill[1.0] + 0.02
    assert crps_loss(y, (0 * y, 0 * y + 1.0)) < crps_loss(y, (0 * y, 0 * y + 0.6))


@pytest.mark.parametrize("name", ["crpss", "msll"])
def test_scorers_are_made_with_the_reference_and_not_ready(name):
    X, y = make_regression(n_samples=60, n_features=3, noise=5.0, random_state=0)
    assert not {name, f"neg_{name}"} & set(get_scorer_names())
    with pytest.raises(
        ValueError,
        match=rf"a predefined scorer, got .* Use make_scorer\('{name}', y_train=...\) or "
        rf"make_scorer\('{name}', reference=...\)",
    ):
        get_scorer(name)
    with pytest.raises(TypeError, match="exactly one of 'y_train' and 'reference', got neither"):
        make_scorer(name)
    with pytest.raises(TypeError, match="got 'y_train' and 'reference'"):
        make_scorer(name, y_train=y, reference=Normal([0.0], [1.0]))
    for options in ({"y_train": y}, {"reference": Normal([0.0], [50.0])}):
        scorer = make_scorer(name, **options)
        scores = cross_val_score(BayesianRidge(), X, y, scoring=scorer, cv=3, error_score="raise")
        assert (scores > 0.5).all()  # higher is better for both, the sign of the loss changed
        assert scorer.__name__ == ("crpss" if name == "crpss" else "neg_msll")


def test_a_density_of_zero_is_infinitely_bad_whatever_the_reference_says():
    y, wide = [1e200, 0.0], Normal([0.0, 0.0], [1.0, 1.0])
    assert mean_standardized_log_loss(y, wide, reference=wide) == np.inf
