"""What the worlds share: their interface, and the checks of what users' functions return."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from skuq._sklearn_compat import count_rows
from skuq._typing import FloatArray
from skuq._validation import check_finite_moments, check_integer
from skuq._versioned import VersionedMixin
from skuq.distributions import Distribution

__all__ = ["BaseWorld", "ConstructedWorld", "check_features", "check_index", "check_truth", "check_world"]


class BaseWorld(VersionedMixin, BaseEstimator, metaclass=ABCMeta):
    """Base class of the worlds: fixed test rows, their truth, and as many training sets as are needed.

    `simulate_coverage` reads ``X_test_``, ``truth_``, ``n_training_sets_``, where ``truth_`` is None also
    ``y_test_``, and calls `training_set`.
    """

    X_test_: Any
    truth_: Distribution | None
    n_training_sets_: int | None = None

    @abstractmethod
    def training_set(self, index: int) -> tuple[Any, FloatArray]:
        """Return one training set, the same at every call with the same index."""


class ConstructedWorld(BaseWorld):
    """Base class of the worlds that are complete when constructed, without a ``fit``.

    A subclass calls ``_prepare`` at the end of its constructor.
    """

    @abstractmethod
    def _prepare(self) -> None:
        """Check the parameters, and draw what is drawn once."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters, check them, and draw anew what is drawn once.

        Parameters
        ----------
        **params : dict
            Parameters by name.

        Returns
        -------
        self : object
            The world.
        """
        super().set_params(**params)
        if params:
            self._prepare()
        return self


def check_index(index: Any) -> int:
    """Return the number of a training set, counted from 0."""
    return check_integer(index, "index", minimum=0)


def check_features(X: Any, n: int, like: Any = None) -> Any:
    """Return what `draw_X` returned: n rows, with the columns of earlier ones where those are given."""
    if not (isinstance(X, pd.DataFrame) or sparse.issparse(X)):
        X = np.asarray(X)
    if X.ndim != 2 or count_rows(X) != n:
        raise ValueError(
            f"`draw_X` must return {n} rows when it is called as draw_X({n}, rng), in a 2-D array or "
            f"DataFrame, got shape {X.shape}. For a single feature, return an array of shape ({n}, 1)."
        )
    if like is not None and _columns(X) != _columns(like):
        raise ValueError(
            f"`draw_X` must return the same columns at every call, got {_columns(X)} where the test rows "
            f"have {_columns(like)}."
        )
    return X


def _columns(X: Any) -> Any:
    """Return the names of the columns, or their number where they have none."""
    return list(X.columns) if isinstance(X, pd.DataFrame) else X.shape[1]


def check_truth(dist: Any, n: int, name: str) -> Distribution:
    """Return the distribution that a user's function returned for n rows, with a finite mean in each."""
    if not isinstance(dist, Distribution):
        raise TypeError(
            f"`{name}` must return a skuq Distribution, got {type(dist).__name__}. Return for example "
            "skuq.distributions.Normal(mean, std), or ScipyDistribution(scipy.stats.gamma(...))."
        )
    if len(dist) != n:
        raise ValueError(
            f"`{name}` must return a distribution with one row for each of the {n} rows it is given, got "
            f"{len(dist)}."
        )
    check_finite_moments(
        dist,
        "mean",
        subject=f"`{name}` must return distributions with",
        remedy="The mean is the regression function that confidence intervals are to contain.",
    )
    return dist


def check_world(world: Any, n_simulations: int, *, needs_truth: bool) -> None:
    """Raise unless a world is complete and can serve a study.

    Parameters
    ----------
    world : object
        With the interface of `BaseWorld`.
    n_simulations : int
        Number of training sets of the study.
    needs_truth : bool
        Whether the regression function must be known.
    """
    if isinstance(world, type):
        raise TypeError(f"`world` must be an instance, got the class {world.__name__}.")
    name = type(world).__name__
    if not hasattr(world, "training_set"):
        raise TypeError(f"`world` must be a world of skuq.simulation, such as KnownWorld, got {world!r}.")
    if not hasattr(world, "X_test_"):
        raise NotFittedError(f"this {name} is not fitted yet. Call `fit(X, y)` before simulate_coverage.")
    if world.truth_ is None and needs_truth:
        raise ValueError(
            f"`confidence` must be 'auto' or False in a {name}: its regression function is unknown, so that "
            "confidence intervals cannot be compared with it. An EstimatedWorld has one."
        )
    most = world.n_training_sets_
    if most is not None and n_simulations > most:
        raise ValueError(
            f"`n_simulations` must be at most {most} in this {name}, which has rows for {most} disjoint "
            f"training sets, got {n_simulations}. Use fewer simulations, or a smaller `n_train` or `n_test`."
        )
