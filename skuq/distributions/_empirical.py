"""Empirical distributions of the members of an ensemble."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial

from skuq._numeric import rank_target, row_blocks, to_integers
from skuq._typing import ArrayLike, FloatArray
from skuq.distributions._base import Distribution
from skuq.distributions._family import Atoms
from skuq.distributions._members import read_members, read_weights, root_mean_square
from skuq.distributions._value_quadrature import step_terms

CACHED = 1 << 15
"""Number of values per block, so that a block fits into the cache."""


@dataclass(frozen=True, eq=False, repr=False)
class Empirical(Distribution):
    """Empirical distributions of m members per row, such as ensembles, posterior draws or past residuals.

    Parameters
    ----------
    members : array-like of shape (n, m)
        Members of each row, in the units of y.
    weights : array-like of shape (m,) or (n, m), default=None
        Non-negative weights, which are rescaled to sum to one in each row. None means equal weights.

    Attributes
    ----------
    members : ndarray of shape (n, m)
        Members, sorted within each row.
    weights : ndarray of shape (n, m) or None
        Weights in the order of ``members``.

    Notes
    -----
    The constructor sorts the members in O(n m log m) time. Each method then costs O(n m). The CRPS is
    computed for the step cdf. Other packages call this estimator "nrg". The quantile function is the inverse
    of the step cdf, so every quantile is a member. The distribution has no density.

    Examples
    --------
    >>> from skuq.distributions import Empirical
    >>> dist = Empirical([[3.0, 1.0, 2.0, 4.0]])
    >>> dist.cdf([2.0]), dist.median(), dist.crps([2.5])
    (array([0.5]), array([2.]), array([0.375]))
    """

    members: FloatArray
    weights: FloatArray | None

    _PER_ROW = ("members", "weights")

    def __init__(self, members: ArrayLike, weights: ArrayLike | None = None) -> None:
        values = read_members(members, "members")
        share = read_weights(weights, *values.shape)
        if share is None:
            values.sort(axis=1)
        else:
            order = np.argsort(values, axis=1, kind="stable")
            values, share = (
                np.take_along_axis(values, order, axis=1),
                np.take_along_axis(share, order, axis=1),
            )
        self._set(members=values, weights=share)

    @classmethod
    def _from_owned(cls, members: FloatArray, weights: FloatArray | None) -> Empirical:
        if weights is not None:
            return cls(members, weights)
        members.sort(axis=1)
        return object.__new__(cls)._set(members=members, weights=None)

    def _w(self) -> FloatArray:
        n, m = self.members.shape
        return np.broadcast_to(1.0 / m, (n, m)) if self.weights is None else self.weights

    def _cumulative(self) -> FloatArray:
        """Return the cumulative weights, shape (n, m). The last column is exactly 1."""
        n, m = self.members.shape
        if self.weights is None:
            return np.broadcast_to(np.arange(1, m + 1) / m, (n, m))
        total = np.cumsum(self.weights, axis=1)
        return np.minimum(total / total[:, [-1]], 1.0)

    @property
    def _center(self) -> FloatArray:
        """Return the median, so that an outlier does not round the deviations of the other members."""
        return (
            self.members[:, self.members.shape[1] // 2]
            if self.weights is None
            else self._ppf(np.asarray(0.5))
        )

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        center = self._center
        mean = center + (self._w() * (self.members - center[:, np.newaxis])).sum(axis=1)
        return mean, root_mean_square(self._w(), self.members - mean[:, np.newaxis])

    def _cdf(self, y: FloatArray) -> FloatArray:
        count = (self.members <= y[:, np.newaxis]).sum(axis=1)
        if self.weights is None:
            return np.asarray(count / self.members.shape[1])
        reached = self._cumulative()[np.arange(len(self)), np.maximum(count - 1, 0)]
        return np.where(count == 0, 0.0, reached)

    def _ppf(self, p: FloatArray) -> FloatArray:
        n, m = self.members.shape
        if self.weights is None:
            index = np.broadcast_to(np.ceil(rank_target(p * m, m)).astype(np.intp) - 1, (n,))
        else:
            threshold = np.broadcast_to(rank_target(p, 1.0), (n,))[:, np.newaxis]
            index = ((self._cumulative() < threshold) | (np.cumsum(self.weights, axis=1) == 0)).sum(axis=1)
        return np.asarray(self.members[np.arange(n), np.clip(index, 0, m - 1)])

    def _crps(self, y: FloatArray) -> FloatArray:
        score = self._half_mean_difference()
        np.negative(score, out=score)
        for rows in row_blocks(len(self), self.members.shape[1], CACHED):
            distance = self.members[rows] - y[rows, np.newaxis]
            np.abs(distance, out=distance)
            if self.weights is None:
                score[rows] += distance.mean(axis=1)
            else:
                score[rows] += np.einsum("ij,ij->i", distance, self.weights[rows])
        return score

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return self._crps(y) + self._half_mean_difference()

    def _half_mean_difference(self) -> FloatArray:
        n, m = self.members.shape
        if self.weights is not None:
            w, deviation = self.weights, self.members - self._center[:, np.newaxis]
            return np.asarray((w * deviation * (2 * self._cumulative() - w - 1)).sum(axis=1))
        rank_weight = (2.0 * np.arange(1, m + 1) - m - 1) / m**2
        half, center = np.empty(n), self._center[:, np.newaxis]
        for rows in row_blocks(len(self), self.members.shape[1], CACHED):
            half[rows] = (self.members[rows] - center[rows]) @ rank_weight
        return half

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        below, above = step_terms(weight)
        at, cdf = y[:, np.newaxis], self._cumulative()
        inside = np.clip(at, self.members[:, :-1], self.members[:, 1:])
        score = (inside - self.members[:, :-1]) * below(cdf[:, :-1])
        score += (self.members[:, 1:] - inside) * above(1 - cdf[:, :-1])
        outside = np.maximum(y - self.members[:, -1], 0.0) * below(1.0)
        outside += np.maximum(self.members[:, 0] - y, 0.0) * above(1.0)
        return np.asarray(score.sum(axis=1) + outside)

    def _clip(self, lower: FloatArray, upper: FloatArray, integer: bool) -> Distribution:
        members = to_integers(self.members) if integer else self.members
        members = np.clip(members, lower[:, np.newaxis], upper[:, np.newaxis])
        return Empirical(members, self.weights)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        if self.weights is not None:
            return super()._sample(m, rng)
        n, members = self.members.shape
        return np.take_along_axis(self.members, rng.randint(members, size=(n, m)), axis=1)

    def _listed_atoms(self) -> Atoms:
        return zip(self.members.T, self._w().T, strict=True)

    def _landmarks(self) -> FloatArray:
        return self.members

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Empirical:
        return Empirical(shift[:, np.newaxis] + factor[:, np.newaxis] * self.members, self.weights)
