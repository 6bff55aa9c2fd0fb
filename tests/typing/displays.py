"""Types of displays; tests/test_typing.py shows that all of their constructors return the display."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from skuq import displays
from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.evaluation._metric_agreement import MetricAgreement
from skuq.evaluation._report_table import UncertaintyReport
from skuq.monitoring import MetricAccumulator
from skuq.report import HTMLReport
from skuq.simulation._pointwise_coverage import PointwiseCoverage


def check_forecasts(model: Any, X: FloatArray, y: FloatArray, dist: Distribution) -> None:
    assert_type(displays.ReliabilityDisplay.from_predictions(y, dist), displays.ReliabilityDisplay)
    assert_type(displays.ReliabilityDisplay.from_estimator(model, X, y), displays.ReliabilityDisplay)
    economic_value = displays.RelativeEconomicValueDisplay.from_predictions(y, dist, threshold=1.0)
    assert_type(economic_value, displays.RelativeEconomicValueDisplay)
    parts = displays.ScoreDecompositionDisplay.from_predictions(y, {"a": dist})
    assert_type(parts, displays.ScoreDecompositionDisplay)


def check_results(
    accumulator: MetricAccumulator,
    agreement: MetricAgreement,
    report: UncertaintyReport,
    coverage: PointwiseCoverage,
    scores: dict[str, FloatArray],
) -> None:
    assert_type(displays.ReliabilityDisplay.from_accumulator(accumulator), displays.ReliabilityDisplay)
    drift = displays.CalibrationDriftDisplay.from_periods({"May": accumulator})
    assert_type(drift, displays.CalibrationDriftDisplay)
    assert_type(displays.MetricAgreementDisplay.from_agreement(agreement), displays.MetricAgreementDisplay)
    assert_type(displays.PointwiseCoverageDisplay.from_result(coverage), displays.PointwiseCoverageDisplay)
    assert_type(displays.ShiftCurveDisplay.from_scores(scores, [0.0, 1.0]), displays.ShiftCurveDisplay)
    assert_type(HTMLReport.from_reports(report), HTMLReport)


def check_page(y: FloatArray, dist: Distribution) -> None:
    page = HTMLReport.from_predictions(y, dist)
    assert_type(page, HTMLReport)
    assert_type(page.save("report.html"), Path)
    assert_type(page.html, str)
