import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.displays import ReliabilityDisplay
from skuq.displays._reliability import rmse_interval
from skuq.metrics import expected_normalized_calibration_error

draw = ReliabilityDisplay.from_predictions


def test_points_are_bins_of_equal_count(rows):
    loc, scale, y = rows
    display = draw(y, (loc, scale), n_bins=6, name="model", unit="MW")
    groups = np.array_split(np.argsort(scale), 6)
    assert_allclose(display.line_.get_xdata(), [np.sqrt(np.mean(scale[rows] ** 2)) for rows in groups])
    assert_allclose(display.line_.get_ydata(), [np.sqrt(np.mean((y - loc)[rows] ** 2)) for rows in groups])
    assert display.ax_.get_xlabel() == "Predicted standard deviation (MW)"
    assert display.ax_.get_ylabel() == "Root mean squared error (MW)"
    assert display.line_.get_label() == "model"


def test_the_distance_from_the_diagonal_is_the_metric(rows):
    loc, scale, y = rows
    x, error = draw(y, (loc, scale / 2)).line_.get_xydata().T
    assert np.mean(np.abs(x - error) / x) == pytest.approx(
        expected_normalized_calibration_error(y, (loc, scale / 2), n_bins=10)
    )
    assert (error > x).all()


def test_bins_of_equal_width(rows):
    loc, scale, y = rows
    display = draw(y, (loc, scale), n_bins=4, strategy="uniform")
    assert_allclose(np.diff(display.table["upper"]), np.ptp(scale) / 4)


def test_intervals_hold_with_the_probability_they_state():
    rng = np.random.default_rng(0)
    n = np.full(2000, 40.0)
    rmse = np.sqrt(np.mean(rng.normal(scale=3.0, size=(2000, 40)) ** 2, axis=1))
    lower, upper = rmse_interval(rmse, n, 0.9)
    assert 0.88 < np.mean((lower <= 3.0) & (upper >= 3.0)) < 0.92


def test_intervals_are_drawn_around_the_points_in_their_color(rows):
    loc, scale, y = rows
    display = draw(y, (loc, scale), n_bins=5, interval_coverage=0.8)
    segments = np.array(display.intervals_.get_segments())
    assert_array_equal(segments[:, 0, 0], display.line_.get_xdata())
    error = display.line_.get_ydata()
    assert ((segments[:, 0, 1] < error) & (error < segments[:, 1, 1])).all()
    assert display.intervals_.get_label() == "80 % interval of the error"
    assert draw(y, (loc, scale), interval_coverage=None).intervals_ is None


def test_both_axes_have_the_same_limits_that_hold_all_models(rows):
    loc, scale, y = rows
    first = draw(y, (loc, scale))
    draw(y, (loc, 5 * scale), ax=first.ax_)
    assert first.ax_.get_xlim() == first.ax_.get_ylim()
    assert first.ax_.get_xlim()[1] > 5 * scale.max() * 0.9
    assert sum(type(line).__name__ == "AxLine" for line in first.ax_.get_children()) == 1


def test_weights_count_repetitions(rows):
    loc, scale, y = (part[:90] for part in rows)
    weight = np.arange(90) % 3
    weighted = draw(y, (loc, scale), sample_weight=weight, n_bins=4)
    repeated = draw(np.repeat(y, weight), (np.repeat(loc, weight), np.repeat(scale, weight)), n_bins=4)
    assert_allclose(weighted.line_.get_xydata(), repeated.line_.get_xydata())
    assert_allclose(
        np.array(weighted.intervals_.get_segments()), np.array(repeated.intervals_.get_segments())
    )


def test_weights_that_count_nothing_have_no_intervals(rows):
    loc, scale, y = rows
    with pytest.raises(ValueError, match="repetitions"):
        draw(y, (loc, scale), sample_weight=np.full(1200, 0.1))
    display = draw(y, (loc, scale), sample_weight=np.full(1200, 0.1), interval_coverage=None)
    assert_allclose(display.line_.get_xydata(), draw(y, (loc, scale)).line_.get_xydata())


def test_styles_pass_through(rows):
    loc, scale, y = rows
    display = draw(
        y,
        (loc, scale),
        line_kwargs={"marker": "s"},
        ref_line_kwargs={"ls": ":"},
        interval_kwargs={"lw": 7},
    )
    assert display.line_.get_marker() == "s"
    assert display.ref_line_.get_linestyle() == ":"
    assert_array_equal(display.intervals_.get_linewidth(), [7])
    assert draw(y, (loc, scale), ref_line=False).ref_line_ is None


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"n_bins": 0}, ValueError, "`n_bins`"),
        ({"strategy": "even"}, ValueError, "`strategy`"),
        ({"interval_coverage": 90}, ValueError, "`interval_coverage`.*Did you mean 0.9"),
        ({"interval_kwargs": 1}, TypeError, "`interval_kwargs`"),
    ],
)
def test_bad_options(rows, keywords, error, match):
    loc, scale, y = rows
    with pytest.raises(error, match=match):
        draw(y, (loc, scale), **keywords)
