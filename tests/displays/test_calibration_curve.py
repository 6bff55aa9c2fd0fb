import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.linear_model import BayesianRidge

from skuq.displays import CalibrationCurveDisplay
from skuq.displays._calibration_curve import sampling_band
from skuq.distributions import Normal


def legend_texts(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_the_curve_is_that_of_the_metric(rows):
    loc, scale, y = rows
    display = CalibrationCurveDisplay.from_predictions(
        y, Normal(loc, scale), levels=[0.1, 0.5, 0.9], name="model"
    )
    expected = [np.mean(y <= loc + scale * stats.norm.ppf(level)) for level in (0.1, 0.5, 0.9)]
    assert_allclose(display.proportions, expected)
    assert_allclose(display.line_.get_xdata(), [0, 10, 50, 90, 100])
    assert_allclose(display.line_.get_ydata()[1:-1], 100 * np.array(expected))
    assert display.line_.get_label() == "model"
    assert display.figure_ is display.ax_.figure


def test_before_and_after_share_axes_diagonal_and_band(rows):
    loc, scale, y = rows
    before = CalibrationCurveDisplay.from_predictions(y, (loc, scale / 2), name="before")
    after = CalibrationCurveDisplay.from_predictions(y, (loc, scale), name="after", ax=before.ax_)
    assert after.ax_ is before.ax_
    assert before.ref_line_ is not None
    assert before.band_ is not None
    assert after.ref_line_ is None
    assert after.band_ is None
    assert before.line_.get_color() != after.line_.get_color()
    assert legend_texts(after) == [
        "before",
        "after",
        "90 % sampling band (n = 1200)",
        "Perfectly calibrated",
    ]


def test_a_calibrated_model_lies_in_the_band_and_a_narrow_one_does_not(rows):
    loc, scale, y = rows
    for factor, inside in ((1.0, True), (0.6, False)):
        display = CalibrationCurveDisplay.from_predictions(y, (loc, factor * scale))
        lower, upper = sampling_band(display.levels, display.n_rows, "simultaneous", 0.9)
        assert bool(np.all((lower <= display.proportions) & (display.proportions <= upper))) is inside


@pytest.mark.parametrize(("band", "whole"), [("simultaneous", True), ("pointwise", False)])
def test_bands_hold_with_the_probability_they_state(band, whole):
    rng = np.random.default_rng(0)
    levels = np.arange(1, 100) / 100
    lower, upper = sampling_band(levels, 200, band, 0.9)
    hits = []
    for _ in range(400):
        observed = (rng.uniform(size=(200, 1)) <= levels).mean(axis=0)
        inside = (lower <= observed) & (observed <= upper)
        hits.append(inside.all() if whole else inside.mean())
    # on a grid of levels, and for counts, both are a little conservative
    assert 0.88 <= np.mean(hits) <= 0.96


def test_intervals_instead_of_quantiles(rows):
    loc, scale, y = rows
    display = CalibrationCurveDisplay.from_predictions(y, (loc, scale / 2), kind="interval", levels=[0.9])
    assert_allclose(display.proportions, [np.mean(np.abs(y - loc) <= stats.norm.ppf(0.95) * scale / 2)])
    assert "coverage" in display.ax_.get_xlabel()


def test_weights_count_repetitions(rows):
    loc, scale, y = (part[:50] for part in rows)
    weight = np.arange(50) % 3
    weighted = CalibrationCurveDisplay.from_predictions(y, (loc, scale), sample_weight=weight)
    repeated = CalibrationCurveDisplay.from_predictions(
        np.repeat(y, weight), (np.repeat(loc, weight), np.repeat(scale, weight))
    )
    assert_allclose(weighted.proportions, repeated.proportions)
    assert weighted.n_rows == repeated.n_rows


def test_from_estimator(rows):
    loc, _, y = rows
    model = BayesianRidge().fit(loc[:, np.newaxis], y)
    display = CalibrationCurveDisplay.from_estimator(model, loc[:, np.newaxis], y, kind="interval")
    assert display.name == "BayesianRidge"
    assert display.line_.get_label() == "BayesianRidge"
    named = CalibrationCurveDisplay.from_estimator(
        model, loc[:, np.newaxis], y, name="linear", ax=display.ax_
    )
    assert named.line_.get_label() == "linear"


def test_styles_pass_through_whatever_the_alias(rows):
    loc, scale, y = rows
    display = CalibrationCurveDisplay.from_predictions(
        y,
        (loc, scale),
        line_kwargs={"lw": 5, "c": "green"},
        ref_line_kwargs={"ls": ":"},
        fill_kwargs={"facecolor": "yellow"},
    )
    assert display.line_.get_linewidth() == 5
    assert display.line_.get_color() == "green"
    assert display.ref_line_.get_linestyle() == ":"
    assert_allclose(display.band_.get_facecolor()[0, :3], [1, 1, 0])


def test_band_and_diagonal_can_be_left_out(rows):
    loc, scale, y = rows
    display = CalibrationCurveDisplay.from_predictions(y, (loc, scale), band=None, ref_line=False)
    assert display.band_ is None
    assert display.ref_line_ is None
    assert display.ax_.get_legend() is None


def test_plot_again_elsewhere(rows):
    loc, scale, y = rows
    display = CalibrationCurveDisplay.from_predictions(y, (loc, scale))
    first = display.ax_
    assert display.plot(name="again") is display
    assert display.ax_ is not first


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"kind": "levels"}, "`kind`"),
        ({"band": "wide"}, "`band`"),
        ({"band_coverage": 1.0}, "`band_coverage`"),
        ({"levels": [-0.1, 0.5]}, "`levels`"),
        ({"sample_weight": [0.1] * 1200}, "repetitions"),
    ],
)
def test_bad_options(rows, keywords, match):
    loc, scale, y = rows
    with pytest.raises(ValueError, match=match):
        CalibrationCurveDisplay.from_predictions(y, (loc, scale), **keywords)


def test_bad_predictions(rows):
    loc, scale, y = rows
    with pytest.raises(TypeError, match=r"\(loc, scale\)"):
        CalibrationCurveDisplay.from_predictions(y, np.column_stack([loc, scale]))
    with pytest.raises(ValueError, match="rows"):
        CalibrationCurveDisplay.from_predictions(y[:-1], (loc, scale))
    with pytest.raises(TypeError, match="`line_kwargs` must be a dictionary"):
        CalibrationCurveDisplay.from_predictions(y, (loc, scale), line_kwargs="red")
