"""Reports, resampling, tests, decisions, metric agreement, conditional coverage, scores under shift."""

from skuq.evaluation._conditional_coverage import ConditionalCoverageEstimate, conditional_coverage_estimate
from skuq.evaluation._decisions import expected_loss, optimal_action
from skuq.evaluation._economic_value import relative_economic_value
from skuq.evaluation._metric_agreement import MetricAgreement, metric_agreement
from skuq.evaluation._report.report import uncertainty_report
from skuq.evaluation._report.table import UncertaintyReport
from skuq.evaluation._shift_curve import Tilt, shift_curve
from skuq.evaluation._significance import (
    BootstrapInterval,
    PermutationTest,
    bootstrap_interval,
    paired_permutation_test,
)

__all__ = [
    "BootstrapInterval",
    "ConditionalCoverageEstimate",
    "MetricAgreement",
    "PermutationTest",
    "Tilt",
    "UncertaintyReport",
    "bootstrap_interval",
    "conditional_coverage_estimate",
    "expected_loss",
    "metric_agreement",
    "optimal_action",
    "paired_permutation_test",
    "relative_economic_value",
    "shift_curve",
    "uncertainty_report",
]
