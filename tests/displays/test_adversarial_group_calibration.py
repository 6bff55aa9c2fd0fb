import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skuq.displays import AdversarialGroupCalibrationDisplay
from skuq.displays._adversarial_group_calibration import perfect_curve
from skuq.metrics import adversarial_group_calibration_curve, mean_absolute_calibration_error

draw = AdversarialGroupCalibrationDisplay.from_predictions


def test_the_curve_is_that_of_the_metric(rows):
    loc, scale, y = rows
    options = {"fractions": [0.1, 0.5, 1.0], "n_trials": 6, "random_state": 0}
    curve = adversarial_group_calibration_curve(y, (loc, scale), error="rmsce", **options)
    fractions, worst = curve.fractions, curve.worst
    display = draw(y, (loc, scale), error="rmsce", options=options, name="model")
    assert_array_equal(display.line_.get_xdata(), 100 * fractions)
    assert_allclose(display.line_.get_ydata(), 100 * worst.mean(axis=1))
    assert "Root mean squared" in display.ax_.get_ylabel()
    error = worst.std(axis=1, ddof=1) / np.sqrt(6)
    vertices = display.band_.get_paths()[0].vertices
    there = vertices[np.isclose(vertices[:, 0], 10.0), 1]
    assert_allclose(
        [there.min(), there.max()], 100 * worst.mean(axis=1)[0] + 200 * error[0] * np.array([-1, 1])
    )


def test_the_right_end_is_the_average_calibration(rows):
    loc, scale, y = rows
    display = draw(y, (loc, scale / 2))
    assert display.line_.get_ydata()[-1] == pytest.approx(
        100 * mean_absolute_calibration_error(y, (loc, scale / 2), levels=99)
    )


def test_what_the_average_hides_rises_above_the_reference(rows):
    loc, scale, y = rows
    calibrated = draw(y, (loc, scale))
    assert calibrated.worst.mean() < 1.3 * calibrated.reference.mean()
    hidden = draw(np.random.default_rng(0).permutation(y - loc), (0 * y + np.where(y > 5, 3, -3), 3 + scale))
    assert hidden.worst.mean() > 1.3 * hidden.reference.mean()


def test_the_reference_depends_on_the_number_of_rows_alone(rows):
    loc, scale, y = rows
    one, other = draw(y, (loc, scale)), draw(9 - 7 * y, (0 * loc, 1 + scale))
    assert_array_equal(one.reference, other.reference)
    few = perfect_curve(100, {"error": "mace"})
    assert (few > perfect_curve(5000, {"error": "mace"})).all()
    weighted = draw(y, (loc, scale), sample_weight=np.full(1200, 2.0))
    assert_array_equal(weighted.reference, perfect_curve(2400, {"error": "mace"}))


def test_the_reference_is_drawn_once(rows):
    loc, scale, y = rows
    first = draw(y, (loc, scale), name="a")
    second = draw(y, (loc, 2 * scale), name="b", ax=first.ax_)
    assert first.ref_line_ is not None
    assert second.ref_line_ is None
    assert first.ax_.get_ylim()[1] > second.line_.get_ydata().max()
    assert draw(y, (loc, scale), ref_line=False).ref_line_ is None


def test_band_and_styles(rows):
    loc, scale, y = rows
    assert draw(y, (loc, scale), band=False).band_ is None
    assert draw(y, (loc, scale), options={"n_trials": 1}).band_ is None
    display = draw(
        y, (loc, scale), line_kwargs={"marker": "s"}, ref_line_kwargs={"c": "red"}, fill_kwargs={"alpha": 0.9}
    )
    assert display.line_.get_marker() == "s"
    assert display.ref_line_.get_color() == "red"
    assert display.band_.get_alpha() == 0.9


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"error": "ece"}, ValueError, "`error`"),
        ({"options": {"fractions": [2.0]}}, ValueError, "`fractions`"),
        ({"options": {"groups": 3}}, TypeError, "groups"),
        ({"sample_weight": [0.1] * 1200}, ValueError, "repetitions"),
        ({"fill_kwargs": 3}, TypeError, "`fill_kwargs`"),
    ],
)
def test_bad_options(rows, keywords, error, match):
    loc, scale, y = rows
    with pytest.raises(error, match=match):
        draw(y, (loc, scale), **keywords)
