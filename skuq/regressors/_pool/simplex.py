"""Minima of convex functions over non-negative weights that sum to 1 (the simplex)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linprog

from skuq._typing import FloatArray, IntArray

_ROUNDING = 1e-13
"""The search adds a member only if the objective decreases at a rate above this value, relative to the
largest coefficient. A smaller rate may be a rounding error."""
_GAP = 1e-5
"""The search ends if the relative difference between the value and a lower bound of the minimum is at most
this value."""
_MOST_CUTS = 200
_MOST_SUPPORTS = 100
"""The search visits at most this number of supports per member. A few supports are usually enough."""


def minimise_quadratic(linear: FloatArray, quadratic: FloatArray) -> FloatArray:
    """Return the minimizer of b'w + 1/2 w'Qw over the simplex, by a primal active-set method."""
    b = linear - linear.min()  # a large constant would cause rounding errors
    scale = max(float(b.max()), float(np.abs(quadratic).max())) or 1.0
    b, Q = b / scale, quadratic / scale
    m = len(b)
    weights = np.zeros(m)
    support = np.array([np.argmin(b + np.diag(Q) / 2)])
    weights[support] = 1.0
    for _ in range(_MOST_SUPPORTS * m):  # each step ends at the optimum of another support
        weights, support = _descend(b, Q, weights, support)
        gradient = b + Q @ weights
        slack = gradient - weights @ gradient
        entering = int(np.argmin(slack))
        if slack[entering] >= -_ROUNDING or entering in support:
            break
        support = np.append(support, entering)
    return np.asarray(weights / weights.sum())


def _descend(
    b: FloatArray, Q: FloatArray, weights: FloatArray, support: IntArray
) -> tuple[FloatArray, IntArray]:
    """Move to the optimum of a support, and remove each member whose weight becomes 0."""
    while True:
        target = _optimum_without_bounds(b[support], Q[np.ix_(support, support)])
        current = weights[support]
        falling = target <= 0
        if not falling.any():
            weights = np.zeros_like(weights)
            weights[support] = target
            return weights, support
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(falling, current / (current - target), np.inf)
        leaving = int(np.nanargmin(steps))
        moved = current + min(steps[leaving], 1.0) * (target - current)
        moved[leaving] = 0.0
        weights = np.zeros_like(weights)
        weights[support] = np.maximum(moved, 0.0)
        support = np.delete(support, leaving)


def _optimum_without_bounds(b: FloatArray, Q: FloatArray) -> FloatArray:
    """Return the minimizer of b'w + 1/2 w'Qw over the vectors w that sum to 1.

    If there are several minimizers, return the shortest.
    """
    k = len(b)
    equations = np.block([[Q, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    solution: FloatArray = np.linalg.lstsq(equations, np.append(-b, 1.0), rcond=None)[0]
    return solution[:k]


def minimise_convex(evaluate: Callable[[FloatArray], tuple[float, FloatArray]], m: int) -> FloatArray:
    """Return the minimizer of a convex function over the simplex, by Kelley's cutting planes (1960)."""
    weights = best = np.full(m, 1.0 / m)
    least, cuts, offsets = np.inf, [], []
    target, in_simplex = np.append(np.zeros(m), 1.0), np.append(np.ones(m), 0.0)[np.newaxis]
    bounds: Any = [(0.0, 1.0)] * m + [(None, None)]
    unit = abs(evaluate(best)[0]) or 1.0
    for _ in range(_MOST_CUTS):
        value, slope = evaluate(weights)
        value, slope = value / unit, slope / unit
        if value < least:
            least, best = value, weights
        cuts.append(np.append(slope, -1.0))  # slope'w - t <= slope'w_k - value_k
        offsets.append(slope @ weights - value)
        found: Any = linprog(target, np.array(cuts), np.array(offsets), in_simplex, np.ones(1), bounds)
        if not found.success or least - found.fun <= _GAP:
            break
        weights = np.clip(found.x[:m], 0.0, None)
        weights /= weights.sum()
    return best
