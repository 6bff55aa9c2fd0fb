import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB

from skuq.displays import ClassReliabilityDisplay, QuantileReliabilityDisplay, ScoreDecompositionDisplay
from skuq.evaluation import (
    probability_reliability_curve,
    quantile_reliability_curve,
    score_decomposition,
)

rng = np.random.default_rng(0)
X_ROWS = rng.normal(size=200)
Y = X_ROWS + rng.normal(size=200)
MODELS = {
    "right": (X_ROWS, np.ones(200)),
    "narrow": (X_ROWS, np.full(200, 0.4)),
    "blind": (0 * X_ROWS, np.full(200, 1.4)),
}
PROBA = 1 / (1 + np.exp(-X_ROWS))
EVENT = (rng.random(200) < PROBA).astype(int)
BOTH = np.column_stack([1 - PROBA, PROBA])
draw = ScoreDecompositionDisplay.from_predictions


def test_points_are_the_parts():
    display = draw(Y, MODELS, levels=5)
    for point, forecast in zip(display.points_, MODELS.values(), strict=True):
        parts = score_decomposition(Y, forecast, levels=5, n_redraws=0)
        assert_allclose(point.get_xydata(), [[parts.miscalibration, parts.discrimination]])
        (x0, x1), (y0, y1) = display.ax_.get_xlim(), display.ax_.get_ylim()
        assert x0 <= parts.miscalibration < x1
        assert y0 <= parts.discrimination < y1
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("Miscalibration", "Discrimination")


def test_lines_have_the_score_of_their_text():
    display = draw(Y, MODELS)
    uncertainty = display.decompositions["right"].uncertainty
    assert 3 <= len(display.lines_) <= 9
    for line, text in zip(display.lines_, display.text_, strict=True):
        x, y = line.get_xy1()
        assert line.get_slope() == 1
        assert x - y + uncertainty == pytest.approx(float(text.get_text()), rel=5e-3)
    assert display.ref_line_.get_xy1() == (0, 0)


def test_points_below_their_limit_are_hollow():
    display = draw(Y, MODELS)
    faces = [point.get_markerfacecolor() for point in display.points_]
    assert faces[0] == "white" != faces[1]
    assert "Miscalibration below its limit" in display.ax_.get_legend_handles_labels()[1]
    without = draw(Y, MODELS, n_redraws=0)
    assert "white" not in [point.get_markerfacecolor() for point in without.points_]


def test_one_model_and_options():
    display = draw(Y, {"one": MODELS["right"]}, score="squared_error", unit="m²", name="Wind")
    assert display.ax_.get_xlabel() == "Miscalibration (m²)"
    assert display.ax_.get_title(loc="left") == "Wind"
    flat = draw(Y, {"mean": np.zeros(200)}, score="squared_error", n_redraws=0)
    assert flat.points_[0].get_ydata() == pytest.approx([0], abs=1e-12)


@pytest.mark.parametrize(
    ("models", "error", "message"),
    [
        (MODELS["right"], TypeError, "`y_pred` must be a dictionary of names to forecasts, got tuple"),
        ({}, ValueError, "`y_pred` must hold at least one model"),
    ],
)
def test_bad_forecasts_are_named(models, error, message):
    with pytest.raises(error, match=message):
        draw(Y, models)


def test_bad_decompositions_are_named():
    build = ScoreDecompositionDisplay.from_decompositions
    one = score_decomposition(Y, MODELS["right"], n_redraws=0)
    with pytest.raises(TypeError, match="`decompositions` must be a dictionary of names to results"):
        build([one])
    with pytest.raises(
        TypeError, match="`decompositions` must hold results of score_decomposition, got tuple"
    ):
        build({"a": MODELS["right"]})
    with pytest.raises(ValueError, match="`decompositions` must be finite"):
        build({"a": replace(one, miscalibration=np.inf)})
    with pytest.raises(ValueError, match="`decompositions` must have the same rows"):
        build({"a": one, "b": replace(one, uncertainty=2 * one.uncertainty)})


def test_the_quantile_diagram_draws_the_curve_and_its_band():
    display = QuantileReliabilityDisplay.from_predictions(
        Y, MODELS["right"], level=0.9, name="model", unit="m"
    )
    curve = quantile_reliability_curve(Y, MODELS["right"], level=0.9, random_state=0)
    assert_allclose(display.line_.get_xydata(), curve[["forecast", "recalibrated"]])
    assert display.band_.get_label() == "90 % consistency band"
    top = display.band_.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(curve["consistency_high"].max())
    assert display.ax_.get_ylabel() == "Conditional 90 % quantile of the targets (m)"
    other = QuantileReliabilityDisplay.from_predictions(
        Y, MODELS["narrow"], band="confidence", band_coverage=0.8, ax=display.ax_
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


def test_class_diagrams_without_bins_of_estimators_and_folds():
    X, y = X_ROWS[:, np.newaxis], EVENT
    model = GaussianNB().fit(X, y)
    options = {"strategy": "isotonic", "of_class": 1}
    display = ClassReliabilityDisplay.from_estimator(model, X, y, band_coverage=0.8, **options)
    assert display.band_.get_label() == "80 % consistency band"
    folds = cross_validate(model, X, y, cv=3, return_estimator=True, return_indices=True)
    curves = ClassReliabilityDisplay.from_cv_results(folds, X, y, **options)
    assert len(curves.line_) == 3
    assert curves.band_ is None


def test_a_missing_matplotlib_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"ScoreDecompositionDisplay\.from_predictions needs matplotlib"):
        draw(Y, MODELS)
