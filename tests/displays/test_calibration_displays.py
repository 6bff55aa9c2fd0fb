"""Displays of calibration: calibration curves, PIT histograms, and groups."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skuq.displays import AdversarialGroupCalibrationDisplay, CalibrationCurveDisplay, PITHistogramDisplay
from skuq.displays._adversarial_group_calibration import perfect_curve
from skuq.displays._calibration_curve import sampling_band
from skuq.displays._pit_histogram import histogram_band, probability_of_all_bins
from skuq.distributions import Normal
from skuq.metrics import adversarial_group_calibration_curve, mean_absolute_calibration_error
from skuq.monitoring import MetricAccumulator

# --------------------------------------------------------------------------------------- calibration curve


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_the_curve_is_that_of_the_metric(loc, scale, y):
    display = CalibrationCurveDisplay.from_predictions(
        y, Normal(loc, scale), levels=[0.1, 0.5, 0.9], name="model"
    )
    expected = [np.mean(y <= loc + scale * stats.norm.ppf(level)) for level in (0.1, 0.5, 0.9)]
    assert_allclose(display.proportions, expected)
    assert_allclose(display.line_.get_xdata(), [0, 10, 50, 90, 100])
    assert_allclose(display.line_.get_ydata()[1:-1], 100 * np.array(expected))
    assert display.line_.get_label() == "model"
    assert display.figure_ is display.ax_.figure


def test_a_calibrated_model_lies_in_the_band_and_a_narrow_one_does_not(loc, scale, y):
    for factor, inside in ((1.0, True), (0.6, False)):
        display = CalibrationCurveDisplay.from_predictions(y, Normal(loc, factor * scale))
        lower, upper = sampling_band(display.levels, display.n_rows, "simultaneous", 0.9)
        assert bool(np.all((lower <= display.proportions) & (display.proportions <= upper))) is inside


def test_a_number_of_rows_just_below_an_integer_is_this_integer():
    levels = np.arange(1, 10) / 10
    for below, whole in zip(
        sampling_band(levels, 3 - 1e-12, "pointwise", 0.9),
        sampling_band(levels, 3, "pointwise", 0.9),
        strict=True,
    ):
        np.testing.assert_array_equal(below, whole)


@pytest.mark.parametrize(("band", "whole"), [("simultaneous", True), ("pointwise", False)])
def test_bands_hold_with_the_probability_they_state(band, whole):
    rng = np.random.default_rng(0)
    levels = np.arange(1, 100) / 100
    lower, upper = sampling_band(levels, 200, band, 0.9)
    hits = []
    for _ in range(400):
        observed = (rng.uniform(size=(200, 1)) <= levels).mean(axis=0)
        inside = (lower <= observed) & (observed <= upper)
        hits.append(inside.all() if whole else inside.mean())
    # on a grid of levels, and for counts, both are a little conservative
    assert 0.88 <= np.mean(hits) <= 0.96


def test_intervals_instead_of_quantiles(loc, scale, y):
    display = CalibrationCurveDisplay.from_predictions(
        y, Normal(loc, scale / 2), kind="interval", levels=[0.9]
    )
    assert_allclose(display.proportions, [np.mean(np.abs(y - loc) <= stats.norm.ppf(0.95) * scale / 2)])
    assert "coverage" in display.ax_.get_xlabel()


def test_band_and_diagonal_can_be_left_out(loc, scale, y):
    display = CalibrationCurveDisplay.from_predictions(y, Normal(loc, scale), band=None, ref_line=False)
    assert display.band_ is None
    assert display.ref_line_ is None
    assert display.ax_.get_legend() is None


# ------------------------------------------------------------------------------------------- pit histogram


draw_pit = PITHistogramDisplay.from_predictions


def share_of_calibrated(n_bins, n, band, draws=20_000):
    """Return the share of calibrated forecasts whose bins are all inside the band."""
    counts = np.random.default_rng(0).multinomial(n, np.full(n_bins, 1 / n_bins), size=draws)
    lower, upper = np.multiply(histogram_band(n_bins, n, band, 0.95), n)
    return np.mean(((counts > lower - 0.5) & (counts < upper + 0.5)).all(axis=1))


def test_bands_hold_all_bins_or_each_bin():
    for n, n_bins in ((300, 10), (500, 10), (500, 20), (3000, 10), (200_000, 20)):
        assert share_of_calibrated(n_bins, n, "simultaneous") == pytest.approx(0.95, abs=0.013)
    assert share_of_calibrated(10, 500, "pointwise") == pytest.approx(0.70, abs=0.02)
    assert share_of_calibrated(20, 500, "pointwise") == pytest.approx(0.46, abs=0.02)
    lower, upper = np.multiply(histogram_band(10, 500, "pointwise", 0.95), 500)
    assert (lower, upper) == pytest.approx(stats.binom.interval(0.95, 500, 0.1))
    assert np.multiply(histogram_band(10, 500, "simultaneous", 0.95), 500) == pytest.approx([33, 69])
    assert np.multiply(histogram_band(20, 500, "simultaneous", 0.95), 500) == pytest.approx([12, 40])


def test_the_probability_of_all_bins_is_the_sum_over_all_counts():
    for n_bins, n, lower, upper in ((3, 7, 1, 4), (2, 6, 2, 5), (4, 6, 0, 2), (3, 5, 2, 3)):
        expected = sum(
            stats.multinomial.pmf(counts, n, [1 / n_bins] * n_bins)
            for counts in itertools.product(range(lower, upper + 1), repeat=n_bins)
            if sum(counts) == n
        )
        assert probability_of_all_bins(n_bins, n, lower, upper) == pytest.approx(expected, abs=1e-14)
    # a band that no counts fit has probability 0
    assert probability_of_all_bins(3, 10, 0, 3) == pytest.approx(0.0, abs=1e-14)
    assert probability_of_all_bins(3, 10, 4, 5) == 0.0


def test_the_bins_count_pit_values(loc, scale, y):
    display = draw_pit(y, Normal(loc, scale), n_bins=8, name="model")
    expected = np.histogram(stats.norm.cdf(y, loc, scale), np.linspace(0, 1, 9))[0] / len(y)
    assert_allclose(display.proportions, expected, atol=1e-12)
    values, edges, _ = display.hist_.get_data()
    assert_allclose(values, 100 * expected)
    assert_allclose(edges, np.linspace(0, 100, 9))
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [
        "model",
        "95 % simultaneous band (n = 1200)",
        "Perfectly calibrated",
    ]
    assert display.ref_line_.get_ydata()[0] == pytest.approx(12.5)
    low, high = display.band_.get_y(), display.band_.get_y() + display.band_.get_height()
    assert (low, high) == pytest.approx(100 * np.array(histogram_band(8, 1200, "simultaneous", 0.95)))


def test_a_calibrated_forecast_stays_inside_and_wrong_ones_leave(loc, scale, y):
    lower, upper = histogram_band(10, len(y), "simultaneous", 0.95)

    def leaves(forecast):
        bins = draw_pit(y, forecast, band=None).proportions
        return bool((bins < lower).any() or (bins > upper).any())

    assert not leaves(Normal(loc, scale))
    assert leaves(Normal(loc, 0.8 * scale))
    assert leaves(Normal(loc, 1.25 * scale))
    assert leaves(Normal(loc + 0.3 * scale, scale))


def test_atoms_spread_over_their_pit_values_and_outside_is_in_the_outer_bins():
    # The PIT of y = 1 is uniform on [1/2, 3/4].
    dist = stats.binom(np.full(3, 2), 0.5)
    assert_allclose(draw_pit([1, 1, 1], dist, n_bins=4, band=None).proportions, [0, 0.5, 0.5, 0])
    assert_allclose(draw_pit([0, 1, 2], dist, n_bins=2, band=None).proportions, [0.5, 0.5])
    uniform = stats.uniform(np.zeros(4), 1.0)
    outside = draw_pit([-1.0, 0.3, 0.7, 2.0], uniform, n_bins=5, band=None)
    assert_allclose(outside.proportions, [0.25, 0.25, 0, 0.25, 0.25])


def test_accumulated_rows_have_the_same_histogram(loc, scale, y):
    parts = [MetricAccumulator().update(y[i::2], Normal(loc[i::2], scale[i::2])) for i in range(2)]
    whole = parts[0] + parts[1]
    for n_bins in (2, 10, 25):
        display = PITHistogramDisplay.from_accumulator(whole, n_bins=n_bins)
        assert_allclose(
            display.proportions, draw_pit(y, Normal(loc, scale), n_bins=n_bins).proportions, atol=1e-12
        )
        assert display.n_rows == 1200
    with pytest.raises(ValueError, match=r"got n_bins=12 and 99 levels\. Pass `levels=11`"):
        PITHistogramDisplay.from_accumulator(whole, n_bins=12)


def test_one_random_pit_value_per_row_on_an_atom():
    mean = np.full(4000, 1.5)
    counts, forecast = np.random.default_rng(0).poisson(mean), stats.poisson(mean)

    def shares(seed):
        return draw_pit(counts, forecast, randomized=True, random_state=seed).proportions

    even = draw_pit(counts, forecast).proportions
    # binomial shares have a standard deviation of sqrt(0.1 * 0.9 / 4000) = 0.0047
    assert_allclose(shares(0), 0.1, atol=0.025)
    assert_allclose(even, 0.1, atol=0.025)
    assert np.std(shares(0)) != np.std(even)
    np.testing.assert_array_equal(shares(1), shares(1))
    assert (shares(1) != shares(2)).any()
    # a density has one value per row
    y, normal = np.random.default_rng(0).normal(size=300), Normal(np.zeros(300), np.ones(300))
    assert_allclose(draw_pit(y, normal, randomized=True).proportions, draw_pit(y, normal).proportions)


# --------------------------------------------------------------------------- adversarial group calibration


draw_groups = AdversarialGroupCalibrationDisplay.from_predictions


def test_the_curve_of_groups_is_that_of_the_metric(loc, scale, y):
    options = {"fractions": [0.1, 0.5, 1.0], "n_resamples": 6, "random_state": 0}
    curve = adversarial_group_calibration_curve(y, Normal(loc, scale), error="rmsce", **options)
    fractions, worst = curve.fractions, curve.worst
    display = draw_groups(y, Normal(loc, scale), error="rmsce", options=options, name="model")
    assert_array_equal(display.line_.get_xdata(), 100 * fractions)
    assert_allclose(display.line_.get_ydata(), 100 * worst.mean(axis=1))
    assert "Root mean squared" in display.ax_.get_ylabel()
    error = worst.std(axis=1, ddof=1) / np.sqrt(6)
    vertices = display.band_.get_paths()[0].vertices
    there = vertices[np.isclose(vertices[:, 0], 10.0), 1]
    assert_allclose(
        [there.min(), there.max()], 100 * worst.mean(axis=1)[0] + 200 * error[0] * np.array([-1, 1])
    )


def test_the_right_end_is_the_average_calibration(loc, scale, y):
    display = draw_groups(y, Normal(loc, scale / 2))
    assert display.line_.get_ydata()[-1] == pytest.approx(
        100 * mean_absolute_calibration_error(y, Normal(loc, scale / 2), levels=99)
    )


def test_what_the_average_hides_rises_above_the_reference(loc, scale, y):
    calibrated = draw_groups(y, Normal(loc, scale))
    assert calibrated.worst.mean() < 1.3 * calibrated.reference.mean()
    hidden = draw_groups(
        np.random.default_rng(0).permutation(y - loc), Normal(0 * y + np.where(y > 5, 3, -3), 3 + scale)
    )
    assert hidden.worst.mean() > 1.3 * hidden.reference.mean()


def test_the_reference_depends_on_the_number_of_rows_alone(loc, scale, y):
    one, other = draw_groups(y, Normal(loc, scale)), draw_groups(9 - 7 * y, Normal(0 * loc, 1 + scale))
    assert_array_equal(one.reference, other.reference)
    few = perfect_curve(100, {"error": "mace"})
    assert (few > perfect_curve(5000, {"error": "mace"})).all()
    weighted = draw_groups(y, Normal(loc, scale), sample_weight=np.full(1200, 2.0))
    assert_array_equal(weighted.reference, perfect_curve(2400, {"error": "mace"}))


def test_the_band_can_be_left_out_and_one_trial_has_none(loc, scale, y):
    assert draw_groups(y, Normal(loc, scale), band=False).band_ is None
    assert draw_groups(y, Normal(loc, scale), options={"n_resamples": 1}).band_ is None
