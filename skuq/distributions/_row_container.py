"""Base class that behaves like an array, so that scikit-learn can index distributions."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_no_nan, check_rows

Selected = TypeVar("Selected")


class RowContainer(ABC, Generic[Selected]):
    """Container of n rows that can be selected, converted to columns, and pickled."""

    __array_ufunc__ = None  # np.exp(dist) must raise an error instead of transforming the columns.
    ndim = 2
    dtype = np.dtype(np.float64)
    _several_targets: ClassVar[bool] = False
    _stack: ClassVar[Callable[[Sequence[Any]], Any]]  # `stack_joints` for joint distributions
    _COLUMNS: ClassVar[str] = "means and standard deviations"
    _SELECTION: ClassVar[str] = "Select rows with dist[rows]"

    @abstractmethod
    def _rows(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _take(self, rows: IntArray) -> Selected:
        """Return the distribution of the given rows."""

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the means."""

    @abstractmethod
    def std(self) -> FloatArray:
        """Return the standard deviations."""

    def var(self) -> FloatArray:
        """Return the variance of each row, shape (n,), in squared units of y.

        Returns
        -------
        var : ndarray of shape (n,)
            The square of `std`. Infinite if the square overflows.
        """
        with np.errstate(over="ignore"):
            return np.square(self.std())

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, 2) of the array ``np.asarray(dist)``, whose columns are mean and standard deviation."""
        return (len(self), 2)

    def _to_columns(self) -> FloatArray:
        return np.column_stack([self.mean(), self.std()])

    def __len__(self) -> int:
        return self._rows()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                f"`copy` must be None or True, got False. The array of {self._COLUMNS} is always new. "
                "Use copy=None."
            )
        return self._to_columns().astype(dtype or np.float64, copy=False)

    def __getitem__(self, key: Any) -> Selected:
        if isinstance(key, tuple):
            if any(
                not (part is Ellipsis or (isinstance(part, slice) and part == slice(None)))
                for part in key[1:]
            ):
                raise IndexError(
                    f"a {type(self).__name__} has no columns, got the index {key!r}. {self._SELECTION}."
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

    def _set(self, **values: Any) -> Self:
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        return self

    def _check_y(self, y: ArrayLike) -> FloatArray:
        values = check_no_nan(as_float_array(y, "y"), "y")
        if values.ndim == 0:
            return np.broadcast_to(values, (len(self),))
        return check_rows(values, "y", len(self))


def check_univariate(value: Any, name: str) -> None:
    """Raise an error if the value is a joint distribution of several targets."""
    if isinstance(value, RowContainer) and value._several_targets:
        raise TypeError(
            f"`{name}` must be a distribution of one target, got the {type(value).__name__} of "
            f"{value.shape[1]} targets. Select one target with `.marginal(...)`, or a weighted sum of the "
            "targets with `.linear(w)`. To score the joint distribution, use `energy_score_loss` or "
            "`variogram_score_loss`."
        )
