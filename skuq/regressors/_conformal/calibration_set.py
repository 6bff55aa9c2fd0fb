"""Calibration rows of a split conformal regressor: what was predicted for them, and their ranks.

The score of y, in every split method, is how far it lies outside a band [low, high], in units of a scale: the
scores are (low - y) / scale and (y - high) / scale. The band of "split" and "normalized" is the
prediction itself, that of "cqr" the predicted interval of the nominal coverage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution, Normal
from skuq.distributions._numerics.ranks import WeightedRanks, count_reached
from skuq.recalibration._mondrian import Groups, grouped_dist
from skuq.recalibration._residuals import reaching_scores, standardised_residuals
from skuq.regressors._conformal.adaptive import Observed, rank_probability
from skuq.regressors._conformal.settings import ConformalSettings

__all__ = ["Band", "Calibration", "Interval", "Point", "Prediction", "Rows", "Scaled", "ScoreQuantiles"]


_ONE = np.ones(())


def _of_rows(values: FloatArray, rows: IntArray | slice) -> FloatArray:
    """Return the values of the given rows; one number is that of all."""
    return values[rows] if values.ndim else values


class Band(NamedTuple):
    """What is predicted for each row at one coverage; scores count the distance in units of ``scale``.

    The scale is of shape () where all rows have the same.
    """

    low: FloatArray
    high: FloatArray
    scale: FloatArray

    def take(self, rows: IntArray | slice) -> Band:
        """Return the band of the given rows."""
        return Band(self.low[rows], self.high[rows], _of_rows(self.scale, rows))


class Prediction(Protocol):
    """What a model predicts for some rows."""

    def band(self, coverage: float) -> Band:
        """Return the band whose distance to y is ranked."""

    def scores(self, y: FloatArray, coverage: float) -> FloatArray:
        """Return how far each y lies below and above the band, shape (2, n)."""


@dataclass(frozen=True, eq=False)
class Point:
    """A point, its errors in the units of y: "split"."""

    loc: FloatArray

    def band(self, coverage: float) -> Band:
        """Return the point, whatever the coverage."""
        return Band(self.loc, self.loc, _ONE)

    def scores(self, y: FloatArray, coverage: float) -> FloatArray:
        """Return the residual, turned and as it is."""
        return np.stack([self.loc - y, y - self.loc])


@dataclass(frozen=True, eq=False)
class Scaled:
    """A mean and a standard deviation: "normalized"."""

    moments: Normal

    @classmethod
    def of(cls, dist: Distribution) -> Scaled:
        """Return the moments of a predicted distribution, which must be finite."""
        mean, std = dist.mean(), dist.std()
        finite = np.isfinite(mean) & np.isfinite(std)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ValueError(
                "`estimator` must predict a finite mean and standard deviation with method 'normalized', got "
                f"{mean[row]} and {std[row]} at row {row}. Method 'cqr' needs neither."
            )
        return cls(Normal(mean, std))

    def band(self, coverage: float) -> Band:
        """Return the mean, whatever the coverage."""
        return Band(self.moments.loc, self.moments.loc, self.moments.scale)

    def scores(self, y: FloatArray, coverage: float) -> FloatArray:
        """Return the standardised residual, turned and as it is."""
        z = standardised_residuals(self.moments, y).z
        return np.stack([-z, z])


@dataclass(frozen=True, eq=False)
class Interval:
    """A predicted distribution, of which the interval of the nominal coverage counts: "cqr"."""

    dist: Distribution

    def band(self, coverage: float) -> Band:
        """Return the predicted interval, of coverage 0 the median."""
        bounds = self.dist.interval(coverage) if coverage > 0 else np.stack([self.dist.median()] * 2, axis=1)
        low, high = bounds.T
        finite = np.isfinite(low) & np.isfinite(high)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ValueError(
                f"`estimator` must predict finite quantiles, got the interval [{low[row]}, {high[row]}] "
                f"for the coverage {coverage:g} at row {row}."
            )
        return Band(low, high, _ONE)

    def scores(self, y: FloatArray, coverage: float) -> FloatArray:
        """Return the distances to the bounds (Romano et al. 2019, eq. 6 and theorem 2)."""
        low, high, _ = self.band(coverage)
        return np.stack([low - y, y - high])


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that are predicted together.

    Attributes
    ----------
    prediction : Prediction
        By a model that has not seen them.
    n : int
        Their number.
    ratio : ndarray of shape (n,), or () where there is no covariate shift
        Density ratio, else 1.
    labels : ndarray of shape (n,) or None
        Mondrian categories.
    y : ndarray of shape (n,)
        What was observed; empty where it is not yet.
    weight : ndarray of shape (n,) or None
        How many observations each row stands for.
    """

    prediction: Prediction
    n: int
    ratio: FloatArray
    labels: np.ndarray | None
    y: FloatArray
    weight: FloatArray | None

    @property
    def repetitions(self) -> FloatArray:
        """How many observations each row stands for, 1 without weights."""
        return np.ones(self.n) if self.weight is None else self.weight

    def unseen(self, rows: IntArray | slice) -> FloatArray:
        """Return the weight of the given rows as new ones, one number where it is the same for all."""
        return _of_rows(self.ratio, rows)


class RowMetadata(NamedTuple):
    """What else is known of rows in one sequence: as in `Rows`."""

    repetitions: FloatArray
    ratio: FloatArray
    labels: np.ndarray | None

    def join(self, rows: Rows, oldest: int | None) -> RowMetadata:
        """Return the sequence with more rows at its end, from the oldest that is kept on."""
        labels = rows.labels
        if labels is not None and self.labels is not None:
            labels = np.concatenate([self.labels, labels])
        return RowMetadata(
            np.concatenate([self.repetitions, rows.repetitions])[oldest:],
            np.concatenate([self.ratio, np.broadcast_to(rows.ratio, rows.n)])[oldest:],
            None if labels is None else labels[oldest:],
        )


class ScoreQuantiles:
    """Ranked scores of the calibration rows of one category, at one moment.

    Parameters
    ----------
    scores : ndarray of shape (2, k)
        Distances below and above the band.
    weight : ndarray of shape (k,)
        Weight of each row: repetitions times density ratio.
    symmetric : bool
        Whether the larger of the two scores serves both bounds (Romano et al. 2019, eq. 6), or each
        bound has its own, at half the miscoverage (theorem 2).
    """

    def __init__(self, scores: FloatArray, weight: FloatArray, symmetric: bool) -> None:
        check_weight(weight)
        self.symmetric = symmetric
        if symmetric:
            self.low = self.high = WeightedRanks(scores.max(axis=0), weight)
        else:
            self.low, self.high = WeightedRanks(scores[0], weight), WeightedRanks(scores[1], weight)
        self.total_weight = self.high.total

    def bounds(
        self, band: Band, unseen: FloatArray, miscoverage: float
    ) -> tuple[FloatArray | float, FloatArray | float]:
        """Return lower and upper bound of each row; of an empty interval the point at its centre."""
        if miscoverage <= 0:
            return -np.inf, np.inf
        target = rank_probability(max(1 - miscoverage, 0.0), self.symmetric) * (self.total_weight + unseen)
        lower = -_shifted_quantile(-band.low, band.scale, self.low.reach(target))
        upper = _shifted_quantile(band.high, band.scale, self.high.reach(target))
        empty = lower > upper if miscoverage < 1 else np.ones(lower.shape, dtype=bool)
        if empty.any():
            centre = (lower[empty] + upper[empty]) / 2
            lower[empty], upper[empty] = centre, centre
        return lower, upper

    def weight_below(self, band: Band, y: FloatArray) -> FloatArray:
        """Return the weight of the scores whose interval, as rounded, does not reach each y."""
        scale = np.broadcast_to(band.scale, y.shape)
        # bound < y is bound <= the largest number below y
        low = count_reached(self.low.values, -band.low, scale, np.nextafter(-y, -np.inf))
        high = count_reached(self.high.values, band.high, scale, np.nextafter(y, -np.inf))
        return np.maximum(self.low.weight_of(low), self.high.weight_of(high))


def check_weight(weight: FloatArray) -> None:
    """Raise if no calibration row counts."""
    if not weight.sum() > 0:
        raise ValueError(
            "the rows that calibrate must have some weight, but `sample_weight` times `density_ratio` is 0 "
            "for all of them."
        )


def _shifted_quantile(edge: FloatArray, scale: FloatArray, score: FloatArray) -> FloatArray:
    """Edge + scale * score; an unknown score leaves even a row of scale 0 unknown."""
    infinite = np.isinf(score)
    if not infinite.any():
        return edge + scale * score
    return np.where(infinite, score, edge + scale * np.where(infinite, 0.0, score))


class CalibrationSet:
    """The rows that calibrate at one moment, by category.

    Attributes
    ----------
    scores : ndarray of shape (2, k)
        Distances below and above the band.
    weight : ndarray of shape (k,)
        Weight of each row: repetitions times density ratio.
    """

    def __init__(self, scores: FloatArray, rows: RowMetadata, settings: ConformalSettings) -> None:
        self.scores, self._rows, self._settings = scores, rows, settings
        self.weight = rows.repetitions * rows.ratio
        check_weight(self.weight)
        self._groups = Groups(
            rows.labels,
            rows.repetitions,
            rare_groups=settings.rare_groups,
            min_group_size=settings.min_group_size,
        )
        self._quantiles: dict[int, ScoreQuantiles] = {}

    def rescored(self, scores: FloatArray) -> CalibrationSet:
        """Return the same rows with other scores."""
        return CalibrationSet(scores, self._rows, self._settings)

    def quantiles(self, rows: Rows) -> Iterator[tuple[IntArray | slice, ScoreQuantiles]]:
        """Yield new rows and the ranked scores that calibrate them."""
        for number, new, calibrating in self._groups.partition(rows.labels):
            if number not in self._quantiles:
                self._quantiles[number] = ScoreQuantiles(
                    self.scores[:, calibrating], self.weight[calibrating], self._settings.symmetric
                )
            yield new, self._quantiles[number]

    def predictive(self, rows: Rows) -> Distribution:
        """Return the conformal predictive system of new rows whose band is a point."""
        scores = self.scores.max(axis=0) if self._settings.symmetric else self.scores[1]
        centre = rows.prediction.band(0.5)
        return grouped_dist(
            self._groups,
            rows.labels,
            scores,
            self.weight,
            centre.low,
            np.broadcast_to(centre.scale, rows.n),
            rows.ratio,
            symmetric=self._settings.symmetric,
        )


class Calibration:
    """All rows that calibrate at one coverage, in the order in which they were observed.

    Parameters
    ----------
    coverage : float
        Nominal coverage; without effect where the band does not depend on it.
    settings : ConformalSettings
        Categories, symmetry and window.

    Attributes
    ----------
    observed : list of Observed
        How each part but the first fared with the rows before it.
    """

    def __init__(self, coverage: float, settings: ConformalSettings) -> None:
        self.observed: list[Observed] = []
        self._coverage = coverage
        self._settings = settings
        self._n_parts = 0
        self._scores = np.empty((2, 0))
        self._rows = RowMetadata(np.empty(0), np.empty(0), None)
        self._present: CalibrationSet | None = None

    def extend(self, parts: Sequence[Rows]) -> None:
        """Add the parts that are new among ``parts``; each is first compared with those before it."""
        for part in parts[self._n_parts :]:
            scores = self._score(part)
            if self._n_parts:
                self.observed.append(self._observe(part))
            # once rows are observed one after the other, only the latest count
            oldest = -self._settings.window if self._settings.window and self._n_parts else None
            self._scores = np.concatenate([self._scores, scores], axis=1)[:, oldest:]
            self._rows = self._rows.join(part, oldest)
            self._n_parts += 1
            self._present = None

    def _score(self, part: Rows) -> FloatArray:
        scores = part.prediction.scores(part.y, self._coverage)
        if not self._settings.symmetric:
            return scores
        low, high, scale = part.prediction.band(self._coverage)
        both = reaching_scores(scores.max(axis=0), low, high, scale, part.y)
        return np.stack([both, both])

    @property
    def n_rows(self) -> float:
        """Number of rows that calibrate now, weights counted."""
        return float(self._rows.repetitions.sum())

    @property
    def present(self) -> CalibrationSet:
        """The rows that calibrate now."""
        if self._present is None:
            self._present = CalibrationSet(self._scores, self._rows, self._settings)
        return self._present

    def _observe(self, part: Rows) -> Observed:
        band = part.prediction.band(self._coverage)
        weight_below, total = np.empty(part.n), np.empty(part.n)
        for rows, quantiles in self.present.quantiles(part):
            weight_below[rows] = quantiles.weight_below(band.take(rows), part.y[rows])
            total[rows] = quantiles.total_weight + part.unseen(rows)
        return Observed(weight_below, total, part.repetitions)
