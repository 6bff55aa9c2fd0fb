"""Container of rows: selection, stacking and pickling of all distributions."""

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
    _stack: ClassVar[Callable[[Sequence[Any]], Any]]  # `stack_rows`, or `stack_joints` for several targets
    # Parameters with one row per sample. They are arrays, distributions, tuples of distributions, or None.
    _PER_ROW: ClassVar[tuple[str, ...]] = ()
    _ALIKE: ClassVar[tuple[str, ...]] = ()  # attributes that must be equal in all parts of a stack
    _COLUMNS: ClassVar[str] = "means and standard deviations"
    _SELECTION: ClassVar[str] = "Select rows with dist[rows]"

    def _parameters(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields}

    def _per_row(self) -> tuple[str, ...]:
        """Return the names of the parameters with one row per sample. All other parameters are shared."""
        return self._PER_ROW

    def _with(self, **changes: Any) -> Self:
        return type(self)(**{**self._parameters(), **changes})

    def _rows(self) -> int:
        """Return the number of rows."""
        first = getattr(self, self._per_row()[0])
        return len(first[0] if isinstance(first, tuple) else first)

    def _take(self, rows: IntArray) -> Any:
        """Return the distribution of the given rows."""
        parameters = self._parameters()
        for name in self._per_row():
            parameters[name] = _select(parameters[name], rows)
        return type(self)(**parameters)

    @classmethod
    def _merge(cls, parts: Sequence[Self]) -> Self | None:
        """Return one distribution of this family with the rows of all parts, or None if impossible."""
        names = parts[0]._per_row()
        kinds = {(part._per_row(), *(getattr(part, name) for name in cls._ALIKE)) for part in parts}
        if not names or len(kinds) > 1:
            return None
        columns = _columns(parts)
        for name, values in columns.items():
            if name in names:
                mergeable = len({_row_shape(value) for value in values}) == 1
            else:
                mergeable = all(equal(values[0], value) for value in values[1:])
            if not mergeable:
                return None
        return parts[0]._with(**{name: _concatenate(columns[name]) for name in names})

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
        taken: Selected = self._take(rows)
        return taken

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={len(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._parameters().values())

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


def equal(first: Any, second: Any) -> bool:
    """Return whether two parameters of distributions are equal."""
    if first is second:
        return True
    return first.equals(second) if hasattr(first, "equals") else np.array_equal(first, second)


def _select(value: Any, rows: IntArray) -> Any:
    if isinstance(value, tuple):
        return tuple(part[rows] for part in value)
    return None if value is None else value[rows]


def _columns(parts: Sequence[RowContainer[Any]]) -> dict[str, list[Any]]:
    """Return the values of each parameter in all parts."""
    parameters = [part._parameters() for part in parts]
    columns = {name: [each[name] for each in parameters] for name in parameters[0]}
    weights = columns.get("weights", [])
    given = [each for each in weights if each is not None]
    if "weights" in parts[0]._per_row() and given:
        # None means equal weights. Parts with another number of weights are not merged.
        m = given[0].shape[1]
        columns["weights"] = [
            np.full((len(part), m), 1.0 / m) if each is None else each
            for part, each in zip(parts, weights, strict=True)
        ]
    return columns


def _row_shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of one row, or the number of distributions of each row. It is None for None."""
    if isinstance(value, tuple):
        return (len(value),)
    return None if value is None else value.shape[1:] if isinstance(value, np.ndarray) else ()


def _concatenate(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, tuple):
        return tuple(_concatenate(column) for column in zip(*values, strict=True))
    if first is None:
        return None
    return np.concatenate(values) if isinstance(first, np.ndarray) else first._stack(values)


def check_univariate(value: Any, name: str) -> None:
    """Raise an error if the value is a joint distribution of several targets."""
    if isinstance(value, RowContainer) and value._several_targets:
        raise TypeError(
            f"`{name}` must be a distribution of one target, got the {type(value).__name__} of "
            f"{value.shape[1]} targets. Select one target with `.marginal(...)`, or a weighted sum of the "
            "targets with `.linear(w)`. To score the joint distribution, use `energy_score_loss` or "
            "`variogram_score_loss`."
        )
