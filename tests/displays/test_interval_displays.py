"""Displays of intervals, of bands, and of the atoms of partly continuous forecasts."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import ShuffleSplit, cross_validate

from skuq.displays import IntervalDisplay, PredictionBandDisplay
from skuq.displays._drawing import shared_atoms
from skuq.displays._prediction_band import neighbors
from skuq.distributions import (
    Empirical,
    Hurdle,
    Mixture,
    Normal,
    ScipyDistribution,
    Transformed,
    Truncated,
    concat,
)
from skuq.distributions._conformal_predictive import ConformalPredictive

# ------------------------------------------------------------------------------------------------ interval


def test_coverage_is_that_of_all_rows_though_few_are_drawn(loc, scale, y):
    display = IntervalDisplay.from_predictions(
        y, Normal(loc, scale), max_rows=100, target_name="Output (MW)", name="ridge"
    )
    bounds = Normal(loc, scale).interval(0.9)
    inside = (bounds[:, 0] <= y) & (y <= bounds[:, 1])
    assert display.observed_coverage_ == pytest.approx(inside.mean())
    assert len(display.rows_) == 100
    assert len(display.covered_lines_.get_segments()) == inside[display.rows_].sum()
    assert len(display.missed_lines_.get_segments()) == (~inside)[display.rows_].sum()
    assert inside.mean() == 0.89
    assert "89 % of 1200 rows inside (nominal 90 %)" in display.ax_.get_legend().get_title().get_text()
    assert "100 of 1200 shown" in display.ax_.get_xlabel()
    assert display.ax_.get_ylabel() == "Output (MW)"
    assert display.ax_.get_title(loc="left") == "ridge"
    display = IntervalDisplay.from_predictions(y[:30], Normal(loc[:30], scale[:30]), max_rows=None)
    assert len(display.rows_) == 30
    assert "shown" not in display.ax_.get_xlabel()


@pytest.mark.parametrize("sort_by", ["observed", "predicted", "width"])
def test_rows_are_sorted(loc, scale, y, sort_by):
    display = IntervalDisplay.from_predictions(y, Normal(loc, scale), sort_by=sort_by)
    key = {"observed": y, "predicted": loc, "width": scale}[sort_by]
    assert (np.diff(key[display.rows_]) >= 0).all()
    assert_array_equal(np.sort(key)[[0, -1]], key[display.rows_[[0, -1]]])
    center = loc if sort_by == "width" else np.zeros(len(loc))
    assert_array_equal(display.scatter_.get_offsets()[:, 1], (y - center)[display.rows_])
    assert ("minus prediction" in display.ax_.get_ylabel()) is (sort_by == "width")


def test_a_bare_array_holds_bounds(loc, scale, y):
    from_dist = IntervalDisplay.from_predictions(y, Normal(loc, scale), coverage=0.8)
    from_bounds = IntervalDisplay.from_predictions(y, Normal(loc, scale).interval(0.8), coverage=0.8)
    assert from_dist.observed_coverage_ == from_bounds.observed_coverage_
    assert_allclose(from_bounds.y_pred, loc)


def test_infinite_bounds_are_drawn_to_the_edge():
    y = np.array([1.0, 2.0, 30.0])
    bounds = np.array([[0.0, 2.0], [-np.inf, np.inf], [1.0, 2.0]])
    display = IntervalDisplay.from_predictions(y, bounds)
    assert display.observed_coverage_ == pytest.approx(2 / 3)
    segments = np.array(display.covered_lines_.get_segments())
    assert np.isfinite(segments).all()
    assert segments[..., 1].max() > 30.0


def test_all_inside_and_none_inside_and_weights():
    y, ones = np.zeros(5), np.ones(5)
    inside = IntervalDisplay.from_predictions(y, Normal(y, ones))
    assert inside.observed_coverage_ == 1.0
    assert inside.missed_lines_.get_segments() == []
    outside = IntervalDisplay.from_predictions(y + 9.0, Normal(y, ones))
    assert outside.observed_coverage_ == 0.0
    assert outside.covered_lines_.get_segments() == []
    display = IntervalDisplay.from_predictions([0.0, 9.0], Normal(y[:2], ones[:2]), sample_weight=[3.0, 1.0])
    assert display.observed_coverage_ == 0.75
    with pytest.raises(ValueError, match="lower bounds"):
        IntervalDisplay.from_predictions(y, np.column_stack([ones, y]))


# ----------------------------------------------------------------------------------------- prediction band


def band_at(band, place):
    """Return the lowest and the highest value of a band at one of its places."""
    vertices = band.get_paths()[0].vertices
    there = vertices[np.isclose(vertices[:, 0], place)]
    return there[:, 1].min(), there[:, 1].max()


def test_bands_are_nested_and_follow_the_spread(loc, scale, y):
    display = PredictionBandDisplay.from_predictions(y, Normal(loc, scale), coverage=[0.5, 0.9])
    labels = [band.get_label() for band in display.bands_]
    assert labels == ["90 % prediction interval", "50 % prediction interval"]
    bounds = Normal(loc, scale).interval(0.9)
    for group in np.array_split(np.argsort(loc), 40):
        wide, narrow = (band_at(band, loc[group].mean()) for band in display.bands_)
        assert wide[0] < narrow[0] < narrow[1] < wide[1]
        assert_allclose(wide, bounds[group].mean(axis=0))
    distance = bounds - loc[:, np.newaxis]
    last = distance[np.array_split(np.argsort(loc), 40)[-1]].mean(axis=0)
    assert_allclose(band_at(display.bands_[0], loc.max()), loc.max() + last)
    first = distance[np.array_split(np.argsort(loc), 40)[0]].mean(axis=0)
    # The lower end is clipped to the lowest bound of all rows.
    assert_allclose(band_at(display.bands_[0], loc.min()), [bounds.min(), loc.min() + first[1]])


def test_few_rows_get_their_own_interval():
    loc = np.array([1.0, 3.0, 2.0])
    display = PredictionBandDisplay.from_predictions(loc, Normal(loc, np.ones(3)))
    assert_array_equal(display.line_.get_xdata(), [1.0, 2.0, 3.0])
    assert_allclose(band_at(display.bands_[0], 3.0), Normal([3.0], [1.0]).interval(0.9)[0])


def test_the_band_spans_the_data_and_points_are_thinned_evenly(loc, scale, y):
    display = PredictionBandDisplay.from_predictions(y, Normal(loc, scale), max_rows=200)
    assert_array_equal(*display.line_.get_data())  # over the prediction, the line is the diagonal
    assert_allclose(display.line_.get_xdata()[[0, -1]], [loc.min(), loc.max()])
    points = display.scatter_.get_offsets()
    assert len(points) == 200
    assert_allclose(points[[0, -1], 0], [loc.min(), loc.max()])
    assert "200 of 1200 rows" in display.scatter_.get_label()
    display = PredictionBandDisplay.from_predictions(y, Normal(loc, scale), x=-loc, x_name="Depth (m)")
    assert display.ax_.get_xlabel() == "Depth (m)"
    assert (np.diff(display.line_.get_ydata())[1:-1] < 0).all()
    assert_allclose(display.line_.get_xdata()[[0, -1]], [-loc.max(), -loc.min()])


def test_estimators_and_cross_validation_over_a_feature(loc, y):
    X = pd.DataFrame({"a": loc**2, "b": loc})
    model = BayesianRidge().fit(X, y)
    for feature, label in ((1, "Feature 1"), ("b", "b")):
        display = PredictionBandDisplay.from_estimator(
            model, X, y, feature=feature, target_name="output (MW)"
        )
        assert display.ax_.get_xlabel() == label
        assert display.ax_.get_ylabel() == "Observed output (MW)"
        assert_array_equal(display.x, loc)
    over_prediction = PredictionBandDisplay.from_estimator(model, X, y, target_name="output (MW)")
    assert over_prediction.ax_.get_xlabel() == "Predicted output (MW)"
    cv = ShuffleSplit(2, test_size=300, random_state=0)
    results = cross_validate(BayesianRidge(), X, y, cv=cv, return_estimator=True, return_indices=True)
    tested = np.concatenate(results["indices"]["test"])
    for keywords in ({"feature": "b"}, {"x": loc}):
        display = PredictionBandDisplay.from_cv_results(results, X, y, **keywords)
        assert_array_equal(display.x, loc[tested])
        assert_array_equal(display.y_true, y[tested])


def test_rows_at_one_place_stay_together():
    places = np.array([1.0] * 2 + [3.0] * 50 + [7.0] * 30 + [8.0, 9.0, 9.5] + [10.0] * 15)
    groups = neighbors(places, np.arange(100), 10)
    assert_array_equal(np.concatenate(groups), np.arange(100))
    assert all(len(rows) >= 5 for rows in groups)
    for earlier, later in pairwise(groups):
        assert places[earlier[-1]] < places[later[0]]
    assert len(groups) > 2
    assert len(neighbors(np.zeros(50), np.arange(50), 10)) == 1
    even = neighbors(np.arange(100.0), np.arange(100), 10)
    assert [len(rows) for rows in even] == [10] * 10


def test_weights_count_repetitions_at_a_place():
    y, loc, weight = np.array([1.0, 2.0, 3.0, 9.0]), np.array([1.0, 2.0, 4.0, 7.0]), np.array([1, 3, 2, 0])
    x = np.array([0.0, 0.0, 1.0, 1.0])
    weighted = PredictionBandDisplay.from_predictions(y, Normal(loc, 1 + loc), x=x, sample_weight=weight)
    repeated = PredictionBandDisplay.from_predictions(
        np.repeat(y, weight),
        Normal(np.repeat(loc, weight), np.repeat(1 + loc, weight)),
        x=np.repeat(x, weight),
    )
    assert_allclose(weighted.line_.get_xydata(), repeated.line_.get_xydata())
    for place in (0.0, 1.0):
        assert_allclose(band_at(weighted.bands_[0], place), band_at(repeated.bands_[0], place))


# --------------------------------------------------------------------------------------------------- atoms


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


def test_improbable_atoms_are_left_out_and_intervals_of_width_zero_are_visible():
    display = IntervalDisplay.from_predictions(CLIPPED.median(), CLIPPED, max_rows=None)
    drawn = (CLIPPED.cdf(0.0) >= 0.01).sum() + (np.exp(CLIPPED.logpmf(2.0)) >= 0.01).sum()
    assert len(display.atoms_.get_offsets()) == drawn < 2 * N
    bounds = np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    display = IntervalDisplay.from_predictions([0.0, 1.0, 5.0], bounds)
    assert display.atoms_ is None
    assert_array_equal(display.flat_.get_offsets(), [[1.0, 0.0], [3.0, 1.0]])
    inside, outside = display.flat_.get_edgecolors()
    assert_array_equal(inside, display.covered_lines_.get_colors()[0])
    assert_array_equal(outside, display.missed_lines_.get_colors()[0])


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
