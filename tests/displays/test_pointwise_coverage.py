import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom

from skuq.displays import PointwiseCoverageDisplay
from skuq.simulation._pointwise_coverage import PointwiseCoverage

draw = PointwiseCoverageDisplay.from_result
S, N = 40, 200


def study(coverage=0.8, truth=True, X=None):
    """A result made up: coverages around 0.8, or around 0.8 and 0.9."""
    rng = np.random.default_rng(0)
    levels = np.atleast_1d(coverage)
    prediction = np.clip(levels + 0.03 * rng.normal(size=(S, N, len(levels))), 0, 1)
    confidence = rng.uniform(size=(S, N, len(levels))) < levels
    one = np.ndim(coverage) == 0
    return PointwiseCoverage(
        coverage=coverage,
        X_test=rng.uniform(size=(N, 2)) if X is None else X,
        truth=object() if truth else None,
        prediction_coverage=prediction[..., 0] if one else prediction,
        confidence_coverage=confidence[..., 0] if one else confidence,
        prediction_width=np.ones(N),
        confidence_width=np.ones(N),
        bias=np.zeros(N),
        spread=np.ones(N),
        claimed_spread=np.ones(N),
    )


@pytest.mark.parametrize("kind", ["prediction", "confidence"])
@pytest.mark.parametrize("over", ["rows", "simulations"])
def test_the_histogram_counts_what_the_result_has(kind, over):
    result = study()
    name = ("pic" if kind == "prediction" else "cic") + ("f" if over == "rows" else "p")
    values = getattr(result, name)
    display = draw(result, kind=kind, over=over, name="method")
    shares, edges, _ = display.hist_.get_data()
    assert shares.sum() == pytest.approx(100)
    full = int(np.argmax(shares))
    inside = (values >= edges[full]) & (values < edges[full + 1])
    assert shares[full] == pytest.approx(100 * inside.mean())
    assert_array_equal(display.line_.get_xdata(), [values.mean()] * 2)
    brier = f"Brier score = {np.square(values - 0.8).mean():.3g}"
    assert (brier if over == "rows" else f"mean = {values.mean():.3g}") in display.line_.get_label()
    assert over in display.ax_.get_ylabel()
    assert f"({name.upper()})" in display.ax_.get_xlabel()
    assert (display.band_ is None) == (over == "simulations")


def test_the_label_of_a_curve_fits_beside_it():
    for kind in ("prediction", "confidence"):
        display = draw(study(), kind=kind, x=np.arange(float(N)))
        display.figure_.canvas.draw()
        label, figure = display.ax_.yaxis.label.get_window_extent(), display.figure_.bbox
        assert figure.y0 <= label.y0 < label.y1 <= figure.y1


def test_bands_are_binomial_or_the_monte_carlo_error():
    display = draw(study(), kind="confidence")
    low, high = binom.ppf([0.025, 0.975], S, 0.8) / S
    assert display.band == (low, high)
    assert ((low <= display.values) & (display.values <= high)).mean() > 0.93
    display = draw(study())
    low, high = display.band
    assert high - low == pytest.approx(2 * 1.96 * 0.03 / np.sqrt(S), rel=0.05)
    assert 0.9 < ((low <= display.values) & (display.values <= high)).mean() < 0.99


def test_a_curve_over_a_column():
    result = study()
    display = draw(result, x=1)
    assert display.hist_ is None
    order = np.argsort(result.X_test[:, 1])
    assert_array_equal(display.line_.get_xdata(), result.X_test[order, 1])
    assert_array_equal(display.line_.get_ydata(), result.picf[order])
    assert display.ax_.get_xlabel() == "column 1"
    assert_array_equal(display.ref_line_.get_ydata(), [0.8, 0.8])
    frame = pd.DataFrame(result.X_test, columns=["a", "b"])
    named = draw(study(X=frame), x="b")
    assert_array_equal(named.line_.get_xdata(), display.line_.get_xdata())
    assert named.ax_.get_xlabel() == "b"
    values = draw(result, x=np.arange(float(N)))
    assert_array_equal(values.line_.get_ydata(), result.picf)


def test_methods_on_one_axes_share_bins():
    first = draw(study(), kind="confidence")
    second = draw(study(), kind="confidence", ax=first.ax_)
    edges, other = (np.diff(each.hist_.get_data().edges) for each in (first, second))
    assert edges[0] == pytest.approx(other[0])
    assert_allclose(edges * S, np.round(edges * S))  # a bin holds whole numbers of simulations


def test_one_of_several_coverages():
    result = study([0.8, 0.9])
    display = draw(result, coverage=0.9)
    assert_array_equal(display.values, result.picf[:, 1])
    assert display.coverage == 0.9
    for options in ({}, {"coverage": 0.5}):
        message = r"`coverage` must be one of the coverages of the result, \[0.8, 0.9\]"
        with pytest.raises(ValueError, match=message):
            draw(result, **options)
    without = study(truth=False)
    with pytest.raises(ValueError, match="one target per row"):
        draw(without)
    assert draw(without, over="simulations").hist_ is not None


def test_the_width_of_bins_is_that_given_and_constant_coverage_can_be_drawn():
    result = study()
    display = draw(result, bin_width=0.01, name="a")
    assert_allclose(np.diff(display.hist_.get_data().edges), 0.01)
    assert display.line_.get_label().startswith("a (Brier score")
    result.prediction_coverage[:] = 0.8
    display = draw(result)
    display.figure_.canvas.draw()
    assert display.hist_.get_data().values.max() == pytest.approx(100)


def test_bad_options():
    for options, error, match in (
        ({"kind": "credible"}, ValueError, "`kind`"),
        ({"over": "folds"}, ValueError, "`over`"),
        ({"x": 0, "over": "simulations"}, ValueError, "`x` must be None with over='simulations'"),
        ({"x": 2}, ValueError, "`x` must be one of the 2 columns"),
        ({"x": "size"}, ValueError, "`x` must be a column of the test rows"),
        ({"x": [1.0]}, ValueError, "`x` must have 200 rows"),
        ({"bin_width": 0}, ValueError, "`bin_width`"),
        ({"ax": 3}, TypeError, "`ax` must be a matplotlib Axes"),
    ):
        with pytest.raises(error, match=match):
            draw(study(), **options)
    with pytest.raises(TypeError, match=r"`result` must be the result of .*simulate_coverage, got list"):
        draw([0.9])
