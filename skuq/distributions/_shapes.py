r"""One-row distributions whose CRPS is tabulated, and its expectation over another distribution.

With c the CRPS of a distribution F, S_G = 1/2 E|Y - Y'| for Y, Y' of G, and X of F,

    E c(Y) = E|X - Y| - S_F,    int (F(x) - G(x))^2 dx = E c(Y) - S_G,

so that a distance is an expectation of a function with two continuous derivatives or one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._typing import FloatArray, IntArray
from skuq.distributions._numerics.crps_table import CrpsTable, SmoothCdf
from skuq.distributions._numerics.gauss_rules import Rule, cell_rule, score_cell, score_rule
from skuq.distributions._numerics.hermite_table import EDGES, HermiteTable

__all__ = ["Shape", "StepCrps", "TabulatedCrps", "step_shape", "tabulated_shape"]

_LARGEST, _LIGHT = 1e19, 1e3
"""Outermost nodes, in units, up to which tails have an expectation, and up to which a rule gives it all."""

_GONE = 40.0
"""Decay lengths after which nothing is left of an exponential tail."""

_EXACT_MEMBERS = 256
"""Members up to which a sample is its own rule."""

_LOCAL = np.flatnonzero(np.abs(EDGES) < 1e3)
"""Edges at which the error of a rule is tabulated; densities have no jumps of note beyond them."""


class TabulatedCrps(Protocol):
    """A CRPS as a function of the value, which is the integral of its slope."""

    @property
    def narrow(self) -> float: ...
    def __call__(self, t: FloatArray) -> FloatArray: ...
    def slope(self, t: FloatArray) -> FloatArray: ...
    def integral(self, t: FloatArray) -> FloatArray: ...


class OneRow(SmoothCdf, Protocol):
    """The part of a one-row distribution from which its tables are made."""

    def _isf(self, q: FloatArray) -> FloatArray: ...
    def _from_normal_score(self, score: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class Shape:
    """The distribution of Z, for rows loc + scale (center + unit Z).

    Attributes
    ----------
    center, unit : float
        They put the middle of Z near 0 and give it a spread of order 1.
    crps : TabulatedCrps
        CRPS of Z at any value.
    half_difference : float
        1/2 E|Z - Z'|.
    rule : Rule
        Nodes and weights for expectations over Z.
    kinks, jumps : ndarray of shape (k,)
        Values at which the density of Z jumps, and by how much.
    members : Rule or None
        The values of Z and their weights, where these are finitely many.
    """

    center: float
    unit: float
    crps: TabulatedCrps
    half_difference: float
    rule: Rule
    kinks: FloatArray
    jumps: FloatArray
    members: Rule | None = None

    @property
    def smooth(self) -> bool:
        """Whether the CRPS has more than two continuous derivatives."""
        return self.members is None and self.kinks.size == 0

    def expected_crps(
        self, over: Rule, error: HermiteTable | None, loc: FloatArray, scale: FloatArray
    ) -> FloatArray:
        """Return the expectation of the CRPS over loc + scale V, shape (n,), by a rule of V.

        The error of the rule is added for jumps of the density, where it is given.
        """
        at = scale[:, np.newaxis] * over.nodes
        at += loc[:, np.newaxis]
        total = self.crps(at) @ over.weights
        if error is not None and self.kinks.size:
            with np.errstate(over="ignore"):
                back = (self.kinks - loc[:, np.newaxis]) / np.where(scale > 0, scale, 1.0)[:, np.newaxis]
            total += scale**2 * (error(np.clip(back, EDGES[0], EDGES[-1])) @ self.jumps)
        return np.asarray(total)

    def half_difference_beside(self, integrand: Shape) -> float:
        """Return 1/2 E|Z - Z'|, by the rule where its error cancels in a distance."""
        if self.members is not None:
            return self.half_difference
        light = max(abs(self.rule.nodes[0]), abs(self.rule.nodes[-1])) < _LIGHT
        return self.half_difference if light and integrand.smooth > self.smooth else self._by_rule

    @cached_property
    def _by_rule(self) -> float:
        return float(self.expected_crps(self.rule, self.rule_error, np.zeros(1), np.ones(1))[0])

    @cached_property
    def rule_error(self) -> HermiteTable | None:
        """Expectation of max(Z - b, 0)^2 less what the rule gives for it, as a function of b.

        The second derivative of the CRPS is twice the density, so that its integral gives the expectation up
        to a straight line. The error is 0 outside of the nodes, which determines the line.
        """
        if self.rule is self.members:
            return None
        b, (nodes, weights) = EDGES[_LOCAL], self.rule
        first = np.searchsorted(nodes, b)  # of the nodes above b
        mass, mean, square = (
            np.append(np.cumsum((weights * nodes**power)[::-1])[::-1], 0.0)[first] for power in range(3)
        )
        error = b**2 / 2 - self.crps.integral(b) - (square - 2 * b * mean + b**2 * mass)
        slope = b - self.crps(b) + 2 * (mean - b * mass)
        low = max(int(np.searchsorted(b, nodes[0])) - 1, 0)
        high = min(int(np.searchsorted(b, nodes[-1])), b.size - 1)
        line = (error[high] - error[low]) / (b[high] - b[low])
        values, slopes = np.zeros_like(EDGES), np.zeros_like(EDGES)
        inside = slice(low, high + 1)
        values[_LOCAL[inside]] = (error - error[low] - line * (b - b[low]))[inside]
        slopes[_LOCAL[inside]] = (slope - line)[inside]
        return HermiteTable(values, slopes)


def tabulated_shape(
    dist: OneRow,
    make_table: Callable[[], CrpsTable],
    scores: FloatArray,
    kinks: FloatArray,
    jumps: FloatArray,
) -> Shape | None:
    """Return the shape of a distribution with a density, or None where its tails are too heavy.

    Parameters
    ----------
    dist : one-row distribution
        Smooth between the kinks.
    make_table : callable
        It gives the table of its CRPS.
    scores, kinks, jumps : ndarray of shape (k,)
        Normal scores and values at which the density jumps, and by how much.
    """
    low, center, high = (float(dist._from_normal_score(np.array(score))[0]) for score in (-1.0, 0.0, 1.0))
    unit = (high - low) / 2
    at, weights, cell = score_rule(scores)
    with np.errstate(over="ignore"):
        values = (dist._from_normal_score(at) - center) / unit
        beyond = center + unit * EDGES
    if not (unit > 0 and max(-values[0], values[-1]) < _LARGEST):
        return None
    table = make_table()
    crps = table(beyond) / unit
    slopes = np.where(EDGES < 0, 2 * dist._cdf(beyond) - 1, 1 - 2 * dist._sf(beyond))
    rule = cell_rule(values, weights, cell)
    half = table.mean_difference / 2 / unit
    return Shape(center, unit, HermiteTable(crps, slopes), half, rule, (kinks - center) / unit, jumps * unit)


class StepCrps:
    """CRPS of a sorted sample, between whose values it is a straight line."""

    narrow = 1e-5

    def __init__(self, values: FloatArray, weights: FloatArray) -> None:
        self.values, self.weights = values, weights
        below = np.cumsum(weights)
        self._slopes = np.append(-1.0, 2 * below - 1)
        self._slopes[-1] = 1.0
        gaps = np.diff(values)
        self.half_difference = float(gaps @ (below * (1 - below))[:-1])
        rises = gaps * self._slopes[1:-1]
        steps = np.concatenate([[0.0], np.cumsum(rises)])
        # the CRPS at the least value is the mean distance from it less half the mean difference
        self._crps = weights @ (values - values[0]) - self.half_difference + steps
        areas = gaps * (self._crps[:-1] + self._crps[1:]) / 2
        middle = values.size // 2
        self._integrals = np.concatenate([[0.0], np.cumsum(areas)])
        self._integrals -= self._integrals[middle]

    def __call__(self, t: FloatArray) -> FloatArray:
        count, left = self._find(t)
        place = t - self.values.take(left)
        place *= self._slopes.take(count)
        place += self._crps.take(left)
        return place

    def slope(self, t: FloatArray) -> FloatArray:
        """Return the slope to the right of t."""
        return np.asarray(self._slopes.take(self._find(t)[0]))

    def integral(self, t: FloatArray) -> FloatArray:
        """Return the integral from the middle value to t."""
        count, left = self._find(t)
        start, slope, place = self._crps.take(left), self._slopes.take(count), t - self.values.take(left)
        return np.asarray(self._integrals.take(left) + place * (start + slope * place / 2))

    def _find(self, t: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the number of values up to t, and the index of the last of them, or of the first value."""
        count = np.searchsorted(self.values, t, side="right")
        return count, np.maximum(count - 1, 0)

    def decayed_weight(self, end: FloatArray, length: FloatArray) -> FloatArray:
        """Return the sum of the weights beyond ``end``, each times exp(-distance / |length|), shape (n,).

        Beyond is above for positive lengths and below for negative ones.
        """
        last = end + _GONE * length
        start = np.searchsorted(self.values, np.minimum(end, last), side="right")
        stop = np.searchsorted(self.values, np.maximum(end, last), side="right")
        count = np.maximum(stop - start, 0)
        row = np.repeat(np.arange(end.size), count)
        member = np.arange(row.size) - np.repeat(np.cumsum(count) - count - start, count)
        decay = np.exp(-np.abs((self.values[member] - end[row]) / length[row]))
        return np.asarray(np.bincount(row, self.weights[member] * decay, end.size), dtype=np.float64)


def step_shape(values: FloatArray, weights: FloatArray) -> Shape:
    """Return the shape of a sorted sample with weights that sum to one."""
    below = np.cumsum(weights)
    low, middle, high = np.minimum(np.searchsorted(below, ndtr([-1.0, 0.0, 1.0])), values.size - 1)
    center, unit = float(values[middle]), float(values[high] - values[low]) / 2
    if not unit > 0:  # most of the weight is on one value
        unit = float(values[-1] - values[0]) or 1.0
    at = (values - center) / unit
    crps, members = StepCrps(at, weights), Rule(at, weights)
    rule = members
    if at.size > _EXACT_MEMBERS:
        rule = cell_rule(at, weights, score_cell(ndtri(np.minimum(below - weights / 2, 1.0))))
    return Shape(center, unit, crps, crps.half_difference, rule, np.empty(0), np.empty(0), members)
