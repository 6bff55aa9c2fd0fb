"""Gauss quadrature rules for expectations over a distribution that is divided into cells.

A rule is exact for integrands that are polynomials of a given degree in each cell, even if the density has
breaks. Breaks of the integrand cause an error. If the second derivative of the integrand jumps at b, the
error is proportional to the error for the function max(z - b, 0)^2. This error depends only on b.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr

from skuq._typing import FloatArray, IntArray

_SIZE = 4
_FINE, _FINE_WEIGHTS = leggauss(10)
LAST_SCORE = 8.3
"""Beyond this absolute normal score, tail probabilities are negligible."""
_CELLS = 28
_SCORE_EDGES = LAST_SCORE * np.sinh(2 * np.linspace(-1, 1, _CELLS + 1)) / np.sinh(2)
"""Edges of the cells, as normal scores."""
_EXPONENTIAL_EDGES = np.array([0, 0.15, 0.35, 0.6, 0.9, 1.3, 1.8, 2.4, 3.2, 4.4, 6.5, 10, 40])
_NEGLIGIBLE = 1e-6
"""A cell is divided if its value times its tail probability is at least this number."""
_CENTRAL = 4.0
_LOG_VALUES = 1 + np.array([-1, 0, np.log(8), 100.0])
_PLACES = np.cumsum([0, _CENTRAL / 0.5, 4 * np.log(8), 100.0 - np.log(8)])
"""The width of a cell is 0.5 for values up to 4, a quarter of the value between 4 and 32, and the whole value
above 32."""


Map: TypeAlias = Callable[[FloatArray], FloatArray]


class Rule(NamedTuple):
    nodes: FloatArray
    weights: FloatArray


def cell_rule(values: FloatArray, weights: FloatArray, cell: IntArray) -> Rule:
    starts = np.flatnonzero(np.diff(cell, prepend=cell[0] - 1))
    rules = [
        _gauss(part, weight)
        for part, weight in zip(np.split(values, starts[1:]), np.split(weights, starts[1:]), strict=True)
    ]
    return Rule(*(np.concatenate(column) for column in zip(*rules, strict=True)))


def _gauss(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    distinct = np.unique(values)
    if distinct.size <= _SIZE:
        return distinct, np.asarray(np.bincount(np.searchsorted(distinct, values), weights), dtype=np.float64)
    total, center, half = weights.sum(), (distinct[0] + distinct[-1]) / 2, (distinct[-1] - distinct[0]) / 2
    place, share = (values - center) / half, weights / total
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
    return center + half * nodes, total * vectors[0] ** 2


def _panels(cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)[:, np.newaxis] / 2
    return middle[:, np.newaxis] + half * _FINE, half * _FINE_WEIGHTS


def score_edges(refined: int, values: Map, scores: Map) -> FloatArray:
    """Return the edges of the cells as normal scores.

    Each cell covers a short range of scores and of values.
    """
    edges = _divided(_SCORE_EDGES, refined)
    at = values(edges)
    place, mass = refined * _to_place(at), ndtr(-np.abs(edges)) * np.abs(at)
    # Cells with a negligible contribution may be wide.
    parts = np.where(np.maximum(mass[1:], mass[:-1]) > _NEGLIGIBLE, np.maximum(np.ceil(np.diff(place)), 1), 1)
    more = [
        np.linspace(start, stop, int(count) + 1)[1:-1]
        for start, stop, count in zip(place[:-1], place[1:], parts, strict=True)
        if count > 1
    ]
    if not more:
        return edges
    return np.unique(np.concatenate([edges, scores(_from_place(np.concatenate(more) / refined))]))


def _to_place(values: FloatArray) -> FloatArray:
    return np.asarray(np.copysign(np.interp(_log(np.abs(values)), _LOG_VALUES, _PLACES), values))


def _from_place(place: FloatArray) -> FloatArray:
    log = np.interp(np.abs(place), _PLACES, _LOG_VALUES)
    return np.asarray(np.copysign(np.where(log < 1, log, np.exp(log - 1)) * _CENTRAL, place))


def _log(size: FloatArray) -> FloatArray:
    share = size / _CENTRAL
    return np.where(share < 1, share, 1 + np.log(np.maximum(share, 1)))


def _divided(edges: FloatArray, refined: int) -> FloatArray:
    count = edges.size - 1
    return np.interp(np.arange(count * refined + 1) / refined, np.arange(count + 1), edges)


def score_rule(edges: FloatArray, breaks: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the nodes, weights and cells of a rule for the standard normal distribution.

    Nodes are normal scores.
    """
    cuts = np.unique(np.concatenate([edges, breaks[np.abs(breaks) < LAST_SCORE]]))
    scores, weights = _panels(cuts)
    cell = np.searchsorted(edges, cuts[:-1], side="right")
    density = np.exp(-0.5 * scores**2) / np.sqrt(2 * np.pi)
    return scores.ravel(), (weights * density).ravel(), np.repeat(cell, _FINE.size)


@lru_cache(maxsize=4)
def exponential_rule(refined: int = 1) -> Rule:
    edges = _divided(_EXPONENTIAL_EDGES, refined)
    values, weights = _panels(edges)
    cell = np.repeat(np.arange(len(values)), _FINE.size)
    return cell_rule(values.ravel(), (weights * np.exp(-values)).ravel(), cell)
