"""Calibration rows of split conformal prediction: their scores, and the quantiles of these."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._typing import FloatArray, IntArray
from skuq._validation import as_float_array, check_finite, check_non_negative, check_positive, check_rows
from skuq.distributions._numerics.ranks import WeightedRanks, score_level
from skuq.recalibration._mondrian import ALL_ROWS, Groups, read_labels

__all__ = [
    "CalibrationScores",
    "PredictedRows",
    "WeightedRows",
    "check_density_ratio",
    "check_group_by",
    "density_ratio_of",
    "group_labels",
]


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """What a score quantile of new rows depends on.

    Attributes
    ----------
    n : int
        Number of rows.
    test_weight : ndarray of shape (n,), or () where there is no covariate shift
        Weight of each row as the one to be predicted: its density ratio, else 1.
    labels : ndarray of shape (n,), (1,) where all rows are of one group, or None
        Mondrian categories.
    """

    n: int
    test_weight: FloatArray
    labels: np.ndarray | None

    def test_weight_of(self, rows: IntArray | slice) -> FloatArray:
        """Return the test weight of some of the rows, of shape () where all have the same."""
        return self.test_weight[rows] if self.test_weight.ndim else self.test_weight


@dataclass(frozen=True, eq=False)
class PredictedRows(WeightedRows):
    """Rows that were predicted together, by a model fitted without them.

    Attributes
    ----------
    prediction : object
        What the scores are computed from.
    y : ndarray of shape (n,)
        Target; empty where it is not observed yet.
    repetitions : ndarray of shape (n,)
        Number of observations that each row stands for.
    """

    prediction: Any
    y: FloatArray
    repetitions: FloatArray


@dataclass(frozen=True, eq=False)
class CalibrationScores:
    """Scores, weights and groups of the calibration rows, in the order in which they were observed.

    A row has the weight repetitions times density ratio.

    Attributes
    ----------
    scores : ndarray of shape (1, k) or (2, k)
        Scores for both bounds, or those for the lower and those for the upper bound.
    repetitions : ndarray of shape (k,)
        Number of observations that each row stands for.
    density_ratio : ndarray of shape (k,)
        Density ratio of each row, 1 without covariate shift.
    labels : ndarray of shape (k,) or None
        Mondrian categories.
    rare_groups : {"raise", "pool"}
        Treatment of labels with fewer than ``min_group_size`` rows.
    min_group_size : int
        Number of rows below which a group is rare.
    """

    scores: FloatArray
    repetitions: FloatArray
    density_ratio: FloatArray
    labels: np.ndarray | None
    rare_groups: str
    min_group_size: int
    _ranks_of_groups: dict[int, tuple[WeightedRanks, ...]] = field(default_factory=dict, init=False)

    def followed_by(self, later: Self, window: int | None) -> Self:
        """Return both sets as one, of which only the latest ``window`` rows are kept; all if None."""
        latest = slice(None if window is None else -window, None)
        labels = self.labels
        if labels is not None and later.labels is not None:
            labels = np.concatenate([labels, later.labels])[latest]
        return replace(
            self,
            scores=np.concatenate([self.scores, later.scores], axis=1)[:, latest],
            repetitions=np.concatenate([self.repetitions, later.repetitions])[latest],
            density_ratio=np.concatenate([self.density_ratio, later.density_ratio])[latest],
            labels=labels,
        )

    def with_scores(self, scores: FloatArray) -> Self:
        """Return the same rows with other scores."""
        return replace(self, scores=scores)

    def __len__(self) -> int:
        return int(self.repetitions.size)

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of each row, shape (k,), not all 0."""
        return check_weight(self.repetitions * self.density_ratio)

    @cached_property
    def groups(self) -> Groups | None:
        """Mondrian categories of the rows, of which none is too small; None where there are none."""
        if self.labels is None:
            return None
        return Groups(
            self.labels, self.repetitions, rare_groups=self.rare_groups, min_group_size=self.min_group_size
        )

    def check(self) -> None:
        """Raise if all weights are 0, or if a group is too small, before the first interval is requested."""
        _ = self.weight, self.groups

    def ranks_for(self, rows: WeightedRows) -> Iterator[tuple[IntArray | slice, tuple[WeightedRanks, ...]]]:
        """Yield the new rows of each group, and the ranks of the scores for the lower and the upper bound.

        With one score for both bounds there is one `WeightedRanks`, which is the first and the last.
        """
        labels, groups = rows.labels, self.groups
        parts = [ALL_ROWS] if groups is None or labels is None else groups.partition(labels)
        for number, new, calibrating in parts:
            if number not in self._ranks_of_groups:
                weight = check_weight(self.weight[calibrating])
                self._ranks_of_groups[number] = tuple(
                    WeightedRanks(scores[calibrating], weight) for scores in self.scores
                )
            # of one label for all rows, which is looked up once, the new row is each of them
            one_group = labels is not None and len(labels) == 1
            yield slice(None) if one_group else new, self._ranks_of_groups[number]

    # ------------------------------------------------------------------------------ of new rows

    def quantile(self, rows: WeightedRows, coverage: float) -> FloatArray:
        r"""Return the score quantiles of new rows for a coverage, shape (1, n) or (2, n) as the scores.

        It is the smallest score up to which the scores of the row's group have a weight of at least

        .. math:: p (W + w_*)

        with W the weight of the group, :math:`w_*` that of the new row and p the coverage, or
        (1 + coverage) / 2 for each of two scores; +inf where there is none (Tibshirani et al. 2019, eq. 7).
        """
        quantile = np.full((len(self.scores), rows.n), np.inf)
        level = score_level(coverage, symmetric=len(self.scores) == 1)
        for new, ranks in self.ranks_for(rows):
            if level < 1:  # else it is the score of the new row itself, +inf, however small its weight
                target = level * (ranks[-1].total + rows.test_weight_of(new))
                for of_bound, ranked in zip(quantile, ranks, strict=True):
                    of_bound[new] = ranked.quantile(target)
        return quantile

    def weight_for(self, rows: WeightedRows) -> FloatArray:
        """Return the weight of the calibration rows in the group of each new row, shape (n,)."""
        weight = np.empty(rows.n)
        for new, ranks in self.ranks_for(rows):
            weight[new] = ranks[-1].total
        return weight


def check_weight(weight: FloatArray) -> FloatArray:
    """Return the weights of calibration rows, at least one of which must be positive."""
    if not weight.sum() > 0:
        raise ValueError(
            "the rows that calibrate must have some weight, but `sample_weight` times `density_ratio` is 0 "
            "for all of them."
        )
    return weight


def check_density_ratio(density_ratio: Any) -> None:
    """Raise unless the parameter is a callable or None."""
    if density_ratio is not None and not callable(density_ratio):
        raise TypeError(f"`density_ratio` must be a callable X -> weights or None, got {density_ratio!r}.")


def check_group_by(group_by: Any) -> None:
    """Raise unless the parameter is a callable, a name or None."""
    named = isinstance(group_by, Hashable) and not isinstance(group_by, bool)
    if group_by is not None and not callable(group_by) and not named:
        raise TypeError(
            f"`group_by` must be a callable X -> labels, a column name or None, got {group_by!r}."
        )


def density_ratio_of(density_ratio: Any, X: Any, n: int, *, positive: bool) -> FloatArray:
    """Return the density ratio of each row of X; a row to be predicted must have a positive one."""
    checked = check_rows(as_float_array(density_ratio(X), "density_ratio"), "density_ratio", n)
    check_non_negative(check_finite(checked, "density_ratio"), "density_ratio")
    return check_positive(checked, "density_ratio") if positive else checked


def group_labels(group_by: Any, X: Any, n: int) -> np.ndarray:
    """Return the category of each row of X."""
    if callable(group_by):
        labels = group_by(X)
    elif not isinstance(X, pd.DataFrame):
        raise TypeError(
            f"`group_by` {group_by!r} names a column, so X must be a DataFrame, got {type(X).__name__}. "
            "Behind other steps of a Pipeline, its `set_output(transform='pandas')` keeps the names; or pass "
            "a callable X -> labels."
        )
    elif group_by not in X.columns:
        raise ValueError(f"`group_by` must name a column of X, {list(X.columns)}, got {group_by!r}.")
    else:
        labels = X[group_by]
    # as objects: numbers joined by labels of words later would else be turned into words
    return read_labels(labels, n).astype(object)
