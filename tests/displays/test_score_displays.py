"""Displays of scores: Murphy curves, decompositions and their reliability curves."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold, cross_validate
from sklearn.naive_bayes import GaussianNB

from skuq.displays import (
    ClassReliabilityDisplay,
    MurphyDisplay,
    QuantileReliabilityDisplay,
    ScoreDecompositionDisplay,
)
from skuq.distributions import Normal
from skuq.evaluation import (
    probability_reliability_curve,
    quantile_reliability_curve,
    score_decomposition,
)
from skuq.metrics import murphy_curve
from skuq.prediction import predict_dist

# -------------------------------------------------------------------------------------------------- murphy


draw = MurphyDisplay.from_predictions


@pytest.fixture
def forecasts(loc, scale, y):
    return y, Normal(loc, scale), Normal(np.full(loc.size, 5.0), np.full(loc.size, 3.0))


def test_the_line_is_the_exact_curve(forecasts):
    y, dist, _ = forecasts
    for options, label in (
        ({}, "mean"),
        ({"functional": "quantile", "levels": 0.9}, "0.9 quantile"),
        ({"functional": "probability", "threshold": 4.0}, "P(y > 4.0)"),
    ):
        display = draw(y, dist, name="model", **options)
        curve = murphy_curve(y, dist, **options)
        assert_array_equal(display.line_.get_xydata(), np.column_stack([curve.theta, curve.scores]))
        assert display.line_.get_label() == "model"
        assert display.ax_.get_xlabel() == "Threshold θ (units of y)"
        assert display.ax_.get_ylabel() == f"Mean elementary score, {label}"
        assert display.band_ is None
        assert display.ref_line_ is None


def test_a_reference_gives_the_difference_and_its_band(forecasts):
    y, dist, other = forecasts
    display = draw(y, dist, reference=other, confidence=0.9, functional="quantile")
    curve = murphy_curve(y, dist, reference=other, functional="quantile")
    assert_array_equal(display.line_.get_ydata(), curve.scores)
    top = (curve.scores + 1.6448536269514722 * curve.standard_errors).max()
    assert_allclose(display.band_.get_paths()[0].vertices[:, 1].max(), top, rtol=1e-9)
    assert list(display.ref_line_.get_ydata()) == [0.0, 0.0]
    assert display.ax_.get_ylabel() == "Difference of scores, 0.5 quantile"
    one = draw(y, dist, reference=Normal(5.0, 3.0), functional="quantile")
    assert_array_equal(one.line_.get_ydata(), curve.scores)


def test_folds_use_their_rows_of_the_reference(forecasts):
    y, dist, other = forecasts
    X = dist.loc[:, np.newaxis]
    results = cross_validate(BayesianRidge(), X, y, cv=KFold(2), return_estimator=True, return_indices=True)
    display = MurphyDisplay.from_cv_results(results, X, y, reference=other)
    rows = results["indices"]["test"][1]
    forecast = predict_dist(results["estimator"][1], X[rows])
    expected = murphy_curve(y[rows], forecast, reference=other[rows])
    assert_array_equal(display.line_[1].get_ydata(), expected.scores)
    assert display.band_ is None
    again = MurphyDisplay.from_cv_results(results, X, y, reference=Normal(5.0, 3.0))
    assert_array_equal(again.line_[1].get_ydata(), display.line_[1].get_ydata())


# ------------------------------------------------------------------------------------- score decomposition


rng = np.random.default_rng(0)
X_ROWS = rng.normal(size=200)
Y = X_ROWS + rng.normal(size=200)
MODELS = {
    "right": Normal(X_ROWS, np.ones(200)),
    "narrow": Normal(X_ROWS, np.full(200, 0.4)),
    "blind": Normal(0 * X_ROWS, np.full(200, 1.4)),
}
PROBA = 1 / (1 + np.exp(-X_ROWS))
EVENT = (rng.random(200) < PROBA).astype(int)
BOTH = np.column_stack([1 - PROBA, PROBA])
draw_parts = ScoreDecompositionDisplay.from_predictions


def test_points_are_the_parts():
    display = draw_parts(Y, MODELS, levels=5)
    for point, forecast in zip(display.points_, MODELS.values(), strict=True):
        parts = score_decomposition(Y, forecast, levels=5, n_draws=0)
        assert_allclose(point.get_xydata(), [[parts.miscalibration, parts.discrimination]])
        (x0, x1), (y0, y1) = display.ax_.get_xlim(), display.ax_.get_ylim()
        assert x0 <= parts.miscalibration < x1
        assert y0 <= parts.discrimination < y1
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("Miscalibration", "Discrimination")


def test_lines_have_the_score_of_their_text_and_points_below_their_limit_are_hollow():
    display = draw_parts(Y, MODELS)
    uncertainty = display.decompositions["right"].uncertainty
    assert 3 <= len(display.lines_) <= 9
    for line, text in zip(display.lines_, display.text_, strict=True):
        x, y = line.get_xy1()
        assert line.get_slope() == 1
        assert x - y + uncertainty == pytest.approx(float(text.get_text()), rel=5e-3)
    assert display.ref_line_.get_xy1() == (0, 0)
    faces = [point.get_markerfacecolor() for point in display.points_]
    assert to_rgb(faces[0]) == to_rgb("white") != to_rgb(faces[1])
    assert "Miscalibration below its limit" in display.ax_.get_legend_handles_labels()[1]
    without = draw_parts(Y, MODELS, n_draws=0)
    assert "white" not in [point.get_markerfacecolor() for point in without.points_]


def test_one_model_and_options():
    display = draw_parts(Y, {"one": MODELS["right"]}, score="squared_error", unit="m²", name="Wind")
    assert display.ax_.get_xlabel() == "Miscalibration (m²)"
    assert display.ax_.get_title(loc="left") == "Wind"
    flat = draw_parts(Y, {"mean": np.zeros(200)}, score="squared_error", n_draws=0)
    assert flat.points_[0].get_ydata() == pytest.approx([0], abs=1e-12)


def test_bad_forecasts_and_decompositions_are_named():
    with pytest.raises(TypeError, match="`y_pred` must be a dictionary of names to forecasts, got Normal"):
        draw_parts(Y, MODELS["right"])
    with pytest.raises(ValueError, match="`y_pred` must hold at least one model"):
        draw_parts(Y, {})
    one = score_decomposition(Y, MODELS["right"], n_draws=0)
    other = replace(one, uncertainty=2 * one.uncertainty)
    for decompositions, error, message in (
        ([one], TypeError, "must be a dictionary of names to results"),
        ({"a": MODELS["right"]}, TypeError, "must hold results of score_decomposition, got Normal"),
        ({"a": replace(one, miscalibration=np.inf)}, ValueError, "must be finite"),
        ({"a": one, "b": other}, ValueError, "must have the same rows"),
    ):
        with pytest.raises(error, match=f"`decompositions` {message}"):
            ScoreDecompositionDisplay.from_decompositions(decompositions)


def test_the_quantile_diagram_draws_the_curve_and_its_band():
    display = QuantileReliabilityDisplay.from_predictions(
        Y, MODELS["right"], levels=0.9, name="model", unit="m"
    )
    curve = quantile_reliability_curve(Y, MODELS["right"], levels=0.9, random_state=0)
    assert_allclose(display.line_.get_xydata(), curve[["forecast", "recalibrated"]])
    assert display.band_.get_label() == "90 % consistency band"
    top = display.band_.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(curve["consistency_high"].max())
    assert display.ax_.get_ylabel() == "Conditional 90 % quantile of the targets (m)"
    other = QuantileReliabilityDisplay.from_predictions(
        Y, MODELS["narrow"], band="confidence", confidence=0.8, ax=display.ax_
    )
    assert other.band_.get_label() == "80 % confidence band"
    assert other.ref_line_ is None
    assert QuantileReliabilityDisplay.from_predictions(Y, MODELS["right"], band=None).band_ is None


def test_the_class_diagram_without_bins():
    options = {"of_class": 1, "strategy": "isotonic"}
    display = ClassReliabilityDisplay.from_predictions(EVENT, BOTH, **options)
    curve = probability_reliability_curve(EVENT, BOTH, of_class=1, random_state=0)
    assert_allclose(display.line_.get_xydata(), curve[["forecast", "recalibrated"]])
    assert display.band_.get_label() == "90 % consistency band"
    assert display.intervals_ is None
    confidence = ClassReliabilityDisplay.from_predictions(EVENT, BOTH, band="confidence", **options)
    assert confidence.band_.get_label() == "90 % confidence band"
    assert ClassReliabilityDisplay.from_predictions(EVENT, BOTH).band_ is None
    X, model = X_ROWS[:, np.newaxis], GaussianNB()
    display = ClassReliabilityDisplay.from_estimator(model.fit(X, EVENT), X, EVENT, confidence=0.8, **options)
    assert display.band_.get_label() == "80 % consistency band"
    folds = cross_validate(model, X, EVENT, cv=3, return_estimator=True, return_indices=True)
    curves = ClassReliabilityDisplay.from_cv_results(folds, X, EVENT, **options)
    assert len(curves.line_) == 3
    assert curves.band_ is None
