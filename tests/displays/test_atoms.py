"""Atoms of partly continuous forecasts in plots of intervals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skuq.displays import IntervalDisplay, PredictionBandDisplay
from skuq.displays._atoms import shared_atoms
from skuq.distributions import (
    ConformalPredictive,
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    ScipyDistribution,
    Transformed,
    Truncated,
    concat,
)

N = 300
X = np.linspace(-2.0, 2.0, N)
P = 0.5 - 0.24 * X
HURDLE = Hurdle(P, Truncated(Normal(3 + X, 1.0), 0.0))
CLIPPED = Normal(1 + X, 1.0).clip(0.0, 2.0)
Y = HURDLE.sample(1, random_state=0)[:, 0]
RNG = np.random.default_rng(0)
MEMBERS = RNG.normal(size=(N, 50))


@pytest.mark.parametrize(
    ("dist", "expected"),
    [
        (HURDLE, {0.0: P}),
        (Hurdle(P, Normal(3 + X, 1.0), at=2.5), {2.5: P}),
        (CLIPPED, {0.0: Normal(1 + X, 1.0).cdf(0.0), 2.0: 1 - Normal(1 + X, 1.0).cdf(2.0)}),
        (Mixture([HURDLE, CLIPPED])[:20], {0.0: 0.5 * (P + CLIPPED.cdf(0.0))[:20]}),
        (Transformed(HURDLE, np.exp, np.log), {1.0: P}),
        (concat([HURDLE[:50], Normal(np.zeros(250), 1.0)]), {0.0: np.r_[P[:50], np.zeros(250)]}),
        (Empirical(np.maximum(MEMBERS, 0.0)), {0.0: (MEMBERS <= 0).mean(axis=1)}),
        (
            ConformalPredictive(np.zeros(N), 1.0, [0.0, 0.0, 0.0, 0.0, 1.0], symmetric=False),
            {0.0: 3 / 6, 1.0: 1 / 6},
        ),
        # The forecasts below are continuous or discrete, or have many different atoms.
        (Normal(X, 1.0), {}),
        (ScipyDistribution(stats.poisson(np.full(N, 0.05))), {}),
        (Empirical(np.tile([1.0, 2.0, 4.0, 8.0], (N, 1))), {}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_shared_atoms(dist, expected):
    found = shared_atoms(dist)
    assert list(found) == list(expected)
    for value, mass in expected.items():
        assert_allclose(found[value], mass, atol=1e-6)


@pytest.mark.parametrize("sort_by", ["predicted", "width"])
def test_the_area_in_the_plot_of_intervals_is_the_probability(sort_by):
    display = IntervalDisplay.from_predictions(Y, HURDLE, sort_by=sort_by, max_rows=50)
    area = display.atoms_.get_sizes()
    assert_allclose(area / area.max(), P[display.rows_] / P[display.rows_].max())
    center = HURDLE.mean()[display.rows_] if sort_by == "width" else np.zeros(50)
    place, height = display.atoms_.get_offsets().T
    assert_allclose(height, -center)
    assert_array_equal(place, display.scatter_.get_offsets()[:, 0])
    assert "Probability of 0 (area)" in {text.get_text() for text in display.ax_.get_legend().get_texts()}


def test_improbable_atoms_are_left_out_of_the_plot_of_intervals():
    display = IntervalDisplay.from_predictions(CLIPPED.median(), CLIPPED, max_rows=None)
    drawn = (CLIPPED.cdf(0.0) >= 0.01).sum() + (np.exp(CLIPPED.logpmf(2.0)) >= 0.01).sum()
    assert len(display.atoms_.get_offsets()) == drawn < 2 * N


def test_intervals_of_width_zero_are_visible():
    bounds = np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    display = IntervalDisplay.from_predictions([0.0, 1.0, 5.0], bounds)
    assert display.atoms_ is None
    assert_array_equal(display.flat_.get_offsets(), [[1.0, 0.0], [3.0, 1.0]])
    colors = display.flat_.get_edgecolors()
    assert_array_equal(colors[0], display.covered_lines_.get_colors()[0])
    assert_array_equal(colors[1], display.missed_lines_.get_colors()[0])


def test_the_thickness_in_the_band_is_the_mean_probability():
    weight = np.arange(N) % 3 + 1.0
    display = PredictionBandDisplay.from_predictions(Y, HURDLE, x=X, max_bins=10, sample_weight=weight)
    segments, widths = np.array(display.atoms_.get_segments()), np.array(display.atoms_.get_linewidths())
    order = np.argsort(segments[:, 0, 0])
    assert_array_equal(segments[:, :, 1], 0.0)
    assert_allclose(segments[order[[0, -1]], [0, 1], 0], X[[0, -1]])
    means = np.average(P.reshape(10, -1), axis=1, weights=weight.reshape(10, -1))
    means = np.array([means[0], *means, means[-1]])
    assert_allclose(widths[order], 10 * (means[1:] + means[:-1]) / 2)
    assert widths[0] == widths.max()  # The legend shows the first line.
    label = PredictionBandDisplay.from_predictions(CLIPPED.median(), CLIPPED).atoms_.get_label()
    assert label == "Probability of 0 and 2 (thickness)"


@pytest.mark.parametrize("dist", [HURDLE, CLIPPED, ScipyDistribution(stats.poisson(np.exp(X)))])
def test_the_band_stays_inside_the_support(dist):
    display = PredictionBandDisplay.from_predictions(dist.median(), dist, coverage=[0.5, 0.9], max_bins=10)
    for band in display.bands_:
        heights = band.get_paths()[0].vertices[:, 1]
        assert heights.min() >= dist.ppf(0.0).min()
        assert heights.max() <= dist.ppf(1.0).max()
        assert band.get_linewidth() > 0  # a band of width 0 is visible


@pytest.mark.parametrize("display", [IntervalDisplay, PredictionBandDisplay])
def test_styles(display):
    drawn = display.from_predictions(Y, HURDLE, atom_kwargs={"color": "red", "alpha": 1.0}).atoms_
    color = drawn.get_facecolor() if display is IntervalDisplay else drawn.get_color()
    assert_array_equal(color[0], [1.0, 0.0, 0.0, 1.0])
    with pytest.raises(TypeError, match="`atom_kwargs`"):
        display.from_predictions(Y, HURDLE, atom_kwargs=3)
