"""A calibrated predictive distribution for every scikit-learn regressor.

Only the names of the quick start are here; all else is imported from its package:

- ``skuq.prediction``: any fitted estimator to a distribution, or to prediction sets
- ``skuq.regressors``: regressors that give a distribution
- ``skuq.classifiers``: classifiers that give prediction sets
- ``skuq.neural``: those that are neural networks (extra ``torch``)
- ``skuq.recalibration``: distributions to better ones
- ``skuq.metrics``: metrics and scorers
- ``skuq.model_selection``: out-of-fold distributions, choice under constraints
- ``skuq.simulation``: pointwise coverage over repeated training sets
- ``skuq.displays``: pictures
- ``skuq.integrations``: dask collections (extra ``dask``), FLAML, AutoGluon, TPOT, skore and MLflow
- ``skuq.distributions``: the distributions themselves
- ``skuq.exceptions``: errors and warnings
"""

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
    "supports_dist",
]
