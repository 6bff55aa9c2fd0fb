"""Split conformal prediction: calibrated scores, and bounds and sets for new rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skuq._compat import safe_indexing, warn_user
from skuq._fitting.cross_fit import Split, point_predict
from skuq._fitting.training_data import TrainingData, codes_of
from skuq._numeric import RANK_TOLERANCE, has_rank, score_level
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE, effective_rows
from skuq.conformal._adaptive import Adaptation, AdaptiveCalibration, PredictedCalls
from skuq.conformal._base import FoldModel, fit_held_out, warn_of_few_rows
from skuq.conformal._calibration_set import CalibrationScores, CalibrationSet, PredictedRows
from skuq.conformal._conformal_recalibrator import conformal_level_map
from skuq.conformal._groups import GroupsAndShift, WeightedRows, warn_of_unbounded_rows
from skuq.conformal._p_values import ranked_in_order
from skuq.conformal._scores import (
    ClassScore,
    ConformalScore,
    check_known_labels,
    classes_of,
    fill_empty,
    scores_of_labels,
    warn_of_unknown_labels,
)
from skuq.distributions import Distribution, Quantiles, concat
from skuq.distributions._recalibrated import Recalibrated
from skuq.exceptions import SmallSampleWarning
from skuq.prediction._predict_set import class_proba

_COVERAGES = np.sort(np.append(np.arange(0, 100, 2) / 100, [0.95, 0.99, 0.998]))
"""Coverages of the intervals that form the distribution of the method "cqr"."""


_FEW_COVERAGES = np.append(np.arange(1, 10) / 10, [0.95, 0.98])
"""Coverages of the intervals that form a distribution with ``basis``. There are few, because each row and
coverage needs a path of solutions."""


class SplitConformal:
    """Fitted model and its calibration rows."""

    def __init__(
        self,
        model: FoldModel,
        score: ConformalScore,
        options: GroupsAndShift,
        adaptation: Adaptation,
        window: int | None,
    ) -> None:
        self.estimator = model.estimator
        self._model = model
        self._score = score
        self._options = options
        self._adaptation, self._window = adaptation, window
        # Scores that depend on the coverage are computed from these rows if a new coverage is requested.
        self._history = PredictedCalls(window)
        self._calibrations: dict[float, AdaptiveCalibration] = {}

    # ------------------------------------------------------------------------------ calibration

    def add(self, X: Any, prediction: Any, y: FloatArray, weight: FloatArray | None) -> None:
        """Add rows to the calibration rows. If the rows are invalid, raise an error and change nothing."""
        part = self._rows(X, prediction, y, weight)
        if not self._calibrations:
            self._calibrations[DEFAULT_COVERAGE] = self._new_calibration(DEFAULT_COVERAGE)
        current = [self._calibrations[DEFAULT_COVERAGE]]
        if self._window is not None:  # Rows outside the window are not available later.
            current = list(self._calibrations.values())
        updates = [calibration.update_by(part) for calibration in current]
        for calibration, update in zip(current, updates, strict=True):
            calibration.apply(update)
        if self._score.depends_on_coverage:
            self._history.append(part)

    def observe(self, X: Any, y: FloatArray, weight: FloatArray | None) -> None:
        """Predict the rows with the current calibration set, and then add the rows to this set."""
        effective_rows(weight, len(y))
        self.add(X, self._predict(X), y, weight)

    def _calibration(self, coverage: float = DEFAULT_COVERAGE) -> AdaptiveCalibration:
        key = coverage if self._score.depends_on_coverage else DEFAULT_COVERAGE
        calibration = self._calibrations.get(key) or self._new_calibration(key)
        if self._window is None or calibration.n_parts == 0:
            for part in self._history.replayed()[calibration.n_parts :]:
                calibration.add(part)
        self._calibrations[key] = calibration
        return calibration

    def _new_calibration(self, coverage: float) -> AdaptiveCalibration:
        return AdaptiveCalibration(self._score, coverage, self._options, self._adaptation, self._window)

    @property
    def n_calibration(self) -> float:
        return float(self._calibration().calibration_set.repetitions.sum())

    def _rows(
        self, X: Any, prediction: Any, y: FloatArray | None = None, weight: FloatArray | None = None
    ) -> PredictedRows:
        # The rows of `fit` may have a density ratio of 0. Later rows are also predicted, so their density
        # ratio must be positive.
        rows = self._options.weighted_rows(X, predicted=bool(self._calibrations))
        return PredictedRows(
            rows.n,
            rows.test_weight,
            rows.labels,
            prediction,
            np.empty(0) if y is None else y,
            np.ones(rows.n) if weight is None else weight,
            functions=rows.functions,
        )

    def _predict(self, X: Any) -> Any:
        return self._score.predict(self.estimator, self._model.model_input(X))

    def point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator, self._model.model_input(X))

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        rows = self._rows(X, self._predict(X))
        intervals = np.empty((len(coverages), 2, rows.n))
        mapped = self._mapped(rows) if self._score.maps_levels and self._options.basis is None else None
        unbounded = np.zeros(rows.n, dtype=bool)
        for bounds, coverage in zip(intervals, coverages.tolist(), strict=True):
            calibration = self._calibration(coverage)
            miscoverage = calibration.miscoverage(coverage)
            quantile = calibration.quantile(rows, coverage)
            bounds[:] = self._bounds(rows, quantile, coverage, miscoverage)
            if mapped is not None:  # The bounds contain the interval of the distribution.
                lower, upper = mapped.interval(coverage).T
                bounds[:] = np.minimum(bounds[0], lower), np.maximum(bounds[1], upper)
            unbounded |= np.isinf(quantile).any(axis=0)
        self._warn_of_unbounded(rows, coverages, unbounded)
        return intervals.transpose(2, 1, 0)

    def _warn_of_unbounded(self, rows: PredictedRows, coverages: FloatArray, unbounded: BoolArray) -> None:
        """Issue one `SmallSampleWarning` if the scores give no bound for some rows."""
        if self._options.basis is not None:
            warn_of_unbounded_rows(unbounded, "their bounds are infinite")
        elif unbounded.any():
            levels = score_level(coverages, self._score.symmetric)
            warn_of_few_rows("coverage", coverages, levels, *self._least_calibrated(rows))
            outside = np.isinf(self._calibration().calibration_set.scores).any(axis=0).mean()
            if outside > 0:
                warn_user(
                    f"method 'pit' cannot reach {100 * coverages.max():g} %: {outside:.1%} of the "
                    "calibration targets are outside the support of their predicted distributions. The "
                    "bounds are the ends of the support. Use method 'normalized'.",
                    SmallSampleWarning,
                )

    def _bounds(
        self, rows: PredictedRows, quantile: FloatArray, coverage: float, miscoverage: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the bounds from the band at ``coverage`` and the score quantile at ``miscoverage``."""
        # An adapted miscoverage may be outside [0, 1]. An empty interval is replaced by the point at its
        # center.
        lower, upper = self._score.invert(rows.prediction, quantile, coverage)
        empty = lower > upper if miscoverage < 1 else np.ones(rows.n, dtype=bool)
        lower[empty] = upper[empty] = (lower[empty] + upper[empty]) / 2
        return lower, upper

    def p_values(self, X: Any, y: FloatArray, coverage: float, rng: np.random.RandomState) -> FloatArray:
        rows = self._rows(X, self._predict(X), y)
        scores = self._score.score(rows.prediction, y, coverage).max(axis=0)
        past = self._calibration(coverage).calibration_set
        if not (past.weight == 1).all():
            raise ValueError(
                "`predict_p` needs calibration rows without `sample_weight`. Repeat rows instead of passing "
                "weights."
            )
        return ranked_in_order(past.scores.max(axis=0), past.labels, scores, rows.labels, rng)

    def _least_calibrated(self, rows: PredictedRows) -> tuple[float, float]:
        calibration_weight = self._calibration().calibration_set.weight_for(rows)
        test_weight = np.broadcast_to(rows.test_weight, rows.n)
        row = int(np.argmin(calibration_weight / test_weight))
        return float(calibration_weight[row]), float(test_weight[row])

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions. They do not use the levels that `partial_fit` adapts."""
        return self._dist_of(self._rows(X, self._predict(X)))

    def point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        """Return the point predictions and the distributions. The model predicts only once."""
        prediction, points = self._score.predict_with_point(self.estimator, self._model.model_input(X))
        return points, self._dist_of(self._rows(X, prediction))

    def _dist_of(self, rows: PredictedRows) -> Distribution:
        calibration = self._calibration().calibration_set
        if self._options.basis is not None:
            return self._dist_over_basis(rows)
        if self._score.maps_levels:
            return self._mapped(rows)
        if self._score.depends_on_coverage:
            return self._through_intervals(calibration, rows)
        return calibration.predictive(rows, self._score.band(rows.prediction, DEFAULT_COVERAGE))

    def _through_intervals(self, calibration: CalibrationSet, rows: PredictedRows) -> Quantiles:
        """Return the distributions whose quantiles are the sorted bounds of intervals at many coverages."""
        calibrating = self._history.last(len(calibration))
        coverages = self._reachable(*self._least_calibrated(rows))
        bounds = np.empty((len(coverages), 2, rows.n))
        for of_coverage, coverage in zip(bounds, coverages.tolist(), strict=True):
            scores = self._score.score(calibrating.prediction, calibrating.y, coverage)
            scored = calibration.with_scores(scores)
            of_coverage[:] = self._bounds(rows, scored.quantile(rows, coverage), coverage, 1 - coverage)
        # The interval of coverage 0 is the median.
        levels = np.concatenate([(1 - coverages[:0:-1]) / 2, [0.5], (1 + coverages[1:]) / 2])
        return Quantiles(levels, np.concatenate([bounds[:0:-1, 0], bounds[:, 1]]).T)

    def _mapped(self, rows: PredictedRows) -> Distribution:
        """Return the predicted distributions with conformal levels. Each group has its own level map."""
        parts, of_part = [], []
        for new, ranks in self._calibration().calibration_set.ranks_for(rows):
            of_part.append(np.arange(rows.n)[new])
            level_map = conformal_level_map(ranks[0], ranks[-1], self._score.symmetric)
            parts.append(Recalibrated(rows.prediction[new], level_map))
        return concat(parts)[np.argsort(np.concatenate(of_part))]

    def _dist_over_basis(self, rows: PredictedRows) -> Distribution:
        """Return the distributions whose quantiles are the finite bounds of a few coverages."""
        bounds = np.empty((_FEW_COVERAGES.size, 2, rows.n))
        for of_coverage, coverage in zip(bounds, _FEW_COVERAGES.tolist(), strict=True):
            calibration = self._calibration().calibration_set
            if self._score.depends_on_coverage:
                calibrating = self._history.last(len(calibration))
                scores = self._score.score(calibrating.prediction, calibrating.y, coverage)
                calibration = calibration.with_scores(scores)
            of_coverage[:] = self._bounds(rows, calibration.quantile(rows, coverage), coverage, 1 - coverage)
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

    def _reachable(self, calibration_weight: float, test_weight: float) -> FloatArray:
        """Return the elements of `_COVERAGES` with finite bounds.

        Raise an error if fewer than two are finite.
        """
        target = score_level(_COVERAGES, self._score.symmetric) * (calibration_weight + test_weight)
        reachable: FloatArray = _COVERAGES[target * (1 - RANK_TOLERANCE) <= calibration_weight]
        if reachable.size < 2:
            raise ValueError(
                "a predictive distribution needs more calibration rows, got calibration rows with a "
                f"total weight of {calibration_weight:g}, and a new row of weight {test_weight:g}. With "
                "these weights, only the median is finite. Fit on more rows."
            )
        return reachable


def fit_split_sets(
    estimator: Any,
    data: TrainingData,
    split: Split | None,
    score: ClassScore,
    uniform: FloatArray | None,
    options: GroupsAndShift,
    *,
    by_class: bool,
    allow_empty: bool,
    verbose: int,
) -> SplitSets:
    model, calibrating, proba = fit_held_out(estimator, data, split, class_proba, verbose=verbose)
    classes = classes_of(model.estimator, proba)
    labels, counts = data.y[calibrating], data.repetitions[calibrating] > 0
    codes = codes_of(labels, classes)
    known = codes >= 0
    check_known_labels(known[counts], labels[counts], classes, model.estimator)
    if by_class:
        # A label without training rows is in no set and belongs to no group.
        calibrating, codes, proba = calibrating[known], codes[known], proba[known]
    scores = score.score(proba, None if uniform is None else uniform[calibrating])
    rows = options.weighted_rows(safe_indexing(data.X, calibrating), predicted=False)
    calibration = CalibrationScores(
        scores_of_labels(scores, codes)[np.newaxis],
        data.repetitions[calibrating],
        np.broadcast_to(rows.test_weight, rows.n),
        classes[codes] if by_class else rows.labels,
        options,
        rows.functions,
    )
    calibration.check()
    if by_class and calibration.groups is not None:
        # raises an error if a class has too few calibration rows
        list(calibration.groups.partition(classes))
    return SplitSets(model, classes, calibrating, score, options, by_class, allow_empty, calibration)


@dataclass(frozen=True, eq=False)
class SplitSets:
    """Fitted classifier and its calibration scores. With ``by_class``, each class is a group."""

    model: FoldModel
    classes: np.ndarray
    calibration_rows: IntArray
    score: ClassScore
    options: GroupsAndShift
    by_class: bool
    allow_empty: bool
    calibration: CalibrationScores

    @property
    def n_calibration(self) -> float:
        return float(self.calibration.repetitions.sum())

    def sets(self, X: Any, coverages: FloatArray, uniform: FloatArray | None) -> BoolArray:
        """Return the sets of each coverage.

        The sets contain the classes whose scores are at most the quantile.
        """
        proba = class_proba(self.model.estimator, self.model.model_input(X))
        scores = self.score.score(proba, uniform)
        groups = self._groups_of(X)
        weight = np.stack([self.calibration.weight_for(rows) for rows in groups], axis=1)
        test_weight = groups[0].test_weight[..., np.newaxis]
        sets = np.empty((len(coverages), *scores.shape), dtype=bool)
        of_unknown, unbounded = [], np.zeros(len(weight), dtype=bool)
        for inside, coverage in zip(sets, coverages.tolist(), strict=True):
            quantile = np.stack([self.calibration.quantile(rows, coverage)[0] for rows in groups], axis=1)
            np.less_equal(scores, quantile, out=inside)
            unbounded |= np.isinf(quantile[:, 0])
            if (np.isinf(quantile) & has_rank(coverage, weight, test_weight)).any():
                of_unknown.append(coverage)
        least = np.unravel_index(np.argmin(weight / test_weight), weight.shape)
        warn_of_few_rows(
            "set", coverages, coverages, weight[least], np.broadcast_to(test_weight, weight.shape)[least]
        )
        if self.options.basis is not None:
            warn_of_unbounded_rows(unbounded, "their sets contain all classes")
        elif of_unknown:
            unknown = self.calibration.repetitions[np.isinf(self.calibration.scores[0])].sum()
            warn_of_unknown_labels(max(of_unknown), unknown, self.n_calibration)
        sets = np.moveaxis(sets, 0, -1)
        return sets if self.allow_empty else fill_empty(sets, lambda: proba)

    def _groups_of(self, X: Any) -> list[WeightedRows]:
        """Return the new rows. If each class is a group, the rows are repeated once per class."""
        rows = self.options.weighted_rows(X, predicted=True)
        if rows.labels is None and rows.functions is None and not rows.test_weight.ndim:
            rows = replace(rows, n=1)
        if not self.by_class:
            return [rows]
        return [replace(rows, labels=label) for label in self.classes[:, np.newaxis]]
