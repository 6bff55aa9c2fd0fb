"""Numbers and figures of a report in the active run of MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from skuq.metrics import UncertaintyReport

_FILE = "uncertainty_report"


def log_report(report: UncertaintyReport, *, figures: Mapping[str, Any] | None = None) -> None:
    """Log an uncertainty report in the active run of MLflow: its numbers, its text and figures.

    Parameters
    ----------
    report : UncertaintyReport
        From `skuq.metrics.uncertainty_report`.
    figures : dict of str to display or matplotlib Figure, default=None
        Figures by name, logged as ``<name>.png``; of a display the figure it was drawn in.

    Raises
    ------
    ImportError
        If MLflow is not installed.
    TypeError
        If ``report`` is another table.

    See Also
    --------
    skuq.metrics.uncertainty_report : Makes the report.

    Notes
    -----
    The value of each metric is logged under its abbreviation, ``"crps"``, and the bounds of its interval as
    ``"crps_low"`` and ``"crps_high"``; of several models under ``"<model>/crps"``. What is NaN, as an
    interval that was not computed, is left out. The whole report is the artifact ``uncertainty_report.txt``,
    the table ``uncertainty_report.csv``. Without an active run MLflow starts one.

    Examples
    --------
    >>> import mlflow
    >>> from skuq.integrations.mlflow import log_report
    >>> from skuq.metrics import uncertainty_report
    >>> y, dist = [0.5, -0.2, 1.1], ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    >>> report = uncertainty_report(y, dist, metrics=["picp", "crps"], n_resamples=0, n_simulations=0)
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     log_report(report)
    """
    import mlflow

    if not isinstance(report, UncertaintyReport):
        raise TypeError(
            f"`report` must be the table of uncertainty_report, got {type(report).__name__}. What is "
            "selected from it is a plain DataFrame; select metrics by `uncertainty_report(metrics=...)`."
        )
    mlflow.log_metrics(_numbers(report))
    mlflow.log_text(report.to_text(), f"{_FILE}.txt")
    mlflow.log_text(pd.DataFrame(report).to_csv(), f"{_FILE}.csv")
    for name, figure in (figures or {}).items():
        mlflow.log_figure(getattr(figure, "figure_", figure), f"{name}.png")


def _numbers(report: UncertaintyReport) -> dict[str, float]:
    """Return values and bounds of intervals by the names of the metrics, and of the models where named."""
    numbers: dict[str, Any] = {}
    for key, row in report.iterrows():
        name = "/".join(reversed(key)) if isinstance(key, tuple) else str(key)
        numbers |= {name: row["value"], f"{name}_low": row["low"], f"{name}_high": row["high"]}
    return {name: float(number) for name, number in numbers.items() if pd.notna(number)}
