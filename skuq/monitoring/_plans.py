"""Plans: functions that compute metrics and tables from statistics of blocks of rows.

The kernel of a metric defines its plan if the metric is a function of means over rows. The records of other
metrics name the statistics in ``blocks``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from skuq._typing import FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_mapping, check_number, check_option
from skuq.distributions import Normal, as_distribution
from skuq.metrics import uncertainty_characteristics_curve
from skuq.metrics._average_calibration import CalibrationCurve, curve_of_levels
from skuq.metrics._binning import Binning, curve_of_bins
from skuq.metrics._expected_calibration import class_bin_rows, class_table_of_sums
from skuq.metrics._intervals import coverage_rows
from skuq.metrics._kernels import level_grid
from skuq.metrics._levels import level_rows
from skuq.metrics._prediction_sets import set_mass_rows
from skuq.metrics._scorer import check_options, require_spec
from skuq.metrics._spec import Means, MetricFunction, MetricSpec, all_specs, value_of
from skuq.metrics._ucc_curve import UncertaintyCharacteristicsCurve
from skuq.metrics._ucc_scores import CLOSED_FORM, relative_gain
from skuq.monitoring._statistics import (
    AtomBlocks,
    BandsByScale,
    Levels,
    LogHistogram,
    Moments,
    QuantileLevels,
    RowsByStd,
    RowSums,
    SquaresByStd,
    Statistic,
    TargetMoments,
    below_median_rows,
    bin_width,
    groups_by_std,
)


@dataclass(frozen=True)
class Plan:
    """Statistics of a metric or of a table, and the function that computes its value."""

    statistics: tuple[Statistic, ...]
    value: Callable[..., Any]
    exact: bool = True
    calibrated: Callable[..., float] = lambda n, *states: np.nan
    """``calibrated(n, *states)`` returns the expected value of a calibrated forecast of n rows."""

    def then(self, value: Callable[[Any], Any]) -> Plan:
        return replace(self, value=lambda *states: value(self.value(*states)))


def plan_of(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    name = spec.abbreviation
    if spec.of_targets:
        raise ValueError(
            f"`metrics` must be metrics of one target, got {name!r}. This metric is a score of joint "
            "distributions. Compute it for each block and average the values over the blocks."
        )
    check_options(spec, dict(options))
    _check_reference(spec, options)
    settings = {**spec.options, **options}
    exact = not (spec.blocks == "levels" and settings["levels"] is None)
    if not exact:
        settings["levels"] = np.linspace(0.0, 1.0, int(np.ceil(1 / accuracy)) + 1)
    computation: Any = None if spec.needs_X else spec.computation(settings)
    if isinstance(computation, Means) and not spec.random:
        plan = replace(plan_of_means(computation), exact=exact)
    elif spec.blocks is None:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        reason = "it needs all rows at once" + (f" with {given}" if given else "")
        if spec.needs_X:
            reason = "it depends on the features of all rows"
        elif spec.random:
            reason = "it draws random groups of all rows"
        raise ValueError(
            f"`metrics` must be computable from blocks of rows, got {name!r}. This metric cannot be computed "
            f"from blocks, because {reason}. Compute it for a sample of the rows."
        )
    else:
        plan = _PLANS[spec.blocks](spec, settings, accuracy)
    formula = spec.calibrated
    if formula is None:
        return plan
    return replace(plan, calibrated=lambda n, *states: float(formula(n, **options)))


def _check_reference(spec: MetricSpec, options: Mapping[str, Any]) -> None:
    reference = options.get("reference") if "reference" in spec.one_of else None
    rows = 1 if reference is None else len(as_distribution(reference, "reference"))
    if rows != 1:
        raise ValueError(
            f"`options` of {spec.abbreviation!r} must contain a `reference` with one row, got {rows} rows. "
            "This row is the reference for the rows of all updates."
        )


def plan_of_means(computation: Means) -> Plan:
    plan = Plan((RowSums(computation.rows),), lambda sums: float(computation.combine(sums.means)))
    if computation.spread is not None:
        spread = computation.spread
        plan = Plan(
            (*plan.statistics, TargetMoments()),
            lambda sums, moments: float(computation.combine(sums.means, getattr(moments, spread))),
        )
    expected = computation.calibrated
    if expected is None:
        return plan
    return replace(plan, calibrated=lambda n, sums: expected(sums.means, n))


def _plan_by_std(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    """Return the plan of a metric of the moments. Each bin of the standard deviation becomes one row."""
    computation = spec.computation(options)

    def value(squares: LogHistogram) -> float:
        weight, std, error = groups_by_std(squares)
        return value_of(computation, error, Normal(np.zeros_like(std), std), weight)

    return Plan((SquaresByStd(bin_width(accuracy)),), value, exact=False)


def _plan_by_std_and_level(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    """Return the plan of the QCE. Each bin of the standard deviation becomes one row per level."""
    computation, width = spec.computation(options), bin_width(accuracy)
    levels = np.unique(level_grid(options["levels"], closed=True))
    rows = partial(level_rows, levels=levels, kind="interval")
    # A target at this distance from the mean is first covered at the level.
    edges = np.concatenate([[0.0], levels, [1.0]])
    distance = ndtri((1 + (edges[1:] + edges[:-1]) / 2) / 2)
    distance[0] = 0.0

    def value(squares: LogHistogram, shares: LogHistogram) -> float:
        weight, std, _ = groups_by_std(squares)
        weights = weight * shares.means
        y = np.multiply.outer(distance, np.where(std > 0, std, 1.0))
        kept = weights > 0
        dist = Normal(np.zeros(np.count_nonzero(kept)), np.broadcast_to(std, kept.shape)[kept])
        return value_of(computation, y[kept], dist, weights[kept])

    return Plan((SquaresByStd(width), RowsByStd(width, rows)), value, exact=False)


def _plan_by_scale(spec: MetricSpec, options: Mapping[str, Any], accuracy: float) -> Plan:
    """Return the plan of an area under the uncertainty characteristics curve."""
    part = dict(options)
    denominator = part.pop("denominator", None)
    for name in ("bands", "vary", "zero_band"):
        if part[name] != CLOSED_FORM[name]:
            raise ValueError(
                f"`options` of {spec.abbreviation!r} must have {name}={CLOSED_FORM[name]!r}, got "
                f"{part[name]!r}. With this value, the metric needs all rows at once. Compute the metric for "
                "a sample of the rows."
            )
        del part[name]
    plan = characteristics_plan("std", accuracy)
    if denominator is None:
        return plan.then(lambda curve: curve.area(**part))

    def gain(*curves: UncertaintyCharacteristicsCurve) -> float:
        model, constant = (np.asarray(curve.area(**part)) for curve in curves)
        return float(relative_gain(model, constant, denominator))

    return joined([plan, characteristics_plan("constant", accuracy)], gain, exact=False)


def joined(plans: list[Plan], value: Callable[..., Any], exact: bool) -> Plan:
    def value_of_states(*states: Any) -> Any:
        rest = iter(states)
        return value(*(plan.value(*islice(rest, len(plan.statistics))) for plan in plans))

    return Plan(tuple(each for plan in plans for each in plan.statistics), value_of_states, exact)


def means_plan(rows: Callable[..., Any]) -> Plan:
    return Plan((RowSums(rows),), lambda sums: sums.means)


def reliability_plan(n_bins: int, coverage: float, accuracy: float) -> Plan:
    width = bin_width(accuracy)

    def value(squares: LogHistogram, shares: LogHistogram) -> pd.DataFrame:
        inside = shares.means
        bins = Binning(groups_by_std(squares)[1], n_bins, "quantile").bins(squares.weight)
        names = ("rmv", "rmse", "coverage")
        table = curve_of_bins(bins, **dict(zip(names, (*squares.means, *inside), strict=True)))
        edges = squares.quantile(np.arange(len(table) + 1) / len(table), width)
        edges[0], edges[-1] = squares.low, squares.high
        return table.assign(
            lower=edges[:-1], upper=edges[1:], rmv=np.sqrt(table["rmv"]), rmse=np.sqrt(table["rmse"])
        )

    by_std = RowsByStd(width, partial(coverage_rows, coverage=coverage))
    return Plan((SquaresByStd(width), by_std), value, exact=False)


def characteristics_plan(bands: str, accuracy: float) -> Plan:

    def value(histogram: LogHistogram, moments: Moments) -> UncertaintyCharacteristicsCurve:
        *band, error = histogram.means
        dist = Normal(np.zeros_like(error), band[0] if band else 1.0)
        curve = uncertainty_characteristics_curve(error, dist, sample_weight=histogram.weight, bands=bands)
        return replace(curve, target_std=moments.std)

    return Plan((BandsByScale(bin_width(accuracy), bands), TargetMoments()), value, exact=False)


_PLANS: dict[str, Callable[[MetricSpec, Mapping[str, Any], float], Plan]] = {
    "std": _plan_by_std,
    "std_levels": _plan_by_std_and_level,
    "characteristics": _plan_by_scale,
}
"""Function that returns the plan of a metric, for each name that a record has in ``blocks``."""

CURVES = ("calibration", "reliability", "characteristics")

COMMON = ("levels", "n_bins", "coverage")
"""Each of these arguments of the accumulator sets the option of the same name. It applies to every metric for
which this option has the same default."""

DEFAULTS: dict[str, Any] = {
    "levels": 99,
    "n_bins": 10,
    "accuracy": 1e-3,
    "coverage": DEFAULT_COVERAGE,
    "curves": CURVES,
    "options": None,
}

CLASS_DEFAULTS: dict[str, Any] = {"n_bins": 15, "coverage": DEFAULT_COVERAGE, "options": None}

LEAST_ACCURACY, MOST_ACCURACY = 1e-5, 0.1


def check_accuracy(accuracy: float) -> float:
    number = check_number(accuracy, "accuracy", positive=True)
    if not LEAST_ACCURACY <= number <= MOST_ACCURACY:
        raise ValueError(
            f"`accuracy` must lie between {LEAST_ACCURACY:g} and {MOST_ACCURACY:g}, got {number:g}. Pass the "
            "relative accuracy of quantiles of the standard deviation."
        )
    return number


def check_curves(curves: Any) -> tuple[str, ...]:
    if isinstance(curves, str) or not isinstance(curves, Iterable) or getattr(curves, "ndim", 1) == 0:
        what = "the string " if isinstance(curves, str) else ""
        raise TypeError(f"`curves` must be a sequence of names, got {what}{curves!r}.")
    for name in curves:
        check_option(name, "curves", CURVES)
    return tuple(name for name in CURVES if name in curves)


def _chosen(metrics: Sequence[str | MetricFunction]) -> list[MetricSpec]:
    return list({spec.abbreviation: spec for spec in map(require_spec, metrics)}.values())


def plans_of_metrics(
    metrics: Sequence[str | MetricFunction],
    arguments: Mapping[str, Any],
    defaults: Mapping[str, Any],
    *,
    of_classes: bool,
) -> tuple[dict[str, MetricSpec], dict[str, dict[str, Any]], dict[str, Plan]]:
    """Return the records, the options and the plans of the metrics."""
    given = {
        require_spec(name).abbreviation: check_mapping(each, "options")
        for name, each in check_mapping(arguments["options"], "options").items()
    }
    ready = [
        spec
        for spec in all_specs().values()
        if (spec.ready_made and spec.of_classes == of_classes) or spec.abbreviation in given
    ]
    specs: dict[str, MetricSpec] = {}
    options: dict[str, dict[str, Any]] = {}
    plans: dict[str, Plan] = {}
    for spec in _chosen(metrics) if metrics else ready:
        name = spec.abbreviation
        common = {
            key: arguments[key]
            for key in COMMON
            if isinstance(default := spec.options.get(key), int | float) and default == defaults.get(key)
        }
        options[name] = {**common, **given.get(name, {})}
        try:
            _check_kind(spec, of_classes)
            plans[name] = plan_of(spec, options[name], arguments.get("accuracy", DEFAULTS["accuracy"]))
        except ValueError:
            if metrics or name in given:
                raise
            continue
        specs[name] = spec
    unused = sorted(set(given) - set(specs))
    if unused:
        raise ValueError(f"`options` must contain only the metrics {', '.join(specs)}, got {unused[0]!r}.")
    return specs, {name: options[name] for name in specs}, plans


def _check_kind(spec: MetricSpec, of_classes: bool) -> None:
    if spec.of_classes != of_classes:
        kind = "classes" if of_classes else "distributions or intervals"
        other = "MetricAccumulator" if of_classes else "ClassMetricAccumulator"
        what = "the classification metric" if spec.of_classes else "the metric"
        raise ValueError(
            f"`metrics` must be metrics of {kind}, got {what} {spec.abbreviation!r}. Use {other} for this "
            "metric."
        )


def _sorted_levels(levels: Levels) -> tuple[float, ...] | None:
    return None if levels.given is None else tuple(sorted(levels.given))


def _first(means: FloatArray) -> float:
    return float(means[0])


def plans_of_tables(arguments: Mapping[str, Any]) -> dict[str, Plan]:
    accuracy, coverage, curves = (arguments[name] for name in ("accuracy", "coverage", "curves"))
    plans = {
        "inside": means_plan(partial(coverage_rows, coverage=coverage)).then(_first),
        "atoms": Plan((AtomBlocks(),), bool),
        "quantile levels": Plan((QuantileLevels(),), _sorted_levels),
    }
    if curves:
        plans["below"] = means_plan(below_median_rows).then(_first)
    if "calibration" in curves:
        # `mean_absolute_calibration_error` uses the same statistic, so the statistic is stored only once.
        curve = curve_of_levels(arguments["levels"], "quantile")
        grid = level_grid(arguments["levels"], closed=True)
        plans["calibration curve"] = means_plan(curve.rows).then(
            lambda means: CalibrationCurve(grid, curve.combine(means))
        )
    if "reliability" in curves:
        plans["reliability table"] = reliability_plan(arguments["n_bins"], coverage, accuracy)
    if "characteristics" in curves:
        plans |= {
            f"characteristics {bands}": characteristics_plan(bands, accuracy) for bands in ("std", "constant")
        }
    return plans


def plans_of_class_tables(arguments: Mapping[str, Any]) -> dict[str, Plan]:
    n_bins = arguments["n_bins"]
    # The expected calibration error uses the same statistic, so the statistic is stored only once.
    rows = partial(class_bin_rows, n_bins=n_bins, classwise=False)
    return {
        "sets": means_plan(partial(set_mass_rows, coverage=arguments["coverage"])),
        "reliability": Plan((RowSums(rows),), lambda sums: class_table_of_sums(sums.sums, n_bins=n_bins)),
    }
