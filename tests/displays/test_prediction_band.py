from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import ShuffleSplit, cross_validate

from skuq.displays import PredictionBandDisplay
from skuq.displays._prediction_band import neighbors
from skuq.distributions import Normal


def band_at(band, place):
    """Return the lowest and the highest value of a band at one of its places."""
    vertices = band.get_paths()[0].vertices
    there = vertices[np.isclose(vertices[:, 0], place)]
    return there[:, 1].min(), there[:, 1].max()


def test_bands_are_nested_and_follow_the_spread(rows):
    loc, scale, y = rows
    display = PredictionBandDisplay.from_predictions(y, (loc, scale), coverage=[0.5, 0.9])
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
    display = PredictionBandDisplay.from_predictions(loc, (loc, np.ones(3)))
    assert_array_equal(display.line_.get_xdata(), [1.0, 2.0, 3.0])
    assert_allclose(band_at(display.bands_[0], 3.0), Normal([3.0], [1.0]).interval(0.9)[0])


def test_the_band_spans_the_data_and_points_are_thinned_evenly(rows):
    loc, scale, y = rows
    display = PredictionBandDisplay.from_predictions(y, (loc, scale), max_rows=200)
    assert_allclose(display.line_.get_xdata()[[0, -1]], [loc.min(), loc.max()])
    points = display.scatter_.get_offsets()
    assert len(points) == 200
    assert_allclose(points[[0, -1], 0], [loc.min(), loc.max()])
    assert "200 of 1200 rows" in display.scatter_.get_label()


def test_over_the_prediction_the_line_is_the_diagonal(rows):
    loc, scale, y = rows
    line = PredictionBandDisplay.from_predictions(y, (loc, scale)).line_
    assert_array_equal(line.get_xdata(), line.get_ydata())


def test_over_a_feature(rows):
    loc, scale, y = rows
    display = PredictionBandDisplay.from_predictions(y, (loc, scale), x=-loc, x_name="Depth (m)")
    assert display.ax_.get_xlabel() == "Depth (m)"
    assert (np.diff(display.line_.get_ydata())[1:-1] < 0).all()
    assert_allclose(display.line_.get_xdata()[[0, -1]], [-loc.max(), -loc.min()])


@pytest.mark.parametrize(("feature", "label"), [(1, "Feature 1"), ("b", "b")])
def test_from_estimator_over_a_feature(rows, feature, label):
    loc, _, y = rows
    X = pd.DataFrame({"a": np.zeros(len(loc)), "b": loc})
    model = BayesianRidge().fit(X, y)
    display = PredictionBandDisplay.from_estimator(model, X, y, feature=feature, target_name="output (MW)")
    assert display.ax_.get_xlabel() == label
    assert display.ax_.get_ylabel() == "Observed output (MW)"
    assert_array_equal(display.x, loc)
    over_prediction = PredictionBandDisplay.from_estimator(model, X, y, target_name="output (MW)")
    assert over_prediction.ax_.get_xlabel() == "Predicted output (MW)"


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
    weighted = PredictionBandDisplay.from_predictions(y, (loc, 1 + loc), x=x, sample_weight=weight)
    repeated = PredictionBandDisplay.from_predictions(
        np.repeat(y, weight), (np.repeat(loc, weight), np.repeat(1 + loc, weight)), x=np.repeat(x, weight)
    )
    assert_allclose(weighted.line_.get_xydata(), repeated.line_.get_xydata())
    for place in (0.0, 1.0):
        assert_allclose(band_at(weighted.bands_[0], place), band_at(repeated.bands_[0], place))


@pytest.mark.parametrize("keywords", [{"feature": "b"}, {"x": "given"}])
def test_a_cross_validation_over_a_feature(rows, keywords):
    loc, _, y = rows
    X = pd.DataFrame({"a": loc**2, "b": loc})
    cv = ShuffleSplit(2, test_size=300, random_state=0)
    results = cross_validate(BayesianRidge(), X, y, cv=cv, return_estimator=True, return_indices=True)
    keywords = {"x": loc} if "x" in keywords else keywords
    display = PredictionBandDisplay.from_cv_results(results, X, y, **keywords)
    tested = np.concatenate(results["indices"]["test"])
    assert_array_equal(display.x, loc[tested])
    assert_array_equal(display.y_true, y[tested])


def test_styles_and_axes(rows):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    loc, scale, y = rows
    display = PredictionBandDisplay.from_predictions(
        y,
        (loc, scale),
        ax=ax,
        name="linear",
        line_kwargs={"ls": "--"},
        scatter_kwargs={"marker": "x", "linewidths": 1.0, "color": "red"},
        fill_kwargs={"color": "green"},
    )
    assert display.ax_ is ax
    assert ax.get_title(loc="left") == "linear"
    assert display.line_.get_linestyle() == "--"
    assert_allclose(display.bands_[0].get_facecolor()[0, :3], [0, 128 / 255, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"coverage": 1.5}, ValueError, "`coverage`"),
        ({"coverage": []}, ValueError, "`coverage`"),
        ({"max_bins": 1}, ValueError, "`max_bins`"),
        ({"max_rows": 0}, ValueError, "`max_rows`"),
        ({"x": [1.0, 2.0]}, ValueError, "`x` must have 1200 rows"),
        ({"x": [np.nan] * 1200}, ValueError, "`x` must not contain NaN"),
        ({"x": ["a"] * 1200}, TypeError, "`x` must hold real numbers"),
        ({"fill_kwargs": [1]}, TypeError, "`fill_kwargs`"),
    ],
)
def test_bad_options(rows, keywords, error, match):
    loc, scale, y = rows
    with pytest.raises(error, match=match):
        PredictionBandDisplay.from_predictions(y, (loc, scale), **keywords)


def test_bad_predictions(rows):
    loc, scale, y = rows
    with pytest.raises(TypeError, match=r"\(loc, scale\)"):
        PredictionBandDisplay.from_predictions(y, np.column_stack([loc, scale]))
    with pytest.raises(ValueError, match="rows"):
        PredictionBandDisplay.from_predictions(y[:-1], (loc, scale))
