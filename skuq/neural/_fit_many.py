"""Several fits of neural estimators in one training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length

from skuq._sklearn_compat import count_rows
from skuq._typing import IntArray
from skuq.neural._base import BaseNeuralEstimator, NetworkT, fit_clones


def fit_many(
    estimators: Sequence[NetworkT],
    X: Any,
    y: Any,
    rows: Sequence[IntArray] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> list[NetworkT]:
    """Fit many neural estimators, each to its own rows, with as few stacked trainings as possible.

    Use this function to fit folds, candidates of a search, seeds, losses or simulations together. This takes
    a fraction of the time of separate fits. Estimators are trained together if their layers and training
    parameters are equal. Losses, learning rates and random states may differ.

    Parameters
    ----------
    estimators : sequence of K neural estimators
        Estimators of any class of `skuq.neural` except `ProbabilisticNet`. Their clones are fitted.
    X : array-like or DataFrame of n rows
        Features of all fits.
    y : array-like of shape (n,)
        Target of all fits.
    rows : sequence of K ndarrays, or None, default=None
        Row numbers or a boolean mask for each estimator. None uses all rows for all estimators.
    sample_weight : array-like of shape (n,) or None, default=None
        Number of repetitions of each row.

    Returns
    -------
    fitted : list of K estimators
        Fitted clones. Each clone equals the result of ``fit`` on its rows, up to rounding errors. If a
        `module` draws random numbers from torch in training (for example, for dropout), the results also
        differ by chance, because estimators that are trained together share torch's random generator.

    Raises
    ------
    TypeError
        If an estimator is not from `skuq.neural`, or if it is a `ProbabilisticNet`.
    ValueError
        If the numbers of row sets and estimators differ, or if the lengths of X, y and weights differ.

    See Also
    --------
    skuq.model_selection.cross_val_predict_dist : Distributions for the tested rows of folds.

    Notes
    -----
    Cost: the memory contains the standardized rows of all fits that are trained together. About 40 networks
    use a processor core fully. With more networks, the training time is proportional to the number of
    networks.

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
            f"`rows` must contain one set of rows for each of the {len(estimators)} estimators, got "
            f"{len(rows)} sets. Use None to fit each estimator to all rows."
        )
    for estimator in estimators:
        if not isinstance(estimator, BaseNeuralEstimator):
            raise TypeError(
                "`estimators` must be estimators of skuq.neural other than ProbabilisticNet, got "
                f"{type(estimator).__name__}. Fit other estimators one by one."
            )
    return fit_clones(estimators, X, y, rows, sample_weight=sample_weight)
