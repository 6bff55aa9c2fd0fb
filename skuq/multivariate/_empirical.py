"""Joint distributions given by draws of all targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_finite
from skuq.distributions import Distribution, Empirical, JointDistribution
from skuq.distributions._members import read_weights
from skuq.multivariate._conditional import kernel_weights, observed_scores
from skuq.multivariate._template import weighted_levels


def draw_points(weights: FloatArray | None, n: int, k: int, m: int, rng: np.random.RandomState) -> IntArray:
    """Return the indices of m random points for each of n rows, shape (n, m).

    The weights have the shape (k,) or (n, k).
    """
    if weights is None:
        return rng.randint(k, size=(n, m))
    total = np.cumsum(np.broadcast_to(weights, (n, k)), axis=1)
    levels = rng.uniform(size=(n, m)) * total[:, -1:]
    index = np.array(
        [np.searchsorted(row, level, side="right") for row, level in zip(total, levels, strict=True)]
    )
    return np.asarray(np.minimum(index, k - 1))


@dataclass(frozen=True, eq=False, repr=False)
class EmpiricalJoint(JointDistribution):
    """Empirical distributions of several targets, such as ensembles of vectors or posterior draws.

    Parameters
    ----------
    members : array-like of shape (n, m, d) or (m, d)
        Members of each row, in the units of the targets. Members of shape (m, d) are the same for all rows.
    weights : array-like of shape (m,) or (n, m), default=None
        Non-negative weights, which are rescaled to sum to one in each row. None means equal weights. If the
        members have shape (m, d), weights of shape (n, m) give n rows. Without such weights, there is one
        row.
    names : sequence of d str, default=None
        Names of the targets.

    See Also
    --------
    CopulaJoint : Univariate distributions of any family with a common dependence.

    Notes
    -----
    All functionals are exact for the distribution of the members. The distribution has no density.
    `condition` weights the members by a normal kernel. The distances of the kernel are differences of the
    normal scores of the ranks.

    Examples
    --------
    >>> from skuq.multivariate import EmpiricalJoint
    >>> dist = EmpiricalJoint([[[0.0, 1.0], [2.0, 5.0]], [[3.0, 3.0], [4.0, 2.0]]])
    >>> dist.linear([1.0, 1.0]).mean()
    array([4., 6.])
    """

    members: FloatArray
    weights: FloatArray | None
    names: tuple[str, ...] | None

    def __init__(
        self, members: ArrayLike, weights: ArrayLike | None = None, names: Sequence[str] | None = None
    ) -> None:
        values = np.array(check_finite(as_float_array(members, "members"), "members"))
        if values.ndim not in {2, 3} or 0 in values.shape:
            raise ValueError(
                "`members` must have shape (n, m, d) or (m, d) with n, m, d >= 1, got "
                f"{np.shape(values)}. For one target, use `Empirical`."
            )
        m, d = values.shape[-2:]
        weights = None if weights is None else as_float_array(weights, "weights")
        per_row = weights is not None and weights.ndim == 2
        if values.ndim == 2 and not per_row:
            values = values[np.newaxis]
        n = weights.shape[0] if values.ndim == 2 and weights is not None else len(values)
        share = read_weights(weights, n, m)
        self._set(members=values, weights=share, names=self._read_names(names, d))

    def _target_count(self) -> int:
        return int(self.members.shape[-1])

    def _per_row(self) -> tuple[str, ...]:
        return ("weights",) if self.members.ndim == 2 else ("members", "weights")

    @cached_property
    def _marginals(self) -> tuple[Distribution, ...]:
        shape = (len(self), self._point_count())
        columns = np.moveaxis(self.members, -1, 0)
        return tuple(Empirical(np.broadcast_to(column, shape), self.weights) for column in columns)

    def marginals(self) -> tuple[Distribution, ...]:
        return self._marginals

    def _point_count(self) -> int:
        return int(self.members.shape[-2])

    def _point_weights(self, rows: slice) -> FloatArray | None:
        return None if self.weights is None else self.weights[rows]

    def _points(self, rows: slice) -> tuple[FloatArray, FloatArray | None]:
        count = len(range(*rows.indices(len(self))))
        members = self.members if self.members.ndim == 2 else self.members[rows]
        return np.broadcast_to(members, (count, *self.members.shape[-2:])), self._point_weights(rows)

    def _levels(self, rows: slice) -> FloatArray:
        points, weights = self._points(rows)
        order = points.argsort(axis=1, kind="stable")
        share = np.full(points.shape[:2], 1.0 / points.shape[1]) if weights is None else weights
        return weighted_levels(order, share)

    def _cdf(self, y: FloatArray) -> FloatArray:
        out = np.empty(len(self))
        for rows, points, weights in self._blocks():
            reached = (points <= y[rows, np.newaxis]).all(axis=2)
            out[rows] = reached.mean(axis=1) if weights is None else (reached * weights).sum(axis=1)
        return np.minimum(out, 1.0)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        index = draw_points(self.weights, len(self), self._point_count(), m, rng)
        if self.members.ndim == 2:
            return np.asarray(self.members[index])
        return np.take_along_axis(self.members, index[..., np.newaxis], axis=1)

    def _condition(self, y: FloatArray, observed: IntArray, unknown: IntArray) -> EmpiricalJoint:
        marginals = [self._marginals[j] for j in observed]
        scores = observed_scores(marginals, y, [self._label(j) for j in observed], np.inf)
        weights = np.empty((len(self), self._point_count()))
        for rows in self._row_blocks():
            share = self._point_weights(rows)
            weights[rows] = kernel_weights(self._levels(rows)[..., observed], scores[rows], share)
        return EmpiricalJoint(self.members[..., unknown], weights, self._names_of(unknown))
