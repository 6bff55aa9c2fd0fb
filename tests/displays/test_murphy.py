import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold, cross_validate

from skuq.displays import MurphyDisplay
from skuq.distributions import Normal
from skuq.metrics import murphy_curve
from skuq.prediction import predict_dist

draw = MurphyDisplay.from_predictions


@pytest.fixture
def forecasts(rows):
    loc, scale, y = rows
    return y, Normal(loc, scale), Normal(np.full(loc.size, 5.0), np.full(loc.size, 3.0))


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({}, "mean"),
        ({"functional": "quantile", "level": 0.9}, "0.9 quantile"),
        ({"functional": "probability", "threshold": 4.0}, "P(y > 4.0)"),
    ],
)
def test_the_line_is_the_exact_curve(forecasts, options, label):
    y, dist, _ = forecasts
    display = draw(y, dist, name="model", **options)
    curve = murphy_curve(y, dist, **options)
    assert_array_equal(display.line_.get_xydata(), np.column_stack([curve.thetas, curve.scores]))
    assert display.line_.get_label() == "model"
    assert display.ax_.get_xlabel() == "Threshold θ"
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
    one = draw(y, dist, reference=(5.0, 3.0), functional="quantile")
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
    again = MurphyDisplay.from_cv_results(results, X, y, reference=(5.0, 3.0))
    assert_array_equal(again.line_[1].get_ydata(), display.line_[1].get_ydata())


def test_an_estimator_has_its_name_in_the_legend(forecasts):
    y, dist, _ = forecasts
    X = dist.loc[:, np.newaxis]
    model = BayesianRidge().fit(X, y)
    display = MurphyDisplay.from_estimator(model, X, y, functional="quantile", level=0.2)
    expected = murphy_curve(y, predict_dist(model, X), functional="quantile", level=0.2)
    assert_array_equal(display.line_.get_ydata(), expected.scores)
    assert display.line_.get_label() == "BayesianRidge"


def test_styles_reach_the_artists(forecasts):
    y, dist, other = forecasts
    display = draw(
        y,
        dist,
        reference=other,
        line_kwargs={"color": "black", "lw": 3},
        fill_kwargs={"alpha": 0.5},
        ref_line_kwargs={"color": "red"},
    )
    assert display.line_.get_color() == "black"
    assert display.line_.get_linewidth() == 3
    assert display.band_.get_alpha() == 0.5
    assert display.ref_line_.get_color() == "red"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"functional": "median"}, "`functional` must be one of"),
        ({"functional": "probability"}, "`threshold` must be given"),
        ({"confidence": 95}, "`confidence`"),
        ({"reference": ([0.0, 1.0], 1.0)}, "`reference` must have 1200 rows or one row, got 2"),
    ],
)
def test_bad_input_is_named(forecasts, options, message):
    y, dist, _ = forecasts
    with pytest.raises(ValueError, match=message):
        draw(y, dist, **options)
