"""What goes wrong in a wrapped estimator: errors that say in which fold or member, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import FloatArray
from skuq.exceptions import NonFinitePredictionError
from skuq.prediction._child import name_of

__all__ = ["check_predictions", "hint_at_words", "located"]

_ABOUT_NUMBERS = ("to float", "numeric", "int, float", "has dtype", "Unicode")
"""Parts of the messages of NumPy, scikit-learn, CatBoost, XGBoost and LightGBM where words are no numbers."""

_MOST_NAMES = 5
"""Columns that an error message names."""


@contextmanager
def located(place: str) -> Iterator[None]:
    """Add the fold or member to an error that is raised inside; its type stays."""
    try:
        yield
    except NonFinitePredictionError as error:
        *counts, places = error.args
        error.args = (*counts, (*places, place))
        raise
    except Exception as error:
        error.add_note(f"Raised in {place}.")
        raise


def check_predictions(values: FloatArray, estimator: Any) -> FloatArray:
    """Raise if one of an estimator's predictions, shape (n,) or (n, k), is NaN or infinite."""
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):  # a sum may overflow, so the slow check decides
            return values
    bad = np.atleast_1d(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if bad.any():
        raise NonFinitePredictionError(name_of(estimator), int(bad.sum()), len(bad), int(np.argmax(bad)), ())
    return values


def hint_at_words(error: Exception, estimator: Any, X: Any) -> None:
    """Add a note on encoders to the error of a ``fit`` that could not read words as numbers."""
    words = _columns_of_words(X) if any(part in str(error) for part in _ABOUT_NUMBERS) else []
    if not words or any("OrdinalEncoder" in note for note in getattr(error, "__notes__", ())):
        return
    shown = ", ".join(map(repr, words[:_MOST_NAMES])) + (", ..." if len(words) > _MOST_NAMES else "")
    error.add_note(
        f"X holds words, in column {shown}, and {name_of(estimator)} takes numbers. Put an encoder in front: "
        f"make_pipeline(make_column_transformer((OrdinalEncoder(), [{shown}]), remainder='passthrough'), "
        f"{type(estimator).__name__}(...)); for a linear model, OneHotEncoder."
    )


def _columns_of_words(X: Any) -> list[Any]:
    """Return names or numbers of the columns of X that hold a string."""
    if not isinstance(X, pd.DataFrame):
        if not isinstance(X, list | tuple | np.ndarray):
            return []
        array = np.asarray(X, dtype=object)
        if array.ndim != 2:
            return []
        X = pd.DataFrame(array)
    return [
        name
        for name, column in X.items()
        if not pd.api.types.is_numeric_dtype(column.dtype) and any(isinstance(value, str) for value in column)
    ]
