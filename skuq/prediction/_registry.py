"""Adapters by qualified class name, so that no other package needs to be imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skuq.distributions import Distribution

__all__ = ["Adapter", "add_adapter", "find_adapter", "is_named", "may_predict_columns", "register"]


@dataclass(frozen=True)
class Adapter:
    """How to get a distribution out of one class of estimators.

    Attributes
    ----------
    predict : callable
        ``predict(estimator, X)``.
    supports : callable or None
        ``supports(estimator)``; None where every instance gives a distribution.
    points : bool
        Whether the estimator's own ``predict`` gives one number a row; else the columns are parameters or
        quantiles of the distribution.
    """

    predict: Callable[[Any, Any], Distribution]
    supports: Callable[[Any], bool] | None = None
    points: bool = True


_ADAPTERS: dict[str, dict[str, Adapter]] = {}
"""Class name -> module or package it is reached from -> adapter."""

_PACKAGES_OF_COLUMNS: set[str] = set()
"""Packages with estimators whose ``predict`` may give columns."""


def register(
    qualified_name: str,
    adapter: Callable[[Any, Any], Distribution],
    *,
    supports: Callable[[Any], bool] | None = None,
) -> None:
    """Add a class of estimators that gives a distribution in its own way to `predict_dist`.

    For classes of other packages, which have no ``predict_dist`` method and cannot be given one.
    A class of your own needs no registration: define ``predict_dist(X)`` on it.

    Parameters
    ----------
    qualified_name : str
        The class as one imports it, for example ``"ngboost.NGBRegressor"``, or with the module
        that defines it. Subclasses are served too; the most specific registration wins, and a
        second registration of the same name replaces the first.
    adapter : callable
        ``adapter(estimator, X) -> Distribution``, one row for each row of X. Called with a fitted
        estimator; it should raise ``NotFittedError`` if given another.
    supports : callable or None, default=None
        ``supports(estimator) -> bool`` for `supports_dist`, called with unfitted estimators too.
        None means that every instance gives a distribution.

    See Also
    --------
    predict_dist : What uses the adapter.

    Notes
    -----
    The package is not imported here. Call this in an importable module, best the one that defines
    the class or a wrapper of it: a worker process of joblib (``n_jobs=2``) has only what is
    registered by the modules it imports.

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
            f"got {qualified_name!r}. Of a class it is f'{{cls.__module__}}.{{cls.__qualname__}}'."
        )
    place, _, name = qualified_name.rpartition(".")
    if not place or not name:
        raise ValueError(
            f"`qualified_name` must be a module and a class, 'module.Class', got {qualified_name!r}."
        )
    if not callable(adapter):
        raise TypeError(
            f"`adapter` must be a function adapter(estimator, X) -> Distribution, got {adapter!r}."
        )
    if supports is not None and not callable(supports):
        raise TypeError(
            f"`supports` must be a function supports(estimator) -> bool or None, got {supports!r}."
        )
    add_adapter(qualified_name, Adapter(adapter, supports))


def add_adapter(qualified_name: str, adapter: Adapter) -> None:
    """Use an adapter for a class, in place of one that it had."""
    place, _, name = qualified_name.rpartition(".")
    _ADAPTERS.setdefault(name, {})[place] = adapter
    if not adapter.points:
        _PACKAGES_OF_COLUMNS.add(place.partition(".")[0])


def may_predict_columns() -> bool:
    """Return whether a package is imported whose estimators' ``predict`` may give columns."""
    return any(package in sys.modules for package in _PACKAGES_OF_COLUMNS)


def find_adapter(cls: type) -> Adapter | None:
    """Return the adapter of the class or of its nearest registered ancestor."""
    for ancestor in cls.__mro__:
        for place, adapter in _ADAPTERS.get(ancestor.__name__, {}).items():
            if _is_at(ancestor, place):
                return adapter
    return None


def is_named(cls: type, qualified_name: str) -> bool:
    """Return whether the class, or an ancestor of it, is the one with that qualified name."""
    place, _, name = qualified_name.rpartition(".")
    return any(ancestor.__name__ == name and _is_at(ancestor, place) for ancestor in cls.__mro__)


def _is_at(cls: type, place: str) -> bool:
    """Return whether the class is defined at, or re-exported from, ``place``."""
    if f"{cls.__module__}.{cls.__qualname__}" == f"{place}.{cls.__name__}":
        return True
    # An instance exists, so its package is imported; a public name may point to a private module.
    return vars(sys.modules.get(place, object)).get(cls.__name__) is cls
