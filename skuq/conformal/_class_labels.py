"""Classes of fitted classifiers, labels without training rows, and empty sets."""

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
