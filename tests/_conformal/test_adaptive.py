"""Adaptive conformal inference: the share of misses on every sequence, through the public interface."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge

from skuq.distributions import ConformalPredictive
from skuq.regressors import ConformalRegressor, LeastSquaresRegressor, MultiQuantileRegressor
from tests.regressors.worlds import linear_world

COVERAGES = [0.5, 0.9, 0.99]
N_FIT = 120
MODELS = {
    "split": LinearRegression(),
    "normalized": LeastSquaresRegressor(),
    "cqr": MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.05, 0.5, 0.95]),
}
# Every pair of a method, a symmetry and a window.
PAIRS = [
    ("split", True, False),
    ("split", False, True),
    ("normalized", True, True),
    ("normalized", False, False),
    ("cqr", True, False),
    ("cqr", False, True),
]


@pytest.fixture(scope="module")
def models():
    X, y = linear_world(N_FIT, seed=1)
    return {method: FrozenEstimator(clone(model).fit(X, y)) for method, model in MODELS.items()}


def start(models, method="split", **params):
    """Return a regressor that has seen 100 rows of the world as it was."""
    return ConformalRegressor(models[method], method, **params).fit(*linear_world(100, seed=2))


# How the world goes on: y given the row's number, what its truth would be, and the interval announced for
# 90 % (lower, upper), which an adversary knows.
def steady(t, y, rng, bounds):
    return y


def jump(t, y, rng, bounds):
    return y + 8 * (t > 200) * rng.normal()


def trend(t, y, rng, bounds):
    return y + 0.02 * t


def calm(t, y, rng, bounds):
    return y if t < 100 else 0.01 * y


def waves(t, y, rng, bounds):
    return y + 5 * np.sin(t / 20) * rng.normal()


def outside(t, y, rng, bounds):
    """Always just above the interval, as long as there is an above."""
    return bounds[1] + 0.1 if np.isfinite(bounds[1]) else y


def within(t, y, rng, bounds):
    """Always inside the interval, as long as it has an inside."""
    lower, upper = bounds
    if not np.isfinite(upper):
        return y
    return lower + 0.3 * (upper - lower) if upper > lower else upper + 1


def contrary(t, y, rng, bounds):
    """Inside for a while, then outside for a while."""
    return (within if (t // 150) % 2 else outside)(t, y, rng, bounds)


PATHS = {path.__name__: path for path in (steady, jump, trend, calm, waves, outside, within, contrary)}


def misses(regressor, path, length, together=1, seed=3):
    """Return for each row and coverage whether the announced interval missed."""
    X, y = linear_world(length, seed)
    rng = np.random.default_rng(seed)
    missed = []
    for first in range(0, length, together):
        rows = slice(first, first + together)
        bounds = regressor.predict_interval(X[rows], COVERAGES)
        assert (bounds[:, 0] <= bounds[:, 1]).all()
        seen = np.array([path(first + i, true, rng, bounds[i, :, 1]) for i, true in enumerate(y[rows])])
        outside = (seen[:, np.newaxis] < bounds[:, 0]) | (seen[:, np.newaxis] > bounds[:, 1])
        missed.append(outside | is_empty(regressor, bounds, seen))
        regressor.partial_fit(X[rows], seen)
    return np.concatenate(missed)


def is_empty(regressor, bounds, seen):
    """Say where y falls on the point that stands for an empty interval, which is a miss."""
    empty = np.array([level_of(regressor, coverage) >= 1 for coverage in COVERAGES])
    assert np.array_equal(bounds[0, 0, empty], bounds[0, 1, empty])
    return empty & (seen[:, np.newaxis] == bounds[:, 0])


def level_of(regressor, coverage):
    strategy = regressor._conformal
    return strategy._calibration(coverage).miscoverage(coverage)


def assert_bound(missed, gamma, together=1):
    """Proposition 4.1 of Gibbs and Candes 2021; rows predicted together make one step."""
    alpha = 1 - np.array(COVERAGES)
    bound = (np.maximum(alpha, 1 - alpha) + gamma * together) / (gamma * len(missed))
    assert (bound < 0.2).all()  # else there is little to see
    assert (np.abs(missed.mean(axis=0) - alpha) <= bound).all()


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("path", PATHS)
def test_the_share_of_misses_on_every_path(models, path):
    missed = misses(start(models, gamma=0.05), PATHS[path], 500)
    assert_bound(missed, 0.05)


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize(("method", "symmetric", "windowed"), PAIRS)
def test_the_share_of_misses_by_every_method(models, method, symmetric, windowed):
    regressor = start(models, method, symmetric=symmetric, window=40 if windowed else None, gamma=0.05)
    assert_bound(misses(regressor, contrary, 250), 0.05)


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("together", [7, 25])
@pytest.mark.parametrize("path", ["jump", "outside", "contrary"])
def test_the_share_of_misses_where_rows_are_predicted_together(models, path, together):
    assert_bound(misses(start(models, gamma=0.02), PATHS[path], 1400, together), 0.02, together)


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.005, 0.1])
@pytest.mark.parametrize("path", ["jump", "trend", "outside", "contrary"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", MODELS)
def test_the_share_of_misses_on_long_paths(models, method, symmetric, path, gamma):
    regressor = start(models, method, symmetric=symmetric, window=200, gamma=gamma)
    assert_bound(misses(regressor, PATHS[path], 2000), gamma)


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_without_adaptation_the_drift_is_missed(models):
    """The reason for it; scores that join do not keep up with a trend."""
    missed = misses(start(models, gamma=0.0), trend, 800)
    assert missed[:, 1].mean() > 0.3
    alpha = 1 - np.array(COVERAGES)
    bound = (np.maximum(alpha, 1 - alpha) + 0.05) / (0.05 * 800)
    assert (np.abs(missed.mean(axis=0) - alpha) > bound).any()


@pytest.mark.parametrize(("gamma", "finite"), [(0.0055, True), (0.0056, False)])
def test_the_step_is_that_of_one_row(models, gamma, finite):
    """20 misses in one call, each 0.9 gamma off the aim of 0.1."""
    X, y = linear_world(1500, seed=2)
    regressor = ConformalRegressor(models["split"], gamma=gamma).fit(X, y)
    regressor.partial_fit(X[:20], np.full(20, 1e3))
    assert np.isfinite(regressor.predict_interval(X[:1])).all() == finite


def test_all_groups_share_one_aim(models):
    X, _ = linear_world(100, seed=2)
    regressor = start(models, gamma=0.2, group_by=lambda X: X[:, 0] > 0)
    in_group = X[:, 0] > 0
    assert np.isfinite(regressor.predict_interval(X)).all()
    regressor.partial_fit(X[in_group][:1], [1e3])  # one miss moves the aim by 0.18, from 0.1
    assert np.isinf(regressor.predict_interval(X[~in_group])).all()


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_groups_and_ratios_keep_the_bound(models):
    regressor = start(
        models,
        gamma=0.05,
        group_by=lambda X: X[:, 0] > 0,
        density_ratio=lambda X: np.exp(0.3 * X[:, 1]),
    )
    assert_bound(misses(regressor, contrary, 300), 0.05)


# --------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize(("method", "symmetric", "windowed"), PAIRS)
def test_the_recursion_by_hand(models, method, symmetric, windowed):
    """Every interval is that of the scores of its moment at the miscoverage aimed at in its moment."""
    window = 60 if windowed else None
    regressor = start(models, method, symmetric=symmetric, gamma=0.01, window=window)
    X, y = linear_world(30, seed=5)
    X_seen, y_seen = linear_world(100, seed=2)
    y[10:20] += 5
    level = alpha = 0.2
    for t in range(30):
        bounds = regressor.predict_interval(X[[t]], 1 - alpha)
        if method == "cqr":  # the band stays that of the coverage asked
            band = ConformalRegressor(models[method], method, symmetric=symmetric).fit(X_seen, y_seen)
            dist = models[method].estimator.predict_dist(X_seen).interval(1 - alpha)
            new = models[method].estimator.predict_dist(X[[t]]).interval(1 - alpha)
            below, above = dist[:, 0] - y_seen, y_seen - dist[:, 1]
            n = len(y_seen)
            assert band.n_calibration_ == n
            if symmetric:
                reach = [
                    np.sort(np.maximum(below, above))[int(np.ceil((n + 1) * (1 - level) - 1e-9)) - 1]
                ] * 2
            else:
                k = int(np.ceil((n + 1) * (1 - level / 2) - 1e-9)) - 1
                reach = [np.sort(below)[k], np.sort(above)[k]]
            wanted = new + np.array([[-reach[0], reach[1]]])
        else:
            now = ConformalRegressor(models[method], method, symmetric=symmetric).fit(X_seen, y_seen)
            wanted = now.predict_interval(X[[t]], 1 - level)
        assert np.allclose(bounds, wanted, rtol=1e-12, atol=1e-12)
        missed = not bounds[0, 0] <= y[t] <= bounds[0, 1]
        level += 0.01 * (alpha - missed)
        regressor.partial_fit(X[[t]], y[[t]])
        X_seen, y_seen = np.concatenate([X_seen, X[[t]]]), np.append(y_seen, y[t])
        if window is not None:
            X_seen, y_seen = X_seen[-window:], y_seen[-window:]
        assert regressor.n_calibration_ == len(y_seen)
    assert 0 < level < 0.2  # it has moved, and never so far that a rank is missing


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_recursion_by_hand_with_ratios_and_groups(models, symmetric):
    options = {
        "symmetric": symmetric,
        "group_by": lambda X: X[:, 1] > 0,
        "density_ratio": lambda X: np.exp(2 * X[:, 0]),
    }
    X_seen, y_seen = linear_world(100, seed=2)
    X, y = linear_world(60, seed=11)
    regressor = start(models, gamma=0.01, **options)
    level = alpha = 0.4
    for t in range(60):
        now = ConformalRegressor(models["split"], **options).fit(X_seen, y_seen)
        bounds = now.predict_interval(X[[t]], 1 - level)
        assert np.allclose(regressor.predict_interval(X[[t]], 1 - alpha), bounds, rtol=1e-12, atol=1e-12)
        level += 0.01 * (alpha - (not bounds[0, 0] <= y[t] <= bounds[0, 1]))
        assert level_of(regressor.partial_fit(X[[t]], y[[t]]), 1 - alpha) == pytest.approx(level)
        X_seen, y_seen = np.concatenate([X_seen, X[[t]]]), np.append(y_seen, y[t])


@pytest.mark.parametrize("method", MODELS)
def test_a_coverage_may_be_asked_for_late(models, method):
    """The past is replayed: nobody has to say beforehand which coverage will be wanted."""
    X, y = linear_world(60, seed=6)
    early, late = start(models, method), start(models, method)
    for t in range(60):
        early.predict_interval(X[[t]], [0.8, 0.9])
        for regressor in (early, late):
            regressor.partial_fit(X[[t]], 2 * y[[t]])
    assert np.array_equal(
        early.predict_interval(X, [0.8, 0.9, 0.7]), late.predict_interval(X, [0.8, 0.9, 0.7])
    )


def test_rows_given_together_were_predicted_together(models):
    """None of them has been seen by the interval of another, unlike in a loop."""
    X, y = linear_world(20, seed=7)
    together = start(models, gamma=0.05).partial_fit(X, y + 9)
    one_by_one = start(models, gamma=0.05)
    for t in range(20):
        one_by_one.partial_fit(X[[t]], y[[t]] + 9)
    assert level_of(together, 0.9) == pytest.approx(0.1 - 20 * 0.045)
    assert np.isinf(together.predict_interval(X)).all()
    assert abs(level_of(one_by_one, 0.9)) < 0.05  # it stopped where the interval became the whole line
    calm_rows = start(models, gamma=0.05).partial_fit(X, y)
    level = 0.1 + 0.05 * (20 * 0.1 - (~covers(start(models).predict_interval(X), y)).sum())
    all_rows = ConformalRegressor(models["split"]).fit(
        *(np.concatenate(pair) for pair in zip(linear_world(100, seed=2), (X, y), strict=True))
    )
    assert np.allclose(calm_rows.predict_interval(X), all_rows.predict_interval(X, 1 - level))


def covers(bounds, y):
    return (bounds[:, 0] <= y) & (y <= bounds[:, 1])


def test_weights_count_repetitions(models):
    X, y = linear_world(12, seed=8)
    times = np.arange(12) % 3 + 1
    weighted = start(models).partial_fit(X, y, sample_weight=times)
    repeated = start(models).partial_fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert np.array_equal(weighted.predict_interval(X, COVERAGES), repeated.predict_interval(X, COVERAGES))
    with pytest.raises(ValueError, match="counts repetitions"):
        weighted.partial_fit(X, y, sample_weight=np.full(12, 0.5))


# ---------------------------------------------------------------------------- extreme levels


def test_after_many_misses_the_interval_is_the_whole_line_without_a_warning(models):
    regressor = start(models, gamma=0.5)
    X, y = linear_world(1, seed=9)
    regressor.partial_fit(X, y + 100)
    assert regressor.predict_interval(X).tolist() == [[-np.inf, np.inf]]
    assert np.isfinite(regressor.predict_interval(X, 0.2)).all()


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", MODELS)
def test_after_none_it_is_a_point_which_counts_as_a_miss(models, method, symmetric):
    regressor = start(models, method, symmetric=symmetric, gamma=0.3)
    X, _ = linear_world(5, seed=9)
    exact = [regressor.predict_interval(row[np.newaxis], 0.01).mean() for row in X]
    for row, y in zip(X, exact, strict=True):
        regressor.partial_fit(row[np.newaxis], [y])
    bounds = regressor.predict_interval(X, 0.1)
    assert np.array_equal(bounds[:, 0], bounds[:, 1])
    if method == "split" and symmetric:
        assert np.allclose(bounds[:, 0], regressor.predict(X))
    level = level_of(regressor, 0.1)
    assert level > 1
    regressor.partial_fit(X[:1], bounds[:1, 0])  # on the point, and yet a miss: the level comes down
    assert level_of(regressor, 0.1) == pytest.approx(level + 0.3 * (0.9 - 1))


def test_a_target_that_is_always_hit_keeps_the_level_between_its_bounds():
    """Zeros, predicted as zeros: no interval can miss them, so the levels must not run away."""
    X = np.zeros((40, 1))
    regressor = ConformalRegressor(LinearRegression(), gamma=0.2, random_state=0).fit(X, np.zeros(40))
    for _ in range(60):
        bounds = regressor.predict_interval(X[:1], COVERAGES[:2])
        assert np.array_equal(bounds, np.zeros((1, 2, 2)))
        regressor.partial_fit(X[:1], [0.0])
    for _ in range(6):
        regressor.partial_fit(X[:1], [1.0])
    assert regressor.predict_interval(X[:1], 0.9)[0, 1] > 0


@pytest.mark.parametrize("target", [0.3, 0.1 + 0.2, 1e-3, 12345.678])
def test_ties_count_as_the_bounds_say(target):
    """A score equal to a calibration score is covered or not as the rounded bounds have it."""
    rng = np.random.default_rng(0)
    X = np.zeros((200, 1))
    y = target * rng.integers(1, 5, size=200)
    regressor = ConformalRegressor(LinearRegression(), "split", gamma=0.05, random_state=0).fit(X, y)
    level, asked = 0.3, 0.3
    for value in target * rng.integers(1, 6, size=150):
        lower, upper = regressor.predict_interval(X[:1], 1 - asked)[0]
        level += 0.05 * (asked - (0.0 if lower <= value <= upper and level < 1 else 1.0))
        regressor.partial_fit(X[:1], [value])
        assert level_of(regressor, 1 - asked) == pytest.approx(level, abs=1e-9)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_row_is_missed_from_its_p_value_on(symmetric):
    """9 scores 1 to 9: a score between k and k + 1 has k of 10 ranks below it."""
    X = np.zeros((9, 1))
    model = FrozenEstimator(LinearRegression().fit(X, np.zeros(9)))
    strategy = ConformalRegressor(model, symmetric=symmetric).fit(X, np.arange(1.0, 10))._conformal
    calibration = strategy._calibration()
    rows = strategy._rows(X[:4], np.zeros(4), np.array([0.5, 3.5, 8.5, 9.5]))
    least = calibration._least_missing(rows)
    # Without symmetry, the rank of the nearer bound counts, and each bound has half of the miscoverage.
    wanted = np.array([1.0, 0.7, 0.2, 0.1] if symmetric else [0.2, 0.8, 0.4, 0.2])
    np.testing.assert_allclose(least, [wanted], rtol=0, atol=2e-12)
    assert (least <= wanted).all()  # by the rounding of a rank


# --------------------------------------------------------------------------------- interface


def test_the_model_and_its_point_predictions_stay(models):
    X, y = linear_world(30, seed=10)
    regressor = start(models)
    before = regressor.predict(X)
    assert regressor.partial_fit(X, y) is regressor
    assert np.array_equal(regressor.predict(X), before)
    assert regressor.n_calibration_ == 130
    assert len(regressor.calibration_rows_) == 100


def test_the_distribution_takes_the_scores_but_not_the_levels(models):
    X, y = linear_world(30, seed=10)
    regressor = start(models).partial_fit(X, 3 * y)
    dist = regressor.predict_dist(X)
    assert isinstance(dist, ConformalPredictive)
    assert len(dist.scores) == 130
    assert not np.allclose(dist.interval(), regressor.predict_interval(X))
    gone = start(models, window=10).partial_fit(X, 3 * y).predict_dist(X)
    assert len(gone.scores) == 10
    cqr = start(models, "cqr").partial_fit(X, y).predict_dist(X)
    both = [np.concatenate(pair) for pair in zip(linear_world(100, seed=2), (X, y), strict=True)]
    wanted = ConformalRegressor(models["cqr"], "cqr").fit(*both).predict_dist(X)
    assert np.allclose(cqr.values, wanted.values)


def test_labels_stay_what_they_are_when_others_join(models):
    """Numbers and words side by side: a 1 must not become a "1"."""

    def group_by(X):
        return np.full(1, "strange") if X[0, 0] > 50 else (X[:, 1] > 0).astype(int)

    X, _ = linear_world(30, seed=10)
    regressor = start(models, group_by=group_by, rare_groups="pool", gamma=0.0)
    before = regressor.predict_interval(X)
    regressor.partial_fit(np.full((1, 3), 99.0), [0.0])
    assert np.array_equal(regressor.predict_interval(X), before)


def test_an_unfrozen_model_and_frames_by_name():
    X, y = linear_world(100)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    regressor = ConformalRegressor(Ridge(), random_state=0, group_by="kind")
    frame["kind"] = np.arange(100) % 2
    regressor.fit(frame, y).partial_fit(frame[:4], y[:4])
    assert regressor.n_calibration_ == 29
    with pytest.raises(ValueError, match="feature names"):
        regressor.partial_fit(frame[["b", "a", "c", "kind"]], y)


def test_it_must_be_fitted_before():
    X, y = linear_world(10)
    with pytest.raises(NotFittedError):
        ConformalRegressor(Ridge()).partial_fit(X, y)


def test_fit_begins_anew(models):
    X, y = linear_world(30, seed=10)
    regressor = start(models).partial_fit(X, y)
    again = regressor.fit(*linear_world(100, seed=2))
    assert again.n_calibration_ == 100
    assert np.array_equal(again.predict_interval(X), start(models).predict_interval(X))


def test_bad_rows_change_nothing(models):
    X, y = linear_world(30, seed=10)
    regressor = start(models, group_by=lambda X: np.where(X[:, 0] > 50, "far", "near"))
    before = regressor.predict_interval(X, COVERAGES)
    bad = y.copy()
    bad[3] = np.nan
    strange = X.copy()
    strange[2] = 99
    for rows, target, words in (
        (X, bad, "NaN"),
        (X, y[:-1], "inconsistent"),
        (X[:, :2], y, "2 features"),
        (X[:0], y[:0], "minimum of|at least|0 sample"),
        (X, np.column_stack([y, y]), "one column"),
        (strange, y, "label 'far' at row 2"),
        (X, None, "requires y"),
    ):
        with pytest.raises(ValueError, match=words):
            regressor.partial_fit(rows, target)
    with pytest.raises(TypeError, match="real numbers"):
        regressor.partial_fit(X, ["high"] * 30)
    with pytest.raises(ValueError, match="non-negative"):
        regressor.partial_fit(X, y, sample_weight=-np.ones(30))
    assert regressor.n_calibration_ == 100
    assert np.array_equal(regressor.predict_interval(X, COVERAGES), before)


def test_traffic_by_the_hour_keeps_its_coverage(shared_data):
    """A year and a half after the model was fitted, predicted a day at a time."""
    data = shared_data("other/metro_traffic")
    time = pd.to_datetime(data["date_time"])
    data = data.assign(time=time).drop_duplicates("time").sort_values("time")[20_000:26_000]
    X = np.column_stack(
        [data["time"].dt.hour, data["time"].dt.day_of_week, data[["temp", "clouds_all"]].astype(float)]
    )
    y = data["traffic_volume"].to_numpy(dtype=float)
    trees = HistGradientBoostingRegressor(max_iter=60, random_state=0)
    split = [(np.arange(3000), np.arange(3000, 4000))]
    model = ConformalRegressor(trees, cv=split, gamma=0.01, window=1000).fit(X[:4000], y[:4000])
    assert covers(model.predict_interval(X[4000:]), y[4000:]).mean() < 0.83
    hits = []
    for first in range(4000, 6000, 24):
        day = slice(first, first + 24)
        hits.append(covers(model.predict_interval(X[day]), y[day]))
        model.partial_fit(X[day], y[day])
    hits = np.concatenate(hits)
    assert hits.mean() == pytest.approx(0.9, abs=0.015)
    assert (np.abs([part.mean() - 0.9 for part in np.array_split(hits, 4)]) < 0.05).all()
