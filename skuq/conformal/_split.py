"""Split conformal prediction: the sorted scores of calibration rows, and their quantiles for new rows.

`SplitScores` is the plain method. `GroupedScores` holds one `SplitScores` per group of rows (Mondrian
categories), so that the coverage is guaranteed in each group. `GroupsAndShift` reads the groups and the
weights of rows, and `CalibrationRows` multiplies the weights by the repetitions. Nothing else changes under
covariate shift.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import Any, cast

import numpy as np
import pandas as pd

from skuq._compat import count_rows
from skuq._numeric import RANK_TOLERANCE, WeightedRanks, count_reached, score_level
from skuq._typing import FloatArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_integer,
    check_non_negative,
    check_option,
    check_positive,
    check_rows,
    check_unused,
)
from skuq.conformal._base import WeightedRows, check_weight, concat_rows
from skuq.conformal._basis import Basis, BasisScores, check_basis, read_basis
from skuq.conformal._scores import Band
from skuq.distributions import Distribution
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._conformal_predictive import ConformalPredictive


class SplitScores:
    r"""Sorted scores of k calibration rows, one per row, or two if each bound has its own score.

    Let W be the weight of the calibration rows, :math:`w_*` the weight of a new row, and p the level. The
    score quantile of the new row is the smallest score s such that the scores up to s have a weight of at
    least :math:`p (W + w_*)`, or inf if there is no such score (Tibshirani et al. 2019, eq. 7). Without
    weights, it is the :math:`\lceil p (k + 1) \rceil`-th smallest score.
    """

    def __init__(self, scores: FloatArray, weight: FloatArray) -> None:
        check_weight(weight)
        self.ranks = tuple(WeightedRanks(of_bound, weight) for of_bound in scores)

    @property
    def total(self) -> float:
        return self.ranks[0].total

    def followed_by(self, scores: FloatArray, weight: FloatArray) -> SplitScores:
        """Return the scores with the scores of later rows."""
        both = copy(self)
        both.ranks = tuple(map(WeightedRanks.followed_by, self.ranks, scores, repeat(weight)))
        return both

    def quantile(self, rows: WeightedRows, coverage: float) -> FloatArray:
        """Return the score quantile of each new row, shape (1, n) or (2, n) for one or two scores per row."""
        level = score_level(coverage, symmetric=len(self.ranks) == 1)
        quantile = np.full((len(self.ranks), rows.n), np.inf)
        if level < 1:  # At level 1, the quantile is the score of the new row, which is infinite.
            target = level * (self.total + rows.test_weight)
            for of_bound, ranked in zip(quantile, self.ranks, strict=True):
                of_bound[:] = ranked.quantile(target)
        return quantile

    def parts(self, rows: WeightedRows) -> Iterable[tuple[Any, SplitScores]]:
        """Return the new rows that have the same calibration rows, and the scores of these rows."""
        return [(slice(None), self)]

    def weight_for(self, rows: WeightedRows) -> FloatArray:
        """Return the weight of the calibration rows of each new row."""
        return np.full(rows.n, self.total)

    def exceeded_share(self, rows: WeightedRows, band: Band, y: FloatArray) -> FloatArray:
        """Return the share of the scores whose intervals do not contain y, shape (n,).

        The total weight includes the weight of the new row, whose score is infinite.
        """
        # The rounded bounds are compared, so that the result agrees with `predict_interval`. The comparison
        # bound < y is equivalent to bound <= the largest number below y.
        below = -band.low, np.nextafter(-y, -np.inf)
        above = band.high, np.nextafter(y, -np.inf)
        sides = [below, above]
        if len(self.ranks) == 1:  # Only the bound on the side of y may be exceeded.
            is_above = y - band.high >= band.low - y
            sides = [(np.where(is_above, above[0], below[0]), np.where(is_above, above[1], below[1]))]
        exceeded = [
            ranked.weight_of(count_reached(ranked.values, edge, band.scale, limit))
            for ranked, (edge, limit) in zip(self.ranks, sides, strict=True)
        ]
        total = (self.total + rows.test_weight) * (1 - RANK_TOLERANCE)
        return np.asarray(np.maximum(exceeded[0], exceeded[-1]) / total)

    def predictive(
        self, rows: WeightedRows, loc: FloatArray, scale: FloatArray, symmetric: bool
    ) -> Distribution:
        """Return the conformal predictive distributions, from the scores of the upper bound."""
        ranks = self.ranks[-1]
        return ConformalPredictive(loc, scale, ranks.values, ranks.weights, rows.test_weight, symmetric)


class GroupedScores:
    """One `SplitScores` per group, and one of all rows, which calibrates rare groups.

    The size of a group is its number of rows with repetitions.
    """

    def __init__(
        self,
        scores: FloatArray,
        weight: FloatArray,
        labels: np.ndarray,
        repetitions: FloatArray,
        *,
        rare_groups: str,
        min_group_size: int,
    ) -> None:
        self.rare_groups, self.min_group_size = rare_groups, min_group_size
        codes, unique = pd.factorize(labels, sort=False)
        counts = np.bincount(codes, weights=repetitions, minlength=len(unique))
        self.sizes: dict[Any, float] = dict(zip(unique.tolist(), counts.tolist(), strict=True))
        self._n_bounds = len(scores)
        self._all = SplitScores(scores, weight)
        self._of_label = {}
        rows_of = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        for label, rows in zip(self.sizes, rows_of, strict=True):
            if self._is_rare(label):
                if rare_groups == "raise":
                    self._refuse(label)
            elif weight[rows].any():
                self._of_label[label] = SplitScores(scores[:, rows], weight[rows])

    def _is_rare(self, label: Any) -> bool:
        return self.sizes.get(label, 0.0) < self.min_group_size

    def _refuse(self, label: Any, where: str = "") -> None:
        label = getattr(label, "item", lambda: label)()
        raise ValueError(
            f"`group_by` must return labels with at least {self.min_group_size} calibration rows "
            f"(`min_group_size`), got the label {label!r}{where} with {self.sizes.get(label, 0):g} "
            "calibration rows. Use larger groups, a smaller `min_group_size`, or rare_groups='pool', "
            "which calibrates rare groups with the scores of all rows."
        )

    def of_label(self, label: Any) -> SplitScores:
        """Return the scores that calibrate a group. Raise an error if the group is rare."""
        if self._is_rare(label):
            if self.rare_groups == "raise":
                self._refuse(label)
            return self._all
        if label not in self._of_label:  # The density ratio of all its calibration rows is 0.
            check_weight(np.zeros(1))
        return self._of_label[label]

    def parts(self, rows: WeightedRows) -> Iterator[tuple[Any, SplitScores]]:
        """Return the new rows of each group, and the scores of the calibration rows of this group."""
        labels = cast("np.ndarray", rows.labels)
        codes, unique = pd.factorize(labels, sort=False)
        names = unique.tolist()
        rare = np.array([self._is_rare(label) for label in names], dtype=bool)
        if self.rare_groups == "raise" and rare.any():
            row = int(np.argmax(rare[codes]))
            self._refuse(labels[row], f" at row {row}")
        for number in np.flatnonzero(~rare).tolist():
            yield np.flatnonzero(codes == number), self.of_label(names[number])
        if rare.any():
            yield np.flatnonzero(rare[codes]), self._all

    def quantile(self, rows: WeightedRows, coverage: float) -> FloatArray:
        quantile = np.empty((self._n_bounds, rows.n))
        for new, scores in self.parts(rows):
            quantile[:, new] = scores.quantile(rows[new], coverage)
        return quantile

    def weight_for(self, rows: WeightedRows) -> FloatArray:
        weight = np.empty(rows.n)
        for new, scores in self.parts(rows):
            weight[new] = scores.total
        return weight

    def exceeded_share(self, rows: WeightedRows, band: Band, y: FloatArray) -> FloatArray:
        share = np.empty(rows.n)
        for new, scores in self.parts(rows):
            share[new] = scores.exceeded_share(rows[new], Band(*(edge[new] for edge in band)), y[new])
        return share

    def predictive(
        self, rows: WeightedRows, loc: FloatArray, scale: FloatArray, symmetric: bool
    ) -> Distribution:
        """Return the conformal predictive distribution of each new row, in the order of the rows."""
        of_part, parts = [], []
        for new, scores in self.parts(rows):
            of_part.append(new)
            parts.append(scores.predictive(rows[new], loc[new], scale[new], symmetric))
        # np.argsort returns the inverse permutation.
        return parts[0] if len(parts) == 1 else Concatenated(parts, np.argsort(np.concatenate(of_part)))


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """Scores, weights and groups of k calibration rows, in the order of their observation."""

    scores: FloatArray  # One score per row, shape (1, k), or one score per bound, shape (2, k).
    rows: WeightedRows  # Their weights are density ratios, or 1.
    repetitions: FloatArray  # Number of repetitions of each row, shape (k,).
    options: GroupsAndShift

    def followed_by(self, later: CalibrationRows, window: int | None) -> CalibrationRows:
        """Concatenate both sets of rows and keep the last ``window`` rows. None keeps all rows."""
        rows = concat_rows([self.rows, later.rows])
        last = slice(0 if window is None else max(rows.n - window, 0), None)
        both = replace(
            self,
            scores=np.concatenate([self.scores, later.scores], axis=1)[:, last],
            rows=rows[last],
            repetitions=np.concatenate([self.repetitions, later.repetitions])[last],
        )
        if last.start == 0 and isinstance(self.ranked, SplitScores):  # Not all scores are sorted again.
            vars(both)["ranked"] = self.ranked.followed_by(later.scores, later.weight)
        return both

    @property
    def weight(self) -> FloatArray:
        return self.repetitions * self.rows.test_weight

    @cached_property
    def ranked(self) -> SplitScores | GroupedScores | BasisScores:
        """The ranks of the scores. An error is raised if all weights are 0, or if groups are too small."""
        weight = self.weight
        if self.rows.functions is not None:
            return BasisScores(self.scores, weight, self.rows.functions)
        if self.rows.labels is None:
            return SplitScores(self.scores, weight)
        return GroupedScores(
            self.scores,
            weight,
            self.rows.labels,
            self.repetitions,
            rare_groups=self.options.rare_groups,
            min_group_size=self.options.min_group_size,
        )

    def check(self) -> None:
        """Raise an error if the rows cannot be ranked. Warn if there are few rows for ``basis``."""
        if isinstance(self.ranked, BasisScores):
            self.ranked.check()


@dataclass(frozen=True, eq=False)
class GroupsAndShift:
    """Checked parameters for groups, covariate shift and functions of x."""

    group_by: Callable[[Any], Any] | Hashable | None
    rare_groups: str
    min_group_size: int
    density_ratio: Callable[[Any], Any] | None
    basis: Basis | None

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
        if owner.basis is not None:
            check_basis(owner.basis)
            remedy = "Add the groups to `basis` as a column of labels."
            check_unused(owner, ("group_by",), "with `basis`", remedy)
            check_unused(
                owner, ("density_ratio",), "with `basis`", "A basis has no weights for covariate shift."
            )
        return cls(group_by, *check_groups(owner), density_ratio, owner.basis)

    def rows(self, X: Any, *, predicted: bool = True) -> WeightedRows:
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
        labels = None if self.group_by is None else self._labels(X, n)
        return WeightedRows(
            n, test_weight, labels, None if self.basis is None else read_basis(self.basis, X, n)
        )

    def _labels(self, X: Any, n: int) -> np.ndarray:
        if callable(self.group_by):
            labels = self.group_by(X)
        elif not isinstance(X, pd.DataFrame):
            raise TypeError(
                f"`X` must be a pandas DataFrame if `group_by` is a column name ({self.group_by!r}), got "
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


def check_groups(owner: Any) -> tuple[str, int]:
    rare_groups: str = check_option(owner.rare_groups, "rare_groups", ("raise", "pool"))
    min_group_size = check_integer(owner.min_group_size, "min_group_size")
    if owner.group_by is None:
        check_unused(owner, ("rare_groups", "min_group_size"), "without `group_by`", "There are no groups.")
    return rare_groups, min_group_size


def read_labels(labels: Any, n: int) -> np.ndarray:
    """Return the result of ``group_by`` as an array of n labels. Raise an error if a label is missing."""
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n,):
        raise ValueError(f"`group_by` must give one label per row, shape ({n},), got shape {array.shape}.")
    missing = pd.isna(array)
    if missing.any():
        raise ValueError(
            f"`group_by` must give a label for every row, got {array[missing][0]} at row "
            f"{int(np.argmax(missing))}. Return a separate label for missing values."
        )
    return array
