"""Types of the results of metrics."""

from __future__ import annotations

from typing import assert_type

import pandas as pd

from skuq import metrics, multivariate, survival
from skuq._typing import FloatArray
from skuq.distributions import Distribution
from skuq.metrics._adversarial import AdversarialGroupCalibrationCurve
from skuq.metrics._average_calibration import CalibrationCurve
from skuq.metrics._murphy import MurphyCurve
from skuq.metrics._ucc_curve import OperatingPoint, UncertaintyCharacteristicsCurve
from skuq.metrics._ucc_scores import CharacteristicsComparison
from skuq.multivariate._rank_histogram import JointRankHistogram
from skuq.survival._calibration import CoverageBounds


def check_metrics(X: FloatArray, y: FloatArray, dist: Distribution) -> None:
    assert_type(metrics.crps_loss(y, dist), float)
    assert_type(metrics.class_brier_loss(y, X), float)
    assert_type(metrics.conditional_coverage_error(y, dist, X), float)
    assert_type(survival.ipcw_brier_loss(y, dist, time=1.0), float)
    assert_type(survival.ipcw_crps_loss(y, dist, upper=1.0), float)


def check_tables(y: FloatArray, dist: Distribution) -> None:
    assert_type(metrics.class_reliability_table(y, dist), pd.DataFrame)
    assert_type(metrics.conditional_coverage(y, dist), pd.DataFrame)
    assert_type(metrics.conditional_set_coverage(y, dist), pd.DataFrame)
    assert_type(metrics.reliability_table(y, dist), pd.DataFrame)
    assert_type(survival.survival_calibration_table(y, dist, time=1.0), pd.DataFrame)
    assert_type(metrics.adversarial_group_calibration_curve(y, dist), AdversarialGroupCalibrationCurve)
    assert_type(survival.interval_coverage_bounds(y, dist), CoverageBounds)
    assert_type(multivariate.joint_rank_histogram(y, dist), JointRankHistogram)
    assert_type(metrics.murphy_curve(y, dist), MurphyCurve)
    assert_type(metrics.regression_calibration_curve(y, dist), CalibrationCurve)
    assert_type(metrics.uncertainty_characteristics_curve(y, dist), UncertaintyCharacteristicsCurve)


def check_curves(curve: UncertaintyCharacteristicsCurve) -> None:
    assert_type(metrics.compare_characteristics_curves({"a": curve}), CharacteristicsComparison)
    assert_type(curve.area(), float)
    assert_type(curve.optimum(cost=0.5), OperatingPoint)
    assert_type(curve.operating_point(miss_rate=0.1), OperatingPoint)


def check_scorers() -> None:
    assert_type(metrics.get_scorer_names(), list[str])
    assert_type(metrics.get_scorer("neg_crps").greater_is_better, bool | None)
    assert_type(metrics.make_scorer("crps").metric_name, str)
    assert_type(sorted(metrics.scorers("neg_crps", "neg_mace")), list[str])
