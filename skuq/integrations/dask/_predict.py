"""Forecasts of a dask collection, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_probabilities
from skuq.integrations.dask._partitions import check_dask, check_one_block_of_columns
from skuq.prediction import predict_dist


def predict(estimator: Any, X: Any, *, levels: ArrayLike | None = None) -> Any:
    """Predict columns for a dask collection: mean and standard deviation, or quantiles.

    You can store the columns, and pass them to `accumulate` together with the targets.

    Parameters
    ----------
    estimator : estimator
        Any fitted estimator that `skuq.prediction.predict_dist` accepts. Each task predicts one partition.
        Therefore, set ``n_jobs=1`` in the estimator.
    X : dask DataFrame or dask array of shape (n, n_features)
        Features. The blocks of an array must contain all columns of their rows.
    levels : array-like of shape (k,), default=None
        Levels of the quantiles, in [0, 1]. None predicts the mean and the standard deviation.

    Returns
    -------
    columns : dask DataFrame or dask array
        Lazy collection with the type, the index and the partitions of X. A DataFrame has the columns "mean"
        and "std", or the levels as strings, such as "0.05". An array of shape (n, 2) or (n, k) has the same
        columns in this order.

    See Also
    --------
    accumulate : Metrics of forecasts. It also accepts a function that returns distributions.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skuq.integrations.dask import predict
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = BayesianRidge().fit(X, X[:, 0])
    >>> predict(model, da.from_array(X, chunks=(50, 2)), levels=[0.1, 0.5, 0.9]).compute().shape
    (100, 3)
    """
    check_dask("skuq.integrations.dask.predict")
    from dask.delayed import delayed

    grid = None if levels is None else np.atleast_1d(check_probabilities(levels, "levels"))
    names = ["mean", "std"] if grid is None else [repr(float(level)) for level in grid]
    # The model is a separate node of the graph. Otherwise, each task would contain a copy of the model.
    model = delayed(estimator, pure=False, traverse=False)
    if hasattr(X, "map_partitions"):
        meta = pd.DataFrame({name: np.empty(0) for name in names})
        return X.map_partitions(_predicted_frame, model, grid, names, meta=meta)
    if not hasattr(X, "map_blocks"):
        raise TypeError(
            f"`X` must be a dask DataFrame or a dask array, got {type(X).__name__}. For rows in memory, call "
            "`predict_dist`."
        )
    check_one_block_of_columns(X.numblocks[1], "X")
    chunks = (X.chunks[0], (len(names),))
    return X.map_blocks(_predicted, model, grid, dtype=np.float64, chunks=chunks, meta=np.empty((0, 0)))


def _predicted(part: Any, estimator: Any, levels: FloatArray | None) -> FloatArray:
    if len(part) == 0:
        return np.empty((0, 2 if levels is None else levels.size))
    dist = predict_dist(estimator, part)
    return np.column_stack([dist.mean(), dist.std()]) if levels is None else dist.quantile(levels)


def _predicted_frame(
    part: pd.DataFrame, estimator: Any, levels: FloatArray | None, names: Sequence[str]
) -> pd.DataFrame:
    return pd.DataFrame(_predicted(part, estimator, levels), index=part.index, columns=list(names))
