"""Calibration rows of split conformal prediction, with their scores and score quantiles."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from skuq._numeric import RANK_TOLERANCE, WeightedRanks, count_reached, score_level
from skuq._typing import FloatArray, IntArray
from skuq.conformal._groups import (
    ALL_LABELS,
    ALL_ROWS,
    BasisRows,
    Groups,
    GroupsAndShift,
    WeightedRows,
    grouped_dist,
)
from skuq.conformal._scores import Band
from skuq.distributions import Distribution, concat

_MOST_INSERTED = 16
"""Maximum number of rows that are inserted into sorted scores one at a time."""


@dataclass(frozen=True, eq=False)
class PredictedRows(WeightedRows):
    """Rows and their predictions by a model that is fitted to other rows.

    The array ``y`` is empty until the targets are observed.
    """

    prediction: Any
    y: FloatArray
    repetitions: FloatArray

    def __getitem__(self, rows: slice) -> Self:
        repetitions = self.repetitions[rows]
        return replace(
            self,
            n=repetitions.size,
            test_weight=self.test_weight_of(rows),
            labels=None if self.labels is None else self.labels[rows],
            functions=None if self.functions is None else self.functions[rows],
            prediction=self.prediction[rows],
            y=self.y[rows],
            repetitions=repetitions,
        )


def concat_rows(parts: Collection[PredictedRows]) -> PredictedRows:
    """Concatenate rows whose predictions are distributions."""
    first = next(iter(parts))
    if len(parts) == 1:
        return first
    labels = [part.labels for part in parts if part.labels is not None]
    return replace(
        first,
        n=sum(part.n for part in parts),
        test_weight=np.concatenate([np.broadcast_to(part.test_weight, part.n) for part in parts]),
        labels=np.concatenate(labels) if labels else None,
        prediction=concat([part.prediction for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        repetitions=np.concatenate([part.repetitions for part in parts]),
    )


@dataclass(frozen=True, eq=False)
class CalibrationScores:
    """Scores, weights and groups of k calibration rows in the order of their observation."""

    scores: FloatArray  # One score per row, shape (1, k), or one score per bound, shape (2, k).
    repetitions: FloatArray  # Number of repetitions of each row, shape (k,).
    density_ratio: FloatArray  # Density ratio of each row under covariate shift, otherwise 1, shape (k,).
    labels: np.ndarray | None  # Group of each row, shape (k,), or None without groups.
    options: GroupsAndShift
    functions: pd.DataFrame | None = None  # functions of x from ``basis``, shape (k, d)
    _ranks_of_groups: dict[Hashable, tuple[WeightedRanks, ...]] = field(default_factory=dict, init=False)

    def followed_by(self, later: Self, window: int | None) -> Self:
        """Concatenate both sets of rows and keep the last ``window`` rows. None keeps all rows."""
        n_rows = len(self) + len(later)
        n_removed = 0 if window is None else max(n_rows - window, 0)
        labels = self.labels
        if labels is not None and later.labels is not None:
            labels = np.concatenate([labels, later.labels])[n_removed:]
        joined = replace(
            self,
            scores=np.concatenate([self.scores, later.scores], axis=1)[:, n_removed:],
            repetitions=np.concatenate([self.repetitions, later.repetitions])[n_removed:],
            density_ratio=np.concatenate([self.density_ratio, later.density_ratio])[n_removed:],
            labels=labels,
        )
        # An insertion costs O(n) per row. Therefore, many rows are not inserted but sorted later.
        if n_removed < len(self) and len(later) <= _MOST_INSERTED:
            self._update_ranks(joined, later, n_removed)
            if labels is not None and self.groups is not None and self.labels is not None:
                removed = self.labels[:n_removed]
                groups = self.groups.followed_by(labels, joined.repetitions, len(later), removed)
                vars(joined)["groups"] = groups  # sets the cached property
        return joined

    def _update_ranks(self, joined: Self, later: Self, n_removed: int) -> None:
        """Rank the scores of ``joined`` by insertions into the existing ranks of each group."""
        for label, ranks in self._ranks_of_groups.items():
            added, removed = later._weighted_rows_of(label), self._weighted_rows_of(label, n_removed)
            if len(ranks[0]) + added.size > removed.size:
                weight = later.repetitions[added] * later.density_ratio[added]
                joined._ranks_of_groups[label] = tuple(
                    of_bound.followed_by(new[added], weight, old[removed])
                    for of_bound, new, old in zip(ranks, later.scores, self.scores, strict=True)
                )

    def _weighted_rows_of(self, label: Hashable, n_first: int | None = None) -> IntArray:
        """Return the rows with this label and a positive weight. ALL_LABELS means the rows of all groups."""
        positive = self.repetitions[:n_first] * self.density_ratio[:n_first] > 0
        if label is not ALL_LABELS and self.labels is not None:
            # A comparison of arrays would broadcast a label that is a tuple.
            positive &= np.array([each == label for each in self.labels[:n_first]], dtype=bool)
        return np.flatnonzero(positive)

    def with_scores(self, scores: FloatArray) -> Self:
        return replace(self, scores=scores)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the dict of ranks, because skops supports only keys that are strings."""
        return vars(self) | {"_ranks_of_groups": {}}

    def __len__(self) -> int:
        return int(self.repetitions.size)

    @cached_property
    def weight(self) -> FloatArray:
        return check_weight(self.repetitions * self.density_ratio)

    @cached_property
    def groups(self) -> Groups | None:
        return None if self.labels is None else self.options.groups(self.labels, self.repetitions)

    @cached_property
    def basis_rows(self) -> BasisRows | None:
        return None if self.functions is None else BasisRows(self.functions, self.weight)

    def check(self) -> None:
        """Raise an error if all weights are 0, a group is too small, or the basis has too many functions."""
        _ = self.weight, self.groups
        if self.basis_rows is not None:
            self.basis_rows.check()

    def ranks_for(self, rows: WeightedRows) -> Iterator[tuple[IntArray | slice, tuple[WeightedRanks, ...]]]:
        """Yield, for each group, the new rows and the ranks of the calibration scores."""
        labels, groups = rows.labels, self.groups
        parts = [ALL_ROWS] if groups is None or labels is None else groups.partition(labels)
        for label, new in parts:
            if label not in self._ranks_of_groups:
                calibrating = slice(None) if groups is None else groups.calibration_rows(label)
                weight = check_weight(self.weight[calibrating])
                # If all weights are 1, ranks replace the cumulative sums of the weights.
                weights = weight if (weight != 1).any() else None
                self._ranks_of_groups[label] = tuple(
                    WeightedRanks(scores[calibrating], weights) for scores in self.scores
                )
            # One label applies to all new rows.
            one_group = labels is not None and len(labels) == 1
            yield slice(None) if one_group else new, self._ranks_of_groups[label]

    # ------------------------------------------------------------------------------ new rows

    def quantile(self, rows: WeightedRows, coverage: float) -> FloatArray:
        """Return the score quantile of each new row, shape (1, n) or (2, n) for one or two scores per row.

        Let W be the weight of the row's group, :math:`w_*` the weight of the new row, and p the level. The
        quantile is the smallest score s such that the scores up to s have a weight of at least :math:`p (W +
        w_*)`, or inf if there is no such score (Tibshirani et al. 2019, eq. 7).
        """
        quantile = np.full((len(self.scores), rows.n), np.inf)
        level = score_level(coverage, symmetric=len(self.scores) == 1)
        if self.basis_rows is not None and rows.functions is not None:
            return self.basis_rows.quantile(self.scores, rows.functions, float(level))
        for new, ranks in self.ranks_for(rows):
            if level < 1:  # At level 1, the quantile is the score of the new row, which is infinite.
                target = level * (ranks[-1].total + rows.test_weight_of(new))
                for of_bound, ranked in zip(quantile, ranks, strict=True):
                    of_bound[new] = ranked.quantile(target)
        return quantile

    def weight_for(self, rows: WeightedRows) -> FloatArray:
        weight = np.empty(rows.n)
        for new, ranks in self.ranks_for(rows):
            weight[new] = ranks[-1].total
        return weight


class CalibrationSet(CalibrationScores):
    """Calibration scores of intervals."""

    def exceeded_share(self, rows: PredictedRows, band: Band) -> FloatArray:
        """Return the share of the scores whose intervals do not contain y, shape (n,).

        The total weight includes the weight of the new row, whose score is infinite.
        """
        # The rounded bounds are compared, so that the result agrees with `predict_interval`. The comparison
        # bound < y is equivalent to bound <= the largest number below y.
        below = -band.low, np.nextafter(-rows.y, -np.inf)
        above = band.high, np.nextafter(rows.y, -np.inf)
        sides = [below, above]
        if len(self.scores) == 1:  # Only the bound on the side of y may be exceeded.
            is_above = rows.y - band.high >= band.low - rows.y
            sides = [(np.where(is_above, above[0], below[0]), np.where(is_above, above[1], below[1]))]
        share = np.empty(rows.n)
        for new, ranks in self.ranks_for(rows):
            exceeded = [
                ranked.weight_of(count_reached(ranked.values, edge[new], band.scale[new], y[new]))
                for ranked, (edge, y) in zip(ranks, sides, strict=True)
            ]
            total = ranks[-1].total + rows.test_weight_of(new)
            share[new] = np.maximum(exceeded[0], exceeded[-1]) / (total * (1 - RANK_TOLERANCE))
        return share

    def predictive(self, rows: PredictedRows, band: Band) -> Distribution:
        return grouped_dist(
            self.groups,
            rows.labels,
            self.scores[-1],
            self.weight,
            band.low,
            band.scale,
            rows.test_weight,
            symmetric=len(self.scores) == 1,
        )


def check_weight(weight: FloatArray) -> FloatArray:
    """Return the weights of calibration rows. Raise an error if all weights are 0."""
    if not weight.sum() > 0:
        raise ValueError(
            "`sample_weight` times `density_ratio` must be positive for at least one calibration row, got 0 "
            "for all calibration rows. Pass positive weights."
        )
    return weight
