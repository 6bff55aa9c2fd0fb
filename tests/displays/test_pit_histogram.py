"""Bins of the PIT, and the band that holds all bins of a calibrated forecast."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skuq.displays import PITHistogramDisplay
from skuq.displays._pit_histogram import histogram_band, probability_of_all_bins
from skuq.monitoring import MetricAccumulator

draw = PITHistogramDisplay.from_predictions


def share_of_calibrated(n_bins, n, band, draws=20_000):
    """Return the share of calibrated forecasts whose bins are all inside the band."""
    counts = np.random.default_rng(0).multinomial(n, np.full(n_bins, 1 / n_bins), size=draws)
    lower, upper = np.multiply(histogram_band(n_bins, n, band, 0.95), n)
    return np.mean(((counts > lower - 0.5) & (counts < upper + 0.5)).all(axis=1))


@pytest.mark.parametrize(("n", "n_bins"), [(300, 10), (500, 10), (500, 20), (3000, 10), (200_000, 20)])
def test_the_simultaneous_band_holds_all_bins(n, n_bins):
    assert share_of_calibrated(n_bins, n, "simultaneous") == pytest.approx(0.95, abs=0.013)


def test_the_pointwise_band_holds_each_bin():
    assert share_of_calibrated(10, 500, "pointwise") == pytest.approx(0.70, abs=0.02)
    assert share_of_calibrated(20, 500, "pointwise") == pytest.approx(0.46, abs=0.02)
    lower, upper = np.multiply(histogram_band(10, 500, "pointwise", 0.95), 500)
    assert (lower, upper) == pytest.approx(stats.binom.interval(0.95, 500, 0.1))


def test_the_band_of_500_rows():
    assert np.multiply(histogram_band(10, 500, "simultaneous", 0.95), 500) == pytest.approx([33, 69])
    assert np.multiply(histogram_band(20, 500, "simultaneous", 0.95), 500) == pytest.approx([12, 40])


@pytest.mark.parametrize(
    ("n_bins", "n", "lower", "upper"), [(3, 7, 1, 4), (2, 6, 2, 5), (4, 6, 0, 2), (3, 5, 2, 3)]
)
def test_the_probability_of_all_bins_is_the_sum_over_all_counts(n_bins, n, lower, upper):
    expected = sum(
        stats.multinomial.pmf(counts, n, [1 / n_bins] * n_bins)
        for counts in itertools.product(range(lower, upper + 1), repeat=n_bins)
        if sum(counts) == n
    )
    assert probability_of_all_bins(n_bins, n, lower, upper) == pytest.approx(expected, abs=1e-14)


def test_a_band_that_no_counts_fit_has_probability_0():
    assert probability_of_all_bins(3, 10, 0, 3) == pytest.approx(0.0, abs=1e-14)
    assert probability_of_all_bins(3, 10, 4, 5) == 0.0


def test_the_bins_count_pit_values(rows):
    loc, scale, y = rows
    display = draw(y, (loc, scale), n_bins=8, name="model")
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


def test_a_calibrated_forecast_stays_inside_and_wrong_ones_leave(rows):
    loc, scale, y = rows
    lower, upper = histogram_band(10, len(y), "simultaneous", 0.95)

    def leaves(forecast):
        bins = draw(y, forecast, band=None).proportions
        return bool((bins < lower).any() or (bins > upper).any())

    assert not leaves((loc, scale))
    assert leaves((loc, 0.8 * scale))
    assert leaves((loc, 1.25 * scale))
    assert leaves((loc + 0.3 * scale, scale))


def test_atoms_spread_over_their_pit_values():
    # The PIT of y = 1 is uniform on [1/2, 3/4].
    dist = stats.binom(np.full(3, 2), 0.5)
    assert_allclose(draw([1, 1, 1], dist, n_bins=4, band=None).proportions, [0, 0.5, 0.5, 0])
    assert_allclose(draw([0, 1, 2], dist, n_bins=2, band=None).proportions, [0.5, 0.5])


def test_targets_outside_the_support_are_in_the_outer_bins():
    dist = stats.uniform(np.zeros(4), 1.0)
    assert_allclose(
        draw([-1.0, 0.3, 0.7, 2.0], dist, n_bins=5, band=None).proportions, [0.25, 0.25, 0, 0.25, 0.25]
    )


def test_weights_count_repetitions(rows):
    loc, scale, y = (part[:90] for part in rows)
    weight = np.arange(90) % 3
    weighted = draw(y, (loc, scale), sample_weight=weight)
    repeated = draw(*(np.repeat(y, weight), (np.repeat(loc, weight), np.repeat(scale, weight))))
    assert_allclose(weighted.proportions, repeated.proportions)
    assert weighted.n_rows == repeated.n_rows == weight.sum()
    with pytest.raises(ValueError, match="counts repetitions"):
        draw(y, (loc, scale), sample_weight=np.full(90, 0.1))
    assert draw(y, (loc, scale), sample_weight=np.full(90, 0.1), band=None).band_ is None


def test_two_models_share_the_band_and_the_line(rows):
    loc, scale, y = rows
    first = draw(y, (loc, scale), name="a")
    second = draw(y, (loc, 2 * scale), name="b", ax=first.ax_, line_kwargs={"lw": 3})
    assert second.band_ is None
    assert second.ref_line_ is None
    assert first.line_.get_color() != second.line_.get_color()
    assert second.line_.get_linewidth() == 3
    assert second.ax_.get_ylim()[1] > 100 * second.proportions.max()


@pytest.mark.parametrize("n_bins", [2, 10, 25])
def test_accumulated_rows_have_the_same_histogram(rows, n_bins):
    loc, scale, y = rows
    parts = [MetricAccumulator().update(y[i::2], (loc[i::2], scale[i::2])) for i in range(2)]
    display = PITHistogramDisplay.from_accumulator(parts[0] + parts[1], n_bins=n_bins)
    assert_allclose(display.proportions, draw(y, (loc, scale), n_bins=n_bins).proportions, atol=1e-12)
    assert display.n_rows == 1200


def test_bins_that_the_accumulator_does_not_store_raise(rows):
    loc, scale, y = rows
    accumulator = MetricAccumulator().update(y, (loc, scale))
    with pytest.raises(ValueError, match=r"got n_bins=12 and 99 levels\. Pass `levels=11`"):
        PITHistogramDisplay.from_accumulator(accumulator, n_bins=12)


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"n_bins": 1}, ValueError, "`n_bins` must be at least 2"),
        ({"n_bins": 2.5}, TypeError, "`n_bins` must be an integer"),
        ({"n_bins": 10**6}, ValueError, "`n_bins` must be at most"),
        ({"band": "both"}, ValueError, "`band` must be one of"),
        ({"band_coverage": 95}, ValueError, "Did you mean 0.95"),
        ({"fill_kwargs": 3}, TypeError, "`fill_kwargs`"),
        ({"hist_kwargs": 3}, TypeError, "`hist_kwargs`"),
        ({"line_kwargs": 3}, TypeError, "`line_kwargs`"),
    ],
)
def test_bad_options(rows, keywords, error, match):
    loc, scale, y = rows
    with pytest.raises(error, match=match):
        draw(y, (loc, scale), **keywords)


class TestRandomized:
    """One random PIT value per row on an atom."""

    MEAN = np.full(4000, 1.5)
    Y = np.random.default_rng(0).poisson(MEAN)

    def test_the_shares_of_a_calibrated_forecast_are_uniform(self):
        forecast = stats.poisson(self.MEAN)
        randomized = draw(self.Y, forecast, randomized=True, random_state=0).proportions
        even = draw(self.Y, forecast).proportions
        # binomial shares have a standard deviation of sqrt(0.1 * 0.9 / 4000) = 0.0047
        np.testing.assert_allclose(randomized, 0.1, atol=0.025)
        np.testing.assert_allclose(even, 0.1, atol=0.025)
        assert np.std(randomized) != np.std(even)

    def test_an_integer_gives_the_same_plot(self):
        forecast = stats.poisson(self.MEAN)
        first, second, other = (
            draw(self.Y, forecast, randomized=True, random_state=seed).proportions for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, second)
        assert (first != other).any()

    def test_a_density_has_one_value_per_row(self):
        y = np.random.default_rng(0).normal(size=300)
        forecast = (np.zeros(300), np.ones(300))
        np.testing.assert_allclose(
            draw(y, forecast, randomized=True).proportions, draw(y, forecast).proportions
        )

    def test_bad_input(self):
        with pytest.raises(ValueError, match="`randomized` must be one of True, False"):
            draw(self.Y, stats.poisson(self.MEAN), randomized=1)
