"""Split conformal classification: one classifier, calibrated on rows held out from it."""

from __future__ import annotations

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
    check_known_labels,
    classes_of,
    warn_of_few_rows,
    warn_of_unknown_labels,
)
from skuq.classifiers._labels import codes_of
from skuq.distributions._numerics.ranks import has_rank
from skuq.prediction._cross_fit import Split, cross_fit
from skuq.prediction._predict_set import class_proba
from skuq.prediction._random import seeded_clone
from skuq.prediction._row_sets import columns_of_rows
from skuq.recalibration._calibration_set import (
    CalibrationScores,
    WeightedRows,
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
    classes = classes_of(fitted, proba)
    labels, counts = data.labels[calibrating], data.repetitions[calibrating] > 0
    codes = codes_of(labels, classes)
    known = codes >= 0
    check_known_labels(known[counts], labels[counts], classes, frozen=split is None)
    if settings.group_by == BY_CLASS:
        # a label without training rows is in no set, and is no row of any other class
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
) -> WeightedRows:
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
    return WeightedRows(n, test_weight, groups)


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
        groups = self._groups_of(X)
        weight = np.stack([self.calibration.weight_for(rows) for rows in groups], axis=1)
        test_weight = groups[0].test_weight[..., np.newaxis]
        sets = np.empty((len(coverages), *scores.shape), dtype=bool)
        of_unknown = []
        for inside, coverage in zip(sets, coverages.tolist(), strict=True):
            quantile = np.stack([self.calibration.quantile(rows, coverage)[0] for rows in groups], axis=1)
            np.less_equal(scores, quantile, out=inside)
            if (np.isinf(quantile) & has_rank(coverage, weight, test_weight)).any():
                of_unknown.append(coverage)
        least = np.unravel_index(np.argmin(weight / test_weight), weight.shape)
        warn_of_few_rows(coverages, weight[least], np.broadcast_to(test_weight, weight.shape)[least])
        if of_unknown:
            unknown = self.calibration.repetitions[np.isinf(self.calibration.scores[0])].sum()
            warn_of_unknown_labels(max(of_unknown), unknown, self.n_calibration)
        return self.settings.fill(np.moveaxis(sets, 0, -1), lambda: proba)

    def _groups_of(self, X: Any) -> list[WeightedRows]:
        """Return the rows as members of the group that calibrates each column of the scores, or all columns.

        Where all rows have the same quantiles, these are of one row.
        """
        rows = _rows(X, self.settings)
        if rows.labels is None and not rows.test_weight.ndim:
            rows = replace(rows, n=1)
        if self.settings.group_by != BY_CLASS:
            return [rows]
        return [replace(rows, labels=label) for label in self.classes[:, np.newaxis]]
