"""Out-of-fold distributions of any probabilistic regressor."""

from __future__ import annotations

from typing import Any, Literal, cast, overload

import numpy as np
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from skuq._compat import count_rows, routing_enabled
from skuq._fitting.cross_fit import cross_fit, resolve_cv
from skuq._fitting.fit_wrapped import wraps_skorch
from skuq._typing import ArrayLike, IntArray
from skuq._validation import check_option, check_target, check_unmasked
from skuq.distributions import Distribution
from skuq.prediction._register import iter_wrapped


@overload
def cross_val_predict_dist(
    estimator: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    cv: Any = None,
    groups: ArrayLike | None = None,
    params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    return_rows: Literal[False] = False,
) -> Distribution: ...


@overload
def cross_val_predict_dist(
    estimator: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    cv: Any = None,
    groups: ArrayLike | None = None,
    params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    return_rows: Literal[True],
) -> tuple[Distribution, IntArray]: ...


def cross_val_predict_dist(
    estimator: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    cv: Any = None,
    groups: ArrayLike | None = None,
    params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    return_rows: bool = False,
) -> Distribution | tuple[Distribution, IntArray]:
    """Return the out-of-fold predictive distribution of each row.

    This function is the counterpart of `sklearn.model_selection.cross_val_predict` for distributions. Use it
    for calibration plots, to fit a recalibrator, or for stacking. To evaluate a model, use scikit-learn's
    `cross_validate` with skuq's scorers. It scores each fold separately.

    Parameters
    ----------
    estimator : estimator
        Any estimator that `predict_dist` accepts; cloned for each fold.
    X : array-like of shape (n, n_features), DataFrame or Distribution
        Features. If the estimator is a recalibrator, pass its input: a Distribution.
    y : array-like of shape (n,) or (n, d), default=None
        The target, or d targets for an estimator with joint distributions.
    cv : int, splitter, iterable of (train, test) or None, default=None
        Folds. With ``return_rows=False``, they must test every row exactly once. None means 5 folds. An int k
        means ``KFold(k, shuffle=True)`` with a fixed seed, so that all calls have the same folds. Rows are
        shuffled, because X may be sorted, and models would then have to extrapolate.
    groups : array-like of shape (n,), default=None
        Groups for a splitter that uses groups. If metadata routing is enabled, pass the groups in ``params``.
    params : dict, default=None
        Parameters of the estimator's ``fit``. Values with one entry per row are divided into folds. If
        metadata routing is enabled, the parameters are routed to the splitter and to ``fit`` as requested.
    n_jobs : int, default=None
        Number of jobs that run in parallel. Each job fits one fold. The results do not depend on ``n_jobs``.
    return_rows : bool, default=False
        Whether to also return the tested rows. With True, the splitter may test some rows several times or
        never. For example, ``TimeSeriesSplit`` never tests the first rows.

    Returns
    -------
    dist : Distribution or JointDistribution
        Distributions of the n rows in the order of X, in the units of y. With ``return_rows=True``,
        distributions of the rows in ``rows``.
    rows : ndarray of int
        Indices of the tested rows in ascending order. Only returned with ``return_rows=True``.

    Raises
    ------
    ValueError
        If ``cv`` does not test every row exactly once and ``return_rows`` is False.
    NotProbabilisticError
        If the fitted estimator has no predictive distribution.

    See Also
    --------
    skuq.prediction.predict_dist : Distributions of new rows by a fitted estimator.

    Notes
    -----
    Cost: one fit per fold.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.model_selection import cross_val_predict_dist
    >>> X, y = load_diabetes(return_X_y=True)
    >>> dist = cross_val_predict_dist(BayesianRidge(), X, y, cv=10)
    >>> len(dist) == len(y)
    True

    The first rows of a time series are never tested:

    >>> from sklearn.model_selection import TimeSeriesSplit
    >>> dist, rows = cross_val_predict_dist(BayesianRidge(), X, y, cv=TimeSeriesSplit(5), return_rows=True)
    >>> len(dist), int(rows[0])
    (365, 77)
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(f"`estimator` must be an instance with a method `fit`, got {estimator!r}.")
    check_unmasked(X, "X")
    n = count_rows(X)
    target = y if y is None or _keeps_shape(estimator, y) else check_target(y, "y", n)
    splitter = resolve_cv(cv, random_state=0)
    if routing_enabled():
        splitter, params = _route(estimator, splitter, X, target, groups, params or {})
        groups = None
    fitted = cross_fit(
        estimator,
        X,
        target,
        cv=splitter,
        groups=groups,
        params=params,
        n_jobs=n_jobs,
        keep_in_context=False,
    )
    if not check_option(return_rows, "return_rows", (True, False)):
        return cast(Distribution, fitted.in_row_order(n))
    rows, dist = fitted.tested()
    order = np.argsort(rows, kind="stable")
    return dist[order], rows[order]


def _keeps_shape(estimator: Any, y: Any) -> bool:
    return (
        wraps_skorch(estimator)
        or any(getattr(one, "_several_targets", False) for one in iter_wrapped(estimator))
        or (np.ndim(y) == 2 and np.shape(y)[1] > 1)
    )


def _route(
    estimator: Any, splitter: Any, X: Any, y: Any, groups: Any, params: dict[str, Any]
) -> tuple[list[tuple[Any, Any]], dict[str, Any]]:
    """Return the folds and the fit parameters, after metadata routing to the splitter and to ``fit``."""
    if groups is not None:
        raise ValueError(
            "`groups` must be passed as `params={'groups': groups}` when metadata routing is enabled, as in "
            "scikit-learn's cross_validate."
        )
    router = (
        MetadataRouter(owner="cross_val_predict_dist")
        .add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        .add(estimator=estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
    )
    routed = process_routing(router, "fit", **params)
    return list(splitter.split(X, y, **routed.splitter.split)), dict(routed.estimator.fit)
