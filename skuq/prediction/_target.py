"""Distributions of TransformedTargetRegressor, mapped back to the units of y.

For affine scalers, the result has the same family and the same decomposition as the distribution of the
regressor. For other transformers, the result is a `Transformed` distribution. The inverse of such a
transformer must be monotone over the range of the predictions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution, Normal, Transformed, affine, concat
from skuq.distributions._transformed import derivative

_TAIL = 1e-6
"""The map must be defined and monotone between the quantiles at this level and at 1 minus this level."""

_LARGEST = np.finfo(np.float64).max


def map_back(dist: Distribution, transformer: Any) -> Distribution:
    """Return the distribution of y, given the distribution of ``transformer.transform(y)``."""
    steps = flatten(transformer)
    # The inverses of the steps are applied in reverse order. Affine steps do not change the family.
    while steps and (scale := _affine_inverse(steps[-1])) is not None:
        steps.pop()
        if scale != (0.0, 1.0):
            dist = affine(dist, shift=scale[0], factor=scale[1])
    return _push_through(dist, tuple(steps)) if steps else dist


def _push_through(dist: Distribution, steps: tuple[Any, ...]) -> Distribution:
    """Return the transformed distribution. Rows with infinite tail quantiles are transformed separately."""
    if isinstance(dist, Normal) and not dist.scale.any():
        return Normal(backward(steps, dist.loc), 0.0)  # For point masses, the map need not be monotone.
    # A conformal distribution has finite quantiles only between its outermost scores.
    finite = dist._finite_part()
    low, high = finite.ppf(_TAIL), finite.ppf(1.0 - _TAIL)
    leaves = np.isinf(backward(steps, low)) | np.isinf(backward(steps, high))
    parts: list[Distribution] = []
    rows: list[IntArray] = []
    for index in (np.flatnonzero(~leaves), np.flatnonzero(leaves)):
        if len(index):
            domain = float(low[index].min()), float(high[index].max())
            target_map = _TargetMap.between(steps, *domain, endless=finite is not dist)
            part = dist if len(index) == len(dist) else dist[index]
            parts.append(
                Transformed(part, target_map.to_target, target_map.to_model, target_map.model_derivative)
            )
            rows.append(index)
    return parts[0] if len(parts) == 1 else concat(parts)[np.argsort(np.concatenate(rows))]


def flatten(transformer: Any) -> list[Any]:
    if transformer is None or transformer == "passthrough":
        return []
    if isinstance(transformer, list):
        return list(transformer)
    if isinstance(transformer, Pipeline):
        return [inner for _, step in transformer.steps for inner in flatten(step)]
    return [transformer]


def _affine_inverse(step: Any) -> tuple[float, float] | None:
    """Return (shift, factor) of the inverse of a step. Return None if its class is not known to be affine."""
    kind = type(step)  # The exact class is compared, because a subclass may change the map.
    if kind is StandardScaler:
        # The attribute mean_ exists even if the mean is not subtracted.
        shift = step.mean_ if step.with_mean else None
        return _only(shift, 0.0), _only(step.scale_, 1.0)
    if kind is RobustScaler:
        shift = step.center_ if step.with_centering else None
        return _only(shift, 0.0), _only(step.scale_ if step.with_scaling else None, 1.0)
    if kind is MaxAbsScaler:
        return 0.0, _only(step.scale_, 1.0)
    if kind is MinMaxScaler:
        factor = 1.0 / _only(step.scale_, 1.0)
        return -_only(step.min_, 0.0) * factor, factor
    if kind is FunctionTransformer and step.func is None and step.inverse_func is None:
        return 0.0, 1.0
    return None


def _only(values: Any, default: float) -> float:
    if values is None:
        return default
    if np.size(values) != 1:
        raise ValueError(_one_column(np.size(values)))
    return float(np.ravel(values)[0])


def _one_column(columns: int) -> str:
    return (
        f"the transformer of TransformedTargetRegressor must return one column, got {columns}. skuq handles "
        "one target at a time. Fit the transformer on a y with one column."
    )


@dataclass(frozen=True, eq=False)
class _TargetMap:
    """Monotone map between the scale z of the model and the scale y of the target, with its domain.

    ``domain`` contains the lowest and highest relevant z, and ``image`` the corresponding y. If the map is
    not monotone beyond the domain, for example at the pole of 1/z, y is clipped to the image. With
    ``endless``, an infinite z is mapped to an infinite y, because the bound is unknown.
    """

    steps: tuple[Any, ...]
    domain: tuple[float, float]
    image: tuple[float, float]
    hold: bool
    endless: bool = False

    @classmethod
    def between(cls, steps: tuple[Any, ...], low: float, high: float, *, endless: bool = False) -> _TargetMap:
        """Return the map over a range of z. Raise an error if the map is not monotone in this range."""
        low, high = max(low, -_LARGEST / 4), min(high, _LARGEST / 4)
        if not low < high:  # For point masses, the check uses a small range around them.
            margin = 1e-3 * max(abs(low), 1.0)
            low, high = low - margin, high + margin
        values = backward(steps, np.linspace(low, high, 513))
        # Values are compared, because the difference of two infinities would be NaN.
        left, right = values[:-1], values[1:]
        if np.isnan(values).any() or not ((right >= left).all() or (right <= left).all()):
            raise ValueError(
                "the inverse transformation of TransformedTargetRegressor must be monotone and defined over "
                f"the range of the predicted distributions, {low:g} to {high:g} on the transformed scale, "
                "but it is NaN or changes direction there. Use a transformation whose inverse is monotone "
                "for all real numbers, such as log or log1p for a positive target. Or use a model whose "
                "predictions stay in the range."
            )
        first, last = float(values[0]), float(values[-1])
        hold = np.isfinite([first, last]).all() and any(_is_limited(step) for step in steps)
        return cls(steps, (low, high), (first, last), bool(hold), endless)

    def to_target(self, z: FloatArray) -> FloatArray:
        (low, high), (first, last) = self.domain, self.image
        y = backward(self.steps, z)
        rises = last >= first
        if self.hold:
            below, above = z < low, z > high
        else:
            below = (z < low) & ~((y <= first) if rises else (y >= first))
            above = (z > high) & ~((y >= last) if rises else (y <= last))
        held = np.where(below, first, np.where(above, last, y))
        if not self.endless:
            return held
        return np.where((below | above) & np.isinf(z), np.where(below == rises, -np.inf, np.inf), held)

    def to_model(self, y: FloatArray) -> FloatArray:
        """Return the z of target values y, or NaN if the map does not reach y in its monotone range."""
        (low, high), (first, last) = self.domain, self.image
        y = np.asarray(y, dtype=np.float64)
        z = _forward(self.steps, y)
        rises = last >= first
        before, after = (y < first, y >= last) if rises else (y > first, y <= last)
        rounding = 1e-9 * (high - low)
        out_of_range = (before & ~(z <= low + rounding)) | (after & ~(z >= high - rounding)) | np.isinf(y)
        unknown = np.isnan(z) & ~out_of_range
        if unknown.any():
            raise ValueError(
                "the transformation of TransformedTargetRegressor must be defined in the range of the "
                f"predictions, got NaN for y = {float(y[unknown].flat[0]):g}."
            )
        return np.where(out_of_range, np.nan, z)

    def model_derivative(self, y: FloatArray) -> FloatArray:
        y = np.asarray(y, dtype=np.float64)
        step = 1e-4 * np.where(y == 0, 1e-3 * abs(self.image[1] - self.image[0]), np.abs(y))
        return derivative(lambda values: _forward(self.steps, values), y, step)


def _is_limited(step: Any) -> bool:
    if not isinstance(step, PowerTransformer):
        return False
    power = _only(step.lambdas_, 1.0)
    return power < 0 or (step.method == "yeo-johnson" and power > 2)


def backward(steps: tuple[Any, ...], z: FloatArray) -> FloatArray:
    values = np.asarray(z, dtype=np.float64)
    for step in reversed(steps):
        mapped = _apply(step, "inverse_transform", "inverse_func", values)
        if isinstance(step, PowerTransformer):
            # NaN in the inverse power transform is replaced with the limit of the inverse.
            end = -np.inf if step.method == "yeo-johnson" else 0.0
            end = np.inf if _only(step.lambdas_, 1.0) < 0 else end
            mapped = np.where(np.isnan(mapped) & ~np.isnan(values), end, mapped)
        values = mapped
    return values


def _forward(steps: tuple[Any, ...], y: FloatArray) -> FloatArray:
    values = np.asarray(y, dtype=np.float64)
    for step in steps:
        if isinstance(step, PowerTransformer) and step.method == "box-cox":
            # Box-Cox is defined only for positive values. At zero, the limit is used.
            positive = np.where(values > 0, values, np.nextafter(0.0, 1.0))
            values = np.where(values < 0, np.nan, _apply(step, "transform", "func", positive))
        else:
            values = _apply(step, "transform", "func", values)
    return values


def _apply(step: Any, method: str, function: str, values: FloatArray) -> FloatArray:
    column = values.reshape(-1, 1)
    if isinstance(step, FunctionTransformer):
        # The transformer's own check rejects infinite values, for which the function may be defined.
        call: Callable[..., Any] = getattr(step, function) or np.asarray
        options = step.kw_args if function == "func" else step.inv_kw_args
        with np.errstate(all="ignore"):
            result = call(column, **(options or {}))
    else:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # Values out of range cause warnings here. They are replaced below.
            warnings.simplefilter("ignore")
            result = getattr(step, method)(np.clip(column, -_LARGEST, _LARGEST))
    result = np.asarray(result, dtype=np.float64)
    if result.size != values.size:
        raise ValueError(_one_column(result.size // max(values.size, 1)))
    return result.reshape(values.shape)
