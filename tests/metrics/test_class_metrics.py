"""Calibration error, log loss and Brier score of probabilities; coverage and size of prediction sets."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from skuq.conformal import prediction_set
from skuq.evaluation import bootstrap_interval
from skuq.metrics import (
    class_brier_loss,
    class_log_loss,
    class_reliability_table,
    conditional_set_coverage,
    expected_calibration_error,
    mean_set_size,
    set_coverage_error,
    set_coverage_score,
)
from skuq.metrics._class_scores import draw_codes
from skuq.metrics._spec import all_specs
from skuq.monitoring import MetricAccumulator

QUIET = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")


def calibrated(n, n_classes=10, concentration=0.5, seed=0):
    """Return labels drawn from the probabilities, and these."""
    proba = np.random.default_rng(seed).dirichlet(np.full(n_classes, concentration), size=n)
    return draw_codes(proba, np.random.RandomState(seed)), proba


ece = partial(all_specs()["ece"].compute, labels=np.arange(10))


def by_definition(y, proba, n_bins):
    """Return the error of Guo et al. (2017), with a loop over bins (a, b]."""
    confidence, hit = proba.max(axis=1), proba.argmax(axis=1) == y
    error = 0.0
    for b in range(n_bins):
        inside = (confidence > b / n_bins) & (confidence <= (b + 1) / n_bins)
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - hit[inside].mean())
    return error


def test_it_is_that_of_the_definition_and_the_table_is_scikit_learns_curve():
    y, proba = calibrated(1000)
    for n_bins in (1, 10, 15):
        expected = by_definition(y, proba, n_bins)
        assert expected_calibration_error(y, proba, n_bins=n_bins) == pytest.approx(expected, rel=1e-12)
    y, proba = calibrated(2000, 2)
    table = class_reliability_table(y, proba, of_class=1, n_bins=7)
    observed, predicted = calibration_curve(y, proba[:, 1], n_bins=7)
    np.testing.assert_allclose(table["observed"], observed)
    np.testing.assert_allclose(table["predicted"], predicted)
    # Bins of equal weight hold as many rows.
    y, proba = calibrated(2000)
    table = class_reliability_table(y, proba, strategy="quantile", n_bins=8)
    np.testing.assert_allclose(table["n"], 250)
    assert ((table["observed"] - table["predicted"]).abs() <= 3.5 * table["standard_error"]).all()


@QUIET
def test_a_bin_has_its_upper_edge():
    proba = np.array([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [1.0, 0.0]])
    table = class_reliability_table([0, 1, 0, 1], proba, n_bins=5)
    assert table["n"].tolist() == [1.0, 2.0, 1.0]
    assert table["upper"].round(12).tolist() == [0.6, 0.8, 1.0]
    everything = class_reliability_table([0, 1, 0, 1], proba, n_bins=5, of_class=1)
    assert everything["n"].tolist() == [2.0, 2.0]  # a probability of 0 is in the first bin


@pytest.mark.parametrize("n_bins", [5, 10, 20])
@pytest.mark.parametrize("classwise", [False, True])
def test_float32_probabilities_on_an_edge_are_in_the_bin_of_float64_ones(n_bins, classwise):
    """Shares of ten votes, as those of a forest of ten trees."""
    rng = np.random.default_rng(0)
    proba = rng.multinomial(10, [0.5, 0.3, 0.2], size=2000) / 10
    y = draw_codes(proba, np.random.RandomState(0))
    options = {"n_bins": n_bins, "classwise": classwise}
    double = expected_calibration_error(y, proba, **options)
    assert expected_calibration_error(y, proba.astype(np.float32), **options) == pytest.approx(
        double, rel=1e-5
    )
    tables = [class_reliability_table(y, each, n_bins=n_bins) for each in (proba, proba.astype(np.float32))]
    np.testing.assert_array_equal(tables[0]["n"], tables[1]["n"])


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("uniform", (0.076, 0.035, 0.012)), ("quantile", (0.103, 0.046, 0.015))],
)
def test_a_calibrated_forecast_has_an_error_that_falls_with_the_rows(strategy, expected):
    """Ten classes, 15 bins: values that most published differences are below."""
    found = []
    for n, repeats in ((200, 100), (1000, 60), (10_000, 20)):
        forecasts = (calibrated(n, seed=seed) for seed in range(repeats))
        found.append(np.mean([ece(*each, strategy=strategy) for each in forecasts]))
    np.testing.assert_allclose(found, expected, rtol=0.1)


@pytest.mark.parametrize("classwise", [False, True])
def test_the_debiased_form_of_a_calibrated_forecast_is_0_on_average(classwise):
    _, proba = calibrated(1000)
    rng = np.random.RandomState(0)
    draws = [draw_codes(proba, rng) for _ in range(100)]
    values = {
        norm: np.array([ece(y, proba, norm=norm, classwise=classwise) for y in draws])
        for norm in ("squared", "debiased")
    }
    deviation = values["debiased"].std() / 10
    assert abs(values["debiased"].mean()) < 3 * deviation
    assert values["squared"].mean() > 10 * deviation


@QUIET
def test_the_debiased_form_of_overconfident_forecasts_and_of_few_labels():
    values = []
    for n in (500, 50_000):
        y, proba = calibrated(n)
        sharp = proba**2 / (proba**2).sum(axis=1, keepdims=True)
        values.append(expected_calibration_error(y, sharp, norm="debiased"))
    assert values[0] == pytest.approx(values[1], rel=0.2)
    y, proba = [0, 1], np.array([[0.6, 0.4], [0.9, 0.1]])  # bins of one label are left out
    assert expected_calibration_error(y, proba, norm="debiased") == 0.0
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        expected_calibration_error(y, proba, norm="debiased", sample_weight=[0.1, 0.1])


def test_classwise_is_the_mean_over_classes():
    y, proba = calibrated(1000, 3)
    each = []
    for k in range(3):
        binary = np.column_stack([1 - proba[:, k], proba[:, k]])
        table = class_reliability_table(y == k, binary, of_class=True)
        each.append(table["n"] @ (table["predicted"] - table["observed"]).abs() / 1000)
    assert expected_calibration_error(y, proba, classwise=True) == pytest.approx(np.mean(each), rel=1e-12)


@QUIET
def test_a_probability_above_1_by_rounding_is_1_and_a_label_without_a_column_is_a_miss():
    proba = np.tile([1 + 5e-7, 0.0], (3, 1))
    table = class_reliability_table([0, 0, 1], proba, labels=[0, 1])
    assert table["predicted"].tolist() == [1.0]
    assert table["standard_error"].tolist() == [0.0]
    assert expected_calibration_error([0, 0, 1], proba, labels=[0, 1]) == pytest.approx(1 / 3, rel=1e-12)
    proba = [[0.9, 0.1], [0.9, 0.1]]
    assert expected_calibration_error(["a", "z"], proba, labels=["a", "b"]) == pytest.approx(0.4)


@QUIET
def test_bad_options_are_named():
    y, proba = [0, 1], [[0.5, 0.5], [0.5, 0.5]]
    for options, error, message in (
        ({"norm": "l2"}, ValueError, "`norm` must be one of 'l1', 'squared', 'debiased', got 'l2'"),
        ({"strategy": "kmeans"}, ValueError, "`strategy` must be one of"),
        ({"n_bins": 0}, ValueError, "`n_bins` must be at least 1"),
        ({"n_bins": 10**7}, ValueError, "`n_bins` must be at most 1000"),
        ({"n_bins": 2.5}, TypeError, "`n_bins` must be an integer"),
        ({"classwise": "yes"}, ValueError, "`classwise` must be one of False, True"),
    ):
        with pytest.raises(error, match=message):
            expected_calibration_error(y, proba, **options)
    with pytest.raises(ValueError, match=r"`of_class` must be one of the classes \[0, 1\], got 2"):
        class_reliability_table(y, proba, of_class=2)


# ------------------------------------------------------------------------- log loss and Brier score


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_log_loss_and_the_brier_score_are_those_of_scikit_learn(n_classes):
    rng = np.random.default_rng(0)
    proba, y = rng.dirichlet(np.ones(n_classes), size=300), rng.integers(n_classes, size=300)
    options = {"labels": np.arange(n_classes), "sample_weight": rng.integers(1, 4, size=300)}
    assert class_log_loss(y, proba, **options) == pytest.approx(log_loss(y, proba, **options), rel=1e-12)
    expected = np.square(proba - np.eye(n_classes)[y]).sum(axis=1).mean()
    if n_classes == 2:
        expected = brier_score_loss(y, proba[:, 1])
    assert class_brier_loss(y, proba) == pytest.approx(expected, rel=1e-12)


def test_certain_forecasts_have_the_best_and_the_worst_score():
    certain = np.eye(3)
    assert str(class_log_loss([0, 1, 2], certain)) == "0.0"
    assert class_brier_loss([0, 1, 2], certain) == 0
    assert class_log_loss([1, 2, 0], certain) == np.inf
    assert class_brier_loss([1, 2, 0], certain) == 2
    assert class_brier_loss([1, 0], np.eye(2)) == 1
    # A target without a column has probability zero.
    proba = [[0.5, 0.5], [0.5, 0.5]]
    assert class_log_loss(["a", "z"], proba, labels=["a", "b"]) == np.inf
    assert class_brier_loss(["z", "z"], proba, labels=["a", "b"]) == pytest.approx((0.5**2 + 0.5**2 + 1) / 2)


# -------------------------------------------------------------------------------- prediction sets


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


def test_the_sign_says_which_way_and_classes_that_are_underrated_are_found():
    y, proba = calibrated(2000, 5, 0.5)
    sharp, flat = (proba**power / (proba**power).sum(axis=1, keepdims=True) for power in (3, 0.5))
    assert set_coverage_error(y, sharp, signed=True) < -0.1
    assert set_coverage_error(y, flat, signed=True) > 0.02
    assert set_coverage_error(y, sharp) == -set_coverage_error(y, sharp, signed=True)
    y, proba = calibrated(5000, 3, 0.6)
    tilted = proba * [1.0, 1.0, 0.2]
    table = conditional_set_coverage(y, tilted / tilted.sum(axis=1, keepdims=True))
    gap = (table["claimed"] - table["coverage"]) / table["standard_error"]
    assert gap[2] > 5 > gap.max() - gap[2]
    assert gap[[0, 1]].max() < 2


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


def test_the_size_needs_no_target():
    sets = [[True, False], [True, True]]
    assert mean_set_size(None, sets) == mean_set_size(["a", "b"], sets) == 1.5
    assert mean_set_size(None, sets, sample_weight=[3, 1]) == 1.25
    with pytest.raises(ValueError, match="`y_true` must have 2 rows, one per sample, got 1"):
        mean_set_size(["a"], sets)
    # Ties go to the first class.
    assert set_coverage_score([0, 1, 2], np.full((3, 3), 1 / 3), coverage=0.6) == pytest.approx(2 / 3)


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


def test_weights_of_a_table_are_repetitions():
    y, proba = calibrated(300, 3, 0.5)
    weight = np.random.default_rng(0).integers(0, 3, size=300)
    rows = np.repeat(np.arange(300), weight)
    for options in ({}, {"by": "size"}, {"groups": np.arange(300) % 4}):
        weighted = conditional_set_coverage(y, proba, sample_weight=weight, **options)
        of_rows = {name: value[rows] if name == "groups" else value for name, value in options.items()}
        repeated = conditional_set_coverage(y[rows], proba[rows], **of_rows)
        pd.testing.assert_frame_equal(weighted, repeated, rtol=1e-12)


def test_given_sets_claim_their_nominal_coverage():
    y, proba = calibrated(3000, 4, 0.5)
    sets = proba > 0.2
    table = conditional_set_coverage(y, sets, coverage=0.8)
    assert (table["claimed"] == 0.8).all()
    np.testing.assert_allclose(table["standard_error"], np.sqrt(0.16 / table["n"]))
    np.testing.assert_allclose(table["coverage"], [sets[y == k, k].mean() for k in range(4)])
    groups = np.where(np.arange(3000) % 3 == 0, "left", "right")
    left, table = groups == "left", conditional_set_coverage(y, proba, groups=groups)
    assert list(table.index) == ["left", "right"]
    assert table.loc["left", "coverage"] == pytest.approx(set_coverage_score(y[left], proba[left]))
    assert table.loc["right", "mean_size"] == pytest.approx(mean_set_size(None, proba[~left]))
    named = conditional_set_coverage(np.array(list("wxyz"))[y], proba, labels=list("wxyz"))
    assert list(named.index) == list("wxyz")
    np.testing.assert_array_equal(named, conditional_set_coverage(y, proba))


# ------------------------------------------------------------------------------------- errors

PROBA = np.full((4, 2), 0.5)


NUMBERS = [0, 1, 0, 1]
BOOLEAN = pd.DataFrame([[True, False], [True, True]]).astype("boolean")
HALF = np.array([[0.3, 0.7], [1 / 3, 2 / 3]], dtype=np.float16)
NO_BOOL = "`y_pred` must have dtype bool for prediction sets, got "


def test_bad_input_is_named():
    for y, y_pred, options, message in (
        (NUMBERS, PROBA * 0.99, {}, r"`y_pred` must have rows that sum to 1 within 1e-06, got 0.99"),
        (NUMBERS, PROBA * [-1, 3], {}, "`y_pred` must be non-negative"),
        (NUMBERS, PROBA * np.nan, {}, "`y_pred` must not contain NaN"),
        (NUMBERS, PROBA[:, 0], {}, r"`y_pred` must have shape \(n, K\)"),
        (NUMBERS, np.ones((4, 2, 3), dtype=bool), {}, "Pass the sets of one coverage"),
        ([0, 1, 0], PROBA, {}, "`y_true` must have 4 rows, one per sample, got 3"),
        ([0, 0, 0, 0], PROBA, {}, "`labels` must be given if .* all 2 classes.*classes_"),
        ([0, 1, 2, 1], PROBA, {}, "got None and a `y_true` with 3 classes"),
        (NUMBERS, PROBA, {"labels": [0, 1, 2]}, r"`labels` must have shape \(2,\), one per column"),
        (NUMBERS, PROBA, {"labels": [1, 1]}, "`labels` must be distinct, got 1 twice"),
        ([0, 1, None, 1], PROBA, {}, "`y_true` must not have missing values, got 1"),
        ([0.0, 1.0, np.nan, 1.0], PROBA, {}, "`y_true` must not have missing values, got 1"),
        (None, PROBA, {}, "`y_true` must hold a class for each row, got None"),
        (NUMBERS, PROBA, {"coverage": 90}, "Did you mean 0.9"),
        (NUMBERS, PROBA, {"coverage": [0.5, 0.9]}, "`coverage` must be one number"),
        (NUMBERS, PROBA, {"sample_weight": [1, 1, 1, -1]}, "`sample_weight` must be non-negative"),
        ([0, 1], [[1, 1], [0, 1]], {}, NO_BOOL + "int"),
        ([0, 1], BOOLEAN, {}, NO_BOOL + "object"),
        ([0, 1], HALF, {}, "Or convert them to float64 and divide each row by its sum"),
        (list("abab"), PROBA, {"labels": [0, 1]}, "must have the type of `y_true`, such as 'a', got 0"),
        ([True, False] * 2, PROBA, {"labels": [0, 1]}, "such as True, got 0"),
        (np.array([1, "a", 1, "a"], dtype=object), PROBA, {}, "`y_true` must hold labels of one kind"),
        ([0, 1], [["a", "b"], ["a", "b"]], {}, "`y_pred` must hold real numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            set_coverage_score(y, y_pred, **options)


def test_what_the_errors_advise_is_accepted():
    assert set_coverage_score([0, 1], [[1, 0], [1, 0]]) == 0.5  # probabilities
    assert set_coverage_score([0, 1], BOOLEAN.astype(bool)) == 1.0
    wide = HALF.astype(np.float64)
    assert set_coverage_score([0, 1], wide / wide.sum(axis=1, keepdims=True)) == 1.0


def test_options_of_a_table_and_metrics_of_another_kind_are_refused():
    refused = "of distributions or intervals, got the classification metric"
    for call, message in (
        (
            lambda: conditional_set_coverage(NUMBERS, PROBA, by="feature"),
            "`by` must be one of 'class', 'size'",
        ),
        (lambda: conditional_set_coverage(NUMBERS, PROBA, groups=[1, 2]), "`groups` must have shape"),
        (lambda: bootstrap_interval(NUMBERS, PROBA, "set_coverage"), f"`metric` must be a metric {refused}"),
        (lambda: MetricAccumulator("ece"), f"`metrics` must be metrics {refused} 'ece'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert not {"ece", "set_size"} & set(MetricAccumulator().metrics)
