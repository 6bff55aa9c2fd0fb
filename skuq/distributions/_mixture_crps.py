r"""CRPS of mixtures of location-scale families, from mean absolute differences of their components.

With weights w_i, components X_i and c_i the CRPS of a component,

    CRPS(y) = sum_i w_i E|X_i - y| - 1/2 sum_ij w_i w_j E|X_i - X_j|,
    E|X_i - y| = c_i(y) + 1/2 E|X_i - X_i'|,    E|X_i - X_j| = E c_i(X_j) + 1/2 E|X_i - X_i'|.

The last expectation is over the narrower of the two, in whose units the wider one's CRPS is smooth, so that
the trapezoidal rule over its normal scores converges exponentially.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skuq._typing import BoolArray, FloatArray
from skuq.distributions._numerics.crps_table import CrpsTable, SmoothCdf

_STEP = 1 / 8
_SCORES: FloatArray = _STEP * np.arange(-296.0, 297.0)  # as far as levels differ from 0
_WEIGHTS = np.asarray(_STEP * np.exp(-0.5 * _SCORES**2) / np.sqrt(2 * np.pi), dtype=np.float64)
_TAIL = 8.0
"""Score beyond which a CRPS is a straight line of the value, so that one node stands for a tail."""
_BLOCK = 2**13
"""Rows taken at a time, with all that is computed on the way in the cache."""


class SmoothStandard(SmoothCdf, Protocol):
    """What is needed of a one-row standard distribution, analytic on the whole line."""

    def _from_normal_score(self, score: FloatArray) -> FloatArray: ...


@dataclass(frozen=True)
class _Component:
    """n rows loc + scale Z of one common Z."""

    loc: FloatArray
    scale: FloatArray
    standard: SmoothStandard
    table: CrpsTable

    @property
    def difference(self) -> FloatArray:
        """E|X - X'| of each row."""
        return self.scale * self.table.mean_difference

    def crps(self, y: FloatArray) -> FloatArray:
        certain = self.scale == 0
        z = (y - self.loc) / np.where(certain, 1.0, self.scale)
        return np.where(certain, np.abs(y - self.loc), self.scale * self.table(z))

    def expected_crps(self, narrower: _Component) -> FloatArray:
        """Return the expectation of this one's CRPS over another component."""
        total = np.zeros_like(self.loc)
        nodes = list(zip(*_nodes(narrower.standard), strict=True))
        for start in range(0, len(total), _BLOCK):
            block = slice(start, start + _BLOCK)
            wide, narrow = self.take(block), narrower.take(block)
            for z, weight in nodes:
                total[block] += weight * wide.crps(narrow.loc + narrow.scale * z)
        return total

    def take(self, rows: BoolArray | slice) -> _Component:
        return _Component(self.loc[rows], self.scale[rows], self.standard, self.table)


def _nodes(standard: SmoothStandard) -> tuple[FloatArray, FloatArray]:
    """Return values of Z and weights for expectations; the outermost nodes are the means of the tails."""
    z = standard._from_normal_score(_SCORES)
    tails = [_SCORES < -_TAIL, _SCORES > _TAIL]
    inner = ~(tails[0] | tails[1])
    mass = [_WEIGHTS[tail].sum() for tail in tails]
    means = [_WEIGHTS[tail] @ z[tail] / share for tail, share in zip(tails, mass, strict=True)]
    return np.concatenate([z[inner], means]), np.concatenate([_WEIGHTS[inner], mass])


def mixture_crps(
    forms: Sequence[tuple[FloatArray, FloatArray, SmoothStandard]], weights: FloatArray, y: FloatArray
) -> FloatArray:
    """Return the CRPS, shape (n,), of mixtures of m components loc + scale Z.

    Parameters
    ----------
    forms : sequence of m (loc, scale, standard)
        Each Z with a finite standard deviation and a cdf that is analytic on the whole line.
    weights : ndarray of shape (n, m)
        They sum to 1 in each row.
    y : ndarray of shape (n,)
        Finite values.
    """
    parts = [
        _Component(loc, scale, standard, CrpsTable(standard, np.empty(0))) for loc, scale, standard in forms
    ]
    crps = np.zeros_like(y)
    for i, part in enumerate(parts):
        share = weights[:, i]
        crps += share * (part.crps(y) + (1 - share) / 2 * part.difference)
        for other, other_share in zip(parts[:i], weights.T, strict=False):
            crps -= share * other_share * _mean_difference(part, other)
    return np.maximum(crps, 0.0)


def _mean_difference(first: _Component, second: _Component) -> FloatArray:
    """Return E|X - Y| of two components, shape (n,)."""
    first_is_wider = first.difference > second.difference
    result = np.empty_like(first.loc)
    for wider, narrower, rows in ((first, second, first_is_wider), (second, first, ~first_is_wider)):
        if rows.any():
            outer, inner = wider.take(rows), narrower.take(rows)
            result[rows] = outer.expected_crps(inner) + outer.difference / 2
    return result
