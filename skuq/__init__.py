"""A calibrated predictive distribution for every scikit-learn regressor.

The quick start uses the names of this package. Import all other names from these packages, which are loaded
on their first use, for example by ``skuq.metrics.crps_loss`` after ``import skuq``:

- ``skuq.prediction``: distributions and prediction sets of fitted estimators
- ``skuq.regressors``: regressors with a predictive distribution
- ``skuq.conformal``: conformal intervals and prediction sets of any regressor or classifier
- ``skuq.neural``: neural networks with a predictive distribution (extra ``torch``)
- ``skuq.multivariate``: several targets: joint distributions, regressors, scores and regions
- ``skuq.survival``: censored targets: regressors, scores, reports and curves
- ``skuq.recalibration``: recalibration of distributions
- ``skuq.metrics``: metrics and scorers
- ``skuq.evaluation``: reports, resampling and tests, conditional coverage, scores under shifts
- ``skuq.monitoring``: metrics of blocks of rows, and calibration over time
- ``skuq.model_selection``: out-of-fold distributions, selection under constraints
- ``skuq.simulation``: pointwise coverage over repeated training sets
- ``skuq.displays``: plots
- ``skuq.report``: the evaluation of forecasts as one HTML page, and the command line
- ``skuq.datasets``: data sets of the papers, real and synthetic
- ``skuq.integrations``: dask collections (extra ``dask``), FLAML, TPOT, skore and MLflow
- ``skuq.distributions``: families of distributions
- ``skuq.exceptions``: errors and warnings
"""

import typing as _typing
from importlib import import_module as _import_module

from skuq._compat import __version__

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

_HOMES = {
    "RecalibratedRegressor": "skuq.regressors",
    "UncertaintyRegressor": "skuq.regressors",
    "get_scorer": "skuq.metrics",
    "predict_dist": "skuq.prediction",
    "register": "skuq.prediction",
    "show_versions": "skuq._compat",
    "supports_dist": "skuq.prediction",
}
_PACKAGES = (
    "conformal",
    "datasets",
    "displays",
    "distributions",
    "evaluation",
    "exceptions",
    "integrations",
    "metrics",
    "model_selection",
    "monitoring",
    "multivariate",
    "neural",
    "prediction",
    "recalibration",
    "regressors",
    "report",
    "simulation",
    "survival",
)

# Type checkers and editors read the imports. At run time, a package is imported on its first use.
if _typing.TYPE_CHECKING:
    from skuq import conformal as conformal
    from skuq import datasets as datasets
    from skuq import displays as displays
    from skuq import distributions as distributions
    from skuq import evaluation as evaluation
    from skuq import exceptions as exceptions
    from skuq import integrations as integrations
    from skuq import metrics as metrics
    from skuq import model_selection as model_selection
    from skuq import monitoring as monitoring
    from skuq import multivariate as multivariate
    from skuq import neural as neural
    from skuq import prediction as prediction
    from skuq import recalibration as recalibration
    from skuq import regressors as regressors
    from skuq import report as report
    from skuq import simulation as simulation
    from skuq import survival as survival
    from skuq._compat import show_versions
    from skuq.metrics import get_scorer
    from skuq.prediction import predict_dist, register, supports_dist
    from skuq.regressors import RecalibratedRegressor, UncertaintyRegressor
else:

    def __getattr__(name: str) -> object:
        """Import a package of skuq, or a name that `skuq` itself exports, on first access."""
        if name in _HOMES:
            value = getattr(_import_module(_HOMES[name]), name)
        elif name in _PACKAGES:
            value = _import_module(f"skuq.{name}")
        else:
            raise AttributeError(f"module 'skuq' has no attribute {name!r}")
        globals()[name] = value  # The next access does not call this function.
        return value

    def __dir__() -> list[str]:
        """Return all names. Omit `neural` until it is loaded, because `help(skuq)` would import torch."""
        return sorted({*globals(), *_HOMES, *_PACKAGES} - ({"neural"} - set(globals())))
