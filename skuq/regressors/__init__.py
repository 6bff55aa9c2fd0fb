"""Regressors with a predictive distribution. Most of them wrap another regressor."""

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq.regressors._bootstrap import BootstrapRegressor
from skuq.regressors._default_estimators import default_estimators
from skuq.regressors._forest_distribution import ForestDistributionRegressor
from skuq.regressors._functional import FunctionalRegressor
from skuq.regressors._hurdle import HurdleRegressor
from skuq.regressors._least_squares import LeastSquaresRegressor
from skuq.regressors._mixture import MixtureRegressor
from skuq.regressors._multi_quantile import MultiQuantileRegressor
from skuq.regressors._recalibrated import RecalibratedRegressor
from skuq.regressors._residual import ResidualRegressor
from skuq.regressors._sparse_gaussian_process import SparseGaussianProcessRegressor
from skuq.regressors._uncertainty import UncertaintyRegressor

__all__ = [
    "BaseUncertaintyRegressor",
    "BootstrapRegressor",
    "ForestDistributionRegressor",
    "FunctionalRegressor",
    "HurdleRegressor",
    "LeastSquaresRegressor",
    "MixtureRegressor",
    "MultiQuantileRegressor",
    "RecalibratedRegressor",
    "ResidualRegressor",
    "SparseGaussianProcessRegressor",
    "UncertaintyRegressor",
    "default_estimators",
]
