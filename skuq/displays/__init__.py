"""Pictures of predictive distributions; they need the extra ``plot`` (matplotlib)."""

from skuq.displays._calibration_curve import CalibrationCurveDisplay
from skuq.displays._interval import IntervalDisplay
from skuq.displays._prediction_band import PredictionBandDisplay

__all__ = ["CalibrationCurveDisplay", "IntervalDisplay", "PredictionBandDisplay"]
