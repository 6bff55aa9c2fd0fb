"""Prediction sets of class probabilities, and predict_set through what classifiers are wrapped in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skuq import _prediction_sets
from skuq._prediction_sets import check_proba, mass_sets
from skuq.conformal import ConformalClassifier, predict_set, prediction_set
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.prediction import predict_dist, supports_dist

X, Y = load_iris(return_X_y=True)
NAMES = load_iris().target_names[Y]
LOGISTIC = LogisticRegression(C=0.1, max_iter=500)


class Median(ClassifierMixin, BaseEstimator):
    """Sets of its own: the class of the row's sign, whatever the coverage."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))

    def predict(self, X):
        return self.classes_[np.zeros(len(X), dtype=int)]

    def predict_set(self, X, coverage=0.9):
        sets = np.zeros((len(X), len(self.classes_), *np.shape(coverage)), dtype=bool)
        sets[np.asarray(X)[:, 0] > 0, -1] = True
        return sets


CONTAINERS = {
    "pipeline": lambda model: make_pipeline(StandardScaler(), model),
    "search": lambda model: GridSearchCV(model, {}, cv=2),
    "frozen": lambda model: FrozenEstimator(model.fit(X, Y)),
    "pipeline in search": lambda model: GridSearchCV(make_pipeline(StandardScaler(), model), {}, cv=2),
    "stacking": lambda model: StackingClassifier([("tree", DecisionTreeClassifier())], model, cv=2),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_sets_are_reached_through_containers(container):
    model = CONTAINERS[container](LOGISTIC).fit(X, Y)
    np.testing.assert_array_equal(predict_set(model, X, 0.8), prediction_set(model.predict_proba(X), 0.8))
    own = CONTAINERS[container](Median()).fit(X, Y)
    for coverage in (0.9, [0.5, 0.9]):
        sets = predict_set(own, X, coverage)
        assert sets.shape == (150, 3, *np.shape(coverage))
        assert not sets[:, :2].any()  # from its probabilities the first class would be in the set


@pytest.mark.parametrize("cls", [RFE, RFECV])
def test_own_sets_are_reached_through_the_selection_of_features(cls):
    class Weighing(Median):
        def fit(self, X, y):
            self.coef_ = np.arange(1.0, X.shape[1] + 1)
            return super().fit(X, y)

    sets = predict_set(cls(Weighing()).fit(X, Y), X, [0.5, 0.9])
    assert sets.shape == (150, 3, 2)
    assert not sets[:, :2].any()


def test_conformal_sets_are_reached_through_a_search_within_stacking():
    search = GridSearchCV(ConformalClassifier(LOGISTIC, random_state=0), {"method": ["lac", "aps"]}, cv=2)
    stacking = StackingClassifier(
        [("tree", DecisionTreeClassifier(max_depth=2, random_state=0))], search, cv=2
    )
    stacking.fit(X, NAMES)
    sets = predict_set(stacking, X, 0.8)
    inner = stacking.final_estimator_.best_estimator_
    np.testing.assert_array_equal(sets, inner.predict_set(stacking.transform(X), 0.8))
    # the inner estimator has numbers as labels, in the order of the names
    assert sets[np.arange(150), np.searchsorted(stacking.classes_, NAMES)].mean() > 0.8


@pytest.mark.parametrize(
    "model",
    [
        RFE(LOGISTIC, n_features_to_select=2),
        BaggingClassifier(LOGISTIC, 3, random_state=0),
        VotingClassifier([("a", LOGISTIC), ("b", DecisionTreeClassifier(max_depth=2))], voting="soft"),
    ],
)
def test_other_meta_estimators_give_the_sets_of_their_probabilities(model):
    model.fit(X, NAMES)
    sets = predict_set(model, X, [0.6, 0.9])
    assert sets.shape == (150, 3, 2)
    np.testing.assert_array_equal(sets, prediction_set(model.predict_proba(X), [0.6, 0.9]))


def test_predict_dist_of_a_classifier_names_predict_set():
    for model in (LOGISTIC.fit(X, Y), make_pipeline(LOGISTIC).fit(X, Y), CONTAINERS["stacking"](LOGISTIC)):
        assert not supports_dist(model)
        with pytest.raises(NotProbabilisticError, match=r"class probabilities.*conformal\.predict_set"):
            predict_dist(model.fit(X, Y), X)


def test_estimators_without_sets_are_errors(subtests):
    linear = r"LinearSVC gives no class probab.*CalibratedClass"
    for model, y, error, message in (
        (LinearRegression(), Y, NotProbabilisticError, r"LinearRegression is a regressor.*predict_dist"),
        (LinearSVC(), Y, NotProbabilisticError, linear),
        (make_pipeline(StandardScaler(), LinearSVC()), Y, NotProbabilisticError, linear),
        (GridSearchCV(LOGISTIC, {}, cv=2, refit=False), Y, NotRefittedError, "refit=False"),
        (
            MultiOutputClassifier(LOGISTIC),
            np.c_[Y, Y],
            ValueError,
            "one target, but Multi.* predicts 2",
        ),
        (Broken([0.5, 0.6]), Y, ValueError, r"`Broken\.predict_proba` must have rows that sum to 1"),
        (Broken([np.nan, 0.5]), Y, ValueError, r"`Broken\.predict_proba` must not contain NaN"),
        (Broken([1.5, -0.5]), Y, ValueError, r"`Broken\.predict_proba` must be non-negative"),
        (Shares(), Y, ValueError, r"`predict_set` of Shares must return a .* of shape \(150, K\), got"),
    ):
        model.fit(X, y)
        with subtests.test(message), pytest.raises(error, match=message):
            predict_set(model, X)
    with pytest.raises(ValueError, match=r"shape \(150, K, 2\)"):
        predict_set(Shares().fit(X, Y), X, [0.5, 0.9])
    for name, container in CONTAINERS.items():
        if name != "frozen":
            with subtests.test(name), pytest.raises(NotFittedError):
                predict_set(container(LogisticRegression()), X)
    for estimator in (LogisticRegression, "model"):
        with pytest.raises(TypeError, match="`estimator` must be"):
            predict_set(estimator, X)


class Broken(Median):
    """Probabilities that are none."""

    predict_set = None

    def __init__(self, proba):
        self.proba = proba

    def predict_proba(self, X):
        return np.tile(self.proba, (len(X), 1))


class Shares(Median):
    """Sets of a wrong type and shape."""

    def predict_set(self, X, coverage=0.9):
        return np.zeros((len(X), 3))


def test_a_scalar_coverage_reaches_the_own_method_as_a_number():
    class Recording(Median):
        def predict_set(self, X, coverage=0.9):
            self.coverage_ = coverage
            return super().predict_set(X, coverage)

    model = Recording().fit(X, Y)
    predict_set(model, X, 0.8)
    assert type(model.coverage_) is float


COVERAGES = np.array([0.05, 0.5, 0.85, 0.9, 0.95, 0.999])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def sets_of_the_paper(proba, eps):
    """The function of Kompa, Snoek and Beam (2021), row by row: a cumulative sum of descending values."""
    sets = np.zeros(proba.shape, dtype=bool)
    for row, values in enumerate(proba):
        order = np.argsort(values)[::-1]
        last = np.flatnonzero(np.cumsum(values[order]) >= 1 - eps)[0]
        sets[row, order[: last + 1]] = True
    return sets


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_sets_are_those_of_the_paper(rng, n_classes):
    for concentration in (0.05, 1.0, 20.0):
        proba = rng.dirichlet(np.full(n_classes, concentration) + 0.01, size=300)
        for eps in (0.5, 0.1, 0.05, 0.01):
            np.testing.assert_array_equal(prediction_set(proba, 1 - eps), sets_of_the_paper(proba, eps))


def test_several_coverages_are_the_sets_of_each_and_nested(rng):
    proba = rng.dirichlet(np.ones(7), size=200)
    sets = prediction_set(proba, COVERAGES)
    assert sets.shape == (200, 7, len(COVERAGES))
    for column, coverage in enumerate(COVERAGES):
        np.testing.assert_array_equal(sets[:, :, column], prediction_set(proba, coverage))
    assert (sets[:, :, :-1] <= sets[:, :, 1:]).all()
    assert prediction_set(proba, [0.9]).shape == (200, 7, 1)


def test_blocks_of_rows_change_nothing(rng, monkeypatch):
    proba = rng.dirichlet(np.ones(5), size=1000).round(1)
    proba[:, -1] = 1 - proba[:, :-1].sum(axis=1)
    proba = np.abs(proba)[np.abs(np.abs(proba).sum(axis=1) - 1) < 1e-9]
    whole = prediction_set(proba, COVERAGES)
    monkeypatch.setattr(_prediction_sets, "_VALUES_PER_BLOCK", 1)
    monkeypatch.setattr(_prediction_sets, "_LEAST_ROWS_PER_BLOCK", 7)
    np.testing.assert_array_equal(prediction_set(proba, COVERAGES), whole)


def test_sets_by_hand(rng):
    for row, coverage, expected in (
        ([0.89, 0.10, 0.01], 0.9, [0, 1]),  # the crossing class is inside
        ([0.2, 0.5, 0.3], 0.01, [1]),  # the set is never empty
        ([0.25, 0.25, 0.25, 0.25], 0.5, [0, 1]),  # ties fall by class order
        ([0.1, 0.3, 0.3, 0.3], 0.6, [1, 2]),
        ([0.2, 0.2, 0.4, 0.2], 0.5, [0, 2]),
        ([1.0], 0.9, [0]),
    ):
        assert np.flatnonzero(prediction_set([row], coverage)).tolist() == expected
    proba = rng.dirichlet(np.ones(6), size=500)
    order = rng.permutation(6)
    np.testing.assert_array_equal(prediction_set(proba[:, order]), prediction_set(proba)[:, order])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("row", "coverage", "size"),
    [
        ([0.1] * 10, 0.9, 9),
        ([0.1] * 10, 0.3, 3),
        ([0.7, 0.2, 0.1], 0.9, 2),
        ([0.9, 0.1], 0.9, 1),
        ([0.001] * 1000, 0.9, 900),
        ([1 / 3] * 3, 2 / 3, 2),
    ],
)
def test_rounding_does_not_add_a_class(dtype, row, coverage, size):
    assert prediction_set(np.array([row], dtype=dtype), coverage).sum() == size


def test_a_shortfall_above_rounding_adds_a_class():
    assert prediction_set([[0.9 - 1e-13, 0.1 + 1e-13]], 0.9).sum() == 2
    assert prediction_set(np.array([[0.899998, 0.100002]], dtype=np.float32), 0.9).sum() == 2
    assert prediction_set([[0.5, 0.4999995]], 0.9999999).all()


@pytest.mark.parametrize(
    "values",
    [
        [[0.7, 0.3], [0.0, 1.0]],
        [[1, 0], [0, 1]],
        pd.DataFrame({"no": [0.7, 0.0], "yes": [0.3, 1.0]}),
        np.array([[0.75, 0.25], [0.0, 1.0]], dtype=np.float16),
        np.asfortranarray([[0.7, 0.3], [0.0, 1.0]]),
    ],
)
def test_whatever_holds_the_numbers(values):
    np.testing.assert_array_equal(prediction_set(values, 0.6), [[True, False], [False, True]])


def test_the_argument_is_not_changed(rng):
    proba = rng.dirichlet(np.ones(4), size=10)
    proba.flags.writeable = False
    before = proba.copy()
    prediction_set(proba, COVERAGES)
    np.testing.assert_array_equal(proba, before)


def test_calibrated_probabilities_cover_their_mass_and_at_least_the_coverage(rng):
    proba = rng.dirichlet(np.full(5, 0.6), size=20_000)
    labels = (proba.cumsum(axis=1) < rng.random((len(proba), 1))).sum(axis=1)
    sets = prediction_set(proba, 0.8)
    covered = sets[np.arange(len(proba)), labels]
    mass = (proba * sets).sum(axis=1)
    assert (mass >= 0.8 - 1e-12).all()
    assert abs(covered.mean() - mass.mean()) < 3 * np.sqrt((mass * (1 - mass)).mean() / len(proba))


def test_bad_input(subtests):
    masked = np.ma.masked_array(np.array([[0.5, 0.5]], dtype=np.float32), mask=[[True, False]])
    for values, error, message in (
        ([[0.7, 0.2]], ValueError, r"`y_proba` must have rows that sum to 1 within 1e-06, got 0.9 at row 0"),
        ([[0.5, 0.5], [0.5, 0.500002]], ValueError, r"sum to 1 .* at row 1"),
        ([[1.2, -0.2]], ValueError, r"`y_proba` must be non-negative, got -0.2 at row 0, column 1"),
        ([[0.5, np.nan]], ValueError, r"`y_proba` must not contain NaN, got one at row 0, column 1"),
        ([[np.inf, 0.0]], ValueError, "sum to 1"),
        ([[np.nan, -1.0]], ValueError, "NaN"),
        ([0.7, 0.3], ValueError, r"`y_proba` must have shape \(n, K\), .* got \(2,\)"),
        ([[[0.5, 0.5]]], ValueError, r"shape \(n, K\)"),
        (np.empty((0, 3)), ValueError, "at least one row and one class"),
        (np.empty((3, 0)), ValueError, "at least one row and one class"),
        ([["0.5", "0.5"]], TypeError, "`y_proba` must hold real numbers"),
        (None, (TypeError, ValueError), "`y_proba`"),
        (masked, ValueError, "masked"),
    ):
        with subtests.test(message), pytest.raises(error, match=message):
            prediction_set(values)
    for coverage in (0, 1, np.nan, [0.9, 1.0], []):
        with subtests.test(coverage=coverage), pytest.raises(ValueError, match="`coverage`"):
            prediction_set([[0.5, 0.5]], coverage)


def test_check_proba_names_the_argument_and_the_rows():
    assert check_proba(np.array([[0.5, 0.5]], dtype=np.float32)).dtype == np.float32
    assert check_proba([[1, 0]]).dtype == np.float64
    with pytest.raises(ValueError, match=r"`proba` must have 2 rows, one per sample, got 1"):
        check_proba([[1.0, 0.0]], "proba", n=2)
    assert mass_sets(check_proba([[0.5, 0.4999995]]), np.asarray(0.9)).all()  # within the tolerance
