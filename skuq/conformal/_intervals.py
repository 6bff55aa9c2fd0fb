"""Intervals and distributions of split conformal prediction, from a fitted model and its calibration rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from skuq._compat import warn_user
from skuq._fitting.cross_fit import point_predict
from skuq._numeric import RANK_TOLERANCE, score_level
from skuq._typing import BoolArray, FloatArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.conformal._base import FoldModel, WeightedRows, warn_of_few_rows
from skuq.conformal._basis import BasisScores, warn_of_unbounded_rows
from skuq.conformal._scores import ConformalScore, conformal_level_map
from skuq.conformal._split import CalibrationRows, GroupedScores, GroupsAndShift, SplitScores
from skuq.distributions import Distribution, Quantiles, concat
from skuq.distributions._recalibrated import Recalibrated
from skuq.exceptions import SmallSampleWarning

_COVERAGES = np.sort(np.append(np.arange(0, 100, 2) / 100, [0.95, 0.99, 0.998]))
"""Coverages of the intervals that form the distribution of the method "cqr"."""

_FEW_COVERAGES = np.append(np.arange(1, 10) / 10, [0.95, 0.98])
"""Coverages of the intervals that form a distribution with ``basis``. There are few, because each row and
coverage needs a path of solutions."""


@dataclass(frozen=True, eq=False)
class ObservedRows:
    """Rows whose target is known, and their predictions by a model that is fitted to other rows."""

    rows: WeightedRows
    prediction: Any
    y: FloatArray
    repetitions: FloatArray

    def __getitem__(self, rows: slice) -> ObservedRows:
        return ObservedRows(self.rows[rows], self.prediction[rows], self.y[rows], self.repetitions[rows])


class SplitConformal:
    """Fitted model, and the scores of its calibration rows."""

    def __init__(
        self,
        model: FoldModel,
        score: ConformalScore,
        options: GroupsAndShift,
        observed: ObservedRows,
    ) -> None:
        self.estimator = model.estimator
        self._model, self._score, self._options = model, score, options
        # Scores that depend on the coverage are computed from these rows if a new coverage is requested.
        self._first = observed if score.depends_on_coverage else None
        self._calibrations = {DEFAULT_COVERAGE: self._scored(observed, DEFAULT_COVERAGE)}
        self._calibrations[DEFAULT_COVERAGE].check()
        self._requested: set[float] = set()  # A sequence adapts the coverages that were requested before.

    @property
    def n_calibration(self) -> float:
        return float(self._calibration().repetitions.sum())

    def _scored(self, observed: ObservedRows, coverage: float) -> CalibrationRows:
        scores = self._score.score(observed.prediction, observed.y, coverage)
        return CalibrationRows(scores, observed.rows, observed.repetitions, self._options)

    def _key(self, coverage: float) -> float:
        return coverage if self._score.depends_on_coverage else DEFAULT_COVERAGE

    def _observed_rows(self) -> ObservedRows | None:
        """Return the calibration rows without scores if the scores depend on the coverage."""
        return self._first

    def _calibration(self, coverage: float = DEFAULT_COVERAGE) -> CalibrationRows:
        """Return the calibration rows. Scores that depend on the coverage are stored for each coverage."""
        key = self._key(coverage)
        if key not in self._calibrations:
            self._calibrations[key] = self._scored(cast("ObservedRows", self._first), key)
        return self._calibrations[key]

    def miscoverage(self, coverage: float) -> float:
        """Return the target miscoverage of the next interval."""
        self._requested.add(coverage)
        return 1 - coverage

    def _predict(self, X: Any) -> Any:
        return self._score.predict(self.estimator, self._model.model_input(X))

    def point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator, self._model.model_input(X))

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        rows, prediction = self._options.rows(X), self._predict(X)
        intervals = np.empty((len(coverages), 2, rows.n))
        mapped = None
        if self._score.maps_levels and not isinstance(ranked := self._calibration().ranked, BasisScores):
            mapped = self._mapped(ranked, rows, prediction)
        unbounded = np.zeros(rows.n, dtype=bool)
        for bounds, coverage in zip(intervals, coverages.tolist(), strict=True):
            # An adapted miscoverage may be outside [0, 1].
            level = max(1 - self.miscoverage(coverage), 0.0)
            quantile = self._calibration(coverage).ranked.quantile(rows, level)
            bounds[:] = self._bounds(prediction, quantile, coverage, level)
            if mapped is not None:  # The bounds contain the interval of the distribution.
                lower, upper = mapped.interval(coverage).T
                bounds[:] = np.minimum(bounds[0], lower), np.maximum(bounds[1], upper)
            unbounded |= np.isinf(quantile).any(axis=0)
        if unbounded.any():
            self._warn_of_unbounded(rows, coverages, unbounded)
        return intervals.transpose(2, 1, 0)

    def _bounds(
        self, prediction: Any, quantile: FloatArray, coverage: float, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the bounds from the band at ``coverage`` and the score quantile at ``level``."""
        lower, upper = self._score.invert(prediction, quantile, coverage)
        # An empty interval is replaced by the point at its center.
        empty = lower > upper if level > 0 else np.ones(lower.shape, dtype=bool)
        lower[empty] = upper[empty] = (lower[empty] + upper[empty]) / 2
        return lower, upper

    def _warn_of_unbounded(self, rows: WeightedRows, coverages: FloatArray, unbounded: BoolArray) -> None:
        """Issue one `SmallSampleWarning` about rows for which the scores give no bound."""
        if self._options.basis is not None:
            warn_of_unbounded_rows(unbounded, "their bounds are infinite")
            return
        levels = score_level(coverages, self._score.symmetric)
        warn_of_few_rows("coverage", coverages, levels, *self._least_calibrated(rows))
        outside = np.isinf(self._calibration().scores).any(axis=0).mean()
        if outside > 0:
            warn_user(
                f"method 'pit' cannot reach {100 * coverages.max():g} %: {outside:.1%} of the "
                "calibration targets are outside the support of their predicted distributions. The "
                "bounds are the ends of the support. Use method 'normalized'.",
                SmallSampleWarning,
            )

    def _least_calibrated(self, rows: WeightedRows) -> tuple[float, float]:
        """Return the weight of the calibration rows and of the new row, for the row with the least share."""
        weight = self._calibration().ranked.weight_for(rows)
        test_weight = np.broadcast_to(rows.test_weight, rows.n)
        row = int(np.argmin(weight / test_weight))
        return float(weight[row]), float(test_weight[row])

    def p_values(self, X: Any, y: FloatArray, coverage: float, rng: np.random.RandomState) -> FloatArray:
        """Return the share of larger scores among the calibration rows and the earlier rows of the group.

        Ties are broken at random.
        """
        past, new = self._calibration(coverage), self._options.rows(X)
        if not (past.repetitions == 1).all():
            raise ValueError(
                "`predict_p` needs calibration rows without `sample_weight`. Repeat rows instead of passing "
                "weights."
            )
        scores = self._score.score(self._predict(X), y, coverage).max(axis=0)
        uniform = rng.random_sample(scores.size)
        labels: list[Any] = [None] * new.n if new.labels is None else new.labels.tolist()
        past_labels = [None] * past.rows.n if past.rows.labels is None else past.rows.labels.tolist()
        known: dict[Any, list[float]] = {}
        for label, score in zip(past_labels, past.scores.max(axis=0).tolist(), strict=True):
            known.setdefault(label, []).append(score)
        for of_label in known.values():
            of_label.sort()
        p_values = np.empty(scores.size)
        for row, (label, score) in enumerate(zip(labels, scores.tolist(), strict=True)):
            ranked = known.setdefault(label, [])
            first, after = bisect_left(ranked, score), bisect_right(ranked, score)
            # The row itself is one of the ties.
            p_values[row] = (len(ranked) - after + uniform[row] * (after - first + 1)) / (len(ranked) + 1)
            insort(ranked, score)
        return p_values

    # -------------------------------------------------------------------------- distributions

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions. They do not use the levels that `partial_fit` adapts."""
        return self._dist_of(self._options.rows(X), self._predict(X))

    def point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        """Return the point predictions and the distributions. The model predicts only once."""
        prediction, points = self._score.predict_with_point(self.estimator, self._model.model_input(X))
        return points, self._dist_of(self._options.rows(X), prediction)

    def _dist_of(self, rows: WeightedRows, prediction: Any) -> Distribution:
        ranked = self._calibration().ranked
        if isinstance(ranked, BasisScores):
            return self._dist_over_basis(rows, prediction)
        if self._score.maps_levels:
            return self._mapped(ranked, rows, prediction)
        if self._score.depends_on_coverage:
            return self._through_intervals(rows, prediction)
        band = self._score.band(prediction, DEFAULT_COVERAGE)
        return ranked.predictive(rows, band.low, band.scale, self._score.symmetric)

    def _mapped(
        self, ranked: SplitScores | GroupedScores, rows: WeightedRows, prediction: Distribution
    ) -> Distribution:
        """Return the predicted distributions with conformal levels. Each group has its own level map."""
        parts, of_part = [], []
        for new, scores in ranked.parts(rows):
            of_part.append(np.arange(rows.n)[new])
            level_map = conformal_level_map(scores.ranks[0], scores.ranks[-1], self._score.symmetric)
            parts.append(Recalibrated(prediction[new], level_map))
        return concat(parts)[np.argsort(np.concatenate(of_part))]

    def _bounds_at(self, rows: WeightedRows, prediction: Any, coverages: FloatArray) -> FloatArray:
        """Return the bounds without adaptation, shape (k, 2, n)."""
        bounds = np.empty((len(coverages), 2, rows.n))
        observed = self._observed_rows()
        for of_coverage, coverage in zip(bounds, coverages.tolist(), strict=True):
            scored = self._calibration() if observed is None else self._scored(observed, coverage)
            quantile = scored.ranked.quantile(rows, coverage)
            of_coverage[:] = self._bounds(prediction, quantile, coverage, coverage)
        return bounds

    def _through_intervals(self, rows: WeightedRows, prediction: Any) -> Quantiles:
        """Return the distributions whose quantiles are the sorted bounds of intervals at many coverages."""
        weight, test_weight = self._least_calibrated(rows)
        target = score_level(_COVERAGES, self._score.symmetric) * (weight + test_weight)
        coverages = _COVERAGES[target * (1 - RANK_TOLERANCE) <= weight]
        if coverages.size < 2:
            raise ValueError(
                "a predictive distribution needs more calibration rows, got calibration rows with a "
                f"total weight of {weight:g}, and a new row of weight {test_weight:g}. With "
                "these weights, only the median is finite. Fit on more rows."
            )
        bounds = self._bounds_at(rows, prediction, coverages)
        # The interval of coverage 0 is the median.
        levels = np.concatenate([(1 - coverages[:0:-1]) / 2, [0.5], (1 + coverages[1:]) / 2])
        return Quantiles(levels, np.concatenate([bounds[:0:-1, 0], bounds[:, 1]]).T)

    def _dist_over_basis(self, rows: WeightedRows, prediction: Any) -> Distribution:
        """Return the distributions whose quantiles are the finite bounds of a few coverages."""
        bounds = self._bounds_at(rows, prediction, _FEW_COVERAGES)
        n_finite = np.isfinite(bounds).all(axis=1).cumprod(axis=0).sum(axis=0)
        if not n_finite.all():
            raise ValueError(
                f"a predictive distribution needs finite bounds, but `basis` gives none for row "
                f"{int(np.argmin(n_finite))}. Use `predict_interval`, whose bounds may be infinite, "
                "or a `basis` with fewer functions."
            )
        parts, of_part = [], []
        for k in np.unique(n_finite):
            of_part.append(np.flatnonzero(n_finite == k))
            levels = np.concatenate([(1 - _FEW_COVERAGES[:k][::-1]) / 2, (1 + _FEW_COVERAGES[:k]) / 2])
            values = np.concatenate([bounds[:k, 0][::-1], bounds[:k, 1]])[:, of_part[-1]]
            parts.append(Quantiles(levels, values.T))
        return concat(parts)[np.argsort(np.concatenate(of_part))]
