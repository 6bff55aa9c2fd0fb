"""Points of joint distributions, and the functionals that are computed from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq.distributions._base import Distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._joint.checks import check_values
from skuq.distributions._joint.moments import box_levels, correlations, weighted_means
from skuq.distributions._row_container import RowContainer, Selected
from skuq.exceptions import NoDensityError

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
    def _parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""

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

    @classmethod
    @abstractmethod
    def _merge(cls, parts: Sequence[Any]) -> Selected | None:
        """Stack the rows of parts with the same names into one distribution of this family.

        Return None if this is impossible.
        """

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
        n, step = len(self), max(1, BLOCK // (self._point_count() * self.shape[1]))
        for start in range(0, n, step):
            yield slice(start, min(start + step, n))

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
