"""Registered adapters, inner estimators, the records of rules, and notes on errors.

The key of an adapter is the qualified class name, so that skuq need not import the packages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skuq._typing import FloatArray
from skuq._validation import ONE_MODEL_EACH, as_float_array, check_option
from skuq.distributions import Distribution
from skuq.exceptions import NonFinitePredictionError, SkuqError


def child_of(estimator: Any) -> Any:
    # `or` cannot be used, because an unfitted forest has length 0 and is therefore false.
    child = getattr(estimator, "estimator", None)
    return getattr(estimator, "regressor", None) if child is None else child


def last_step(estimator: Any) -> Any:
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def iter_wrapped(estimator: Any) -> Iterator[Any]:
    """Yield the estimator and all inner estimators, from the outermost to the innermost."""
    while hasattr(estimator, "fit"):
        yield estimator
        if not isinstance(estimator, Pipeline):
            estimator = child_of(estimator)
        else:
            estimator = estimator.steps[-1][1] if estimator.steps else None


def is_search(estimator: Any) -> bool:
    if isinstance(estimator, FrozenEstimator):
        return False
    if hasattr(estimator, "best_estimator_"):
        return True
    return hasattr(estimator, "refit") and hasattr(estimator, "estimator")


def name_of(estimator: Any) -> str:
    *_, inner = estimator, *iter_wrapped(estimator)
    name, outer = type(inner).__name__, type(estimator).__name__
    return name if inner is estimator else f"{name} in {outer}"


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
            f"needs one target. {ONE_MODEL_EACH} If the columns are parameters of a "
            f"distribution, use skuq.register to register a function that returns the distribution."
        )
    return check_predictions(array, estimator)


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


Predict: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class MetaEstimatorRule:
    """Rule for a meta-estimator that has a distribution if all its inner estimators have one."""

    # Function of the estimator that returns whether the rule applies.
    matches: Callable[[Any], bool]
    # Function of the estimator, X and `predict_dist`. It calls `predict_dist` for inner estimators.
    predict: Callable[[Any, Any, Predict], Any]
    # Function of the estimator, fitted or not, that returns its inner estimators. Several of them form a
    # mixture. None and strings represent absent estimators.
    parts: Callable[[Any], Sequence[Any]]
    # Whether the prediction is the prediction of one inner estimator for the same rows. In this case,
    # `predict` may also be called with a function that returns prediction sets instead of `predict_dist`.
    passes_on: bool = False


@dataclass(frozen=True)
class EstimatorRule:
    """Rule for an estimator that has a distribution and follows scikit-learn's conventions."""

    # Function of the estimator that returns whether the rule applies.
    matches: Callable[[Any], bool]
    # Function of the fitted estimator and X that returns the distribution.
    predict: Callable[[Any, Any], Distribution]
    # Function of the estimator that returns whether it has a distribution after fitting.
    supports: Callable[[Any], bool] = lambda estimator: True
    # Whether the distribution is the exact posterior predictive distribution of the model.
    exact: bool = False


@dataclass(frozen=True)
class Adapter:
    """Adapter of one class of estimators."""

    predict: Callable[[Any, Any], Distribution]
    supports: Callable[[Any], bool] = lambda estimator: True
    points: bool = True
    in_context: bool = False
    calibrated: Callable[[Any], bool] = lambda estimator: False


_ADAPTERS: dict[str, dict[str, Adapter]] = {}
"""Adapters by class name. For each class name, adapters by the module or package from which users import the
class."""

PACKAGES_OF_COLUMNS: set[str] = set()
"""Packages with estimators whose ``predict`` may return several columns."""


def register(
    qualified_name: str,
    adapter: Callable[[Any, Any], Distribution],
    *,
    supports: Callable[[Any], bool] | None = None,
    in_context: bool = False,
) -> None:
    """Register a class of another package, so that `predict_dist` supports it.

    The class must have its own predictive distribution. The adapter returns this distribution. Your own class
    does not need to be registered if it has a method ``predict_dist(X)``.

    Parameters
    ----------
    qualified_name : str
        Import path of the class, for example ``"ngboost.NGBRegressor"``, or the path of the module that
        defines it. The registration includes subclasses. If several registrations apply, `predict_dist` uses
        the registration of the most specific class. A second registration of the same name replaces the first
        one.
    adapter : callable
        ``adapter(estimator, X) -> Distribution`` with one row per row of X. It must raise ``NotFittedError``
        for an estimator that is not fitted.
    supports : callable or None, default=None
        Function ``supports(estimator) -> bool`` that returns whether an estimator has a distribution.
        `supports_dist` also calls it with unfitted estimators. None means that every instance has a
        distribution.
    in_context : bool, default=False
        Whether the estimator learns in context, such as TabPFN: `fit` only stores the training rows, and
        predictions are expensive. skuq then predicts only the test rows of each fold, frees the memory of a
        GPU after each fold, and does not compare the models of the folds with the final model.

    See Also
    --------
    predict_dist : Distribution of a fitted estimator. It calls the adapter.

    Notes
    -----
    skuq does not import the package. Call this function in a module that can be imported, for example in the
    module that defines the class. A worker process of joblib (``n_jobs=2``) has only the registrations in
    modules that it imports.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from skuq.distributions import Normal
    >>> from skuq.prediction import predict_dist, register
    >>> class Weather(BaseEstimator):
    ...     def predict_parameters(self, X):
    ...         return [15.0] * len(X), [4.0] * len(X)
    >>> name = f"{Weather.__module__}.{Weather.__qualname__}"
    >>> register(name, lambda estimator, X: Normal(*estimator.predict_parameters(X)))
    >>> predict_dist(Weather(), [[1.0], [2.0]]).interval(0.9).round(1)
    array([[ 8.4, 21.6],
           [ 8.4, 21.6]])
    """
    if not isinstance(qualified_name, str):
        raise TypeError(
            "`qualified_name` must be a string such as 'package.module.Class', "
            f"got {qualified_name!r}. For a class, pass f'{{cls.__module__}}.{{cls.__qualname__}}'."
        )
    place, _, name = qualified_name.rpartition(".")
    if not place or not name:
        raise ValueError(
            "`qualified_name` must contain a module and a class, such as 'module.Class', got "
            f"{qualified_name!r}."
        )
    if not callable(adapter):
        raise TypeError(
            f"`adapter` must be a function adapter(estimator, X) -> Distribution, got {adapter!r}."
        )
    if supports is not None and not callable(supports):
        raise TypeError(
            f"`supports` must be a function supports(estimator) -> bool or None, got {supports!r}."
        )
    check_option(in_context, "in_context", (True, False))
    add_adapter(qualified_name, Adapter(adapter, supports or Adapter.supports, in_context=in_context))


def add_adapter(qualified_name: str, adapter: Adapter) -> None:
    place, _, name = qualified_name.rpartition(".")
    _ADAPTERS.setdefault(name, {})[place] = adapter
    if not adapter.points:
        PACKAGES_OF_COLUMNS.add(place.partition(".")[0])


def find_adapter(cls: type) -> Adapter | None:
    for ancestor in cls.__mro__:
        for place, adapter in _ADAPTERS.get(ancestor.__name__, {}).items():
            if _is_at(ancestor, place):
                return adapter
    return None


def named(*qualified_names: str) -> Callable[[Any], bool]:
    """Return a function that returns whether an estimator is an instance of one of the classes."""
    names = [name.rpartition(".") for name in qualified_names]

    def matches(estimator: Any) -> bool:
        return any(
            ancestor.__name__ == name and _is_at(ancestor, place)
            for ancestor in type(estimator).__mro__
            for place, _, name in names
        )

    return matches


def _is_at(cls: type, place: str) -> bool:
    if f"{cls.__module__}.{cls.__qualname__}" == f"{place}.{cls.__name__}":
        return True
    # The package is already imported, because an instance exists. The registered name may be an alias of a
    # class from a private module.
    return vars(sys.modules.get(place, object)).get(cls.__name__) is cls


def from_room(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a room above this one, which is imported on the first call."""

    def call(*args: Any) -> Any:
        return getattr(import_module(module), name)(*args)

    return call
