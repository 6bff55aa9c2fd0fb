"""Scorers of classes: labels of the estimator, folds that lack or add a class, containers, caching."""

import copy
import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
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

from skuq.conformal import ConformalClassifier, predict_set
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import (
    expected_calibration_error,
    get_scorer_names,
    make_scorer,
    scorers,
    set_coverage_score,
)
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

SCORERS = scorers(*NAMES)


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


def test_value_is_the_signed_metric_of_the_prediction(subtests):
    assert sorted(spec.scorer_name for spec in SPECS) == NAMES
    assert set(NAMES) - {"set_coverage", "set_size"} <= set(get_scorer_names())
    for y in (Y, WORDS, Y == 1):
        model = MODEL.fit(X, y)
        for spec in SPECS:
            forecast = predict_set(model, X) if spec.needs == "set" else model.predict_proba(X)
            sign = -1 if spec.direction == "lower" else 1
            for options in ({}, {"sample_weight": np.arange(150)}):
                with subtests.test(msg=spec.scorer_name, y=y.dtype, options=list(options)):
                    score = SCORERS[spec.scorer_name](model, X, y, **options)
                    assert type(score) is float
                    expected = sign * spec.compute(y, forecast, labels=model.classes_, **options)
                    assert score == pytest.approx(expected, rel=1e-12)


def test_a_fold_that_lacks_classes_has_a_finite_score():
    """Sorted folds: each tests one class, which is not among the training rows of the fold."""
    result = cross_validate(MODEL, X, WORDS, cv=KFold(3), scoring=SCORERS, error_score="raise")
    for name in NAMES:
        if name == "neg_class_log_loss":  # The observed classes have a probability of 0.
            assert (result[f"test_{name}"] == -np.inf).all()
        else:
            assert np.isfinite(result[f"test_{name}"]).all(), name
    assert (result["test_set_coverage"] == 0).all()
    assert (result["test_neg_set_coverage_error"] < -0.9).all()
    model = MODEL.fit(X, WORDS)
    for name, rows in product(NAMES, (slice(0, 50), slice(0, 1))):
        assert np.isfinite(SCORERS[name](model, X[rows], WORDS[rows])), name


@pytest.mark.parametrize("name", ["neg_log_loss", "neg_brier_score"])
def test_scikit_learns_scorers_are_not_finite_in_folds_that_lack_a_class(name):
    """What the documentation names as the reason to have scorers that read the classes of the estimator."""
    with pytest.warns(UserWarning, match="Scoring failed"):
        scores = cross_val_score(MODEL, X, WORDS, cv=KFold(3), scoring=name)
    assert np.isnan(scores).all()


def test_nullable_truth_values_are_scored_as_the_numbers_that_scikit_learn_makes_of_them():
    y = pd.Series(Y == 1).astype("boolean")
    options = {"cv": KFold(3, shuffle=True, random_state=0), "scoring": SCORERS, "error_score": "raise"}
    found, expected = (cross_validate(MODEL, X, each, **options) for each in (y, (Y == 1).astype(float)))
    for name in NAMES:
        np.testing.assert_array_equal(found[f"test_{name}"], expected[f"test_{name}"])
    sets = predict_set(MODEL.fit(X, y), X)
    for labels in (None, MODEL.classes_, [False, True]):
        assert set_coverage_score(y, sets, labels=labels) == set_coverage_score(Y == 1, sets)


def test_containers_copies_and_pickles_are_scored_as_what_they_hold():
    model = MODEL.fit(X, WORDS)
    grid = {"logisticregression__C": [1.0]}
    search = GridSearchCV(MODEL, grid, scoring=SCORERS, refit="neg_ece", cv=3, error_score="raise")
    search.fit(X, WORDS)
    for name, scorer in SCORERS.items():
        assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()
        score = scorer(model, X, WORDS)
        assert scorer(search, X, WORDS) == score == scorer(FrozenEstimator(model), X, WORDS)
        assert check_scoring(model, scoring=scorer) is scorer
        for twin in (pickle.loads(pickle.dumps(scorer)), copy.deepcopy(scorer)):
            assert twin(model, X, WORDS) == score
            assert (twin.__name__, repr(twin)) == (name, repr(scorer))


def test_scorers_of_a_search_share_their_predictions():
    Counting.calls = 0
    scoring = {**scorers("set_coverage", "set_size", "neg_ece", "neg_set_coverage_error"), "acc": "accuracy"}
    cross_validate(Counting(), X, Y, cv=3, scoring=scoring)
    assert Counting.calls == 6  # sets, and probabilities, of each fold


def test_errors_of_a_conformal_classifier_are_those_of_its_probabilities():
    model = ConformalClassifier(LogisticRegression(max_iter=1000), random_state=0).fit(X, Y)
    for name in ("neg_set_coverage_error", "neg_ece"):
        assert SCORERS[name](model, X, Y) == SCORERS[name](model.estimator_, X, Y)
    assert SCORERS["set_size"](model, X, Y) < SCORERS["set_size"](model.estimator_, X, Y)


def test_options_are_bound_and_checked():
    model = RandomForestClassifier(20, max_depth=2, random_state=0).fit(X, Y)
    small, large = (
        make_scorer("set_size", greater_is_better=False, coverage=c)(model, X, Y) for c in (0.5, 0.99)
    )
    assert large < small - 0.3
    narrow = make_scorer("set_size", greater_is_better=False, coverage=0.99)
    assert repr(narrow) == "make_scorer('set_size', greater_is_better=False, coverage=0.99)"
    debiased = make_scorer(expected_calibration_error, norm="debiased", classwise=True)
    assert debiased(model, X, Y) == -class_specs()["ece"].compute(
        Y, model.predict_proba(X), norm="debiased", classwise=True
    )
    with pytest.raises(ValueError, match="`coverage` must lie strictly between 0 and 1"):
        make_scorer("set_coverage", coverage=90)
    with pytest.raises(ValueError, match="`norm` must be one of"):
        make_scorer("ece", norm="l3")
    refused = r"`options` of 'ece' must be options of this metric .*, got 'labels'"
    with pytest.raises(TypeError, match=refused):
        make_scorer("ece", labels=[0, 1])


def test_what_gives_no_probabilities_is_named():
    for scorer in SCORERS.values():
        with pytest.raises(NotProbabilisticError, match="LinearSVC gives no class probabilities"):
            scorer(LinearSVC().fit(X, Y), X, Y)
        with pytest.raises(NotProbabilisticError, match="LinearRegression is a regressor"):
            scorer(LinearRegression().fit(X, Y), X, Y)
