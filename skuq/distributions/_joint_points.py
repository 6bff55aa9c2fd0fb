"""Points of joint distributions, weighted sums over them, and validation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic

import numpy as np

from skuq._numeric import rank_target, row_blocks
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array
from skuq.distributions._base import Distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._row_container import RowContainer, Selected
from skuq.exceptions import NoDensityError


def check_names(names: Any, d: int) -> tuple[str, ...] | None:
    """Return the names of d targets as a tuple, or None."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"`names` must be a sequence of strings, got {names!r}.")
    listed = tuple(names)
    wrong = [name for name in listed if not isinstance(name, str)]
    if wrong:
        raise TypeError(f"`names` must contain only strings, got {wrong[0]!r}.")
    if len(listed) != d:
        raise ValueError(f"`names` must have {d} entries, one per target, got {len(listed)}.")
    double = [name for name in listed if listed.count(name) > 1]
    if double:
        raise ValueError(f"`names` must be distinct, got {double[0]!r} twice.")
    return tuple(str(name) for name in listed)


def find_target(target: Any, names: tuple[str, ...] | None, d: int) -> int:
    """Return the column of a target. The argument is a name or a column."""
    if isinstance(target, str):
        if names is None:
            raise ValueError(
                f"`target` must be a column from 0 to {d - 1}, got {target!r}. The targets have no names."
            )
        if target not in names:
            raise ValueError(f"`target` must be one of {', '.join(map(repr, names))}, got {target!r}.")
        return names.index(target)
    if isinstance(target, bool | np.bool_) or not isinstance(target, int | np.integer):
        raise TypeError(f"`target` must be the name or the column of a target, got {target!r}.")
    if not -d <= target < d:
        raise ValueError(f"`target` must be a column from 0 to {d - 1}, got {target}.")
    return int(target) % d


def check_targets(
    y: ArrayLike, name: str, shape: tuple[int, int], names: tuple[str, ...] | None = None
) -> FloatArray:
    """Return values of several targets as a float array of the given shape. The array may contain NaN."""
    columns = getattr(y, "columns", None)
    if columns is not None and names is not None and tuple(map(str, columns)) != names:
        raise ValueError(
            f"`{name}` must have the columns {', '.join(names)}, in this order, got "
            f"{', '.join(map(str, columns))}."
        )
    array = as_float_array(y, name)
    n, d = shape
    if array.ndim == 1 and d == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != d:
        raise ValueError(f"`{name}` must have shape ({n}, {d}), one column per target, got {array.shape}.")
    if array.shape[0] != n:
        raise ValueError(f"`{name}` must have {n} rows, one per sample, got {array.shape[0]}.")
    return array


def check_values(values: Any, shape: tuple[int, int], name: str, rows: slice | IntArray) -> FloatArray:
    """Return the values of a function at the points of a block of rows.

    Raise an error if a value is not finite.
    """
    array = as_float_array(values, f"the result of {name}")
    if array.shape != shape:
        raise ValueError(
            f"`{name}` must map points of shape (..., d) to values of shape (...), but points of shape "
            f"{(*shape, 'd')} gave {array.shape}. Reduce the last axis, as in y.sum(axis=-1)."
        )
    finite = np.isfinite(array)
    if not finite.all():
        block, point = np.argwhere(~finite)[0]
        first = rows.start + block if isinstance(rows, slice) else rows[block]
        raise ValueError(
            f"`{name}` must be finite at all points of the distribution, got {array[block, point]} at row "
            f"{first}."
        )
    return array


def weighted_means(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the means over the points, shape (n,). The values have the shape (n, K)."""
    return np.asarray(
        values.mean(axis=1) if weights is None else np.einsum("bk,bk->b", values * 1.0, weights)
    )


def correlations(points: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the correlation matrices, shape (n, d, d). The points have the shape (n, K, d)."""
    share = np.full(points.shape[:2], 1.0 / points.shape[1]) if weights is None else weights
    centered = points - points[:, :1]  # keeps precision if the points are far from 0
    centered -= np.einsum("bk,bkd->bd", share, centered)[:, np.newaxis]
    unit = np.abs(centered).max(axis=1, keepdims=True)
    centered /= np.where(unit > 0, unit, 1.0)  # prevents overflow of the squares
    covariance = np.einsum("bk,bki,bkj->bij", share, centered, centered, optimize=True)
    return correlation_of(covariance)


def correlation_of(covariance: FloatArray) -> FloatArray:
    """Return correlation matrices. The correlation with a constant is 0."""
    std = np.sqrt(np.maximum(np.einsum("...ii->...i", covariance), 0.0))
    inverse = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
    matrix = inverse[..., :, np.newaxis] * covariance * inverse[..., np.newaxis, :]
    matrix = np.clip(matrix, -1.0, 1.0)
    np.einsum("...ii->...i", matrix)[...] = 1.0
    return np.asarray(matrix)


def box_levels(levels: FloatArray, weights: FloatArray | None, coverage: float) -> FloatArray:
    """Return the smallest coverage of central intervals that jointly contain enough points, shape () or (b,).

    ``levels`` contains the levels of the points in the marginals, shape (K, d) or (b, K, d).
    """
    outermost = np.abs(2.0 * levels - 1.0).max(axis=-1)
    order = outermost.argsort(axis=-1, kind="stable")
    ordered = np.take_along_axis(outermost, order, axis=-1)
    k = outermost.shape[-1]
    if weights is None:
        index = int(np.ceil(rank_target(np.asarray(coverage * k), float(k)))) - 1
        return np.asarray(ordered[..., index])
    total = np.cumsum(np.take_along_axis(weights, order, axis=-1), axis=-1)
    index = (total < rank_target(np.asarray(coverage), 1.0)).sum(axis=-1, keepdims=True)
    return np.asarray(np.take_along_axis(ordered, np.minimum(index, k - 1), axis=-1)[..., 0])


BLOCK = 1 << 21
"""The points are computed in blocks with this number of values."""

Rows = slice | IntArray
Block = tuple[Rows, FloatArray, FloatArray | None]
"""Rows, their points of shape (b, K, d), and the weights of the points of shape (b, K) or None."""


NO_JOINT_DENSITY = (
    "this {kind} has no density. Two kinds of distributions have a joint density: a normal copula of "
    "marginals that have densities, and a `NormalJoint` with positive definite covariances. Use "
    "`energy_score_loss`, or the densities of the marginals."
)


class JointPoints(RowContainer[Selected], Generic[Selected]):
    """Methods that a joint family may override.

    By default, they evaluate K points per row in blocks of rows.
    """

    # ------------------------------------------------------------------ hooks that a family implements

    @abstractmethod
    def _point_count(self) -> int:
        """Return the number K of points per row."""

    @abstractmethod
    def _points(self, rows: slice) -> tuple[FloatArray, FloatArray | None]:
        """Return the points (b, K, d) and their weights (b, K). Equal weights are None."""

    @abstractmethod
    def _levels(self, rows: slice) -> FloatArray:
        """Return the levels of the points in the marginals, shape (K, d) or (b, K, d)."""

    @abstractmethod
    def _cdf(self, y: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray: ...

    @abstractmethod
    def _condition(self, y: FloatArray, observed: IntArray, unknown: IntArray) -> Selected:
        """Return the distribution of the unknown targets given observed values of shape (n, q)."""

    # ------------------------------------------------ hooks with defaults

    def _logpdf(self, y: FloatArray) -> FloatArray:
        raise NoDensityError(NO_JOINT_DENSITY.format(kind=type(self).__name__))

    def _corr(self) -> FloatArray:
        d = self.shape[1]
        out = np.empty((len(self), d, d))
        for rows, points, weights in self._blocks():
            out[rows] = correlations(points, weights)
        return out

    def _linear(self, w: FloatArray) -> Distribution:
        values, weights = self._map(lambda points: np.einsum("bkd,d->bk", points, w), "w")
        mean = self._finite_means()
        if mean is not None:
            for rows in self._row_blocks():
                block, share = values[rows], None if weights is None else weights[rows]
                block += (mean[rows] @ w - weighted_means(block, share))[:, np.newaxis]
        return Empirical._from_owned(values, weights)

    def _apply(self, func: Callable[[FloatArray], Any]) -> Distribution:
        return Empirical._from_owned(*self._map(func, "func"))

    def _box(self, coverage: float) -> FloatArray:
        """Return the coverage of each marginal interval that gives the joint coverage, shape (n,)."""
        out = np.empty(len(self))
        for rows in self._row_blocks():
            out[rows] = box_levels(self._levels(rows), self._point_weights(rows), coverage)
        return out

    def _point_weights(self, rows: slice) -> FloatArray | None:
        return None

    # ------------------------------------------------------------------ points

    def _blocks(self) -> Iterator[Block]:
        """Yield the points, one block of rows at a time."""
        for rows in self._row_blocks():
            yield rows, *self._points(rows)

    def _row_blocks(self) -> Iterator[slice]:
        return row_blocks(len(self), self._point_count() * self.shape[1], BLOCK)

    def _map(self, func: Callable[[FloatArray], Any], name: str) -> tuple[FloatArray, FloatArray | None]:
        """Return the values of a function at all points, shape (n, K), and the weights of the points."""
        values = np.empty((len(self), self._point_count()))
        shares: list[FloatArray] = []
        for rows, points, weights in self._blocks():
            values[rows] = check_values(func(points), points.shape[:2], name, rows)
            if weights is not None:
                shares.append(weights)
        return values, np.concatenate(shares) if shares else None

    def _finite_means(self) -> FloatArray | None:
        try:
            mean = self.mean()
        except ValueError:  # a Cauchy distribution has no mean
            return None
        return mean if np.isfinite(mean).all() else None

    @abstractmethod
    def _target_count(self) -> int: ...
