"""Reports, resampling, tests, agreement of metrics, conditional coverage and scores under shift."""

from skuq.evaluation._conditional_coverage import ConditionalCoverageEstimate, conditional_coverage_estimate
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
    "metric_agreement",
    "paired_permutation_test",
    "shift_curve",
    "uncertainty_report",
]
