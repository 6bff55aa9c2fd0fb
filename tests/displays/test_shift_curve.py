import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge

from skuq.displays import ShiftCurveDisplay
from skuq.evaluation import Tilt, shift_curve

SEVERITIES = [0.0, 1.0, 2.0]
SCORES = {
    "picp": np.array([[0.9, 0.92], [0.8, 0.9], [0.5, 0.7]]),
    "mpiw": np.ones((3, 2)),
    "effective_rows": np.array([[100.0, 100.0], [60.0, 50.0], [20.0, 30.0]]),
}
draw = ShiftCurveDisplay.from_scores


def test_the_line_is_the_mean_of_the_folds_and_the_band_their_deviation():
    display = draw(SCORES, SEVERITIES, scorer="picp", name="model")
    assert_allclose(display.line_.get_xydata(), [[0, 0.91], [1, 0.85], [2, 0.6]])
    top = display.band_.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(0.92)
    assert display.line_.get_label() == "model"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("Severity of the shift", "picp")
    assert draw({"picp": SCORES["picp"][:, :1]}, SEVERITIES).band_ is None


def test_points_of_few_effective_rows_are_hollow():
    display = draw(SCORES, SEVERITIES, scorer="picp")
    assert_allclose(display.hollow_.get_xydata(), [[2, 0.6]])
    assert display.hollow_.get_label() == "fewer than 50 effective rows"
    other = draw(SCORES, SEVERITIES, scorer="mpiw", ax=display.ax_)
    assert other.hollow_.get_label().startswith("_")
    assert draw({"picp": SCORES["picp"]}, SEVERITIES).hollow_ is None


def test_a_value_to_compare_with():
    display = draw(SCORES, SEVERITIES, scorer="picp", ref_line=0.9, score_name="Coverage")
    assert list(display.ref_line_.get_ydata()) == [0.9, 0.9]
    assert display.ax_.get_ylabel() == "Coverage"
    assert draw(SCORES, SEVERITIES, scorer="picp").ref_line_ is None


def test_it_draws_what_the_function_returns():
    X, y = load_diabetes(return_X_y=True)
    scores = shift_curve(BayesianRidge(), X, y, shift=Tilt(2), severities=[0, 9], scoring="picp", cv=3)
    assert_allclose(draw(scores, [0, 9]).line_.get_ydata(), scores["picp"].mean(axis=1))


@pytest.mark.parametrize(
    ("scores", "options", "error", "message"),
    [
        (SCORES, {}, ValueError, "`scorer` must be one of 'picp', 'mpiw', got None"),
        (SCORES, {"scorer": "r2"}, ValueError, "`scorer` must be one of 'picp', 'mpiw', got 'r2'"),
        ([1.0], {}, TypeError, "`scores` must be the dictionary from shift_curve, got list"),
        ({"picp": np.ones(3)}, {}, ValueError, r"`scores` must have shape \(n_severities, n_folds\)"),
        ({"picp": np.ones((2, 3))}, {}, ValueError, "`severities` must have 2 rows"),
        ({"picp": np.ones((3, 3))}, {"ref_line": "a"}, TypeError, "`ref_line` must be a number"),
    ],
)
def test_bad_input_is_named(scores, options, error, message):
    with pytest.raises(error, match=message):
        draw(scores, SEVERITIES, **options)


def test_a_missing_matplotlib_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"ShiftCurveDisplay\.from_scores needs matplotlib"):
        draw(SCORES, SEVERITIES, scorer="picp")
