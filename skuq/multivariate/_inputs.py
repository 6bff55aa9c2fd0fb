"""Validation of the arguments of metrics for several targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_option, check_positive, check_sample_weight
from skuq.distributions import Distribution, JointDistribution
from skuq.metrics._inputs import rows_with_weight

Chain = Callable[[FloatArray], Any]
STD = "std"
"""With this option, the scale of a target is its standard deviation in ``y_true``."""


def check_joint_forecast(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, JointDistribution, FloatArray | None]:
    """Return targets of shape (n, d), their forecast, and the weights. Rows of weight 0 are removed."""
    if isinstance(y_pred, Distribution):
        raise TypeError(
            f"`y_pred` must be a JointDistribution of several targets, got the univariate "
            f"{type(y_pred).__name__}. Use `crps_loss`, or build a `skuq.multivariate.CopulaJoint` from "
            "the marginals."
        )
    if not isinstance(y_pred, JointDistribution):
        raise TypeError(
            "`y_pred` must be a JointDistribution, for example from `predict_dist` of "
            f"`skuq.multivariate.MultiOutputUncertaintyRegressor`, got {type(y_pred).__name__}. For an array "
            "of members, use `skuq.multivariate.EmpiricalJoint(members)`."
        )
    if y_true is None:
        raise ValueError("`y_true` must hold observed values, one row per sample, got None.")
    y = check_finite(y_pred._check_y(y_true, "y_true"), "y_true")
    weight = check_sample_weight(sample_weight, len(y_pred))
    y, _ = rows_with_weight(y, weight)
    dist, weight = rows_with_weight(y_pred, weight)
    return y, dist, weight


def check_scaled_forecast(
    y_true: ArrayLike,
    y_pred: Any,
    sample_weight: ArrayLike | None,
    scale: ArrayLike | Literal["std"] | None,
) -> tuple[FloatArray, JointDistribution, FloatArray | None, FloatArray]:
    """Return the results of `check_joint_forecast`, and the divisor of each target."""
    y, dist, weight = check_joint_forecast(y_true, y_pred, sample_weight)
    return y, dist, weight, check_scale(scale, y, weight)


def check_scale(
    scale: ArrayLike | Literal["std"] | None, y: FloatArray, weight: FloatArray | None
) -> FloatArray:
    """Return the positive divisor of each target, shape (d,)."""
    d = y.shape[1]
    if scale is None:
        return np.ones(d)
    if isinstance(scale, str):
        check_option(scale, "scale", (STD,))
        center = np.average(y, axis=0, weights=weight)
        std = np.sqrt(np.average(np.square(y - center), axis=0, weights=weight))
        constant = ~(std > 0)
        if constant.any():
            raise ValueError(
                f"`y_true` must vary in every column for scale='std', but column {int(np.argmax(constant))} "
                "is constant. Pass the standard deviations of the training targets as `scale`."
            )
        return np.asarray(std)
    divisor = check_finite(as_float_array(scale, "scale"), "scale")
    if divisor.shape not in {(), (d,)}:
        raise ValueError(f"`scale` must be a number or have shape ({d},), got {divisor.shape}.")
    return check_positive(np.array(np.broadcast_to(divisor, (d,))), "scale")


def transform(values: FloatArray, chain: Chain | None, scale: FloatArray) -> FloatArray:
    """Return the chaining function at points of shape (..., d), divided by the scale of each target."""
    chained = values if chain is None else _apply_chain(chain, values)
    return chained if (scale == 1).all() else chained / scale


def _apply_chain(chain: Chain, values: FloatArray) -> FloatArray:
    mapped = as_float_array(chain(values), "the result of chain")
    if mapped.shape != values.shape:
        raise ValueError(
            f"`chain` must map points of shape (..., d) to points of the same shape, but shape "
            f"{values.shape} became {mapped.shape}."
        )
    return check_finite(mapped, "the result of chain")


def check_chain(chain: Any) -> None:
    if chain is not None and not callable(chain):
        raise TypeError(f"`chain` must be callable or None, got {type(chain).__name__}.")


def coincidence(weights: FloatArray | None, rows: int, k: int) -> FloatArray:
    """Return the probability that two random points of a row are the same point, shape (rows,)."""
    return np.full(rows, 1.0 / k) if weights is None else np.square(weights).sum(axis=1)


def unbiased_factor(weights: FloatArray | None, rows: int, k: int) -> FloatArray:
    """Return 1 / (1 - coincidence). A mean over pairs of different points has this factor."""
    coincide = coincidence(weights, rows, k)
    if (coincide > 1 - 1e-9).any():
        raise ValueError(
            "`y_pred` must have at least two points of positive weight in every row for "
            "crps_estimator='fair'. Use crps_estimator='nrg'."
        )
    return 1.0 / (1.0 - coincide)
