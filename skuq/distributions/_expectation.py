"""Expected values of functions of the outcome, for each row.

A sum over many consecutive integers is computed from the terms at a few of them. The rule evaluates m of M
integers, which are the neighbors of the Gauss-Legendre nodes. Its weights give the exact sum of each
polynomial of degree below m. The conditions are written in the Gram polynomials, which are orthogonal on M
equidistant points, so all right sides except the first are 0. At most m integers have the weight 1.

A mixture is divided into its components. If a row has only a few atoms, the expected value of g(Y) is a sum
over the atoms. Otherwise, the expected value is an integral of g(Q(u)) over the levels u. If quantiles need a
search, the expected value is an integral of g(y) f(y) over the values y. If the atoms are integers, it is a
sum of g(k) P(Y = k) by a rule that evaluates a few integers k. Each kink or jump of the distribution or of
the function is the edge of a panel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.polynomial.legendre import leggauss

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions._discrete import MOST_ATOMS, Term
from skuq.distributions._family import Atoms, Family, Lattice, RowMap
from skuq.distributions._level_quadrature import (
    FINE,
    level_mean_distance,
    level_moments,
    make_grid,
    node_quantile,
    row_nodes,
    times,
    unit_rule,
)
from skuq.distributions._value_quadrature import value_mean_distance, value_moments

SIZE = 10
"""Number of integers that the rule evaluates."""

_SUM_NODES = (leggauss(SIZE)[0][:, np.newaxis] + 1) / 2
_STEPS = np.arange(float(SIZE))[:, np.newaxis]


def cdf_steps(dist: Family, atoms: Atoms) -> Atoms:
    """Yield the outcomes of ``atoms`` with their probabilities under ``dist``."""
    reached = np.zeros(len(dist))
    for outcome, _ in atoms:
        cdf = dist._cdf(outcome)
        yield outcome, np.maximum(cdf - reached, 0.0)
        reached = cdf


def sum_rule(count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the offsets and weights of a rule for the sum over 0, ..., count - 1, both of shape (m, n)."""
    few = count <= SIZE
    # The clip keeps the integers distinct if nodes are less than 1 apart.
    spread = np.clip(np.floor(_SUM_NODES * count), _STEPS, np.maximum(count - SIZE, 0.0) + _STEPS)
    offsets = np.where(few, np.minimum(_STEPS, np.maximum(count - 1, 0.0)), spread)
    weights = np.asarray(count > _STEPS, dtype=np.float64)
    if not few.all():
        weights[:, ~few] = _weights(offsets[:, ~few], count[~few])
    return offsets, weights


def _weights(offsets: FloatArray, count: FloatArray) -> FloatArray:
    x = (2 * offsets + 1) / count - 1
    gram = [np.ones_like(x), x]
    for r in range(1, SIZE - 1):
        gram.append(x * gram[r] - r**2 * (1 - (r / count) ** 2) / (4 * r**2 - 1) * gram[r - 1])
    sums = np.zeros((count.size, SIZE, 1))
    sums[:, 0, 0] = count
    return np.asarray(np.linalg.solve(np.stack(gram).transpose(2, 0, 1), sums)[:, :, 0].T)


Weighted: TypeAlias = Iterator[tuple[FloatArray, FloatArray]]
"""Weights and outcomes, both of shape (n,)."""

MOST_KEPT = 20_000_000
"""At most this number of outcomes is in memory at the same time."""

_NODES, _WEIGHTS = unit_rule(12)
"""Quadrature rule of a panel of values."""

_TAIL_EDGES = np.exp(-np.array([660.0, 128, 32, 8, 2, 0]))
"""Edges of panels beyond the outermost landmarks, as shares of the probability beyond them."""

_LEAST_TAIL = 1e-20
"""A tail with at most this probability is ignored."""

_LIGHT_TAIL = 1e-12
"""An exponential tail with a smaller probability is ignored."""

_LEAST_BEYOND = 1e-15
"""If the probability beyond an atom is smaller, the atom is an end of the support."""

_MANY_PANELS = 500
"""If there are more panels, the density may jump inside a panel. The probability of a panel is then exact."""

_LEAST_PANEL, _LEAST_DENSITY = 1e-10, 1e-280
"""Smallest probability of a panel that is kept, and smallest density at a node of such a panel."""

_MOST_PIECES = 40
"""At most this number of panels divides the integers between two landmarks."""


class Panels(ABC):
    """Panels of a quadrature rule. A panel that contains a given point is integrated in parts."""

    low: FloatArray
    high: FloatArray

    def integrate(self, function: RowMap, points: FloatArray) -> FloatArray:
        """Return the integral of each row. Panels are split at the sorted points, shape (k, n)."""
        panels, position = self._locate(points)
        total = np.zeros(points.shape[1])
        for place, weight, outcome in self._nodes():
            whole = (panels != place).all(axis=0)
            if whole.any():
                total += times(np.where(whole, weight, 0.0), function(outcome))
        for start, stop, panel in self._ranges(panels, position):
            for weight, outcome in self._range_nodes(start, stop, panel):
                total += times(weight, function(outcome))
        return total

    def _ranges(
        self, panels: IntArray, position: FloatArray
    ) -> Iterator[tuple[FloatArray, FloatArray, IntArray]]:
        """Yield the parts into which panels are split."""
        for j, panel in enumerate(panels):
            again = j > 0 and panel == panels[j - 1]
            last = j == len(panels) - 1 or panel != panels[j + 1]
            low, high = self._edges(panel)
            yield np.where(again, position[j - 1], low), position[j], panel
            yield position[j], np.where(last, high, position[j]), panel

    @abstractmethod
    def _locate(self, points: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the panel of each point and the position in the panel, both of shape (k, n)."""

    @abstractmethod
    def _edges(self, panel: IntArray) -> tuple[FloatArray, FloatArray]: ...

    @abstractmethod
    def _nodes(self) -> Iterator[tuple[int, FloatArray | float, FloatArray]]:
        """Yield the panel, the weight and the outcome of each node."""

    @abstractmethod
    def _range_nodes(self, start: FloatArray, stop: FloatArray, panel: Any) -> Weighted: ...


class LevelPanels(Panels):
    """Panels over the levels. All rows have the same panels."""

    def __init__(self, dist: Family) -> None:
        self._dist, self._grid = dist, make_grid(dist._level_breaks())
        self._kept: dict[int, FloatArray] = {}

    def _locate(self, points: FloatArray) -> tuple[IntArray, FloatArray]:
        levels = [(self._dist._cdf(point), self._dist._sf(point)) for point in points]
        panels = np.stack([self._grid.find(u, q) for u, q in levels])
        upper = self._grid.upper[panels]
        position = np.stack([np.where(upper[j], q, u) for j, (u, q) in enumerate(levels)])
        low, high = self._edges(panels)
        # Rounding may move a level out of its panel.
        return panels, np.clip(position, np.minimum(low, high), np.maximum(low, high))

    def _edges(self, panel: IntArray) -> tuple[FloatArray, FloatArray]:
        return self._grid.low[panel], self._grid.high[panel]

    def _nodes(self) -> Iterator[tuple[int, FloatArray | float, FloatArray]]:
        keep = self._grid.nodes.size * len(self._dist) <= MOST_KEPT
        for k, (panel, weight) in enumerate(zip(self._grid.panel, self._grid.weights, strict=True)):
            outcome = self._kept.get(k)
            if outcome is None:
                outcome = node_quantile(self._dist, self._grid.nodes[k], bool(self._grid.upper[panel]))
                if keep:
                    self._kept[k] = outcome
            yield int(panel), float(weight), outcome

    def _range_nodes(self, start: FloatArray, stop: FloatArray, panel: IntArray) -> Weighted:
        for _, weight, outcome in row_nodes(
            self._dist, start, stop, self._grid.tail[panel], self._grid.upper[panel]
        ):
            yield weight, outcome


class _RowPanels(Panels):
    """Panels between points of each row. The tails beyond these points are integrated over the levels."""

    def __init__(self, dist: Family, edges: FloatArray) -> None:
        self._dist, self._at = dist, edges
        self._kept: list[tuple[int, FloatArray, FloatArray]] = []

    def _locate(self, points: FloatArray) -> tuple[IntArray, FloatArray]:
        inside = np.clip(points, self._at[0], self._at[-1])
        below = np.stack([(self._at[1:-1] < point).sum(axis=0) for point in inside])
        return below, inside

    def _edges(self, panel: IntArray) -> tuple[FloatArray, FloatArray]:
        row = np.arange(panel.size)
        return self._at[panel, row], self._at[panel + 1, row]

    def _nodes(self) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        if self._kept:
            yield from self._kept
            return
        keep = 2 * self._at.size * _NODES.size <= MOST_KEPT
        for node in self._new_nodes():
            if keep:
                self._kept.append(node)
            yield node

    def _new_nodes(self) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        for panel, (low, high) in enumerate(pairwise(self._at)):
            yield from ((panel, *node) for node in self._range_nodes(low, high, None))
        yield from ((-1, *node) for node in self._tail_nodes())

    @abstractmethod
    def _tail_nodes(self) -> Weighted: ...


class ValuePanels(_RowPanels):
    """Panels over the values of each row, for distributions whose quantiles need a search."""

    def __init__(self, dist: Family) -> None:
        super().__init__(dist, np.sort(dist._landmarks(), axis=1).T)
        quartiles = dist._ppf(np.asarray(0.25)), dist._isf(np.asarray(0.25))
        self._center, self._spread = sum(quartiles) / 2, quartiles[1] - quartiles[0]

    def _tail_nodes(self) -> Weighted:
        return tail_nodes(self._dist, self._dist._cdf(self._at[0]), self._dist._sf(self._at[-1]))

    def _range_nodes(self, start: FloatArray, stop: FloatArray, panel: Any) -> Weighted:
        low, high = start - self._center, stop - self._center
        # The density of a heavy tail is a smooth function of the logarithm of the distance.
        far = (np.minimum(np.abs(low), np.abs(high)) > self._spread) & (low * high > 0)
        ratio = np.divide(high, low, out=np.ones_like(low), where=far)
        nodes: list[tuple[FloatArray, FloatArray]] = []
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            grown = low * ratio**node
            outcome = self._center + np.where(far, grown, low + (high - low) * node)
            step = weight * np.where(far, grown * np.log(ratio), high - low)
            with np.errstate(divide="ignore"):
                density = np.exp(self._dist._logpdf(outcome))
            nodes.append((times(step, density + self._least), outcome))
        if self._least:
            factor = self._correction(start, stop, sum(weight for weight, _ in nodes))
            nodes = [(weight * factor, outcome) for weight, outcome in nodes]
        yield from nodes

    @property
    def _least(self) -> float:
        return _LEAST_DENSITY if len(self._at) > _MANY_PANELS else 0.0

    def _correction(self, start: FloatArray, stop: FloatArray, total: Any) -> FloatArray:
        """Return the probability of a panel divided by its integrated density."""
        cdf, sf = ([level(end) for end in (start, stop)] for level in (self._dist._cdf, self._dist._sf))
        mass = np.where(cdf[0] < sf[1], cdf[1] - cdf[0], sf[0] - sf[1])
        kept = (mass > _LEAST_PANEL) & (total > 0)
        return np.asarray(np.divide(mass, total, out=np.ones_like(mass), where=kept))


class SumPanels(_RowPanels):
    """Panels over the indices of atoms. The panel between two indices contains the upper index.

    The first atom of each panel has its own node, because its probability may be the sum of two smooth parts.
    """

    # Larger integers are integrated as a tail, because their neighbors may be the same float.
    _largest = 2.0**52

    def __init__(self, dist: Family, lattice: Lattice, rows: BoolArray) -> None:
        self._lattice = lattice
        middle = np.rint(lattice.index(dist._ppf(np.asarray(0.5))))
        atoms = dist._listed_atoms()
        points = dist._landmarks().T if atoms is None else [outcome for outcome, _ in atoms]
        marks = np.stack([np.rint(lattice.index(point)) for point in points])
        marks = np.clip(np.where(rows & ~np.isnan(marks), marks, middle), -self._largest, self._largest)
        marks = np.sort(marks, axis=0)
        self.ends = marks[0], marks[-1]
        first, last = (lattice.atom(end) for end in self.ends)
        self._tails = tail_masses(dist, first, last)
        # Near an end of the support, the terms may be a power of the distance to the end.
        is_lowest, is_highest = (rows & (mass < _LEAST_BEYOND) for mass in self._tails)
        begins, ends = np.where(first <= last, (is_lowest, is_highest), (is_highest, is_lowest))
        for origin, chosen in ((middle, rows), (marks[0] - 1, begins), (marks[-1] + 1, ends)):
            marks = np.stack(list(_divide(marks, origin, chosen)))
        super().__init__(dist, np.concatenate([marks - 1, marks[-1:]]))

    def _tail_nodes(self) -> Weighted:
        return tail_nodes(self._dist, *self._tails)

    def _locate(self, points: FloatArray) -> tuple[IntArray, FloatArray]:
        first, last = self.ends
        index = np.stack([np.clip(self._lattice.index(point), first - 1, last + 1) for point in points])
        # An index may have a rounding error. The atom at a point is the first atom of the next panel.
        return super()._locate(np.ceil(index - 1e-9 - 1e-12 * np.abs(index)) - 1)

    def _range_nodes(self, start: FloatArray, stop: FloatArray, panel: Any) -> Weighted:
        yield from self._terms(start + 1, (stop > start).astype(np.float64))
        for offset, weight in zip(*sum_rule(np.maximum(stop - start - 1, 0.0)), strict=True):
            yield from self._terms(start + 2 + offset, weight)

    def _terms(self, index: FloatArray, weight: FloatArray) -> Weighted:
        if weight.any():
            outcome = self._lattice.atom(np.clip(index, *self.ends))
            yield times(weight, self._mass(outcome)), outcome

    def _mass(self, outcome: FloatArray) -> FloatArray:
        return np.exp(self._dist._logpmf(outcome))


class StepPanels(SumPanels):
    """Panels over integers for integrals of functions of a cdf that is constant between integers."""

    _largest = 1e300

    def integrate_cdf(self, y: FloatArray, below: Term, above: Term) -> FloatArray:
        """Return the integral of below(F) up to y plus the integral of above(1 - F) from y."""
        inside, one = np.clip(y, *self.ends), np.ones(())

        def term(integer: FloatArray) -> FloatArray:
            share = np.clip(inside - integer, 0.0, 1.0)
            cdf, sf = self._dist._cdf(integer), self._dist._sf(integer)
            return np.asarray(share * below(cdf) + (1 - share) * above(sf))

        beyond = np.maximum(y - inside, 0.0) * below(one) + np.maximum(inside - y, 0.0) * above(one)
        return np.asarray(beyond) + self.integrate(term, np.floor(inside)[np.newaxis])

    def moments(self, center: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard deviation. The ``center`` is an integer of each row."""

        def term(integer: FloatArray) -> FloatArray:
            return np.where(integer < center, -self._dist._cdf(integer), self._dist._sf(integer))

        split = center[np.newaxis]
        first = self.integrate(term, split)
        second = self.integrate(lambda integer: term(integer) * (2 * (integer - center) + 1), split)
        return center + first, np.sqrt(np.maximum(second - first**2, 0.0))

    def _tail_nodes(self) -> Weighted:
        return iter(())

    def _mass(self, outcome: FloatArray) -> FloatArray:
        return np.ones_like(outcome)


def _divide(marks: FloatArray, origin: FloatArray, rows: BoolArray) -> Iterator[FloatArray]:
    """Add marks, so that the distance to the origin at most doubles from mark to mark."""
    for low, high in pairwise(marks - origin):
        far = rows & (low * high > 0) & (high - low > SIZE)
        ratio = np.divide(high, low, out=np.ones_like(low), where=far)
        pieces = np.clip(np.ceil(np.abs(np.log2(ratio))), 1, _MOST_PIECES)
        for piece in range(int(pieces.max())):
            # The marks of a row must not depend on other rows. A row with fewer pieces repeats its last mark.
            share = np.minimum(piece / pieces, 1.0)
            yield origin + np.rint(np.where(far, low * ratio**share, low + (high - low) * share))
    yield marks[-1]


def tail_masses(dist: Family, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities below the smaller and above the larger of two atoms, both of shape (n,)."""
    low, high = np.minimum(first, last), np.maximum(first, last)
    return np.maximum(dist._cdf(low) - np.exp(dist._logpmf(low)), 0.0), dist._sf(high)


def tail_nodes(dist: Family, below: FloatArray, above: FloatArray) -> Weighted:
    """Yield the nodes of a rule over two tails with the given probabilities. Small tails are ignored."""
    if max(below.max(), above.max()) < (_LIGHT_TAIL if dist._light_tails else _LEAST_TAIL):
        return
    for quantile, mass in ((dist._ppf, below), (dist._isf, above)):
        kept = mass > _LEAST_TAIL
        for low, high in pairwise(_TAIL_EDGES):
            for node, weight in zip(*FINE, strict=True):
                share = low * (high / low) ** node
                width = np.where(kept, mass * share * weight * np.log(high / low), 0.0)
                yield width, quantile(np.where(kept, mass * share, 0.5))


Atom: TypeAlias = tuple[FloatArray, FloatArray]
"""Outcome and probability of an atom in each row, both of shape (n,)."""

_MOST_ATOMS_OF_RULE = 1000
"""If a row has at most this number of atoms, its expected value is a sum over the atoms."""

LEAST_MASS = 1e-10
"""Atoms with at most this probability are ignored."""


class OutcomeRule:
    """Quadrature rule for functions that are smooth except at fixed values and at one value per row.

    With ``sum_integers``, the rule evaluates all integers of a row if there are few.
    """

    def __init__(self, dist: Family, breaks: Sequence[float] = (), sum_integers: bool = True) -> None:
        leaves = dist._finite_part()._leaves()
        self._parts = [
            (weight, _LeafRule(leaf, breaks, sum_integers)) for weight, leaf in leaves if np.any(weight > 0)
        ]

    @np.errstate(over="ignore", invalid="ignore")  # Outer quantiles may be infinite.
    def expect(self, function: RowMap, split: FloatArray) -> FloatArray:
        """Return the expected value of the function in each row.

        The function may have a kink or jump at ``split``.
        """
        total = np.zeros(split.shape)
        for weight, part in self._parts:
            total += times(np.broadcast_to(weight, split.shape), part.expect(function, split))
        return total


class _LeafRule:
    """Rule of one component. It is a sum over atoms in some rows, and an integral in the other rows."""

    def __init__(self, dist: Family, breaks: Sequence[float], sum_integers: bool) -> None:
        self._dist, self._breaks = dist, breaks
        self._lattice = None if dist.has_density else dist._lattice()
        self._listed = dist._listed_atoms() is not None
        self._clipped = dist._clipped_density()
        no_sum = self._listed or (self._lattice is not None and not sum_integers)
        most = 0 if no_sum else min(_MOST_ATOMS_OF_RULE, MOST_KEPT // len(dist))
        self._found, self._is_sum = find_atoms(dist, self._lattice, most)

    def expect(self, function: RowMap, split: FloatArray) -> FloatArray:
        total = np.zeros(split.shape)
        atoms = self._dist._listed_atoms()
        for outcome, mass in self._found if atoms is None else atoms:
            total += times(mass, function(outcome))
        if self._listed or self._is_sum.all():
            return total
        if self._clipped is not None:
            _, lower, upper = self._clipped
            integral = self._integrate(lambda outcome: function(np.clip(outcome, lower, upper)), split)
        else:
            integral = self._integrate(function, split)
        return np.where(self._is_sum, total, integral)

    def _integrate(self, function: RowMap, split: FloatArray) -> FloatArray:
        breaks = (np.full(split.shape, value) for value in self._breaks)
        points = np.sort(np.stack([*breaks, *self._ends, split]), axis=0)
        return self._panels.integrate(function, points)

    @cached_property
    def _panels(self) -> Panels:
        if self._lattice is not None:
            return SumPanels(self._dist, self._lattice, ~self._is_sum)
        if self._clipped is not None:
            return ValuePanels(self._clipped[0])
        if self._dist.has_density and self._dist._integrates_values:
            return ValuePanels(self._dist)
        return LevelPanels(self._dist)

    @cached_property
    def _ends(self) -> list[FloatArray]:
        """Return the ends of the support, which may be atoms."""
        if self._clipped is not None:
            return list(self._clipped[1:])
        if self._dist.has_density or self._lattice is not None:
            return []
        mass = np.asarray(LEAST_MASS)
        return [self._dist._ppf(mass), np.nextafter(self._dist._isf(mass), -np.inf)]


def find_atoms(dist: Family, lattice: Lattice | None, most: int) -> tuple[list[Atom], BoolArray]:
    """Return the atoms of rows with only a few atoms, with their probabilities, and a mask of these rows."""
    if dist.has_density or most == 0:
        return [], np.zeros(len(dist), dtype=bool)
    return _search_atoms(dist, most) if lattice is None else _list_atoms(dist, lattice, most)


def _list_atoms(dist: Family, lattice: Lattice, most: int) -> tuple[list[Atom], BoolArray]:
    level = np.asarray(1e-13 if dist._light_tails else LEAST_MASS)
    ends = np.rint(np.stack([lattice.index(end) for end in (dist._ppf(level), dist._isf(level))]))
    first, last = np.sort(ends, axis=0)
    few = last - first < most
    middle = np.rint(lattice.index(dist._ppf(np.asarray(0.5))))
    first, last = np.where(few, first, middle), np.where(few, last, middle)
    atoms: list[Atom] = []
    for step in range(int((last - first).max()) + 1 if few.any() else 0):
        outcome = lattice.atom(np.minimum(first + step, last))
        atoms.append((outcome, np.where(few & (first + step <= last), np.exp(dist._logpmf(outcome)), 0.0)))
    tails = tail_nodes(dist, *tail_masses(dist, lattice.atom(first), lattice.atom(last)))
    return atoms + [(outcome, np.where(few, mass, 0.0)) for mass, outcome in tails], few


def _search_atoms(dist: Family, most: int) -> tuple[list[Atom], BoolArray]:
    n = len(dist)
    reached, is_sum, outcome = np.zeros(n), np.ones(n, dtype=bool), dist._ppf(np.asarray(0.5))
    atoms: list[Atom] = []
    for _ in range(most):
        done = reached >= 1 - 2 * LEAST_MASS
        if not (is_sum & ~done).any():
            break
        outcome = np.where(done, outcome, dist._ppf(np.minimum(reached + LEAST_MASS, 1.0)))
        mass = np.where(done, 0.0, np.maximum(dist._cdf(outcome) - reached, 0.0))
        # In a continuous part of a distribution, the next value has nearly no probability.
        is_sum &= done | (mass > 1.001 * LEAST_MASS)
        reached = reached + mass
        atoms.append((outcome, mass))
    is_sum &= reached >= 1 - 2 * LEAST_MASS
    return [(each, np.where(is_sum, mass, 0.0)) for each, mass in atoms], is_sum


_TAIL = np.asarray(1e-13)


def moments(dist: Any) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation. The mean is NaN if both tails have an infinite mean."""
    rule = _sum_rule(dist)
    if rule is None:
        return value_moments(dist) if dist._integrates_values else level_moments(dist)
    return rule_moments(rule, dist._ppf(np.asarray(0.5)))


def mean_distance(dist: Any, y: FloatArray) -> FloatArray:
    """Return E|Y - y|, shape (n,)."""
    rule = _sum_rule(dist)
    if rule is not None:
        return rule.expect(lambda outcome: np.abs(outcome - y), y)
    return value_mean_distance(dist, y) if dist._integrates_values else level_mean_distance(dist, y)


def rule_moments(rule: OutcomeRule, center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation, computed from the moments about ``center``."""
    with np.errstate(over="ignore", invalid="ignore"):
        first = rule.expect(lambda outcome: outcome - center, center)
        second = rule.expect(lambda outcome: (outcome - center) ** 2, center)
        variance = np.where(np.isfinite(second), np.maximum(second - first**2, 0.0), np.inf)
    return center + first, np.sqrt(variance)


def _sum_rule(dist: Any) -> OutcomeRule | None:
    """Return a rule if all atoms are listed or if a row has many numbered atoms, otherwise None."""
    if dist._listed_atoms() is not None:
        return OutcomeRule(dist)
    lattice = None if dist.has_density else dist._lattice()
    if lattice is None:
        return None
    size = np.abs(lattice.index(dist._isf(_TAIL)) - lattice.index(dist._ppf(_TAIL)))
    return OutcomeRule(dist, sum_integers=False) if (size > MOST_ATOMS).any() else None
