"""The conditional coverage error: values by hand, weights, folds, features, scorers, and known worlds."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, TimeSeriesSplit, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
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
    scorers,
)
from tests.metrics.cubic import cubic

pytestmark = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")

INSIDE = np.array([1, 1, 0, 1, 1, 1])
FOLDS = [([3, 4, 5], [0, 1, 2]), ([0, 1, 2], [3, 4, 5])]
BOUNDS = np.tile([0.0, 1.0], (6, 1))
COLUMN = np.arange(6.0)[:, np.newaxis]
Y = np.where(INSIDE, 0.5, 2.0)
PRIOR = DummyClassifier(strategy="prior")


def small(n=300, seed=0):
    """Return X, targets and forecasts whose coverage falls with the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, (0.3 + X[:, 0]) * rng.standard_normal(n), Normal(np.zeros(n), np.full(n, 0.8))


# ---------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("norm", "over", "under"),
    [
        # The first fold is predicted 1, the label of all rows of the second, and the second 2/3.
        ("l2", [0.01, 0.01, -0.19], [0.01 - 1 / 9] * 3),
        ("l1", [0.1, 0.1, -0.9], [-0.1] * 3),
    ],
)
def test_values_by_hand(norm, over, under):
    estimate = conditional_coverage_estimate(
        Y, BOUNDS, COLUMN, classifier=PRIOR, cv=FOLDS, norm=norm, random_state=0
    )
    np.testing.assert_allclose(estimate.conditional_coverage, [1, 1, 1, 2 / 3, 2 / 3, 2 / 3])
    assert estimate.over_coverage == pytest.approx(sum(over) / 6)
    assert estimate.under_coverage == pytest.approx(sum(under) / 6)
    assert estimate.error == pytest.approx(np.mean(over + under))
    assert estimate.standard_error == pytest.approx(np.std(over + under, ddof=1) / math.sqrt(6))
    error = conditional_coverage_error(Y, BOUNDS, COLUMN, classifier=PRIOR, cv=FOLDS, norm=norm)
    assert type(error) is float
    assert error == estimate.error


@pytest.mark.parametrize(("bound", "label"), [(np.inf, 1.0), (-1e9, 0.0)])
def test_labels_that_are_all_equal_are_the_estimate(bound, label):
    X, y, _ = small(60)
    bounds = np.column_stack([np.full(60, -np.inf), np.full(60, bound)])
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
    assert (
        min(estimate.over_coverage, estimate.under_coverage) > 0
    )  # too wide on the left, narrow on the right
    assert estimate.conditional_coverage[X[:, 0] < 0.3].mean() > 0.93
    assert estimate.conditional_coverage[X[:, 0] > 0.8].mean() < 0.85


def test_units_of_y_do_not_matter_and_bounds_stand_for_the_distribution():
    X, y, dist = small()
    expected = conditional_coverage_error(y, dist, X, coverage=0.8, random_state=0)
    moved = Normal(8.0 * dist.loc + 16.0, 8.0 * dist.scale)
    assert conditional_coverage_error(8.0 * y + 16.0, moved, X, coverage=0.8, random_state=0) == expected
    assert conditional_coverage_error(y, dist.interval(0.8), X, coverage=0.8, random_state=0) == expected


def test_the_seed_determines_folds_and_classifier():
    X, y, dist = small()
    values = [conditional_coverage_error(y, dist, X, random_state=seed) for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]
    folds = KFold(5, shuffle=True, random_state=3)
    one, other = (conditional_coverage_error(y, dist, X, cv=folds, random_state=seed) for seed in (0, 1))
    assert one == other  # histograms of few rows draw nothing


def test_trees_find_what_a_logistic_model_cannot_represent():
    X, y, _, one_width = cubic(2000, 1, seed=0)  # covered too rarely at both ends
    found, missed = (
        conditional_coverage_error(y, one_width, X, classifier=each, random_state=0)
        for each in (None, LogisticRegression())
    )
    assert found > 0.007
    assert missed < 0.001


# --------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_weights_equal_repetition(norm):
    X, y, dist = small()
    weight = np.random.default_rng(1).integers(0, 4, size=y.size)
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


def test_rows_of_weight_zero_are_as_if_absent():
    X, y, dist = small()
    weight = np.ones(y.size)
    weight[::7] = 0.0
    keep = weight > 0
    y[~keep] = 1e300
    weighted = conditional_coverage_estimate(y, dist, X, sample_weight=weight, random_state=0)
    ones = np.ones(keep.sum())
    expected = conditional_coverage_estimate(y[keep], dist[keep], X[keep], sample_weight=ones, random_state=0)
    assert weighted.error == expected.error
    np.testing.assert_array_equal(weighted.conditional_coverage[keep], expected.conditional_coverage)


def test_weights_below_repetitions_raise():
    X, y, dist = small()
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        conditional_coverage_error(y, dist, X, sample_weight=np.full(y.size, 1e-3))
    with pytest.raises(
        TypeError, match=r"`classifier` must have a fit method with `sample_weight`.* KNeighborsClassifier"
    ):
        conditional_coverage_error(
            y, dist, X, sample_weight=np.ones(y.size), classifier=KNeighborsClassifier()
        )
    assert np.isfinite(conditional_coverage_error(y, dist, X, classifier=KNeighborsClassifier(20)))


# -------------------------------------------------------------------------------------- features


def test_nan_passes_where_the_classifier_takes_it():
    X, y, dist = small()
    X[::5, 1] = np.nan
    imputing = make_pipeline(SimpleImputer(), LogisticRegression())
    for classifier in (None, HistGradientBoostingClassifier(max_iter=5), imputing):
        assert np.isfinite(conditional_coverage_error(y, dist, X, classifier=classifier, random_state=0))
    with pytest.raises(ValueError, match=r"Input X contains NaN\.\nLogisticRegression does not accept"):
        conditional_coverage_error(y, dist, X, classifier=LogisticRegression())


def test_tables_of_numbers_are_features():
    X, y, dist = small()
    whole = np.round(10 * X)
    expected = conditional_coverage_error(y, dist, whole, cv=2, random_state=0)
    table = pd.DataFrame(whole, columns=["a", "b"])
    for X in (table, table.astype("Int64"), table.astype("float32"), whole.tolist()):
        assert conditional_coverage_error(y, dist, X, cv=2, random_state=0) == expected
    missing = table.astype("Int64")
    missing.loc[3, "a"] = pd.NA
    assert np.isfinite(conditional_coverage_error(y, dist, missing, cv=2, random_state=0))
    yes = pd.DataFrame({"yes": whole[:, 0] > 5})
    assert np.isfinite(conditional_coverage_error(y, dist, yes, cv=2, random_state=0))


WORDS = pd.DataFrame({"shop": ["yes", "no"] * 3})


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (WORDS, TypeError, "`X` must hold real numbers.*`ColumnTransformer`"),
        (WORDS.astype("category"), TypeError, "`ColumnTransformer`"),
        (WORDS.to_numpy(), TypeError, "`ColumnTransformer`"),
        (pd.DataFrame({"day": pd.date_range("2020-01-01", periods=6)}), TypeError, "`ColumnTransformer`"),
        (sparse.csr_matrix(COLUMN), TypeError, r"`X` must be a dense array.*toarray"),
        (COLUMN[:, 0], ValueError, r"`X` must have shape \(n, d\).*reshape\(-1, 1\)"),
        (COLUMN[:, :0], ValueError, r"`X` must have shape \(n, d\).*got \(6, 0\)"),
        (COLUMN[:5], ValueError, "`X` must have 6 rows, one per sample, got 5"),
        (np.where(COLUMN == 2, np.inf, COLUMN), ValueError, "`X` must be finite, got inf at row 2, column 0"),
        (None, ValueError, r"`X` must have shape \(n, d\)"),
    ],
)
def test_bad_features(X, error, message):
    with pytest.raises(error, match=message):
        conditional_coverage_error(Y, BOUNDS, X, cv=2)


# ------------------------------------------------------------------------------------- bad options


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"norm": "l3"}, ValueError, "`norm` must be one of 'l2', 'l1', got 'l3'"),
        ({"coverage": 90}, ValueError, "`coverage` must lie strictly between 0 and 1"),
        ({"coverage": [0.5, 0.9]}, ValueError, "`coverage` must be one number"),
        ({"cv": 1}, ValueError, "`cv` must be at least 2"),
        ({"cv": "five"}, TypeError, "`cv` must be an int, a splitter"),
        ({"cv": 7}, ValueError, "`y_true` must have at least one row per fold, got 6 rows .* for 7 folds"),
        (
            {"cv": TimeSeriesSplit(2)},
            ValueError,
            "`cv` must test every row exactly once, got 4 test rows that",
        ),
        ({"cv": [*FOLDS, FOLDS[0]]}, ValueError, "`cv` must test every row exactly once, got 9 test rows"),
        ({"classifier": LinearRegression()}, TypeError, "`classifier` must be a scikit-learn classifier"),
        ({"classifier": LogisticRegression}, TypeError, "`classifier` must be a scikit-learn classifier"),
        ({"classifier": "logistic"}, TypeError, "`classifier` must be a scikit-learn classifier"),
        ({"classifier": LinearSVC()}, TypeError, "`classifier` must have `predict_proba`"),
        ({"random_state": "seed"}, ValueError, "`random_state` must be an int"),
        ({"sample_weight": np.ones(5)}, ValueError, "`sample_weight` must have 6 rows"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        conditional_coverage_error(Y, BOUNDS, COLUMN, **options)


def test_bad_targets_and_forecasts():
    with pytest.raises(ValueError, match="`y_true` must have 6 rows"):
        conditional_coverage_error(Y[:5], BOUNDS, COLUMN)
    with pytest.raises(ValueError, match=r"`y_pred` must have shape \(n, 2\)"):
        conditional_coverage_error(Y, BOUNDS[:, 0], COLUMN)


@pytest.mark.parametrize("n", [2, 7, 60])
def test_few_rows_give_a_number(n):
    X, y, dist = small(n)
    estimate = conditional_coverage_estimate(y, dist, X, cv=2, random_state=0)
    assert np.isfinite([estimate.error, estimate.standard_error]).all()


# ----------------------------------------------------------------------------------------- scorers


def test_scorers_hand_X_on():
    X, y, _ = small()
    model = BayesianRidge().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    expected = conditional_coverage_error(y, (mean, std), X, random_state=0)
    assert get_scorer("neg_ert")(model, X, y) == pytest.approx(-expected)
    half = make_scorer("ert", coverage=0.5, norm="l1", cv=3)
    expected = conditional_coverage_error(y, (mean, std), X, coverage=0.5, norm="l1", cv=3, random_state=0)
    assert half(model, X, y) == pytest.approx(-expected)


def test_scorers_beside_others_in_searches():
    X, y, _ = small(120)
    scoring = scorers("neg_crps", "neg_ert", "wsc")
    result = cross_validate(BayesianRidge(), X, y, scoring=scoring, cv=2, error_score="raise")
    assert all(np.isfinite(result[f"test_{name}"]).all() for name in scoring)
    search = GridSearchCV(BayesianRidge(), {"alpha_1": [1e-6, 1.0]}, scoring=scoring, refit="neg_crps", cv=2)
    assert np.isfinite(search.fit(X, y).cv_results_["mean_test_neg_ert"]).all()


def test_scorers_receive_routed_weights():
    X, y, _ = small(120)
    weight = np.random.default_rng(0).integers(1, 4, size=120)
    groups = np.arange(120) // 4
    with config_context(enable_metadata_routing=True):
        scorer = get_scorer("neg_ert").set_score_request(sample_weight=True)
        result = cross_validate(
            BayesianRidge().set_fit_request(sample_weight=False),
            X,
            y,
            scoring=scorer,
            cv=GroupKFold(2),
            params={"sample_weight": weight, "groups": groups},
            error_score="raise",
        )
    for score, (train, test) in zip(result["test_score"], GroupKFold(2).split(X, y, groups), strict=True):
        model = BayesianRidge().fit(X[train], y[train])
        expected = get_scorer("neg_ert")(model, X[test], y[test], sample_weight=weight[test])
        assert score == pytest.approx(expected, rel=1e-10)


def test_words_that_a_pipeline_encodes_are_no_features_of_a_scorer():
    X = pd.DataFrame({"shop": ["yes", "no"] * 30, "size": np.arange(60.0)})
    encode = make_column_transformer((OneHotEncoder(), ["shop"]), remainder="passthrough")
    model = make_pipeline(encode, BayesianRidge()).fit(X, np.arange(60.0))
    with pytest.raises(TypeError, match=r"`X` must hold real numbers.*`ColumnTransformer`"):
        get_scorer("neg_ert")(model, X, np.arange(60.0))


def test_options_are_checked_when_the_scorer_is_made():
    with pytest.raises(ValueError, match="`norm` must be one of"):
        make_scorer("ert", norm="l3")
    with pytest.raises(TypeError, match="`classifier` must be a scikit-learn classifier"):
        make_scorer("ert", classifier=LinearRegression())
    assert repr(make_scorer("ert", cv=7)) == "make_scorer('ert', cv=7, random_state=0)"


@pytest.mark.parametrize("name", ["ert", "wsc"])
def test_what_has_no_X_refuses_it(name):
    _, y, dist = small()
    with pytest.raises(ValueError, match=f"`metric` must not need X, got {name!r}"):
        bootstrap_interval(y, dist, name)
    with pytest.raises(ValueError, match="`metric` must not need X"):
        paired_permutation_test(y, dist, dist, name)
    for options in ({"metrics": ["crps", name]}, {"options": {name: {"coverage": 0.5}}}):
        with pytest.raises(ValueError, match=f"`metrics` must not contain metrics that need X, got {name!r}"):
            uncertainty_report(y, dist, **options)


# ------------------------------------------------------------------------------------ known worlds


@pytest.mark.parametrize(
    ("seeds", "tolerance"),
    [(2, 0.004), pytest.param(10, 0.002, marks=pytest.mark.slow)],
)
def test_the_error_of_one_width_in_a_known_world(seeds, tolerance):
    """The mean of (p(x) - 0.9)^2 is 0.0118; a classifier of 2000 rows finds 0.0112 of it on average."""
    found = []
    for seed in range(seeds):
        X, y, truth, one_width = cubic(2000, 1, seed)
        found.append(
            [conditional_coverage_error(y, dist, X, random_state=seed) for dist in (one_width, truth)]
        )
    of_one_width, of_truth = np.mean(found, axis=0)
    assert of_one_width == pytest.approx(0.0112, abs=tolerance)
    assert of_truth < 0.001
