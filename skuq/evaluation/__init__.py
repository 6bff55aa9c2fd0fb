"""Reports, resampling, tests, score decompositions, decisions, agreement of metrics, coverage and shifts."""

from skuq.evaluation._decisions import expected_loss, optimal_action
from skuq.evaluation._decomposition import compare_score_decompositions, score_decomposition
from skuq.evaluation._economic_value import relative_economic_value
from skuq.evaluation._metric_agreement import metric_agreement
from skuq.evaluation._reliability import (
    probability_reliability_curve,
    quantile_reliability_curve,
)
from skuq.evaluation._report import uncertainty_report
from skuq.evaluation._shift_curve import Tilt, shift_curve
from skuq.evaluation._significance import bootstrap_interval, paired_permutation_test
from skuq.metrics._conditional_coverage import conditional_coverage_estimate

__all__ = [
    "Tilt",
    "bootstrap_interval",
    "compare_score_decompositions",
    "conditional_coverage_estimate",
    "expected_loss",
    "metric_agreement",
    "optimal_action",
    "paired_permutation_test",
    "probability_reliability_curve",
    "quantile_reliability_curve",
    "relative_economic_value",
    "score_decomposition",
    "shift_curve",
    "uncertainty_report",
]
