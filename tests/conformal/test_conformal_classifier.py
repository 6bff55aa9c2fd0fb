"""ConformalClassifier: labels of all kinds, parameters, folds, weights, bad input, checks of scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_blobs
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, GroupShuffleSplit, ShuffleSplit, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from skuq._fitting.cross_fit import stratified_split
from skuq.conformal import ConformalClassifier, predict_set
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from tests.conformal.class_worlds import CLASSES, GivenProba, contains, miscalibrated_rows

X, CODES = make_blobs(600, centers=4, cluster_std=3.0, random_state=0)
Y = CLASSES[CODES]
X_NEW, Y_NEW = X[400:], Y[400:]
X, Y = X[:400], Y[:400]
BAYES = GaussianNB()


def fitted(**options):
    return ConformalClassifier(BAYES, random_state=0, **options).fit(X, Y)


def scores_of(model, X, Y):
    """Return one minus the probability of each label."""
    return 1 - model.predict_proba(X)[np.arange(len(X)), np.searchsorted(CLASSES, Y)]


def quantile_set(scores, new_scores, coverage):
    """The classes whose score is at most the ceil((n + 1) c)-th smallest."""
    k = int(np.ceil((len(scores) + 1) * coverage - 1e-9))
    return new_scores <= np.sort(scores)[k - 1]


def folds(k, rows=400):
    """Return splits in which each row is tested once, in order."""
    return [(np.setdiff1d(np.arange(rows), test), test) for test in np.array_split(np.arange(rows), k)]


# ------------------------------------------------------------------------------- what is predicted


def test_sets_are_those_of_the_order_statistic_of_the_calibration_rows():
    model, by_class = fitted(allow_empty=True), fitted(group_by="class", allow_empty=True)
    rows = model.calibration_rows_
    assert model.n_calibration_ == len(rows) == 100
    refitted = GaussianNB().fit(np.delete(X, rows, axis=0), np.delete(Y, rows))
    new = 1 - refitted.predict_proba(X_NEW)
    for coverage in (0.5, 0.9):
        expected = quantile_set(scores_of(refitted, X[rows], Y[rows]), new, coverage)
        np.testing.assert_array_equal(model.predict_set(X_NEW, coverage), expected)
    rows = by_class.calibration_rows_
    scores, new = scores_of(by_class, X[rows], Y[rows]), 1 - by_class.predict_proba(X_NEW)
    sets = by_class.predict_set(X_NEW, 0.8)
    for k, label in enumerate(CLASSES):
        np.testing.assert_array_equal(sets[:, k], quantile_set(scores[Y[rows] == label], new[:, k], 0.8))


@pytest.mark.parametrize("cv", [None, 4])
def test_labels_and_probabilities_are_those_of_the_wrapped_classifier(cv):
    model = fitted(cv=cv)
    rows = np.ones(len(X), dtype=bool)
    if cv is None:
        rows[model.calibration_rows_] = False
    wrapped = GaussianNB().fit(X[rows], Y[rows])
    np.testing.assert_array_equal(model.classes_, CLASSES)
    np.testing.assert_array_equal(model.predict(X_NEW), wrapped.predict(X_NEW))
    np.testing.assert_allclose(model.predict_proba(X_NEW), wrapped.predict_proba(X_NEW), rtol=1e-12)
    assert model.score(X_NEW, Y_NEW) == wrapped.score(X_NEW, Y_NEW)


def test_folds_compare_each_class_with_the_rows_of_each_fold():
    """CV+ written out: a class is in unless it exceeds c (n + 1) or more of the calibration scores."""
    model = fitted(cv=folds(4), allow_empty=True)
    assert model.calibration_rows_ is None
    assert model.n_calibration_ == 400
    for coverage in (0.5, 0.8, 0.95):
        exceeded = np.zeros((len(X_NEW), 4))
        for train, test in folds(4):
            part = GaussianNB().fit(X[train], Y[train])
            new = 1 - part.predict_proba(X_NEW)[..., np.newaxis]
            exceeded += (scores_of(part, X[test], Y[test]) < new).sum(axis=-1)
        np.testing.assert_array_equal(model.predict_set(X_NEW, coverage), exceeded < coverage * 401 - 1e-9)
    once, repeated = fitted(cv=folds(2)), fitted(cv=folds(2) * 2)  # each row counts once
    assert repeated.n_calibration_ == once.n_calibration_ == 400
    np.testing.assert_array_equal(repeated.predict_set(X_NEW), once.predict_set(X_NEW))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cv": 3},
        {"method": "aps"},
        {"group_by": "class"},
        {"density_ratio": lambda X: np.exp(0.1 * X[:, 0])},
    ],
)
def test_several_coverages_and_rows_apart_have_the_same_sets(options):
    model, coverages = fitted(**options), [0.5, 0.8, 0.95]
    sets = model.predict_set(X_NEW, coverages)
    assert sets.shape == (len(X_NEW), 4, 3)
    assert sets.dtype == bool
    for column, coverage in enumerate(coverages):
        np.testing.assert_array_equal(sets[:, :, column], model.predict_set(X_NEW, coverage))
    assert (sets[:, :, :-1] <= sets[:, :, 1:]).all()
    apart = np.concatenate([model.predict_set(X_NEW[[i]], coverages) for i in range(20)])
    np.testing.assert_array_equal(apart, sets[:20])
    np.testing.assert_array_equal(model.predict_set(X_NEW[::3], coverages), sets[::3])


@pytest.mark.parametrize("options", [{}, {"cv": 3}, {"method": "aps", "randomized": True}])
def test_an_empty_set_becomes_that_of_the_most_probable_class(options):
    with_empty, without = fitted(allow_empty=True, **options), fitted(**options)
    sets, filled = with_empty.predict_set(X_NEW, [0.3, 0.9]), without.predict_set(X_NEW, [0.3, 0.9])
    empty = ~sets.any(axis=1)
    assert empty[:, 0].any()
    top = np.eye(4, dtype=bool)[without.predict_proba(X_NEW).argmax(axis=1)]
    expected = np.where(empty[:, np.newaxis], top[..., np.newaxis], sets)
    np.testing.assert_array_equal(filled, expected)


def test_a_name_groups_by_a_column():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(side=(X[:, 0] > 0).astype(int))
    named = frame.rename(columns={"side": "class"})
    model = ConformalClassifier(BAYES, random_state=0)
    by_name = clone(model).set_params(group_by="side").fit(frame, Y).predict_set(frame)
    by_call = clone(model).set_params(group_by=lambda X: X["class"]).fit(named, Y).predict_set(named)
    np.testing.assert_array_equal(by_name, by_call)
    assert (by_name != clone(model).fit(frame, Y).predict_set(frame)).any()
    with pytest.raises(ValueError, match=r"`group_by` 'class' is ambiguous, .* `lambda X: X\['class'\]`"):
        ConformalClassifier(BAYES, group_by="class").fit(named, Y)


def copied(splits, repeated):
    """The splits of rows that are written down as often as they count, without folds that test none."""
    parts = [[np.flatnonzero(np.isin(repeated, rows)) for rows in split] for split in splits]
    return [(train, test) for train, test in parts if test.size]


HALVES, THIRDS = [(np.arange(200), np.arange(200, 400))], folds(3)


@pytest.mark.parametrize(
    ("splits", "options"),
    [
        (HALVES, {}),
        (HALVES, {"method": "aps"}),
        (HALVES, {"group_by": "class"}),
        (HALVES, {"density_ratio": lambda X: np.exp(0.1 * X[:, 0])}),
        (THIRDS, {}),
        (THIRDS, {"method": "aps", "penalty": 0.1}),
    ],
)
@pytest.mark.parametrize("without", [[], range(100)])
def test_weights_count_repetitions(splits, options, without):
    weight = np.random.default_rng(0).integers(0, 3, size=400)
    weight[without] = 0
    if len(splits) > 1 and len(without):
        weight[splits[0][1]] = 0  # a whole fold
    weighted = ConformalClassifier(BAYES, cv=splits, **options).fit(X, Y, sample_weight=weight)
    repeated = np.repeat(np.arange(400), weight)
    copies = ConformalClassifier(BAYES, cv=copied(splits, repeated), **options).fit(X[repeated], Y[repeated])
    tested = np.concatenate([test for _, test in splits])
    assert weighted.n_calibration_ == copies.n_calibration_ == weight[tested].sum()
    coverages = np.linspace(0.05, 0.95, 19)
    np.testing.assert_array_equal(
        weighted.predict_set(X_NEW, coverages), copies.predict_set(X_NEW, coverages)
    )


def test_classes_and_folds_without_weight():
    proba, labels = miscalibrated_rows(400, np.random.default_rng(0))
    weight = 2 * (labels != "dog")
    model = ConformalClassifier(FrozenEstimator(GivenProba()), allow_empty=True)
    weighted = clone(model).fit(proba, labels, sample_weight=weight)
    copies = clone(model).fit(np.repeat(proba, weight, axis=0), np.repeat(labels, weight))
    np.testing.assert_array_equal(weighted.predict_set(proba, 0.8), copies.predict_set(proba, 0.8))
    with pytest.raises(ValueError, match=r"the label 'dog'.* with 0 calibration rows"):
        clone(model).set_params(group_by="class").fit(proba, labels, sample_weight=weight)
    splits = [(np.arange(200, 400), np.arange(100)), (np.arange(200, 400), np.arange(100, 200))]
    with pytest.raises(ValueError, match="must be positive for at least one test row of `cv`"):
        ConformalClassifier(BAYES, cv=splits).fit(X, Y, sample_weight=np.repeat([0, 2], 200))
    with pytest.raises(ValueError, match="counts repetitions"):
        fitted().fit(X, Y, sample_weight=np.full(400, 1 / 400))


def test_a_precomputed_kernel_loses_the_columns_of_the_rows_that_calibrate():
    kernel, new = rbf_kernel(X, X), rbf_kernel(X_NEW, X)
    one = [(np.arange(300), np.arange(300, 400))]
    for cv in (one, [*one, (np.arange(100, 400), np.arange(100))]):
        model = ConformalClassifier(KernelBayes(), cv=cv).fit(kernel, Y)
        assert contains(model.predict_set(new), Y_NEW).mean() > 0.8


class KernelBayes(GaussianNB):
    """Works on the kernel's columns, and says that its X is a matrix between rows."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        return tags

    def fit(self, X, y):
        assert X.shape[0] == X.shape[1]
        return super().fit(X, y)


# -------------------------------------------------------------------------------- labels of all kinds


@pytest.mark.parametrize("options", [{}, {"folds": 3}, {"group_by": "class"}])
def test_labels_of_any_kind_give_the_same_sets(options, subtests):
    splits = folds(3)[: options.get("folds", 1)]
    model = ConformalClassifier(BAYES, cv=splits, group_by=options.get("group_by"))
    sets = clone(model).fit(X, CODES[:400]).predict_set(X_NEW)
    for classes in (
        np.array([3, -1, 7, 10]),
        np.array([0.0, 1.0, 2.0, 3.0]),
        np.array(["a", "b", "c", "d"], dtype=object),
        np.array(["d", "c", "b", "a"]),
        np.array(["d", "c", "b", "a"], dtype=np.dtypes.StringDType()),
        pd.array(["a", "b", "c", "d"], dtype="string"),
    ):
        with subtests.test(dtype=classes.dtype):
            order = np.argsort(np.asarray(classes, dtype=object if classes.dtype.kind not in "if" else None))
            named = clone(model).fit(X, classes[CODES[:400]])
            np.testing.assert_array_equal(named.classes_, np.asarray(classes)[order])
            np.testing.assert_array_equal(named.predict_set(X_NEW), sets[:, order])


def test_one_or_two_classes():
    model = ConformalClassifier(BAYES, random_state=0).fit(X, pd.Series(Y == "ant"))
    assert model.classes_.tolist() == [False, True]
    assert model.predict_set(X_NEW).shape == (200, 2)
    model = ConformalClassifier(DecisionTreeClassifier(), random_state=0).fit(X, np.full(400, "ant"))
    assert model.predict_set(X_NEW).shape == (200, 1)
    assert model.predict_set(X_NEW).all()


@pytest.mark.laws
@pytest.mark.parametrize(
    "options", [{}, {"cv": 4}, {"method": "aps", "randomized": True}, {"group_by": "class"}]
)
def test_sets_of_two_classes_cover_as_nominal(options):
    covered = []
    for seed in range(60):
        rows, codes = make_blobs(900, centers=2, cluster_std=6.0, random_state=seed)
        labels = np.array(["no", "yes"])[codes]
        model = ConformalClassifier(BAYES, allow_empty=True, random_state=seed, **options)
        model.fit(rows[:400], labels[:400])
        sets = model.predict_set(rows[400:], 0.8)
        assert sets.shape == (500, 2)
        covered.append(contains(sets, labels[400:], model.classes_).mean())
    error = np.sqrt(0.16 * (1 / 100 + 1 / 500) / 60)
    assert np.mean(covered) == pytest.approx(0.8, abs=3 * error)


@pytest.mark.parametrize("options", [{"held_out_size": 1}, {"cv": [(np.arange(399), [399])]}])
def test_a_single_row_calibrates_coverages_up_to_one_half(options):
    model = fitted(allow_empty=True, **options)
    assert model.n_calibration_ == 1
    (row,) = model.calibration_rows_
    score = 1 - model.predict_proba(X[[row]])[0, np.searchsorted(CLASSES, Y[row])]
    expected = 1 - model.predict_proba(X_NEW) <= score
    np.testing.assert_array_equal(model.predict_set(X_NEW, 0.5), expected)
    with pytest.warns(SmallSampleWarning, match="51 % needs at least"):
        assert model.predict_set(X_NEW, 0.51).all()


@pytest.mark.parametrize("options", [{}, {"cv": 3}])
def test_missing_features_reach_a_classifier_that_allows_them(options):
    holes = X.copy()
    holes[::7, 0] = np.nan
    model = ConformalClassifier(HistGradientBoostingClassifier(max_iter=5), random_state=0, **options)
    sets = model.fit(holes, Y).predict_set(holes)
    assert contains(sets, Y).mean() > 0.85
    with pytest.raises(ValueError, match="NaN"):
        fitted().fit(holes, Y)


def test_labels_that_the_training_rows_lack_count_as_misses():
    """20 of 100 calibration rows have such a label: 90 % of all are then out of reach, 75 % are not."""
    proba, labels = miscalibrated_rows(3100, np.random.default_rng(0))
    labels = labels.astype(object)
    labels[:20] = labels[100:700] = "eel"
    with_new = ConformalClassifier(FrozenEstimator(GivenProba())).fit(proba[:100], labels[:100])
    without = ConformalClassifier(FrozenEstimator(GivenProba())).fit(proba[20:100], labels[20:100])
    assert with_new.classes_.tolist() == list(CLASSES)
    message = "at the coverage 90 %, the sets contain all classes. 20 of 100 calibration rows have a label"
    with pytest.warns(SmallSampleWarning, match=message) as caught:
        assert with_new.predict_set(proba, [0.75, 0.9])[..., 1].all()
    assert len(caught) == 1
    sets = with_new.predict_set(proba[100:], 0.75)
    assert sets.sum() > without.predict_set(proba[100:], 0.75).sum()
    assert contains(sets, labels[100:]).mean() > 0.7


@pytest.mark.parametrize("k", [1, 2])
def test_coverage_out_of_reach_of_the_labels_gives_all_classes_and_a_warning(k):
    rows, n, splits = np.arange(400), 200 * k, folds(2)[:k]
    labels = np.where(rows % 10 == 0, np.char.add("new ", rows.astype(str)), Y)
    model = ConformalClassifier(BAYES, cv=splits).fit(X, labels)
    with pytest.warns(SmallSampleWarning, match=rf"contain all classes\. {n // 10} of {n} calibration rows"):
        assert model.predict_set(X_NEW, 0.95).all()
    assert not model.predict_set(X_NEW, 0.85).all()
    for group_by in (None, "class")[: 3 - k]:
        with pytest.raises(ValueError, match="Got only other labels, such as 'zebra'"):
            model.set_params(group_by=group_by).fit(X, np.where(rows < 200, "zebra", Y))


def test_labels_that_no_training_row_has_are_left_out_of_class_conditional_sets():
    proba, labels = miscalibrated_rows(400, np.random.default_rng(0))
    extra = np.append(labels, "eel")
    options = {"group_by": "class"}
    with_new = ConformalClassifier(FrozenEstimator(GivenProba()), **options)
    with_new.fit(np.vstack([proba, proba[:1]]), extra)
    without = ConformalClassifier(FrozenEstimator(GivenProba()), **options).fit(proba, labels)
    np.testing.assert_array_equal(with_new.predict_set(proba), without.predict_set(proba))
    assert with_new.n_calibration_ == 400


def test_a_fold_without_a_class_gives_sets_of_all_classes():
    splits = [(np.flatnonzero(Y != "dog"), np.flatnonzero(Y == "dog")), (np.arange(300), np.arange(300, 400))]
    splits[0] = (splits[0][0][:250], splits[0][1])
    model = fitted(cv=splits)
    with pytest.warns(SmallSampleWarning, match="have a label that does not occur in the training rows"):
        sets = model.predict_set(X_NEW)
    assert sets.shape == (200, 4)
    assert sets.all()


# -------------------------------------------------------------------------------- rows held out


def test_held_out_rows_have_the_shares_of_the_classes():
    labels = np.repeat(list("abcd"), [600, 300, 96, 4])
    train, held_out = stratified_split(labels, 250, seed=0)
    assert np.intersect1d(train, held_out).size == 0
    assert len(train) + len(held_out) == 1000
    _, counts = np.unique(labels[held_out], return_counts=True)
    np.testing.assert_allclose(counts, [150, 75, 24, 1], atol=1)
    labels = np.array(["a"] * 30 + ["b"] * 10)  # every row may be held out
    times = sum(np.bincount(stratified_split(labels, 10, seed)[1], minlength=40) for seed in range(400))
    assert 60 < times.min() < times.max() < 145


def test_the_only_row_of_a_class_may_calibrate_where_coverage_is_that_of_all_classes():
    labels = np.array(["a"] * 20 + ["b"] * 20 + ["c"])
    times = sum(40 in stratified_split(labels, 10, seed, exchangeable=True)[1] for seed in range(200))
    assert times == pytest.approx(200 * 10 / 41, abs=20)
    for seed in range(30):  # it has to train for a guarantee of each class
        assert 40 in stratified_split(labels, 10, seed)[0]
    train, held_out = stratified_split(np.arange(10), 4, seed=0)  # nothing but such rows
    assert (len(train), len(held_out)) == (6, 4)


def test_groups_go_to_the_splitter():
    groups = np.arange(400) // 10
    model = ConformalClassifier(BAYES, cv=GroupShuffleSplit(1, random_state=0)).fit(X, Y, groups=groups)
    held_out = np.isin(np.arange(400), model.calibration_rows_)
    assert all(len(set(held_out[groups == group])) == 1 for group in range(40))
    with pytest.raises(ValueError, match="the held-out rows are drawn without regard to groups"):
        fitted().fit(X, Y, groups=groups)


# -------------------------------------------------------------------------------- reproducibility


@pytest.mark.parametrize("options", [{}, {"cv": 4}, {"method": "aps", "randomized": True}])
def test_an_integer_makes_sets_reproducible_and_jobs_change_nothing(options):
    forest = RandomForestClassifier(5)
    with parallel_config("threading"):
        models = [
            ConformalClassifier(forest, random_state=3, n_jobs=n_jobs, **options).fit(X, Y)
            for n_jobs in (None, None, 2)
        ]
    sets = [model.predict_set(X_NEW) for model in models]
    np.testing.assert_array_equal(sets[0], sets[1])
    np.testing.assert_array_equal(sets[0], sets[2])
    np.testing.assert_array_equal(sets[0], models[0].predict_set(X_NEW))
    if options.get("randomized"):  # without a seed, each call draws anew
        model = ConformalClassifier(BAYES, allow_empty=True, **options).fit(X, Y)
        assert (model.predict_set(X_NEW) != model.predict_set(X_NEW)).any()


# -------------------------------------------------------------------------------- in containers


def test_a_search_through_a_pipeline_reaches_the_sets():
    def neg_set_size(estimator, X, y):
        return -predict_set(estimator, X).sum(axis=1).mean()

    pipeline = make_pipeline(StandardScaler(), ConformalClassifier(BAYES, random_state=0))
    grid = {
        "conformalclassifier__method": ["lac", "aps"],
        "conformalclassifier__estimator__var_smoothing": [1e-9, 1e-2],
    }
    search = GridSearchCV(pipeline, grid, scoring=neg_set_size, cv=2, error_score="raise").fit(X, Y)
    sets, inner = predict_set(search, X_NEW, [0.8, 0.9]), search.best_estimator_
    assert sets.shape == (200, 4, 2)
    np.testing.assert_array_equal(sets, inner[-1].predict_set(inner[0].transform(X_NEW), [0.8, 0.9]))


def test_frames_and_sparse_matrices_reach_the_classifier():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = ConformalClassifier(BAYES, random_state=0).fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(
        model.predict_set(pd.DataFrame(X_NEW, columns=["a", "b"])), fitted().predict_set(X_NEW)
    )
    tree = ConformalClassifier(DecisionTreeClassifier(max_depth=3, random_state=0), random_state=0)
    dense = clone(tree).fit(X, Y).predict_set(X_NEW)
    np.testing.assert_array_equal(
        tree.fit(sparse.csr_matrix(X), Y).predict_set(sparse.csr_matrix(X_NEW)), dense
    )


# -------------------------------------------------------------------------------- warnings and errors


def test_too_few_rows_give_all_classes_and_one_warning():
    for options in ({}, {"cv": 2}):
        model = ConformalClassifier(BAYES, random_state=0, **options).fit(X[:40], Y[:40])
        with pytest.warns(SmallSampleWarning, match="99.9 % needs at least 999 .*all classes"):
            assert model.predict_set(X_NEW, 0.999).all()
        assert not model.predict_set(X_NEW, 0.5).all()
    with pytest.warns(SmallSampleWarning) as caught:
        fitted(group_by="class").predict_set(X_NEW, [0.5, 0.999])
    assert len(caught) == 1


def test_a_rare_class_is_an_error_or_pooled():
    y = np.full(400, "common", dtype=object)
    y[np.flatnonzero(CODES[:400] == 0)[:12]] = "rare"
    with pytest.raises(ValueError, match="got the label 'rare' with 3"):
        fitted(group_by="class").fit(X, y)
    pooled = fitted(group_by="class", rare_groups="pool").fit(X, y)
    assert pooled.predict_set(X_NEW).shape == (200, 2)
    assert fitted(group_by="class", min_group_size=1).fit(X, y).predict_set(X_NEW, 0.6).any()
    rows = np.flatnonzero(Y != "dog")
    with pytest.raises(ValueError, match=r"the label 'dog'.* with 0 calibration rows"):
        fitted(group_by="class", cv=[(np.arange(200), rows[rows >= 200])], min_group_size=1)


def test_bad_parameters(subtests):
    for options, error, message in (
        ({"method": "score"}, ValueError, "`method` must be one of"),
        ({"allow_empty": 1}, ValueError, "`allow_empty` must be one of True, False"),
        ({"held_out_size": 1.5}, ValueError, "`held_out_size` must be a share"),
        ({"held_out_size": 400}, ValueError, "`held_out_size` must leave rows to train on"),
        ({"group_by": True}, TypeError, "`group_by` must be a callable"),
        ({"group_by": "side"}, TypeError, "`X` must be a pandas DataFrame if `group_by` is a column name"),
        ({"density_ratio": 2.0}, TypeError, "`density_ratio` must be a callable"),
        ({"density_ratio": lambda X: -np.ones(len(X))}, ValueError, "`density_ratio` must be non-negative"),
        ({"density_ratio": lambda X: np.zeros(len(X))}, ValueError, "must be positive for at least one"),
        ({"density_ratio": lambda X: np.ones(3)}, ValueError, "`density_ratio` must have"),
        ({"cv": 1}, ValueError, "`cv` must be at least 2"),
        ({"cv": "five"}, ValueError, "`cv` must be one of 'last', got 'five'"),
        ({"cv": [(np.arange(300), np.arange(200, 400))]}, ValueError, "fold 0 has row 200 in both"),
        ({"cv": 3, "group_by": "class"}, ValueError, "`group_by` must be None with several folds, 3 from"),
        ({"cv": 3, "density_ratio": len}, ValueError, "`density_ratio` must be None with several folds"),
        ({"min_group_size": 0}, ValueError, "`min_group_size` must be at least 1"),
        ({"min_group_size": 5}, ValueError, "`min_group_size` must be 10 without `group_by`, got 5"),
        ({"rare_groups": "pool"}, ValueError, "must be 'raise' without `group_by`, got 'pool'"),
        ({"cv": 3, "held_out_size": 9}, ValueError, "`held_out_size` must be 0.25 with `cv`, got 9"),
        ({"rare_groups": "drop"}, ValueError, "`rare_groups` must be one of"),
    ):
        with subtests.test(message), pytest.raises(error, match=message):
            fitted(**options)


class Doubling(GaussianNB):
    def predict_proba(self, X):
        return 2 * super().predict_proba(X)


class FirstTwo(GaussianNB):
    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_bad_estimators(subtests):
    two_columns = "`estimator` must predict .* FirstTwo has 4 classes and 2 columns"
    for estimator, cv, error, message in (
        (LinearRegression(), None, ValueError, "must be a classifier, got the regressor LinearRegression"),
        (GaussianNB, None, TypeError, "`estimator` must be an instance"),
        (StandardScaler(), None, TypeError, "must be a classifier with `fit` and `predict_proba`"),
        ("bayes", None, TypeError, "must be a classifier with `fit` and `predict_proba`"),
        (LinearSVC(), None, NotProbabilisticError, "LinearSVC gives no class probabilities.*Calibrated"),
        (SVC(), None, NotProbabilisticError, "SVC gives no class probabilities"),
        (FrozenEstimator(GaussianNB()), None, NotFittedError, "not fitted"),
        (Doubling(), None, ValueError, r"`Doubling\.predict_proba` must have rows that sum to 1"),
        (FirstTwo(), None, ValueError, two_columns),
        (FirstTwo(), 2, ValueError, two_columns),
    ):
        with subtests.test(message, cv=cv), pytest.raises(error, match=message):
            ConformalClassifier(estimator, cv=cv).fit(X, Y)


def test_bad_labels(subtests):
    texts = np.where(CODES[:400] == 0, "a", "b").astype(object)
    for y, error, message in (
        (None, ValueError, "requires y to be passed"),
        (np.random.default_rng(0).normal(size=400), ValueError, "Unknown label type"),
        (np.where(CODES[:400] == 0, np.nan, 1.0), ValueError, "NaN"),
        (np.eye(4)[CODES[:400]], ValueError, "1d array|shape"),
        (Y[:30], ValueError, "`X` and `y` must have the same number of rows"),
        (np.where(np.arange(400) == 3, 1, texts), TypeError, "`y` must hold labels of one kind"),
    ):
        with subtests.test(message), pytest.raises(error, match=message):
            fitted().fit(X, y)
    message = "`y` must not have missing values, got 1, the first at row 3"
    for value in (None, np.nan, pd.NA):
        texts[3] = value
        for y in (texts, texts.tolist(), pd.Series(texts, dtype="string"), pd.Categorical(texts)):
            for cv in (None, 3):
                with subtests.test(value=value, cv=cv), pytest.raises(ValueError, match=message):
                    ConformalClassifier(BAYES, cv=cv).fit(X, y)


def test_a_frozen_classifier_is_not_split():
    frozen = FrozenEstimator(GaussianNB().fit(X[:200], Y[:200]))
    with pytest.raises(ValueError, match="`cv` must be None with a FrozenEstimator"):
        ConformalClassifier(frozen, cv=ShuffleSplit(1)).fit(X, Y)
    model = ConformalClassifier(frozen).fit(X[200:], Y[200:])
    assert model.n_calibration_ == 200
    assert model.estimator_ is frozen
    with pytest.raises(ValueError, match=r"`y` must contain classes of .* Got only other labels"):
        ConformalClassifier(frozen).fit(X, CODES[:400])


def test_prediction_needs_a_fit_and_the_columns_of_the_training_rows():
    with pytest.raises(NotFittedError):
        ConformalClassifier(BAYES).predict_set(X)
    with pytest.raises(ValueError, match="3 features"):
        fitted().predict_set(np.ones((2, 3)))
    with pytest.raises(ValueError, match="`coverage` must lie strictly between 0 and 1"):
        fitted().predict_set(X, 90)


POINTS, KINDS = make_blobs(120, centers=3, cluster_std=3.0, random_state=0)

CASES = [
    ConformalClassifier(LogisticRegression(max_iter=1000), random_state=0),
    ConformalClassifier(
        DecisionTreeClassifier(max_depth=3, random_state=0),
        "aps",
        randomized=True,
        penalty=0.1,
        random_state=0,
    ),
    ConformalClassifier(DecisionTreeClassifier(random_state=0), cv=2, random_state=0),
]


@parametrize_with_checks(CASES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_is_a_classifier_with_the_tags_of_what_it_wraps():
    model = ConformalClassifier(DecisionTreeClassifier())
    assert is_classifier(model)
    assert get_tags(model).input_tags.sparse
    assert get_tags(model).input_tags.allow_nan
    assert not get_tags(model).classifier_tags.multi_label


@pytest.mark.parametrize("options", [{}, {"cv": 3}, {"method": "aps", "randomized": True}])
def test_a_pickle_predicts_the_same_sets(options):
    model = ConformalClassifier(GaussianNB(), random_state=0, **options).fit(POINTS, KINDS)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_set(POINTS), model.predict_set(POINTS))


def test_weights_reach_the_last_step_of_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    weight = np.where(KINDS == 0, 1.0, 50.0)
    plain = ConformalClassifier(pipeline, random_state=0).fit(POINTS, KINDS)
    weighted = ConformalClassifier(pipeline, random_state=0).fit(POINTS, KINDS, sample_weight=weight)
    assert (weighted.predict_proba(POINTS)[:, 0] < plain.predict_proba(POINTS)[:, 0]).mean() > 0.9
    with pytest.raises(ValueError, match="`fit` of KNeighborsClassifier does not accept"):
        ConformalClassifier(KNeighborsClassifier()).fit(POINTS, KINDS, sample_weight=weight)


def test_routed_metadata_reach_the_classifier_and_the_splitter():
    groups = np.arange(len(POINTS)) // 4
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        model = ConformalClassifier(inner, cv=GroupKFold(3)).set_score_request(sample_weight=False)
        weight = np.where(KINDS == 0, 1.0, 20.0)
        result = cross_validate(
            clone(model),
            POINTS,
            KINDS,
            cv=GroupKFold(2),
            params={"groups": groups, "sample_weight": weight},
            return_estimator=True,
            error_score="raise",
        )
        unweighted = ConformalClassifier(GaussianNB(), cv=GroupKFold(3)).fit(POINTS, KINDS, groups=groups)
    fitted = result["estimator"][0].estimator_
    assert fitted.class_prior_[0] < 0.1 < unweighted.estimator_.class_prior_[0]
