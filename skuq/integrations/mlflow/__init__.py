"""Uncertainty reports in MLflow runs; requires mlflow or mlflow-skinny."""

from skuq.integrations.mlflow._log_report import log_report

__all__ = ["log_report"]
