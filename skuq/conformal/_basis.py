"""Coverage guarantees over a basis of functions of x (Gibbs, Cherian and Candès 2025)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import BoolArray, FloatArray
from skuq._validation import as_float_array, check_finite
from skuq._warnings import warn_user
from skuq.conformal._basis_path import Calibration, Vertex, cutoffs, separated, start
from skuq.exceptions import SmallSampleWarning

_ROWS_PER_FUNCTION = 100
"""With fewer calibration rows per function, intervals differ strongly between calibration sets."""

_RANK = 1e-10
"""If the relative singular value of a direction is smaller than this value, it is a rounding error, and the
functions are linearly dependent."""

_OUTSIDE = 1e-8
"""If the relative distance of a new row from the span of the calibration rows is larger than this value, the
row is outside the span."""

Basis = Callable[[Any], Any] | Hashable | list[Hashable]


def check_basis(basis: Any) -> None:
    if basis is None or callable(basis) or (isinstance(basis, str | int) and not isinstance(basis, bool)):
        return
    if not (isinstance(basis, list | tuple) and basis and all(isinstance(name, Hashable) for name in basis)):
        raise TypeError(
            "`basis` must be a callable X -> array of shape (n, d), a column name, a list of column names or "
            f"None, got {basis!r}."
        )


def read_basis(basis: Basis, X: Any, n: int) -> pd.DataFrame:
    if callable(basis):
        values = basis(X)
        frame = values if isinstance(values, pd.DataFrame) else pd.DataFrame(np.asarray(values))
    else:
        frame = _columns(X, list(basis) if isinstance(basis, list | tuple) else [basis])
    if frame.shape[0] != n or frame.shape[1] == 0:
        raise ValueError(
            f"`basis` must give {n} rows, one per row of X, and at least one column, got shape {frame.shape}."
        )
    return pd.DataFrame({number: _checked(frame.iloc[:, number]) for number in range(frame.shape[1])})


def _columns(X: Any, names: list[Any]) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame):
        raise TypeError(
            f"`X` must be a DataFrame if `basis` names columns ({names!r}), got {type(X).__name__}. In a "
            "Pipeline, call `set_output(transform='pandas')` to keep the names, or pass a callable X -> "
            "array."
        )
    unknown = [name for name in names if name not in X.columns]
    if unknown:
        raise ValueError(f"`basis` must name columns of X, got {unknown[0]!r}. X has {list(X.columns)}.")
    return X[names]


def _checked(column: pd.Series) -> np.ndarray:
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return check_finite(as_float_array(column.to_numpy(), "basis"), "basis")
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"`basis` must give a label for every row, got {column[missing].iloc[0]} at row "
            f"{int(np.argmax(missing))}. Replace missing values with a separate label."
        )
    return column.to_numpy(dtype=object)


class BasisRows:
    """Calibration rows, with their coordinates in a basis of full rank of the constant and the functions.

    A column of labels is replaced by one indicator function per label.
    """

    def __init__(self, functions: pd.DataFrame, weight: FloatArray) -> None:
        self._used = weight > 0
        self._weight = weight[self._used]
        functions = functions[self._used]
        self._n_functions = functions.shape[1]
        self._labels = {
            column: pd.Index(functions[column].unique())
            for column in functions
            if functions[column].dtype == object
        }
        design = self._design(functions)
        size = np.abs(design).max(axis=0)
        self._size = np.where(size > 0, size, 1.0)
        _, singular, directions = np.linalg.svd(design / self._size, full_matrices=False)
        self._directions = directions[singular > _RANK * singular[0]]
        self._phi = (design / self._size) @ self._directions.T
        self._solved: dict[tuple[int, float], tuple[Calibration, FloatArray, Vertex | None]] = {}

    def check(self) -> None:
        """Raise an error if there are as many functions as rows. Warn if there are few rows per function."""
        n, d = self._phi.shape
        if d >= n:
            raise ValueError(
                f"`basis` must have fewer independent functions than calibration rows, got {d} functions, "
                f"including the constant, and {n} calibration rows. Use fewer functions or more rows."
            )
        weight = float(self._weight.sum())
        if d > 1 and weight < _ROWS_PER_FUNCTION * d:
            warn_user(
                f"`basis` has {d} independent functions, including the constant, for {weight:g} calibration "
                f"rows. With fewer than {_ROWS_PER_FUNCTION} rows per function, intervals are wide and "
                f"differ between calibration sets. Use fewer functions or more rows.",
                SmallSampleWarning,
            )

    def quantile(self, scores: FloatArray, functions: pd.DataFrame, level: float) -> FloatArray:
        """Return the cutoffs of m new rows for each row of ``scores``, shape (b, m).

        A cutoff is +inf if it is unbounded. ``scores`` of shape (b, n) must be the same in each call, because
        solutions are reused.
        """
        phi, spanned = self._coordinates(functions)
        cutoff = np.full((len(scores), len(phi)), np.inf)
        for bound, of_bound in enumerate(scores[:, self._used]):
            if (bound, level) not in self._solved:
                self._solved[bound, level] = self._solve(of_bound, level)
            rows, exact, vertex = self._solved[bound, level]
            if vertex is not None and spanned.any():
                cutoff[bound, spanned] = cutoffs(rows, vertex, exact, phi[spanned], level)
        return cutoff

    def _solve(self, scores: FloatArray, level: float) -> tuple[Calibration, FloatArray, Vertex | None]:
        finite = np.isfinite(scores)
        weight, phi = self._weight[finite], self._phi[finite]
        rows = Calibration(phi, separated(scores[finite]), (level - 1) * weight, level * weight)
        # a row with an infinite score always has its largest dual variable
        target = -level * (self._weight[~finite] @ self._phi[~finite])
        return rows, scores[finite], start(rows, target)

    def _coordinates(self, functions: pd.DataFrame) -> tuple[FloatArray, BoolArray]:
        scaled = self._design(functions) / self._size
        phi = scaled @ self._directions.T
        distance = np.abs(scaled - phi @ self._directions).max(axis=1)
        spanned = distance <= _OUTSIDE * np.abs(scaled).max(axis=1)
        for column, labels in self._labels.items():
            spanned &= labels.get_indexer(pd.Index(functions[column])) >= 0
        return phi, spanned

    def _design(self, functions: pd.DataFrame) -> FloatArray:
        if functions.shape[1] != self._n_functions:
            raise ValueError(
                f"`basis` must give shape (n, {self._n_functions}), as in `fit`, got "
                f"(n, {functions.shape[1]})."
            )
        parts = [np.ones((len(functions), 1))]
        for column in functions:
            values = functions[column].to_numpy()
            if column in self._labels:
                codes = self._labels[column].get_indexer(pd.Index(values))
                values = codes[:, np.newaxis] == np.arange(len(self._labels[column]))
            parts.append(np.asarray(values, dtype=np.float64).reshape(len(functions), -1))
        return np.concatenate(parts, axis=1)


def warn_of_unbounded_rows(unbounded: BoolArray, consequence: str) -> None:
    """Issue one warning about rows whose cutoff is not bounded by the calibration rows."""
    if unbounded.any():
        warn_user(
            f"`basis` gives no finite bound for {int(unbounded.sum())} of {unbounded.size} rows, first at "
            f"row {int(np.argmax(unbounded))}: {consequence}. Possible reasons are a label without "
            "calibration rows, extreme values, and a coverage that needs more rows. Use fewer functions or "
            "more calibration rows.",
            SmallSampleWarning,
        )
