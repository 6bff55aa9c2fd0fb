"""Metrics of blocks of rows, calibration over time, and sequential tests of calibration."""

from skuq.monitoring._accumulator import MetricAccumulator
from skuq.monitoring._beta_bets import ExchangeabilityMonitor, PITMonitor
from skuq.monitoring._calibration_drift import calibration_drift
from skuq.monitoring._class_accumulator import ClassMetricAccumulator
from skuq.monitoring._coverage_monitor import CoverageMonitor
from skuq.monitoring._pending_forecasts import PendingForecasts

__all__ = [
    "ClassMetricAccumulator",
    "CoverageMonitor",
    "ExchangeabilityMonitor",
    "MetricAccumulator",
    "PITMonitor",
    "PendingForecasts",
    "calibration_drift",
]
