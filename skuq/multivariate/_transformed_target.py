"""Joint distributions of TransformedTargetRegressor, transformed back to the units of each target."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from skuq._typing import FloatArray
from skuq.distributions import Distribution, JointDistribution, Normal
from skuq.multivariate._concatenated import ConcatenatedJoint
from skuq.multivariate._copula import CopulaJoint
from skuq.multivariate._empirical import EmpiricalJoint
from skuq.multivariate._normal import NormalJoint
from skuq.multivariate._template import normal_template
from skuq.prediction._target import backward, flatten, map_back

_FITTED_COLUMNS: dict[type, tuple[str, ...]] = {
    StandardScaler: ("mean_", "var_", "scale_"),
    RobustScaler: ("center_", "scale_"),
    MaxAbsScaler: ("max_abs_", "scale_"),
    MinMaxScaler: ("min_", "scale_", "data_min_", "data_max_", "data_range_"),
    PowerTransformer: ("lambdas_",),
    QuantileTransformer: ("quantiles_",),
    FunctionTransformer: (),
}
"""Attributes with one entry or one column per target. Each of these transformers transforms the columns
separately."""

_PROBE = 5
"""Number of rows for which the inverse of all columns is compared with the inverse of each column."""


def map_joint_back(dist: JointDistribution, transformer: Any) -> JointDistribution:
    """Return the joint distribution of y, given the distribution of ``transformer.transform(y)``.

    A monotone function of each column changes the marginals. The ranks are unchanged or reversed.
    """
    steps = flatten(transformer)
    if not steps:
        return dist
    columns = [[_of_column(step, j) for step in steps] for j in range(dist.shape[1])]
    _check_columns(dist, steps, columns)
    return _map_columns(dist, columns)


def _map_columns(dist: JointDistribution, columns: list[list[Any]]) -> JointDistribution:
    """Return the joint distribution after the inverse steps of each target."""
    if isinstance(dist, ConcatenatedJoint):
        return ConcatenatedJoint([_map_columns(part, columns) for part in dist.parts], dist.order)
    if isinstance(dist, EmpiricalJoint):
        return _map_members(dist.members, columns, dist.weights, dist.names)
    pairs = list(zip(dist.marginals(), columns, strict=True))
    marginals = [map_back(marginal, steps) for marginal, steps in pairs]
    falls = np.array([_is_decreasing(marginal, steps) for marginal, steps in pairs])
    sign = np.where(falls, -1.0, 1.0)
    if isinstance(dist, CopulaJoint):
        return CopulaJoint(
            marginals,
            np.where(falls, 1.0 - dist.ranks, dist.ranks),
            weights=dist.weights,
            correlation=None if dist.correlation is None else np.outer(sign, sign) * dist.correlation,
            names=dist.names,
        )
    if not isinstance(dist, NormalJoint):
        raise TypeError(
            "TransformedTargetRegressor must have a joint distribution of skuq's families, got "
            f"{type(dist).__name__}. Use CopulaJoint, NormalJoint or EmpiricalJoint."
        )
    if all(type(marginal) is Normal for marginal in marginals):
        loc, std = (
            np.column_stack([getattr(marginal, moment)() for marginal in marginals])
            for moment in ("mean", "std")
        )
        scaled = sign * std
        return NormalJoint(loc, scaled[:, :, np.newaxis] * dist.corr() * scaled[:, np.newaxis], dist.names)
    if dist.covariance.ndim == 2:
        correlation = np.outer(sign, sign) * dist.corr()[0]
        return CopulaJoint(marginals, normal_template(correlation), correlation=correlation, names=dist.names)
    return _map_members(dist._points(slice(None))[0], columns, None, dist.names)


def _map_members(
    members: FloatArray, columns: list[list[Any]], weights: FloatArray | None, names: tuple[str, ...] | None
) -> EmpiricalJoint:
    mapped = [backward(tuple(steps), values) for steps, values in zip(columns, members.T, strict=True)]
    return EmpiricalJoint(np.stack(mapped).T, weights, names)


def _is_decreasing(marginal: Distribution, steps: list[Any]) -> bool:
    finite = marginal._finite_part()
    ends = np.array([finite._ppf(np.asarray(0.05)).min(), finite._isf(np.asarray(0.05)).max()])
    low, high = backward(tuple(steps), ends)
    return bool(high < low)


def _of_column(step: Any, j: int) -> Any:
    """Return a copy of a fitted transformer for column j alone."""
    names = _FITTED_COLUMNS.get(type(step))
    if names is None:
        known = ", ".join(sorted(kind.__name__ for kind in _FITTED_COLUMNS))
        raise ValueError(
            "the transformer of TransformedTargetRegressor must transform each target separately, got "
            f"{type(step).__name__}, which may combine several targets. Use one of {known}."
        )
    column = copy.copy(step)
    for name in names:
        values = getattr(step, name, None)
        if values is not None:
            setattr(column, name, np.asarray(values)[..., j : j + 1])
    if getattr(step, "_scaler", None) is not None:  # PowerTransformer standardizes its output
        column._scaler = _of_column(step._scaler, j)
    for name in ("feature_names_in_", "n_features_in_"):
        vars(column).pop(name, None)
    if hasattr(step, "n_features_in_"):
        column.n_features_in_ = 1
    return column


def _check_columns(dist: JointDistribution, steps: list[Any], columns: list[list[Any]]) -> None:
    """Raise an error if the inverse of a FunctionTransformer mixes the columns."""
    if not any(isinstance(step, FunctionTransformer) for step in steps):
        return
    points = np.column_stack([marginal.median() for marginal in dist[:_PROBE].marginals()])
    together = points
    for step in reversed(steps):
        with np.errstate(all="ignore"):
            together = np.asarray(step.inverse_transform(together), dtype=np.float64)
    pairs = zip(columns, points.T, strict=True)
    try:
        alone = np.column_stack([backward(tuple(column), values) for column, values in pairs])
    except ValueError:  # a product with a matrix is not defined for one column
        alone = np.empty(0)
    if together.shape != alone.shape or not np.allclose(together, alone, rtol=1e-6, equal_nan=True):
        raise ValueError(
            "`inverse_func` of TransformedTargetRegressor must transform each target separately, but it "
            "mixes the targets. Transform each target with a function of this target only."
        )
