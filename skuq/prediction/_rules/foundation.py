"""Distributions of foundation models for tables: TabPFN and TabICL.

These models learn in context: `fit` stores the training rows, and a prediction reads the stored rows. The
packages and the weights are not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions import Binned, Quantiles
from skuq.prediction._failures import check_predictions
from skuq.prediction._registry import Adapter
from skuq.prediction._rules.quantile_estimators import FINE_LEVELS

_LEAST_LOG_WEIGHT = -1e6
"""Logarithm of the weight of an empty bin. The weight itself underflows to 0."""


def _tabpfn_dist(estimator: Any, X: Any) -> Binned:
    output = estimator.predict(X, output_type="full")
    bars = output["criterion"]
    # `np.maximum` keeps NaN, so the check below still finds NaN.
    log_weights = np.maximum(_to_numpy(output["logits"]), _LEAST_LOG_WEIGHT)
    edges, log_weights = join_empty_bins(_to_numpy(bars.borders), check_predictions(log_weights, estimator))
    return Binned(edges, log_weights, tails=hasattr(bars, "halfnormal_with_p_weight_before"))


def _to_numpy(tensor: Any) -> FloatArray:
    return np.asarray(tensor.detach().cpu().double().numpy())


def join_empty_bins(edges: FloatArray, log_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Add the weight of each bin of width 0 to a neighbor.

    In single precision, neighboring edges are equal if the targets are large and vary little. If all edges
    are equal, the result is one bin of the smallest width in single precision.
    """
    wide = np.flatnonzero(np.diff(edges) > 0)
    if not wide.size:
        half = abs(float(np.spacing(np.float32(edges[0])))) / 2
        return edges[0] + np.array([-half, half]), np.zeros((len(log_weights), 1))
    if wide.size == len(edges) - 1:
        return edges, log_weights
    starts = np.concatenate([[0], wide[:-1] + 1])
    joined = np.logaddexp.reduceat(log_weights, starts, axis=1)
    return np.concatenate([edges[wide], edges[wide[-1:] + 1]]), joined


def _tabicl_dist(estimator: Any, X: Any) -> Quantiles:
    values = estimator.predict(X, output_type="quantiles", alphas=FINE_LEVELS)
    return Quantiles(FINE_LEVELS, check_predictions(np.asarray(values, dtype=np.float64), estimator))


def _has_calibrated_temperature(estimator: Any) -> bool:
    """Return whether TabPFN calibrates its temperature by its parameter ``eval_metric``."""
    tuning = getattr(estimator, "tuning_config", None)
    if isinstance(tuning, Mapping):
        return bool(tuning.get("calibrate_temperature"))
    return bool(getattr(tuning, "calibrate_temperature", False))


FOUNDATION_ADAPTERS: dict[str, Adapter] = {
    "tabpfn.TabPFNRegressor": Adapter(_tabpfn_dist, in_context=True, calibrated=_has_calibrated_temperature),
    "tabpfn.finetuning.FinetunedTabPFNRegressor": Adapter(_tabpfn_dist),
    "tabicl.TabICLRegressor": Adapter(_tabicl_dist, in_context=True),
    "tabicl._finetune.regressor.FinetunedTabICLRegressor": Adapter(_tabicl_dist),
}
"""Adapters by the path from which users import the class, or by the module of a class that is imported late.

Fine-tuned models are trained, so they do not only learn in context."""
