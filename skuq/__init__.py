"""A calibrated predictive distribution for every scikit-learn regressor.

The quick start uses the names of this package. Import all other names from these packages:

- ``skuq.prediction``: distributions and prediction sets of fitted estimators
- ``skuq.regressors``: regressors with a predictive distribution
- ``skuq.classifiers``: classifiers with prediction sets
- ``skuq.censoring``: targets and weights of censored rows, the Kaplan-Meier curve
- ``skuq.neural``: neural networks with a predictive distribution (extra ``torch``)
- ``skuq.recalibration``: recalibration of distributions
- ``skuq.metrics``: metrics and scorers
- ``skuq.evaluation``: reports, resampling and tests, conditional coverage, scores under shifts
- ``skuq.monitoring``: metrics of blocks of rows, and calibration over time
- ``skuq.model_selection``: out-of-fold distributions, selection under constraints
- ``skuq.simulation``: pointwise coverage over repeated training sets
- ``skuq.displays``: plots
- ``skuq.datasets``: data sets of the papers, real and synthetic
- ``skuq.integrations``: dask collections (extra ``dask``), FLAML, AutoGluon, TPOT, skore and MLflow
- ``skuq.distributions``: families of distributions
- ``skuq.exceptions``: errors and warnings
"""

from skuq._cli.versions import show_versions
from skuq._versioned import __version__
from skuq.metrics import get_scorer
from skuq.prediction import predict_dist, register, supports_dist
from skuq.regressors import RecalibratedRegressor, UncertaintyRegressor

__all__ = [
    "RecalibratedRegressor",
    "UncertaintyRegressor",
    "__version__",
    "get_scorer",
    "predict_dist",
    "register",
    "show_versions",
    "supports_dist",
]
