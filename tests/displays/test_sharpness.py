import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.displays import SharpnessDisplay
from skuq.displays._sharpness import round_number
from skuq.metrics import sharpness

draw = SharpnessDisplay.from_predictions


@pytest.mark.parametrize(("kind", "word"), [("std", "sharpness"), ("rms", "RMS sharpness")])
def test_the_line_is_the_metric(rows, kind, word):
    loc, scale, y = rows
    value = sharpness(y, (loc, scale), kind=kind)
    display = draw(y, (loc, scale), kind=kind, name="model", unit="MW")
    assert_array_equal(display.line_.get_xdata(), [value, value])
    assert display.line_.get_label() == f"model ({word} = {value:.3g})"
    assert display.ax_.get_xlabel() == "Predicted standard deviation (MW)"


def test_shares_add_up_and_count_rows(rows):
    loc, scale, _ = rows
    shares, edges, _ = draw(None, (loc, scale), bin_width=0.25).hist_.get_data()
    assert shares.sum() == pytest.approx(100)
    assert_allclose(np.diff(edges), 0.25)
    inside = (scale >= edges[1]) & (scale < edges[2])
    assert shares[1] == pytest.approx(100 * inside.mean())


def test_models_on_one_axes_share_bins(rows):
    loc, scale, _ = rows
    first = draw(None, (loc, scale), name="a")
    second = draw(None, (loc, 3.1 * scale), name="b", ax=first.ax_)
    width = np.diff(first.hist_.get_data().edges)[0]
    edges = second.hist_.get_data().edges
    assert_allclose(edges / width, np.round(edges / width), atol=1e-9)
    assert first.hist_.get_facecolor() != second.hist_.get_facecolor()
    assert first.ax_.get_xlim()[0] == 0
    assert first.ax_.get_xlim()[1] > edges[-1]


@pytest.mark.parametrize("scale", [0.0, 0.3, 0.7, 1.0, 1234.5])
def test_a_constant_scale_is_one_full_bin(scale):
    shares, edges, _ = draw(None, (np.zeros(50), np.full(50, scale))).hist_.get_data()
    assert shares.max() == pytest.approx(100)
    full = int(np.argmax(shares))
    assert edges[full] <= scale * (1 + 1e-12)
    assert scale * (1 - 1e-12) <= edges[full + 1]


def test_an_outlier_does_not_lead_to_countless_bins():
    scale = np.append(np.ones(99), 1e6)
    display = draw(None, (np.zeros(100), scale), bin_width=0.1)
    assert len(display.hist_.get_data().values) < 600
    assert display.hist_.get_data().values.sum() == pytest.approx(100)


def test_weights_count_repetitions(rows):
    loc, scale, _ = (part[:60] for part in rows)
    weight = np.arange(60) % 3
    weighted = draw(None, (loc, scale), sample_weight=weight)
    repeated = draw(None, (np.repeat(loc, weight), np.repeat(scale, weight)))
    assert weighted.value == pytest.approx(repeated.value)
    assert_allclose(weighted.hist_.get_data().values, repeated.hist_.get_data().values)
    assert_array_equal(weighted.hist_.get_data().edges, repeated.hist_.get_data().edges)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, 1.0), (1.0, 1.0), (0.53, 0.5), (19.9, 10.0), (2e-5, 2e-5), (499.0, 200.0)]
)
def test_round_numbers(value, expected):
    assert round_number(value) == pytest.approx(expected)


def test_styles_pass_through(rows):
    loc, scale, _ = rows
    display = draw(None, (loc, scale), hist_kwargs={"fc": "red"}, line_kwargs={"ls": ":"})
    assert_allclose(display.hist_.get_facecolor()[:3], [1, 0, 0])
    assert display.line_.get_linestyle() == ":"


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"kind": "variance"}, ValueError, "`kind`"),
        ({"bin_width": 0.0}, ValueError, "`bin_width`"),
        ({"bin_width": "auto"}, TypeError, "`bin_width`"),
        ({"hist_kwargs": 3}, TypeError, "`hist_kwargs`"),
    ],
)
def test_bad_options(rows, keywords, error, match):
    loc, scale, _ = rows
    with pytest.raises(error, match=match):
        draw(None, (loc, scale), **keywords)
