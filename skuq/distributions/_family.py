"""Methods of a family that the integrals over levels and over values call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from skuq._numeric import smaller_tail
from skuq._typing import FloatArray, IntArray
from skuq.exceptions import NoDensityError

RowMap: TypeAlias = Callable[[FloatArray], FloatArray]
"""Function from one number per row to one number per row. Both arrays have the shape (n,)."""

Atoms: TypeAlias = Iterator[tuple[FloatArray, FloatArray]]
"""Outcomes and their probabilities, both of shape (n,). The outcomes of a row increase."""


@dataclass(frozen=True)
class Lattice:
    """Maps from integer indices to the atoms of a distribution, and from the atoms to the indices."""

    atom: RowMap
    index: RowMap


INTEGERS = Lattice(np.array, np.array)
"""The atom of an integer is the integer itself."""

NO_DENSITY = (
    "this {kind} has no density, because a row has atoms (point masses or ties). Therefore, `pdf` and "
    "`logpdf` are undefined. The log score is only defined if every row is discrete (`has_mass`). Use "
    "`crps`, use `logpmf` for the masses of atoms, or use a family with a density."
)


class Family(ABC):
    """Hooks of a family. `Distribution` has default integrals for all other methods."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _take(self, rows: IntArray) -> Any: ...

    @abstractmethod
    def _cdf(self, y: FloatArray) -> FloatArray:
        """Return P(Y <= y). The values y have the shape (n,)."""

    @abstractmethod
    def _ppf(self, p: FloatArray) -> FloatArray:
        """Return the smallest y with cdf(y) >= p. The level p is a 0-d array or has the shape (n,)."""

    def _sf(self, y: FloatArray) -> FloatArray:
        """Return P(Y > y). Override this method if another formula is more precise."""
        return 1.0 - self._cdf(y)

    def _isf(self, q: FloatArray) -> FloatArray:
        """Return the quantile at level 1 - q. Override this method if another formula is more precise."""
        return self._ppf(np.minimum(1.0 - q, 1.0 - 2.0**-53))

    def _normal_score(self, y: FloatArray) -> FloatArray:
        """Return Phi^{-1}(F(y)). Override this method if levels may underflow."""
        lower, upper = self._cdf(y), self._sf(y)
        return np.where(lower < upper, ndtri(lower), -ndtri(upper))

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        """Return the quantile at level Phi(score). The score is a 0-d array or has the shape (n,)."""
        tail = smaller_tail(score)
        if (score > 0).all():
            return self._isf(tail)
        if (score <= 0).all():
            return self._ppf(tail)
        return np.where(score > 0, self._isf(tail), self._ppf(tail))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        raise NoDensityError(NO_DENSITY.format(kind=type(self).__name__))

    @abstractmethod
    def _logpmf(self, y: FloatArray) -> FloatArray: ...

    @property
    def has_density(self) -> bool:
        """True if every row has a density. If False, a row has atoms, and `logpdf` raises an error."""
        return False

    @property
    def has_mass(self) -> bool:
        """True if every row consists of atoms at known points, such as the integers. See `logpmf`."""
        return False

    def _standard_form(self) -> tuple[FloatArray, FloatArray, Any] | None:
        """Return (loc, scale, Z) if row i is loc_i + scale_i Z with a one-row Z, otherwise None."""
        return None

    def _leaves(self) -> list[tuple[Any, Any]]:
        """Return the weights and the components of this mixture. A weight is a number or has shape (n,)."""
        return [(1.0, self)]

    def _level_breaks(self) -> FloatArray:
        return np.empty(0)

    @abstractmethod
    def _finite_part(self) -> Any: ...

    @property
    @abstractmethod
    def _integrable(self) -> Any: ...

    def _listed_atoms(self) -> Atoms | None:
        """Return all atoms and their probabilities, each of shape (n,), or None if there is no list."""
        return None

    def _lattice(self) -> Lattice | None:
        """Return the numbered atoms if their probabilities are smooth between landmarks, otherwise None."""
        return None

    def _clipped_density(self) -> tuple[Any, FloatArray, FloatArray] | None:
        """Return the base and both bounds if a base with a rough density is clipped, otherwise None."""
        return None

    @property
    def _light_tails(self) -> bool:
        """Return whether all tails are exponential or lighter."""
        return False

    @property
    def _integrates_values(self) -> bool:
        """Return whether integrals are computed over values of y, because quantiles require a search."""
        return False

    @abstractmethod
    def _landmarks(self) -> FloatArray:
        """Return points of each row, shape (n, k). Between two of these points, the cdf is smooth."""

    @abstractmethod
    def _tail_table(self, x: FloatArray) -> FloatArray:
        """Return P(Y <= x) in the first half of the k columns of x and P(Y > x) in the others."""


def of_base(name: str) -> Any:
    """Return a property that is True if the property ``name`` of the base is True."""

    def is_true(self: Any) -> bool:
        return bool(getattr(self.base, name))

    return property(is_true, doc=getattr(Family, name).__doc__)


def of_all(parts: str, name: str) -> Any:
    """Return a property that is True if the property ``name`` of all parts is True."""

    def is_true(self: Any) -> bool:
        return all(getattr(part, name) for part in getattr(self, parts))

    return property(is_true, doc=getattr(Family, name).__doc__)
