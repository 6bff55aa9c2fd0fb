"""The checked parameters of a conformal classifier, its training rows, and what its strategies share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skuq._typing import BoolArray, FloatArray
from skuq._validation import check_random_state
from skuq._warnings import warn_user
from skuq.classifiers._conformal.scores import ClassScore
from skuq.distributions._unreachable_levels import unreachable_level, warn_of_unreachable_level
from skuq.exceptions import SmallSampleWarning
from skuq.prediction._child import name_of

__all__ = [
    "BY_CLASS",
    "LabelledRows",
    "SetSettings",
    "SetStrategy",
    "check_known_labels",
    "classes_of",
    "warn_of_few_rows",
    "warn_of_unknown_labels",
]

BY_CLASS = "class"
"""Value of ``group_by`` for one guarantee a class."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The checked arguments of one ``fit``.

    Attributes
    ----------
    X : array-like, DataFrame or sparse matrix of n rows
        As it came.
    labels : ndarray of shape (n,)
        Class labels.
    sample_weight : ndarray of shape (n,) or None
        Number of repetitions of each row.
    fit_params : dict
        Keyword arguments of the wrapped classifier's ``fit``.
    groups : array-like of shape (n,) or None
        What the splitter is given.
    """

    X: Any
    labels: np.ndarray
    sample_weight: FloatArray | None
    fit_params: dict[str, Any]
    groups: Any

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def repetitions(self) -> FloatArray:
        """Number of observations that each row stands for, shape (n,)."""
        return np.ones(len(self)) if self.sample_weight is None else self.sample_weight


@dataclass(frozen=True, eq=False)
class SetSettings:
    """The parameters of one `ConformalClassifier`, checked, with the randomness of this fit drawn.

    Attributes
    ----------
    estimator : estimator
        Unfitted or frozen, as the user gave it; a strategy clones it with `seeded_clone`.
    score : ClassScore
        Score of ``method``.
    calibration_size : float or int
        Share or number of rows that calibrate, without ``cv``.
    group_by, rare_groups, min_group_size : object
        Groups with a guarantee for each.
    density_ratio : callable or None
        Density ratio of each row of X under covariate shift.
    allow_empty : bool
        Whether sets may be empty, else they contain the most probable class.
    n_jobs, verbose : object
        As in joblib.
    random_state : int, RandomState or None
        As the user gave it, for `seeded_clone`.
    split_seed, model_seed, score_seed : int
        Drawn from ``random_state`` once a fit: for held-out rows and folds, for the model, and for the
        random numbers of the calibration rows.
    """

    estimator: Any
    score: ClassScore
    calibration_size: float | int
    group_by: Callable[[Any], Any] | Hashable | None
    rare_groups: str
    min_group_size: int
    density_ratio: Callable[[Any], Any] | None
    allow_empty: bool
    n_jobs: int | None
    verbose: int
    random_state: Any
    split_seed: int
    model_seed: int
    score_seed: int

    def fill(self, sets: BoolArray, proba: Callable[[], np.ndarray]) -> BoolArray:
        """Add the most probable class to empty sets, shape (n, K, k), unless they are allowed.

        The probabilities are computed only if a set is empty.
        """
        empty = ~sets.any(axis=1)
        if not self.allow_empty and empty.any():
            row, level = np.nonzero(empty)
            sets[row, proba().argmax(axis=1)[row], level] = True
        return sets

    def uniform(self, n: int) -> FloatArray | None:
        """Return the random numbers of all n rows of ``fit``; None where the score needs none."""
        return check_random_state(self.score_seed).random_sample(n) if self.score.randomized else None


class SetStrategy(Protocol):
    """A fitted way to calibrate: on held-out rows, or across folds."""

    @property
    def estimator(self) -> Any:
        """The fitted classifier that predicts labels and probabilities."""

    @property
    def classes(self) -> np.ndarray:
        """Labels of the columns of its probabilities."""

    @property
    def settings(self) -> SetSettings:
        """Score and options."""

    @property
    def n_calibration(self) -> float:
        """Number of calibration rows, weights counted."""

    def model_input(self, X: Any) -> Any:
        """Return X as the classifier takes it."""

    def sets(self, X: Any, coverages: FloatArray, uniform: FloatArray | None) -> BoolArray:
        """Return the sets of each coverage, shape (n, K, k)."""


def classes_of(estimator: Any, proba: np.ndarray | None = None) -> np.ndarray:
    """Return the labels of the columns of a fitted classifier's probabilities, one for each."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise TypeError(
            f"`estimator` must have the attribute `classes_` once it is fitted, but {name_of(estimator)} has "
            "none, so that the columns of its probabilities have no labels."
        )
    if proba is not None and len(classes) != proba.shape[1]:
        raise ValueError(
            f"`estimator` must predict one probability for each of its `classes_`, but {name_of(estimator)} "
            f"has {len(classes)} classes and {proba.shape[1]} columns of probabilities."
        )
    return np.asarray(classes)


def check_known_labels(is_known: BoolArray, labels: np.ndarray, classes: np.ndarray, *, frozen: bool) -> None:
    """Raise if the classifier knows none of the labels that calibrate: each set would hold all classes."""
    if not is_known.size or is_known.any():
        return
    label = labels[:1].tolist()[0]
    if frozen:
        raise ValueError(
            f"`y` must hold labels of the frozen classifier, which has the classes {classes[:10].tolist()}, "
            f"got none of them but {label!r} at row 0."
        )
    raise ValueError(
        f"`cv` must hold out rows with labels that training rows have, got only others, such as {label!r}. "
        "Pass another `cv`, or more rows of each class."
    )


def warn_of_unknown_labels(coverage: float, unknown: float, n: float) -> None:
    """Give a warning that a coverage needs a rank among the rows whose labels no training row has."""
    warn_user(
        f"{100 * coverage:g} % is out of reach, as {unknown:g} of {n:g} calibration rows have labels that "
        "the training rows lack: sets contain all classes. Use a lower coverage, or train on rows of more "
        "classes.",
        SmallSampleWarning,
    )


def warn_of_few_rows(coverages: FloatArray, calibration_weight: float, test_weight: float = 1.0) -> None:
    """Give one warning if a coverage needs a rank beyond the number of calibration rows."""
    warn_of_unreachable_level(unreachable_level(coverages, "set", coverages, calibration_weight, test_weight))
