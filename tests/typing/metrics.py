"""Types of the results of metrics."""

from __future__ import annotations

from typing import assert_type

import pandas as pd

from skuq import metrics
from skuq._typing import FloatArray
from skuq.distributions import Distribution


def check_metrics(X: FloatArray, y: FloatArray, dist: Distribution) -> None:
    assert_type(metrics.adversarial_group_calibration_error(y, dist), float)
    assert_type(metrics.auucc_gain_score(y, dist), float)
    assert_type(metrics.auucc_loss(y, dist), float)
    assert_type(metrics.calibration_score_loss(y, dist), float)
    assert_type(metrics.concordance_score(y, dist), float)
    assert_type(metrics.conditional_coverage_error(y, dist, X), float)
    assert_type(metrics.coverage_width_loss(y, dist), float)
    assert_type(metrics.crps_discrimination_score(y, dist), float)
    assert_type(metrics.class_brier_loss(y, X), float)
    assert_type(metrics.class_log_loss(y, X), float)
    assert_type(metrics.crps_loss(y, dist), float)
    assert_type(metrics.crps_miscalibration_error(y, dist), float)
    assert_type(metrics.crps_skill_score(y, dist), float)
    assert_type(metrics.crps_uncertainty(y, dist), float)
    assert_type(metrics.dawid_sebastiani_loss(y, dist), float)
    assert_type(metrics.energy_score_loss(y, dist), float)
    assert_type(metrics.expected_calibration_error(y, dist), float)
    assert_type(metrics.expected_coverage_probability_error(y, dist), float)
    assert_type(metrics.expected_normalized_calibration_error(y, dist), float)
    assert_type(metrics.interval_coverage_error(y, dist), float)
    assert_type(metrics.interval_deficit(y, dist), float)
    assert_type(metrics.interval_excess(y, dist), float)
    assert_type(metrics.interval_miss_rate(y, dist), float)
    assert_type(metrics.interval_score_loss(y, dist), float)
    assert_type(metrics.ipcw_brier_loss(y, dist, time=1.0), float)
    assert_type(metrics.ipcw_crps_loss(y, dist, upper=1.0), float)


def check_more_metrics(X: FloatArray, y: FloatArray, dist: Distribution) -> None:
    assert_type(metrics.linear_crps_loss(y, dist), float)
    assert_type(metrics.localized_crps_loss(y, dist), float)
    assert_type(metrics.mean_absolute_calibration_error(y, dist), float)
    assert_type(metrics.mean_crps_loss(y, dist), float)
    assert_type(metrics.mean_interval_half_width(y, dist), float)
    assert_type(metrics.mean_interval_width(y, dist), float)
    assert_type(metrics.mean_set_size(y, dist), float)
    assert_type(metrics.mean_standardized_log_loss(y, dist), float)
    assert_type(metrics.miscalibration_area(y, dist), float)
    assert_type(metrics.nll_loss(y, dist), float)
    assert_type(metrics.normalized_mean_interval_width(y, dist), float)
    assert_type(metrics.pinball_loss(y, dist), float)
    assert_type(metrics.prediction_interval_coverage(y, dist), float)
    assert_type(metrics.quantile_calibration_error(y, dist), float)
    assert_type(metrics.quantile_weighted_crps_loss(y, dist), float)
    assert_type(metrics.root_mean_squared_calibration_error(y, dist), float)
    assert_type(metrics.set_coverage_error(y, dist), float)
    assert_type(metrics.set_coverage_score(y, dist), float)
    assert_type(metrics.sharpness(y, dist), float)
    assert_type(metrics.threshold_weighted_crps_loss(y, dist), float)
    assert_type(metrics.threshold_weighted_nll_loss(y, dist), float)
    assert_type(metrics.uncertainty_calibration_error(y, dist), float)
    assert_type(metrics.variogram_score_loss(y, dist), float)
    assert_type(metrics.weighted_interval_score_loss(y, dist), float)
    assert_type(metrics.worst_slab_coverage(y, dist, X), float)


def check_tables(y: FloatArray, dist: Distribution) -> None:
    assert_type(metrics.class_reliability_table(y, dist), pd.DataFrame)
    assert_type(metrics.conditional_coverage(y, dist), pd.DataFrame)
    assert_type(metrics.conditional_set_coverage(y, dist), pd.DataFrame)
    assert_type(metrics.reliability_table(y, dist), pd.DataFrame)
    assert_type(metrics.survival_calibration_table(y, dist, time=1.0), pd.DataFrame)
    assert_type(
        metrics.adversarial_group_calibration_curve(y, dist), metrics.AdversarialGroupCalibrationCurve
    )
    assert_type(metrics.interval_coverage_bounds(y, dist), metrics.CoverageBounds)
    assert_type(metrics.joint_rank_histogram(y, dist), metrics.JointRankHistogram)
    assert_type(metrics.murphy_curve(y, dist), metrics.MurphyCurve)
    assert_type(metrics.regression_calibration_curve(y, dist), metrics.CalibrationCurve)
    assert_type(metrics.uncertainty_characteristics_curve(y, dist), metrics.UncertaintyCharacteristicsCurve)


def check_curves(curve: metrics.UncertaintyCharacteristicsCurve) -> None:
    assert_type(metrics.compare_characteristics_curves({"a": curve}), metrics.CharacteristicsComparison)
    assert_type(curve.area(), float)
    assert_type(curve.optimum(), metrics.CostOptimum)
    assert_type(curve.operating_point(miss_rate=0.1), metrics.OperatingPoint)


def check_scorers() -> None:
    assert_type(metrics.get_scorer_names(), list[str])
    assert_type(metrics.get_scorer("neg_crps").greater_is_better, bool | None)
    assert_type(metrics.make_scorer("crps").metric_name, str)
    assert_type(sorted(metrics.scorers("neg_crps", "neg_mace")), list[str])
