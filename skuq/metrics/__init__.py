"""Metrics of predictive distributions, and scorers for scikit-learn."""

from skuq.metrics._adversarial import adversarial_group_calibration_curve, adversarial_group_calibration_error
from skuq.metrics._average_calibration import (
    mean_absolute_calibration_error,
    regression_calibration_curve,
    root_mean_squared_calibration_error,
)
from skuq.metrics._calibration_scores import (
    calibration_score_loss,
    expected_coverage_probability_error,
    miscalibration_area,
)
from skuq.metrics._class_scores import class_brier_loss, class_log_loss
from skuq.metrics._conditional_coverage import conditional_coverage_error
from skuq.metrics._crps_parts import (
    crps_discrimination_score,
    crps_miscalibration_error,
    crps_uncertainty,
)
from skuq.metrics._expected_calibration import class_reliability_table, expected_calibration_error
from skuq.metrics._group_calibration import (
    expected_normalized_calibration_error,
    uncertainty_calibration_error,
)
from skuq.metrics._interval_width import coverage_width_loss, normalized_mean_interval_width
from skuq.metrics._intervals import (
    interval_coverage_error,
    interval_deficit,
    interval_excess,
    interval_miss_rate,
    mean_interval_half_width,
    mean_interval_width,
    prediction_interval_coverage,
)
from skuq.metrics._murphy import murphy_curve
from skuq.metrics._prediction_sets import (
    conditional_set_coverage,
    mean_set_size,
    set_coverage_error,
    set_coverage_score,
)
from skuq.metrics._proper import crps_loss, nll_loss
from skuq.metrics._quantile_calibration import quantile_calibration_error
from skuq.metrics._quantile_scores import interval_score_loss, pinball_loss, weighted_interval_score_loss
from skuq.metrics._reliability import conditional_coverage, reliability_table
from skuq.metrics._scorer import get_scorer, get_scorer_names, make_scorer, scorers
from skuq.metrics._sharpness import sharpness
from skuq.metrics._skill import crps_skill_score, mean_standardized_log_loss
from skuq.metrics._ucc_curve import uncertainty_characteristics_curve
from skuq.metrics._ucc_scores import auucc_gain_score, auucc_loss, compare_characteristics_curves
from skuq.metrics._weighted_scores import (
    quantile_weighted_crps_loss,
    threshold_weighted_crps_loss,
    threshold_weighted_nll_loss,
)
from skuq.metrics._worst_slab import worst_slab_coverage

__all__ = [
    "adversarial_group_calibration_curve",
    "adversarial_group_calibration_error",
    "auucc_gain_score",
    "auucc_loss",
    "calibration_score_loss",
    "class_brier_loss",
    "class_log_loss",
    "class_reliability_table",
    "compare_characteristics_curves",
    "conditional_coverage",
    "conditional_coverage_error",
    "conditional_set_coverage",
    "coverage_width_loss",
    "crps_discrimination_score",
    "crps_loss",
    "crps_miscalibration_error",
    "crps_skill_score",
    "crps_uncertainty",
    "expected_calibration_error",
    "expected_coverage_probability_error",
    "expected_normalized_calibration_error",
    "get_scorer",
    "get_scorer_names",
    "interval_coverage_error",
    "interval_deficit",
    "interval_excess",
    "interval_miss_rate",
    "interval_score_loss",
    "make_scorer",
    "mean_absolute_calibration_error",
    "mean_interval_half_width",
    "mean_interval_width",
    "mean_set_size",
    "mean_standardized_log_loss",
    "miscalibration_area",
    "murphy_curve",
    "nll_loss",
    "normalized_mean_interval_width",
    "pinball_loss",
    "prediction_interval_coverage",
    "quantile_calibration_error",
    "quantile_weighted_crps_loss",
    "regression_calibration_curve",
    "reliability_table",
    "root_mean_squared_calibration_error",
    "scorers",
    "set_coverage_error",
    "set_coverage_score",
    "sharpness",
    "threshold_weighted_crps_loss",
    "threshold_weighted_nll_loss",
    "uncertainty_calibration_error",
    "uncertainty_characteristics_curve",
    "weighted_interval_score_loss",
    "worst_slab_coverage",
]
