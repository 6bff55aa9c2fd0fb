"""Prediction sets of a classifier: scores of classes, and their calibration on held-out rows or on folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from skuq._compat import count_rows, safe_indexing, warn_user
from skuq._fitting.cross_fit import Split
from skuq._fitting.fit_wrapped import fit_wrapped
from skuq._fitting.training_data import TrainingData, codes_of
from skuq._numeric import WeightedRanks, has_rank, rank_target
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_integer, check_number, check_option
from skuq.conformal._base import (
    FoldModel,
    check_tested_weight,
    fit_folds,
    fit_held_out,
    fold_models,
    warn_of_few_rows,
)
from skuq.conformal._basis import warn_of_unbounded_rows
from skuq.conformal._split import CalibrationRows, GroupedScores, GroupsAndShift
from skuq.exceptions import SmallSampleWarning
from skuq.prediction._predict_set import class_proba
from skuq.prediction._register import name_of


@dataclass(frozen=True)
class LACScore:
    """The score is 1 minus the probability of the class (Sadinle, Lei and Wasserman 2019)."""

    randomized: bool = False

    def score(self, proba: np.ndarray, uniform: FloatArray | None) -> FloatArray:
        return np.asarray(1 - proba.astype(np.float64, copy=False))


@dataclass(frozen=True)
class APSScore:
    """Sum of the probabilities of all more probable classes (Romano, Sesia and Candès 2020).

    If randomized, the sum also includes a random share of the probability of the class. The share is
    uniformly distributed on [0, 1]. For each rank beyond ``k_reg``, the penalty of RAPS is added
    (Angelopoulos, Bates, Jordan and Malik 2021).
    """

    randomized: bool
    penalty: float
    k_reg: int

    def score(self, proba: np.ndarray, uniform: FloatArray | None) -> FloatArray:
        # A stable sort ranks equally probable classes in the order of the columns.
        order = np.argsort(-proba, axis=1, kind="stable")
        descending = np.take_along_axis(proba, order, axis=1)
        by_rank = np.zeros(proba.shape)
        np.cumsum(descending[:, :-1], axis=1, dtype=np.float64, out=by_rank[:, 1:])
        if uniform is not None:
            by_rank += uniform[:, np.newaxis] * descending
        if self.penalty:
            by_rank += self.penalty * np.maximum(np.arange(1, proba.shape[1] + 1) - self.k_reg, 0)
        scores = np.empty(proba.shape)
        np.put_along_axis(scores, order, by_rank, axis=1)
        return scores


ClassScore = LACScore | APSScore
"""Nonconformity score of classes. Prediction sets contain the classes with small scores.

The method ``score`` returns the scores, shape (n, K). Only a randomized score uses ``uniform``, shape (n,).
"""


def select_score(method: Any, randomized: Any, penalty: Any, k_reg: Any) -> ClassScore:
    """Check the parameters of a `ConformalClassifier` and return its score."""
    check_option(method, "method", ("lac", "aps"))
    check_option(randomized, "randomized", (True, False))
    number, ranks = check_number(penalty, "penalty"), check_integer(k_reg, "k_reg", minimum=0)
    if number < 0:
        raise ValueError(f"`penalty` must be non-negative, got {number:g}.")
    if method == "aps":
        return APSScore(bool(randomized), number, ranks)
    for name, value in (("randomized", randomized), ("penalty", number), ("k_reg", ranks)):
        if value:
            raise ValueError(
                f"`{name}` must be {type(value)(0)!r} with method 'lac', got {value!r}. Use method 'aps'."
            )
    return LACScore()


def scores_of_labels(scores: FloatArray, codes: IntArray) -> FloatArray:
    """Return the score of the label of each row, shape (n,).

    An unknown label has the code -1 and an infinite score.
    """
    of_label = scores[np.arange(len(scores)), codes]
    return np.where(codes < 0, np.inf, of_label)


def classes_of(estimator: Any, proba: np.ndarray | None = None) -> np.ndarray:
    """Return the classes of a fitted classifier, one per column of its probabilities."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise TypeError(
            "`estimator` must have the attribute `classes_` after `fit`, with the class of each column of "
            f"the probabilities, but {name_of(estimator)} does not have it."
        )
    if proba is not None and len(classes) != proba.shape[1]:
        raise ValueError(
            f"`estimator` must predict one probability for each of its `classes_`, but {name_of(estimator)} "
            f"has {len(classes)} classes and {proba.shape[1]} columns of probabilities."
        )
    return np.asarray(classes)


def check_known_labels(is_known: BoolArray, labels: np.ndarray, classes: np.ndarray, estimator: Any) -> None:
    """Raise an error if no calibration row has a label that also occurs in the training rows."""
    if not is_known.size or is_known.any():
        return
    label = labels[:1].tolist()[0]
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            f"`y` must contain classes of the frozen classifier, such as {classes[:10].tolist()}. Got only "
            f"other labels, such as {label!r} at row 0."
        )
    raise ValueError(
        "`cv` must hold out rows with labels that also occur in training rows. Got only other labels, such "
        f"as {label!r}. Pass another `cv`, or more rows of each class."
    )


def warn_of_unknown_labels(coverage: float, unknown: float, n: float) -> None:
    """Warn that sets contain all classes.

    The reason is that some calibration labels do not occur in the training rows.
    """
    warn_user(
        f"at the coverage {100 * coverage:g} %, the sets contain all classes. {unknown:g} of {n:g} "
        f"calibration rows have a label that does not occur in the training rows. Use a lower coverage, or "
        f"train on rows of "
        "more classes.",
        SmallSampleWarning,
    )


def fill_empty(sets: BoolArray, proba: Callable[[], np.ndarray]) -> BoolArray:
    """Add the most probable class to empty sets.

    The function ``proba`` is called only if there are empty sets.
    """
    empty = ~sets.any(axis=1)
    if empty.any():
        row, level = np.nonzero(empty)
        sets[row, proba().argmax(axis=1)[row], level] = True
    return sets


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
    rows = options.rows(safe_indexing(data.X, calibrating), predicted=False)
    if by_class:
        rows = replace(rows, labels=classes[codes])
    calibration = CalibrationRows(
        scores_of_labels(scores, codes)[np.newaxis], rows, data.repetitions[calibrating], options
    )
    calibration.check()
    sets = SplitSets(model, classes, calibrating, score, options, by_class, allow_empty, calibration)
    sets.of_classes()  # raises an error if a class has too few calibration rows
    return sets


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
    calibration: CalibrationRows

    @property
    def n_calibration(self) -> float:
        return float(self.calibration.repetitions.sum())

    def of_classes(self) -> list[Any]:
        """Return the ranked scores that calibrate each class, or one element for all classes."""
        ranked = self.calibration.ranked
        if not (self.by_class and isinstance(ranked, GroupedScores)):
            return [ranked]
        return [ranked.of_label(label) for label in self.classes.tolist()]

    def sets(self, X: Any, coverages: FloatArray, uniform: FloatArray | None) -> BoolArray:
        """Return the sets of each coverage, shape (n, K, k).

        The sets contain the classes whose scores are at most the quantile.
        """
        proba = class_proba(self.model.estimator, self.model.model_input(X))
        scores = self.score.score(proba, uniform)
        rows, of_classes = self.options.rows(X), self.of_classes()
        if rows.labels is None and rows.functions is None and not rows.test_weight.ndim:
            rows = replace(rows, n=1)  # All rows have the same quantile.
        weight = np.stack([ranked.weight_for(rows) for ranked in of_classes], axis=1)
        test_weight = rows.test_weight[..., np.newaxis]
        sets = np.empty((len(coverages), *scores.shape), dtype=bool)
        of_unknown, unbounded = [], np.zeros(len(weight), dtype=bool)
        for inside, coverage in zip(sets, coverages.tolist(), strict=True):
            quantile = np.stack([ranked.quantile(rows, coverage)[0] for ranked in of_classes], axis=1)
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
        if self.ranks is None:
            return 0.0
        known = np.searchsorted(self.ranks.values, [np.inf])
        return self.ranks.total - float(self.ranks.weight_of(known)[0])

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
