"""Adaptive conformal inference: the share of misses on every sequence, through the public interface."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge

from skuq.conformal import ConformalRegressor
from skuq.conformal._adaptive import SequenceConformal
from skuq.conformal._base import WeightedRows
from skuq.conformal._intervals import ObservedRows
from skuq.distributions._conformal_predictive import ConformalPredictive
from tests.conformal.conftest import MODELS
from tests.regressors.worlds import linear_world

ADAPTATIONS = ["aci", "dtaci"]
COVERAGES = [0.5, 0.9, 0.99]
pytestmark = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
every_adaptation = pytest.mark.parametrize("adapt", ADAPTATIONS)


def start(models, method="split", **params):
    """Return a regressor that has seen 100 rows of the world as it was."""
    return ConformalRegressor(models[method], method, **params).fit(*linear_world(100, seed=2))


# How the world goes on: y given the number of the row, its former truth, and the announced interval of 90 %,
# which an adversary knows. `outside` is above the interval while it is finite, and `within` inside it.
def within(t, y, rng, bounds):
    lower, upper = bounds
    if not np.isfinite(upper):
        return y
    return lower + 0.3 * (upper - lower) if upper > lower else upper + 1


def outside(t, y, rng, bounds):
    return bounds[1] + 0.1 if np.isfinite(bounds[1]) else y


PATHS = {
    "steady": lambda t, y, rng, bounds: y,
    "jump": lambda t, y, rng, bounds: y + 8 * (t > 200) * rng.normal(),
    "trend": lambda t, y, rng, bounds: y + 0.02 * t,
    "calm": lambda t, y, rng, bounds: y if t < 100 else 0.01 * y,
    "waves": lambda t, y, rng, bounds: y + 5 * np.sin(t / 20) * rng.normal(),
    "outside": outside,
    "within": within,
    "contrary": lambda t, y, rng, bounds: (within if (t // 150) % 2 else outside)(t, y, rng, bounds),
}


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
    return regressor._conformal.miscoverage(coverage)


def observed(prediction, y):
    """Return observed rows without groups and weights."""
    n = len(y)
    return ObservedRows(WeightedRows(n, np.ones(())), prediction, np.asarray(y, dtype=float), np.ones(n))


LONG = {"gamma": 0.02, "window": 200}
GROUPS_AND_RATIOS = {
    "group_by": lambda X: X[:, 0] > 0,
    "density_ratio": lambda X: np.exp(0.3 * X[:, 1]),
}


@pytest.mark.parametrize(
    ("path", "length", "together", "options"),
    [
        *((path, 250, 1, {"gamma": 0.1}) for path in PATHS),
        *(("contrary", 200, 1, {"gamma": 0.1, "method": method}) for method in ("normalized", "cqr")),
        ("contrary", 250, 1, {"gamma": 0.05, "method": "normalized", "symmetric": False, "window": 40}),
        ("contrary", 300, 1, {"gamma": 0.05} | GROUPS_AND_RATIOS),
        *((path, 1400, 25, {"gamma": 0.02}) for path in ("jump", "outside", "contrary")),
        *(
            pytest.param(path, length, together, LONG | more, marks=pytest.mark.laws)
            for path, length, together in (
                ("jump", 2000, 7),
                ("outside", 2000, 7),
                ("contrary", 2000, 7),
                ("trend", 600, 1),
            )
            for more in ({}, {"symmetric": False}, {"method": "cqr"}, {"method": "cqr", "symmetric": False})
        ),
    ],
)
def test_the_share_of_misses(models, path, length, together, options):
    """Proposition 4.1 of Gibbs and Candes 2021; rows predicted together make one step."""
    missed = misses(start(models, **options), PATHS[path], length, together)
    gamma, alpha = options["gamma"], 1 - np.array(COVERAGES)
    bound = (np.maximum(alpha, 1 - alpha) + gamma * together) / (gamma * len(missed))
    assert (bound < 0.2).all()  # else there is little to see
    assert (np.abs(missed.mean(axis=0) - alpha) <= bound).all()


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


# --------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, {"window": window}) for method in MODELS for window in (None, 60)),
        ("split", GROUPS_AND_RATIOS),
    ],
)
def test_the_recursion_by_hand(models, method, symmetric, options):
    """Every interval is that of the scores of its moment at the miscoverage aimed at in its moment."""
    options, window = {"symmetric": symmetric} | options, options.get("window")
    regressor = start(models, method, gamma=0.01, **options)
    X, y = linear_world(30, seed=5)
    X_seen, y_seen = linear_world(100, seed=2)
    y[10:20] += 5
    level = alpha = 0.4 if "group_by" in options else 0.2
    for t in range(30):
        bounds = regressor.predict_interval(X[[t]], 1 - alpha)
        if method == "cqr":  # the band stays that of the coverage asked
            model = models[method].estimator
            band, new = (model.predict_dist(rows).interval(1 - alpha) for rows in (X_seen, X[[t]]))
            scores = np.array([band[:, 0] - y_seen, y_seen - band[:, 1]])
            scores = np.sort(np.tile(scores.max(axis=0), (2, 1)) if symmetric else scores)
            k = int(np.ceil((len(y_seen) + 1) * (1 - level / (1 if symmetric else 2)) - 1e-9)) - 1
            wanted = new + np.array([[-scores[0, k], scores[1, k]]])
        else:
            now = ConformalRegressor(models[method], method, **options).fit(X_seen, y_seen)
            wanted = now.predict_interval(X[[t]], 1 - level)
        assert np.allclose(bounds, wanted, rtol=1e-12, atol=1e-12)
        level += 0.01 * (alpha - (not bounds[0, 0] <= y[t] <= bounds[0, 1]))
        assert level_of(regressor.partial_fit(X[[t]], y[[t]]), 1 - alpha) == pytest.approx(level)
        X_seen, y_seen = np.concatenate([X_seen, X[[t]]]), np.append(y_seen, y[t])
        if window is not None:
            X_seen, y_seen = X_seen[-window:], y_seen[-window:]
        assert regressor.n_calibration_ == len(y_seen)
    assert 0 < level < alpha  # it has moved, and never so far that a rank is missing


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


@every_adaptation
def test_weights_count_repetitions(models, adapt):
    X, y = linear_world(12, seed=8)
    times = np.arange(12) % 3 + 1
    weighted = start(models, adapt=adapt).partial_fit(X, y, sample_weight=times)
    repeated = start(models, adapt=adapt).partial_fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(
        weighted.predict_interval(X, COVERAGES),
        repeated.predict_interval(X, COVERAGES),
        rtol=0 if adapt == "aci" else 1e-12,
    )


# ---------------------------------------------------------------------------- extreme levels


@pytest.mark.filterwarnings("error")
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


@every_adaptation
def test_a_target_that_is_always_hit_keeps_the_level_between_its_bounds(adapt):
    """No interval misses zeros that are predicted as zeros, so that no step is defined by the losses."""
    X = np.zeros((40, 1))
    options = {"gamma": 0.2} if adapt == "aci" else {}
    regressor = ConformalRegressor(LinearRegression(), adapt=adapt, random_state=0, **options)
    regressor.fit(X, np.zeros(40))
    for _ in range(60):
        bounds = regressor.predict_interval(X[:1], COVERAGES[:2])
        assert np.array_equal(bounds, np.zeros((1, 2, 2)))
        regressor.partial_fit(X[:1], [0.0])
    if adapt == "aci":
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
    fitted = ConformalRegressor(model, symmetric=symmetric).fit(X, np.arange(1.0, 10))._conformal
    sequence = SequenceConformal(fitted, 0.005, None)
    sequence.add(observed(np.zeros(4), [0.5, 3.5, 8.5, 9.5]))
    least = sequence._betas[0.9]
    # Without symmetry, the rank of the nearer bound counts, and each bound has half of the miscoverage.
    wanted = np.array([1.0, 0.7, 0.2, 0.1] if symmetric else [0.2, 0.8, 0.4, 0.2])
    np.testing.assert_allclose(least, wanted, rtol=0, atol=2e-12)
    assert (least <= wanted).all()  # by the rounding of a rank


# --------------------------------------------------------------------------------- interface


def test_the_model_stays_and_fit_begins_anew(models):
    X, y = linear_world(30, seed=10)
    with pytest.raises(NotFittedError):
        ConformalRegressor(Ridge()).partial_fit(X, y)
    regressor = start(models)
    before = regressor.predict(X)
    assert regressor.partial_fit(X, y) is regressor
    assert np.array_equal(regressor.predict(X), before)
    assert regressor.n_calibration_ == 130
    assert len(regressor.calibration_rows_) == 100
    again = regressor.fit(*linear_world(100, seed=2))
    assert again.n_calibration_ == 100
    assert np.array_equal(again.predict_interval(X), start(models).predict_interval(X))


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
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.arange(100) % 2)
    regressor = ConformalRegressor(Ridge(), random_state=0, group_by="kind")
    regressor.fit(frame, y).partial_fit(frame[:4], y[:4])
    assert regressor.n_calibration_ == 29
    with pytest.raises(ValueError, match="feature names"):
        regressor.partial_fit(frame[["b", "a", "c", "kind"]], y)


@every_adaptation
def test_bad_rows_change_nothing(models, adapt):
    X, y = linear_world(30, seed=10)
    regressor = start(models, adapt=adapt, group_by=lambda X: np.where(X[:, 0] > 50, "far", "near"))
    before = regressor.predict_interval(X, COVERAGES)
    strange = X.copy()
    strange[2] = 99
    bad = [
        (X, np.where(np.arange(30) == 3, np.nan, y), None, ValueError, "NaN"),
        (X, np.where(np.arange(30) == 3, np.inf, y), None, ValueError, "infinity"),
        (X, y[:-1], None, ValueError, "inconsistent"),
        (X[:, :2], y, None, ValueError, "2 features"),
        (X[:0], y[:0], None, ValueError, "minimum of|at least|0 sample"),
        (X, np.column_stack([y, y]), None, ValueError, "one column"),
        (X, None, None, ValueError, "requires y"),
        (X, ["high"] * 30, None, TypeError, "real numbers"),
        (X, y, -np.ones(30), ValueError, "non-negative"),
        (X, y, np.zeros(30), ValueError, "positive"),
        (X, y, np.full(30, 0.4), ValueError, "counts repetitions"),
        (strange, y, None, ValueError, "label 'far' at row 2"),
    ]
    for rows, target, weight, error, words in bad:
        with pytest.raises(error, match=words):
            regressor.partial_fit(rows, target, sample_weight=weight)
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
