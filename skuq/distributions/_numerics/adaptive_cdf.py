"""Adaptive integrals over the values of y, for cdfs whose smoothness is unknown.

The CRPS is the integral of F^2 below y plus the integral of (1 - F)^2 above y, or of other polynomials of F
and 1 - F if the levels have weights (see `cdf_quadrature`). The panels of a row do not depend on y. The first
panels lie between the landmarks of the row. A panel is halved until the Gauss rule of 7 nodes and its Kronrod
extension of 15 nodes agree, and the panel that contains y is split at y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.polynomial import Polynomial

from skuq._typing import FloatArray, IntArray
from skuq.distributions._numerics.cdf_quadrature import LANDMARK_TAIL, UNIFORM, step_terms

_NODES = np.array(
    [
        *(0.9914553711208126, 0.9491079123427585, 0.8648644233597691, 0.7415311855993944),
        *(0.5860872354676911, 0.4058451513773972, 0.20778495500789848),
    ]
)
_KRONROD = np.array(
    [
        *(0.022935322010529224, 0.06309209262997856, 0.10479001032225019, 0.14065325971552592),
        *(0.1690047266392679, 0.19035057806478542, 0.20443294007529889),
    ]
)
_GAUSS = np.array([0.0, 0.1294849661688697, 0.0, 0.27970539148927664, 0.0, 0.3818300505051189, 0.0])
NODES = np.concatenate([-_NODES, [0.0], _NODES[::-1]])
KRONROD = np.concatenate([_KRONROD, [0.20948214108472782], _KRONROD[::-1]])
GAUSS = np.concatenate([_GAUSS, [0.4179591836734694], _GAUSS[::-1]])

TOLERANCE = 1e-8
"""Largest difference of the two rules in one panel, in units of the width of the row."""

ROUNDING = 1e-12
"""Relative difference of the two rules that is rounding, for example of F = 1 over a very wide panel."""

MOST_ROUNDS = 40
MOST_PANELS = 2000
"""Limits for one row. A cdf with a larger rounding error than the tolerance does not converge."""

_BLOCK = 1000
"""Rows that are integrated together, so that the nodes of all panels fit into memory."""


class Rows(Protocol):
    def __len__(self) -> int: ...
    def _take(self, rows: IntArray) -> Any: ...
    def _tails_at(self, rows: IntArray, x: FloatArray) -> tuple[FloatArray, FloatArray]: ...
    def _landmarks(self) -> FloatArray: ...
    def _integration_error(self, row: int) -> ValueError: ...


@dataclass(frozen=True)
class Panels:
    """Panels of all rows, in the order of the rows and of y, with the integrals below and above y."""

    row: IntArray
    start: FloatArray
    stop: FloatArray
    below: FloatArray
    above: FloatArray


def adaptive_crps(dist: Rows, y: FloatArray, weight: Polynomial = UNIFORM) -> FloatArray:
    """Return the CRPS with a weight per level, shape (n,). The distribution has n rows or one row."""
    below, above = step_terms(weight)
    score, one = np.empty(len(y)), len(dist) == 1
    panels = _adapt(dist, below, above) if one else None
    for first in range(0, len(y), _BLOCK):
        rows = np.arange(first, min(first + _BLOCK, len(y)))
        part, row = (dist, np.zeros_like(rows)) if one else (dist._take(rows), np.arange(rows.size))
        score[rows] = _score(part, panels or _adapt(part, below, above), row, y[rows], below, above)
    return score


def _score(
    dist: Rows, panels: Panels, row: IntArray, y: FloatArray, below: Polynomial, above: Polynomial
) -> FloatArray:
    """Return the scores of y, whose distributions are the given rows."""
    first = np.searchsorted(panels.row, row)
    last = np.searchsorted(panels.row, row, side="right") - 1
    inside = np.clip(y, panels.start[first], panels.stop[last])
    at = np.minimum(_last_start(panels, row, inside), last)
    low, high = _cumulated(panels.row, panels.below), _cumulated(panels.row[::-1], panels.above[::-1])[::-1]
    whole = low[at] - panels.below[at] + high[at] - panels.above[at]
    return np.abs(y - inside) + whole + _split(dist, row, panels, at, inside, below, above)


def _last_start(panels: Panels, row: IntArray, y: FloatArray) -> IntArray:
    """Return the last panel of each row that begins at or below y."""
    low, high = np.searchsorted(panels.row, row), np.searchsorted(panels.row, row, side="right")
    while (high - low > 1).any():
        middle = (low + high) // 2
        below = panels.start[middle] <= y
        low, high = np.where(below, middle, low), np.where(below, high, np.maximum(middle, low + 1))
    return low


def _cumulated(row: IntArray, values: FloatArray) -> FloatArray:
    """Return cumulative sums that begin anew in each row."""
    sums = np.empty_like(values)
    for part in np.split(np.arange(row.size), np.flatnonzero(np.diff(row)) + 1):
        sums[part] = np.cumsum(values[part])
    return sums


def _split(
    dist: Rows,
    row: IntArray,
    panels: Panels,
    at: IntArray,
    y: FloatArray,
    below: Polynomial,
    above: Polynomial,
) -> FloatArray:
    total = np.zeros(len(y))
    for side, start, stop in ((0, panels.start[at], y), (1, y, panels.stop[at])):
        half = (stop - start) / 2
        x = (start + half)[:, np.newaxis] + half[:, np.newaxis] * NODES
        tail = dist._tails_at(np.repeat(row, NODES.size), x.ravel())[side].reshape(x.shape)
        total += half * ((above if side else below)(tail) @ KRONROD)
    return total


def _adapt(dist: Rows, below: Polynomial, above: Polynomial) -> Panels:
    edges, width = _first_edges(dist)
    row = np.repeat(np.arange(len(dist)), edges.shape[1] - 1)
    start, stop = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    wide = stop > start
    wide[:: edges.shape[1] - 1] = True  # Each row keeps a panel, even if its quantiles are one number.
    row, start, stop = row[wide], start[wide], stop[wide]
    parts = []
    for _ in range(MOST_ROUNDS):
        half = (stop - start) / 2
        x = (start + half)[:, np.newaxis] + half[:, np.newaxis] * NODES
        cdf, sf = (tail.reshape(x.shape) for tail in dist._tails_at(np.repeat(row, NODES.size), x.ravel()))
        values = np.stack([below(cdf), above(sf)])
        kronrod, gauss = half * (values @ KRONROD), half * (values @ GAUSS)
        error = (np.abs(kronrod - gauss) - ROUNDING * kronrod).max(axis=0)
        done = (error <= TOLERANCE * width[row]) | (half <= 1e-14 * np.abs(start))
        parts.append((row[done], start[done], stop[done], *kronrod[:, done]))
        if np.isnan(error).any():
            raise dist._integration_error(int(row[np.isnan(error)][0]))
        if done.all():
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
            order = np.lexsort((columns[1], columns[0]))
            return Panels(*(column[order] for column in columns))
        row, start, stop, middle = row[~done], start[~done], stop[~done], (start + half)[~done]
        row = np.concatenate([row, row])
        start, stop = np.concatenate([start, middle]), np.concatenate([middle, stop])
        if row.size > MOST_PANELS * len(dist):
            break
    raise dist._integration_error(int(row[0]))


def _first_edges(dist: Rows) -> tuple[FloatArray, FloatArray]:
    """Return the edges of the first panels of each row, and a width of the row.

    The edges are landmarks, and points whose distances from the center double, for heavy tails.
    """
    points = np.sort(dist._landmarks(), axis=1)
    center = points[:, [points.shape[1] // 2]]
    quarter = points.shape[1] // 4
    width = points[:, -1 - quarter] - points[:, quarter]
    with np.errstate(invalid="ignore"):
        reach = np.abs(points - center).max(axis=1)
        bad = ~(np.isfinite(reach) & (reach * LANDMARK_TAIL[0] ** 2 <= TOLERANCE * width))
    if bad.any():
        raise dist._integration_error(int(np.argmax(bad)))
    unit = np.where(width > 0, width, 1.0)
    doublings = np.arange(np.ceil(np.log2(np.maximum(reach / unit, 1.0)).max()) + 1, dtype=int)
    with np.errstate(over="ignore"):
        added = np.minimum(np.ldexp(unit[:, np.newaxis], doublings), reach[:, np.newaxis])
    edges = np.concatenate([points, center - added, center + added], axis=1)
    return np.sort(np.clip(edges, points[:, [0]], points[:, [-1]]), axis=1), unit
