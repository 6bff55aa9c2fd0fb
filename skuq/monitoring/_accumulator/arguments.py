"""Arguments of an accumulator, and the statistics that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skuq._typing import FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_mapping, check_number, check_option
from skuq.metrics._internal import (
    MetricFunction,
    MetricSpec,
    all_specs,
    coverage_rows,
    require_spec,
    set_mass_rows,
)
from skuq.monitoring._accumulator.plans import (
    Plan,
    calibration_plan,
    characteristics_plan,
    class_reliability_plan,
    means_plan,
    plan_of,
    reliability_plan,
)
from skuq.monitoring._accumulator.statistics import AtomBlocks, below_median_rows

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
        common = {key: arguments[key] for key in COMMON if _has_default(spec, key, defaults)}
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


def _has_default(spec: MetricSpec, key: str, defaults: Mapping[str, Any]) -> bool:
    default = spec.options.get(key)
    return isinstance(default, int | float) and default == defaults.get(key)


def _first(means: FloatArray) -> float:
    return float(means[0])


def plans_of_tables(arguments: Mapping[str, Any]) -> dict[str, Plan]:
    accuracy, coverage, curves = (arguments[name] for name in ("accuracy", "coverage", "curves"))
    plans = {
        "inside": means_plan(coverage_rows, {"coverage": coverage}).then(_first),
        "atoms": Plan((AtomBlocks(),), bool),
    }
    if curves:
        plans["below"] = means_plan(below_median_rows, {}).then(_first)
    if "calibration" in curves:
        plans["calibration curve"] = calibration_plan(arguments["levels"])
    if "reliability" in curves:
        plans["reliability table"] = reliability_plan(arguments["n_bins"], coverage, accuracy)
    if "characteristics" in curves:
        plans |= {
            f"characteristics {bands}": characteristics_plan(bands, accuracy) for bands in ("std", "constant")
        }
    return plans


def plans_of_class_tables(arguments: Mapping[str, Any]) -> dict[str, Plan]:
    return {
        "sets": means_plan(set_mass_rows, {"coverage": arguments["coverage"]}),
        "reliability": class_reliability_plan(arguments["n_bins"]),
    }
