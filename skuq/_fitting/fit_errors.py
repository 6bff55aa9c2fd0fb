"""Notes with remedies on errors in ``fit`` of a wrapped estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skuq._sklearn_compat import count_rows
from skuq.prediction._child import iter_wrapped, name_of
from skuq.prediction._failures import has_note

_NON_NUMERIC_MESSAGES = ("to float", "numeric", "int, float", "has dtype", "Unicode")
"""Parts of the messages of NumPy, scikit-learn, CatBoost, XGBoost and LightGBM about text in X."""

_ONE_VALUE, _WORDS = "The target has one value", "X contains text"
"""First words of the notes. If an error already has a note with these words, a second note is not added."""

_NO_WEIGHTS, _TOO_LARGE = "The weights of", "The table is too large for"
"""First words of the notes about foundation models."""

_FOUNDATION_PACKAGES = {"tabpfn", "tabicl"}

_LIMIT_MESSAGES = ("greater than the maximum number", "Running on CPU with more than")
"""Parts of the messages of TabPFN about its limits of rows and columns."""

_MOST_NAMES = 5
"""Maximum number of column names in an error message."""


def note_constant_target(error: Exception, estimator: Any, y: Any, *, about_constant: bool) -> None:
    """Add a note to an error of ``fit`` if the target of this fit or of an inner fit is constant."""
    if has_note(error, _ONE_VALUE):  # An inner fit has already added the note.
        return
    if is_constant(y):
        error.add_note(f"{_ONE_VALUE}, {np.ravel(y)[0]:g}, in all rows of this fit.")
    elif about_constant:
        error.add_note(
            f"{_ONE_VALUE} in all rows of an inner fit of {type(estimator).__name__}, such as a fold or a "
            "resample. Use shuffled folds, or fewer folds."
        )


def is_constant(y: Any) -> bool:
    values = np.asarray(y)
    if values.dtype.kind not in "biuf" or not values.size:
        return False
    return bool(values.min() == values.max() and np.isfinite(values.flat[0]))


def note_missing_encoder(error: Exception, estimator: Any, X: Any) -> None:
    """Add a note about encoders to an error of ``fit`` if X contains text."""
    words = _columns_of_words(X) if any(part in str(error) for part in _NON_NUMERIC_MESSAGES) else []
    if not words or has_note(error, _WORDS):
        return
    shown = ", ".join(map(repr, words[:_MOST_NAMES])) + (", ..." if len(words) > _MOST_NAMES else "")
    holds = f"{_WORDS}, in column {shown}, but {name_of(estimator)} requires numbers."
    if _encodes(estimator):
        error.add_note(f"{holds} Use an encoder for each column with text.")
        return
    error.add_note(
        f"{holds} Put an encoder before the regressor: "
        f"make_pipeline(make_column_transformer((OrdinalEncoder(), [{shown}]), remainder='passthrough'), "
        f"{type(estimator).__name__}(...)). For a linear model, use OneHotEncoder."
    )


def note_foundation_model(error: Exception, estimator: Any, X: Any) -> None:
    """Add a remedy to an error of TabPFN or TabICL about missing network weights or a large table."""
    *_, inner = estimator, *iter_wrapped(estimator)
    if type(inner).__module__.partition(".")[0] not in _FOUNDATION_PACKAGES:
        return
    name, message = type(inner).__name__, str(error)
    if any(part in message for part in _LIMIT_MESSAGES) and not has_note(error, _TOO_LARGE):
        n_columns = X.shape[1] if getattr(X, "ndim", 1) == 2 else len(X[0])
        error.add_note(
            f"{_TOO_LARGE} {name}: this fit has {count_rows(X)} rows and {n_columns} columns. Pass fewer "
            f"rows, or put a selection of columns such as SelectKBest before {name}. "
            f"{name}(ignore_pretraining_limits=True) ignores the limits, and may be slow or less accurate."
        )
    if _lacks_file(error) and not has_note(error, _NO_WEIGHTS):
        error.add_note(
            f"{_NO_WEIGHTS} {name} are neither in the cache nor available from the network. Accept their "
            f"license, download the file on a computer with a network, and pass its path: "
            f"{name}(model_path=...)."
        )


def _lacks_file(error: BaseException) -> bool:
    if "download" in str(error).lower() or isinstance(error, OSError):
        return True
    return error.__cause__ is not None and _lacks_file(error.__cause__)


def _encodes(estimator: Any) -> bool:
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    names = [type(value).__name__ for value in params.values()]
    return any("Encoder" in name or "Vectorizer" in name for name in names)


def _columns_of_words(X: Any) -> list[Any]:
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
