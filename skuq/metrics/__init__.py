"""Metrics of predictive distributions and the scorers built on them."""

from skuq.metrics._average_calibration import mean_absolute_calibration_error, regression_calibration_curve
from skuq.metrics._group_calibration import expected_normalized_calibration_error
from skuq.metrics._intervals import interval_coverage_error, mean_interval_width, prediction_interval_coverage
from skuq.metrics._make_scorer import get_scorer, get_scorer_names, make_scorer, scorers
from skuq.metrics._proper import crps_loss, nll_loss
from skuq.metrics._quantile_scores import interval_score_loss, pinball_loss
from skuq.metrics._sharpness import sharpness
from skuq.metrics._ucc import auucc_gain_score

__all__ = [
    "auucc_gain_score",
    "crps_loss",
    "expected_normalized_calibration_error",
    "get_scorer",
    "get_scorer_names",
    "interval_coverage_error",
    "interval_score_loss",
    "make_scorer",
    "mean_absolute_calibration_error",
    "mean_interval_width",
    "nll_loss",
    "pinball_loss",
    "prediction_interval_coverage",
    "regression_calibration_curve",
    "scorers",
    "sharpness",
]
