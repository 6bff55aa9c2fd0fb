"""Metrics of rows in blocks, calibration over time, and a sequential test of coverage."""

from skuq.monitoring._accumulator.accumulator import MetricAccumulator
from skuq.monitoring._calibration_drift import calibration_drift
from skuq.monitoring._coverage_monitor import CoverageMonitor

__all__ = ["CoverageMonitor", "MetricAccumulator", "calibration_drift"]
