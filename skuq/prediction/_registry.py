"""Adapters for classes of other packages.

The key is the qualified class name, so that skuq need not import the packages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from skuq._validation import check_option
from skuq.distributions import Distribution


@dataclass(frozen=True)
class Adapter:
    """Adapter of one class of estimators."""

    predict: Callable[[Any, Any], Distribution]
    supports: Callable[[Any], bool] | None = None
    points: bool = True
    in_context: bool = False
    calibrated: Callable[[Any], bool] = lambda estimator: False


_ADAPTERS: dict[str, dict[str, Adapter]] = {}
"""Adapters by class name. For each class name, adapters by the module or package from which users import the
class."""

_PACKAGES_OF_COLUMNS: set[str] = set()
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
    add_adapter(qualified_name, Adapter(adapter, supports, in_context=in_context))


def add_adapter(qualified_name: str, adapter: Adapter) -> None:
    place, _, name = qualified_name.rpartition(".")
    _ADAPTERS.setdefault(name, {})[place] = adapter
    if not adapter.points:
        _PACKAGES_OF_COLUMNS.add(place.partition(".")[0])


def may_predict_columns() -> bool:
    return any(package in sys.modules for package in _PACKAGES_OF_COLUMNS)


def find_adapter(cls: type) -> Adapter | None:
    for ancestor in cls.__mro__:
        for place, adapter in _ADAPTERS.get(ancestor.__name__, {}).items():
            if _is_at(ancestor, place):
                return adapter
    return None


def is_named(cls: type, qualified_name: str) -> bool:
    place, _, name = qualified_name.rpartition(".")
    return any(ancestor.__name__ == name and _is_at(ancestor, place) for ancestor in cls.__mro__)


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
