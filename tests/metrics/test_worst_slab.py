"""Worst-slab coverage: brute force, weights, ties, units, and a world where the intervals are right."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

from skuq.distributions import Normal
from skuq.metrics import get_scorer, make_scorer, worst_slab_coverage
from skuq.metrics._worst_slab import draw_directions, lowest_segment, split_search, worst_slab
from tests.metrics.cubic import cubic

pytestmark = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")


def small(n=400, seed=0):
    """Return X, targets and forecasts whose coverage falls with the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, (0.3 + X[:, 0]) * rng.standard_normal(n), Normal(np.zeros(n), np.full(n, 0.8))


def lowest_by_brute_force(position, inside, weight, least):
    """Return the lowest coverage between any two of the positions that hold enough weight."""
    lowest = np.inf
    for low in np.unique(position):
        for high in np.unique(position):
            rows = (low <= position) & (position <= high)
            if weight[rows].sum() >= least * (1 - 1e-9):
                lowest = min(lowest, np.average(inside[rows], weights=weight[rows]))
    return lowest


# ------------------------------------------------------------------------------------- the search


def test_a_run_by_hand():
    covered = np.array([0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0])  # 1, 0, 1, 0, 0, 1
    total = np.arange(7.0)
    assert lowest_segment(covered, total, 1, 0.5) == (0.0, 3, 5)  # the longer of two without coverage
    assert lowest_segment(covered, total, 3, 0.5) == (0.25, 1, 5)
    assert lowest_segment(covered, total, 5, 0.5) == (0.4, 0, 5)
    assert lowest_segment(covered, total, 4, 0.25) is None
    assert lowest_segment(covered, total, 6, 0.5) is None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_the_search_finds_the_minimum_of_brute_force(weighted, tied):
    rng = np.random.default_rng(0)
    for _ in range(30):
        n, d = int(rng.integers(2, 25)), int(rng.integers(1, 4))
        X = rng.integers(0, 4, size=(n, d)).astype(float) if tied else rng.normal(size=(n, d))
        inside = (rng.random(n) < 0.7).astype(float)
        weight = rng.uniform(0.5, 3.0, size=n) if weighted else np.ones(n)
        share = rng.uniform(0.05, 0.9)
        directions = draw_directions(X, weight, 6, np.random.RandomState(0))
        slab = worst_slab(X, inside, weight, share, directions)
        rows = slab.contains(X)
        # Rows with equal X have equal projections, but for rounding.
        positions = np.round(X @ directions.T, 9).T
        expected = min(
            lowest_by_brute_force(position, inside, weight, share * weight.sum()) for position in positions
        )
        assert weight[rows].sum() >= share * weight.sum() * (1 - 1e-9)
        assert np.average(inside[rows], weights=weight[rows]) == pytest.approx(expected, abs=1e-12)


def test_weights_of_the_search_equal_repetition():
    rng = np.random.default_rng(1)
    X, inside = rng.normal(size=(60, 3)), (rng.random(60) < 0.8).astype(float)
    weight = rng.integers(1, 4, size=60)
    rows = np.repeat(np.arange(60), weight)
    directions = rng.normal(size=(40, 3))
    weighted = worst_slab(X, inside, weight.astype(float), 0.2, directions)
    repeated = worst_slab(X[rows], inside[rows], np.ones(rows.size), 0.2, directions)
    np.testing.assert_array_equal(weighted.direction, repeated.direction)
    assert (weighted.lower, weighted.upper) == (repeated.lower, repeated.upper)


def test_bounds_are_halfway_between_rows_and_open_at_the_ends():
    X, one = np.array([[0.0], [1.0], [3.0], [7.0]]), np.ones((1, 1))
    middle = worst_slab(X, np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4), 0.5, one)
    assert (middle.lower, middle.upper) == (0.5, 5.0)
    left = worst_slab(X, np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4), 0.5, one)
    assert (left.lower, left.upper) == (-np.inf, 2.0)
    whole = worst_slab(X, np.ones(4), np.ones(4), 0.5, one)
    assert (whole.lower, whole.upper) == (-np.inf, np.inf)


def test_the_share_of_the_search_is_one_of_weight():
    rng = np.random.RandomState(0)
    search, read = split_search(400, np.ones(400), 0.25, rng)
    assert (search.size, read.size) == (100, 300)
    np.testing.assert_array_equal(np.sort(np.r_[search, read]), np.arange(400))
    weight = np.random.default_rng(0).uniform(0.0, 10.0, size=4000)
    search, _ = split_search(4000, weight, 0.6, rng)
    assert weight[search].sum() / weight.sum() == pytest.approx(0.6, abs=0.001)
    for size in (0.001, 0.999):
        assert sorted(map(len, split_search(2, np.ones(2), size, rng))) == [1, 1]


# ------------------------------------------------------------------------------------- the metric


def test_a_region_without_coverage_is_found():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(2000, 1))
    bounds = np.where((x > 0.3) & (x < 0.45), [2.0, 3.0], [-1.0, 1.0])
    value = worst_slab_coverage(np.zeros(2000), bounds, x, random_state=0)
    assert type(value) is float
    assert value < 0.03


@pytest.mark.parametrize(("bound", "share"), [(np.inf, 1.0), (-1e9, 0.0)])
def test_all_rows_covered_or_none(bound, share):
    X, y, _ = small()
    bounds = np.column_stack([np.full(y.size, -np.inf), np.full(y.size, bound)])
    assert worst_slab_coverage(y, bounds, X, random_state=0) == share


def test_rows_that_cannot_be_told_apart_are_one_slab():
    _, y, dist = small()
    constant = np.full((y.size, 2), 7.0)
    rng = np.random.RandomState(0)
    _, read = split_search(y.size, np.ones(y.size), 0.25, rng)
    lower, upper = dist.interval(0.9).T
    expected = np.mean((lower <= y) & (y <= upper), where=np.isin(np.arange(y.size), read))
    assert worst_slab_coverage(y, dist, constant, random_state=0) == pytest.approx(expected)


def test_units_of_X_and_y_do_not_matter_and_bounds_stand_for_the_distribution():
    X, y, dist = small()
    options = {"coverage": 0.8, "n_directions": 100, "random_state": 0}
    expected = worst_slab_coverage(y, dist, X, **options)
    moved = Normal(8.0 * dist.loc + 16.0, 8.0 * dist.scale)
    assert worst_slab_coverage(8.0 * y + 16.0, moved, X, **options) == expected
    assert worst_slab_coverage(y, dist.interval(0.8), X, **options) == expected
    assert worst_slab_coverage(y, dist, X * [1024.0, 2.0**-20] + [8.0, 0.0], **options) == pytest.approx(
        expected
    )
    assert worst_slab_coverage(y, dist, pd.DataFrame(X), **options) == expected


def test_weights_of_the_metric():
    X, y, dist = small()
    options = {"n_directions": 100, "random_state": 0}
    expected = worst_slab_coverage(y, dist, X, **options)
    for factor in (3.0, 1e-3, 1e90):
        weighted = worst_slab_coverage(y, dist, X, sample_weight=np.full(y.size, factor), **options)
        assert weighted == pytest.approx(expected, rel=1e-12)
    weight = np.ones(y.size)
    weight[::7] = 0.0
    keep = weight > 0
    y[~keep] = 1e300
    assert worst_slab_coverage(y, dist, X, sample_weight=weight, **options) == worst_slab_coverage(
        y[keep], dist[keep], X[keep], **options
    )


def test_the_seed_determines_split_and_directions():
    X, y, dist = small()
    values = [worst_slab_coverage(y, dist, X, random_state=seed) for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


def test_scorer():
    X, y, _ = small()
    model = BayesianRidge().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    expected = worst_slab_coverage(y, (mean, std), X, random_state=0)
    assert get_scorer("wsc")(model, X, y) == pytest.approx(expected)
    assert make_scorer("wsc", min_share=0.3).__name__ == "wsc"
    with pytest.raises(ValueError, match="`min_share` must lie strictly between 0 and 1"):
        make_scorer("wsc", min_share=1.0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"coverage": 90}, ValueError, "`coverage` must lie strictly between 0 and 1"),
        ({"min_share": 0.0}, ValueError, "`min_share` must lie strictly between 0 and 1"),
        ({"min_share": [0.1, 0.2]}, ValueError, "`min_share` must be one number"),
        ({"search_size": 1.5}, ValueError, "`search_size` must lie strictly between 0 and 1"),
        ({"n_directions": 0}, ValueError, "`n_directions` must be at least 1"),
        ({"n_directions": 1.5}, TypeError, "`n_directions` must be an integer"),
        ({"random_state": "seed"}, ValueError, "`random_state` must be an int"),
        ({"sample_weight": np.ones(5)}, ValueError, "`sample_weight` must have 400 rows"),
        ({"X": np.zeros(400)}, ValueError, r"`X` must have shape \(n, d\)"),
        ({"X": np.full((400, 1), np.nan)}, ValueError, "`X` must not contain NaN.*`SimpleImputer`"),
        ({"X": np.full((400, 1), np.inf)}, ValueError, "`X` must be finite"),
        ({"X": [["a"]] * 400}, TypeError, "`X` must hold real numbers.*`ColumnTransformer`"),
    ],
)
def test_bad_input(options, error, message):
    X, y, dist = small()
    with pytest.raises(error, match=message):
        worst_slab_coverage(y, dist, **{"X": X, **options})


def test_too_few_rows():
    with pytest.raises(ValueError, match=r"`y_true` must have at least two rows of positive weight.* got 1"):
        worst_slab_coverage([0.5] * 3, [[0.0, 1.0]] * 3, np.zeros((3, 1)), sample_weight=[0, 1, 0])
    # The worst slab has the one row that is not covered, and two rows are left to be read, elsewhere.
    X = np.arange(40.0)[:, np.newaxis]
    y = np.where(X[:, 0] == 20, 2.0, 0.5)
    options = {"min_share": 0.02, "search_size": 0.95, "random_state": 0}
    with pytest.raises(
        ValueError, match=r"`y_true` must have more rows. The worst slab was found on 38 rows"
    ):
        worst_slab_coverage(y, [[0.0, 1.0]] * 40, X, **options)


@pytest.mark.parametrize("n_features", [1, 8])
@pytest.mark.parametrize(
    ("seeds", "tolerance"),
    [(3, 0.03), pytest.param(20, 0.015, marks=pytest.mark.slow)],
)
def test_true_intervals_are_nominal_in_the_worst_slab(n_features, seeds, tolerance):
    values = []
    for seed in range(seeds):
        X, y, truth, _ = cubic(5000, n_features, seed)
        values.append(worst_slab_coverage(y, truth, X, random_state=seed))
    assert np.mean(values) == pytest.approx(0.9, abs=tolerance)
    assert np.abs(np.array(values) - 0.9).max() <= 0.06


def test_one_width_is_not_nominal_in_the_worst_slab():
    X, y, _, one_width = cubic(5000, 1, seed=0)
    assert worst_slab_coverage(y, one_width, X, random_state=0) < 0.78


@pytest.mark.parametrize("unit", [1e-200, 1e155, 1e250])
def test_units_of_X_may_be_of_any_size(unit):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 3)) * [1.0, 20.0, 0.3]
    y, dist = rng.normal(size=600), (np.zeros(600), np.full(600, 0.7))
    plain = worst_slab_coverage(y, dist, X, random_state=0, n_directions=200)
    assert worst_slab_coverage(y, dist, unit * X, random_state=0, n_directions=200) == plain
    one = X * [unit, 1.0, 1.0]
    assert worst_slab_coverage(y, dist, one, random_state=0, n_directions=200) == plain
