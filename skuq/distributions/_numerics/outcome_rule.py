"""Expected value of a function of the outcome, for each row.

A mixture is divided into its components. If a row has only a few atoms, the expected value of g(Y) is a sum
over the atoms. Otherwise, the expected value is an integral of g(Q(u)) over the levels u. If quantiles need a
search, the expected value is an integral of g(y) f(y) over the values y. Each kink or jump of the
distribution or of the function is the edge of a panel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions._numerics.cdf_quadrature import NODES, WEIGHTS
from skuq.distributions._numerics.level_quadrature import (
    LevelQuantiles,
    make_grid,
    node_quantile,
    row_nodes,
    times,
)

RowFunction: TypeAlias = Callable[[FloatArray], FloatArray]
"""Function from one outcome per row to one value per row. Both arrays have the shape (n,)."""

Weighted: TypeAlias = Iterator[tuple[FloatArray, FloatArray]]
"""Outcomes and their weights, both of shape (n,)."""

MOST_ATOMS = 1000
"""If a row has at most this number of atoms, its expected value is a sum over the atoms."""

MOST_KEPT = 20_000_000
"""At most this number of outcomes is in memory at the same time."""

LEAST_MASS = 1e-10
"""Atoms with at most this probability are ignored."""


class Leaf(LevelQuantiles, Protocol):
    @property
    def has_density(self) -> bool: ...
    @property
    def _integrates_values(self) -> bool: ...
    def _landmarks(self) -> FloatArray: ...
    def _logpdf(self, y: FloatArray) -> FloatArray: ...


class Divisible(Protocol):
    def _finite_part(self) -> Divisible: ...
    def _leaves(self) -> list[tuple[Any, Any]]: ...


class OutcomeRule:
    """Quadrature rule for functions that are smooth except at fixed values and at one value per row."""

    def __init__(self, dist: Divisible, breaks: Sequence[float] = ()) -> None:
        leaves = dist._finite_part()._leaves()
        self._parts = [(weight, _LeafRule(leaf, breaks)) for weight, leaf in leaves if np.any(weight > 0)]

    def expect(self, function: RowFunction, split: FloatArray) -> FloatArray:
        """Return the expected value of the function in each row.

        The function may have a kink or jump at ``split``.
        """
        total = np.zeros(split.shape)
        for weight, part in self._parts:
            total += times(np.broadcast_to(weight, split.shape), part.expect(function, split))
        return total


class _LeafRule:
    """Rule of one component. It is a sum over atoms in some rows, and an integral in the other rows."""

    def __init__(self, dist: Leaf, breaks: Sequence[float]) -> None:
        self._breaks, self._ends = breaks, [] if dist.has_density else _ends_of_support(dist)
        self._atoms, self._is_sum = find_atoms(dist)
        self._panels: _Panels = (
            _ValuePanels(dist) if dist._integrates_values and dist.has_density else _LevelPanels(dist)
        )

    def expect(self, function: RowFunction, split: FloatArray) -> FloatArray:
        total = np.zeros(split.shape)
        for outcome, mass in self._atoms:
            total += times(mass, function(outcome))
        if self._is_sum.all():
            return total
        breaks = (np.full(split.shape, value) for value in self._breaks)
        points = np.sort(np.stack([*breaks, *self._ends, split]), axis=0)
        return np.where(self._is_sum, total, self._panels.integrate(function, points))


def _ends_of_support(dist: Leaf) -> list[FloatArray]:
    mass = np.asarray(LEAST_MASS)
    return [dist._ppf(mass), np.nextafter(dist._isf(mass), -np.inf)]


class _Panels(ABC):
    """Panels of a quadrature rule. A panel that contains a given point is integrated in parts."""

    low: FloatArray
    high: FloatArray

    def integrate(self, function: RowFunction, points: FloatArray) -> FloatArray:
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
    def _range_nodes(self, start: FloatArray, stop: FloatArray, panel: IntArray) -> Weighted: ...


class _LevelPanels(_Panels):
    """Panels over the levels. All rows have the same panels."""

    def __init__(self, dist: LevelQuantiles) -> None:
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


class _ValuePanels(_Panels):
    """Panels over the values of each row, for distributions whose quantiles need a search."""

    def __init__(self, dist: Leaf) -> None:
        self._dist, self._at = dist, np.sort(dist._landmarks(), axis=1).T
        self._kept: list[tuple[int, FloatArray, FloatArray]] = []

    def _locate(self, points: FloatArray) -> tuple[IntArray, FloatArray]:
        inside = np.clip(points, self._at[0], self._at[-1])
        below = np.stack([(self._at[1:-1] < point).sum(axis=0) for point in inside])
        return below, inside

    def _edges(self, panel: IntArray) -> tuple[FloatArray, FloatArray]:
        row = np.arange(panel.size)
        return self._at[panel, row], self._at[panel + 1, row]

    def _nodes(self) -> Iterator[tuple[int, FloatArray | float, FloatArray]]:
        if self._kept:
            yield from self._kept
            return
        keep = 2 * self._at.size * NODES.size <= MOST_KEPT
        for panel, (low, high) in enumerate(zip(self._at[:-1], self._at[1:], strict=True)):
            for weight, outcome in self._range_nodes(low, high, None):
                if keep:
                    self._kept.append((panel, weight, outcome))
                yield panel, weight, outcome

    def _range_nodes(self, start: FloatArray, stop: FloatArray, panel: Any) -> Weighted:
        half = (stop - start) / 2
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            outcome = start + half * (node + 1)
            with np.errstate(divide="ignore"):
                density = np.exp(self._dist._logpdf(outcome))
            yield times(half * weight, density), outcome


def find_atoms(dist: Leaf) -> tuple[list[tuple[FloatArray, FloatArray]], BoolArray]:
    """Return the atoms and probabilities of rows that consist of few atoms. The mask contains these rows."""
    n = len(dist)
    if dist.has_density:
        return [], np.zeros(n, dtype=bool)
    reached, is_sum, outcome = np.zeros(n), np.ones(n, dtype=bool), dist._ppf(np.asarray(0.5))
    atoms: list[tuple[FloatArray, FloatArray]] = []
    for _ in range(min(MOST_ATOMS, MOST_KEPT // n)):
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
