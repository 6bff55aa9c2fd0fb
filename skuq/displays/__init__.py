"""Plots of predictive distributions and prediction sets. The plots need matplotlib (the extra ``plot``)."""

from skuq.displays._adversarial_group_calibration import AdversarialGroupCalibrationDisplay
from skuq.displays._calibration_curve import CalibrationCurveDisplay
from skuq.displays._calibration_drift import CalibrationDriftDisplay
from skuq.displays._class_reliability import ClassReliabilityDisplay
from skuq.displays._interval import IntervalDisplay
from skuq.displays._metric_agreement import MetricAgreementDisplay
from skuq.displays._murphy import MurphyDisplay
from skuq.displays._pit_histogram import PITHistogramDisplay
from skuq.displays._pointwise_coverage import PointwiseCoverageDisplay
from skuq.displays._prediction_band import PredictionBandDisplay
from skuq.displays._prediction_set import PredictionSetDisplay
from skuq.displays._quantile_reliability import QuantileReliabilityDisplay
from skuq.displays._relative_economic_value import RelativeEconomicValueDisplay
from skuq.displays._reliability import ReliabilityDisplay
from skuq.displays._residual_scale import ResidualScaleDisplay
from skuq.displays._rootogram import RootogramDisplay
from skuq.displays._score_decomposition import ScoreDecompositionDisplay
from skuq.displays._sharpness import SharpnessDisplay
from skuq.displays._shift_curve import ShiftCurveDisplay
from skuq.displays._uncertainty_characteristics import UncertaintyCharacteristicsDisplay

__all__ = [
    "AdversarialGroupCalibrationDisplay",
    "CalibrationCurveDisplay",
    "CalibrationDriftDisplay",
    "ClassReliabilityDisplay",
    "IntervalDisplay",
    "MetricAgreementDisplay",
    "MurphyDisplay",
    "PITHistogramDisplay",
    "PointwiseCoverageDisplay",
    "PredictionBandDisplay",
    "PredictionSetDisplay",
    "QuantileReliabilityDisplay",
    "RelativeEconomicValueDisplay",
    "ReliabilityDisplay",
    "ResidualScaleDisplay",
    "RootogramDisplay",
    "ScoreDecompositionDisplay",
    "SharpnessDisplay",
    "ShiftCurveDisplay",
    "UncertaintyCharacteristicsDisplay",
]
