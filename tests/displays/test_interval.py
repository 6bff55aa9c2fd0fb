import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import BayesianRidge

from skuq.displays import IntervalDisplay
from skuq.distributions import Normal


def test_coverage_is_that_of_all_rows_though_few_are_drawn(rows):
    loc, scale, y = rows
    display = IntervalDisplay.from_predictions(y, (loc, scale), max_rows=100)
    bounds = Normal(loc, scale).interval(0.9)
    inside = (bounds[:, 0] <= y) & (y <= bounds[:, 1])
    assert display.observed_coverage_ == pytest.approx(inside.mean())
    assert len(display.rows_) == 100
    assert len(display.covered_lines_.get_segments()) == inside[display.rows_].sum()
    assert len(display.missed_lines_.get_segments()) == (~inside)[display.rows_].sum()
    assert inside.mean() == 0.89
    assert "89 % of 1200 rows inside (nominal 90 %)" in display.ax_.get_legend().get_title().get_text()
    assert "100 of 1200 shown" in display.ax_.get_xlabel()


@pytest.mark.parametrize("sort_by", ["observed", "predicted", "width"])
def test_rows_are_sorted(rows, sort_by):
    loc, scale, y = rows
    display = IntervalDisplay.from_predictions(y, (loc, scale), sort_by=sort_by)
    key = {"observed": y, "predicted": loc, "width": scale}[sort_by]
    assert (np.diff(key[display.rows_]) >= 0).all()
    assert_array_equal(np.sort(key)[[0, -1]], key[display.rows_[[0, -1]]])
    center = loc if sort_by == "width" else np.zeros(len(loc))
    assert_array_equal(display.scatter_.get_offsets()[:, 1], (y - center)[display.rows_])
    assert ("minus prediction" in display.ax_.get_ylabel()) is (sort_by == "width")


def test_all_rows_on_request(rows):
    loc, scale, y = (part[:30] for part in rows)
    display = IntervalDisplay.from_predictions(y, (loc, scale), max_rows=None)
    assert len(display.rows_) == 30
    assert "shown" not in display.ax_.get_xlabel()


def test_a_bare_array_holds_bounds(rows):
    loc, scale, y = rows
    from_dist = IntervalDisplay.from_predictions(y, (loc, scale), coverage=0.8)
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


def test_all_inside_and_none_inside():
    y = np.zeros(5)
    inside = IntervalDisplay.from_predictions(y, (y, np.ones(5)))
    assert inside.observed_coverage_ == 1.0
    assert inside.missed_lines_.get_segments() == []
    outside = IntervalDisplay.from_predictions(y + 9.0, (y, np.ones(5)))
    assert outside.observed_coverage_ == 0.0
    assert outside.covered_lines_.get_segments() == []


def test_weights_count_in_the_coverage():
    display = IntervalDisplay.from_predictions([0.0, 9.0], ([0.0, 0.0], [1.0, 1.0]), sample_weight=[3.0, 1.0])
    assert display.observed_coverage_ == 0.75


def test_from_estimator_labels_and_styles(rows):
    loc, _, y = rows
    model = BayesianRidge().fit(loc[:, np.newaxis], y)
    display = IntervalDisplay.from_estimator(
        model,
        loc[:, np.newaxis],
        y,
        target_name="Output (MW)",
        name="ridge",
        line_kwargs={"lw": 3, "color": "green"},
        missed_kwargs={"color": "black"},
        scatter_kwargs={"c": "orange", "s": 4},
    )
    assert display.ax_.get_ylabel() == "Output (MW)"
    assert display.ax_.get_title(loc="left") == "ridge"
    assert_array_equal(display.covered_lines_.get_linewidth(), [3])
    assert_allclose(display.covered_lines_.get_color()[0, :3], [0, 128 / 255, 0], atol=1e-6)
    assert_allclose(display.missed_lines_.get_color()[0, :3], [0, 0, 0])
    assert_array_equal(display.scatter_.get_sizes(), [4])


def test_draws_on_given_axes(rows):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    loc, scale, y = rows
    assert IntervalDisplay.from_predictions(y, (loc, scale), ax=ax).ax_ is ax


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"sort_by": "y"}, ValueError, "`sort_by`"),
        ({"coverage": 90}, ValueError, "Did you mean 0.9"),
        ({"max_rows": 1}, ValueError, "`max_rows`"),
        ({"max_rows": 10.5}, TypeError, "`max_rows`"),
        ({"sample_weight": [-1.0] * 1200}, ValueError, "non-negative"),
        ({"missed_kwargs": 3}, TypeError, "`missed_kwargs`"),
    ],
)
def test_bad_options(rows, keywords, error, match):
    loc, scale, y = rows
    with pytest.raises(error, match=match):
        IntervalDisplay.from_predictions(y, (loc, scale), **keywords)


def test_bad_predictions(rows):
    loc, scale, y = rows
    with pytest.raises(ValueError, match="lower bounds"):
        IntervalDisplay.from_predictions(y, np.column_stack([loc + scale, loc - scale]))
    with pytest.raises(ValueError, match="rows"):
        IntervalDisplay.from_predictions(y[:-1], (loc, scale))
    with pytest.raises(ValueError, match="shape"):
        IntervalDisplay.from_predictions(y, loc)
    with pytest.raises(ValueError, match="finite"):
        IntervalDisplay.from_predictions(np.full(1200, np.nan), (loc, scale))
