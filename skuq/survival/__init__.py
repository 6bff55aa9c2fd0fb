"""Censored targets, such as waiting times: regressors, scores, reports and curves.

A row is right-censored if its target is only known to be larger than y. The argument ``event`` of a function
is False in these rows.

.. code-block:: text

    targets      and the base class of regressors _targets, _kaplan_meier
    regressors   boosting with the likelihood of all rows: _censored_boosting
                 any regressor with weights of observed rows: _censoring_weighted
                 lower bounds with a guaranteed coverage: _conformal_survival
    forecasts    scores _scores, calibration and ranks _calibration, report _report,
                 curves _survival_curve_display
"""

from skuq.survival._calibration import concordance_score, interval_coverage_bounds, survival_calibration_table
from skuq.survival._censored_boosting import CensoredBoostingRegressor
from skuq.survival._censoring_weighted import CensoringWeightedRegressor
from skuq.survival._conformal_survival import ConformalSurvivalRegressor
from skuq.survival._kaplan_meier import censoring_weights, kaplan_meier_curve
from skuq.survival._report import survival_report
from skuq.survival._scores import ipcw_brier_loss, ipcw_crps_loss, localized_crps_loss
from skuq.survival._survival_curve_display import SurvivalCurveDisplay
from skuq.survival._targets import from_survival

__all__ = [
    "CensoredBoostingRegressor",
    "CensoringWeightedRegressor",
    "ConformalSurvivalRegressor",
    "SurvivalCurveDisplay",
    "censoring_weights",
    "concordance_score",
    "from_survival",
    "interval_coverage_bounds",
    "ipcw_brier_loss",
    "ipcw_crps_loss",
    "kaplan_meier_curve",
    "localized_crps_loss",
    "survival_calibration_table",
    "survival_report",
]
