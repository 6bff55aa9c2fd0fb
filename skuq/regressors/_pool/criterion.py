r"""Weights of a pool that minimize the mean CRPS on given rows.

A linear pool is the mixture of its members. Let c_i be the mean CRPS of member i, and D_ij the mean Cramér
distance between members i and j. The mean CRPS of the pool is a quadratic function of the weights w,

  f(w) = sum_i w_i c_i - 1/2 sum_ij w_i w_j D_ij,

so that the weights solve a quadratic program. For the average of quantile functions, the CRPS is approximated
by the mean pinball loss over levels, which is a convex and piecewise linear function of the weights.

If there are few rows, the weights that minimize the CRPS are noisy. The positive-part James-Stein rule
shrinks them toward equal weights e. The gain is the decrease of the CRPS from equal weights to the optimal
weights:

  w = e + max(0, 1 - (standard error of the gain / gain)^2) (w_least - e).

With two members, the factor is 1 - 4 / z^2 if the distance of the optimum from equal weights is z standard
errors. If z is at most 2, the weights stay equal. A clearly worse member gets almost no weight. A few rows in
which one member has extreme errors may dominate both the gain and its standard error. The ratio of the gain
to its standard error is then about 1, even if this member is worse on all other rows. The factor is
therefore computed a second time from clipped gains, and the larger factor is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Distribution, Mixture, Normal, Quantiles
from skuq.distributions._cramer import cramer_distances
from skuq.regressors._pool.simplex import minimise_convex, minimise_quadratic

_N_LEVELS = 50
_LEVELS = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
"""The mean of the pinball losses at these levels approximates the CRPS of an average of quantile
functions."""

_UNCLIPPED = 0.98
"""The gains of at least this share of the rows are not clipped. With fewer than 75 rows, only one gain is
clipped."""

_TAIL = np.array([1e-6, 1e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3])
_GRID = np.concatenate([_TAIL, np.linspace(0.01, 0.99, 99), 1 - _TAIL[::-1]])
"""Levels at which an average of quantile functions is stored."""


@dataclass(frozen=True, eq=False)
class Pool(ABC):
    """Forecasts of m members for n rows, from which the weights are computed."""

    members: Sequence[Distribution]
    y: FloatArray
    repetitions: FloatArray
    crps: FloatArray  # CRPS of each row and member, shape (n, m)

    @staticmethod
    @abstractmethod
    def combine(members: Sequence[Distribution], weights: FloatArray) -> Distribution:
        """Return the pool of the forecasts. The weights are positive and sum to 1."""

    @abstractmethod
    def _least(self, share: FloatArray) -> FloatArray:
        """Return the weights that minimize the mean CRPS.

        The vector ``share`` (n,) weights the rows, and its sum is 1.
        """

    @abstractmethod
    def scores(self, weights: FloatArray, rows: BoolArray) -> FloatArray: ...
    def forecast(self, weights: FloatArray, rows: BoolArray) -> Distribution:
        used = np.flatnonzero(weights).tolist()
        return self.combine([self.members[i][rows] for i in used], weights[used])

    def weights(self, rows: BoolArray) -> FloatArray:
        m = len(self.members)
        equal = np.full(m, 1.0 / m)
        repetitions = np.where(rows, self.repetitions, 0.0)
        total = float(repetitions.sum())
        if m == 1 or total == 0:
            return equal
        least = self._least(repetitions / total)
        gains = self.scores(equal, rows) - self.scores(least, rows)
        share = _certain_share(gains, repetitions[rows])
        return np.asarray(equal + share * (least - equal)) if share > 0 else equal


def _certain_share(gains: FloatArray, repetitions: FloatArray) -> float:
    # The level is between two ranks, because sums of fractional repetitions are rounded.
    level = max(min(_UNCLIPPED - 1e-9, 1 - 1.5 / float(repetitions.sum())), 0.0)
    bound = np.quantile(np.abs(gains), level, weights=repetitions, method="inverted_cdf")
    shares = [0.0]
    for values in (gains, np.clip(gains, -bound, bound)):
        gain, error = mean_and_error(values, repetitions)
        if gain > error:
            shares.append(1 - (error / gain) ** 2)
    return float(max(shares))


def mean_and_error(values: FloatArray, repetitions: FloatArray, *, ddof: int = 0) -> tuple[Any, Any]:
    unit = np.abs(values).max(axis=0)  # avoids an overflow of squares
    relative = values / np.where(unit > 0, unit, 1.0)
    total = repetitions.sum()
    mean = repetitions @ relative / total
    variance = repetitions @ np.square(relative - mean) / max(total - ddof, 1)
    return unit * mean, unit * np.sqrt(variance / total)


@dataclass(frozen=True, eq=False)
class LinearPool(Pool):
    """Pool of mixtures.

    The scores of the pool are computed from the scores of the members and from the distances between the
    members, shape (n, m, m).
    """

    distances: FloatArray

    @classmethod
    def from_members(cls, members: Sequence[Distribution], y: FloatArray, repetitions: FloatArray) -> Self:
        return cls(members, y, repetitions, _scores(members, y), cramer_distances(members))

    @staticmethod
    def combine(members: Sequence[Distribution], weights: FloatArray) -> Distribution:
        return members[0] if len(members) == 1 else Mixture(members, weights, ensemble=True)

    def _least(self, share: FloatArray) -> FloatArray:
        return minimise_quadratic(share @ self.crps, -np.tensordot(share, self.distances, axes=1))

    def scores(self, weights: FloatArray, rows: BoolArray) -> FloatArray:
        # Rows are selected after the products, because an earlier selection would copy all distances.
        return np.asarray((self.crps @ weights - self.distances @ weights @ weights / 2)[rows])


@dataclass(frozen=True, eq=False)
class QuantilePool(Pool):
    """Pool of averages of quantile functions.

    It stores the quantiles of the members, shape (n, n_levels, m).
    """

    quantiles: FloatArray

    @classmethod
    def from_members(cls, members: Sequence[Distribution], y: FloatArray, repetitions: FloatArray) -> Self:
        quantiles = [member._finite_part().quantile(_LEVELS) for member in members]
        return cls(members, y, repetitions, _scores(members, y), np.stack(quantiles, axis=2))

    @staticmethod
    def combine(members: Sequence[Distribution], weights: FloatArray) -> Distribution:
        if len(members) == 1:
            return members[0]
        pairs = list(zip(members, weights, strict=True))
        normals = [(member, weight) for member, weight in pairs if isinstance(member, Normal)]
        if len(normals) == len(pairs):  # the average of normal distributions is normal
            loc, scale = (
                np.sum([weight * getattr(member, name) for member, weight in normals], axis=0)
                for name in ("loc", "scale")
            )
            return Normal(loc, scale)
        values = np.sum([weight * member._finite_part().quantile(_GRID) for member, weight in pairs], axis=0)
        return Quantiles(_GRID, values)

    def _least(self, share: FloatArray) -> FloatArray:
        y, per_level = self.y[:, np.newaxis], 2 / _N_LEVELS * share[:, np.newaxis]

        def mean_crps(weights: FloatArray) -> tuple[float, FloatArray]:
            gap = y - self.quantiles @ weights
            slope = np.where(gap < 0, _LEVELS - 1, _LEVELS) * per_level
            return float((slope * gap).sum()), -np.tensordot(slope, self.quantiles, axes=2)

        return minimise_convex(mean_crps, len(self.members))

    def scores(self, weights: FloatArray, rows: BoolArray) -> FloatArray:
        return self.forecast(weights, rows).crps(self.y[rows])


def _scores(members: Sequence[Distribution], y: FloatArray) -> FloatArray:
    return np.column_stack([member.crps(y) for member in members])


COMBINATIONS: dict[str, type[LinearPool] | type[QuantilePool]] = {
    "linear": LinearPool,
    "quantiles": QuantilePool,
}
