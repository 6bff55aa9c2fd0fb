"""Cross-conformal classification (CV+). The score of a row comes from a model fitted to other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._compat import count_rows
from skuq._fitting.cross_fit import Split
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.training_data import TrainingData, codes_of
from skuq._numeric import WeightedRanks, has_rank, rank_target
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.conformal._base import (
    FoldModel,
    check_tested_weight,
    fit_folds,
    fold_models,
    warn_of_few_rows,
)
from skuq.conformal._scores import (
    ClassScore,
    check_known_labels,
    classes_of,
    fill_empty,
    scores_of_labels,
    warn_of_unknown_labels,
)
from skuq.prediction._predict_set import class_proba


def fit_cross_sets(
    estimator: Any,
    data: TrainingData,
    splits: list[Split],
    score: ClassScore,
    uniform: FloatArray | None,
    *,
    allow_empty: bool,
    n_jobs: int | None,
    verbose: int,
) -> CrossSets:
    """Fit one classifier per fold, and another classifier to all rows."""
    folds = fit_folds(estimator, data, splits, n_jobs=n_jobs, verbose=verbose, predict=class_proba)
    fit_wrapped(estimator, data.X, data.target, **data.fit_params)
    n_tests = np.bincount(np.concatenate(folds.test_rows), minlength=len(data))
    members, is_known = [], np.zeros(len(data), dtype=bool)
    for model, test, proba in zip(fold_models(folds), folds.test_rows, folds.predictions, strict=True):
        classes = classes_of(model.estimator, proba)
        scores = score.score(proba, None if uniform is None else uniform[test])
        weight = data.repetitions[test] / n_tests[test]
        ranks = None
        if weight.any():
            codes = codes_of(data.y[test], classes)
            is_known[test[codes >= 0]] = True
            ranks = WeightedRanks(scores_of_labels(scores, codes), weight)
        members.append(RankedFold(model, classes, ranks))
    calibrating = (n_tests > 0) & (data.repetitions > 0)
    n_calibration = float(check_tested_weight(data.repetitions[calibrating]).sum())
    classes = classes_of(estimator)
    check_known_labels(is_known[calibrating], data.y[calibrating], classes, estimator)
    return CrossSets(FoldModel(estimator), classes, score, allow_empty, tuple(members), n_calibration)


@dataclass(frozen=True, eq=False)
class RankedFold:
    """Classifier of one fold, and the scores of the test rows of this fold."""

    model: FoldModel
    classes: np.ndarray  # Classes of the columns, which may differ between folds.
    ranks: WeightedRanks | None  # Scores of the test rows, or None if all their weights are 0.

    @property
    def weight_of_unknown(self) -> float:
        if self.ranks is None or self.ranks.weights is None:
            return 0.0
        return float(self.ranks.weights[np.isinf(self.ranks.values)].sum())

    def weight_below(
        self, X: Any, classes: np.ndarray, score: ClassScore, uniform: FloatArray | None
    ) -> FloatArray:
        """Return the weight of the scores below the score of each class, shape (n, K)."""
        if self.ranks is None:
            return np.zeros((count_rows(X), len(classes)))
        proba = class_proba(self.model.estimator, self.model.model_input(X))
        # The score of a class without training rows is infinite, for new rows and for calibration rows.
        scores = np.full((len(proba), len(classes)), np.inf)
        scores[:, codes_of(self.classes, classes)] = score.score(proba, uniform)
        below: IntArray = np.searchsorted(self.ranks.values, scores, side="left")
        return self.ranks.weight_of(below)


@dataclass(frozen=True, eq=False)
class CrossSets:
    """Classifiers of all folds, and the scores of the calibration rows."""

    model: FoldModel  # Classifier that is fitted to all rows.
    classes: np.ndarray
    score: ClassScore
    allow_empty: bool
    members: tuple[RankedFold, ...]  # Classifiers of the folds.
    n_calibration: float  # Number of calibration rows, or the sum of their weights.

    def sets(self, X: Any, coverages: FloatArray, uniform: FloatArray | None) -> BoolArray:
        """Return the sets of each coverage, shape (n, K, k) (Romano, Sesia and Candès 2020, section 2.3).

        A class is in the set if the calibration scores below the scores of the class have a total weight of
        less than c (n + 1), where c is the coverage.
        """
        below = sum(member.weight_below(X, self.classes, self.score, uniform) for member in self.members)
        targets = rank_target(coverages * (self.n_calibration + 1), self.n_calibration)
        warn_of_few_rows("set", coverages, coverages, self.n_calibration)
        unknown = sum(member.weight_of_unknown for member in self.members)
        # Each set contains all classes if the total weight of the rows with known labels is too small.
        all_classes = (self.n_calibration - unknown < targets) & has_rank(coverages, self.n_calibration, 1.0)
        if all_classes.any():
            warn_of_unknown_labels(coverages[all_classes].max(), unknown, self.n_calibration)
        sets = np.asarray(np.asarray(below)[..., np.newaxis] < targets)
        return sets if self.allow_empty else fill_empty(sets, lambda: class_proba(self.model.estimator, X))
