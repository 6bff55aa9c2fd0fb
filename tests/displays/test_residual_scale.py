import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.displays import ResidualScaleDisplay
from skuq.metrics import reliability_table

draw = ResidualScaleDisplay.from_predictions


def test_points_cone_and_line(rows):
    loc, scale, y = rows
    display = draw(y, (loc, scale), max_rows=None, n_bins=7, unit="MW", name="model")
    order = np.argsort(scale)
    assert_allclose(display.scatter_.get_offsets(), np.column_stack([scale, y - loc])[order])
    table = reliability_table(y, (loc, scale), n_bins=7)
    upper, lower = display.lines_
    assert_allclose(upper.get_xydata(), table[["rmv", "rmse"]])
    assert_allclose(lower.get_ydata(), -table["rmse"])
    vertices = display.band_.get_paths()[0].vertices
    assert_allclose(np.abs(vertices[:, 1]), vertices[:, 0])
    assert_allclose([vertices[:, 0].min(), vertices[:, 0].max()], [scale.min(), scale.max()])
    assert display.ax_.get_xlabel() == "Predicted standard deviation (MW)"
    assert display.ax_.get_title(loc="left") == "model"


def test_absolute_errors(rows):
    loc, scale, y = rows
    display = draw(y, (loc, scale), kind="absolute", max_rows=None)
    assert_allclose(display.scatter_.get_offsets()[:, 1], np.abs(y - loc)[np.argsort(scale)])
    assert len(display.lines_) == 1
    assert display.ax_.get_ylim()[0] == 0
    assert display.ax_.get_ylabel() == "Absolute error"
    assert display.band_.get_paths()[0].vertices[:, 1].min() == 0


def test_points_are_thinned_evenly_but_the_line_has_all_rows(rows):
    loc, scale, y = rows
    display = draw(y, (loc, scale), max_rows=200)
    points = display.scatter_.get_offsets()
    assert len(points) == 200
    assert_allclose(points[[0, -1], 0], [scale.min(), scale.max()])
    assert "200 of 1200 rows" in display.scatter_.get_label()
    assert_allclose(display.lines_[0].get_xydata(), draw(y, (loc, scale)).lines_[0].get_xydata())


def test_weights_count_in_the_line_and_rows_of_weight_zero_are_left_out(rows):
    loc, scale, y = (part[:90] for part in rows)
    weight = np.arange(90) % 3
    weighted = draw(y, (loc, scale), sample_weight=weight, n_bins=4)
    repeated = draw(np.repeat(y, weight), (np.repeat(loc, weight), np.repeat(scale, weight)), n_bins=4)
    assert_allclose(weighted.lines_[0].get_xydata(), repeated.lines_[0].get_xydata())
    assert len(weighted.residuals) == 60


def test_styles_pass_through(rows):
    loc, scale, y = rows
    display = draw(
        y,
        (loc, scale),
        line_kwargs={"lw": 5},
        scatter_kwargs={"marker": "x", "linewidths": 1.0, "c": "orange"},
        fill_kwargs={"color": "green"},
    )
    assert [line.get_linewidth() for line in display.lines_] == [5, 5]
    assert_array_equal(display.scatter_.get_linewidths(), [1.0])
    assert_allclose(display.band_.get_facecolor()[0, :3], [0, 128 / 255, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"kind": "squared"}, ValueError, "`kind`"),
        ({"n_bins": 0}, ValueError, "`n_bins`"),
        ({"max_rows": 1}, ValueError, "`max_rows`"),
        ({"sample_weight": [-1.0] * 1200}, ValueError, "`sample_weight`"),
        ({"scatter_kwargs": 3}, TypeError, "`scatter_kwargs`"),
    ],
)
def test_bad_options(rows, keywords, error, match):
    loc, scale, y = rows
    with pytest.raises(error, match=match):
        draw(y, (loc, scale), **keywords)
