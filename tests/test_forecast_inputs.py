"""A forecast means the same in every function, and the lines of an error make a distribution of it."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import skuq
from skuq import evaluation, metrics, recalibration, report, survival
from skuq.distributions import Distribution, Empirical, Normal, Quantiles
from skuq.monitoring import CoverageMonitor, MetricAccumulator, PITMonitor
from skuq.recalibration import StdScalingRecalibrator
from tests.metrics.options import forecast_specs, required

pytestmark = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")

N = 80
RNG = np.random.default_rng(0)
MEAN, STD = 10 + RNG.normal(size=N), np.exp(0.3 * RNG.normal(size=N))
Y = MEAN + STD * RNG.normal(size=N)
DIST = Normal(MEAN, STD)
BOUNDS, MOMENTS = DIST.interval(0.9), np.column_stack([MEAN, STD])
SAMPLES, QUANTILES = DIST.sample(60, random_state=0), DIST.quantile([0.1, 0.5, 0.9])
FEW = {"n_resamples": 2, "random_state": 0}
CLASSES = {"Quantiles": Quantiles, "Normal": Normal, "Empirical": Empirical}

# Array-likes of shape (n, 2) whose first column is at most the second.
TWO_COLUMNS = {
    "array": BOUNDS,
    "rounded": np.round(BOUNDS),
    "integers": np.round(BOUNDS).astype(int),
    "frame": pd.DataFrame(BOUNDS, columns=["low", "high"], index=range(7, N + 7)),
    "objects": BOUNDS.astype(object),
    "list": BOUNDS.tolist(),
    "masked": np.ma.array(BOUNDS, mask=False),
    "Fortran": np.asfortranarray(BOUNDS),
}
# What is never bounds, with the class of the first line that the error shows.
OTHERS = {
    "tuple of moments": ((MEAN, STD), "Normal"),
    "tuple with a number": ((MEAN, 1.0), "Normal"),
    "tuple of numbers": ((10.0, 1.0), "Normal"),
    "tuple of lists": ((MEAN.tolist(), STD.tolist()), "Normal"),
    "tuple of series": ((pd.Series(MEAN), pd.Series(STD)), "Normal"),
    "tuple of bounds": ((BOUNDS[:, 0], BOUNDS[:, 1]), "Quantiles"),
    "tuple of rows": (tuple(map(tuple, BOUNDS)), "Quantiles"),
    "tuple of columns": (tuple(SAMPLES.T), "Empirical"),
    "tuple of texts": (("mean", "std"), None),
    "tuple of an array and bounds": ((MEAN, BOUNDS), None),
    "empty tuple": ((), None),
    "bounds in two rows": (BOUNDS.T, "Quantiles"),
    "frame of bounds in two rows": (pd.DataFrame(BOUNDS.T), "Quantiles"),
    "frame of samples in rows": (pd.DataFrame(SAMPLES.T), "Empirical"),
    "moments in two rows": (MOMENTS.T, "Normal"),
    "list of columns": ([BOUNDS[:, 0], BOUNDS[:, 1]], "Quantiles"),
    "quantiles": (QUANTILES, "Quantiles"),
    "frame of quantiles": (pd.DataFrame(QUANTILES), "Quantiles"),
    "samples": (SAMPLES, "Empirical"),
    "frame of samples": (pd.DataFrame(SAMPLES), "Empirical"),
    "list of samples": (SAMPLES.tolist(), "Empirical"),
    "masked samples": (np.ma.array(SAMPLES, mask=False), "Empirical"),
    "masked entries": (np.ma.array(SAMPLES, mask=SAMPLES > 11), None),
    "NaN": (np.where(SAMPLES > 11, np.nan, SAMPLES), None),
    "points": (MEAN, None),
    "one column": (MEAN[:, np.newaxis], None),
    "datetimes": (np.full((N, 3), np.datetime64("2024-01-01")), None),
    "frame of datetimes": (pd.DataFrame({name: pd.date_range("2024", periods=N) for name in "abc"}), None),
    "three axes": (SAMPLES[:, :, np.newaxis], None),
    "dictionary": ({"mean": MEAN, "std": STD}, None),
    "number": (3.0, None),
    "None": (None, None),
    "class": (Normal, None),
}


def functions_of_forecasts():
    """Yield the name, the function of a forecast, and whether it accepts bounds."""
    for name, spec in forecast_specs().items():
        yield name, partial(spec.function, Y, **required(spec)), spec.needs == "interval"
        options = {"options": {name: required(spec)} if required(spec) else None}
        if not spec.random and spec.abbreviation in ("crps", "picp"):
            yield (
                f"bootstrap of {name}",
                partial(evaluation.bootstrap_interval, Y, metric=name, **FEW),
                (spec.needs == "interval"),
            )
            yield f"accumulator of {name}", MetricAccumulator(name, curves=(), **options).update, None
    x = MEAN[:, np.newaxis]
    yield "interval_score of one coverage", partial(metrics.interval_score_loss, Y), True
    yield "conditional_coverage", partial(metrics.conditional_coverage, Y), True
    yield "conditional_coverage_error", lambda y_pred: metrics.conditional_coverage_error(Y, y_pred, x), True
    yield "worst_slab_coverage", lambda y_pred: metrics.worst_slab_coverage(Y, y_pred, x), True
    yield "characteristics", partial(metrics.uncertainty_characteristics_curve, Y), True
    yield "CoverageMonitor", lambda y_pred: CoverageMonitor().update(Y, y_pred), True
    yield "uncertainty_report", partial(evaluation.uncertainty_report, Y, n_resamples=0, n_draws=0), True
    yield "PITMonitor", lambda y_pred: PITMonitor().update(Y, y_pred), False
    yield "curve", partial(metrics.regression_calibration_curve, Y), False
    yield "murphy_curve", partial(metrics.murphy_curve, Y), False
    yield "reliability_table", partial(metrics.reliability_table, Y), False
    yield "groups", partial(metrics.adversarial_group_calibration_curve, Y, random_state=0), False
    yield "survival_report", partial(survival.survival_report, Y, n_resamples=0), False
    yield "expected_loss", evaluation.expected_loss, False
    yield "optimal_action", evaluation.optimal_action, False
    yield "economic value", partial(evaluation.relative_economic_value, Y, threshold=10.0), False
    for name in recalibration.__all__:
        if name != "BaseRecalibrator":
            given = {"OperatingPointRecalibrator": {"miss_rate": 0.1}, "SupportMap": {"support": (-99, 99)}}
            fit = getattr(recalibration, name)(**given.get(name, {})).fit
            yield f"{name}.fit", lambda dist, fit=fit: fit(dist, Y), False
    fitted = StdScalingRecalibrator().fit(DIST, Y)
    yield from ((name, getattr(fitted, name), False) for name in ("transform", "predict", "predict_dist"))
    online = recalibration.OnlineRecalibrator().fit(DIST, Y)
    yield "OnlineRecalibrator.partial_fit", lambda dist: online.partial_fit(dist, Y), False


FUNCTIONS = {}
for each, function, takes in functions_of_forecasts():
    if takes is None:
        FUNCTIONS[each] = partial(function, Y), each.endswith("picp")
    else:
        FUNCTIONS[each] = function, takes


def lines_of(error, forecast):
    """Return the distributions that the lines of an error make of the variables of the caller."""
    lines = [line.strip() for line in str(error).splitlines() if line.startswith("    ")]
    variables = {"np": np, "y_pred": forecast, "dist": forecast, **CLASSES}
    return [eval(line, variables) for line in lines]


def check_refused(function, forecast, first):
    with pytest.raises(TypeError, match=r"`(y_pred|dist)` must be a Distribution") as caught:
        function(forecast)
    made = lines_of(caught.value, forecast)
    assert all(isinstance(dist, Distribution) for dist in made)
    assert [type(dist).__name__ for dist in made][:1] == ([] if first is None else [first])
    return made


def test_bounds_are_accepted_by_functions_of_intervals_only(subtests):
    for name, (function, takes_bounds) in FUNCTIONS.items():
        with subtests.test(name):
            if takes_bounds:
                function(BOUNDS)
            else:
                check_refused(function, BOUNDS, "Quantiles")


def test_all_array_likes_of_two_columns_are_the_same_bounds(subtests):
    covered = metrics.prediction_interval_coverage
    for name, bounds in TWO_COLUMNS.items():
        with subtests.test(name):
            assert covered(Y, bounds) == covered(Y, np.asarray(bounds, dtype=float))
            check_refused(partial(metrics.crps_loss, Y), bounds, "Quantiles")
            check_refused(FUNCTIONS["StdScalingRecalibrator.fit"][0], bounds, "Quantiles")


def test_everything_else_raises_the_one_error(subtests):
    for name, (function, _) in FUNCTIONS.items():
        without_targets = name in ("expected_loss", "optimal_action", "transform", "predict", "predict_dist")
        with subtests.test(name):
            for kind, (forecast, first) in OTHERS.items():
                if name.endswith("_report") and kind == "dictionary":
                    continue  # A mapping contains the forecasts of several models.
                if without_targets and ("rows" in kind or "list of columns" in kind):
                    continue  # Only the targets show how many rows there are.
                check_refused(function, forecast, first)


def test_the_second_line_of_moments_and_of_bounds():
    """Both lines fit positive bounds. Without targets, columns in order are more likely bounds."""
    made = check_refused(partial(metrics.crps_loss, Y), BOUNDS, "Quantiles")
    assert [type(dist) for dist in made] == [Quantiles, Normal]
    np.testing.assert_array_equal(made[0].interval(0.9), BOUNDS)
    (dist,) = check_refused(partial(metrics.crps_loss, Y), MOMENTS, "Normal")
    np.testing.assert_array_equal(np.asarray(dist), MOMENTS)
    frame = pd.DataFrame(MOMENTS, columns=["mean", "std"])
    (dist,) = check_refused(partial(metrics.crps_loss, Y), frame, "Normal")
    np.testing.assert_array_equal(np.asarray(dist), MOMENTS)
    small = np.column_stack([0 * MEAN, STD])
    made = check_refused(partial(metrics.crps_loss, Y), small, "Normal")  # The columns do not enclose y.
    assert [type(dist) for dist in made] == [Normal, Quantiles]
    check_refused(StdScalingRecalibrator().fit(DIST, Y).transform, small, "Quantiles")
    assert check_refused(partial(metrics.crps_loss, Y), np.column_stack([STD, -STD]), None) == []


class ColumnFrame:
    """A frame whose iteration gives its columns, as in polars."""

    def __init__(self, values):
        self.values, self.shape, self.columns = values, values.shape, list(map(str, range(values.shape[1])))

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __iter__(self):
        return iter(self.values.T)

    def __len__(self):
        return len(self.values)


def test_the_lines_for_a_frame_that_iterates_over_columns():
    for table, first in ((SAMPLES, "Empirical"), (BOUNDS, "Quantiles"), (MOMENTS, "Normal")):
        expected = check_refused(partial(metrics.crps_loss, Y), table, first)
        for frame in (ColumnFrame(table), ColumnFrame(table.T)):
            found = check_refused(partial(metrics.crps_loss, Y), frame, first)
            assert [metrics.crps_loss(Y, one) for one in found] == [
                metrics.crps_loss(Y, one) for one in expected
            ]


def test_as_many_targets_as_the_tuple_has_entries():
    """The entries of a tuple are columns, also if their number is the number of targets."""
    for forecast in ((MEAN[:2], STD[:2]), (10.0, 1.0)):
        made = check_refused(partial(metrics.crps_loss, Y[:2]), forecast, "Normal")
        np.testing.assert_array_equal(made[0].mean(), np.broadcast_to(forecast[0], np.shape(made[0].mean())))


def test_the_reason_why_numbers_cannot_be_read_is_in_the_error(subtests):
    broken = BOUNDS.copy()
    broken[5, 1] = np.nan
    infinite = (np.where(np.arange(N) == 3, np.inf, MEAN), STD)
    masked = np.ma.masked_invalid(broken)
    for forecast, reason in (
        (broken, "`y_pred` must be finite, got nan at row 5, column 1"),
        (pd.DataFrame(broken), "`y_pred` must be finite, got nan at row 5, column 1"),
        (masked, "`y_pred` must not have masked entries, got 1, first at row 5, column 1"),
        ((MEAN, broken[:, 1]), "`y_pred[1]` must be finite, got nan at row 5"),
        (infinite, "`y_pred[0]` must be finite, got inf at row 3"),
        (OTHERS["datetimes"][0], "`y_pred` must hold real numbers, got datetime64"),
    ):
        with subtests.test(reason), pytest.raises(TypeError) as caught:
            metrics.crps_loss(Y, forecast)
        assert f"{reason}" in str(caught.value)
    with pytest.raises(TypeError, match="`y_true` must not have masked entries, got 1, first at row 5"):
        metrics.crps_loss(masked[:, 1], BOUNDS)


def test_swapped_arguments_are_named():
    for call in (
        lambda: metrics.crps_loss(DIST, Y),
        lambda: metrics.crps_loss(stats.norm(MEAN, STD), Y),
        lambda: metrics.prediction_interval_coverage(DIST, Y),
        lambda: StdScalingRecalibrator().fit(Y, DIST),
        lambda: StdScalingRecalibrator().fit(BOUNDS, DIST),
    ):
        with pytest.raises(
            TypeError, match="observed values are a distribution: swap the arguments"
        ) as caught:
            call()
        assert "Wrap the model" not in str(caught.value)


def test_one_distribution_for_many_targets_is_repeated():
    frozen = stats.norm(10, 2)
    for call, name in (
        (lambda: metrics.crps_loss(Y, frozen), "y_pred"),
        (lambda: evaluation.uncertainty_report(Y, frozen, n_resamples=0, n_draws=0), "y_pred"),
        (lambda: StdScalingRecalibrator().fit(frozen, Y), "dist"),
    ):
        with pytest.raises(ValueError, match=rf"`{name}` has 1 row and `y(_true)?` has {N}") as caught:
            call()
        code = str(caught.value).split("`")[-2]
        assert len(eval(code, {"skuq": skuq, name: frozen})) == N


def test_the_advice_about_pipelines_is_a_paragraph_of_its_own():
    with pytest.raises(TypeError, match=r"\n\nIn a Pipeline, make a skuq regressor the step before"):
        StdScalingRecalibrator().fit(BOUNDS, Y)


def test_none_is_named(subtests):
    for call in (
        lambda: metrics.interval_score_loss(Y, BOUNDS, coverage=None),
        lambda: evaluation.uncertainty_report(Y, DIST, coverage=None),
        lambda: DIST.interval(None),
        lambda: DIST.quantile(None),
        lambda: Quantiles(None, BOUNDS),
    ):
        with subtests.test(), pytest.raises(TypeError, match=r"`(coverage|levels)` must be .*, got None"):
            call()


def test_curves_of_an_accumulator_do_not_take_bounds():
    with pytest.raises(TypeError, match=r"For bounds, pass `curves=\(\)` to MetricAccumulator"):
        MetricAccumulator("picp").update(Y, BOUNDS)
    MetricAccumulator("picp", curves=()).update(Y, BOUNDS)
    with pytest.raises(TypeError) as caught:
        MetricAccumulator("crps").update(Y, BOUNDS)
    assert "curves" not in str(caught.value)


def test_bounds_in_the_wrong_order_may_be_moments():
    for name, (function, takes_bounds) in FUNCTIONS.items():
        if takes_bounds:
            with pytest.raises(ValueError, match="lower bounds") as caught:
                function(MOMENTS)
            (dist,) = lines_of(caught.value, MOMENTS)
            np.testing.assert_array_equal(np.asarray(dist), MOMENTS, err_msg=name)


@pytest.mark.parametrize("n_columns", range(1, 61))
def test_arrays_of_any_width(n_columns):
    rng = np.random.default_rng(n_columns)
    forecast = 10 + rng.normal(size=(N, n_columns)) * rng.choice([0.1, 1.0, 10.0])
    in_order = np.sort(forecast, axis=1)
    for array, ordered in ((forecast, n_columns == 1), (in_order, True)):
        first = "Empirical" if not ordered else "Quantiles"
        for kind in (array, pd.DataFrame(array), array.tolist(), np.ma.array(array)):
            for each in ("crps", "picp", "uncertainty_report", "StdScalingRecalibrator.fit", "transform"):
                function, takes_bounds = FUNCTIONS[each]
                if n_columns > 2:
                    made = check_refused(function, kind, first)
                    assert len(made) == 1 + ordered
                elif n_columns == 1:
                    check_refused(function, kind, None)
                elif not (takes_bounds and ordered):
                    with pytest.raises((TypeError, ValueError), match=r"`(y_pred|dist)` must") as caught:
                        function(kind)
                    for dist in lines_of(caught.value, kind):
                        assert len(dist) == N
                        assert np.isfinite(metrics.crps_loss(Y, dist))
                        assert len(StdScalingRecalibrator().fit(dist, Y).transform(dist)) == N


def test_names_of_arguments_are_in_the_lines():
    both = partial(evaluation.paired_permutation_test, Y, metric="crps")
    for call, line in (
        (lambda: both(MOMENTS, DIST), "Normal(y_pred_a[:, 0], y_pred_a[:, 1])"),
        (lambda: both(DIST, (MEAN, STD)), "Normal(*y_pred_b)"),
        (lambda: metrics.crps_skill_score(Y, DIST, reference=(MEAN, STD)), "Normal(*reference)"),
        (lambda: evaluation.uncertainty_report(Y, {"a": DIST, "b": SAMPLES}), "Empirical(y_pred['b'])"),
        (lambda: survival.survival_report(Y, {"b": SAMPLES}), "Empirical(y_pred['b'])"),
        (lambda: evaluation.expected_loss((MEAN, STD)), "Normal(*dist)"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert f"\n    {line}  #" in str(caught.value)


def test_probabilities_are_no_samples():
    proba = RNG.dirichlet(np.ones(4), size=N)
    report = partial(evaluation.uncertainty_report, metrics=["ece"], n_resamples=0, n_draws=0)
    assert report(np.arange(N) % 4, proba).index.tolist() == ["ece"]
    with pytest.raises(TypeError, match=r"Empirical\(y_pred\)"):
        evaluation.uncertainty_report(RNG.random(N), proba)  # targets of a continuous distribution on [0, 1]


def test_a_frozen_scipy_distribution_passes(subtests):
    frozen = stats.norm(MEAN, STD)
    for name in ("crps", "picp", "CoverageMonitor", "PITMonitor", "transform", "expected_loss"):
        with subtests.test(name):
            FUNCTIONS[name][0](frozen)


def test_displays(subtests):
    pytest.importorskip("matplotlib")
    from skuq import displays

    other = {"RelativeEconomicValue": {"threshold": 10.0}}
    of_bounds = ("Interval", "UncertaintyCharacteristics")
    of_distributions = ["AdversarialGroupCalibration", "CalibrationCurve", "Murphy", "PITHistogram"]
    of_distributions += ["PredictionBand", "QuantileReliability", "RelativeEconomicValue", "Reliability"]
    of_distributions += ["ResidualScale", "Rootogram", "Sharpness", "SurvivalCurve"]
    for name in [*of_bounds, *of_distributions]:
        room = survival if name == "SurvivalCurve" else displays
        draw = partial(getattr(room, f"{name}Display").from_predictions, Y, **other.get(name, {}))
        with subtests.test(name):
            if name not in of_bounds:
                check_refused(draw, BOUNDS, "Quantiles")
            for kind in ("tuple of moments", "samples", "datetimes", "None"):
                forecast, first = OTHERS[kind]
                check_refused(draw, forecast, first)
    check_refused(partial(report.HTMLReport.from_predictions, Y), SAMPLES, "Empirical")
