"""Conditional coverage error and worst-slab coverage: values by hand, weights, scorers, known worlds."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skuq.distributions import Normal
from skuq.evaluation import (
    bootstrap_interval,
    conditional_coverage_estimate,
    paired_permutation_test,
    uncertainty_report,
)
from skuq.metrics import (
    conditional_coverage_error,
    get_scorer,
    make_scorer,
    worst_slab_coverage,
)
from skuq.metrics._worst_slab import draw_directions, lowest_segment, split_search, worst_slab

pytestmark = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")

INSIDE = np.array([1, 1, 0, 1, 1, 1])
FOLDS = [([3, 4, 5], [0, 1, 2]), ([0, 1, 2], [3, 4, 5])]
BOUNDS = np.tile([0.0, 1.0], (6, 1))
COLUMN = np.arange(6.0)[:, np.newaxis]
Y = np.where(INSIDE, 0.5, 2.0)
PRIOR = DummyClassifier(strategy="prior")


MEAN_SCALE = np.sqrt(1 / 100 + 2 / 10 / 12 + 1 / 80)
"""Root of the mean variance (0.1 + x^2)^2 for x uniform from -0.5 to 0.5."""


def cubic(n, n_features, seed):
    """Return X, y, the true distributions, and those with the mean variance in every row.

    The world of Sluijterman et al. (2024), section 5.3: a cubic mean with noise that grows from the middle.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, size=(n, n_features))
    mean, scale = (2 * X[:, 0] - 1) ** 3, 0.1 + X[:, 0] ** 2
    y = mean + scale * rng.standard_normal(n)
    return X, y, Normal(mean, scale), Normal(mean, np.full(n, MEAN_SCALE))


def small(n=300, seed=0):
    """Return X, targets and forecasts whose coverage falls with the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, (0.3 + X[:, 0]) * rng.standard_normal(n), Normal(np.zeros(n), np.full(n, 0.8))


def test_values_by_hand():
    # The first fold is predicted 1, the label of all rows of the second, and the second 2/3.
    for norm, over, under in (
        ("l2", [0.01, 0.01, -0.19], [0.01 - 1 / 9] * 3),
        ("l1", [0.1, 0.1, -0.9], [-0.1] * 3),
    ):
        options = {"classifier": PRIOR, "cv": FOLDS, "norm": norm}
        estimate = conditional_coverage_estimate(Y, BOUNDS, COLUMN, random_state=0, **options)
        np.testing.assert_allclose(estimate.conditional_coverage, [1, 1, 1, 2 / 3, 2 / 3, 2 / 3])
        assert estimate.over_coverage == pytest.approx(sum(over) / 6)
        assert estimate.under_coverage == pytest.approx(sum(under) / 6)
        assert estimate.error == pytest.approx(np.mean(over + under))
        assert estimate.standard_error == pytest.approx(np.std(over + under, ddof=1) / math.sqrt(6))
        error = conditional_coverage_error(Y, BOUNDS, COLUMN, **options)
        assert type(error) is float
        assert error == estimate.error


def test_labels_that_are_all_equal_are_the_estimate():
    X, y, _ = small(60)
    for bound, label in ((np.inf, 1.0), (-1e9, 0.0)):
        bounds = np.tile([-np.inf, bound], (60, 1))
        estimate = conditional_coverage_estimate(y, bounds, X, coverage=0.8, random_state=0)
        assert (estimate.conditional_coverage == label).all()
        assert estimate.error == pytest.approx((0.8 - label) ** 2)
        assert estimate.standard_error == pytest.approx(0.0, abs=1e-12)
        assert (estimate.over_coverage, estimate.under_coverage)[int(label == 1)] == 0.0


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_parts_add_up(norm):
    X, y, dist = small(600)
    estimate = conditional_coverage_estimate(y, dist, X, norm=norm, random_state=0)
    assert estimate.error == estimate.over_coverage + estimate.under_coverage
    # too wide on the left, narrow on the right
    assert min(estimate.over_coverage, estimate.under_coverage) > 0
    assert estimate.conditional_coverage[X[:, 0] < 0.3].mean() > 0.93
    assert estimate.conditional_coverage[X[:, 0] > 0.8].mean() < 0.85


def test_the_seed_determines_folds_and_classifier():
    X, y, dist = small()
    values = [conditional_coverage_error(y, dist, X, random_state=seed) for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]
    folds = KFold(5, shuffle=True, random_state=3)
    one, other = (conditional_coverage_error(y, dist, X, cv=folds, random_state=seed) for seed in (0, 1))
    assert one == other  # histograms of few rows draw nothing
    moved = Normal(8.0 * dist.loc + 16.0, 8.0 * dist.scale)  # other units, and bounds for the distribution
    bounds = (8.0 * y + 16.0, moved), (y, dist.interval(0.9))
    assert all(conditional_coverage_error(*each, X, random_state=0) == values[0] for each in bounds)
    few = conditional_coverage_estimate(y[:2], dist[:2], X[:2], cv=2, random_state=0)
    assert np.isfinite([few.error, few.standard_error]).all()


def test_trees_find_what_a_logistic_model_cannot_represent():
    X, y, _, one_width = cubic(2000, 1, seed=0)  # covered too rarely at both ends
    found, missed = (
        conditional_coverage_error(y, one_width, X, classifier=each, random_state=0)
        for each in (None, LogisticRegression())
    )
    assert found > 0.007
    assert missed < 0.001


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_weights_equal_repetition(norm):
    X, y, dist = small()
    weight = np.random.default_rng(1).integers(0, 4, size=y.size)
    y[weight == 0] = 1e300  # as if absent
    fold = np.arange(y.size) % 3
    options = {"classifier": DecisionTreeClassifier(max_depth=3, random_state=0), "norm": norm}

    def folds_of(label):
        return [(np.flatnonzero(label != k), np.flatnonzero(label == k)) for k in range(3)]

    rows = np.repeat(np.arange(y.size), weight)
    weighted = conditional_coverage_estimate(
        y, dist, X, sample_weight=weight, cv=folds_of(fold[weight > 0]), **options
    )
    repeated = conditional_coverage_estimate(y[rows], dist[rows], X[rows], cv=folds_of(fold[rows]), **options)
    for name in ("error", "standard_error", "over_coverage", "under_coverage"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-9)
    np.testing.assert_allclose(weighted.conditional_coverage[rows], repeated.conditional_coverage)
    assert np.isnan(weighted.conditional_coverage[weight == 0]).all()


def test_features_and_classifiers():
    X, y, dist = small()
    whole, error = np.round(10 * X), partial(conditional_coverage_error, y, dist)
    expected = error(whole, cv=2, random_state=0)
    table = pd.DataFrame(whole, columns=["a", "b"])
    for numbers in (table, table.astype("Int64"), table.astype("float32"), whole.tolist()):
        assert error(numbers, cv=2, random_state=0) == expected
    missing = table.astype("Int64")
    missing.loc[3, "a"] = pd.NA
    for other in (missing, pd.DataFrame({"yes": whole[:, 0] > 5})):
        assert np.isfinite(error(other, cv=2, random_state=0))
    assert np.isfinite(error(X, classifier=KNeighborsClassifier(20)))
    X[::5, 1] = np.nan
    imputing = make_pipeline(SimpleImputer(), LogisticRegression())
    for classifier in (None, HistGradientBoostingClassifier(max_iter=5), imputing):
        assert np.isfinite(error(X, classifier=classifier, random_state=0))
    with pytest.raises(ValueError, match=r"Input X contains NaN\.\nLogisticRegression does not accept"):
        error(X, classifier=LogisticRegression())
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        error(X, sample_weight=np.full(y.size, 1e-3))
    message = r"`classifier` must have a fit method with `sample_weight`.* KNeighborsClassifier"
    with pytest.raises(TypeError, match=message):
        error(X, sample_weight=np.ones(y.size), classifier=KNeighborsClassifier())


WORDS = pd.DataFrame({"shop": ["yes", "no"] * 3})


def test_bad_features():
    for X, error, message in (
        (WORDS, TypeError, "`X` must hold real numbers.*`ColumnTransformer`"),
        (WORDS.astype("category"), TypeError, "`ColumnTransformer`"),
        (WORDS.to_numpy(), TypeError, "`ColumnTransformer`"),
        (pd.DataFrame({"day": pd.date_range("2020-01-01", periods=6)}), TypeError, "`ColumnTransformer`"),
        (sparse.csr_matrix(COLUMN), TypeError, r"`X` must be a dense array.*toarray"),
        (COLUMN[:, 0], ValueError, r"`X` must have shape \(n, d\).*reshape\(-1, 1\)"),
        (COLUMN[:, :0], ValueError, r"`X` must have shape \(n, d\).*got \(6, 0\)"),
        (COLUMN[:5], ValueError, "`X` must have 6 rows, one per sample, got 5"),
        (np.where(COLUMN == 2, np.inf, COLUMN), ValueError, "must be finite, got inf at row 2, column 0"),
        (None, ValueError, r"`X` must have shape \(n, d\)"),
    ):
        with pytest.raises(error, match=message):
            conditional_coverage_error(Y, BOUNDS, X, cv=2)
    with pytest.raises(ValueError, match="`y_true` must have 6 rows"):
        conditional_coverage_error(Y[:5], BOUNDS, COLUMN)
    with pytest.raises(TypeError, match=r"`y_pred` must be a Distribution or bounds of shape \(n, 2\)"):
        conditional_coverage_error(Y, BOUNDS[:, 0], COLUMN)


def test_bad_options():
    classifier, fold = (
        "`classifier` must be a scikit-learn classifier",
        "`cv` must test every row exactly once",
    )
    for options, error, message in (
        ({"norm": "l3"}, ValueError, "`norm` must be one of 'l2', 'l1', got 'l3'"),
        ({"coverage": 90}, ValueError, "`coverage` must lie strictly between 0 and 1"),
        ({"coverage": [0.5, 0.9]}, ValueError, "`coverage` must be one number"),
        ({"cv": 1}, ValueError, "`cv` must be at least 2"),
        ({"cv": "five"}, TypeError, "`cv` must be an int, a splitter"),
        ({"cv": 7}, ValueError, "`y_true` must have at least one row per fold, got 6 rows .* for 7 folds"),
        ({"cv": TimeSeriesSplit(2)}, ValueError, f"{fold}, got 4 test rows that"),
        ({"cv": [*FOLDS, FOLDS[0]]}, ValueError, f"{fold}, got 9 test rows"),
        ({"classifier": LinearRegression()}, TypeError, classifier),
        ({"classifier": LogisticRegression}, TypeError, classifier),
        ({"classifier": "logistic"}, TypeError, classifier),
        ({"classifier": LinearSVC()}, TypeError, "`classifier` must have `predict_proba`"),
        ({"random_state": "seed"}, ValueError, "`random_state` must be an int"),
        ({"sample_weight": np.ones(5)}, ValueError, "`sample_weight` must have 6 rows"),
    ):
        with pytest.raises(error, match=message):
            conditional_coverage_error(Y, BOUNDS, COLUMN, **options)


def test_scorers_hand_X_on():
    X, y, _ = small()
    model = BayesianRidge().fit(X, y)
    dist = Normal(*model.predict(X, return_std=True))
    expected = conditional_coverage_error(y, dist, X, random_state=0)
    assert get_scorer("neg_ert")(model, X, y) == pytest.approx(-expected)
    half = make_scorer("ert", coverage=0.5, norm="l1", cv=3)
    expected = conditional_coverage_error(y, dist, X, coverage=0.5, norm="l1", cv=3, random_state=0)
    assert half(model, X, y) == pytest.approx(-expected)
    with pytest.raises(TypeError, match="`classifier` must be a scikit-learn classifier"):
        make_scorer("ert", classifier=LinearRegression())
    assert repr(make_scorer("ert", cv=7)) == "make_scorer('ert', cv=7, random_state=0)"


def test_what_has_no_X_refuses_it():
    _, y, dist = small()
    for name in ("ert", "wsc"):
        with pytest.raises(ValueError, match=f"`metric` must not need X, got {name!r}"):
            bootstrap_interval(y, dist, name)
        with pytest.raises(ValueError, match="`metric` must not need X"):
            paired_permutation_test(y, dist, dist, name)
        message = f"`metrics` must not contain metrics that need X, got {name!r}"
        for options in ({"metrics": ["crps", name]}, {"options": {name: {"coverage": 0.5}}}):
            with pytest.raises(ValueError, match=message):
                uncertainty_report(y, dist, **options)


@pytest.mark.parametrize(
    ("seeds", "tolerance"),
    [pytest.param(2, 0.004, marks=pytest.mark.laws), pytest.param(10, 0.002, marks=pytest.mark.slow)],
)
def test_the_error_of_one_width_in_a_known_world(seeds, tolerance):
    """The mean of (p(x) - 0.9)^2 is 0.0118; a classifier of 2000 rows finds 0.0112 of it on average."""
    found = []
    for seed in range(seeds):
        X, y, *dists = cubic(2000, 1, seed)
        found.append([conditional_coverage_error(y, dist, X, random_state=seed) for dist in dists])
    of_truth, of_one_width = np.mean(found, axis=0)
    assert of_one_width == pytest.approx(0.0112, abs=tolerance)
    assert of_truth < 0.001


# ------------------------------------------------------------------------------------- worst slab


def lowest_by_brute_force(position, inside, weight, least):
    """Return the lowest coverage between any two of the positions that hold enough weight."""
    lowest = np.inf
    for low in np.unique(position):
        for high in np.unique(position):
            rows = (low <= position) & (position <= high)
            if weight[rows].sum() >= least * (1 - 1e-9):
                lowest = min(lowest, np.average(inside[rows], weights=weight[rows]))
    return lowest


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


def test_bounds_are_halfway_between_rows_and_open_at_the_ends():
    X, one = np.array([[0.0], [1.0], [3.0], [7.0]]), np.ones((1, 1))
    for inside, ends in (
        ([1, 0, 0, 1], (0.5, 5.0)),
        ([0, 0, 1, 1], (-np.inf, 2.0)),
        ([1] * 4, (-np.inf, np.inf)),
    ):
        slab = worst_slab(X, np.array(inside, dtype=float), np.ones(4), 0.5, one)
        assert (slab.lower, slab.upper) == ends


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


def test_a_region_without_coverage_is_found():
    x = np.random.default_rng(0).uniform(size=(2000, 1))
    bounds = np.where((x > 0.3) & (x < 0.45), [2.0, 3.0], [-1.0, 1.0])
    value = worst_slab_coverage(np.zeros(2000), bounds, x, random_state=0)
    assert type(value) is float
    assert value < 0.03
    for bound, share in ((np.inf, 1.0), (-1e9, 0.0)):
        bounds = np.tile([-np.inf, bound], (2000, 1))
        assert worst_slab_coverage(np.zeros(2000), bounds, x, random_state=0) == share


def test_units_of_X_and_y_do_not_matter_and_bounds_stand_for_the_distribution():
    X, y, dist = small(400)
    options = {"coverage": 0.8, "n_trials": 100, "random_state": 0}
    expected = worst_slab_coverage(y, dist, X, **options)
    moved = Normal(8.0 * dist.loc + 16.0, 8.0 * dist.scale)
    assert worst_slab_coverage(8.0 * y + 16.0, moved, X, **options) == expected
    assert worst_slab_coverage(y, dist.interval(0.8), X, **options) == expected
    assert worst_slab_coverage(y, dist, pd.DataFrame(X), **options) == expected
    for units in ([1024.0, 2.0**-20], [1e-200, 1e-200], [1e250, 1e250], [1e155, 1.0]):
        assert worst_slab_coverage(y, dist, X * units, **options) == pytest.approx(expected)
    assert worst_slab_coverage(y, dist, X + np.array([8.0, 0.0]), **options) == pytest.approx(expected)
    assert worst_slab_coverage(y, dist, X, **{**options, "random_state": 1}) != expected


def test_weights_of_the_metric():
    X, y, dist = small(400)
    options = {"n_trials": 100, "random_state": 0}
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


def test_scorer():
    X, y, _ = small(400)
    model = BayesianRidge().fit(X, y)
    expected = worst_slab_coverage(y, Normal(*model.predict(X, return_std=True)), X, random_state=0)
    assert make_scorer("wsc", monitoring=True)(model, X, y) == pytest.approx(expected)


def test_bad_input_of_the_worst_slab():
    X, y, dist = small(400)
    for options, error, message in (
        ({"coverage": 90}, ValueError, "`coverage` must lie strictly between 0 and 1"),
        ({"min_share": 0.0}, ValueError, "`min_share` must lie strictly between 0 and 1"),
        ({"min_share": [0.1, 0.2]}, ValueError, "`min_share` must be one number"),
        ({"search_size": 1.5}, ValueError, "`search_size` must lie strictly between 0 and 1"),
        ({"n_trials": 0}, ValueError, "`n_trials` must be at least 1"),
        ({"n_trials": 1.5}, TypeError, "`n_trials` must be an integer"),
        ({"random_state": "seed"}, ValueError, "`random_state` must be an int"),
        ({"sample_weight": np.ones(5)}, ValueError, "`sample_weight` must have 400 rows"),
        ({"X": np.zeros(400)}, ValueError, r"`X` must have shape \(n, d\)"),
        ({"X": np.full((400, 1), np.nan)}, ValueError, "`X` must not contain NaN.*`SimpleImputer`"),
        ({"X": np.full((400, 1), np.inf)}, ValueError, "`X` must be finite"),
        ({"X": [["a"]] * 400}, TypeError, "`X` must hold real numbers.*`ColumnTransformer`"),
    ):
        with pytest.raises(error, match=message):
            worst_slab_coverage(y, dist, **{"X": X, **options})


def test_too_few_rows():
    with pytest.raises(ValueError, match=r"`y_true` must have at least two rows of positive weight.* got 1"):
        worst_slab_coverage([0.5] * 3, [[0.0, 1.0]] * 3, np.zeros((3, 1)), sample_weight=[0, 1, 0])
    # The worst slab has the one row that is not covered, and two rows are left to be read, elsewhere.
    X, options = np.arange(40.0)[:, np.newaxis], {"min_share": 0.02, "search_size": 0.95, "random_state": 0}
    y = np.where(X[:, 0] == 20, 2.0, 0.5)
    with pytest.raises(ValueError, match=r"must have more rows. The worst slab was found on 38 rows"):
        worst_slab_coverage(y, [[0.0, 1.0]] * 40, X, **options)


@pytest.mark.parametrize("n_features", [1, 8])
@pytest.mark.parametrize(
    ("seeds", "tolerance"),
    [(3, 0.03), pytest.param(20, 0.015, marks=pytest.mark.slow)],
)
def test_true_intervals_are_nominal_in_the_worst_slab(n_features, seeds, tolerance):
    values = []
    for seed in range(seeds):
        X, y, truth, one_width = cubic(5000, n_features, seed)
        values.append(worst_slab_coverage(y, truth, X, random_state=seed))
    assert np.mean(values) == pytest.approx(0.9, abs=tolerance)
    assert np.abs(np.array(values) - 0.9).max() <= 0.06
    if n_features == 1:
        assert worst_slab_coverage(y, one_width, X, random_state=0) < 0.78
