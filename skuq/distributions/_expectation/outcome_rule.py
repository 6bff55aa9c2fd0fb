"""Expected value of a function of the outcome, for each row.

A mixture is divided into its components. If a row has only a few atoms, the expected value of g(Y) is a sum
over the atoms. Otherwise, the expected value is an integral of g(Q(u)) over the levels u. If quantiles need a
search, the expected value is an integral of g(y) f(y) over the values y. If the atoms are integers, it is a
sum of g(k) P(Y = k) by a rule that evaluates a few integers k. Each kink or jump of the distribution or of
the function is the edge of a panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np

from skuq._typing import BoolArray, FloatArray
from skuq.distributions._expectation.integer_sums import Lattice, RowMap
from skuq.distributions._expectation.outcome_panels import (
    MOST_KEPT,
    Leaf,
    LevelPanels,
    Panels,
    SumPanels,
    ValuePanels,
    tail_masses,
    tail_nodes,
)
from skuq.distributions._numerics.level_quadrature import times

Atom: TypeAlias = tuple[FloatArray, FloatArray]
"""Outcome and probability of an atom in each row, both of shape (n,)."""

MOST_ATOMS = 1000
"""If a row has at most this number of atoms, its expected value is a sum over the atoms."""

LEAST_MASS = 1e-10
"""Atoms with at most this probability are ignored."""


class Divisible(Protocol):
    def _finite_part(self) -> Divisible: ...
    def _leaves(self) -> list[tuple[Any, Any]]: ...


class OutcomeRule:
    """Quadrature rule for functions that are smooth except at fixed values and at one value per row.

    With ``sum_integers``, the rule evaluates all integers of a row if there are few.
    """

    def __init__(self, dist: Divisible, breaks: Sequence[float] = (), sum_integers: bool = True) -> None:
        leaves = dist._finite_part()._leaves()
        self._parts = [
            (weight, _LeafRule(leaf, breaks, sum_integers)) for weight, leaf in leaves if np.any(weight > 0)
        ]

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

    def __init__(self, dist: Leaf, breaks: Sequence[float], sum_integers: bool) -> None:
        self._dist, self._breaks = dist, breaks
        self._lattice = None if dist.has_density else dist._lattice()
        self._listed = dist._listed_atoms() is not None
        self._clipped = dist._clipped_density()
        no_sum = self._listed or (self._lattice is not None and not sum_integers)
        most = 0 if no_sum else min(MOST_ATOMS, MOST_KEPT // len(dist))
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
        if self._dist.has_density and not self._dist._has_smooth_quantiles:
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


def find_atoms(dist: Leaf, lattice: Lattice | None, most: int) -> tuple[list[Atom], BoolArray]:
    """Return the atoms of rows with only a few atoms, with their probabilities, and a mask of these rows."""
    if dist.has_density or most == 0:
        return [], np.zeros(len(dist), dtype=bool)
    return _search_atoms(dist, most) if lattice is None else _list_atoms(dist, lattice, most)


def _list_atoms(dist: Leaf, lattice: Lattice, most: int) -> tuple[list[Atom], BoolArray]:
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


def _search_atoms(dist: Leaf, most: int) -> tuple[list[Atom], BoolArray]:
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
