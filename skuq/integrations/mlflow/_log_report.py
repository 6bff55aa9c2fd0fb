"""Numbers and figures of a report, logged in the active MLflow run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from skuq.evaluation._report_table import UncertaintyReport

_FILE = "uncertainty_report"


def log_report(report: UncertaintyReport, *, figures: Mapping[str, Any] | None = None) -> None:
    """Log an uncertainty report in the active MLflow run: numbers, text and figures.

    Parameters
    ----------
    report : UncertaintyReport
        Result of `skuq.evaluation.uncertainty_report`.
    figures : dict of str to display or matplotlib Figure, default=None
        Figures by name. They are logged as ``<name>.png``. For a display, its figure is logged.

    Raises
    ------
    ImportError
        If MLflow is not installed.
    TypeError
        If ``report`` is not an UncertaintyReport.

    See Also
    --------
    skuq.evaluation.uncertainty_report : Function that returns the report.

    Notes
    -----
    Each metric is logged under its abbreviation, such as ``"crps"``. The bounds of its confidence interval
    are logged as ``"crps_low"`` and ``"crps_high"``. If there are several models, the names are
    ``"<model>/crps"``. NaN values are not logged, for example if intervals were not computed. The artifact
    ``uncertainty_report.txt`` contains the whole report, and ``uncertainty_report.csv`` contains the table.
    If no run is active, MLflow starts one.

    Examples
    --------
    >>> import mlflow
    >>> from skuq.distributions import Normal
    >>> from skuq.integrations.mlflow import log_report
    >>> from skuq.evaluation import uncertainty_report
    >>> y, dist = [0.5, -0.2, 1.1], Normal([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    >>> report = uncertainty_report(y, dist, metrics=["picp", "crps"], n_resamples=0, n_draws=0)
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     log_report(report)
    """
    import mlflow

    if not isinstance(report, UncertaintyReport):
        raise TypeError(
            f"`report` must be the result of uncertainty_report, got {type(report).__name__}. A selection "
            f"of rows of a report is a plain DataFrame. To select metrics, use "
            f"`uncertainty_report(metrics=...)`."
        )
    mlflow.log_metrics(_numbers(report))
    mlflow.log_text(report.to_text(), f"{_FILE}.txt")
    mlflow.log_text(pd.DataFrame(report).to_csv(), f"{_FILE}.csv")
    for name, figure in (figures or {}).items():
        mlflow.log_figure(getattr(figure, "figure_", figure), f"{name}.png")


def _numbers(report: UncertaintyReport) -> dict[str, float]:
    numbers: dict[str, Any] = {}
    for key, row in report.iterrows():
        name = "/".join(reversed(key)) if isinstance(key, tuple) else str(key)
        numbers |= {name: row["value"], f"{name}_low": row["low"], f"{name}_high": row["high"]}
    return {name: float(number) for name, number in numbers.items() if pd.notna(number)}
