"""Displays of classifiers: prediction sets, and the reliability of probabilities."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_validate
from sklearn.naive_bayes import GaussianNB

from skuq.conformal import ConformalClassifier, prediction_set
from skuq.displays import ClassReliabilityDisplay, PredictionSetDisplay
from skuq.displays._class_reliability import frequency_interval
from skuq.metrics import (
    class_reliability_table,
    expected_calibration_error,
    mean_set_size,
    set_coverage_error,
    set_coverage_score,
)
from skuq.metrics._class_scores import draw_codes
from skuq.monitoring import ClassMetricAccumulator

X, Y = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])[Y]
both = pytest.mark.parametrize("display", [PredictionSetDisplay, ClassReliabilityDisplay])


@pytest.fixture
def forecast():
    proba = np.random.default_rng(0).dirichlet(np.full(4, 0.5), size=900)
    return draw_codes(proba, np.random.RandomState(0)), proba


# ----------------------------------------------------------------------------------- both


@both
def test_an_estimator_is_drawn_by_its_own_classes(display):
    model = GaussianNB().fit(X, WORDS)
    drawn = display.from_estimator(model, X[:100], WORDS[:100])  # without the third class
    given = display.from_predictions(WORDS[:100], model.predict_proba(X[:100]), labels=model.classes_)
    assert_array_equal(drawn.line_.get_xydata(), given.line_.get_xydata())
    assert drawn.line_.get_label() == "GaussianNB"
    assert given.name is None
    frozen = display.from_estimator(FrozenEstimator(model), X[:100], WORDS[:100], name="mine")
    assert_array_equal(frozen.line_.get_ydata(), drawn.line_.get_ydata())
    assert frozen.line_.get_label() == "mine"


@both
def test_each_fold_of_a_cross_validation_has_a_curve(display):
    folds = KFold(3, shuffle=True, random_state=0)
    results = cross_validate(GaussianNB(), X, Y, cv=folds, return_estimator=True, return_indices=True)
    drawn = display.from_cv_results(results, X, Y, sample_weight=np.ones(150))
    assert len(drawn.line_) == len(drawn.table) == 3
    rows = results["indices"]["test"][1]
    one = display.from_estimator(results["estimator"][1], X[rows], Y[rows])
    assert_allclose(drawn.line_[1].get_ydata(), one.line_.get_ydata())
    assert drawn.line_[0].get_label() == "GaussianNB (3 folds)"
    with pytest.raises(ValueError, match="return_estimator=True, return_indices=True"):
        display.from_cv_results({}, X, Y)
    with pytest.raises(ValueError, match="must be the X that was passed to cross_validate"):
        display.from_cv_results(results, X[:50], Y[:50])


@both
def test_weights_are_repetitions(display, forecast):
    y, proba = forecast
    weight = np.random.default_rng(0).integers(0, 3, size=900)
    rows = np.repeat(np.arange(900), weight)
    weighted = display.from_predictions(y, proba, sample_weight=weight)
    assert_allclose(weighted.table, display.from_predictions(y[rows], proba[rows]).table)


# ------------------------------------------------------------------------- prediction sets


def test_the_curves_are_coverage_claim_and_size(forecast):
    y, proba = forecast
    display = PredictionSetDisplay.from_predictions(y, proba, coverage=[0.5, 0.9])
    assert_array_equal(display.line_.get_xdata(), [0.5, 0.9])
    for k, coverage in enumerate((0.5, 0.9)):
        covered = set_coverage_score(y, proba, coverage=coverage)
        assert display.line_.get_ydata()[k] == pytest.approx(covered)
        excess = set_coverage_error(y, proba, coverage=coverage, signed=True)
        assert display.claimed_.get_ydata()[k] == pytest.approx(covered - excess)
        assert display.table["size"][k] == mean_set_size(None, proba, coverage=coverage)
    sizes = display.plot(show="size")
    assert_array_equal(sizes.line_.get_ydata(), display.table["size"])
    assert sizes.claimed_ is None
    assert sizes.ref_line_ is None
    assert sizes.ax_.get_ylabel() == "Mean number of classes in a set"


def test_sets_of_several_coverages_claim_these(forecast):
    y, proba = forecast
    coverages = [0.5, 0.8, 0.95]
    display = PredictionSetDisplay.from_predictions(y, prediction_set(proba, coverages), coverage=coverages)
    assert display.claimed_ is None
    expected = PredictionSetDisplay.from_predictions(y, proba, coverage=coverages).table
    assert_allclose(display.table[["coverage", "size"]], expected[["coverage", "size"]])
    of_one = PredictionSetDisplay.from_predictions(y, prediction_set(proba, 0.8), coverage=0.8)
    assert_allclose(of_one.table, display.table[1:2])
    with pytest.raises(ValueError, match=r"`y_pred` must have shape \(n, K, k\)"):
        PredictionSetDisplay.from_predictions(y, prediction_set(proba, 0.8), coverage=coverages)
    for wrong in (None, [0.5, 0.8]):
        with pytest.raises(ValueError, match=r"`y_pred` must have shape \(n, K, k\)"):
            PredictionSetDisplay.from_predictions(y, prediction_set(proba, coverages), coverage=wrong)


def test_a_conformal_classifier_is_drawn_by_its_own_sets():
    model = ConformalClassifier(LogisticRegression(max_iter=500), random_state=0).fit(X, WORDS)
    display = PredictionSetDisplay.from_estimator(model, X, WORDS, coverage=[0.6, 0.9])
    sets = model.predict_set(X, [0.6, 0.9])
    assert_array_equal(display.table["size"], sets.sum(axis=1).mean(axis=0))
    assert_array_equal(display.table["claimed"], [0.6, 0.9])
    one = PredictionSetDisplay.from_estimator(model, X, WORDS, coverage=0.9)
    assert_array_equal(one.table["size"], display.table["size"][1:])
    logistic = model.estimator_
    assert len(PredictionSetDisplay.from_estimator(logistic, X, WORDS, coverage=None).table) == 14
    for options, message in (
        ({"coverage": 90}, "`coverage` must lie strictly between 0 and 1, got 90"),
        ({"coverage": [0.5, 1.0]}, "`coverage` must lie strictly between 0 and 1"),
        ({"show": "width"}, "`show` must be one of 'coverage', 'size', got 'width'"),
    ):
        with pytest.raises(ValueError, match=message):
            PredictionSetDisplay.from_estimator(logistic, X, WORDS, **options)


# ------------------------------------------------------------------------------ reliability


def test_the_distance_from_the_diagonal_is_the_metric(forecast):
    y, proba = forecast
    display = ClassReliabilityDisplay.from_predictions(y, proba, n_bins=6)
    x, share = display.line_.get_xydata().T
    error = np.average(np.abs(x - share), weights=display.table["n"])
    assert error == pytest.approx(expected_calibration_error(y, proba, n_bins=6))


def test_accumulated_rows_give_the_picture_of_the_rows(forecast):
    y, proba = forecast
    accumulator = ClassMetricAccumulator(labels=range(4))
    for rows in (slice(300), slice(300, 900)):
        accumulator.update(y[rows], proba[rows])
    drawn = ClassReliabilityDisplay.from_accumulator(accumulator, name="model")
    expected = ClassReliabilityDisplay.from_predictions(y, proba, name="model")
    assert_allclose(drawn.line_.get_xydata(), expected.line_.get_xydata(), rtol=1e-12)
    assert drawn.line_.get_label() == "model"


def test_a_class_of_ones_own():
    proba = GaussianNB().fit(X, WORDS).predict_proba(X)
    options = {"of_class": "virginica", "strategy": "quantile", "n_bins": 4}
    display = ClassReliabilityDisplay.from_predictions(WORDS, proba, **options)
    assert_array_equal(display.table, class_reliability_table(WORDS, proba, **options))


def test_intervals_hold_the_share_with_their_probability():
    """The exact law: the interval is a function of the count, and the count is binomial."""
    counts = np.arange(61)
    table = pd.DataFrame({"observed": counts / 60, "n": 60.0})
    lower, upper = frequency_interval(table, 0.8)
    inside = stats.binom.pmf(counts, 60, 0.7)[(lower <= 0.7) & (upper >= 0.7)].sum()
    assert 0.76 < inside < 0.86
