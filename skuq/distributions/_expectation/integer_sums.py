"""Sums over many consecutive integers, from the terms at a few of them.

The rule evaluates m of M integers, which are the neighbors of the Gauss-Legendre nodes. Its weights give the
exact sum of each polynomial of degree below m. The conditions are written in the Gram polynomials, which are
orthogonal on M equidistant points, so all right sides except the first are 0. At most m integers have the
weight 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.polynomial.legendre import leggauss

from skuq._typing import FloatArray

RowMap: TypeAlias = Callable[[FloatArray], FloatArray]
"""Function from one number per row to one number per row. Both arrays have the shape (n,)."""

Atoms: TypeAlias = Iterator[tuple[FloatArray, FloatArray]]
"""Outcomes and their probabilities, both of shape (n,). The outcomes of a row increase."""

SIZE = 10
"""Number of integers that the rule evaluates."""

_NODES = (leggauss(SIZE)[0][:, np.newaxis] + 1) / 2
_STEPS = np.arange(float(SIZE))[:, np.newaxis]


@dataclass(frozen=True)
class Lattice:
    """Maps from integer indices to the atoms of a distribution, and from the atoms to the indices."""

    atom: RowMap
    index: RowMap


class AtomHooks:
    """Hooks that families with many atoms override."""

    def _listed_atoms(self) -> Atoms | None:
        """Return all atoms and their probabilities, each of shape (n,), or None if there is no list."""
        return None

    def _lattice(self) -> Lattice | None:
        """Return the numbered atoms if their probabilities are smooth between landmarks, otherwise None."""
        return None

    def _clipped_density(self) -> tuple[Any, FloatArray, FloatArray] | None:
        """Return the base and both bounds if a base with a rough density is clipped, otherwise None."""
        return None


INTEGERS = Lattice(np.array, np.array)
"""The atom of an integer is the integer itself."""


def cdf_steps(dist: Any, atoms: Atoms | None) -> Atoms | None:
    """Return the outcomes of ``atoms`` with their probabilities under ``dist``."""
    return None if atoms is None else _cdf_steps(dist, atoms)


def _cdf_steps(dist: Any, atoms: Atoms) -> Atoms:
    reached = np.zeros(len(dist))
    for outcome, _ in atoms:
        cdf = dist._cdf(outcome)
        yield outcome, np.maximum(cdf - reached, 0.0)
        reached = cdf


def sum_rule(count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the offsets and weights of a rule for the sum over 0, ..., count - 1, both of shape (m, n)."""
    few = count <= SIZE
    # The clip keeps the integers distinct if nodes are less than 1 apart.
    spread = np.clip(np.floor(_NODES * count), _STEPS, np.maximum(count - SIZE, 0.0) + _STEPS)
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
