"""predict_set, through what classifiers are wrapped in."""

from __future__ import annotations

import numpy as np
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

from skuq.classifiers import ConformalClassifier
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.prediction import predict_dist, predict_set, prediction_set, supports_dist

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
def test_the_sets_of_probabilities_are_reached_through_containers(container):
    model = CONTAINERS[container](LOGISTIC).fit(X, Y)
    np.testing.assert_array_equal(predict_set(model, X, 0.8), prediction_set(model.predict_proba(X), 0.8))


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("coverage", [0.9, [0.5, 0.9]])
def test_the_own_sets_of_an_estimator_are_reached_through_containers(container, coverage):
    sets = predict_set(CONTAINERS[container](Median()).fit(X, Y), X, coverage)
    assert sets.shape == (150, 3, *np.shape(coverage))
    assert not sets[:, :2].any()  # from its probabilities the first class would be in the set


class Weighing(Median):
    """Has sets of its own, and coefficients by which features may be left out."""

    def fit(self, X, y):
        self.coef_ = np.arange(1.0, X.shape[1] + 1)
        return super().fit(X, y)


@pytest.mark.parametrize("selector", [RFE(Weighing(), n_features_to_select=2), RFECV(Weighing(), cv=2)])
def test_the_own_sets_of_an_estimator_are_reached_through_the_selection_of_features(selector):
    sets = predict_set(selector.fit(X, Y), X, [0.5, 0.9])
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


def test_two_classes_have_two_columns():
    model = LOGISTIC.fit(X[:100], NAMES[:100])
    sets = predict_set(model, X[:100])
    assert sets.shape == (100, 2)
    assert sets[np.arange(100), (NAMES[:100] == model.classes_[1]).astype(int)].all()


def test_a_regressor_is_an_error_that_names_predict_dist():
    with pytest.raises(NotProbabilisticError, match=r"LinearRegression is a regressor.*predict_dist"):
        predict_set(LinearRegression().fit(X, Y), X)


def test_predict_dist_of_a_classifier_names_predict_set():
    for model in (LOGISTIC.fit(X, Y), make_pipeline(LOGISTIC).fit(X, Y)):
        assert not supports_dist(model)
        with pytest.raises(NotProbabilisticError, match=r"class probabilities.*prediction\.predict_set"):
            predict_dist(model, X)
    stacking = CONTAINERS["stacking"](LOGISTIC)
    assert not supports_dist(stacking)
    with pytest.raises(NotProbabilisticError, match=r"prediction\.predict_set"):
        predict_dist(stacking.fit(X, Y), X)


@pytest.mark.parametrize("model", [LinearSVC(), make_pipeline(StandardScaler(), LinearSVC())])
def test_a_classifier_without_probabilities_is_an_error_with_the_remedy(model):
    with pytest.raises(NotProbabilisticError, match=r"LinearSVC gives no class probab.*CalibratedClass"):
        predict_set(model.fit(X, Y), X)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {}, cv=2),
        StackingClassifier([("tree", DecisionTreeClassifier())]),
    ],
)
def test_what_is_not_fitted_is_an_error(model):
    with pytest.raises(NotFittedError):
        predict_set(model, X)


def test_a_search_without_refit_is_an_error():
    with pytest.raises(NotRefittedError, match="refit=False"):
        predict_set(GridSearchCV(LOGISTIC, {}, cv=2, refit=False).fit(X, Y), X)


def test_several_targets_are_an_error():
    model = MultiOutputClassifier(LOGISTIC).fit(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="must predict one target, but MultiOutputClassifier predicts 2"):
        predict_set(model, X)


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        ([0.5, 0.6], r"`Broken\.predict_proba` must have rows that sum to 1"),
        ([np.nan, 0.5], r"`Broken\.predict_proba` must not contain NaN"),
        ([1.5, -0.5], r"`Broken\.predict_proba` must be non-negative"),
    ],
)
def test_probabilities_that_are_none_name_the_estimator(proba, message):
    class Broken(Median):
        predict_set = None

        def predict_proba(self, X):
            return np.tile(proba, (len(X), 1))

    with pytest.raises(ValueError, match=message):
        predict_set(Broken().fit(X, Y), X)


def test_own_sets_of_a_wrong_shape_or_type_are_an_error():
    class Shares(Median):
        def predict_set(self, X, coverage=0.9):
            return np.zeros((len(X), 3))

    with pytest.raises(
        ValueError, match=r"`predict_set` of Shares must return a .* array of shape \(150, K\), got"
    ):
        predict_set(Shares().fit(X, Y), X)
    with pytest.raises(ValueError, match=r"shape \(150, K, 2\)"):
        predict_set(Shares().fit(X, Y), X, [0.5, 0.9])


@pytest.mark.parametrize("estimator", [LogisticRegression, "model"])
def test_what_is_no_estimator_is_an_error(estimator):
    with pytest.raises(TypeError, match="`estimator` must be"):
        predict_set(estimator, X)


def test_a_scalar_coverage_reaches_the_own_method_as_a_number():
    class Recording(Median):
        def predict_set(self, X, coverage=0.9):
            self.coverage_ = coverage
            return super().predict_set(X, coverage)

    model = Recording().fit(X, Y)
    predict_set(model, X, 0.8)
    assert type(model.coverage_) is float
