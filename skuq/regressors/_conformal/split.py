"""Split conformal prediction: one model, calibrated on rows held out from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ShuffleSplit

from skuq._sklearn_compat import count_rows, is_pairwise
from skuq._typing import FloatArray, IntArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    as_float_array,
    check_finite,
    check_non_negative,
    check_positive,
    check_rows,
    effective_rows,
)
from skuq.distributions import Distribution, Quantiles, concat
from skuq.distributions._numerics.ranks import RANK_TOLERANCE
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._cross_fit import cross_fit, resolve_cv, split_rows
from skuq.prediction._point import point_predict
from skuq.prediction._row_sets import row_mask
from skuq.prediction._rules.quantile_estimators import find_quantile_loss
from skuq.recalibration._mondrian import read_labels
from skuq.regressors._conformal.adaptive import AdaptiveLevels, rank_probability
from skuq.regressors._conformal.calibration_set import Calibration, Interval, Point, Prediction, Rows, Scaled
from skuq.regressors._conformal.settings import ConformalSettings, warn_of_few_rows
from skuq.regressors._fit_inputs import TrainingData
from skuq.regressors._progress import Progress
from skuq.regressors._random import seeded_clone

__all__ = ["SplitConformal", "fit_split"]

_COVERAGES = np.sort(np.append(np.arange(0, 100, 2) / 100, [0.95, 0.99, 0.998]))
"""Of the intervals through which the distribution of "cqr" goes; those of quantiles in whole per cent."""


def fit_split(data: TrainingData, settings: ConformalSettings, progress: Progress) -> SplitConformal:
    """Fit one model on the training rows and calibrate it on the others.

    A FrozenEstimator is not fitted, and all rows calibrate.
    """
    _check_estimator(settings)
    effective_rows(data.sample_weight, len(data))  # ranks need repetitions, so relative weights raise
    if isinstance(settings.estimator, FrozenEstimator):
        if settings.cv is not None:
            raise ValueError(
                "`cv` must be None with a FrozenEstimator: it is not fitted, so that all rows given to `fit` "
                "calibrate."
            )
        fitted, calibrating, columns = settings.estimator, np.arange(len(data)), None
        predicted = _raw_prediction(settings)(fitted, data.X)
    else:
        train, calibrating = split = _one_split(data, settings)
        columns = train if is_pairwise(settings.estimator) else None
        result = cross_fit(
            seeded_clone(settings.estimator, settings.model_seed, settings.random_state),
            data.X,
            data.target,
            cv=[split],
            params=data.fit_params,
            verbose=settings.verbose,
            predict=_raw_prediction(settings),
            on_fold=progress.reporter("model"),
        )
        fitted, predicted = result.estimators[0], result.predictions[0]
    held_out = data.take(calibrating)
    conformal = SplitConformal(fitted, settings, calibrating, columns)
    conformal.add(held_out.X, _wrap(predicted, settings), held_out.y, held_out.sample_weight)
    conformal.check_groups()
    progress.done("calibration")
    return conformal


def _check_estimator(settings: ConformalSettings) -> None:
    if settings.method == "split" or supports_dist(settings.estimator):
        return
    name = type(settings.estimator).__name__
    quantiles = settings.method == "cqr" and find_quantile_loss(settings.estimator) is not None
    wrapper = "MultiQuantileRegressor" if quantiles else "UncertaintyRegressor"
    raise NotProbabilisticError(
        f"`method` {settings.method!r} needs an estimator that gives a predictive distribution, and {name} "
        f"gives none. Wrap it: ConformalRegressor({wrapper}({name}(...)), {settings.method!r}), or use "
        "method 'split'."
    )


def _one_split(data: TrainingData, settings: ConformalSettings) -> tuple[IntArray, IntArray]:
    """Return the rows that train and those that calibrate, the latter in their order."""
    if settings.cv is None:
        held_out = _n_held_out(settings.calibration_size, len(data))
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
        train = np.sort(train)  # for models that care about the order of rows
    shared = np.flatnonzero(row_mask(train, len(data)) & row_mask(test, len(data)))
    if shared.size:
        raise ValueError(
            f"`cv` must keep training and calibration rows apart, but row {shared[0]} is among both."
        )
    return train, np.sort(test)


def _n_held_out(size: float | int, n: int) -> int:
    """Return the number of rows that calibrate, at least one and not all."""
    if isinstance(size, float):
        return min(max(int(np.ceil(size * n)), 1), n - 1)
    if size >= n:
        raise ValueError(
            f"`calibration_size` must leave rows to train on, got {size} of {n} rows. Use fewer, or pass "
            "a FrozenEstimator, for which all rows calibrate."
        )
    return size


def _raw_prediction(settings: ConformalSettings) -> Any:
    return point_predict if settings.method == "split" else predict_dist


def _wrap(predicted: Any, settings: ConformalSettings) -> Prediction:
    if settings.method == "split":
        return Point(predicted)
    return Interval(predicted) if settings.method == "cqr" else Scaled.of(predicted)


class SplitConformal:
    """A fitted model and the rows that calibrate it; more of them may be observed later.

    Parameters
    ----------
    estimator : estimator
        Fitted on other rows.
    settings : ConformalSettings
        Method and options.
    calibration_rows : ndarray
        Numbers of the rows of ``fit`` that calibrate.
    columns : ndarray or None
        Columns of X that the model knows, where X is a matrix between rows (a precomputed kernel).
    """

    def __init__(
        self,
        estimator: Any,
        settings: ConformalSettings,
        calibration_rows: IntArray,
        columns: IntArray | None,
    ) -> None:
        self.estimator = estimator
        self.calibration_rows = calibration_rows
        self._settings = settings
        self._columns = columns
        self._parts: list[Rows] = []
        self._calibrations: dict[float, Calibration] = {}
        self._levels = AdaptiveLevels(settings.gamma, settings.symmetric)

    # ------------------------------------------------------------------------------ calibration

    def add(self, X: Any, prediction: Prediction, y: FloatArray, weight: FloatArray | None) -> None:
        """Add rows to the calibration set, after comparing them with it."""
        self._parts.append(self._rows(X, prediction, y, weight))
        try:
            self._calibration()
        except ValueError:  # what cannot be scored is refused, and nothing has changed
            self._parts.pop()
            raise

    def observe(self, X: Any, y: FloatArray, weight: FloatArray | None) -> None:
        """Learn from rows that were predicted together, as things stood."""
        effective_rows(weight, len(y))
        self.add(X, self._predict(X), y, weight)

    def _calibration(self, coverage: float = DEFAULT_COVERAGE) -> Calibration:
        """Return the rows that calibrate a coverage, up to date; the same for all but with "cqr"."""
        key = coverage if self._settings.method == "cqr" else DEFAULT_COVERAGE
        calibration = self._calibrations.setdefault(key, Calibration(key, self._settings))
        calibration.extend(self._parts)
        return calibration

    @property
    def n_calibration(self) -> float:
        """Number of rows that calibrate now, weights counted."""
        return self._calibration().n_rows

    def check_groups(self) -> None:
        """Raise where a category has too few rows."""
        _ = self._calibration().present

    def _rows(
        self, X: Any, prediction: Prediction, y: FloatArray | None = None, weight: FloatArray | None = None
    ) -> Rows:
        """Return rows of X with all that is known of them."""
        settings, n = self._settings, count_rows(X)
        ratio = np.ones(())
        if settings.density_ratio is not None:
            ratio = check_ratio(settings.density_ratio(X), n, positive=bool(self._parts))
        labels = None if settings.group_by is None else group_labels(settings.group_by, X, n)
        return Rows(prediction, n, ratio, labels, np.empty(0) if y is None else y, weight)

    # -------------------------------------------------------------------------------- prediction

    def _predict(self, X: Any) -> Prediction:
        return _wrap(_raw_prediction(self._settings)(self.estimator, self._known(X)), self._settings)

    def point(self, X: Any) -> FloatArray:
        """Return the model's own point prediction, shape (n,)."""
        return point_predict(self.estimator, self._known(X))

    def _known(self, X: Any) -> Any:
        """Return X as the model takes it."""
        return X if self._columns is None else np.asarray(X)[:, self._columns]

    def interval(self, X: Any, coverages: FloatArray) -> FloatArray:
        """Return the intervals of each coverage, shape (n, 2, k)."""
        rows = self._rows(X, self._predict(X))
        out = np.empty((len(coverages), 2, rows.n))
        for bounds, coverage in zip(out, coverages.tolist(), strict=True):
            calibration = self._calibration(coverage)
            level = self._levels.miscoverage(coverage, calibration.observed)
            band = rows.prediction.band(coverage)
            for mine, quantiles in calibration.present.quantiles(rows):
                bounds[0, mine], bounds[1, mine] = quantiles.bounds(band.take(mine), rows.unseen(mine), level)
        if np.isinf(out).any():
            known, unseen = self._scarcest(rows)
            warn_of_few_rows(coverages, rank_probability(coverages, self._settings.symmetric), known, unseen)
        return out.transpose(2, 1, 0)

    def _scarcest(self, rows: Rows) -> tuple[float, float]:
        """Return the weight of the calibration rows and of a new row where they are fewest beside it."""
        present = self._calibration().present
        pairs = [
            (quantiles.total_weight, float(rows.unseen(mine).max()))
            for mine, quantiles in present.quantiles(rows)
        ]
        return min(pairs, key=lambda pair: pair[0] / pair[1])

    def dist(self, X: Any) -> Distribution:
        """Return the predictive distributions, without regard to the levels that observed rows have moved."""
        rows = self._rows(X, self._predict(X))
        if self._settings.method == "cqr":
            return self._through_intervals(rows)
        return self._calibration().present.predictive(rows)

    def _through_intervals(self, rows: Rows) -> Quantiles:
        """Return the distributions through the bounds of many coverages, monotone where bounds cross."""
        present = self._calibration().present
        parts = [part.prediction.dist for part in self._parts if isinstance(part.prediction, Interval)]
        n_present = present.weight.size
        y = np.concatenate([part.y for part in self._parts])[-n_present:]
        calibrating = Interval(concat(parts)[-n_present:])
        coverages = self._reachable(*self._scarcest(rows))
        values = np.empty((len(coverages), 2, rows.n))
        for bounds, coverage in zip(values, coverages.tolist(), strict=True):
            band = rows.prediction.band(coverage)
            for mine, quantiles in present.rescored(calibrating.scores(y, coverage)).quantiles(rows):
                bounds[0, mine], bounds[1, mine] = quantiles.bounds(
                    band.take(mine), rows.unseen(mine), 1 - coverage
                )
        # the innermost interval, of coverage 0, is a point: the median
        levels = np.concatenate([(1 - coverages[:0:-1]) / 2, [0.5], (1 + coverages[1:]) / 2])
        return Quantiles(levels, np.concatenate([values[:0:-1, 0], values[:, 1]]).T)

    def _reachable(self, known: float, unseen: float) -> FloatArray:
        """Return the coverages with finite bounds among those of `_COVERAGES`; at least two."""
        needed = rank_probability(_COVERAGES, self._settings.symmetric) * (known + unseen)
        reachable: FloatArray = _COVERAGES[needed * (1 - RANK_TOLERANCE) <= known]
        if reachable.size < 2:
            raise ValueError(
                f"a predictive distribution needs more calibration rows: {known:g} beside a new row that "
                f"counts {unseen:g} leave no quantile but the median with a finite bound."
            )
        return reachable


def check_ratio(ratio: Any, n: int, *, positive: bool) -> FloatArray:
    """Return what ``density_ratio`` gave for n rows; those to be predicted must be possible."""
    checked = check_rows(as_float_array(ratio, "density_ratio"), "density_ratio", n)
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
    # as objects, so that numbers and words stay what they are when later rows join
    return read_labels(labels, n).astype(object)
