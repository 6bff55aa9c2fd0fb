"""Split conformal prediction: one model, calibrated on rows held out from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ShuffleSplit

from skuq._sklearn_compat import count_rows, is_pairwise
from skuq._typing import FloatArray, IntArray
from skuq._validation import DEFAULT_COVERAGE, effective_rows
from skuq.distributions import Distribution, Quantiles, concat
from skuq.distributions._numerics.ranks import RANK_TOLERANCE, score_level
from skuq.prediction._cross_fit import cross_fit, resolve_cv, split_rows
from skuq.prediction._point import point_predict
from skuq.prediction._random import seeded_clone
from skuq.prediction._row_sets import columns_of_rows, n_held_out, row_mask
from skuq.prediction._target_units import in_target_units
from skuq.recalibration._calibration_set import PredictedRows, density_ratio_of, group_labels
from skuq.regressors._conformal.adaptive import AdaptiveCalibration
from skuq.regressors._conformal.calibration_set import CalibrationSet
from skuq.regressors._conformal.scores import SCORES, ConformalScore
from skuq.regressors._conformal.settings import ConformalSettings, warn_of_few_rows
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._progress import Progress

__all__ = ["SplitConformal", "fit_split"]

_COVERAGES = np.sort(np.append(np.arange(0, 100, 2) / 100, [0.95, 0.99, 0.998]))
"""Coverages of the intervals whose bounds are the quantiles of the distribution of "cqr".

They are those at 1 %, 2 %, ..., 99 %, and at 2.5, 0.5 and 0.1 % from either end.
"""


def fit_split(data: TrainingData, settings: ConformalSettings, progress: Progress) -> SplitConformal:
    """Fit one model on the training rows and calibrate it on the others.

    A FrozenEstimator is not fitted, and all rows calibrate.
    """
    score = SCORES[settings.method](settings.symmetric)
    score.check_estimator(settings.estimator)
    effective_rows(data.sample_weight, len(data))  # ranks need repetitions, so relative weights raise
    if isinstance(settings.estimator, FrozenEstimator):
        if settings.cv is not None:
            raise ValueError(
                "`cv` must be None with a FrozenEstimator: it is not fitted, so that all rows given to `fit` "
                "calibrate."
            )
        fitted, calibrating, columns = settings.estimator, np.arange(len(data)), None
        prediction = score.predict(fitted, data.X)
    else:
        train, calibrating = split = _one_split(data, settings)
        columns = train if is_pairwise(settings.estimator) else None
        estimator = seeded_clone(settings.estimator, settings.model_seed, settings.random_state)
        result = cross_fit(
            in_target_units(estimator, data.y) if settings.method == "split" else estimator,
            data.X,
            data.target,
            cv=[split],
            params=data.fit_params,
            verbose=settings.verbose,
            predict=score.predict,
            on_fold=progress.reporter("model"),
        )
        fitted, prediction = result.estimators[0], result.predictions[0]
    held_out = data.take(calibrating)
    conformal = SplitConformal(fitted, score, settings, calibrating, columns)
    conformal.add(held_out.X, prediction, held_out.y, held_out.sample_weight)
    progress.done("calibration")
    return conformal


def _one_split(data: TrainingData, settings: ConformalSettings) -> tuple[IntArray, IntArray]:
    """Return the rows that train and those that calibrate, the latter in their order."""
    if settings.cv is None:
        held_out = n_held_out(settings.calibration_size, len(data))
        cv: Any = ShuffleSplit(1, test_size=held_out, random_state=settings.split_seed)
    else:
        cv = settings.cv
    splits = split_rows(resolve_cv(cv), data.X, data.y, data.groups)
    if len(splits) != 1:
        raise ValueError(
            f"`cv` must give one split into training and calibration rows with method {settings.method!r}, "
            f"got {len(splits)}. Pass for example ShuffleSplit(1) or GroupShuffleSplit(1); to use several "
            "folds, take method='cv+', or RecalibratedRegressor(estimator, ConformalRecalibrator())."
        )
    train, test = splits[0]
    if settings.cv is None:
        train = np.sort(train)  # for models whose fit depends on the order of rows
    shared = np.flatnonzero(row_mask(train, len(data)) & row_mask(test, len(data)))
    if shared.size:
        raise ValueError(
            f"`cv` must keep training and calibration rows apart, but row {shared[0]} is among both."
        )
    return train, np.sort(test)


class SplitConformal:
    """A fitted model and the rows that calibrate it; more of them may be observed later.

    Parameters
    ----------
    estimator : estimator
        Fitted without the calibration rows.
    score : ConformalScore
        Score of the method.
    settings : ConformalSettings
        Method and options.
    calibration_rows : ndarray
        Numbers of the rows of ``fit`` that calibrate.
    columns : ndarray or None
        Columns of X that belong to the training rows, where X is a matrix between rows (a precomputed
        kernel).
    """

    def __init__(
        self,
        estimator: Any,
        score: ConformalScore,
        settings: ConformalSettings,
        calibration_rows: IntArray,
        columns: IntArray | None,
    ) -> None:
        self.estimator = estimator
        self.calibration_rows = calibration_rows
        self._score = score
        self._settings = settings
        self._columns = columns
        self._parts: list[PredictedRows] = []
        self._calibrations: dict[float, AdaptiveCalibration] = {}

    # ------------------------------------------------------------------------------ calibration

    def add(self, X: Any, prediction: Any, y: FloatArray, weight: FloatArray | None) -> None:
        """Add rows to the calibration set, after they were ranked among its rows."""
        self._parts.append(self._rows(X, prediction, y, weight))
        try:
            self._calibration()
        except Exception:  # the calibration set is as it was, and the next call starts from there
            self._parts.pop()
            raise

    def observe(self, X: Any, y: FloatArray, weight: FloatArray | None) -> None:
        """Add rows that were predicted together, with the calibration set of that time."""
        effective_rows(weight, len(y))
        self.add(X, self._predict(X), y, weight)

    def _calibration(self, coverage: float = DEFAULT_COVERAGE) -> AdaptiveCalibration:
        """Return the calibration of a coverage, up to date.

        It is computed from the observed parts at the first request of the coverage, and then continued.
        """
        key = coverage if self._score.depends_on_coverage else DEFAULT_COVERAGE
        if key not in self._calibrations:
            self._calibrations[key] = AdaptiveCalibration(self._score, key, self._settings)
        self._calibrations[key].extend(self._parts)
        return self._calibrations[key]

    @property
    def n_calibration(self) -> float:
        """Number of rows that calibrate now, weights counted."""
        return float(self._calibration().calibration_set.repetitions.sum())

    def _rows(
        self, X: Any, prediction: Any, y: FloatArray | None = None, weight: FloatArray | None = None
    ) -> PredictedRows:
        """Return rows of X with their prediction, density ratio and group, and their target if observed."""
        settings, n = self._settings, count_rows(X)
        test_weight = np.ones(())
        if settings.density_ratio is not None:
            # the first rows calibrate, where a weight of 0 is possible; all others are predicted as well
            test_weight = density_ratio_of(settings.density_ratio, X, n, positive=bool(self._parts))
        return PredictedRows(
            n,
            test_weight,
            prediction=prediction,
            labels=None if settings.group_by is None else group_labels(settings.group_by, X, n),
            y=np.empty(0) if y is None else y,
            repetitions=np.ones(n) if weight is None else weight,
        )

    # -------------------------------------------------------------------------------- prediction

    def _predict(self, X: Any) -> Any:
        return self._score.predict(self.estimator, self._model_input(X))

    def point(self, X: Any) -> FloatArray:
        """Return the model's own point prediction, shape (n,)."""
        return point_predict(self.estimator, self._model_input(X))

    def _model_input(self, X: Any) -> Any:
        """Return X, or of a precomputed kernel the columns of the training rows."""
        return columns_of_rows(X, self._columns)

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        """Return the intervals of each coverage, shape (n, 2, k)."""
        rows = self._rows(X, self._predict(X))
        intervals = np.empty((len(coverages), 2, rows.n))
        for bounds, coverage in zip(intervals, coverages.tolist(), strict=True):
            calibration = self._calibration(coverage)
            miscoverage = calibration.miscoverage(coverage)
            bounds[:] = self._bounds(calibration.calibration_set, rows, coverage, miscoverage)
        if np.isinf(intervals).any():
            warn_of_few_rows(coverages, self._score.symmetric, *self._least_calibrated(rows))
        return intervals.transpose(2, 1, 0)

    def _bounds(
        self, calibration: CalibrationSet, rows: PredictedRows, coverage: float, miscoverage: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds.

        The band is that of the nominal coverage, the score quantile that of the miscoverage aimed at. An
        empty interval becomes the point at its centre.
        """
        # an adapted miscoverage may lie outside [0, 1]
        quantile = calibration.quantile(rows, max(1 - miscoverage, 0.0))
        lower, upper = self._score.invert(rows.prediction, quantile, coverage)
        empty = lower > upper if miscoverage < 1 else np.ones(rows.n, dtype=bool)
        lower[empty] = upper[empty] = (lower[empty] + upper[empty]) / 2
        return lower, upper

    def _least_calibrated(self, rows: PredictedRows) -> tuple[float, float]:
        """Return the weights of the calibration rows and of the new row where their ratio is smallest."""
        calibration_weight = self._calibration().calibration_set.weight_for(rows)
        test_weight = np.broadcast_to(rows.test_weight, rows.n)
        row = int(np.argmin(calibration_weight / test_weight))
        return float(calibration_weight[row]), float(test_weight[row])

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions, of the nominal levels and not of those of `partial_fit`."""
        return self._dist_of(self._rows(X, self._predict(X)))

    def point_and_dist(self, X: Any) -> tuple[FloatArray, Distribution]:
        """Return `point` and `dist` from one prediction of the model."""
        prediction, points = self._score.predict_with_point(self.estimator, self._model_input(X))
        return points, self._dist_of(self._rows(X, prediction))

    def _dist_of(self, rows: PredictedRows) -> Distribution:
        calibration = self._calibration().calibration_set
        if self._score.depends_on_coverage:
            return self._through_intervals(calibration, rows)
        return calibration.predictive(rows, self._score.band(rows.prediction, DEFAULT_COVERAGE))

    def _through_intervals(self, calibration: CalibrationSet, rows: PredictedRows) -> Quantiles:
        """Return the distributions through the bounds of many coverages, monotone where bounds cross."""
        n = len(calibration)  # fewer than all with a window
        prediction = concat([part.prediction for part in self._parts])[-n:]
        y = np.concatenate([part.y for part in self._parts])[-n:]
        coverages = self._reachable(*self._least_calibrated(rows))
        bounds = np.empty((len(coverages), 2, rows.n))
        for of_coverage, coverage in zip(bounds, coverages.tolist(), strict=True):
            scored = calibration.with_scores(self._score.score(prediction, y, coverage))
            of_coverage[:] = self._bounds(scored, rows, coverage, 1 - coverage)
        # the innermost interval, of coverage 0, is a point: the median
        levels = np.concatenate([(1 - coverages[:0:-1]) / 2, [0.5], (1 + coverages[1:]) / 2])
        return Quantiles(levels, np.concatenate([bounds[:0:-1, 0], bounds[:, 1]]).T)

    def _reachable(self, calibration_weight: float, test_weight: float) -> FloatArray:
        """Return the coverages with finite bounds among those of `_COVERAGES`; at least two."""
        target = score_level(_COVERAGES, self._score.symmetric) * (calibration_weight + test_weight)
        reachable: FloatArray = _COVERAGES[target * (1 - RANK_TOLERANCE) <= calibration_weight]
        if reachable.size < 2:
            raise ValueError(
                f"a predictive distribution needs more calibration rows: {calibration_weight:g} beside a new "
                f"row that counts {test_weight:g} leave no quantile but the median with a finite bound."
            )
        return reachable
