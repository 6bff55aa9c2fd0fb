"""Validation and encoding of class labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skuq._typing import IntArray
from skuq._validation import as_array, as_labels, check_unmasked


def check_labels(y: Any, owner: Any) -> np.ndarray:
    """Return the class labels as an array of shape (n,), with the warnings and errors of scikit-learn."""
    if y is None:
        raise ValueError(f"{type(owner).__name__} requires y to be passed, but the target y is None.")
    check_unmasked(y, "y")
    array = as_array(y, "y")
    labels = column_or_1d(array if array.dtype.kind in "biuf" else as_labels(y, "y"), warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return np.asarray(labels)


def codes_of(labels: np.ndarray, classes: np.ndarray) -> IntArray:
    return np.asarray(pd.Index(classes).get_indexer(pd.Index(labels)), dtype=np.intp)
