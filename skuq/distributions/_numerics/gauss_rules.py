"""Gauss rules of a probability measure that has been divided into cells.

A rule integrates polynomials of a given degree over each cell exactly, so that breaks of the density cost no
nodes. Breaks of the integrand remain. For a jump of its second derivative at b, the error of the rule is that
of max(z - b, 0)^2, a function of b alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from skuq._typing import FloatArray, IntArray

__all__ = ["Rule", "cell_rule", "exponential_rule", "score_cell", "score_rule"]

_SIZE = 4
_FINE, _FINE_WEIGHTS = leggauss(10)
_LAST_SCORE = 8.3
"""Normal score beyond which no probability is left."""
_CELLS = 32
_SCORE_EDGES = _LAST_SCORE * np.sinh(2 * np.linspace(-1, 1, _CELLS + 1)) / np.sinh(2)
_EXPONENTIAL_EDGES = np.array([0, 0.15, 0.35, 0.6, 0.9, 1.3, 1.8, 2.4, 3.2, 4.4, 6.5, 10, 40])


class Rule(NamedTuple):
    """Nodes and weights, both of shape (k,)."""

    nodes: FloatArray
    weights: FloatArray


def cell_rule(values: FloatArray, weights: FloatArray, cell: IntArray) -> Rule:
    """Return the Gauss rule of each cell of a discrete measure, one after the other.

    Parameters
    ----------
    values, weights : ndarray of shape (k,)
        The measure, with positive weights.
    cell : ndarray of shape (k,)
        Ascending number of the cell of each value.
    """
    starts = np.flatnonzero(np.diff(cell, prepend=cell[0] - 1))
    rules = [
        _gauss(part, weight)
        for part, weight in zip(np.split(values, starts[1:]), np.split(weights, starts[1:]), strict=True)
    ]
    return Rule(*(np.concatenate(column) for column in zip(*rules, strict=True)))


def _gauss(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Gauss rule of a discrete measure by the recurrence of its orthogonal polynomials."""
    distinct = np.unique(values)
    if distinct.size <= _SIZE:
        return distinct, np.asarray(np.bincount(np.searchsorted(distinct, values), weights), dtype=np.float64)
    total, centre, half = weights.sum(), (distinct[0] + distinct[-1]) / 2, (distinct[-1] - distinct[0]) / 2
    place, share = (values - centre) / half, weights / total
    diagonal, beside = np.zeros(_SIZE), np.zeros(_SIZE)
    last, current, norm = np.zeros_like(place), np.ones_like(place), 1.0
    for k in range(_SIZE):
        diagonal[k] = share @ (place * current**2) / norm
        last, current = current, (place - diagonal[k]) * current - beside[k] * last
        previous, norm = norm, float(share @ current**2)
        if k + 1 < _SIZE:
            beside[k + 1] = norm / previous
    off = np.sqrt(beside[1:])
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return centre + half * nodes, total * vectors[0] ** 2


def _panels(cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights between each two cuts, both of shape (panels, nodes)."""
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)[:, np.newaxis] / 2
    return middle[:, np.newaxis] + half * _FINE, half * _FINE_WEIGHTS


def score_cell(scores: FloatArray) -> IntArray:
    """Return the cell of each normal score."""
    return np.clip(np.searchsorted(_SCORE_EDGES, scores, side="right"), 1, _CELLS)


def score_rule(breaks: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return normal scores, weights and cells that resolve the standard normal measure between breaks."""
    inside = breaks[np.abs(breaks) < _LAST_SCORE]
    cuts = np.unique(np.concatenate([_SCORE_EDGES, inside]))
    scores, weights = _panels(cuts)
    cell = score_cell(cuts[:-1])
    density = np.exp(-0.5 * scores**2) / np.sqrt(2 * np.pi)
    return scores.ravel(), (weights * density).ravel(), np.repeat(cell, _FINE.size)


@lru_cache(maxsize=2)
def exponential_rule(refined: int = 1) -> Rule:
    """Return a rule of the standard exponential distribution, with each cell divided into equal ones."""
    edges = np.interp(
        np.arange((_EXPONENTIAL_EDGES.size - 1) * refined + 1) / refined,
        np.arange(_EXPONENTIAL_EDGES.size),
        _EXPONENTIAL_EDGES,
    )
    values, weights = _panels(edges)
    cell = np.repeat(np.arange(len(values)), _FINE.size)
    return cell_rule(values.ravel(), (weights * np.exp(-values)).ravel(), cell)
