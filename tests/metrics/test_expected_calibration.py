"""The expected calibration error and its table."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from skuq.metrics import class_reliability_table, expected_calibration_error
from skuq.metrics._class_inputs import draw_codes
from skuq.metrics._expected_calibration import ece_of_weights

QUIET = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")


def calibrated(n, n_classes=10, seed=0):
    proba = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.5), size=n)
    return draw_codes(proba, np.random.RandomState(seed)), proba


def by_definition(y, proba, n_bins):
    """Return the error of Guo et al. (2017), with a loop over bins (a, b]."""
    confidence, hit = proba.max(axis=1), proba.argmax(axis=1) == y
    error = 0.0
    for b in range(n_bins):
        inside = (confidence > b / n_bins) & (confidence <= (b + 1) / n_bins)
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - hit[inside].mean())
    return error


@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_it_is_that_of_the_definition(n_bins):
    y, proba = calibrated(1000)
    assert expected_calibration_error(y, proba, n_bins=n_bins) == pytest.approx(
        by_definition(y, proba, n_bins), rel=1e-12
    )


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
        found.append(np.mean([ece_of_weights(*each, strategy=strategy)(None) for each in forecasts]))
    np.testing.assert_allclose(found, expected, rtol=0.1)


@pytest.mark.parametrize("classwise", [False, True])
def test_the_debiased_form_of_a_calibrated_forecast_is_0_on_average(classwise):
    _, proba = calibrated(1000)
    rng = np.random.RandomState(0)
    draws = [draw_codes(proba, rng) for _ in range(100)]
    values = {
        norm: np.array([ece_of_weights(y, proba, norm=norm, classwise=classwise)(None) for y in draws])
        for norm in ("squared", "debiased")
    }
    deviation = values["debiased"].std() / 10
    assert abs(values["debiased"].mean()) < 3 * deviation
    assert values["squared"].mean() > 10 * deviation


def test_an_overconfident_forecast_has_the_same_debiased_error_at_any_size():
    values = []
    for n in (500, 50_000):
        y, proba = calibrated(n)
        sharp = proba**2 / (proba**2).sum(axis=1, keepdims=True)
        values.append(expected_calibration_error(y, sharp, norm="debiased"))
    assert values[0] == pytest.approx(values[1], rel=0.2)


@QUIET
def test_the_debiased_form_leaves_out_bins_of_one_label():
    proba = np.array([[0.6, 0.4], [0.9, 0.1]])
    assert expected_calibration_error([0, 1], proba, norm="debiased") == 0.0
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        expected_calibration_error([0, 1], proba, norm="debiased", sample_weight=[0.1, 0.1])


def test_classwise_is_the_mean_over_classes():
    y, proba = calibrated(1000, 3)
    each = []
    for k in range(3):
        binary = np.column_stack([1 - proba[:, k], proba[:, k]])
        table = class_reliability_table(y == k, binary, of_class=True)
        each.append(table["n"] @ (table["predicted"] - table["observed"]).abs() / 1000)
    assert expected_calibration_error(y, proba, classwise=True) == pytest.approx(np.mean(each), rel=1e-12)


def test_the_table_of_a_class_is_scikit_learns_curve():
    y, proba = calibrated(2000, 2)
    table = class_reliability_table(y, proba, of_class=1, n_bins=7)
    observed, predicted = calibration_curve(y, proba[:, 1], n_bins=7)
    np.testing.assert_allclose(table["observed"], observed)
    np.testing.assert_allclose(table["predicted"], predicted)


@QUIET
def test_a_probability_above_1_by_rounding_is_1():
    proba = np.tile([1 + 5e-7, 0.0], (3, 1))
    table = class_reliability_table([0, 0, 1], proba, labels=[0, 1])
    assert table["predicted"].tolist() == [1.0]
    assert table["standard_error"].tolist() == [0.0]
    assert expected_calibration_error([0, 0, 1], proba, labels=[0, 1]) == pytest.approx(1 / 3, rel=1e-12)


def test_bins_of_equal_weight_hold_as_many_rows():
    y, proba = calibrated(2000)
    table = class_reliability_table(y, proba, strategy="quantile", n_bins=8)
    np.testing.assert_allclose(table["n"], 250)
    inside = (table["observed"] - table["predicted"]).abs() <= 3.5 * table["standard_error"]
    assert inside.all()


@QUIET
def test_a_label_without_a_column_is_a_miss():
    proba = [[0.9, 0.1], [0.9, 0.1]]
    assert expected_calibration_error(["a", "z"], proba, labels=["a", "b"]) == pytest.approx(0.4)


@QUIET
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"norm": "l2"}, ValueError, "`norm` must be one of 'l1', 'squared', 'debiased', got 'l2'"),
        ({"strategy": "kmeans"}, ValueError, "`strategy` must be one of"),
        ({"n_bins": 0}, ValueError, "`n_bins` must be at least 1"),
        ({"n_bins": 10**7}, ValueError, "`n_bins` must be at most 1000"),
        ({"n_bins": 2.5}, TypeError, "`n_bins` must be an integer"),
        ({"classwise": "yes"}, ValueError, "`classwise` must be one of False, True"),
    ],
)
def test_bad_options_are_named(options, error, message):
    with pytest.raises(error, match=message):
        expected_calibration_error([0, 1], [[0.5, 0.5], [0.5, 0.5]], **options)


def test_an_unknown_class_is_named():
    with pytest.raises(ValueError, match=r"`of_class` must be one of the classes \[0, 1\], got 2"):
        class_reliability_table([0, 1], [[0.5, 0.5], [0.5, 0.5]], of_class=2)
