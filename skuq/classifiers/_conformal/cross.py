"""Cross-conformal classification (CV+): every row calibrates by its prediction from a model without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._sklearn_compat import count_rows, is_pairwise
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.classifiers._conformal.scores import ClassScore, scores_of_labels
from skuq.classifiers._conformal.settings import (
    LabelledRows,
    SetSettings,
    check_known_labels,
    classes_of,
    warn_of_few_rows,
    warn_of_unknown_labels,
)
from skuq.classifiers._labels import codes_of
from skuq.distributions._numerics.ranks import WeightedRanks, has_rank, rank_target
from skuq.prediction._cross_fit import Split, cross_fit
from skuq.prediction._predict_set import class_proba
from skuq.prediction._random import seeded_clone
from skuq.prediction._row_sets import columns_of_rows
from skuq.prediction._wrapped import fit_wrapped

__all__ = ["CrossSets", "fit_cross"]


def fit_cross(data: LabelledRows, settings: SetSettings, splits: list[Split]) -> CrossSets:
    """Fit one classifier per fold, and one on all rows.

    Each of the t tests of a row has weight 1/t, so that the row counts once; one that is never tested does
    not count.
    """
    estimator = seeded_clone(settings.estimator, settings.model_seed, settings.random_state)
    folds = cross_fit(
        estimator,
        data.X,
        data.labels,
        cv=splits,
        params=data.fit_params,
        n_jobs=settings.n_jobs,
        verbose=settings.verbose,
        predict=class_proba,
    )
    fit_wrapped(estimator, data.X, data.labels, **data.fit_params)
    pairwise = is_pairwise(estimator)
    uniform = settings.uniform(len(data))
    n_tests = np.bincount(np.concatenate(folds.test_rows), minlength=len(data))
    members, is_known = [], np.zeros(len(data), dtype=bool)
    for model, (train, test), proba in zip(folds.estimators, splits, folds.predictions, strict=True):
        classes = classes_of(model, proba)
        scores = settings.score.score(proba, None if uniform is None else uniform[test])
        weight = data.repetitions[test] / n_tests[test]
        ranks = None
        if weight.any():
            codes = codes_of(data.labels[test], classes)
            is_known[test[codes >= 0]] = True
            ranks = WeightedRanks(scores_of_labels(scores, codes), weight)
        members.append(FoldModel(model, classes, train if pairwise else None, ranks))
    calibrating = (n_tests > 0) & (data.repetitions > 0)
    n_calibration = float(data.repetitions[calibrating].sum())
    if not n_calibration:
        raise ValueError(
            "`sample_weight` must be positive for some of the rows that `cv` tests, got zeros for all of "
            "them."
        )
    classes = classes_of(estimator)
    check_known_labels(is_known[calibrating], data.labels[calibrating], classes, frozen=False)
    return CrossSets(estimator, classes, settings, tuple(members), n_calibration)


@dataclass(frozen=True, eq=False)
class FoldModel:
    """The classifier of one fold, and the ranks of the rows that it was not trained on.

    Attributes
    ----------
    estimator : estimator
        Fitted without the rows of the fold.
    classes : ndarray
        Labels of the columns of its probabilities; those of other folds may have more.
    columns : ndarray or None
        Columns of X that belong to its training rows, where X is a matrix between rows.
    ranks : WeightedRanks or None
        Scores of the rows of the fold; None where none of them has any weight.
    """

    estimator: Any
    classes: np.ndarray
    columns: IntArray | None
    ranks: WeightedRanks | None

    @property
    def weight_of_unknown(self) -> float:
        """Weight of the fold's rows whose labels its training rows lack."""
        if self.ranks is None or self.ranks.weights is None:
            return 0.0
        return float(self.ranks.weights[np.isinf(self.ranks.values)].sum())

    def weight_below(
        self, X: Any, classes: np.ndarray, score: ClassScore, uniform: FloatArray | None
    ) -> FloatArray:
        """Return the weight of the fold's scores below that of each class of new rows, shape (n, K)."""
        if self.ranks is None:
            return np.zeros((count_rows(X), len(classes)))
        proba = class_proba(self.estimator, columns_of_rows(X, self.columns))
        # a class that the fold lacks has the score infinity, as its labels among the calibration rows
        scores = np.full((len(proba), len(classes)), np.inf)
        scores[:, codes_of(self.classes, classes)] = score.score(proba, uniform)
        below: IntArray = np.searchsorted(self.ranks.values, scores, side="left")
        return self.ranks.weight_of(below)


@dataclass(frozen=True, eq=False)
class CrossSets:
    """The classifiers of all folds, and the scores of the calibration rows.

    Attributes
    ----------
    estimator : estimator
        Fitted on all rows.
    classes : ndarray of shape (K,)
        Labels of the columns of its probabilities.
    settings : SetSettings
        Score and options.
    members : tuple of FoldModel
        One for each fold.
    n_calibration : float
        Number of calibration rows, weights counted.
    """

    estimator: Any
    classes: np.ndarray
    settings: SetSettings
    members: tuple[FoldModel, ...]
    n_calibration: float

    def model_input(self, X: Any) -> Any:
        """Return X."""
        return X

    def sets(self, X: Any, coverages: FloatArray, uniform: FloatArray | None) -> BoolArray:
        """Return the sets of each coverage, shape (n, K, k).

        A class is in the set if its scores, one a fold, exceed calibration scores of their folds with a
        weight of less than c (n + 1) (Romano, Sesia and Candès 2020, section 2.3).
        """
        score = self.settings.score
        below = sum(member.weight_below(X, self.classes, score, uniform) for member in self.members)
        targets = rank_target(coverages * (self.n_calibration + 1), self.n_calibration)
        warn_of_few_rows(coverages, self.n_calibration)
        unknown = sum(member.weight_of_unknown for member in self.members)
        # every class is in the set if the scores of all rows with known labels are not enough
        all_classes = (self.n_calibration - unknown < targets) & has_rank(coverages, self.n_calibration, 1.0)
        if all_classes.any():
            warn_of_unknown_labels(coverages[all_classes].max(), unknown, self.n_calibration)
        sets = np.asarray(np.asarray(below)[..., np.newaxis] < targets)
        return self.settings.fill(sets, lambda: class_proba(self.estimator, X))
