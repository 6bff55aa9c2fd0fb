"""Base classes of simulated processes, and checks of functions of the user."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from skuq._compat import count_rows, versioned
from skuq._typing import FloatArray
from skuq._validation import check_finite_moments, check_integer
from skuq.distributions import Distribution


@versioned
class BaseProcess(BaseEstimator, metaclass=ABCMeta):
    """Base class of processes with fixed test rows, their true distribution, and training sets."""

    # `simulate_coverage` calls `training_set`, and uses the attributes `X_test_`, `truth_` and
    # `n_training_sets_`, and `y_test_` if `truth_` is None.

    X_test_: Any
    truth_: Distribution | None
    n_training_sets_: int | None = None

    @abstractmethod
    def training_set(self, index: int) -> tuple[Any, FloatArray]:
        """Return the training set with number ``index``. The set depends only on ``index``."""


class ConstructedProcess(BaseProcess):
    """Base class of processes without ``fit``. The constructor of a subclass must call ``_prepare``."""

    @abstractmethod
    def _prepare(self) -> None:
        """Check the parameters, and draw the fixed data."""

    def set_params(self, **params: Any) -> Self:
        """Set and check parameters, and draw the fixed data, such as the test rows, again.

        Parameters
        ----------
        **params : dict
            Parameters by name.

        Returns
        -------
        self : object
            The same process.
        """
        super().set_params(**params)
        if params:
            self._prepare()
        return self


def check_index(index: Any) -> int:
    return check_integer(index, "index", minimum=0)


def check_features(X: Any, n: int, like: Any = None) -> Any:
    """Check X from `draw_X`. It must have n rows, and the same columns as the rows ``like``."""
    if not (isinstance(X, pd.DataFrame) or sparse.issparse(X)):
        X = np.asarray(X)
    if X.ndim != 2 or count_rows(X) != n:
        raise ValueError(
            f"`draw_X` must return {n} rows for draw_X({n}, rng), as a 2-D array or a DataFrame, got the "
            f"shape {X.shape}. For a single feature, return an array of shape ({n}, 1)."
        )
    if like is not None and _columns(X) != _columns(like):
        raise ValueError(
            f"`draw_X` must return the same columns in all calls, got {_columns(X)}, but the test rows have "
            f"{_columns(like)}."
        )
    return X


def _columns(X: Any) -> Any:
    return list(X.columns) if isinstance(X, pd.DataFrame) else X.shape[1]


def check_truth(dist: Any, n: int, name: str) -> Distribution:
    """Check the result of a user's function: a distribution of n rows with finite means."""
    if not isinstance(dist, Distribution):
        raise TypeError(
            f"`{name}` must return a skuq Distribution, got {type(dist).__name__}. For example, return "
            "skuq.distributions.Normal(mean, std) or ScipyDistribution(scipy.stats.gamma(...))."
        )
    if len(dist) != n:
        raise ValueError(
            f"`{name}` must return a distribution with {n} rows, one per row of its argument, got "
            f"{len(dist)}."
        )
    check_finite_moments(
        dist,
        "mean",
        subject=f"`{name}` must return distributions with",
        remedy="The mean is the regression function, for which confidence intervals are evaluated.",
    )
    return dist


def check_process(process: Any, n_simulations: int, *, needs_truth: bool) -> None:
    """Raise an error unless the object is a fitted process with enough training sets.

    If the truth is required, the process must have a truth.
    """
    if isinstance(process, type):
        raise TypeError(f"`process` must be an instance, got the class {process.__name__}.")
    name = type(process).__name__
    if not hasattr(process, "training_set"):
        raise TypeError(
            f"`process` must be a process of skuq.simulation, such as KnownProcess, got {process!r}."
        )
    if not hasattr(process, "X_test_"):
        raise NotFittedError(f"this {name} is not fitted yet. Call `fit(X, y)` before simulate_coverage.")
    if process.truth_ is None and needs_truth:
        raise ValueError(
            f"`confidence_intervals` must be 'auto' or False for a {name}, because its regression function "
            "is unknown. Use an EstimatedProcess for confidence intervals."
        )
    most = process.n_training_sets_
    if most is not None and n_simulations > most:
        raise ValueError(
            f"this {name} has {most} disjoint training sets, so `n_simulations` must be at most {most}, "
            f"got {n_simulations}. Use fewer simulations, or a smaller `n_train` or `n_test`."
        )
