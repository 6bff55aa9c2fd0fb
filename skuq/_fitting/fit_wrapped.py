"""Fits of wrapped estimators, notes with remedies on their errors, and the units of their targets.

Targets are rescaled to values near 1 for estimators with absolute tolerances. Boosting of scikit-learn stops
early when the loss improves by less than a tolerance, and trees do not split nodes with an impurity below
2e-16. Because of these thresholds, the fitted model depends on the units of y. Without them, a division of y
by a power of two would divide the predictions by the same number.

Networks of scikit-learn take steps of a fixed size. They do not converge if the target is many orders of
magnitude smaller or larger than their initial predictions.

LightGBM, XGBoost and CatBoost store targets in 32 bits, with 7 digits and a limited range. Their targets are
also centered if the mean is many standard deviations from 0.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeRegressor

from skuq._compat import count_rows, sequential_in_cluster_task
from skuq._numeric import standard_deviation
from skuq._typing import FloatArray
from skuq.prediction._register import has_note, is_search, iter_wrapped, name_of
from skuq.prediction._resolve import supports_dist

_TORCH_WARNS = "Using a target size"
"""First words of torch's warning about targets of shape (n,) and outputs of shape (n, 1)."""


def wraps_skorch(estimator: Any) -> bool:
    classes = (cls for one in iter_wrapped(estimator) for cls in type(one).__mro__)
    return any((cls.__module__, cls.__name__) == ("skorch.net", "NeuralNet") for cls in classes)


def fit_wrapped(estimator: Any, X: Any, y: Any, **params: Any) -> Any:
    """Fit and return the estimator, or a constant model if the estimator does not support a constant y."""
    try:
        with sequential_in_cluster_task():
            if wraps_skorch(estimator):
                _fit_skorch(estimator, X, y, params)
            else:
                estimator.fit(X, y, **params)
    except Exception as error:
        about_constant = type(error).__name__ == "CatBoostError" and "targets are equal" in str(error)
        if about_constant and is_constant(y) and not supports_dist(estimator):
            return DummyRegressor().fit(X, y)
        note_missing_encoder(error, estimator, X)
        note_foundation_model(error, estimator, X)
        note_constant_target(error, estimator, y, about_constant=about_constant)
        raise
    return estimator


def _fit_skorch(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> None:
    """Fit the estimator. The warning of torch about the shape of y becomes an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=_TORCH_WARNS)
        try:
            estimator.fit(X, y, **params)
        except UserWarning as warning:
            if not str(warning).startswith(_TORCH_WARNS):
                raise
            raise ValueError(
                f"`y` must have the same shape as the outputs of the network. Otherwise, the loss compares "
                f"each output with all targets. Torch's warning: {str(warning).split('. ')[0]}. If the "
                f"network "
                "returns a column, pass y of shape (n, 1), or add torch.nn.Flatten(0) as its last layer and "
                "pass y of shape (n,)."
            ) from warning


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
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    names = [type(value).__name__ for value in params.values()]
    if any("Encoder" in name or "Vectorizer" in name for name in names):
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


_TREES = (DecisionTreeRegressor, RandomForestRegressor, ExtraTreesRegressor, GradientBoostingRegressor)

_ROWS_WITHOUT_STOPPING = 10_000
"""With more rows, HistGradientBoostingRegressor stops early by default."""

_EXPONENTS_OF_TREES = (-10, 64)
"""Range of the binary exponent of the std of y in which the threshold of the impurity has no effect."""

_EXPONENTS_OF_NETWORKS = (-10, 10)
"""Range of the binary exponent of the unit of y in which networks are fitted to y without rescaling."""

_SINGLE_PRECISION = ("catboost", "lightgbm", "xgboost")
"""Packages that store targets in 32 bits."""

_EXPONENTS_OF_SINGLES = (-40, 40)
"""Range of the binary exponent of the std of y in which squares of y are finite in 32 bits."""

_LARGEST_OFFSET = 100.0
"""Largest distance of the mean of y from 0, in standard deviations, for which 32 bits are precise enough."""


def in_target_units(estimator: Any, y: FloatArray) -> Any:
    """Return the estimator, in a TransformedTargetRegressor if its target must have a size near 1.

    The innermost estimator of Pipelines and searches decides whether the target must have a size near 1.
    ``y`` is the target of all rows, so that all folds have the same unit.
    """
    models = (one for one in iter_wrapped(estimator) if not (isinstance(one, Pipeline) or is_search(one)))
    inner = next(models, None)
    exponent, center = 0, 0.0
    if y.max() > y.min():
        size = float(np.abs(y).max()) if isinstance(inner, MLPRegressor) else standard_deviation(y)
        exponent = int(np.frexp(size)[1]) - 1
    if any(cls.__module__.split(".")[0] in _SINGLE_PRECISION for cls in type(inner).__mro__):
        mean = float(np.mean(y))
        center = mean if abs(mean) > np.ldexp(_LARGEST_OFFSET, exponent) else 0.0
        lowest, highest = _EXPONENTS_OF_SINGLES
        is_needed = center != 0 or not lowest < exponent < highest
    else:
        is_needed = exponent != 0 and _has_absolute_tolerance(inner, len(y), exponent)
    if not is_needed:
        return estimator
    return TransformedTargetRegressor(
        estimator,
        func=partial(_to_unit, exponent=exponent, center=center),
        inverse_func=partial(_from_unit, exponent=exponent, center=center),
        check_inverse=False,
    )


def _to_unit(y: FloatArray, exponent: int, center: float) -> FloatArray:
    return np.ldexp(y - center, -exponent)


def _from_unit(y: FloatArray, exponent: int, center: float) -> FloatArray:
    return np.ldexp(y, exponent) + center


def _has_absolute_tolerance(estimator: Any, n: int, exponent: int) -> bool:
    """Return whether an absolute tolerance or a step size would affect the fit to y."""
    if isinstance(estimator, BaggingRegressor):
        member = DecisionTreeRegressor() if estimator.estimator is None else estimator.estimator
        return _has_absolute_tolerance(member, n, exponent)
    if isinstance(estimator, HistGradientBoostingRegressor):
        early = estimator.early_stopping
        return bool(n > _ROWS_WITHOUT_STOPPING if early == "auto" else early)
    if isinstance(estimator, MLPRegressor):
        lowest, highest = _EXPONENTS_OF_NETWORKS
        return not lowest < exponent < highest
    if not isinstance(estimator, _TREES) or estimator.min_impurity_decrease:
        return False  # The user has set a threshold in the units of y.
    lowest, highest = _EXPONENTS_OF_TREES
    stops = getattr(estimator, "n_iter_no_change", None) is not None
    return stops or not lowest < exponent < highest
