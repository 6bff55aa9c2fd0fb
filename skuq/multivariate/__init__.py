"""Several targets: joint distributions, regressors, scores, regions, reports and plots.

.. code-block:: text

    X -> regressor -> JointDistribution -> score, report, plot or region

    distributions  _normal, _copula, _empirical, _concatenated, _template
                   given the other targets: _conditional
    regressors     one regressor per target and their dependence: _base_regressor, _multi_output, _dependence
    regions        _conformal_region, _regions
    forecasts      scores _scores, _moment_scores; ranks _rank_histogram; report _report; plot _pair_display
    predict_dist   back to the units of the targets: _transformed_target
"""

# `_concatenated` completes the base class: `concat` of joint distributions needs it.
from skuq.multivariate import _concatenated  # noqa: F401
from skuq.multivariate._conformal_region import ConformalRegionRegressor
from skuq.multivariate._copula import CopulaJoint
from skuq.multivariate._empirical import EmpiricalJoint
from skuq.multivariate._moment_scores import dawid_sebastiani_loss, linear_crps_loss, mean_crps_loss
from skuq.multivariate._multi_output import MultiOutputUncertaintyRegressor
from skuq.multivariate._normal import NormalJoint
from skuq.multivariate._pair_display import JointPairDisplay
from skuq.multivariate._rank_histogram import JointRankHistogramDisplay, joint_rank_histogram
from skuq.multivariate._report import joint_report
from skuq.multivariate._scores import energy_score_loss, variogram_score_loss
from skuq.multivariate._template import normal_template, rank_template

__all__ = [
    "ConformalRegionRegressor",
    "CopulaJoint",
    "EmpiricalJoint",
    "JointPairDisplay",
    "JointRankHistogramDisplay",
    "MultiOutputUncertaintyRegressor",
    "NormalJoint",
    "dawid_sebastiani_loss",
    "energy_score_loss",
    "joint_rank_histogram",
    "joint_report",
    "linear_crps_loss",
    "mean_crps_loss",
    "normal_template",
    "rank_template",
    "variogram_score_loss",
]
