"""Notes on errors of wrapped estimators. A note names the fold or member, and a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError

from skuq._typing import FloatArray
from skuq._validation import as_float_array
from skuq.exceptions import NonFinitePredictionError, SkuqError
from skuq.prediction._child import iter_wrapped, name_of

_NAMED = "Raised in the distribution of "
"""First words of the note that names the innermost estimator."""


@contextmanager
def note_fold(place: str) -> Iterator[None]:
    """Add the name of the fold or member to an error that is raised in the block."""
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
    return f"{name} {k + 1} of {n}"


@contextmanager
def note_estimator(estimator: Any) -> Iterator[None]:
    """Add the class of the innermost estimator to an error that is raised in the block."""
    try:
        yield
    except ValueError as error:
        by_skuq = type(estimator).__module__.split(".")[0] == "skuq"
        if not (by_skuq or has_note(error, _NAMED) or isinstance(error, SkuqError | NotFittedError)):
            error.add_note(f"{_NAMED}{name_of(estimator)}.")
        raise


def check_predictions(values: FloatArray, estimator: Any) -> FloatArray:
    """Raise an error if a prediction, of shape (n,) or (n, k), is NaN or infinite."""
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):  # The sum of finite values may overflow, so the slower check follows.
            return values
    bad = np.atleast_1d(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if bad.any():
        counts = int(bad.sum()), len(bad), int(np.argmax(bad))
        raise NonFinitePredictionError(name_of(estimator), *counts, (), _advice(estimator))
    return values


def single_output(values: Any, estimator: Any) -> FloatArray:
    """Return the predictions as finite floats, one per row. Raise an error for several outputs."""
    array = as_float_array(np.asarray(values), "prediction")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"`predict` of {type(estimator).__name__} must return one column, got shape {array.shape}. skuq "
            f"needs one target. {one_column_each()} If the columns are parameters of a "
            f"distribution, use skuq.register to register a function that returns the distribution."
        )
    return check_predictions(array, estimator)


def one_column_each(wrapper: str = "skuq.UncertaintyRegressor") -> str:
    return (
        f"Fit one model per column: multi = MultiOutputRegressor({wrapper}(...)). The distribution of "
        "column j is predict_dist(multi.estimators_[j], X). For the joint distribution of the targets, use "
        "skuq.multivariate.MultiOutputUncertaintyRegressor(...)."
    )


def _advice(estimator: Any) -> str:
    inside = list(iter_wrapped(estimator))
    advice = []
    # An estimator that does not use a radius has radius=None.
    if any(getattr(one, "radius", None) is not None for one in inside):
        advice.append("Use a larger `radius`, or fewer folds.")
    if any(isinstance(one, TransformedTargetRegressor) for one in inside):
        advice.append(
            "The inverse transformation of the target must be finite at all predictions of the inner "
            "regressor. Use a transformation whose inverse is defined for all real numbers, such as log or "
            "log1p."
        )
    return " ".join(advice)


def has_note(error: Exception, beginning: str) -> bool:
    return any(note.startswith(beginning) for note in getattr(error, "__notes__", ()))
