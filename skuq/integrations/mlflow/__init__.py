"""Uncertainty reports in runs of MLflow. The package mlflow or mlflow-skinny is required."""

from skuq.integrations.mlflow._log_report import log_report

__all__ = ["log_report"]
