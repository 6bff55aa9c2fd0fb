"""Arguments of the laws for metrics with required options."""

import numpy as np

from skuq.metrics._spec import MetricSpec, all_specs


def forecast_specs() -> dict[str, MetricSpec]:
    """Return the records of the metrics of targets and distributions alone, without X, by abbreviation."""
    return {
        name: spec
        for name, spec in all_specs().items()
        if not (spec.needs_X or spec.of_classes or spec.of_targets)
    }


def class_specs() -> dict[str, MetricSpec]:
    """Return the records of the metrics of classes, by abbreviation."""
    return {name: spec for name, spec in all_specs().items() if spec.of_classes}


def required(spec: MetricSpec, shift: float = 0.0, factor: float = 1.0) -> dict:
    """Return the options that the metric needs, in units of y moved by shift and factor, and a seed."""
    if spec.random:
        return {"random_state": 0}
    if "weighting" in spec.any_of:
        return {"weighting": "tails"}
    if spec.any_of:  # the units of the log score change only for targets inside the bounds
        return {"lower": -np.inf if spec.units == "log" else shift + 0.2 * factor}
    if not spec.one_of:
        return {}
    return {"y_train": shift + factor * np.random.default_rng(5).normal(0.2, 3.0, size=50)}
