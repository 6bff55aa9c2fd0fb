"""Base class that behaves like an array, so that scikit-learn can index distributions."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from skuq._typing import FloatArray, IntArray

Selected = TypeVar("Selected")


class RowContainer(ABC, Generic[Selected]):
    """Container of n rows that can be selected, converted to two columns, and pickled."""

    __array_ufunc__ = None  # np.exp(dist) must raise an error instead of transforming the two columns.
    ndim = 2
    dtype = np.dtype(np.float64)

    @abstractmethod
    def _rows(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _take(self, rows: IntArray) -> Selected:
        """Return the distribution of the given rows."""

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the first column."""

    @abstractmethod
    def std(self) -> FloatArray:
        """Return the second column."""

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self), 2)

    def __len__(self) -> int:
        return self._rows()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                "`copy` must be None or True, because the array of means and standard deviations is always "
                "new, got False. Use copy=None."
            )
        return np.column_stack([self.mean(), self.std()]).astype(dtype or np.float64, copy=False)

    def __getitem__(self, key: Any) -> Selected:
        if isinstance(key, tuple):
            if any(
                not (part is Ellipsis or (isinstance(part, slice) and part == slice(None)))
                for part in key[1:]
            ):
                raise IndexError(
                    f"a {type(self).__name__} has no columns, got the index {key!r}. Select rows with "
                    "dist[rows]."
                )
            key = key[0] if key else Ellipsis
        rows = np.atleast_1d(np.arange(len(self))[key])
        if rows.ndim != 1:
            raise IndexError(f"the index of a {type(self).__name__} must be one-dimensional, got {key!r}.")
        return self._take(rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={len(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return type(self), tuple(values)
