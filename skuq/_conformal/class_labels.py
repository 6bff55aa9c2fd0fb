"""Classes of fitted classifiers, labels that are not among the training rows, and empty sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from skuq._typing import BoolArray
from skuq._warnings import warn_user
from skuq.exceptions import SmallSampleWarning
from skuq.prediction._child import name_of


def classes_of(estimator: Any, proba: np.ndarray | None = None) -> np.ndarray:
    """Return the classes of a fitted classifier, one per column of its probabilities."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise TypeError(
            f"`estimator` must have the attribute `classes_` after `fit`, but {name_of(estimator)} lacks it. "
            "The attribute labels the columns of the probabilities."
        )
    if proba is not None and len(classes) != proba.shape[1]:
        raise ValueError(
            f"`estimator` must predict one probability for each of its `classes_`, but {name_of(estimator)} "
            f"has {len(classes)} classes and {proba.shape[1]} columns of probabilities."
        )
    return np.asarray(classes)


def check_known_labels(is_known: BoolArray, labels: np.ndarray, classes: np.ndarray, estimator: Any) -> None:
    """Raise if no calibration row has a label that the classifier was trained on."""
    if not is_known.size or is_known.any():
        return
    label = labels[:1].tolist()[0]
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            f"`y` must contain classes of the frozen classifier, {classes[:10].tolist()}, got only other "
            f"labels, first {label!r} at row 0."
        )
    raise ValueError(
        "`cv` must hold out rows whose labels also occur in training rows, got only other labels, such as "
        f"{label!r}. Pass another `cv`, or more rows of each class."
    )


def warn_of_unknown_labels(coverage: float, unknown: float, n: float) -> None:
    """Warn that sets contain all classes because calibration labels are not among the training rows."""
    warn_user(
        f"sets contain all classes at the coverage {100 * coverage:g} %, because {unknown:g} of {n:g} "
        "calibration rows have labels without training rows. Use a lower coverage, or train on rows of more "
        "classes.",
        SmallSampleWarning,
    )


def fill_empty(sets: BoolArray, proba: Callable[[], np.ndarray]) -> BoolArray:
    """Add the most probable class to empty sets (n, K, k); ``proba`` is called only if a set is empty."""
    empty = ~sets.any(axis=1)
    if empty.any():
        row, level = np.nonzero(empty)
        sets[row, proba().argmax(axis=1)[row], level] = True
    return sets
