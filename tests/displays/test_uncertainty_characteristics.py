import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.displays import UncertaintyCharacteristicsDisplay
from skuq.displays._display import as_list
from skuq.distributions import Normal
from skuq.metrics import auucc_loss, uncertainty_characteristics_curve

draw = UncertaintyCharacteristicsDisplay.from_predictions
X_AXES, Y_AXES = ["bandwidth", "excess"], ["miss_rate", "deficit"]


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.mark.parametrize("x_axis", X_AXES)
@pytest.mark.parametrize("y_axis", Y_AXES)
def test_the_curve_is_that_of_the_metric_on_every_pair_of_axes(loc, scale, y, x_axis, y_axis):
    curve = uncertainty_characteristics_curve(y, Normal(loc, scale))
    display = draw(y, Normal(loc, scale), x_axis=x_axis, y_axis=y_axis, name="model", unit="MW")
    assert display.ax_.get_xlabel().endswith("(MW)")
    assert display.ax_.get_ylabel().endswith("(%)" if y_axis == "miss_rate" else "(MW)")
    percent = 100 if y_axis == "miss_rate" else 1
    assert_array_equal(display.line_.get_xdata(), getattr(curve, x_axis))
    assert_array_equal(display.line_.get_ydata(), percent * getattr(curve, y_axis))
    assert display.line_.get_label() == f"model (AUUCC = {curve.area(x_axis=x_axis, y_axis=y_axis):.3g})"
    steps = "steps-post" if y_axis == "miss_rate" else "default"
    assert display.line_.get_drawstyle() == steps


def test_what_is_drawn_has_the_area_of_the_metric(loc, scale, y):
    display = draw(y, Normal(loc, scale))
    for line, area in (
        (display.line_, auucc_loss(y, Normal(loc, scale))),
        (display.ref_line_[0], np.mean(np.abs(y - loc))),
    ):
        x, miss = line.get_xydata().T
        assert np.sum(np.diff(x) * miss[:-1]) / 100 == pytest.approx(area)


def test_models_with_the_same_predictions_share_the_reference(loc, scale, y):
    first = draw(y, Normal(loc, scale), name="a")
    same = draw(y, Normal(loc, scale**2), name="b", ax=first.ax_)
    other = draw(y, Normal(loc + 1, scale), name="c", ax=first.ax_)
    assert [len(display.ref_line_) for display in (first, same, other)] == [1, 0, 1]
    assert other.ref_line_[0].get_color() == other.line_.get_color()
    assert legend_texts(other)[3:] == ["Constant width", "Predicted bands (mean ± 1 std)"]
    assert other.ax_.get_xlim()[1] >= max(line.get_xdata().max() for line in first.ax_.get_lines())


def test_marks_lie_on_the_curve_where_they_should(loc, scale, y):
    display = draw(y, Normal(loc, scale), miss_rate=[0.05, 0.3])
    covered = np.mean(np.abs(y - loc) <= scale)
    assert_allclose(display.original_.get_offsets(), [[scale.mean(), 100 * (1 - covered)]])
    factors = np.quantile(np.abs(y - loc) / scale, [0.95, 0.7], method="inverted_cdf")
    expected = [[k * scale.mean(), 100 * np.mean(np.abs(y - loc) > k * scale * (1 + 1e-12))] for k in factors]
    assert_allclose(display.operating_points_.get_offsets(), expected)
    texts = [text.get_text() for text in display.ax_.texts]
    assert texts == [f"$k$ = {k:.2f}" for k in factors]
    assert "Miss rate at most 5 %, 30 %" in legend_texts(display)


@pytest.mark.parametrize("cost", [0.2, (2.0, 30.0), [2.0, 30.0], (1.0, 0.0)])
@pytest.mark.parametrize("y_axis", Y_AXES)
def test_no_point_lies_below_the_line_of_equal_cost(loc, scale, y, cost, y_axis):
    display = draw(y, Normal(loc, scale), cost=cost, y_axis=y_axis)
    x_cost, y_cost = cost if isinstance(cost, tuple | list) else (cost, 1 - cost)
    per_unit = y_cost / (100 if y_axis == "miss_rate" else 1)
    at = display.optimum_.get_offsets()[0]
    costs = display.line_.get_xydata() @ [x_cost, per_unit]
    assert at @ [x_cost, per_unit] == pytest.approx(costs.min())
    slope = display.isocost_lines_[0].get_slope()
    assert slope == pytest.approx(-x_cost / per_unit) if per_unit else np.isinf(slope)
    assert_array_equal(display.isocost_lines_[0].get_xy1(), at)
    display.figure_.canvas.draw()


@pytest.mark.parametrize(("near", "cost"), [(0.05, (1.0, 5.0)), (0.6, 0.6)])
def test_texts_beside_marks_do_not_overlap_nor_cross_the_left_edge(loc, scale, y, near, cost):
    display = draw(y, Normal(loc, scale), miss_rate=near, cost=cost)
    display.figure_.canvas.draw()
    point, optimum = (text.get_window_extent() for text in display.ax_.texts)
    assert not point.overlaps(optimum)
    assert optimum.x0 > display.ax_.bbox.x0


def test_texts_of_many_marks_do_not_overlap(loc, scale, y):
    options = {"miss_rate": [0.01, 0.02, 0.05, 0.1], "cost": (1.0, 10.0)}
    display = draw(y, Normal(loc, scale), **options)
    draw(y, Normal(loc, 1.1 * scale), ax=display.ax_, **options)
    boxes = [text.get_window_extent() for text in display.ax_.texts]
    assert len(boxes) == 10
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_asymmetric_bands_bounds_and_bias(loc, scale, y):
    skewed = Normal(loc, scale)
    central = draw(y, skewed, bands=0.9)
    bounds = draw(y, skewed.interval(0.9))
    assert_allclose(central.line_.get_xydata(), bounds.line_.get_xydata(), rtol=1e-6)
    assert "Predicted bands (90 % intervals)" in legend_texts(central)
    assert "Predicted bands (given bounds)" in legend_texts(bounds)
    added = draw(y, Normal(loc, scale), vary="bias", miss_rate=0.1)
    assert_allclose(added.original_.get_offsets(), draw(y, Normal(loc, scale)).original_.get_offsets())
    assert added.ax_.texts[0].get_text().startswith("$b$")


def test_very_many_rows_are_drawn_through_a_part_of_the_corners():
    rng = np.random.default_rng(0)
    y = rng.normal(size=30_000)
    display = draw(y, Normal(0 * y, np.ones(30_000)))
    assert len(display.line_.get_xdata()) == 4000
    assert len(display.curve) > 29_000
    assert_allclose(display.line_.get_xdata()[[0, -1]], display.curve.bandwidth[[0, -1]])


def test_bands_of_zero_stay_missed_or_are_replaced():
    y, forecast = [1.0, 2.0, 3.0], Normal([0.0, 0.0, 0.0], [1.0, 0.0, 1.0])
    kept = draw(y, forecast)
    assert kept.line_.get_ydata()[-1] == pytest.approx(100 / 3)
    assert "inf" in kept.line_.get_label()
    assert draw(y, forecast, zero_band="min").line_.get_ydata()[-1] == 0


def test_everything_but_the_curve_can_be_left_out(loc, scale, y):
    display = draw(y, Normal(loc, scale), ref_line=False, original=False)
    assert display.ref_line_ == []
    assert display.original_ is display.operating_points_ is display.optimum_ is None
    assert display.isocost_lines_ == []
    assert len(legend_texts(display)) == 1


def test_folds_have_marks_and_references_each(loc, scale, y):
    curves = [uncertainty_characteristics_curve(y[i::3], Normal(loc[i::3], scale[i::3])) for i in range(3)]
    display = UncertaintyCharacteristicsDisplay(curve=curves, name="model").plot(miss_rate=0.1, cost=0.5)
    assert len(display.line_) == len(display.isocost_lines_) == 3
    assert len(display.operating_points_.get_offsets()) == 3
    mean = np.mean([curve.area() for curve in curves])
    assert legend_texts(display)[0] == f"model (3 folds, mean AUUCC = {mean:.3g})"
    assert as_list(curves) is curves
