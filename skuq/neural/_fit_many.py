"""Many fits of any neural estimators in one training, for studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length

from skuq._sklearn_compat import count_rows
from skuq._typing import IntArray
from skuq.neural._base import BaseNeuralEstimator, NetworkT, fit_clones

__all__ = ["fit_many"]


def fit_many(
    estimators: Sequence[NetworkT],
    X: Any,
    y: Any,
    rows: Sequence[IntArray] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> list[NetworkT]:
    """Fit many neural estimators, each on its own rows, in as few stacked trainings as there can be.

    For studies: folds, candidates of a search, seeds, losses and simulations become one training,
    which takes a fraction of the time of one after the other. Those are trained together whose networks
    and training have the same parameters; losses, learning rates and random states may differ.

    Parameters
    ----------
    estimators : sequence of K neural estimators
        Estimators of any classes of `skuq.neural`; they are cloned, not fitted themselves.
    X : array-like or DataFrame of n rows
        Features of all fits.
    y : array-like of shape (n,)
        Target of all fits.
    rows : sequence of K ndarrays, or None, default=None
        The row numbers that each estimator is fitted to, or boolean masks; None is all rows for each.
    sample_weight : array-like of shape (n,) or None, default=None
        Number of repetitions that each row counts for.

    Returns
    -------
    fitted : list of K estimators
        Each as its ``fit`` on its rows would give, but for rounding; and but for chance where a `module`
        draws from torch in training, as dropout does, since those trained together share its generator.

    Raises
    ------
    TypeError
        Where an estimator is no network of `skuq.neural`.
    ValueError
        Where there are not as many row sets as estimators, or X, y and weights differ in length.

    See Also
    --------
    skuq.model_selection.cross_val_predict_dist : Distributions for the tested rows of folds.

    Notes
    -----
    Cost: memory holds the standardised rows of all fits that are trained together. Training time grows
    with the number of networks once some 40 of them fill a core.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import PNNRegressor, fit_many
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> candidates = [PNNRegressor(loss=loss, max_epochs=5, random_state=0) for loss in ("nll", "crps")]
    >>> by_likelihood, by_crps = fit_many(candidates, X, y)
    >>> by_crps.loss
    'crps'
    """
    check_consistent_length(X, y, sample_weight)
    rows = [np.arange(count_rows(X))] * len(estimators) if rows is None else list(rows)
    if len(rows) != len(estimators):
        raise ValueError(
            f"`rows` must name one set of rows for each of the {len(estimators)} estimators, got "
            f"{len(rows)}. Give each its own, or None for all rows."
        )
    for estimator in estimators:
        if not isinstance(estimator, BaseNeuralEstimator):
            raise TypeError(
                "`estimators` must hold estimators of skuq.neural that are trained together, got "
                f"{type(estimator).__name__}. Fit others one by one."
            )
    return fit_clones(estimators, X, y, rows, sample_weight=sample_weight)
