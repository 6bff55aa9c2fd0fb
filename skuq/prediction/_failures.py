"""Errors of a wrapped estimator, with the fold or member they come from and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError

from skuq._typing import FloatArray
from skuq.exceptions import NonFinitePredictionError, SkuqError
from skuq.prediction._child import inwards, name_of

__all__ = [
    "check_predictions",
    "hint_at_constant",
    "hint_at_words",
    "is_constant",
    "located",
    "named",
    "place_of",
]

_ABOUT_NUMBERS = ("to float", "numeric", "int, float", "has dtype", "Unicode")
"""Parts of the messages of NumPy, scikit-learn, CatBoost, XGBoost and LightGBM where words are no numbers."""

_NAMED, _ONE_VALUE, _WORDS = "Raised in the distribution of ", "The target has one value", "X holds words"
"""How notes begin, of which an error gets one each, from the innermost estimator."""

_MOST_NAMES = 5
"""Columns that an error message names."""


@contextmanager
def located(place: str) -> Iterator[None]:
    """Add the fold or member to an error that is raised inside; its type stays."""
    try:
        yield
    except NonFinitePredictionError as error:
        *counts, places, advice = error.args
        error.args = (*counts, (*places, place), advice)
        raise
    except Exception as error:
        error.add_note(f"Raised in {place}.")
        raise


def place_of(name: str, k: int, n: int) -> str:
    """Return what the k-th, from 0, of n fits is called in errors."""
    return f"{name} {k + 1} of {n}"


@contextmanager
def named(estimator: Any) -> Iterator[None]:
    """Add the estimator to an error of the distribution that its code makes, such as Normal of a NaN.

    Errors of skuq and of estimators that are not fitted name it already; in containers, the innermost does.
    """
    try:
        yield
    except ValueError as error:
        by_skuq = type(estimator).__module__.split(".")[0] == "skuq"
        if not (by_skuq or _has_note(error, _NAMED) or isinstance(error, SkuqError | NotFittedError)):
            error.add_note(f"{_NAMED}{name_of(estimator)}.")
        raise


def check_predictions(values: FloatArray, estimator: Any) -> FloatArray:
    """Raise if one of an estimator's predictions, shape (n,) or (n, k), is NaN or infinite."""
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):  # a sum may overflow, so the slow check decides
            return values
    bad = np.atleast_1d(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if bad.any():
        counts = int(bad.sum()), len(bad), int(np.argmax(bad))
        raise NonFinitePredictionError(name_of(estimator), *counts, (), _advice(estimator))
    return values


def _advice(estimator: Any) -> str:
    """Return what helps where an estimator predicts NaN or infinity."""
    inside = list(inwards(estimator))
    advice = []
    if any(getattr(one, "radius", None) is not None for one in inside):  # None where neighbours are counted
        advice.append("Try a larger radius of its neighbourhoods or fewer folds.")
    if any(isinstance(one, TransformedTargetRegressor) for one in inside):
        advice.append(
            "The inverse transformation of the target must be finite for whatever the regressor inside "
            "predicts. Take a transformation whose inverse is defined on all reals, such as log or log1p."
        )
    return " ".join(advice)


def hint_at_constant(error: Exception, estimator: Any, y: Any, *, about_constant: bool) -> None:
    """Add a note to the error of a ``fit`` on a target of one value, also if only rows within y have one.

    Parameters
    ----------
    error : Exception
        What ``fit`` raised.
    estimator : estimator
        Whose ``fit``.
    y : array-like
        Its target.
    about_constant : bool
        Whether the error is already about a target of one value.
    """
    if _has_note(error, _ONE_VALUE):  # from the innermost fit
        return
    if is_constant(y):
        error.add_note(f"{_ONE_VALUE}, {np.ravel(y)[0]:g}, in all rows of this fit.")
    elif about_constant:
        error.add_note(
            f"{_ONE_VALUE} in all rows of a fit inside of {type(estimator).__name__}, such as a fold or a "
            "resample of its own. Let it shuffle its folds, or use fewer of them."
        )


def _has_note(error: Exception, beginning: str) -> bool:
    return any(note.startswith(beginning) for note in getattr(error, "__notes__", ()))


def is_constant(y: Any) -> bool:
    """Return whether a target is one finite number throughout."""
    values = np.asarray(y)
    if values.dtype.kind not in "biuf" or not values.size:
        return False
    return bool(values.min() == values.max() and np.isfinite(values.flat[0]))


def hint_at_words(error: Exception, estimator: Any, X: Any) -> None:
    """Add a note on encoders to the error of a ``fit`` that could not read words as numbers."""
    words = _columns_of_words(X) if any(part in str(error) for part in _ABOUT_NUMBERS) else []
    if not words or _has_note(error, _WORDS):
        return
    shown = ", ".join(map(repr, words[:_MOST_NAMES])) + (", ..." if len(words) > _MOST_NAMES else "")
    holds = f"{_WORDS}, in column {shown}, and {name_of(estimator)} takes numbers."
    if _encodes(estimator):
        error.add_note(f"{holds} Not all columns of words are encoded: give each of them to an encoder.")
        return
    error.add_note(
        f"{holds} Put an encoder in front: "
        f"make_pipeline(make_column_transformer((OrdinalEncoder(), [{shown}]), remainder='passthrough'), "
        f"{type(estimator).__name__}(...)); for a linear model, OneHotEncoder."
    )


def _encodes(estimator: Any) -> bool:
    """Return whether a step of the estimator encodes words; an encoder is found by its name."""
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    names = [type(value).__name__ for value in params.values()]
    return any("Encoder" in name or "Vectorizer" in name for name in names)


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
