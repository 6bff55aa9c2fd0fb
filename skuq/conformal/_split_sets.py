"""Split conformal classification: a classifier is calibrated on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skuq._fitting.cross_fit import Split
from skuq._fitting.labels import codes_of
from skuq._fitting.training_data import TrainingData
from skuq._ranks import has_rank
from skuq._sklearn_compat import safe_indexing
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.conformal._basis import warn_of_unbounded_rows
from skuq.conformal._calibration_set import CalibrationScores
from skuq.conformal._class_labels import check_known_labels, classes_of, fill_empty, warn_of_unknown_labels
from skuq.conformal._class_scores import ClassScore, scores_of_labels
from skuq.conformal._fold_models import FoldModel, fit_held_out, warn_of_few_rows
from skuq.conformal._groups_and_shift import GroupsAndShift, WeightedRows
from skuq.prediction._predict_set import class_proba


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
