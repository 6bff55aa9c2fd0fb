"""Online recalibration: reference loop, bound of the theorem, sequences with a shift, atoms, bad input."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import TimeSeriesSplit

from skuq.distributions import Empirical, Normal
from skuq.recalibration import IsotonicRecalibrator, OnlineRecalibrator, StdScalingRecalibrator
from skuq.recalibration._online import LEVELS, TrackedScores
from skuq.regressors import LeastSquaresRegressor, RecalibratedRegressor
from tests.conformal.test_adaptation import autoregressive, weighted
from tests.few_rows import few_rows


def noisy(n, change, seed=0):
    """Standard normal forecasts of targets whose noise doubles."""
    y = np.random.default_rng(seed).normal(scale=np.where(np.arange(n) < change, 1.0, 2.0))
    return Normal(np.zeros(n), 1.0), y


def observe(recalibrator, dist, y, levels):
    """Return the quantiles of every row before its target is observed."""
    quantiles = []
    for t in range(len(y)):
        quantiles.append(recalibrator.transform(dist[[t]]).quantile(levels)[0])
        recalibrator.partial_fit(dist[[t]], y[[t]])
    return np.array(quantiles)


# --------------------------------------------------------------------------- loop and theorem


def tracked_loop(first_maps, scores, levels):
    """Return the tracked quantiles of every step by loops over experts and levels."""
    steps, n_levels = [0.01, 0.03, 0.1, 0.4], len(levels)
    experts = [[float(ndtri(p)) for p in levels] for _ in steps]
    weights, squares, tracked = [1 / 4] * 4, [], []
    edges = [0.0, *((levels[1:] + levels[:-1]) / 2), 1.0]
    for first_map, score in zip(first_maps, scores, strict=True):
        columns = zip(*map(sorted, experts), strict=True)
        tracked.append([sum(w * q for w, q in zip(weights, column, strict=True)) for column in columns])
        v = float(first_map.pieces(np.array([score]))[0])
        losses = []
        for expert in experts:
            pinball = [(v - q) * (p - (v <= q)) for p, q in zip(levels, sorted(expert), strict=True)]
            losses.append(sum((edges[j + 1] - edges[j]) * pinball[j] for j in range(n_levels)))
        weights = weighted(weights, losses, squares)
        for step, expert in zip(steps, experts, strict=True):
            for j, p in enumerate(levels):
                expert[j] += step * (p - (v <= expert[j]))
    return tracked


@pytest.mark.parametrize("window", [None, 60])
def test_the_map_equals_the_loop(window):
    dist, y = noisy(220, change=150)
    recalibrator = OnlineRecalibrator(window=window).fit(dist[:100], y[:100])
    first_maps, quantiles = [], []
    for t in range(100, 220):
        seen = slice(max(0, t - (window or t)) if t > 100 else 0, t)
        first_maps.append(IsotonicRecalibrator().fit(dist[seen], y[seen]).level_map_)
        quantiles.append(recalibrator.level_map_.pieces.inverse(ndtri(LEVELS)))
        recalibrator.partial_fit(dist[[t]], y[[t]])
    wanted = tracked_loop(first_maps, y[100:], LEVELS)
    for first_map, tracked, found in zip(first_maps, wanted, quantiles, strict=True):
        assert_allclose(found, first_map.pieces.inverse(np.array(tracked)), rtol=1e-12, atol=1e-12)
    assert np.ptp([row[0] for row in wanted]) > 0.2


@pytest.mark.parametrize("path", ["above", "below", "alternating", "random"])
def test_the_share_below_each_unsorted_quantile(path):
    """Angelopoulos, Candès and Tibshirani 2023, prop. 1, at each level and for every sequence."""
    n, bound = 600, 3.0
    for step in (0.03, 0.3):
        rng = np.random.default_rng(0)
        tracked, below = TrackedScores(LEVELS, np.array([step])), np.zeros(LEVELS.size)
        for t in range(n):
            nearest = tracked._quantiles[0, t % LEVELS.size]
            above, under = min(nearest + 1e-3, bound), max(nearest - 1e-3, -bound)
            score = {
                "above": above,
                "below": under,
                "alternating": above if t // 50 % 2 else under,
                "random": rng.uniform(-bound, bound),
            }[path]
            below += score <= tracked._quantiles[0]
            tracked.update(np.array([score]), np.ones(1))
        assert (np.abs(below / n - LEVELS) <= (2 * bound + step) / (step * n)).all()


# --------------------------------------------------------------------------- sequences


def test_after_fit_it_is_the_isotonic_recalibrator_also_with_more_levels(dist, y):
    levels = np.array([0.001, 0.2, 0.5, 0.999])
    wanted = IsotonicRecalibrator().fit(dist, y).transform(dist[:9]).quantile(levels)
    found = OnlineRecalibrator().fit(dist, y).transform(dist[:9]).quantile(levels)
    assert_allclose(found, wanted, rtol=1e-12)
    levels = np.arange(1, 100) / 100
    recalibrator = OnlineRecalibrator(levels=levels).fit(dist[:700], y[:700])
    recalibrator.partial_fit(dist[700:], y[700:])
    assert_array_equal(recalibrator.levels_, levels)
    assert (np.diff(recalibrator.transform(dist[:2]).quantile(levels), axis=1) > 0).all()


def follow(points, y, n):
    """Return the sums of the CRPS of ours and of all earlier residuals, and the levels above each target."""
    residuals = y - points
    dist = Normal(points, residuals[:n].std())
    recalibrator = OnlineRecalibrator().fit(dist[:n], y[:n])
    crps, growing, below = 0.0, 0.0, []
    for t in range(n, len(y)):
        after = recalibrator.transform(dist[[t]])
        crps += after.crps(y[[t]])[0]
        growing += Empirical(residuals[np.newaxis, :t]).crps(residuals[[t]])[0]
        below.append(y[t] <= after.quantile(LEVELS)[0])
        recalibrator.partial_fit(dist[[t]], y[[t]])
    return crps, growing, below


@pytest.mark.laws
def test_crps_and_levels_after_a_shift():
    """The CRPS compared with the distribution of all earlier residuals; bound of the issue: 0.90."""
    X, y = autoregressive(0)
    crps, growing, below = follow(LinearRegression().fit(X[:300], y[:300]).predict(X), y, 300)
    assert crps < 0.9 * growing
    assert np.abs(np.mean(below, axis=0) - LEVELS).max() < 0.02


@pytest.fixture(scope="module")
def price_forecasts(shared_data):
    """For each hour: forecasts of a fixed forest and of a weekly ridge regression from mid 2017 on."""
    data = shared_data("other/zaffran2022_prices")
    found = {"forest": [], "ridge": []}
    for _, hour in data.groupby("hour"):
        X, y = hour.drop(columns=["Date", "Spot", "hour"]).to_numpy(), hour["Spot"].to_numpy()
        first, last = (int((hour["Date"] < date).sum()) for date in ("2017-07-01", "2019-01-01"))
        scaled = (X - X[:first].mean(axis=0)) / X[:first].std(axis=0)
        forest = RandomForestRegressor(50, max_features=0.33, random_state=0).fit(X[:first], y[:first])
        weekly = [
            Ridge(10).fit(scaled[:t], y[:t]).predict(scaled[t : t + 7]) for t in range(first, len(y), 7)
        ]
        for name, points in (("forest", forest.predict(X[first:])), ("ridge", np.concatenate(weekly))):
            found[name].append((points, y[first:], last - first))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("forest", 0.98), ("ridge", 1.0)])
def test_prices_of_2019(price_forecasts, name, most):
    """The CRPS compared with all earlier residuals, and the share below each level over 8760 hours."""
    parts = zip(*(follow(*hour) for hour in price_forecasts[name]), strict=True)
    crps, growing, below = map(list, parts)
    below = np.concatenate(below)
    assert len(below) == 8760
    assert sum(crps) <= most * sum(growing)
    assert np.abs(below.mean(axis=0) - LEVELS).max() < 0.02


def test_rows_together_were_predicted_together():
    dist, y = noisy(130, change=60)
    weight = np.arange(30) % 3 + 1
    rows = np.repeat(np.arange(100, 130), weight)
    fitted = [OnlineRecalibrator().fit(dist[:100], y[:100]) for _ in range(3)]
    fitted[0].partial_fit(dist[100:], y[100:], sample_weight=weight)
    fitted[1].partial_fit(dist[rows], y[rows])
    fitted[2].partial_fit(dist[rows[::-1]], y[rows[::-1]])
    for other in fitted[1:]:
        assert_allclose(other.level_map_.inverse(LEVELS), fitted[0].level_map_.inverse(LEVELS), rtol=1e-11)
    assert fitted[0].n_calibration_ == 100 + weight.sum()


def test_the_window_bounds_the_memory_and_the_state_resumes():
    dist, y = noisy(250, change=120)
    recalibrator = OnlineRecalibrator(window=80).fit(dist[:100], y[:100])
    assert recalibrator.n_calibration_ == 100
    observe(recalibrator, dist[100:190], y[100:190], [0.5])
    resumed = pickle.loads(pickle.dumps(recalibrator))
    assert recalibrator.n_calibration_ == 80
    expected = observe(recalibrator, dist[190:], y[190:], LEVELS)
    assert_array_equal(observe(resumed, dist[190:], y[190:], LEVELS), expected)


def test_atoms_and_targets_outside_the_support():
    """A target on an atom is divided over its levels, and a target outside is beyond all levels."""
    rng = np.random.default_rng(0)
    members = rng.integers(0, 6, size=(200, 5)).astype(float)
    y = rng.integers(0, 6, size=200).astype(float)
    counts = Empirical(np.tile(np.arange(6.0), (200, 1)))
    recalibrator = OnlineRecalibrator().fit(counts[:100], y[:100])
    quantiles = observe(recalibrator, counts[100:], y[100:], [0.25, 0.5, 0.75])
    assert set(np.unique(quantiles)) <= set(range(6))
    assert recalibrator.outside_share_ == 0
    recalibrator.partial_fit(counts[:50], np.full(50, 9.0))
    assert recalibrator.outside_share_ == pytest.approx(50 / 250)
    assert np.isfinite(recalibrator.transform(counts[:3]).crps(y[:3])).all()
    with pytest.raises(ValueError, match="OnlineRecalibrator cannot extend the support"):
        OnlineRecalibrator().fit(Empirical(members), y + 20)


# --------------------------------------------------------------------------- in a regressor


@pytest.fixture(scope="module")
def rows():
    X, y = autoregressive(0)
    return X[:900], y[:900]


@pytest.mark.parametrize("ensemble", [False, True])
def test_in_a_recalibrated_regressor(rows, ensemble):
    X, y = rows
    model = RecalibratedRegressor(
        LeastSquaresRegressor(), OnlineRecalibrator(window=100), cv=TimeSeriesSplit(2), ensemble=ensemble
    ).fit(X[:300], y[:300])
    point = model.estimators_[0].predict(X[300:310])
    by_hand = pickle.loads(pickle.dumps(model.recalibrators_[0]))
    model.partial_fit(X[300:310], y[300:310])
    dist = model.predict_dist(X[310:320])
    assert_array_equal(model.predict_interval(X[310:320], 0.9), dist.interval(0.9))
    assert_array_equal(model.predict_quantiles(X[310:320], [0.3, 0.8]), dist.quantile([0.3, 0.8]))
    by_hand.partial_fit(model.estimators_[0].predict_dist(X[300:310]), y[300:310])
    assert_array_equal(by_hand.levels_, model.recalibrators_[0].levels_)
    assert by_hand.level_map_.equals(model.recalibrators_[0].level_map_)
    assert_array_equal(model.estimators_[0].predict(X[300:310]), point)
    assert model.recalibrators_[0].n_calibration_ == 100


def test_the_last_rows_of_random_folds_are_the_latest(rows):
    X, y = rows
    model = RecalibratedRegressor(BayesianRidge(), OnlineRecalibrator(window=50), random_state=0)
    model.fit(X[:200], y[:200]).partial_fit(X[200:201], y[200:201])
    kept = model.recalibrators_[0]._rows.lower
    scores = (y[:200] - BayesianRidge().fit(X[:200], y[:200]).predict(X[:200])) / y[:200].std()
    assert np.corrcoef(kept[:-1], scores[-49:])[0, 1] > 0.99


def test_other_recalibrators_have_no_partial_fit(rows):
    X, y = rows
    model = RecalibratedRegressor(LeastSquaresRegressor(), StdScalingRecalibrator()).fit(X, y)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"has no attribute 'partial_fit'") as caught:
        model.partial_fit(X, y)
    assert "Use OnlineRecalibrator()" in str(caught.value.__cause__)
    counts = RecalibratedRegressor(LeastSquaresRegressor(), OnlineRecalibrator(), support="count")
    counts.fit(X, np.round(np.abs(y)))
    with pytest.raises(ValueError, match="count"):
        counts.partial_fit(X, y - 9)


# --------------------------------------------------------------------------- bad input


def test_bad_rows_change_nothing(rows):
    X, y = rows
    model = RecalibratedRegressor(LeastSquaresRegressor(), OnlineRecalibrator(), random_state=0).fit(X, y)
    (recalibrator,) = model.recalibrators_
    before, dist = recalibrator.level_map_, model.estimators_[0].predict_dist(X[:5])
    for bad, target, words in (
        (X[:5], np.array([0, 1, np.nan, 3, 4]), "NaN"),
        (X[:5], y[:4], "inconsistent"),
        (np.c_[X, X][:5], y[:5], "2 features"),
        (X[:0], y[:0], "0 sample|at least one"),
    ):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(bad, target)
    for target, weight, words in (
        (np.append(y[:4], np.inf), None, "finite, got inf at row 4"),
        (y[:4], None, "5 rows"),
        (y[:5], np.zeros(5), "positive sum"),
        (y[:5], np.full(5, 0.4), "repetitions"),
    ):
        with pytest.raises(ValueError, match=words):
            recalibrator.partial_fit(dist, target, sample_weight=weight)
    assert recalibrator.level_map_ is before


@few_rows
def test_bad_parameters():
    dist, y = noisy(20, change=20)
    with pytest.raises(NotFittedError):
        OnlineRecalibrator().partial_fit(dist, y)
    for params, words in (
        ({"levels": [0.5]}, "at least two levels, got 1"),
        ({"levels": [0.5, 0.2]}, "increasing"),
        ({"levels": [0.0, 0.5]}, "`levels`"),
        ({"window": 0}, "`window`"),
    ):
        with pytest.raises(ValueError, match=words):
            OnlineRecalibrator(**params).fit(dist, y)


def test_equal_targets_and_exact_forecasts():
    """A forecast that is always right has no loss, and stays right."""
    dist = Normal(np.arange(40.0), 0.0)
    recalibrator = OnlineRecalibrator().fit(dist[:20], np.arange(20.0))
    recalibrator.partial_fit(dist[20:], np.arange(20.0, 40.0))
    assert_array_equal(recalibrator.transform(dist).interval(0.9), np.c_[np.arange(40.0), np.arange(40.0)])
