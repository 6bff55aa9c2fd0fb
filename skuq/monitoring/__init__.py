"""Metrics of blocks of rows, calibration over time, and sequential tests of calibration."""

from skuq.monitoring._accumulator.accumulator import MetricAccumulator
from skuq.monitoring._accumulator.classes import ClassMetricAccumulator
from skuq.monitoring._calibration_drift import calibration_drift
from skuq.monitoring._coverage_monitor import CoverageMonitor
from skuq.monitoring._exchangeability_monitor import ExchangeabilityMonitor
from skuq.monitoring._pending_forecasts import PendingForecasts
from skuq.monitoring._pit_monitor import PITMonitor

__all__ = [
    "ClassMetricAccumulator",
    "CoverageMonitor",
    "ExchangeabilityMonitor",
    "MetricAccumulator",
    "PITMonitor",
    "PendingForecasts",
    "calibration_drift",
]
