r"""Quantile regressions of scores. Each regression has one additional row, whose score is infinite.

For calibration rows with scores :math:`S_i`, weights :math:`w_i` and basis functions :math:`\varphi_i`, and a
new row with :math:`\varphi`, the cutoff of Gibbs, Cherian and Candès (2025, sec. 4) is

.. math:: S^* = \varphi^\top \beta(1), \quad
    \beta(\theta) = \arg\min_\beta \sum_i w_i \rho_\tau(S_i - \varphi_i^\top \beta)
        - \theta \tau \varphi^\top \beta .

The dual variables :math:`\eta_i \in [(\tau - 1) w_i, \tau w_i]` satisfy :math:`\sum_i \eta_i
\varphi_i = -\theta \tau \varphi`. The residual of a row is positive if its dual variable is at the upper
bound, and negative if it is at the lower bound. The residuals of d basic rows are 0, and their dual variables
lie between the bounds. `_follow` increases :math:`\theta` from 0 to 1. The basic dual variables are linear
in :math:`\theta` until one of them reaches a bound. Its row leaves the basis, and the first row whose
residual becomes 0 enters the basis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from skuq._typing import BoolArray, FloatArray, IntArray

_SEPARATION = 1e-11
"""Relative size of the differences that are added to tied scores, so that exactly one row enters the basis in
each step."""

_AT_END = 1e-10
"""A path ends if its distance to the end is at most this number. The tolerance is needed because
`WeightedRanks` rounds the ranks."""

_FEASIBLE = 1e-9
"""Rounding error of dual variables, relative to the largest bound."""

_ROUNDING = 1e-12
"""A dual variable is treated as constant if its change is less than this share of the largest change."""

_SUBSAMPLE = 8
"""The start is first computed for a sample of every eighth row. From the basis of this sample, few further
steps are needed."""

_CHUNK_FLOATS = 1 << 15
"""Maximum number of residuals in memory at the same time."""


class Calibration(NamedTuple):
    """Rows of a quantile regression at the level ``tau``."""

    phi: FloatArray  # basis functions, shape (n, d), of full column rank
    scores: FloatArray  # finite, without ties, shape (n,)
    lower: FloatArray  # bounds of the dual variables, shape (n,)
    upper: FloatArray


class Vertex(NamedTuple):
    """Optimal bases of m quantile regressions."""

    basic: IntArray  # rows with residual 0, shape (m, d)
    dual: FloatArray  # their dual variables, shape (m, d)


def separated(scores: FloatArray) -> FloatArray:
    # multiples of the golden ratio modulo 1 are distinct and spread evenly
    offsets = np.arange(1, scores.size + 1) * ((np.sqrt(5) - 1) / 2) % 1
    size = np.abs(scores)
    return np.asarray(scores + _SEPARATION * offsets * (size + np.median(size)))


def independent_rows(phi: FloatArray) -> IntArray:
    return np.asarray(qr(phi.T, mode="r", pivoting=True)[1][: phi.shape[1]])


def start(rows: Calibration, target: FloatArray) -> Vertex | None:
    """Return the optimal basis for dual variables with ``phi.T @ eta == target``, or None if infeasible.

    Each step replaces the basic row whose dual variable is farthest outside its bounds. The loss is piecewise
    linear along the edge. The row at the minimum of the loss, which is a weighted median, enters the basis
    (Barrodale and Roberts 1973).
    """
    n, d = rows.phi.shape
    basic = independent_rows(rows.phi)
    if n > _SUBSAMPLE * (d + 1):
        some = np.union1d(np.arange(0, n, _SUBSAMPLE), basic)
        found = start(Calibration(*(part[some] for part in rows)), target * (len(some) / n))
        if found is not None:
            basic = some[found.basic[0]]
    while True:
        of_basic = rows.phi[basic]
        residual = rows.scores - rows.phi @ _solve(of_basic, rows.scores[basic])
        dual = np.where(residual > 0, rows.upper, rows.lower)
        dual[basic] = 0.0
        wanted = _solve(of_basic.T, target - rows.phi.T @ dual)
        above, below = wanted - rows.upper[basic], rows.lower[basic] - wanted
        excess = np.maximum(above, below)
        leaving = int(np.argmax(excess))
        if excess[leaving] <= _FEASIBLE * rows.upper.max():
            return Vertex(basic[np.newaxis], wanted[np.newaxis])
        moves = np.zeros(d)
        moves[leaving] = -1.0 if above[leaving] > 0 else 1.0
        approach = rows.phi @ _solve(of_basic, moves)
        approach[basic] = 0.0
        crossed = np.flatnonzero(
            (residual * approach > 0) & (np.abs(approach) > _ROUNDING * np.abs(approach).max())
        )
        crossed = crossed[np.argsort(residual[crossed] / approach[crossed])]
        slope = np.cumsum(np.abs(approach[crossed]) * (rows.upper - rows.lower)[crossed])
        entering = int(np.searchsorted(slope, excess[leaving]))
        if entering == crossed.size:
            return None
        basic[leaving] = crossed[entering]


def cutoffs(rows: Calibration, vertex: Vertex, scores: FloatArray, phi: FloatArray, tau: float) -> FloatArray:
    """Return the cutoff of each new row, shape (m,), or +inf for an unbounded row.

    The new rows are not in ``vertex``.
    """
    cutoff = np.empty(len(phi))
    step = max(1, _CHUNK_FLOATS // len(scores))
    for first in range(0, len(phi), step):
        new = phi[first : first + step]
        m = len(new)
        same = Vertex(np.repeat(vertex.basic, m, axis=0), np.repeat(vertex.dual, m, axis=0))
        end, reached = _follow(rows, same, -tau * new)
        # the scores before small differences were added to ties
        beta = _solve(rows.phi[end.basic], scores[end.basic])
        cutoff[first : first + m] = np.where(reached, np.einsum("md,md->m", new, beta), np.inf)
    return cutoff


def _follow(rows: Calibration, vertex: Vertex, change: FloatArray) -> tuple[Vertex, BoolArray]:
    """Return the bases after ``phi.T @ eta`` changes by ``change`` (m, d), and whether this is feasible."""
    basic, dual = vertex.basic.copy(), vertex.dual.copy()
    left = np.ones(len(basic))  # remaining share of the change
    reached = np.zeros(len(basic), dtype=bool)
    active = np.arange(len(basic))
    while active.size:
        slope = _solve(rows.phi[basic[active]].transpose(0, 2, 1), change[active])
        share, leaving, at_upper = _first_bound(rows, basic[active], dual[active], slope)
        done = share >= left[active] - _AT_END
        share = np.where(done, left[active], share)
        dual[active] += share[:, np.newaxis] * slope
        left[active] -= share
        reached[active[done]] = True
        active, leaving, at_upper = active[~done], leaving[~done], at_upper[~done]
        entering, bound = _first_crossing(rows, basic[active], leaving, at_upper)
        feasible = entering >= 0
        active, leaving = active[feasible], leaving[feasible]
        basic[active, leaving], dual[active, leaving] = entering[feasible], bound[feasible]
    return Vertex(basic, dual), reached


def _first_bound(
    rows: Calibration, basic: IntArray, dual: FloatArray, slope: FloatArray
) -> tuple[FloatArray, IntArray, BoolArray]:
    # slopes that are rounding errors are ignored
    moving = np.abs(slope) > _ROUNDING * np.abs(slope).max(axis=1, keepdims=True)
    bound = np.where(slope > 0, rows.upper[basic], rows.lower[basic])
    share = np.divide(bound - dual, slope, out=np.full(slope.shape, np.inf), where=moving)
    leaving = np.argmin(share, axis=1)
    at = np.arange(len(basic)), leaving
    return np.maximum(share[at], 0.0), leaving, slope[at] > 0


def _first_crossing(
    rows: Calibration, basic: IntArray, leaving: IntArray, at_upper: BoolArray
) -> tuple[IntArray, FloatArray]:
    """Return the row whose residual becomes 0 first, or -1 if there is none, and the row's dual variable."""
    # the residual of the leaving row moves away from 0, and the residuals of the other basic rows remain 0
    moves = np.zeros(basic.shape)
    moves[np.arange(len(basic)), leaving] = np.where(at_upper, -1.0, 1.0)
    solved = np.linalg.solve(rows.phi[basic], np.stack([rows.scores[basic], moves], axis=2))
    residual = rows.scores - solved[..., 0] @ rows.phi.T
    approach = solved[..., 1] @ rows.phi.T
    np.put_along_axis(approach, basic, 0.0, axis=1)  # the residuals of basic rows remain 0
    np.put_along_axis(residual, basic, 1.0, axis=1)  # the quotient below is then 0
    size = np.abs(approach)
    approach[size <= _ROUNDING * size.max(axis=1, keepdims=True)] = 0.0
    # 1 / (distance after which the residual of a row becomes 0)
    nearness = np.divide(approach, residual, out=np.zeros_like(residual), where=residual != 0)
    entering = np.argmax(nearness, axis=1)
    at = np.arange(len(basic)), entering
    found = nearness[at] > 0
    value = np.where(residual[at] > 0, rows.upper[entering], rows.lower[entering])
    return np.where(found, entering, -1), value


def _solve(matrices: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(matrices, right[..., np.newaxis])[..., 0])
