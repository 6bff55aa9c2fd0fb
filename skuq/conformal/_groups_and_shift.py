"""Groups of rows and weights under covariate shift, for regression and classification."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from skuq._sklearn_compat import count_rows
from skuq._typing import FloatArray, IntArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_positive,
    check_rows,
    check_unused,
)
from skuq.conformal._basis import Basis, check_basis, read_basis
from skuq.conformal._groups import Groups, check_groups, read_labels


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """New rows: their number, weights and groups."""

    n: int
    test_weight: FloatArray  # Density ratios of shape (n,), or the number 1 without covariate shift.
    labels: np.ndarray | None  # Groups of shape (n,), or (1,) if all rows are in one group.
    functions: pd.DataFrame | None = field(default=None, kw_only=True)  # Functions of ``basis``, n rows.

    def test_weight_of(self, rows: IntArray | slice) -> FloatArray:
        return self.test_weight[rows] if self.test_weight.ndim else self.test_weight


@dataclass(frozen=True, eq=False)
class GroupsAndShift:
    """Checked parameters for groups, covariate shift and functions of x."""

    group_by: Callable[[Any], Any] | Hashable | None = None
    rare_groups: str = "raise"
    min_group_size: int = 10
    density_ratio: Callable[[Any], Any] | None = None
    basis: Basis | None = None

    @classmethod
    def from_params(cls, owner: Any) -> GroupsAndShift:
        group_by, density_ratio = owner.group_by, owner.density_ratio
        if density_ratio is not None and not callable(density_ratio):
            raise TypeError(
                f"`density_ratio` must be a callable X -> weights or None, got {density_ratio!r}."
            )
        named = isinstance(group_by, Hashable) and not isinstance(group_by, bool)
        if group_by is not None and not callable(group_by) and not named:
            raise TypeError(
                f"`group_by` must be a callable X -> labels, a column name or None, got {group_by!r}."
            )
        check_basis(owner.basis)
        if owner.basis is not None:
            remedy = "Add the groups to `basis` as a column of labels."
            check_unused(owner, ("group_by",), "with `basis`", remedy)
            check_unused(
                owner, ("density_ratio",), "with `basis`", "A basis has no weights for covariate shift."
            )
        return cls(group_by, *check_groups(owner), density_ratio, owner.basis)

    def weighted_rows(self, X: Any, *, predicted: bool) -> WeightedRows:
        """Return the weights and the groups of X. The density ratio of predicted rows must be positive."""
        n = count_rows(X)
        test_weight = np.ones(())
        if self.density_ratio is not None:
            test_weight = check_rows(
                as_float_array(self.density_ratio(X), "density_ratio"), "density_ratio", n
            )
            check_non_negative(check_finite(test_weight, "density_ratio"), "density_ratio")
            if predicted:
                check_positive(test_weight, "density_ratio")
        return WeightedRows(
            n,
            test_weight,
            None if self.group_by is None else self._labels(X, n),
            functions=None if self.basis is None else read_basis(self.basis, X, n),
        )

    def _labels(self, X: Any, n: int) -> np.ndarray:
        if callable(self.group_by):
            labels = self.group_by(X)
        elif not isinstance(X, pd.DataFrame):
            raise TypeError(
                f"`X` must be a DataFrame if `group_by` is a column name ({self.group_by!r}), got "
                f"{type(X).__name__}. In a Pipeline, call `set_output(transform='pandas')` to keep the "
                "names, or pass a callable X -> labels."
            )
        elif self.group_by not in X.columns:
            raise ValueError(
                f"`group_by` must name a column of X, got {self.group_by!r}. X has {list(X.columns)}."
            )
        else:
            labels = X[self.group_by]
        # Labels are objects, because numpy would convert numbers to strings if strings are appended later.
        return read_labels(labels, n).astype(object)

    def groups(self, labels: np.ndarray, repetitions: FloatArray) -> Groups:
        return Groups(labels, repetitions, rare_groups=self.rare_groups, min_group_size=self.min_group_size)
