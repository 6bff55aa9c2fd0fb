"""Forecasts whose targets are not observed yet."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from skuq._compat import safe_indexing
from skuq._typing import FloatArray, IntArray
from skuq._validation import as_float_array
from skuq.distributions import Distribution, concat


class PendingForecasts:
    """Queue of forecasts whose targets arrive late, or not at all.

    `add` stores the rows of a forecast until their targets are observed. `observe` returns the stored rows of
    the observed targets. Pass these rows to `partial_fit` of a regressor or a recalibrator, or to a monitor.
    A target is identified by its time and its series. The queue can be pickled.

    See Also
    --------
    skuq.multivariate.MultiOutputUncertaintyRegressor.partial_fit : One calibration per horizon.
    skuq.conformal.ConformalRegressor.partial_fit : Intervals that adapt.
    skuq.recalibration.OnlineRecalibrator : Distributions that adapt.

    Notes
    -----
    For a late target, `partial_fit` of a regressor uses the forecast with the current calibration, not with
    the calibration at the time of the forecast. Therefore, the calibration does not adapt twice to the same
    change.

    Cost: `add` and `observe` take constant time per target. The rows of one call of `add` are kept until the
    last of their targets is observed or discarded.

    Examples
    --------
    In each hour, the next three hours are forecast. The target of hour 2 belongs to the forecasts made in the
    hours 0 and 1:

    >>> import numpy as np
    >>> from skuq.monitoring import PendingForecasts
    >>> pending = PendingForecasts()
    >>> for hour in (0, 1):
    ...     features = np.array([[10.0 + hour]])
    ...     pending = pending.add(features, due=hour + np.array([[1, 2, 3]]))
    >>> X, y = pending.observe(7.5, time=2)
    >>> X
    array([[10.],
           [11.]])
    >>> y
    array([[nan, 7.5, nan],
           [7.5, nan, nan]])
    >>> len(pending)
    4
    """

    def __init__(self) -> None:
        self._blocks: dict[int, Any] = {}
        self._n_outstanding: dict[int, int] = {}
        # Block, row and column of each forecast that waits for a target.
        self._waiting: dict[tuple[Hashable, Hashable], list[tuple[int, int, int]]] = {}
        self._n_horizons: int | None = None
        self._n_blocks = 0

    def __len__(self) -> int:
        """Return the number of outstanding targets. A target counts once for each forecast."""
        return sum(self._n_outstanding.values())

    def __repr__(self) -> str:
        return f"PendingForecasts({len(self)} outstanding)"

    def add(self, rows: Any, due: Any, series: Any = None) -> Self:
        """Store forecasts until their targets are observed.

        Parameters
        ----------
        rows : array-like, DataFrame or sparse matrix of n rows, or Distribution of n rows
            Features of the forecasts, or the predicted distributions. All calls must pass the same kind.
        due : array-like of shape (n,) or (n, h)
            Time of the target of each row, such as a number, a string or a timestamp. With h columns, each
            row is a forecast of h targets, for example at h horizons.
        series : array-like of shape (n,), or one label, default=None
            Series of each row, if several series are forecast.

        Returns
        -------
        self : object
            The queue.

        Raises
        ------
        TypeError
            If the kind of rows differs from the earlier calls.
        ValueError
            If lengths differ, if a time is missing, or if the number of columns of `due` differs from the
            earlier calls.
        """
        block = _read_rows(rows)
        n = len(block) if isinstance(block, Distribution) else block.shape[0]
        self._check_kind(block)
        times = np.asarray(due)
        n_horizons = times.shape[1] if times.ndim == 2 else 0
        if times.ndim not in (1, 2) or len(times) != n or times.shape[-1] == 0:
            raise ValueError(
                f"`due` must have shape ({n},) or ({n}, h), with one row per forecast, got {times.shape}."
            )
        if self._n_horizons not in (None, n_horizons):
            first = f"(n, {self._n_horizons})" if self._n_horizons else "(n,)"
            raise ValueError(f"`due` must have shape {first}, as in the first call, got {times.shape}.")
        width = max(n_horizons, 1)
        labels = _labels(times.ravel(), "due", width)
        names = _series(series, n)
        self._n_horizons, number = n_horizons, self._n_blocks
        self._blocks[number], self._n_outstanding[number] = block, n * width
        for position, time in enumerate(labels):
            row, column = divmod(position, width)
            self._waiting.setdefault((names[row], time), []).append((number, row, column))
        self._n_blocks += 1
        return self

    def observe(self, y: Any, time: Any, series: Any = None) -> tuple[Any, FloatArray]:
        """Return the stored rows whose targets are observed, with these targets.

        Parameters
        ----------
        y : float or array-like of shape (m,)
            Observed targets. NaN means that the target will never be observed. Its forecasts are then
            discarded.
        time : label or array-like of shape (m,)
            Time of each target.
        series : label or array-like of shape (m,), default=None
            Series of each target.

        Returns
        -------
        rows : array, DataFrame, sparse matrix or Distribution of k rows, or None
            Stored rows with at least one of these targets, in the order of the targets. None if there are
            no such rows, for example for the first targets of a series.
        y : ndarray of shape (k,) or (k, h)
            Targets of the returned rows. With h horizons, the targets that are not passed in this call are
            NaN.

        Raises
        ------
        ValueError
            If a target is infinite, or if lengths differ. In this case, the queue is not changed.
        """
        values = np.atleast_1d(as_float_array(y, "y"))
        if values.ndim != 1 or np.isinf(values).any():
            raise ValueError(f"`y` must be a number or a 1-D array, finite or NaN, got {y!r}.")
        times = _labels(np.atleast_1d(np.asarray(time)), "time")
        if len(times) != len(values):
            raise ValueError(
                f"`time` must have shape ({len(values)},), one time per target, got ({len(times)},)."
            )
        names = _series(series, len(values))
        width = max(self._n_horizons or 0, 1)
        found: dict[tuple[int, int], FloatArray] = {}
        for value, key in zip(values.tolist(), zip(names, times, strict=True), strict=True):
            for number, row, column in self._release(key, forget=np.isnan(value)):
                found.setdefault((number, row), np.full(width, np.nan))[column] = value
        rows = self._take(list(found))
        self._forget_finished()
        observed = np.array(list(found.values())).reshape(len(found), width)
        return rows, observed if self._n_horizons else observed.ravel()

    def discard(self, before: Any) -> Self:
        """Discard all forecasts whose targets lie before a time and will not be observed.

        Parameters
        ----------
        before : label
            Time of the same type as the times passed to `add`.

        Returns
        -------
        self : object
            The queue.
        """
        (limit,) = _labels(np.atleast_1d(np.asarray(before)), "before")
        for key in [key for key in self._waiting if key[1] < limit]:  # type: ignore[operator]
            self._release(key, forget=True)
        self._forget_finished()
        return self

    def _release(self, key: tuple[Hashable, Hashable], *, forget: bool) -> list[tuple[int, int, int]]:
        """Remove the forecasts of one target from the queue, and return them unless ``forget``."""
        released = self._waiting.pop(key, [])
        for number, _, _ in released:
            self._n_outstanding[number] -= 1
        return [] if forget else released

    def _take(self, places: list[tuple[int, int]]) -> Any:
        """Return the stored rows at the given places (block and row), in this order."""
        if not places:
            return None
        numbers, rows = np.array(places).T
        parts, order = [], []
        for number in dict.fromkeys(numbers.tolist()):
            inside: IntArray = np.flatnonzero(numbers == number)
            parts.append(safe_indexing(self._blocks[number], rows[inside]))
            order.append(inside)
        return safe_indexing(_joined(parts), np.argsort(np.concatenate(order), kind="stable"))

    def _forget_finished(self) -> None:
        for number in [number for number, n in self._n_outstanding.items() if n == 0]:
            del self._blocks[number], self._n_outstanding[number]

    def _check_kind(self, block: Any) -> None:
        first = next(iter(self._blocks.values()), block)
        if _kind(block) is not _kind(first):
            raise TypeError(
                f"`rows` must be of the same kind in all calls, got {type(block).__name__} after "
                f"{type(first).__name__}."
            )


def _read_rows(rows: Any) -> Any:
    if sparse.issparse(rows):
        matrix: Any = rows  # The base class of sparse matrices in scipy-stubs has no `tocsr`.
        return matrix.tocsr()
    if isinstance(rows, Distribution | pd.DataFrame | pd.Series):
        return rows
    if hasattr(rows, "columns"):
        raise TypeError(
            f"`rows` must be an array, a pandas DataFrame, a sparse matrix or a Distribution, got "
            f"{type(rows)}. Convert a data frame of another package with its method `to_pandas()`."
        )
    array = np.asarray(rows)
    if array.ndim == 0:
        raise ValueError(f"`rows` must be an array with at least one dimension, got {rows!r}.")
    return array


def _kind(block: Any) -> Any:
    kinds = (Distribution, pd.DataFrame, pd.Series, np.ndarray)
    return next((kind for kind in kinds if isinstance(block, kind)), None)


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Distribution):
        return concat(parts)
    if isinstance(parts[0], pd.DataFrame | pd.Series):
        return pd.concat(parts)
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def _labels(values: np.ndarray, name: str, width: int = 1) -> list[Hashable]:
    """Return the values as Python objects, such as timestamps. Raise an error for missing values."""
    index = pd.Index(values)
    if index.hasnans:
        place = int(np.argmax(index.isna()))
        raise ValueError(
            f"`{name}` must have no missing values, got {values[place]} at row {place // width}."
        )
    return list(index.tolist())


def _series(series: Any, n: int) -> list[Hashable]:
    if series is None:
        return [None] * n
    names = np.asarray(series)
    if names.ndim == 0:
        return _labels(np.atleast_1d(names), "series") * n
    if names.shape != (n,):
        raise ValueError(f"`series` must be one label or have shape ({n},), got {names.shape}.")
    return _labels(names, "series")
