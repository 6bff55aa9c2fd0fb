"""Coverage and warnings of regressors that are fitted on few rows."""

import inspect

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsRegressor

import skuq.recalibration
from skuq.conformal import ConformalRecalibrator
from skuq.distributions import Normal
from skuq.exceptions import SmallSampleWarning
from skuq.recalibration import (
    IdentityRecalibrator,
    IsotonicRecalibrator,
    OperatingPointRecalibrator,
    StdScalingRecalibrator,
    SupportMap,
)
from skuq.regressors import (
    BootstrapRegressor,
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from skuq.regressors._forest_distribution import ForestShape

FOREST = RandomForestRegressor(20, random_state=0)
POOL = [("residual", ResidualRegressor(Ridge())), ("forest", ForestDistributionRegressor(FOREST))]
METHODS = {
    "forest": ForestDistributionRegressor(FOREST, random_state=0),
    "residual": ResidualRegressor(Ridge(), random_state=0),
    "residual, low": ResidualRegressor(Ridge(), effort="low", random_state=0),
    "residual, center model": ResidualRegressor(Ridge(), center="model", random_state=0),
    "bootstrap": BootstrapRegressor(Ridge(), 20, random_state=0),
    "pool": MixtureRegressor(POOL, random_state=0),
    "recalibrated": RecalibratedRegressor(LeastSquaresRegressor(), random_state=0),
    "default": UncertaintyRegressor(KNeighborsRegressor(2), random_state=0),
}
every_method = pytest.mark.parametrize("method", METHODS)


def world(n, seed):
    """Return rows of a linear mean, with noise whose scale grows with the second column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, 3 * X[:, 0] + (0.5 + X[:, 1]) * rng.normal(size=n)


def mean_coverage(method, n, n_sets=12):
    """Return the mean coverage of 90 % intervals, exactly for each of some new rows."""
    X_new = np.random.default_rng(99).uniform(size=(100, 2))
    truth = stats.norm(3 * X_new[:, 0], 0.5 + X_new[:, 1])
    coverages = []
    for seed in range(n_sets):
        lower, upper = METHODS[method].fit(*world(n, seed)).predict_interval(X_new).T
        coverages.append(np.mean(truth.cdf(upper) - truth.cdf(lower)))
    return np.mean(coverages)


@pytest.mark.parametrize("n", [12, pytest.param(20, marks=pytest.mark.laws)])
@pytest.mark.parametrize(
    "method",
    [
        "forest",
        "residual",
        *(
            pytest.param(name, marks=pytest.mark.laws)
            for name in ("residual, low", "residual, center model", "pool")
        ),
    ],
)
def test_intervals_cover_after_training_on_few_rows(method, n):
    assert 0.87 <= mean_coverage(method, n) <= 0.95


@every_method
def test_few_rows_give_one_warning_and_twelve_rows_none(method):
    for n in (8, 11):
        X, y = world(n, 0)
        words = f"at least 12 rows for calibration, got {n}\\."
        with pytest.warns(SmallSampleWarning, match=words) as caught:
            METHODS[method].fit(X, y)
        assert len(caught) == 1
        assert caught[0].filename == __file__
    METHODS[method].fit(*world(12, 0))  # a warning is an error


@pytest.mark.parametrize("method", ["residual", pytest.param("pool", marks=pytest.mark.laws)])
def test_groups_are_counted_instead_of_rows(method):
    model = clone(METHODS[method]).set_params(cv=GroupKFold(4))
    X, y = world(60, 0)
    with pytest.warns(SmallSampleWarning, match="at least 12 groups of rows for calibration, got 11\\."):
        model.fit(X, y, groups=np.arange(60) % 11)
    model.fit(X, y, groups=np.arange(60) % 12)


@pytest.mark.laws
def test_few_groups_are_covered_by_wider_intervals():
    rng = np.random.default_rng(1)
    coverages = []
    for _ in range(16):
        group = np.repeat(np.arange(14), 5)
        X = rng.normal(size=(70, 2))
        y = X[:, 0] + rng.normal(size=14)[group]  # rows of a group share their error
        model = ResidualRegressor(LinearRegression(), cv=GroupKFold(4), random_state=0)
        lower, upper = model.fit(X, y, groups=group).predict_interval(X_new := rng.normal(size=(50, 2))).T
        truth = stats.norm(X_new[:, 0], 1)
        coverages.append(np.mean(truth.cdf(upper) - truth.cdf(lower)))
    assert 0.87 <= np.mean(coverages) <= 0.95


@pytest.mark.parametrize("method", ["forest", "residual", "bootstrap"])
def test_rows_count_by_their_repetitions(method):
    X, y = world(20, 0)
    model = METHODS[method]
    with pytest.warns(SmallSampleWarning, match="got"):
        model.fit(X, y, sample_weight=np.repeat([1.0, 0.0], [8, 12]))
    METHODS["residual"].fit(X, y, sample_weight=np.repeat([2.0, 0.0], [8, 12]))


def test_repeated_rows_and_weights_give_the_same_width():
    X, y = world(10, 0)
    folds = [(np.arange(5), np.arange(5, 10)), (np.arange(5, 10), np.arange(5))]
    twice = [(np.concatenate([a, a + 10]), np.concatenate([b, b + 10])) for a, b in folds]
    weighted = ResidualRegressor(Ridge(), cv=folds, random_state=0).fit(X, y, sample_weight=np.full(10, 2.0))
    repeated = ResidualRegressor(Ridge(), cv=twice, random_state=0).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    assert np.allclose(weighted.predict_dist(X).values, repeated.predict_dist(X).values)


def test_the_folds_of_an_estimator_do_not_warn():
    X, y = world(14, 0)  # folds of 11 rows
    RecalibratedRegressor(
        ResidualRegressor(Ridge(), cv=3), IsotonicRecalibrator(), random_state=0
    ).fit_transform(X, y)


LEARNING = [
    each() if each is not OperatingPointRecalibrator else each(miss_rate=0.1)
    for each in (getattr(skuq.recalibration, name) for name in skuq.recalibration.__all__)
    if not inspect.isabstract(each) and each not in (IdentityRecalibrator, ConformalRecalibrator, SupportMap)
]


@pytest.mark.parametrize("recalibrator", LEARNING, ids=lambda each: type(each).__name__)
def test_recalibrators_of_few_rows_give_one_warning(recalibrator):
    for n in (2, 5, 11):
        y = np.random.default_rng(0).normal(size=n)
        words = f"at least 12 rows for calibration, got {n}\\."
        with pytest.warns(SmallSampleWarning, match=words) as caught:
            recalibrator.fit(Normal(np.zeros(n), 1.0), y)
        assert len(caught) == 1


def test_recalibrators_that_learn_nothing_or_warn_by_themselves_are_silent():
    for recalibrator in (IdentityRecalibrator(), ConformalRecalibrator(), SupportMap("positive")):
        recalibrator.fit(Normal(np.zeros(5), 1.0), np.arange(5.0))
    with pytest.warns(SmallSampleWarning, match=r"got 1\."):
        StdScalingRecalibrator().fit(Normal([0.0], 1.0), [2.0])


def test_zero_weights_and_repetitions_count():
    y = np.random.default_rng(0).normal(size=20)
    dist, weight = Normal(np.zeros(20), 1.0), np.repeat([1.0, 0.0], [6, 14])
    with pytest.warns(SmallSampleWarning, match=r"got 6\."):
        StdScalingRecalibrator().fit(dist, y, sample_weight=weight)
    StdScalingRecalibrator().fit(dist, y, sample_weight=2 * weight)


def test_forests_of_few_rows_have_all_levels_of_a_95_percent_interval():
    z = np.random.default_rng(0).normal(size=12)
    shape = ForestShape.of_residuals(z, np.ones(12), 12.0)
    assert shape.levels[[0, -1]] == pytest.approx([0.025, 0.975])
    assert shape.standard[0] < z.min()
    assert (np.diff(shape.standard) > 0).all()


@pytest.mark.parametrize("n", [9, 19, 20, 30, 38, 60])
def test_distributions_that_are_too_narrow_are_stretched_from_nine_rows_on(n):
    rng = np.random.default_rng(0)
    shape = ForestShape.of_residuals(rng.normal(size=n), np.ones(n), float(n))
    y, leaf = rng.normal(size=n), np.zeros((n, len(shape.levels)))
    loc, scale = np.zeros(n), np.full(n, 0.1)
    stretched = shape.stretched(loc, scale, leaf, y, np.ones(n))
    # the factor is shrunk by the weight of 20 rows
    full = ForestShape(shape.levels, shape.standard, factor=stretched.factor ** ((n + 20) / n))
    quantiles = full.quantiles(loc, scale, None)
    inside = (quantiles[:, [np.argmin(np.abs(shape.levels - 0.05))]].ravel() <= y + 1e-9) & (
        y - 1e-9 <= quantiles[:, [np.argmin(np.abs(shape.levels - 0.95))]].ravel()
    )
    assert inside.sum() == min(np.ceil(0.9 * (n + 1) - 1e-9), n)


def test_shapes_of_many_rows_are_those_of_the_sample():
    z = np.random.default_rng(0).gamma(2.0, size=10**5)
    shape = ForestShape.of_residuals(z, np.ones(len(z)), float(len(z)))
    assert np.allclose(shape.standard, np.quantile(z, shape.levels, method="weibull"), atol=3e-3)
