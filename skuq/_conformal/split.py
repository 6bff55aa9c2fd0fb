"""Split conformal prediction: one model, which is calibrated on held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._conformal.adaptive import AdaptiveCalibration
from skuq._conformal.calibration_set import CalibrationSet, PredictedRows
from skuq._conformal.fold_models import FoldModel, warn_of_few_rows
from skuq._conformal.groups_and_shift import GroupsAndShift
from skuq._conformal.scores import ConformalScore
from skuq._fitting.point_predict import point_predict
from skuq._ranks import RANK_TOLERANCE, score_level
from skuq._typing import FloatArray
from skuq._validation import DEFAULT_COVERAGE, effective_rows
from skuq.distributions import Distribution, Quantiles, concat

_COVERAGES = np.sort(np.append(np.arange(0, 100, 2) / 100, [0.95, 0.99, 0.998]))
"""Coverages of the intervals from which the distribution of method "cqr" is formed."""


class SplitConformal:
    """A fitted model and its calibration rows."""

    def __init__(
        self,
        model: FoldModel,
        score: ConformalScore,
        options: GroupsAndShift,
        gamma: float,
        window: int | None,
    ) -> None:
        self.estimator = model.estimator
        self._model = model
        self._score = score
        self._options = options
        self._gamma, self._window = gamma, window
        self._parts: list[PredictedRows] = []
        self._calibrations: dict[float, AdaptiveCalibration] = {}

    # ------------------------------------------------------------------------------ calibration

    def add(self, X: Any, prediction: Any, y: FloatArray, weight: FloatArray | None) -> None:
        """Add rows to the calibration rows; raise an error and change nothing if the rows are invalid."""
        self._parts.append(self._rows(X, prediction, y, weight))
        try:
            self._calibration()
        except Exception:
            self._parts.pop()
            raise

    def observe(self, X: Any, y: FloatArray, weight: FloatArray | None) -> None:
        """Predict the rows with the current calibration set, and then add them to it."""
        effective_rows(weight, len(y))
        self.add(X, self._predict(X), y, weight)

    def _calibration(self, coverage: float = DEFAULT_COVERAGE) -> AdaptiveCalibration:
        """Return the calibration for a coverage, updated with all observed rows."""
        key = coverage if self._score.depends_on_coverage else DEFAULT_COVERAGE
        if key not in self._calibrations:
            self._calibrations[key] = AdaptiveCalibration(
                self._score, key, self._options, self._gamma, self._window
            )
        self._calibrations[key].extend(self._parts)
        return self._calibrations[key]

    @property
    def n_calibration(self) -> float:
        """Number of current calibration rows, or the sum of their weights."""
        return float(self._calibration().calibration_set.repetitions.sum())

    def _rows(
        self, X: Any, prediction: Any, y: FloatArray | None = None, weight: FloatArray | None = None
    ) -> PredictedRows:
        # The rows of `fit` may have a density ratio of 0. Later rows are also predicted, so theirs must be
        # positive.
        rows = self._options.weighted_rows(X, predicted=bool(self._parts))
        return PredictedRows(
            rows.n,
            rows.test_weight,
            rows.labels,
            prediction,
            np.empty(0) if y is None else y,
            np.ones(rows.n) if weight is None else weight,
        )

    def _predict(self, X: Any) -> Any:
        return self._score.predict(self.estimator, self._model.model_input(X))

    def point(self, X: Any) -> FloatArray:
        return point_predict(self.estimator, self._model.model_input(X))

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        rows = self._rows(X, self._predict(X))
        intervals = np.empty((len(coverages), 2, rows.n))
        for bounds, coverage in zip(intervals, coverages.tolist(), strict=True):
            calibration = self._calibration(coverage)
            miscoverage = calibration.miscoverage(coverage)
            bounds[:] = self._bounds(calibration.calibration_set, rows, coverage, miscoverage)
        if np.isinf(intervals).any():
            levels = score_level(coverages, self._score.symmetric)
            warn_of_few_rows("coverage", coverages, levels, *self._least_calibrated(rows))
        return intervals.transpose(2, 1, 0)

    def _bounds(
        self, calibration: CalibrationSet, rows: PredictedRows, coverage: float, miscoverage: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the bounds from the band at ``coverage`` and the score quantile of ``miscoverage``."""
        # An adapted miscoverage may be outside [0, 1]. An empty interval becomes the point at its center.
        quantile = calibration.quantile(rows, max(1 - miscoverage, 0.0))
        lower, upper = self._score.invert(rows.prediction, quantile, coverage)
        empty = lower > upper if miscoverage < 1 else np.ones(rows.n, dtype=bool)
        lower[empty] = upper[empty] = (lower[empty] + upper[empty]) / 2
        return lower, upper

    def _least_calibrated(self, rows: PredictedRows) -> tuple[float, float]:
        """Return the calibration weight and the test weight of the row with the smallest ratio of both."""
        calibration_weight = self._calibration().calibration_set.weight_for(rows)
        test_weight = np.broadcast_to(rows.test_weight, rows.n)
        row = int(np.argmin(calibration_weight / test_weight))
        return float(calibration_weight[row]), float(test_weight[row])

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions, without the adaptation of the level by `partial_fit`."""
        return self._dist_of(self._rows(X, self._predict(X)))

    def point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        """Return the point predictions and the distributions from one prediction of the model."""
        prediction, points = self._score.predict_with_point(self.estimator, self._model.model_input(X))
        return points, self._dist_of(self._rows(X, prediction))

    def _dist_of(self, rows: PredictedRows) -> Distribution:
        calibration = self._calibration().calibration_set
        if self._score.depends_on_coverage:
            return self._through_intervals(calibration, rows)
        return calibration.predictive(rows, self._score.band(rows.prediction, DEFAULT_COVERAGE))

    def _through_intervals(self, calibration: CalibrationSet, rows: PredictedRows) -> Quantiles:
        """Return the distributions whose quantiles are the sorted bounds of intervals at many coverages."""
        n = len(calibration)  # A window removes earlier rows.
        prediction = concat([part.prediction for part in self._parts])[-n:]
        y = np.concatenate([part.y for part in self._parts])[-n:]
        coverages = self._reachable(*self._least_calibrated(rows))
        bounds = np.empty((len(coverages), 2, rows.n))
        for of_coverage, coverage in zip(bounds, coverages.tolist(), strict=True):
            scored = calibration.with_scores(self._score.score(prediction, y, coverage))
            of_coverage[:] = self._bounds(scored, rows, coverage, 1 - coverage)
        # The interval of coverage 0 is the median.
        levels = np.concatenate([(1 - coverages[:0:-1]) / 2, [0.5], (1 + coverages[1:]) / 2])
        return Quantiles(levels, np.concatenate([bounds[:0:-1, 0], bounds[:, 1]]).T)

    def _reachable(self, calibration_weight: float, test_weight: float) -> FloatArray:
        """Return the elements of `_COVERAGES` with finite bounds; raise an error for fewer than two."""
        target = score_level(_COVERAGES, self._score.symmetric) * (calibration_weight + test_weight)
        reachable: FloatArray = _COVERAGES[target * (1 - RANK_TOLERANCE) <= calibration_weight]
        if reachable.size < 2:
            raise ValueError(
                "a predictive distribution needs more calibration rows, got a total weight of "
                f"{calibration_weight:g} for a new row of weight {test_weight:g}, with which only the median "
                "is finite. Fit on more rows."
            )
        return reachable
