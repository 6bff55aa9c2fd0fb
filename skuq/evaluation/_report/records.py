"""Rows of a report, and the table of one or several models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from skuq._rounding import ROUNDING
from skuq.evaluation._report.table import UncertaintyReport
from skuq.evaluation._report.wording import Headline, Result, describe, is_in_percent, unit_name
from skuq.metrics._internal import MetricSpec, all_specs


def record(
    spec: MetricSpec,
    options: Mapping[str, Any],
    numbers: Mapping[str, float],
    n: float,
    confidence: float,
    error: str = "",
) -> dict[str, Any]:
    """Return one row of the table.

    The array ``numbers`` holds the value, its interval and the range of values of calibrated models.
    """
    optimum = spec.optimum
    if isinstance(optimum, str):
        optimum = options.get(optimum, spec.options[optimum])
    if spec.units == 0:  # The metric has no units, so such small numbers are rounding errors.
        numbers = {name: 0.0 if abs(value) < ROUNDING else value for name, value in numbers.items()}
    result = Result(spec, **numbers, optimum=optimum, n=n, confidence=confidence, error=error)
    return {
        "metric": spec.abbreviation,
        "title": spec.title,
        **numbers,
        "units": unit_name(spec),
        "direction": spec.direction or "",
        "optimum": np.nan if optimum is None else float(optimum),
        "reading": describe(result),
    }


def assemble(
    tables: Mapping[str, pd.DataFrame],
    headlines: Mapping[str, Headline],
    n: float,
    confidence: float,
    *,
    single: bool,
) -> UncertaintyReport:
    if single:
        table = next(iter(tables.values())).set_index("metric")
    else:
        whole = pd.concat([part.assign(model=name, place=range(len(part))) for name, part in tables.items()])
        order = {name: i for i, name in enumerate(tables)}
        whole = whole.sort_values(["place", "model"], key=lambda c: c.map(order) if c.name == "model" else c)
        table = whole.drop(columns="place").set_index(["metric", "model"])
    report = UncertaintyReport(table)
    specs = all_specs()
    in_percent = [spec.title for spec in specs.values() if is_in_percent(spec)]
    used = [specs[name] for name in table.index.get_level_values("metric").unique()]
    report.attrs = {
        "rows": n,
        "confidence": confidence,
        "summary": {name: headline.words for name, headline in headlines.items()},
        "headlines": {name: asdict(headline) for name, headline in headlines.items()},
        "in_percent": in_percent,
        "of_classes": used[0].of_classes,
        "definitions": {spec.abbreviation: spec.definition for spec in used},
    }
    return report
