"""Split conformal prediction: the sorted scores of calibration rows, and their quantiles for new rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skuq._numeric import RANK_TOLERANCE, WeightedRanks, count_reached, score_level
from skuq._typing import FloatArray
from skuq.conformal._scores import Band
from skuq.distributions import Distribution
from skuq.distributions._conformal_predictive import ConformalPredictive


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows of X: their number and, if there are any, their weights, groups and functions."""

    n: int
    test_weight: FloatArray  # Density ratios of shape (n,), or the number 1 without covariate shift.
    labels: np.ndarray | None = None  # Groups of shape (n,).
    functions: pd.DataFrame | None = None  # Functions of ``basis``, n rows.

    def __getitem__(self, rows: Any) -> WeightedRows:
        test_weight = self.test_weight[rows] if self.test_weight.ndim else self.test_weight
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, n=len(np.arange(self.n)[rows]), test_weight=test_weight, labels=labels)


def concat_rows(parts: Sequence[WeightedRows]) -> WeightedRows:
    first = parts[0]
    test_weight, labels = first.test_weight, first.labels
    if test_weight.ndim:
        test_weight = np.concatenate([part.test_weight for part in parts])
    if labels is not None:
        labels = np.concatenate([part.labels for part in parts if part.labels is not None])
    return replace(first, n=sum(part.n for part in parts), test_weight=test_weight, labels=labels)


class SplitScores:
    r"""Sorted scores of k calibration rows, one per row, or two if each bound has its own score.

    Let W be the weight of the calibration rows, :math:`w_*` the weight of a new row, and p the level. The
    score quantile of the new row is the smallest score s such that the scores up to s have a weight of at
    least :math:`p (W + w_*)`, or inf if there is no such score (Tibshirani et al. 2019, eq. 7). Without
    weights, it is the :math:`\lceil p (k + 1) \rceil`-th smallest score.
    """

    def __init__(self, scores: FloatArray, weight: FloatArray) -> None:
        # If all weights are 1, ranks replace the cumulative sums of the weights.
        weights = weight if (check_weight(weight) != 1).any() else None
        self.ranks = tuple(WeightedRanks(of_bound, weights) for of_bound in scores)
        self.total = self.ranks[0].total

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


def check_weight(weight: FloatArray) -> FloatArray:
    """Return the weights of calibration rows. Raise an error if all weights are 0."""
    if not weight.any():
        raise ValueError(
            "`sample_weight` times `density_ratio` must be positive for at least one calibration row, got 0 "
            "for all calibration rows. Pass positive weights."
        )
    return weight
