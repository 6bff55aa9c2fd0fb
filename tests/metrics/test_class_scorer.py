"""Scorers of classes: labels of the estimator, folds that lack or add a class, containers, caching."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skuq.classifiers import ConformalClassifier
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import (
    expected_calibration_error,
    get_scorer,
    get_scorer_names,
    make_scorer,
    scorers,
    set_coverage_score,
)
from skuq.prediction import predict_set
from tests.metrics.options import class_specs

SPECS = list(class_specs().values())
NAMES = [
    "neg_class_brier",
    "neg_class_log_loss",
    "neg_ece",
    "neg_set_coverage_error",
    "set_coverage",
    "set_size",
]
X, Y = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])[Y]
MODEL = make_pipeline(StandardScaler(), LogisticRegression())

each_name = pytest.mark.parametrize("name", NAMES)


class Counting(ClassifierMixin, BaseEstimator):
    """Predicts the shares of the classes, and counts how often, over all clones."""

    calls = 0

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.share_ = counts / counts.sum()
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X):
        type(self).calls += 1
        return np.tile(self.share_, (len(X), 1))


def test_their_names():
    assert sorted(spec.scorer_name for spec in SPECS) == NAMES
    assert set(NAMES) <= set(get_scorer_names())


@each_name
@pytest.mark.parametrize("y", [Y, WORDS, Y == 1], ids=["numbers", "texts", "two classes"])
def test_value_is_the_signed_metric_of_the_prediction(name, y):
    model = MODEL.fit(X, y)
    spec = next(spec for spec in SPECS if spec.scorer_name == name)
    forecast = predict_set(model, X) if spec.needs == "set" else model.predict_proba(X)
    sign = -1 if spec.direction == "lower" else 1
    for options in ({}, {"sample_weight": np.arange(150)}):
        score = get_scorer(name)(model, X, y, **options)
        assert type(score) is float
        expected = sign * spec.compute(y, forecast, labels=model.classes_, **options)
        assert score == pytest.approx(expected, rel=1e-12)


@each_name
def test_a_fold_that_lacks_classes_has_a_finite_score(name):
    """Sorted folds: each tests one class, which is not among the training rows of the fold."""
    scores = cross_val_score(MODEL, X, WORDS, cv=KFold(3), scoring=get_scorer(name), error_score="raise")
    if name == "neg_class_log_loss":  # The observed classes have a probability of 0.
        assert (scores == -np.inf).all()
    else:
        assert np.isfinite(scores).all()
    model = MODEL.fit(X, WORDS)
    for rows in (slice(0, 50), slice(0, 1)):
        assert np.isfinite(get_scorer(name)(model, X[rows], WORDS[rows]))


@pytest.mark.parametrize("name", ["neg_log_loss", "neg_brier_score"])
def test_scikit_learns_scorers_are_not_finite_in_folds_that_lack_a_class(name):
    """What the documentation names as the reason to have scorers that read the classes of the estimator."""
    with pytest.warns(UserWarning, match="Scoring failed"):
        scores = cross_val_score(MODEL, X, WORDS, cv=KFold(3), scoring=name)
    assert np.isnan(scores).all()


@each_name
def test_nullable_truth_values_are_scored_as_the_numbers_that_scikit_learn_makes_of_them(name):
    y = pd.Series(Y == 1).astype("boolean")
    shuffled = KFold(3, shuffle=True, random_state=0)
    options = {"cv": shuffled, "scoring": get_scorer(name), "error_score": "raise"}
    found = cross_val_score(MODEL, X, y, **options)
    np.testing.assert_array_equal(found, cross_val_score(MODEL, X, (Y == 1).astype(float), **options))
    sets = predict_set(MODEL.fit(X, y), X)
    for labels in (None, MODEL.classes_, [False, True]):
        assert set_coverage_score(y, sets, labels=labels) == set_coverage_score(Y == 1, sets)


def test_a_class_that_was_not_trained_on_is_never_covered():
    scores = cross_validate(MODEL, X, Y, cv=KFold(3), scoring=scorers(*NAMES))
    assert (scores["test_set_coverage"] == 0).all()
    assert (scores["test_neg_set_coverage_error"] < -0.9).all()


@each_name
def test_containers_are_scored_as_what_they_hold(name):
    scorer, model = get_scorer(name), MODEL.fit(X, WORDS)
    search = GridSearchCV(MODEL, {"logisticregression__C": [1.0]}, scoring=scorer, cv=3, error_score="raise")
    assert np.isfinite(search.fit(X, WORDS).best_score_)
    assert scorer(search, X, WORDS) == scorer(model, X, WORDS) == scorer(FrozenEstimator(model), X, WORDS)


@each_name
def test_copies_and_pickles_score_alike(name):
    scorer, model = get_scorer(name), MODEL.fit(X, Y)
    assert check_scoring(model, scoring=scorer) is scorer
    for twin in (pickle.loads(pickle.dumps(scorer)), copy.deepcopy(scorer)):
        assert twin(model, X, Y) == scorer(model, X, Y)
        assert (twin.__name__, repr(twin)) == (name, repr(scorer))


def test_jobs_change_nothing():
    expected = cross_validate(MODEL, X, Y, scoring=scorers(*NAMES), cv=3)
    parallel = cross_validate(MODEL, X, Y, scoring=scorers(*NAMES), cv=3, n_jobs=2)
    for name in NAMES:
        np.testing.assert_array_equal(parallel[f"test_{name}"], expected[f"test_{name}"])


@each_name
def test_weights_are_routed(name):
    model, weight = LogisticRegression(max_iter=1000), np.arange(150.0)
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    with config_context(enable_metadata_routing=True):
        found = cross_validate(
            model.set_fit_request(sample_weight=False),
            X,
            Y,
            scoring=get_scorer(name).set_score_request(sample_weight=True),
            cv=folds,
            params={"sample_weight": weight},
        )
    for score, (train, test) in zip(found["test_score"], folds, strict=True):
        fitted = model.fit(X[train], Y[train])
        assert score == get_scorer(name)(fitted, X[test], Y[test], sample_weight=weight[test])


def test_scorers_of_a_search_share_their_predictions():
    Counting.calls = 0
    scoring = {**scorers("set_coverage", "set_size", "neg_ece", "neg_set_coverage_error"), "acc": "accuracy"}
    cross_validate(Counting(), X, Y, cv=3, scoring=scoring)
    assert Counting.calls == 6  # sets, and probabilities, of each fold


def test_errors_of_a_conformal_classifier_are_those_of_its_probabilities():
    model = ConformalClassifier(LogisticRegression(max_iter=1000), random_state=0).fit(X, Y)
    for name in ("neg_set_coverage_error", "neg_ece"):
        assert get_scorer(name)(model, X, Y) == get_scorer(name)(model.estimator_, X, Y)
    assert get_scorer("set_size")(model, X, Y) < get_scorer("set_size")(model.estimator_, X, Y)


def test_options_are_bound():
    model = RandomForestClassifier(20, max_depth=2, random_state=0).fit(X, Y)
    small, large = (make_scorer("set_size", coverage=c)(model, X, Y) for c in (0.5, 0.99))
    assert large > small + 0.3
    narrow = make_scorer("set_size", greater_is_better=False, coverage=0.99)
    assert narrow(model, X, Y) == -large
    assert repr(narrow) == "make_scorer('set_size', greater_is_better=False, coverage=0.99)"
    debiased = make_scorer(expected_calibration_error, norm="debiased", classwise=True)
    assert debiased(model, X, Y) == -class_specs()["ece"].compute(
        Y, model.predict_proba(X), norm="debiased", classwise=True
    )


def test_bad_options_are_named_when_the_scorer_is_made():
    with pytest.raises(ValueError, match="`coverage` must lie strictly between 0 and 1"):
        make_scorer("set_coverage", coverage=90)
    with pytest.raises(ValueError, match="`norm` must be one of"):
        make_scorer("ece", norm="l3")
    with pytest.raises(
        TypeError, match=r"`options` of 'ece' must be options of this metric .*, got 'labels'"
    ):
        make_scorer("ece", labels=[0, 1])
    with pytest.raises(ValueError, match="Did you mean 'neg_ece'"):
        get_scorer("ece")


@each_name
def test_what_gives_no_probabilities_is_named(name):
    with pytest.raises(NotProbabilisticError, match="LinearSVC gives no class probabilities"):
        get_scorer(name)(LinearSVC().fit(X, Y), X, Y)
    with pytest.raises(NotProbabilisticError, match="LinearRegression is a regressor"):
        get_scorer(name)(LinearRegression().fit(X, Y), X, Y)
