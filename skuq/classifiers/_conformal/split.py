"""Split conformal classification: one classifier, calibrated on rows held out from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skuq._sklearn_compat import count_rows, is_pairwise, safe_indexing
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.classifiers._conformal.scores import scores_of_labels
from skuq.classifiers._conformal.settings import (
    BY_CLASS,
    LabelledRows,
    SetSettings,
    classes_of,
    warn_of_few_rows,
)
from skuq.classifiers._labels import codes_of
from skuq.prediction._cross_fit import Split, cross_fit
from skuq.prediction._predict_set import class_proba
from skuq.prediction._random import seeded_clone
from skuq.prediction._row_sets import columns_of_rows
from skuq.recalibration._calibration_set import (
    CalibrationScores,
    PredictedRows,
    density_ratio_of,
    group_labels,
)

__all__ = ["SplitSets", "fit_split"]


def fit_split(data: LabelledRows, settings: SetSettings, split: Split | None) -> SplitSets:
    """Fit one classifier on the training rows and calibrate it on the others; all rows if it is frozen."""
    if split is None:
        fitted, calibrating, columns = settings.estimator, np.arange(len(data)), None
        proba = class_proba(fitted, data.X)
    else:
        train, calibrating = split
        columns = train if is_pairwise(settings.estimator) else None
        result = cross_fit(
            seeded_clone(settings.estimator, settings.model_seed, settings.random_state),
            data.X,
            data.labels,
            cv=[split],
            params=data.fit_params,
            verbose=settings.verbose,
            predict=class_proba,
        )
        fitted, proba = result.estimators[0], result.predictions[0]
    classes = classes_of(fitted)
    codes = codes_of(data.labels[calibrating], classes)
    if split is None and (codes < 0).all():  # each would be a miss, and each set hold all classes
        raise ValueError(
            f"`y` must hold labels of the frozen classifier, which has the classes {classes[:10].tolist()}, "
            f"got none of them but {data.labels[:1].tolist()[0]!r} at row 0."
        )
    if settings.group_by == BY_CLASS:
        # a label without training rows is in no set, and is no row of any other class
        known = codes >= 0
        calibrating, codes, proba = calibrating[known], codes[known], proba[known]
    uniform = settings.uniform(len(data))
    scores = settings.score.score(proba, None if uniform is None else uniform[calibrating])
    rows = _rows(safe_indexing(data.X, calibrating), settings, classes[codes], predicted=False)
    calibration = CalibrationScores(
        scores_of_labels(scores, codes)[np.newaxis],
        data.repetitions[calibrating],
        np.broadcast_to(rows.test_weight, rows.n),
        rows.labels,
        settings.rare_groups,
        settings.min_group_size,
    )
    calibration.check()
    if settings.group_by == BY_CLASS and calibration.groups is not None:
        list(calibration.groups.partition(classes))  # raises if a class has too few calibration rows
    return SplitSets(fitted, classes, settings, calibration, calibrating, columns)


def _rows(
    X: Any, settings: SetSettings, labels: np.ndarray | None = None, *, predicted: bool = True
) -> PredictedRows:
    """Return rows of X with their density ratio and group, which is the label for class-conditional sets."""
    n = count_rows(X)
    test_weight = np.ones(())
    if settings.density_ratio is not None:
        test_weight = density_ratio_of(settings.density_ratio, X, n, positive=predicted)
    groups = None
    if settings.group_by == BY_CLASS:
        groups = labels
    elif settings.group_by is not None:
        groups = group_labels(settings.group_by, X, n)
    return PredictedRows(None, n, test_weight, groups, np.empty(0), np.ones(n))


@dataclass(frozen=True, eq=False)
class SplitSets:
    """A fitted classifier and the rows that calibrate it.

    Attributes
    ----------
    estimator : estimator
        Fitted without the calibration rows.
    classes : ndarray of shape (K,)
        Labels of the columns of its probabilities.
    settings : SetSettings
        Score and options.
    calibration : CalibrationScores
        Scores of the calibration rows.
    calibration_rows : ndarray
        Numbers of the rows of ``fit`` that calibrate.
    columns : ndarray or None
        Columns of X that belong to the training rows, where X is a matrix between rows (a precomputed
        kernel).
    """

    estimator: Any
    classes: np.ndarray
    settings: SetSettings
    calibration: CalibrationScores
    calibration_rows: IntArray
    columns: IntArray | None

    @property
    def n_calibration(self) -> float:
        """Number of calibration rows, weights counted."""
        return float(self.calibration.repetitions.sum())

    def model_input(self, X: Any) -> Any:
        """Return X, or of a precomputed kernel the columns of the training rows."""
        return columns_of_rows(X, self.columns)

    def sets(self, X: Any, coverages: FloatArray, uniform: FloatArray | None) -> BoolArray:
        """Return the sets of each coverage, shape (n, K, k): the classes with at most the score quantile."""
        proba = class_proba(self.estimator, self.model_input(X))
        scores = self.settings.score.score(proba, uniform)
        rows = _rows(X, self.settings)
        sets = np.empty((len(coverages), *scores.shape), dtype=bool)
        least = np.inf, 1.0
        for columns, of_columns in self._by_group(rows):
            for inside, coverage in zip(sets, coverages.tolist(), strict=True):
                quantile = self.calibration.quantile(of_columns, coverage)[0]
                inside[:, columns] = scores[:, columns] <= quantile[:, np.newaxis]
            least = min(least, self._least_calibrated(of_columns), key=lambda pair: pair[0] / pair[1])
        warn_of_few_rows(coverages, *least)
        return self.settings.fill(np.moveaxis(sets, 0, -1), lambda: proba)

    def _by_group(self, rows: PredictedRows) -> Iterator[tuple[slice, PredictedRows]]:
        """Yield columns of the scores, and the rows as members of the group that calibrates these columns."""
        if self.settings.group_by != BY_CLASS:
            yield slice(None), rows
            return
        for column, label in enumerate(self.classes):
            yield slice(column, column + 1), replace(rows, labels=np.full(rows.n, label))

    def _least_calibrated(self, rows: PredictedRows) -> tuple[float, float]:
        """Return the weights of the calibration rows and of the new row where their ratio is smallest."""
        weight = self.calibration.weight_for(rows)
        test_weight = np.broadcast_to(rows.test_weight, rows.n)
        row = int(np.argmin(weight / test_weight))
        return float(weight[row]), float(test_weight[row])
