"""Quantile models take at most twelve fits by default, interpolate eleven levels, and are calibrated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import betabinom
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import Normal, Quantiles
from skuq.recalibration import IsotonicRecalibrator, QuantileShiftRecalibrator
from skuq.regressors import MultiQuantileRegressor, UncertaintyRegressor
from skuq.regressors._multi_quantile import DEFAULT_LEVELS, LevelRegressionRecalibrator, _interpolation
from skuq.regressors._recalibrated import TwoFoldsRegressor
from tests.few_rows import few_rows
from tests.regressors.worlds import heteroscedastic_world, linear_world

FEW = [0.05, 0.35, 0.65, 0.95]


def world(n, seed=0):
    """Normal targets with a standard deviation of their own, and their distribution."""
    rng = np.random.default_rng(seed)
    truth = Normal(rng.normal(size=n), np.exp(0.7 * rng.normal(size=n)))
    return truth, truth.sample(1, random_state=seed)[:, 0]


def fitted(dist, y, weight=None):
    return LevelRegressionRecalibrator().fit(dist, y, weight)


@pytest.mark.parametrize("levels", [FEW, [0.05, 0.5, 0.95], [0.2, 0.3], list(DEFAULT_LEVELS)])
def test_interpolation_is_linear_in_normal_scores(levels):
    knots, shares = _interpolation(np.array(levels), np.array(DEFAULT_LEVELS))
    truth = Normal([2.0, -1.0], [3.0, 0.5])
    values = truth.quantile(levels)
    combined = values[:, knots] + np.diff(values, axis=1) @ shares
    assert_allclose(combined, truth.quantile(DEFAULT_LEVELS), rtol=1e-12)
    own = [DEFAULT_LEVELS.index(level) for level in levels if level in DEFAULT_LEVELS]
    fitted_too = [column for column, level in enumerate(levels) if level in DEFAULT_LEVELS]
    assert np.array_equal(combined[:, own], values[:, fitted_too])


@pytest.mark.parametrize("levels", [FEW, [0.1, 0.5, 0.9], [0.05, 0.2, 0.4, 0.6, 0.8, 0.95]])
def test_quantiles_that_are_right_stay_right(levels):
    truth, y = world(4000)
    recalibrator = fitted(Quantiles(levels, truth.quantile(levels)), y)
    new, y_new = world(4000, 1)
    dist = recalibrator.transform(Quantiles(levels, new.quantile(levels)))
    assert dist.crps(y_new).mean() < 1.005 * new.crps(y_new).mean()


def test_widths_are_corrected_in_proportion():
    """Where all quantiles lie too close together by one factor, shifts alone are wrong for most rows."""
    truth, y = world(4000)
    new, y_new = world(4000, 1)
    narrow, narrow_new = (Quantiles(FEW, Normal(d.mean(), 0.5 * d.std()).quantile(FEW)) for d in (truth, new))
    best = new.crps(y_new).mean()
    regressed = fitted(narrow, y).transform(narrow_new).crps(y_new).mean()
    shifted = QuantileShiftRecalibrator().fit(narrow, y).transform(narrow_new).crps(y_new).mean()
    assert regressed < 1.005 * best < 1.01 * best < shifted
    dist = fitted(narrow, y).transform(narrow_new)
    for rows in np.array_split(np.argsort(new.std()), 3):
        lower, upper = dist[rows].interval(0.9).T
        assert np.mean((lower <= y_new[rows]) & (y_new[rows] <= upper)) == pytest.approx(0.9, abs=0.03)


def test_noise_of_single_levels_averages_out():
    """Quantiles with errors of their own are averaged over the levels, for new rows too."""
    noisy, targets = [], []
    for seed in (0, 1):
        truth, y = world(2000, seed)
        errors = 0.5 * np.random.default_rng(10 + seed).normal(size=(2000, 4))
        noisy.append(Quantiles(FEW, truth.quantile(FEW) + errors))
        targets.append(y)
    regressed = fitted(noisy[0], targets[0]).transform(noisy[1])
    shifted = QuantileShiftRecalibrator(levels=DEFAULT_LEVELS).fit(noisy[0], targets[0]).transform(noisy[1])
    assert regressed.crps(targets[1]).mean() < 0.99 * shifted.crps(targets[1]).mean()


@pytest.mark.parametrize(
    ("factor", "offset", "tolerance"),
    [
        (2.0**-80, 0, 0),
        (2.0**200, 0, 0),
        (1e-6, 0, 1e-6),
        (3e7, 0, 1e-6),
        (1, 16, 1e-5),
        (-(2.0**-80), 0, 1e-4),
    ],
)
def test_units_do_not_matter(factor, offset, tolerance):
    truth, y = world(300)
    values = truth.quantile(FEW) + 0.1 * np.sin(np.arange(1200.0)).reshape(300, 4)
    plain = fitted(Quantiles(FEW, values), y).transform(Quantiles(FEW, values)).values
    scaled = Quantiles(FEW, np.sort(offset + factor * values, axis=1))
    other = (fitted(scaled, offset + factor * y).transform(scaled).values - offset) / factor
    # the mirror image has the levels in reverse
    assert_allclose(other[:, :: int(np.sign(factor))], plain, rtol=tolerance, atol=tolerance)


def test_weights_are_repetitions():
    truth, y = world(200)
    weight = np.random.default_rng(1).integers(0, 4, size=200)
    rows = np.repeat(np.arange(200), weight)
    dist = Quantiles(FEW, truth.quantile(FEW))
    weighted, repeated = fitted(dist, y, weight), fitted(dist[rows], y[rows])
    assert_allclose(weighted.transform(dist).values, repeated.transform(dist).values, rtol=1e-5, atol=1e-6)


@few_rows
def test_few_rows_are_hardly_regressed():
    _, interpolation = _interpolation(np.array(FEW), np.array(DEFAULT_LEVELS))
    departures = []
    for n in (1, 12, 100, 2000):
        truth, y = world(n)
        narrow = Quantiles(FEW, Normal(truth.mean(), 0.5 * truth.std()).quantile(FEW))
        departures.append(np.abs(fitted(narrow, y).slopes_ - interpolation).max())
    assert departures[0] < 0.05
    assert departures[1] < 0.3 * departures[3]
    assert departures == sorted(departures)


def test_forecasts_without_error_stay_as_they_are():
    y = np.arange(30.0)
    dist = Quantiles(FEW, np.repeat(y[:, np.newaxis], 4, axis=1))
    recalibrated = fitted(dist, y).transform(dist)
    assert np.array_equal(recalibrated.quantile([0.05, 0.5, 0.95]), np.repeat(y[:, np.newaxis], 3, axis=1))
    with pytest.raises(TypeError, match="`dist` must be Quantiles, got Normal"):
        fitted(Normal([0.0, 1.0], [1.0, 1.0]), [0.0, 1.0])


def test_an_atom_of_the_lower_levels_remains():
    """Half of the targets are 0, and the quantiles say so."""
    rng = np.random.default_rng(0)
    scale = np.exp(0.5 * rng.normal(size=2000))
    y = np.where(rng.random(2000) < 0.5, 0.0, scale * rng.exponential(size=2000))
    above = np.array([0.0, 0.0, -np.log(0.35 / 0.5), -np.log(0.05 / 0.5)])
    dist = Quantiles(FEW, scale[:, np.newaxis] * above)
    recalibrated = fitted(dist, y).transform(dist)
    assert (recalibrated.quantile([0.05, 0.3]) == 0).all()
    assert recalibrated.crps(y).mean() < 1.01 * dist.crps(y).mean()


FITTED = []
"""Level, and training targets, of each fit since the list was emptied."""


@pytest.fixture(autouse=True)
def no_fits():
    FITTED.clear()


class Counted(QuantileRegressor):
    """The quantile of the training targets; each fit is recorded."""

    def fit(self, X, y):
        FITTED.append((self.quantile, np.asarray(y)))
        self.n_features_in_ = X.shape[1]
        self.coef_, self.intercept_ = np.zeros(X.shape[1]), np.quantile(y, self.quantile)
        return self


class CountedBoosting(HistGradientBoostingRegressor):
    def fit(self, X, y):
        FITTED.append((self.quantile, np.asarray(y)))
        return super().fit(X, y)


class OwnQuantiles(RegressorMixin, BaseEstimator):
    """A model whose parameter of the level only the user knows."""

    def __init__(self, tau=0.5):
        self.tau = tau

    def fit(self, X, y):
        FITTED.append((self.tau, np.asarray(y)))
        self.value_ = np.quantile(y, self.tau)
        return self

    def predict(self, X):
        return np.full(len(X), self.value_)


def fits(model, n=120, **params):
    X, y = linear_world(n)
    FITTED.clear()
    model.fit(X, y, **params)
    return len(FITTED)


@few_rows
@pytest.mark.parametrize("effort", ["low", "standard"])
def test_at_most_twelve_fits(effort):
    options = {"effort": effort, "random_state": 0}
    own = UncertaintyRegressor(
        OwnQuantiles(), "recalibrated", method_params={"quantile_param": "tau"}, **options
    )
    isotonic = {"recalibrator": IsotonicRecalibrator()}
    inner = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), Counted()))
    for n in (5, 99, 100, 401):
        for model in (
            UncertaintyRegressor(Counted(), **options),
            UncertaintyRegressor(inner, **options),
            UncertaintyRegressor(CountedBoosting(loss="quantile", quantile=0.3, max_iter=2), **options),
            UncertaintyRegressor(Counted(), method_params=isotonic, **options),
            own,
        ):
            assert fits(model, n) == 12


@pytest.mark.parametrize(
    ("options", "n_fits"),
    [
        ({"effort": "high"}, 11 * 6),
        ({"effort": "high", "cv": 2}, 11 * 3),
        ({"cv": 3}, 4 * 4),
        ({"cv": KFold(5)}, 4 * 6),
        ({"method_params": {"levels": [0.1, 0.5, 0.9]}}, 3 * 3),
        ({"method_params": {"levels": DEFAULT_LEVELS}, "effort": "low"}, 11 * 3),
        ({"method_params": {"levels": [0.1, 0.9]}, "effort": "high"}, 2 * 6),
        ({"method_params": {"levels": [0.1, 0.9]}, "cv": 4}, 2 * 5),
        ({"method_params": {"ensemble": True}}, 8),
        ({"method": "quantile"}, 11),
    ],
    ids=str,
)
def test_options_keep_their_meaning(options, n_fits):
    assert fits(UncertaintyRegressor(Counted(), random_state=0, **options)) == n_fits
    levels = options.get("method_params", {}).get("levels")
    if levels is not None:
        assert {level for level, _ in FITTED} == set(levels)


def test_chosen_levels_are_shifted_one_by_one():
    X, y = linear_world(120)
    levels = [0.1, 0.3, 0.9]
    front = UncertaintyRegressor(Counted(), method_params={"levels": levels}, random_state=0).fit(X, y)
    (recalibrator,) = front.estimator_.recalibrators_
    assert isinstance(recalibrator.recalibrator_, QuantileShiftRecalibrator)
    assert set(levels) <= set(recalibrator.recalibrator_.levels_)


@pytest.mark.parametrize("effort", ["low", "standard"])
def test_one_fit_for_all_levels_keeps_eleven(effort):
    package = pytest.importorskip("catboost")
    X, y = heteroscedastic_world(60)
    options = {"verbose": False, "thread_count": 1, "allow_writing_files": False}
    model = package.CatBoostRegressor(3, loss_function="Quantile:alpha=0.5", **options)
    front = UncertaintyRegressor(model, effort=effort, random_state=0).fit(X, y)
    (inner,) = front.estimator_.estimators_
    assert len(inner.estimators_) == 1
    assert tuple(inner.levels_) == DEFAULT_LEVELS
    assert not isinstance(front.estimator_, TwoFoldsRegressor)


@pytest.mark.parametrize(("n", "share"), [(60, 0.5), (100, 0.25), (240, 0.25)])
def test_two_folds_are_disjoint_and_calibrate(n, share):
    X, _ = linear_world(n)
    y = np.arange(n) / 1.0  # a target names its row
    model = TwoFoldsRegressor(MultiQuantileRegressor(Counted(), [0.1, 0.9]), random_state=3)
    model.fit(X, y)
    trained = [set(rows) for level, rows in FITTED if level == 0.1]
    assert [len(rows) for rows in trained] == [round((1 - share) * n), round((1 - share) * n), n]
    left_out = [set(y) - rows for rows in trained[:2]]
    assert not left_out[0] & left_out[1]


@pytest.mark.parametrize("n", [60, 120])
def test_fit_transform_fits_the_same_model_and_leaves_each_row_out(n):
    X, _ = linear_world(n)
    y = np.arange(n) + 0.5
    front = UncertaintyRegressor(Counted(), random_state=1)
    out_of_sample = front.fit_transform(X, y)
    assert len(FITTED) == (12 if n < 100 else 20)
    trained = [set(rows) for level, rows in FITTED if level == 0.05 and len(rows) < n]
    assert sorted(row for rows in trained for row in set(y) - rows) == list(y)
    assert len(out_of_sample) == n
    plain = clone(front).fit(X, y)
    assert np.array_equal(front.predict_interval(X), plain.predict_interval(X))


@pytest.mark.laws
def test_heteroscedastic_noise_is_covered():
    n, m = 600, 2000
    k = n // 2  # rows of the two folds
    boosting = GradientBoostingRegressor(loss="quantile", n_estimators=60, max_depth=2, random_state=0)
    X, y = heteroscedastic_world(n + m, seed=4)
    model = UncertaintyRegressor(boosting, random_state=0).fit(X[:n], y[:n])
    raw = MultiQuantileRegressor(boosting).fit(X[:n], y[:n])
    for coverage in (0.5, 0.8, 0.9, 0.95):
        rank = coverage * (k + 1)
        low, high = betabinom.ppf([0.005, 0.995], m, rank, k + 1 - rank)
        lower, upper = model.predict_interval(X[n:], coverage).T
        assert low <= np.sum((lower <= y[n:]) & (y[n:] <= upper)) <= high
    dist = model.predict_dist(X[n:])
    assert dist.crps(y[n:]).mean() < raw.predict_dist(X[n:]).crps(y[n:]).mean()
    noisy = np.abs(X[n:, 0]) > 1.5
    assert dist.std()[noisy].mean() > 1.25 * dist.std()[np.abs(X[n:, 0]) < 0.5].mean()
