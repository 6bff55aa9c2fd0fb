"""Rows that are held out of training, to score epochs or to calibrate by."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from skuq._sklearn_compat import splitter_needs_groups
from skuq._typing import BoolArray, IntArray
from skuq.prediction._cross_fit import resolve_cv, split_rows
from skuq.prediction._row_sets import stratified_split
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["hold_out"]


def hold_out(validation_size: Any, data: TrainingData, seed: int, *, by_class: bool = False) -> BoolArray:
    """Return which rows are held out.

    Parameters
    ----------
    validation_size : float, int, splitter or iterable
        A share or a number of rows, drawn at random among those with a positive weight; or a splitter,
        whose first test rows are taken.
    data : TrainingData
        All rows.
    seed : int
        Seed of the draw.
    by_class : bool, default=False
        Whether the target is a class; then rows are drawn with the shares of the classes of all rows.
    """
    n = len(data)
    usable = np.arange(n) if data.sample_weight is None else np.flatnonzero(data.sample_weight)
    if len(usable) < 2:
        raise ValueError(
            "rows must be held out of training, but only one has a positive weight. Use more rows, or "
            "settings that hold none out."
        )
    held_out = np.zeros(n, dtype=bool)
    if isinstance(validation_size, numbers.Real) and not isinstance(validation_size, bool | np.bool_):
        size = _n_held_out(validation_size, len(usable))
        if by_class:
            held_out[usable[stratified_split(data.y[usable], size, seed)[1]]] = True
            return held_out
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(n,)))
        held_out[rng.permutation(usable)[:size]] = True
        return held_out
    held_out[_first_test_rows(_checked_splitter(validation_size), data)] = True
    if not held_out[usable].any():
        raise ValueError(
            "`validation_size` must hold out rows that count, but its first test rows all have weight 0."
        )
    if held_out[usable].all():
        raise ValueError(
            "`validation_size` must leave rows to train on, but its first test rows are all that count."
        )
    return held_out


def _n_held_out(size: numbers.Real, n_usable: int) -> int:
    """Return a number of rows as it is, and that of a share: at least one and at most all but one."""
    if isinstance(size, numbers.Integral):
        if not 0 < int(size) < n_usable:
            raise ValueError(
                f"`validation_size` must lie between 1 and {n_usable - 1} as a number of rows, so that rows "
                f"are left to train on, got {size}."
            )
        return int(size)
    share = float(size)
    if not 0 < share < 1:
        raise ValueError(f"`validation_size` must lie strictly between 0 and 1 as a share, got {share}.")
    return int(np.clip(round(share * n_usable), 1, n_usable - 1))


def _checked_splitter(validation_size: Any) -> Any:
    """Return a splitter, or an iterable of row numbers, that needs no groups."""
    splits = hasattr(validation_size, "split") or isinstance(validation_size, Iterable)
    if isinstance(validation_size, str) or not splits:
        raise ValueError(
            "`validation_size` must be a share of the rows such as 0.2, a number of rows, or a splitter, got "
            f"{validation_size!r}."
        )
    if splitter_needs_groups(validation_size):
        raise ValueError(
            "`validation_size` must be a splitter that needs no groups, got "
            f"{type(validation_size).__name__}. Give the rows that it tests: validation_size=[(train, test)]."
        )
    return validation_size


def _first_test_rows(splitter: Any, data: TrainingData) -> IntArray:
    """Return the first rows that a splitter tests; its errors are about ``validation_size``, not ``cv``."""
    try:
        return split_rows(resolve_cv(splitter), data.X, data.y, None)[0][1]
    except ValueError as error:
        raise ValueError(str(error).replace("`cv`", "`validation_size`")) from error
