"""Coverage, size and claimed probability of prediction sets."""

import numpy as np
import pandas as pd
import pytest

from skuq.evaluation import bootstrap_interval
from skuq.metrics import (
    conditional_set_coverage,
    mean_set_size,
    set_coverage_error,
    set_coverage_score,
)
from skuq.metrics._class_inputs import draw_codes
from skuq.monitoring import MetricAccumulator
from skuq.prediction import prediction_set

QUIET = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")


def calibrated(n, n_classes, concentration, seed=0):
    """Return labels drawn from the probabilities, and these."""
    proba = np.random.default_rng(seed).dirichlet(np.full(n_classes, concentration), size=n)
    return draw_codes(proba, np.random.RandomState(seed)), proba


@pytest.mark.parametrize("n_classes", [2, 10, 100])
@pytest.mark.parametrize("concentration", [0.05, 1.0])
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
def test_a_calibrated_forecast_covers_what_it_claims(n_classes, concentration, coverage):
    y, proba = calibrated(4000, n_classes, concentration)
    labels = np.arange(n_classes)
    mass = (proba * prediction_set(proba, coverage)).sum(axis=1)
    error = set_coverage_error(y, proba, labels=labels, coverage=coverage, signed=True)
    deviation = np.sqrt(np.mean(mass * (1 - mass)) / len(y))
    assert abs(error) <= 3 * deviation + 1e-12
    score = set_coverage_score(y, proba, labels=labels, coverage=coverage)
    assert score >= coverage - 3 * np.sqrt(coverage * (1 - coverage) / len(y))
    assert error == pytest.approx(score - mass.mean(), rel=1e-9)


def test_the_nominal_coverage_is_no_target():
    """The last class overshoots: 90 % sets of an accurate calibrated forecast cover nearly everything."""
    y, proba = calibrated(4000, 10, 0.05)
    assert set_coverage_score(y, proba, labels=np.arange(10)) > 0.96
    assert set_coverage_error(y, proba, labels=np.arange(10)) < 0.01


def test_the_sign_says_which_way():
    y, proba = calibrated(2000, 5, 0.5)
    sharp, flat = (proba**power / (proba**power).sum(axis=1, keepdims=True) for power in (3, 0.5))
    assert set_coverage_error(y, sharp, signed=True) < -0.1
    assert set_coverage_error(y, flat, signed=True) > 0.02
    assert set_coverage_error(y, sharp) == -set_coverage_error(y, sharp, signed=True)


@QUIET
def test_labels_without_a_column_count_as_misses():
    proba = np.array([[0.95, 0.05], [0.05, 0.95], [0.95, 0.05], [0.5, 0.5]])
    y = ["a", "b", "new", "new"]
    assert set_coverage_score(y, proba, labels=["a", "b"]) == 0.5
    assert set_coverage_score(y, np.ones((4, 2), dtype=bool), labels=["a", "b"]) == 0.5
    assert set_coverage_error(y, proba, labels=["a", "b"], signed=True) == pytest.approx(0.5 - 3.85 / 4)
    table = conditional_set_coverage(y, proba, labels=["a", "b"])
    assert list(table.index) == [None, "a", "b"]
    assert table["coverage"].tolist() == [0.0, 1.0, 1.0]
    assert table["claimed"].tolist()[0] == 0.0
    assert table["n"].tolist() == [2.0, 1.0, 1.0]


def test_ties_go_to_the_first_class():
    assert set_coverage_score([0, 1, 2], np.full((3, 3), 1 / 3), coverage=0.6) == pytest.approx(2 / 3)


def test_the_size_needs_no_target():
    sets = [[True, False], [True, True]]
    assert mean_set_size(None, sets) == mean_set_size(["a", "b"], sets) == 1.5
    assert mean_set_size(None, sets, sample_weight=[3, 1]) == 1.25
    with pytest.raises(ValueError, match="`y_true` must have 2 rows, one per sample, got 1"):
        mean_set_size(["a"], sets)


# ------------------------------------------------------------------------------------ tables


def test_by_class_a_calibrated_forecast_covers_what_it_claims():
    y, proba = calibrated(20_000, 4, 0.3)
    for by in ("class", "size"):
        table = conditional_set_coverage(y, proba, by=by)
        gap = (table["coverage"] - table["claimed"]).abs()
        assert (gap <= 3.5 * table["standard_error"] + 1e-12).all()
        assert table["n"].sum() == 20_000
        means = np.average(table["coverage"], weights=table["n"])
        assert means == pytest.approx(set_coverage_score(y, proba), rel=1e-12)
    assert table.index.tolist() == sorted(table.index)
    assert (table["mean_size"] == table.index).all()


def test_a_class_that_the_forecast_underrates_is_found():
    y, proba = calibrated(5000, 3, 0.6)
    tilted = proba * [1.0, 1.0, 0.2]
    table = conditional_set_coverage(y, tilted / tilted.sum(axis=1, keepdims=True))
    gap = (table["claimed"] - table["coverage"]) / table["standard_error"]
    assert gap[2] > 5 > gap.max() - gap[2]
    assert gap[[0, 1]].max() < 2


def test_by_groups_and_by_class_of_labels():
    y, proba = calibrated(600, 3, 0.5)
    groups = np.where(np.arange(600) % 3 == 0, "left", "right")
    table = conditional_set_coverage(y, proba, groups=groups)
    assert list(table.index) == ["left", "right"]
    left = groups == "left"
    assert table.loc["left", "coverage"] == pytest.approx(set_coverage_score(y[left], proba[left]))
    assert table.loc["right", "mean_size"] == pytest.approx(mean_set_size(None, proba[~left]))
    named = conditional_set_coverage(np.array(["x", "y", "z"])[y], proba, labels=["x", "y", "z"])
    assert list(named.index) == ["x", "y", "z"]
    np.testing.assert_array_equal(named, conditional_set_coverage(y, proba))


def test_weights_of_a_table_are_repetitions():
    y, proba = calibrated(300, 3, 0.5)
    weight = np.random.default_rng(0).integers(0, 3, size=300)
    rows = np.repeat(np.arange(300), weight)
    for options in ({}, {"by": "size"}, {"groups": np.arange(300) % 4}):
        weighted = conditional_set_coverage(y, proba, sample_weight=weight, **options)
        of_rows = {name: value[rows] if name == "groups" else value for name, value in options.items()}
        repeated = conditional_set_coverage(y[rows], proba[rows], **of_rows)
        pd.testing.assert_frame_equal(weighted, repeated, rtol=1e-12)


def test_the_coverage_gap_is_the_mean_distance_by_class():
    """Ding et al. (2023): the mean over classes of |coverage of the class - nominal coverage|."""
    y, proba = calibrated(3000, 4, 0.5)
    sets = proba > 0.2
    gaps = [abs(sets[y == k, k].mean() - 0.9) for k in range(4)]
    by_class = conditional_set_coverage(y, sets, coverage=0.9)
    assert (by_class["coverage"] - by_class["claimed"]).abs().mean() == pytest.approx(
        np.mean(gaps), rel=1e-12
    )


def test_given_sets_claim_their_nominal_coverage():
    y, proba = calibrated(300, 3, 0.5)
    table = conditional_set_coverage(y, prediction_set(proba, 0.8), coverage=0.8)
    assert (table["claimed"] == 0.8).all()
    np.testing.assert_allclose(table["standard_error"], np.sqrt(0.16 / table["n"]))


# ------------------------------------------------------------------------------------- errors

PROBA = np.full((4, 2), 0.5)


@pytest.mark.parametrize(
    ("y", "y_pred", "options", "message"),
    [
        ([0, 1, 0, 1], PROBA * 0.99, {}, r"`y_pred` must have rows that sum to 1 within 1e-06, got 0.99"),
        ([0, 1, 0, 1], PROBA * [-1, 3], {}, "`y_pred` must be non-negative"),
        ([0, 1, 0, 1], PROBA * np.nan, {}, "`y_pred` must not contain NaN"),
        ([0, 1, 0, 1], PROBA[:, 0], {}, r"`y_pred` must have shape \(n, K\)"),
        ([0, 1, 0, 1], np.ones((4, 2, 3), dtype=bool), {}, "Pass the sets of one coverage"),
        ([0, 1, 0], PROBA, {}, "`y_true` must have 4 rows, one per sample, got 3"),
        ([0, 0, 0, 0], PROBA, {}, "`labels` must be given if .* all 2 classes.*classes_"),
        ([0, 1, 2, 1], PROBA, {}, "got None and a `y_true` with 3 classes"),
        ([0, 1, 0, 1], PROBA, {"labels": [0, 1, 2]}, r"`labels` must have shape \(2,\), one per column"),
        ([0, 1, 0, 1], PROBA, {"labels": [1, 1]}, "`labels` must be distinct, got 1 twice"),
        ([0, 1, None, 1], PROBA, {}, "`y_true` must not have missing values, got 1"),
        ([0.0, 1.0, np.nan, 1.0], PROBA, {}, "`y_true` must not have missing values, got 1"),
        (None, PROBA, {}, "`y_true` must hold a class for each row, got None"),
        ([0, 1, 0, 1], PROBA, {"coverage": 90}, "Did you mean 0.9"),
        ([0, 1, 0, 1], PROBA, {"coverage": [0.5, 0.9]}, "`coverage` must be one number"),
        ([0, 1, 0, 1], PROBA, {"sample_weight": [1, 1, 1, -1]}, "`sample_weight` must be non-negative"),
    ],
)
def test_bad_input_is_named(y, y_pred, options, message):
    with pytest.raises(ValueError, match=message):
        set_coverage_score(y, y_pred, **options)


def test_sets_of_integers_are_named():
    with pytest.raises(TypeError, match=r"`y_pred` must have dtype bool for prediction sets, got int"):
        set_coverage_score([0, 1], [[1, 1], [0, 1]])
    assert set_coverage_score([0, 1], [[1, 0], [1, 0]]) == 0.5  # probabilities


def test_sets_with_missing_values_allowed_are_named():
    sets = pd.DataFrame([[True, False], [True, True]]).astype("boolean")
    with pytest.raises(TypeError, match=r"`y_pred` must have dtype bool for prediction sets, got object"):
        set_coverage_score([0, 1], sets)
    assert set_coverage_score([0, 1], sets.astype(bool)) == 1.0


def test_probabilities_of_float16_are_to_be_divided_in_float64():
    proba = np.array([[0.3, 0.7], [1 / 3, 2 / 3]], dtype=np.float16)
    with pytest.raises(ValueError, match="Or convert them to float64 and divide each row by its sum"):
        set_coverage_score([0, 1], proba)
    wide = proba.astype(np.float64)
    assert set_coverage_score([0, 1], wide / wide.sum(axis=1, keepdims=True)) == 1.0


def test_labels_of_another_kind_are_named():
    with pytest.raises(TypeError, match="`labels` must have the type of `y_true`, such as 'a', got 0"):
        set_coverage_score(["a", "b", "a", "b"], PROBA, labels=[0, 1])
    with pytest.raises(TypeError, match="such as True, got 0"):
        set_coverage_score([True, False, True, False], PROBA, labels=[0, 1])
    with pytest.raises(TypeError, match="`y_true` must hold labels of one kind"):
        set_coverage_score(np.array([1, "a", 1, "a"], dtype=object), PROBA)
    with pytest.raises(TypeError, match="`y_pred` must hold real numbers"):
        set_coverage_score([0, 1], [["a", "b"], ["a", "b"]])


def test_options_of_a_table_are_checked():
    with pytest.raises(ValueError, match="`by` must be one of 'class', 'size', got 'feature'"):
        conditional_set_coverage([0, 1, 0, 1], PROBA, by="feature")
    with pytest.raises(ValueError, match="`groups` must have shape"):
        conditional_set_coverage([0, 1, 0, 1], PROBA, groups=[1, 2])


def test_what_takes_distributions_refuses_metrics_of_classes():
    refused = "of distributions or intervals, got the classification metric"
    with pytest.raises(ValueError, match=f"`metric` must be a metric {refused} 'set_coverage'"):
        bootstrap_interval([0, 1, 0, 1], PROBA, "set_coverage")
    with pytest.raises(ValueError, match=f"`metrics` must be metrics {refused} 'ece'"):
        MetricAccumulator("ece")
    assert not {"ece", "set_size"} & set(MetricAccumulator().metrics)
