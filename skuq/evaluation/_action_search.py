"""Minimization of a function of one number for each row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from skuq._typing import FloatArray
from skuq.distributions import Distribution

GRID = ndtr(np.linspace(-3.3, 3.3, 65))
"""The function is first evaluated at the quantiles with these levels."""

TOLERANCE = 1e-5
"""Largest error of a minimum, relative to the range of the quantiles. The range is at most 91 standard
deviations."""

ATOM_STEP = 1e-9
"""A level that is larger by this share of its complement belongs to the next atom."""

MOST_DOUBLINGS = 60
MOST_STEPS = 200
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def minimize_rows(function: Callable[[FloatArray], FloatArray], dist: Distribution) -> FloatArray:
    """Return the position of the minimum in each row. The search begins at quantiles of the distribution."""
    quantiles = np.stack([dist._finite_part()._ppf(np.asarray(level)) for level in GRID])
    width = quantiles[-1] - quantiles[0]
    # A point mass has no width, but the optimum may differ from its point.
    step = np.where(width > 0, width, 1e-6 * np.maximum(np.abs(quantiles[0]), 1.0))
    candidates = [quantiles[0] - step, *quantiles, quantiles[-1] + step]
    points, values = _extend(function, candidates, [function(point) for point in candidates], step)
    best = np.argmin(values, axis=0)[np.newaxis]
    start, least = (np.take_along_axis(table, best, axis=0)[0] for table in (points, values))
    # Several quantiles may equal an atom, so the neighbors of a point may be the point itself.
    low = np.where(points < start, points, -np.inf).max(axis=0)
    high = np.where(points > start, points, np.inf).min(axis=0)
    low, high = np.where(np.isinf(low), start, low), np.where(np.isinf(high), start, high)
    found, value = _golden_section(function, low, high, TOLERANCE * step)
    best_point, least = np.where(value < least, found, start), np.minimum(value, least)
    return best_point if dist.has_density else _nearest_atom(function, dist, best_point, least)


def _nearest_atom(
    function: Callable[[FloatArray], FloatArray], dist: Distribution, point: FloatArray, least: FloatArray
) -> FloatArray:
    """Return an atom next to the point if its value is smaller, because losses have kinks at atoms."""
    finite = dist._finite_part()
    level = finite._cdf(point)
    best = point
    for atom in (finite._ppf(level), finite._ppf(1 - (1 - level) * (1 - ATOM_STEP))):
        value = function(atom)
        best, least = np.where(value < least, atom, best), np.minimum(value, least)
    return best


def _extend(
    function: Callable[[FloatArray], FloatArray],
    points: list[FloatArray],
    values: list[FloatArray],
    step: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Add points while the function decreases.

    Each distance between points is twice the previous distance.
    """
    for _ in range(MOST_DOUBLINGS):
        below, above = values[0] < values[1], values[-1] < values[-2]
        if not (below | above).any():
            return np.stack(points), np.stack(values)
        step = 2 * step
        points = [
            np.where(below, points[0] - step, points[0]),
            *points,
            np.where(above, points[-1] + step, points[-1]),
        ]
        values = [function(points[0]), *values, function(points[-1])]
    row = int(np.argmax(below | above))
    raise ValueError(
        "`loss` must have an action with a minimum expected loss, but the expected loss still decreases "
        "at the "
        f"action {points[-1][row] if above[row] else points[0][row]:g} in row {row}. Pass the possible "
        "actions as `actions`."
    )


def _golden_section(
    function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray, tolerance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the point between ``low`` and ``high`` at which each row has its minimum, and the minimum."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(MOST_STEPS):
        if (high - low <= tolerance + 4e-16 * np.maximum(np.abs(low), np.abs(high))).all():
            break
        falls = at_left > at_right
        low, high = np.where(falls, left, low), np.where(falls, high, right)
        new = np.where(falls, low + GOLDEN * (high - low), high - GOLDEN * (high - low))
        value = function(new)
        left, right = np.where(falls, right, new), np.where(falls, new, left)
        at_left, at_right = np.where(falls, at_right, value), np.where(falls, value, at_left)
    better = at_left <= at_right
    return np.where(better, left, right), np.where(better, at_left, at_right)
