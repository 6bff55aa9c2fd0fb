"""The survival curves, and calibration curves under censoring."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_validate

from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import regression_calibration_curve
from skuq.regressors import LeastSquaresRegressor
from skuq.survival import SurvivalCurveDisplay, kaplan_meier_curve
from tests.survival.worlds import waiting_times

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def world():
    return waiting_times(200, 0)


def test_the_curves_are_means_quantiles_and_kaplan_meier(world):
    y, dist = np.log(world.y), world.log_truth
    times = [0.0, 1.0, 2.0]
    display = SurvivalCurveDisplay.from_predictions(y, dist, event=world.event, times=times, name="truth")
    survival = np.stack([1 - dist.cdf(np.full(200, t)) for t in times])
    np.testing.assert_allclose(display.predicted, survival.mean(axis=1))
    np.testing.assert_allclose(display.low, np.quantile(survival, 0.05, axis=1))
    np.testing.assert_array_equal(display.observed.survival, kaplan_meier_curve(y, world.event).survival)
    np.testing.assert_array_equal(display.line_.get_ydata(), display.predicted)
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["truth", "Curves of 90 % of the rows", "95 % confidence band", "Kaplan-Meier"]


def test_weights_count_repetitions(world):
    weight = np.arange(200) % 3
    rows = np.repeat(np.arange(200), weight)
    y, dist, times = np.log(world.y), world.log_truth, [0.0, 1.0]
    weighted, repeated = (
        SurvivalCurveDisplay.from_predictions(
            y[r], dist[r], event=world.event[r], times=times, sample_weight=w
        )
        for r, w in ((slice(None), weight), (rows, np.ones(len(rows))))
    )
    for name in ("predicted", "low", "high"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name))


def test_times_begin_at_0_and_bands_can_be_left_out(world):
    display = SurvivalCurveDisplay.from_predictions(world.y, world.log_truth, event=world.event)
    assert display.times[0] == 0
    assert display.times[-1] == world.y.max()
    assert display.plot(rows_band=False).spread_ is None


@pytest.mark.parametrize("display", [SurvivalCurveDisplay, CalibrationCurveDisplay])
def test_events_follow_the_folds(world, display):
    y = np.log(world.y)
    results = cross_validate(
        LeastSquaresRegressor(), world.X, y, cv=KFold(2, shuffle=True, random_state=0),
        return_estimator=True, return_indices=True,
    )  # fmt: skip
    drawn = display.from_cv_results(results, world.X, y, event=world.event)
    rows = results["indices"]["test"][1]
    if display is SurvivalCurveDisplay:
        expected = kaplan_meier_curve(y, world.event).survival
        np.testing.assert_array_equal(drawn.observed.survival, expected)
    else:
        dist = results["estimator"][1].predict_dist(world.X[rows])
        expected = regression_calibration_curve(y[rows], dist, event=world.event[rows]).observed
        np.testing.assert_array_equal(drawn.proportions[1], expected)
    single = LeastSquaresRegressor().fit(world.X, y)
    assert display.from_estimator(single, world.X, y, event=world.event).ax_ is not drawn.ax_


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"event": np.zeros(200, dtype=bool)}, ValueError, "all 200 targets are censored"),
        ({"event": np.zeros(200)}, TypeError, "`event` must be boolean"),
        ({"times": [2.0, 1.0]}, ValueError, "`times` must be strictly increasing"),
        ({"coverage": 2.0}, ValueError, "`coverage` must lie"),
        ({"rows_band": "no"}, ValueError, "`rows_band` must be one of"),
    ],
)
def test_bad_input_is_refused(world, options, error, message):
    with pytest.raises(error, match=message):
        SurvivalCurveDisplay.from_predictions(world.y, world.log_truth, **{"event": world.event, **options})


def test_a_model_without_a_distribution_is_refused(world):
    with pytest.raises(ValueError, match="LinearRegression"):
        SurvivalCurveDisplay.from_estimator(
            LinearRegression().fit(world.X, world.y), world.X, world.y, event=world.event
        )
