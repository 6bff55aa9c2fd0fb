"""Neural networks with predictive distributions, based on torch and skorch.

Requires the extra ``torch``.
"""

from importlib import import_module as _import_module

try:
    _import_module("torch")  # first, because skorch without torch raises another error
    _import_module("skorch")
except ImportError as error:
    raise ImportError(
        'skuq.neural needs torch and skorch, which are not installed: pip install "skuq[torch]"'
    ) from error

from skuq.neural._base import fit_many
from skuq.neural._bootstrap_net import BootstrapNetRegressor
from skuq.neural._concrete_dropout import ConcreteDropoutRegressor
from skuq.neural._deep_ensemble import DeepEnsembleClassifier, DeepEnsembleRegressor
from skuq.neural._laplace import LastLayerLaplaceRegressor
from skuq.neural._losses import (
    BetaNLLLoss,
    CheckLoss,
    CRPSLoss,
    IntervalLoss,
    Loss,
    NLLLoss,
    SquaredErrorLoss,
)
from skuq.neural._mc_dropout import MCDropoutClassifier, MCDropoutRegressor
from skuq.neural._pnn import PNNRegressor
from skuq.neural._probabilistic_net import ProbabilisticNet
from skuq.neural._swa import SWARegressor
from skuq.neural._variational import VariationalClassifier, VariationalRegressor

__all__ = [
    "BetaNLLLoss",
    "BootstrapNetRegressor",
    "CRPSLoss",
    "CheckLoss",
    "ConcreteDropoutRegressor",
    "DeepEnsembleClassifier",
    "DeepEnsembleRegressor",
    "IntervalLoss",
    "LastLayerLaplaceRegressor",
    "Loss",
    "MCDropoutClassifier",
    "MCDropoutRegressor",
    "NLLLoss",
    "PNNRegressor",
    "ProbabilisticNet",
    "SWARegressor",
    "SquaredErrorLoss",
    "VariationalClassifier",
    "VariationalRegressor",
    "fit_many",
]
