"""Types of displays: each constructor and each plot return the display."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from skuq._typing import FloatArray
from skuq.displays import (
    AdversarialGroupCalibrationDisplay,
    CalibrationCurveDisplay,
    CalibrationDriftDisplay,
    ClassReliabilityDisplay,
    HTMLReport,
    IntervalDisplay,
    JointPairDisplay,
    JointRankHistogramDisplay,
    MetricAgreementDisplay,
    MurphyDisplay,
    PITHistogramDisplay,
    PointwiseCoverageDisplay,
    PredictionBandDisplay,
    PredictionSetDisplay,
    QuantileReliabilityDisplay,
    RelativeEconomicValueDisplay,
    ReliabilityDisplay,
    ResidualScaleDisplay,
    RootogramDisplay,
    ScoreDecompositionDisplay,
    SharpnessDisplay,
    ShiftCurveDisplay,
    SurvivalCurveDisplay,
    UncertaintyCharacteristicsDisplay,
)
from skuq.distributions import Distribution
from skuq.evaluation import MetricAgreement, UncertaintyReport
from skuq.monitoring import MetricAccumulator
from skuq.simulation import PointwiseCoverage


def check_predictions(y: FloatArray, dist: Distribution) -> None:
    assert_type(
        AdversarialGroupCalibrationDisplay.from_predictions(y, dist), AdversarialGroupCalibrationDisplay
    )
    assert_type(CalibrationCurveDisplay.from_predictions(y, dist), CalibrationCurveDisplay)
    assert_type(ClassReliabilityDisplay.from_predictions(y, dist), ClassReliabilityDisplay)
    assert_type(IntervalDisplay.from_predictions(y, dist), IntervalDisplay)
    assert_type(JointPairDisplay.from_predictions(y, dist), JointPairDisplay)
    assert_type(JointRankHistogramDisplay.from_predictions(y, dist), JointRankHistogramDisplay)
    assert_type(MurphyDisplay.from_predictions(y, dist), MurphyDisplay)
    assert_type(PITHistogramDisplay.from_predictions(y, dist), PITHistogramDisplay)
    assert_type(PredictionBandDisplay.from_predictions(y, dist), PredictionBandDisplay)
    assert_type(PredictionSetDisplay.from_predictions(y, dist), PredictionSetDisplay)
    assert_type(QuantileReliabilityDisplay.from_predictions(y, dist), QuantileReliabilityDisplay)
    assert_type(
        RelativeEconomicValueDisplay.from_predictions(y, dist, threshold=1.0), RelativeEconomicValueDisplay
    )
    assert_type(ReliabilityDisplay.from_predictions(y, dist), ReliabilityDisplay)
    assert_type(ResidualScaleDisplay.from_predictions(y, dist), ResidualScaleDisplay)
    assert_type(RootogramDisplay.from_predictions(y, dist), RootogramDisplay)
    assert_type(ScoreDecompositionDisplay.from_predictions(y, {"a": dist}), ScoreDecompositionDisplay)
    assert_type(SharpnessDisplay.from_predictions(y, dist), SharpnessDisplay)
    assert_type(SurvivalCurveDisplay.from_predictions(y, dist), SurvivalCurveDisplay)
    assert_type(
        UncertaintyCharacteristicsDisplay.from_predictions(y, dist), UncertaintyCharacteristicsDisplay
    )


def check_estimators(model: Any, X: FloatArray, y: FloatArray) -> None:
    assert_type(
        AdversarialGroupCalibrationDisplay.from_estimator(model, X, y), AdversarialGroupCalibrationDisplay
    )
    assert_type(CalibrationCurveDisplay.from_estimator(model, X, y), CalibrationCurveDisplay)
    assert_type(ClassReliabilityDisplay.from_estimator(model, X, y), ClassReliabilityDisplay)
    assert_type(HTMLReport.from_estimator(model, X, y), HTMLReport)
    assert_type(IntervalDisplay.from_estimator(model, X, y), IntervalDisplay)
    assert_type(JointPairDisplay.from_estimator(model, X, y), JointPairDisplay)
    assert_type(JointRankHistogramDisplay.from_estimator(model, X, y), JointRankHistogramDisplay)
    assert_type(MurphyDisplay.from_estimator(model, X, y), MurphyDisplay)
    assert_type(PITHistogramDisplay.from_estimator(model, X, y), PITHistogramDisplay)
    assert_type(PredictionBandDisplay.from_estimator(model, X, y), PredictionBandDisplay)
    assert_type(PredictionSetDisplay.from_estimator(model, X, y), PredictionSetDisplay)
    assert_type(QuantileReliabilityDisplay.from_estimator(model, X, y), QuantileReliabilityDisplay)
    assert_type(RelativeEconomicValueDisplay.from_estimator(model, X, y), RelativeEconomicValueDisplay)
    assert_type(ReliabilityDisplay.from_estimator(model, X, y), ReliabilityDisplay)
    assert_type(ResidualScaleDisplay.from_estimator(model, X, y), ResidualScaleDisplay)
    assert_type(RootogramDisplay.from_estimator(model, X, y), RootogramDisplay)
    assert_type(SharpnessDisplay.from_estimator(model, X, y), SharpnessDisplay)
    assert_type(SurvivalCurveDisplay.from_estimator(model, X, y), SurvivalCurveDisplay)
    assert_type(
        UncertaintyCharacteristicsDisplay.from_estimator(model, X, y), UncertaintyCharacteristicsDisplay
    )


def check_results(
    accumulator: MetricAccumulator,
    agreement: MetricAgreement,
    report: UncertaintyReport,
    coverage: PointwiseCoverage,
    scores: dict[str, FloatArray],
) -> None:
    assert_type(ReliabilityDisplay.from_accumulator(accumulator), ReliabilityDisplay)
    assert_type(CalibrationDriftDisplay.from_periods({"May": accumulator}), CalibrationDriftDisplay)
    assert_type(MetricAgreementDisplay.from_agreement(agreement), MetricAgreementDisplay)
    assert_type(PointwiseCoverageDisplay.from_result(coverage), PointwiseCoverageDisplay)
    assert_type(ShiftCurveDisplay.from_scores(scores, [0.0, 1.0]), ShiftCurveDisplay)
    assert_type(HTMLReport.from_reports(report), HTMLReport)


def check_page(page: HTMLReport, y: FloatArray, dist: Distribution) -> None:
    assert_type(HTMLReport.from_predictions(y, dist), HTMLReport)
    assert_type(page.save("report.html"), Path)
    assert_type(page.html, str)
