"""Forecasts, reports and descriptions from estimators, other reports and accumulators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skuq._sklearn_compat import is_classifying, safe_indexing
from skuq.evaluation._report.table import UncertaintyReport
from skuq.prediction import predict_dist
from skuq.prediction._predict_set import class_proba
from skuq.report._page import models_of


def predictions_of(models: Mapping[str, Any], X: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the forecasts of all estimators, and the labels of classifiers."""
    classify = {is_classifying(each) for each in models.values()}
    if len(classify) > 1:
        raise ValueError("`estimator` must hold only classifiers or only regressors, got both.")
    if classify == {False}:
        return {name: predict_dist(each, X) for name, each in models.items()}, {}
    labels = [np.asarray(each.classes_) for each in models.values()]
    if any(not np.array_equal(each, labels[0]) for each in labels):
        raise ValueError("`estimator` must hold classifiers with equal `classes_`, got different classes.")
    return {name: class_proba(each, X) for name, each in models.items()}, {"labels": labels[0]}


def parameters_of(models: Mapping[str, Any]) -> dict[str, str]:
    return {f"Model {name}": " ".join(repr(each).split()) for name, each in models.items()}


def taken(values: Any, rows: np.ndarray) -> Any:
    return None if values is None else safe_indexing(values, rows)


def call_text(method: str, arguments: str, options: Mapping[str, Any]) -> str:
    shown = [f"{name}={each!r}" for name, each in options.items() if isinstance(each, bool | int | float)]
    return f"HTMLReport.{method}({', '.join([arguments, *shown])})"


def check_report(report: Any, name: str) -> UncertaintyReport:
    if not isinstance(report, UncertaintyReport) or "headlines" not in report.attrs:
        raise TypeError(
            f"`{name}` must be a report from uncertainty_report, got {type(report).__name__}. Pass the whole "
            "report, not a selection of its rows."
        )
    return report


def joined(reports: Mapping[str, UncertaintyReport]) -> UncertaintyReport:
    """Return one report of several models."""
    if not reports:
        raise ValueError("`reports` must hold at least one report, got none.")
    tables: dict[str, pd.DataFrame] = {}
    attrs: dict[str, Any] = {"definitions": {}, "in_percent": []}
    for name, report in reports.items():
        check_report(report, "reports")
        attrs["definitions"] |= report.attrs["definitions"]
        attrs["in_percent"] = [*attrs["in_percent"], *report.attrs["in_percent"]]
        for inner, table in models_of(report).items():
            label = str(name) if report.index.nlevels == 1 else f"{name}, {inner}"
            tables[label] = table
            for key in ("summary", "headlines"):
                attrs.setdefault(key, {})[label] = report.attrs[key][inner]
        for key in ("rows", "confidence", "of_classes"):
            if attrs.setdefault(key, report.attrs[key]) != report.attrs[key]:
                raise ValueError(
                    f"`reports` must have equal {key}, got {attrs[key]!r} and {report.attrs[key]!r}. "
                    "Evaluate all models on the same rows."
                )
    whole = UncertaintyReport(pd.concat(tables, names=["model", "metric"]).swaplevel())
    whole.attrs.update(attrs)
    return whole
