"""Metrics of a dask collection, with one accumulator per partition."""

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
from skuq.integrations.dask._partitions import check_dask, partitions_of
from skuq.monitoring import MetricAccumulator

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
