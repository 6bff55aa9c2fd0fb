"""Held-out rows, for the scores of epochs or for calibration."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from skuq._fitting.cross_fit import resolve_cv, split_rows
from skuq._fitting.row_sets import stratified_split
from skuq._fitting.training_data import TrainingData
from skuq._sklearn_compat import splitter_needs_groups
from skuq._typing import BoolArray, IntArray


def hold_out(held_out_size: Any, data: TrainingData, seed: int, *, by_class: bool = False) -> BoolArray:
    """Return the mask of the held-out rows. With ``by_class``, the draw is stratified by class."""
    n = len(data)
    usable = np.arange(n) if data.sample_weight is None else np.flatnonzero(data.sample_weight)
    if len(usable) < 2:
        raise ValueError(
            "at least two rows must have a positive weight, because rows are held out of training. Got one "
            "row. Use more rows, or settings that do not hold out rows."
        )
    held_out = np.zeros(n, dtype=bool)
    if isinstance(held_out_size, numbers.Real) and not isinstance(held_out_size, bool | np.bool_):
        size = _n_held_out(held_out_size, len(usable))
        if by_class:
            held_out[usable[stratified_split(data.y[usable], size, seed)[1]]] = True
            return held_out
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(n,)))
        held_out[rng.permutation(usable)[:size]] = True
        return held_out
    held_out[_first_test_rows(_checked_splitter(held_out_size), data)] = True
    if not held_out[usable].any():
        raise ValueError(
            "`held_out_size` must hold out rows with positive weight, but all test rows in the first "
            "split of the splitter have weight 0."
        )
    if held_out[usable].all():
        raise ValueError(
            "`held_out_size` must leave rows with positive weight for training, but the first split of the "
            "splitter puts all these rows into the test set."
        )
    return held_out


def _n_held_out(size: numbers.Real, n_usable: int) -> int:
    if isinstance(size, numbers.Integral):
        if not 0 < int(size) < n_usable:
            raise ValueError(
                f"`held_out_size` must lie between 1 and {n_usable - 1} as a number of rows, got {size}. "
                "At least one row must remain for training."
            )
        return int(size)
    share = float(size)
    if not 0 < share < 1:
        raise ValueError(f"`held_out_size` must lie strictly between 0 and 1 as a share, got {share}.")
    return int(np.clip(round(share * n_usable), 1, n_usable - 1))


def _checked_splitter(held_out_size: Any) -> Any:
    """Return the splitter or the iterable. Raise an error if it is neither, or if it needs groups."""
    splits = hasattr(held_out_size, "split") or isinstance(held_out_size, Iterable)
    if isinstance(held_out_size, str) or not splits:
        raise ValueError(
            "`held_out_size` must be a share of the rows such as 0.2, a number of rows, or a splitter, got "
            f"{held_out_size!r}."
        )
    if splitter_needs_groups(held_out_size):
        raise ValueError(
            "`held_out_size` must be a splitter that does not need groups, got "
            f"{type(held_out_size).__name__}. Pass row numbers: held_out_size=[(train, test)]."
        )
    return held_out_size


def _first_test_rows(splitter: Any, data: TrainingData) -> IntArray:
    name = "held_out_size"
    return split_rows(resolve_cv(splitter, name=name), data.X, data.y, None, name=name)[0][1]
