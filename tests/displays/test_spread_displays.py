"""Displays of predicted standard deviations: reliability, errors and sharpness."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.displays import ReliabilityDisplay, ResidualScaleDisplay, SharpnessDisplay
from skuq.displays._reliability import rmse_interval
from skuq.distributions import Normal
from skuq.metrics import expected_normalized_calibration_error, reliability_table, sharpness

# --------------------------------------------------------------------------------------------- reliability


draw = ReliabilityDisplay.from_predictions


def test_points_are_bins_of_equal_count(loc, scale, y):
    display = draw(y, Normal(loc, scale), n_bins=6, name="model", unit="MW")
    groups = np.array_split(np.argsort(scale), 6)
    assert_allclose(display.line_.get_xdata(), [np.sqrt(np.mean(scale[rows] ** 2)) for rows in groups])
    assert_allclose(display.line_.get_ydata(), [np.sqrt(np.mean((y - loc)[rows] ** 2)) for rows in groups])
    assert display.ax_.get_xlabel() == "Predicted standard deviation (MW)"
    assert display.ax_.get_ylabel() == "Root mean squared error (MW)"
    assert display.line_.get_label() == "model"


def test_the_distance_from_the_diagonal_is_the_metric(loc, scale, y):
    x, error = draw(y, Normal(loc, scale / 2)).line_.get_xydata().T
    assert np.mean(np.abs(x - error) / x) == pytest.approx(
        expected_normalized_calibration_error(y, Normal(loc, scale / 2), n_bins=10)
    )
    assert (error > x).all()


def test_bins_of_equal_width(loc, scale, y):
    display = draw(y, Normal(loc, scale), n_bins=4, strategy="uniform")
    assert_allclose(np.diff(display.table["upper"]), np.ptp(scale) / 4)


def test_intervals_hold_with_the_probability_they_state():
    rng = np.random.default_rng(0)
    n = np.full(2000, 40.0)
    rmse = np.sqrt(np.mean(rng.normal(scale=3.0, size=(2000, 40)) ** 2, axis=1))
    lower, upper = rmse_interval(rmse, n, 0.9)
    assert 0.88 < np.mean((lower <= 3.0) & (upper >= 3.0)) < 0.92


def test_intervals_are_drawn_around_the_points_in_their_color(loc, scale, y):
    display = draw(y, Normal(loc, scale), n_bins=5, confidence=0.8)
    segments = np.array(display.intervals_.get_segments())
    assert_array_equal(segments[:, 0, 0], display.line_.get_xdata())
    error = display.line_.get_ydata()
    assert ((segments[:, 0, 1] < error) & (error < segments[:, 1, 1])).all()
    assert display.intervals_.get_label() == "80 % interval of the error"
    assert draw(y, Normal(loc, scale), confidence=None).intervals_ is None


def test_both_axes_have_the_same_limits_that_hold_all_models(loc, scale, y):
    first = draw(y, Normal(loc, scale))
    draw(y, Normal(loc, 5 * scale), ax=first.ax_)
    assert first.ax_.get_xlim() == first.ax_.get_ylim()
    assert first.ax_.get_xlim()[1] > 5 * scale.max() * 0.9
    assert sum(type(line).__name__ == "AxLine" for line in first.ax_.get_children()) == 1


# ------------------------------------------------------------------------------------------ residual scale


draw_errors = ResidualScaleDisplay.from_predictions


def test_points_cone_and_line(loc, scale, y):
    display = draw_errors(y, Normal(loc, scale), max_rows=None, n_bins=7, unit="MW", name="model")
    order = np.argsort(scale)
    assert_allclose(display.scatter_.get_offsets(), np.column_stack([scale, y - loc])[order])
    table = reliability_table(y, Normal(loc, scale), n_bins=7)
    upper, lower = display.lines_
    assert_allclose(upper.get_xydata(), table[["rmv", "rmse"]])
    assert_allclose(lower.get_ydata(), -table["rmse"])
    vertices = display.band_.get_paths()[0].vertices
    assert_allclose(np.abs(vertices[:, 1]), vertices[:, 0])
    assert_allclose([vertices[:, 0].min(), vertices[:, 0].max()], [scale.min(), scale.max()])
    assert display.ax_.get_xlabel() == "Predicted standard deviation (MW)"
    assert display.ax_.get_title(loc="left") == "model"


def test_absolute_errors(loc, scale, y):
    display = draw_errors(y, Normal(loc, scale), kind="absolute", max_rows=None)
    assert_allclose(display.scatter_.get_offsets()[:, 1], np.abs(y - loc)[np.argsort(scale)])
    assert len(display.lines_) == 1
    assert display.ax_.get_ylim()[0] == 0
    assert display.ax_.get_ylabel() == "Absolute error"
    assert display.band_.get_paths()[0].vertices[:, 1].min() == 0


def test_points_are_thinned_evenly_but_the_line_has_all_rows(loc, scale, y):
    display = draw_errors(y, Normal(loc, scale), max_rows=200)
    points = display.scatter_.get_offsets()
    assert len(points) == 200
    assert_allclose(points[[0, -1], 0], [scale.min(), scale.max()])
    assert "200 of 1200 rows" in display.scatter_.get_label()
    assert_allclose(display.lines_[0].get_xydata(), draw_errors(y, Normal(loc, scale)).lines_[0].get_xydata())


def test_weights_count_in_the_line_and_rows_of_weight_zero_are_left_out(rows):
    loc, scale, y = (part[:90] for part in rows)
    weight = np.arange(90) % 3
    weighted = draw_errors(y, Normal(loc, scale), sample_weight=weight, n_bins=4)
    repeated = draw_errors(
        np.repeat(y, weight), Normal(np.repeat(loc, weight), np.repeat(scale, weight)), n_bins=4
    )
    assert_allclose(weighted.lines_[0].get_xydata(), repeated.lines_[0].get_xydata())
    assert len(weighted.residuals) == 60


# ----------------------------------------------------------------------------------------------- sharpness


draw_sharpness = SharpnessDisplay.from_predictions


@pytest.mark.parametrize(("kind", "word"), [("std", "sharpness"), ("rms", "RMS sharpness")])
def test_the_line_is_the_metric(loc, scale, y, kind, word):
    value = sharpness(y, Normal(loc, scale), kind=kind)
    display = draw_sharpness(y, Normal(loc, scale), kind=kind, name="model", unit="MW")
    assert_array_equal(display.line_.get_xdata(), [value, value])
    assert display.line_.get_label() == f"model ({word} = {value:.3g})"
    assert display.ax_.get_xlabel() == "Predicted standard deviation (MW)"


def test_shares_add_up_and_count_rows(loc, scale):
    shares, edges, _ = draw_sharpness(None, Normal(loc, scale), bin_width=0.25).hist_.get_data()
    assert shares.sum() == pytest.approx(100)
    assert_allclose(np.diff(edges), 0.25)
    inside = (scale >= edges[1]) & (scale < edges[2])
    assert shares[1] == pytest.approx(100 * inside.mean())


def test_models_on_one_axes_share_bins(loc, scale):
    first = draw_sharpness(None, Normal(loc, scale), name="a")
    second = draw_sharpness(None, Normal(loc, 3.1 * scale), name="b", ax=first.ax_)
    width = np.diff(first.hist_.get_data().edges)[0]
    edges = second.hist_.get_data().edges
    assert_allclose(edges / width, np.round(edges / width), atol=1e-9)
    assert first.hist_.get_facecolor() != second.hist_.get_facecolor()
    assert first.ax_.get_xlim()[0] == 0
    assert first.ax_.get_xlim()[1] > edges[-1]


def test_a_constant_scale_is_one_full_bin():
    for scale in (0.0, 0.3, 0.7, 1.0, 1234.5):
        shares, edges, _ = draw_sharpness(None, Normal(np.zeros(50), np.full(50, scale))).hist_.get_data()
        assert shares.max() == pytest.approx(100)
        full = int(np.argmax(shares))
        assert edges[full] <= scale * (1 + 1e-12)
        assert scale * (1 - 1e-12) <= edges[full + 1]


def test_an_outlier_does_not_lead_to_countless_bins():
    scale = np.append(np.ones(99), 1e6)
    display = draw_sharpness(None, Normal(np.zeros(100), scale), bin_width=0.1)
    assert len(display.hist_.get_data().values) < 600
    assert display.hist_.get_data().values.sum() == pytest.approx(100)
