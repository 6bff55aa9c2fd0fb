"""Conformal maps of levels, and the method "pit" of `ConformalRegressor`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skuq._numeric import WeightedRanks
from skuq.conformal import ConformalRegressor
from skuq.conformal._scores import conformal_level_map
from skuq.distributions import Empirical, Normal, Quantiles, ScipyDistribution
from skuq.distributions._recalibrated import Recalibrated
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.prediction import predict_dist
from skuq.regressors import MultiQuantileRegressor


class Given(RegressorMixin, BaseEstimator):
    """Fitted regressor with distributions that a function of x gives."""

    def __init__(self, dist=None):
        self.dist = dist

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return self.dist(X).mean()

    def predict_dist(self, X):
        return self.dist(X)


def narrow(X):
    return Normal(X[:, 0], 0.5)


def pit_model(X, y, dist=narrow, **options):
    return ConformalRegressor(FrozenEstimator(Given(dist).fit(X, y)), "pit", **options).fit(X, y)


def world(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    return X, X[:, 0] + rng.normal(size=n)


def test_the_interval_is_between_two_neighboring_order_statistics():
    X, y = world(199)
    X_new, _ = world(50, seed=1)
    model = pit_model(X, y)
    scores = np.sort(np.abs(y - X[:, 0]))  # F is normal with one scale, so levels are ordered as residuals
    for coverage in (0.1, 0.5, 0.801, 0.9, 0.95):
        rank = int(np.ceil(200 * coverage - 1e-9))
        half = np.diff(model.predict_interval(X_new, coverage), axis=1)[:, 0] / 2
        assert (half > scores[rank - 1] * (1 - 1e-9)).all()
        assert (half <= scores[rank] * (1 + 1e-9)).all()


@pytest.mark.parametrize("symmetric", [True, False])
def test_intervals_and_distribution_agree_exactly(symmetric):
    X, y = world(300)
    model = pit_model(X, y, symmetric=symmetric)
    dist = predict_dist(model, X)
    assert isinstance(dist, Recalibrated)
    for coverage in (0.01, 0.5, 0.9, 0.99):
        assert_array_equal(model.predict_interval(X, coverage), dist.interval(coverage))
    assert np.isfinite(dist.logpdf(y)).all()


FORECASTS = {
    "poisson": lambda X: ScipyDistribution(stats.poisson(1.5 * np.exp(X[:, 0]))),
    "normal": lambda X: Normal(np.exp(X[:, 0]), 0.3),
    "ensemble": lambda X: Empirical(np.broadcast_to(np.arange(12.0), (len(X), 12))),
    "skewed": lambda X: Quantiles(
        np.arange(1, 40) / 40, np.outer(np.exp(X[:, 0]), np.arange(39) ** 1.5 / 20)
    ),
}


@pytest.mark.parametrize("symmetric", [True, pytest.param(False, marks=pytest.mark.laws)])
@pytest.mark.parametrize(
    "family", ["poisson", *(pytest.param(f, marks=pytest.mark.laws) for f in list(FORECASTS)[1:])]
)
def test_the_coverage_is_at_least_nominal_for_wrong_forecasts(family, symmetric):
    inside, n = [], 99
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = 0.3 * rng.normal(size=(n + 20, 1))
        y = rng.poisson(np.exp(X[:, 0])).astype(float)
        model = pit_model(X[:n], y[:n], FORECASTS[family], symmetric=symmetric)
        bounds = model.predict_interval(X[n:], 0.8)
        inside.append(((bounds[:, 0] <= y[n:]) & (y[n:] <= bounds[:, 1])).mean())
    error = np.std(inside) / np.sqrt(len(inside))
    assert np.mean(inside) > 0.8 - 3 * error
    if family == "normal" and symmetric:
        assert np.mean(inside) < 0.9


def test_groups_have_their_own_maps():
    X, y = world(600)
    labels = X[:, 0] > 0
    y = np.where(labels, X[:, 0] + 3 * (y - X[:, 0]), y)
    grouped = pit_model(X, y, group_by=lambda X: X[:, 0] > 0)
    for label in (True, False):
        rows = labels == label
        alone = pit_model(X[rows], y[rows])
        assert_array_equal(grouped.predict_interval(X)[rows], alone.predict_interval(X[rows]))


def test_weights_are_repetitions():
    X, y = world(200)
    times = np.random.default_rng(1).integers(0, 4, 200)
    weighted = ConformalRegressor(FrozenEstimator(Given(narrow).fit(X, y)), "pit")
    weighted.fit(X, y, sample_weight=times.astype(float))
    repeated = pit_model(np.repeat(X, times, axis=0), np.repeat(y, times))
    # a tie has one knot, at the level of its first row
    assert_allclose(weighted.predict_interval(X), repeated.predict_interval(X), rtol=1e-9)


def test_many_scores_share_knots_and_stay_conservative():
    scores = np.abs(np.random.default_rng(0).normal(size=20_000))
    ranks = WeightedRanks(scores)
    level_map = conformal_level_map(ranks, ranks, True)
    assert level_map.levels.size < 1100
    coverage = np.linspace(0.01, 0.999, 300)
    reached = np.array(
        [(scores <= score).mean() for score in level_map.pieces.inverse(ndtri((1 + coverage) / 2))]
    )
    assert (reached >= coverage - 1e-12).all()
    assert (reached <= coverage + 0.005).all()
    ranks = WeightedRanks(np.array([0.5, 1.0, 60.0, 80.0, np.inf]))  # levels far outside
    assert ndtr(conformal_level_map(ranks, ranks, True).pieces(np.array([59.0]))) < 1


def test_around_a_fitted_model_it_beats_normalized_where_the_shape_varies():
    rng = np.random.default_rng(0)

    def rows(n):
        X = rng.uniform(-1, 1, size=(n, 2))
        noise = np.where(X[:, 0] > 0, rng.standard_exponential(n) - 1, rng.normal(size=n))
        return X, X[:, 1] + noise

    def true_shape(X):
        levels = np.append(np.arange(1, 40) / 40, 0.999)
        exponential, normal = -np.log1p(-levels) - 1, Normal(0.0, 1.0).quantile(levels)[0]
        return Quantiles(levels, X[:, 1:] + np.where(X[:, :1] > 0, exponential, normal))

    X, y = rows(2000)
    X_new, y_new = rows(4000)
    scores = {}
    for method in ("pit", "normalized"):
        model = ConformalRegressor(FrozenEstimator(Given(true_shape).fit(X, y)), method).fit(X, y)
        low, high = model.predict_interval(X_new).T
        scores[method] = (high - low + 20 * (np.maximum(low - y_new, 0) + np.maximum(y_new - high, 0))).mean()
    assert scores["pit"] < 0.97 * scores["normalized"]


def test_with_a_basis():
    X, y = world(600)
    model = ConformalRegressor(
        FrozenEstimator(Given(narrow).fit(X, y)), "pit", basis=lambda X: X[:, 0] > 0
    ).fit(X, y)
    X_new, y_new = world(2000, seed=3)
    bounds = model.predict_interval(X_new)
    assert abs(((bounds[:, 0] <= y_new) & (y_new <= bounds[:, 1])).mean() - 0.9) < 0.03
    assert_allclose(model.predict_dist(X_new).interval(0.9), bounds, rtol=1e-9)


def test_few_rows_and_targets_outside_the_support():
    X, y = world(8)
    with pytest.warns(SmallSampleWarning, match="90 % needs at least 9 calibration rows, got 8"):
        assert np.isinf(pit_model(X, y).predict_interval(X)).all()
    X, y = world(100)
    model = pit_model(X, y, lambda X: Empirical(np.linspace(-1, 1, 11) + X[:, :1]))
    with pytest.warns(SmallSampleWarning, match="are outside the support"):
        bounds = model.predict_interval(X)
    assert_allclose(bounds, X + np.array([-1.0, 1.0]))


def test_what_needs_another_method_or_a_finer_grid():
    X, y = world(100)
    boosting = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, max_iter=5)
    with pytest.raises(ValueError, match=r"got 3 levels from 0\.05 to 0\.95"):
        ConformalRegressor(MultiQuantileRegressor(boosting, levels=[0.05, 0.5, 0.95]), "pit").fit(X, y)
    with pytest.raises(NotProbabilisticError, match="`method` 'pit' needs an estimator with a predictive"):
        ConformalRegressor(LinearRegression(), "pit").fit(X, y)
    with pytest.raises(ValueError, match="`density_ratio` must be None with method 'pit'"):
        pit_model(X, y, density_ratio=lambda X: np.ones(len(X)))
    with pytest.raises(ValueError, match="neither method 'pit' nor `basis`, got `method` 'pit'"):
        pit_model(X, y).partial_fit(X[:1], y[:1])
