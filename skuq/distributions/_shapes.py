r"""One-row distributions with a tabulated CRPS, and the expectation of the CRPS over another distribution.

Let c be the CRPS of a distribution F. Let X be a draw from F, Y and Y' draws from G, and S_G = 1/2 E|Y - Y'|.
Then

    E c(Y) = E|X - Y| - S_F,    int (F(x) - G(x))^2 dx = E c(Y) - S_G.

The distance is therefore the expectation of c, which has a continuous derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._typing import FloatArray, IntArray
from skuq.distributions._family import Family
from skuq.distributions._tables import (
    EDGES,
    LAST_SCORE,
    CrpsTable,
    HermiteTable,
    Rule,
    cell_rule,
    score_edges,
    score_rule,
)

_LARGEST, _LIGHT = 1e28, 1e6
"""Largest distances of nodes from the center in units of the spread. The first is for tables and the second
for light tails."""

_COUNTS = 1e-13
"""A node is omitted if its weight times max(|node|, 1) is at most this number."""

_GONE = 40.0
"""After this number of decay lengths, an exponential tail is negligible."""

_EXACT_MEMBERS = 256
"""If there are at most this number of members, the members are the nodes of the rule."""

ROUGH = 1.0
"""If a density has larger jumps than this value, the edges are not equally spaced."""

_LOCAL = 200.0
"""The error of a rule is tabulated up to this value."""


_NONE: FloatArray = np.empty(0)


class TabulatedCrps(Protocol):
    """A CRPS as a function of the value, with its slope and its integral."""

    @property
    def narrow(self) -> float: ...
    def __call__(self, t: FloatArray) -> FloatArray: ...
    def slope(self, t: FloatArray) -> FloatArray: ...
    def integral(self, t: FloatArray) -> FloatArray: ...


class Shape:
    """Distribution of Z, for rows loc + scale (center + unit Z).

    Z has a center near 0 and a spread near 1.
    """

    def __init__(
        self,
        center: float,
        unit: float,
        crps: TabulatedCrps,
        half_difference: float,
        make_rule: Callable[[int], Rule],
        edges: FloatArray = _NONE,
        kinks: FloatArray = _NONE,
        jumps: FloatArray = _NONE,
        members: Rule | None = None,
        exact_crps: TabulatedCrps | None = None,
    ) -> None:
        self.exact_crps = crps if exact_crps is None else exact_crps
        self.center, self.unit, self.crps, self.half_difference = center, unit, crps, half_difference
        self.edges, self.kinks, self.jumps, self.members = edges, kinks, jumps, members
        self.roughness = float(np.abs(jumps).max(initial=0.0))
        self._make_rule = make_rule
        self._rules: dict[int, Rule] = {}

    @property
    def smooth(self) -> bool:
        return self.members is None and self.kinks.size == 0

    def rule(self, refined: int = 1) -> Rule:
        if refined not in self._rules:
            self._rules[refined] = self._make_rule(refined)
        return self._rules[refined]

    def expected_crps(
        self, over: Shape, refined: int | None, loc: FloatArray, scale: FloatArray
    ) -> FloatArray:
        """Return E c(loc + scale V), shape (n,).

        Here c is the CRPS of this shape, and V is a draw of another shape.
        """
        nodes, weights = over.nodes(refined)
        at = scale[:, np.newaxis] * nodes
        at += loc[:, np.newaxis]
        total = self.crps(at) @ weights
        if refined == 1 and self.kinks.size and over.edges.size:
            with np.errstate(over="ignore"):
                back = (self.kinks - loc[:, np.newaxis]) / np.where(scale > 0, scale, 1.0)[:, np.newaxis]
            total += scale**2 * (over._rule_error(np.clip(back, EDGES[0], EDGES[-1])) @ self.jumps)
        return np.asarray(total)

    def nodes(self, refined: int | None) -> Rule:
        if refined is not None:
            return self.rule(refined)
        if self.members is None:
            raise ValueError("`refined` must be a number for a distribution with a density, got None.")
        return self.members

    def half_difference_for(self, integrand: Shape, refined: int | None) -> float:
        nodes, weights = self.nodes(refined)
        light = max(-nodes[0], nodes[-1]) < _LIGHT
        if refined is None or (light and integrand is not self):
            return self.half_difference
        if integrand is self:
            return float(self.expected_crps(self, refined, np.zeros(1), np.ones(1))[0])
        return float(self.exact_crps(nodes) @ weights)

    @cached_property
    def _rule_error(self) -> HermiteTable:
        """Return the exact expectation of max(Z - b, 0)^2 minus the value of the rule, as a function of b."""
        (nodes, weights), local = self.rule(), self.edges[np.abs(self.edges) < _LOCAL]
        values, slopes = np.zeros_like(EDGES), np.zeros_like(EDGES)
        if local.size < 2:
            return HermiteTable(values, slopes)
        low, high = local[0], local[-1]
        inside = np.flatnonzero((low < EDGES) & (high > EDGES))
        b = np.concatenate([[low], EDGES[inside], [high]])
        near = (nodes > low) & (nodes < high)
        first = np.searchsorted(nodes[near], b)  # Index of the first node above b.
        mass, mean, square = (
            np.append(np.cumsum((weights * nodes**power)[near][::-1])[::-1], 0.0)[first] for power in range(3)
        )
        share = 1 - 2 * weights[nodes > high].sum()
        error = b**2 / 2 * share - self.crps.integral(b) - (square - 2 * b * mean + b**2 * mass)
        slope = b * share - self.crps(b) + 2 * (mean - b * mass)
        line = (error[-1] - error[0]) / (high - low)
        values[inside] = (error - error[0] - line * (b - low))[1:-1]
        slopes[inside] = (slope - line)[1:-1]
        return HermiteTable(values, slopes)


def tabulated_shape(
    dist: Family,
    make_table: Callable[[], CrpsTable],
    scores: FloatArray,
    kinks: FloatArray,
    jumps: FloatArray,
) -> Shape | None:
    """Return the shape of a distribution with a density. Return None if its tails are too heavy."""
    low, center, high = (float(dist._from_normal_score(np.array(score))[0]) for score in (-1.0, 0.0, 1.0))
    unit = (high - low) / 2

    def values(score: FloatArray) -> FloatArray:
        return np.asarray((dist._from_normal_score(score) - center) / unit)

    def to_score(value: FloatArray) -> FloatArray:
        return dist._normal_score(center + unit * value)

    def make_rule(refined: int) -> Rule:
        at, weights, cell = score_rule(score_edges(refined, values, to_score), scores)
        rule = cell_rule(values(at), weights, cell)
        counts = rule.weights * np.maximum(np.abs(rule.nodes), 1) > _COUNTS
        return Rule(rule.nodes[counts], rule.weights[counts])

    if not (unit > 0 and np.abs(values(np.array([-LAST_SCORE, LAST_SCORE]))).max() < _LARGEST):
        return None
    edges = values(score_edges(1, values, to_score))
    with np.errstate(over="ignore"):
        beyond = center + unit * EDGES
    exact = _ScaledTable(make_table(), center, unit)
    half, kinks, jumps = exact.table.mean_difference / 2 / unit, (kinks - center) / unit, jumps * unit
    if np.abs(jumps).max(initial=0.0) > ROUGH:
        return Shape(center, unit, exact, half, make_rule, edges, kinks, jumps)
    slopes = np.where(EDGES < 0, 2 * dist._cdf(beyond) - 1, 1 - 2 * dist._sf(beyond))
    quick = HermiteTable(exact(EDGES), slopes)
    return Shape(center, unit, quick, half, make_rule, edges, kinks, jumps, exact_crps=exact)


class _ScaledTable:
    narrow = 1e-5

    def __init__(self, table: CrpsTable, center: float, unit: float) -> None:
        self.table, self.center, self.unit = table, center, unit

    def __call__(self, t: FloatArray) -> FloatArray:
        return np.asarray(self.table((self.center + self.unit * t).ravel()).reshape(t.shape) / self.unit)

    def slope(self, t: FloatArray) -> FloatArray:
        return self.table.slope(self.center + self.unit * t)

    def integral(self, t: FloatArray) -> FloatArray:
        return np.asarray(self.table.integral(self.center + self.unit * t) / self.unit**2)


class StepCrps:
    """CRPS of a sorted sample. It is linear between the values."""

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
        # The CRPS at the smallest value is the mean distance from this value minus half the mean difference.
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
        return np.asarray(self._slopes.take(self._find(t)[0]))

    def integral(self, t: FloatArray) -> FloatArray:
        count, left = self._find(t)
        start, slope, place = self._crps.take(left), self._slopes.take(count), t - self.values.take(left)
        return np.asarray(self._integrals.take(left) + place * (start + slope * place / 2))

    def _find(self, t: FloatArray) -> tuple[IntArray, IntArray]:
        count = np.searchsorted(self.values, t, side="right")
        return count, np.maximum(count - 1, 0)

    def decayed_weight(self, end: FloatArray, length: FloatArray) -> FloatArray:
        """Return the sum of the weights beyond ``end``, each times exp(-distance / |length|), shape (n,)."""
        last = end + _GONE * length
        start = np.searchsorted(self.values, np.minimum(end, last), side="right")
        stop = np.searchsorted(self.values, np.maximum(end, last), side="right")
        count = np.maximum(stop - start, 0)
        row = np.repeat(np.arange(end.size), count)
        member = np.arange(row.size) - np.repeat(np.cumsum(count) - count - start, count)
        decay = np.exp(-np.abs((self.values[member] - end[row]) / length[row]))
        return np.asarray(np.bincount(row, self.weights[member] * decay, end.size), dtype=np.float64)


def step_shape(values: FloatArray, weights: FloatArray) -> Shape:
    """Return the shape of a sorted sample. The weights sum to 1."""
    below = np.cumsum(weights)
    low, middle, high = np.minimum(np.searchsorted(below, ndtr([-1.0, 0.0, 1.0])), values.size - 1)
    center, unit = float(values[middle]), float(values[high] - values[low]) / 2
    if not unit > 0:  # One value has most of the weight, so that both quantiles are equal.
        unit = float(values[-1] - values[0]) or 1.0
    at = (values - center) / unit
    crps, members = StepCrps(at, weights), Rule(at, weights)

    def make_rule(refined: int) -> Rule:
        if at.size <= _EXACT_MEMBERS:
            return members
        middle = ndtri(np.minimum(below - weights / 2, 1.0))
        edges = score_edges(
            refined, lambda score: np.interp(score, middle, at), lambda value: np.interp(value, at, middle)
        )
        return cell_rule(at, weights, np.searchsorted(edges, middle))

    return Shape(center, unit, crps, crps.half_difference, make_rule, members=members)
