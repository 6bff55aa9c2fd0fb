"""Metrics and predictions of dask collections.

Metrics and predictions are computed one partition at a time. They need the extra ``dask``.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skuq._typing import FloatArray
from skuq._validation import check_integer
from skuq.distributions import Normal, Quantiles
from skuq.monitoring import MetricAccumulator

if TYPE_CHECKING:
    from dask.delayed import Delayed


from typing import TYPE_CHECKING

from skuq._typing import ArrayLike
from skuq._validation import check_probabilities
from skuq.prediction import predict_dist

if TYPE_CHECKING:
    from dask.delayed import Delayed


Column = str | int
Forecast = Sequence[Column] | Mapping[float, Column] | Callable[[Any], Any]


def accumulate(
    accumulator: MetricAccumulator,
    data: Any,
    y: Column,
    y_pred: Forecast,
    *,
    sample_weight: Column | None = None,
    split_every: int = 8,
) -> Delayed:
    """Accumulate the metrics of all rows of a dask collection, one partition at a time.

    Use this function to evaluate forecasts that are stored on several computers or do not fit into memory.
    Each task reads and accumulates one partition. An accumulator needs about a megabyte or less. The
    accumulators are merged in a tree. The result contains the metrics, the curves and the report of all rows.

    Parameters
    ----------
    accumulator : MetricAccumulator
        Accumulator without rows. It is not changed. The result has the same parameters.
    data : dask DataFrame, dask array of shape (n, p), or list of Delayed
        Rows in partitions. Each element of a list is a DataFrame or a two-dimensional array.
    y : str or int
        Column of the observed targets: a name, or the number of a column of an array.
    y_pred : pair of columns, mapping of level to column, or callable
        Forecast of every target. A pair contains the columns of the means and of the standard deviations of
        normal forecasts. A mapping contains, for each level, the column of the quantiles. A callable gets a
        partition and returns its forecasts, such as ``lambda part: predict_dist(model, part[features])``.
    sample_weight : str or int, default=None
        Number of repetitions of each row. Name or number of a column.
    split_every : int, default=8
        Number of accumulators that one task merges. At least 2.

    Returns
    -------
    total : Delayed
        The accumulator of all rows. Call its method ``compute``.

    See Also
    --------
    skuq.monitoring.MetricAccumulator : The accumulator of one partition, and its metrics.
    predict : Columns of forecasts.

    Notes
    -----
    Partitions should have at least 100 000 rows, because each partition adds a few milliseconds. If a worker
    fails, its partitions are read again.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from dask import delayed
    >>> from skuq.integrations.dask import accumulate
    >>> from skuq.monitoring import MetricAccumulator
    >>> @delayed
    ... def part(seed):  # for example, reads a file
    ...     rng = np.random.default_rng(seed)
    ...     frame = pd.DataFrame({"loc": rng.normal(size=20_000), "scale": 1.0})
    ...     return frame.assign(y=rng.normal(frame["loc"]))
    >>> total = accumulate(
    ...     MetricAccumulator("crps", "picp"), [part(seed) for seed in range(3)], "y", ("loc", "scale")
    ... )
    >>> {name: round(value, 2) for name, value in total.compute().result().items()}
    {'crps': 0.56, 'picp': 0.9}
    """
    check_dask("skuq.integrations.dask.accumulate")
    from dask.delayed import delayed

    _check_empty(accumulator)
    partitions = partitions_of(data)
    _check_columns(data, [y, *_columns_of(y_pred), *([] if sample_weight is None else [sample_weight])])
    size = check_integer(split_every, "split_every", 2)
    # The accumulator and the forecast are separate nodes of the graph. Otherwise, each task would contain a
    # copy of the model.
    empty, forecast = (delayed(each, pure=False, traverse=False) for each in (accumulator, y_pred))
    update, merge = delayed(_updated), delayed(_merged)
    parts: list[Delayed] = [update(empty, part, y, forecast, sample_weight) for part in partitions]
    while len(parts) > 1:
        parts = [merge(parts[start : start + size]) for start in range(0, len(parts), size)]
    return parts[0]


def _check_empty(accumulator: MetricAccumulator) -> None:
    if not isinstance(accumulator, MetricAccumulator):
        raise TypeError(f"`accumulator` must be a MetricAccumulator, got {type(accumulator).__name__}.")
    if accumulator.n_rows:
        raise ValueError(
            f"`accumulator` must not have rows, got {accumulator.n_rows} rows. These rows would be counted "
            f"once per partition. Pass a new accumulator, and merge `accumulator` into the result."
        )


def _columns_of(y_pred: Any) -> list[Column]:
    if callable(y_pred):
        return []
    if isinstance(y_pred, Mapping):
        return list(y_pred.values())
    if isinstance(y_pred, str) or not isinstance(y_pred, Sequence) or len(y_pred) != 2:
        raise TypeError(
            "`y_pred` must be the columns of means and standard deviations, a mapping from levels to columns "
            f"of quantiles, or a function of a partition, got {y_pred!r}."
        )
    return list(y_pred)


def _check_columns(data: Any, names: Sequence[Column]) -> None:
    missing = [name for name in names if hasattr(data, "columns") and name not in data.columns]
    if missing:
        raise ValueError(f"`data` must have the column {missing[0]!r}, got {list(data.columns)}.")


def _updated(
    empty: MetricAccumulator, part: Any, y: Column, y_pred: Forecast, sample_weight: Column | None
) -> MetricAccumulator:
    if len(part) == 0:
        return empty
    weight = None if sample_weight is None else _column(part, sample_weight)
    return copy.copy(empty).update(_column(part, y), _forecast(part, y_pred), weight)


def _forecast(part: Any, y_pred: Forecast) -> Any:
    if callable(y_pred):
        return y_pred(part)
    if isinstance(y_pred, Mapping):
        levels = sorted(y_pred)
        return Quantiles(levels, np.column_stack([_column(part, y_pred[level]) for level in levels]))
    return Normal(*(_column(part, name) for name in y_pred))


def _column(part: Any, name: Column) -> FloatArray:
    return np.asarray(part[name] if isinstance(part, pd.DataFrame) else part[:, name], dtype=np.float64)


def _merged(parts: Sequence[MetricAccumulator]) -> MetricAccumulator:
    """Return the sum of accumulators. The accumulators are not changed, because dask may use them again."""
    return functools.reduce(MetricAccumulator.merge, parts[1:], copy.copy(parts[0]))


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


def check_dask(caller: str) -> None:
    try:
        import dask  # noqa: F401 - only its presence is checked
    except ImportError as error:
        raise ImportError(f'{caller} needs dask: run `pip install "skuq[dask]"`.') from error


def check_one_block_of_columns(n_blocks: int, name: str) -> None:
    """Raise an error if the columns of an array are divided into several blocks."""
    if n_blocks != 1:
        raise ValueError(
            f"`{name}` must have all columns of a row in one block, got {n_blocks} blocks of columns. Call "
            f"`{name}.rechunk({{1: -1}})`."
        )


def partitions_of(data: Any) -> list[Delayed]:
    if isinstance(data, list | tuple):
        parts = list(data)
    elif hasattr(data, "to_delayed"):
        parts = data.to_delayed()
        if isinstance(parts, np.ndarray):
            if parts.ndim != 2:
                raise ValueError(f"`data` must have two dimensions, rows and columns, got {parts.ndim}.")
            check_one_block_of_columns(parts.shape[1], "data")
            parts = list(parts[:, 0])
    else:
        raise TypeError(
            "`data` must be a dask DataFrame, a dask array or a list of delayed partitions, got "
            f"{type(data).__name__}. For rows in memory, call `accumulator.update`."
        )
    if not parts:
        raise ValueError("`data` must have at least one partition, got none.")
    return parts
