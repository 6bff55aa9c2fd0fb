"""Sums over the unit steps of a cdf that is constant between atoms.

For atoms at distance 1, such as the integers, the integrals of the CRPS and of the moments are sums:

    CRPS(y)     = sum_{k < y} F(k)^2 + sum_{k >= y} (1 - F(k))^2,
    E |Y - y|   = sum_{k < y} F(k) + sum_{k >= y} (1 - F(k)),
    E (Y - c)   = sum_{k >= c} (1 - F(k)) - sum_{k < c} F(k),
    E (Y - c)^2 = sum_{k >= c} (2 (k - c) + 1) (1 - F(k)) + sum_{k < c} (2 (c - k) - 1) F(k).

Each step evaluates the cdf of all rows that have not reached their last atom. No array of rows by atoms is
built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np

from skuq._typing import FloatArray, IntArray

Term: TypeAlias = Callable[[FloatArray], Any]
"""Function that is applied to F below y, or to 1 - F above y."""

TAIL = np.array(1e-15)
"""A sum leaves out tails with this probability."""

MOST_ATOMS = 300
"""A step cdf with at most this number of atoms is integrated from atom to atom."""


class Steps(Protocol):
    def __len__(self) -> int: ...
    def _cdf(self, y: FloatArray) -> FloatArray: ...
    def _sf(self, y: FloatArray) -> FloatArray: ...
    def _take(self, rows: IntArray) -> Any: ...


def by_length(low: FloatArray, high: FloatArray) -> Iterator[IntArray]:
    """Yield groups of rows with similar numbers of steps, so that few unnecessary steps are computed."""
    steps = np.maximum(high - low, 1.0)
    group = np.ceil(np.log2(steps) / 2)
    for value in np.unique(group):
        yield np.flatnonzero(group == value)


def sum_steps(
    dist: Steps, y: FloatArray, low: FloatArray, high: FloatArray, below: Term, above: Term
) -> FloatArray:
    """Return the integral of below(F) up to y plus the integral of above(1 - F) from y.

    The integrals are computed between two atoms of each row, ``low`` and ``high`` of shape (n,). Their
    difference is an integer. If y is between two atoms, the step between these atoms is split at y. If y is
    outside the range, the nearer end is used instead of y.
    """
    total = np.zeros(len(y))
    for rows in by_length(low, high):
        part, first, last = dist._take(rows), low[rows], high[rows]
        inside = np.clip(y[rows], first, last)
        score = np.zeros(len(rows))
        for step in range(int(np.max(last - first))):
            k = first + step
            split = np.clip(inside - k, 0.0, 1.0)
            cdf = part._cdf(k)
            terms = split * below(cdf) + (1 - split) * above(1 - cdf)
            score += np.where(k < last, terms, 0.0)
        total[rows] = score
    return total


def step_moments(
    dist: Steps, center: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the first and the second moment about ``center`` of Y clipped to [low, high].

    All arrays have the shape (n,). ``center``, ``low`` and ``high`` are atoms.
    """
    first, second = np.zeros(len(center)), np.zeros(len(center))
    for rows in by_length(low, high):
        part, begin, end, middle = dist._take(rows), low[rows], high[rows], center[rows]
        for step in range(int(np.max(end - begin))):
            k = begin + step
            cdf = part._cdf(k)
            mass = np.where(k < end, np.where(k >= middle, 1 - cdf, -cdf), 0.0)
            first[rows] += mass
            second[rows] += mass * (2 * (k - middle) + 1)
    return first, second


def with_atoms(points: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the points, shape (n, k). In rows with few atoms, the atoms replace the points.

    The cdf must be smooth between the points.
    """
    with np.errstate(invalid="ignore"):
        few = high - low <= MOST_ATOMS
    if not few.any():
        return points
    atoms = np.minimum(low[few, np.newaxis] + np.arange(np.max((high - low)[few]) + 1), high[few, np.newaxis])
    width = max(points.shape[1], atoms.shape[1])
    out = np.repeat(points[:, [-1]], width, axis=1)  # repeated points give integration panels of width 0
    out[:, : points.shape[1]] = points
    out[few] = high[few, np.newaxis]
    out[np.ix_(few, np.arange(atoms.shape[1]))] = atoms
    return out
