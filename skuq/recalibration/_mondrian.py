"""Mondrian categories: conformal scores kept apart by group, each group with a guarantee of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_integer, check_n_bins, check_option
from skuq.distributions import Concatenated, ConformalPredictive, Distribution
from skuq.distributions._numerics.ranks import WeightedRanks

RARE_GROUPS = ("raise", "pool")

_SAME = 1e-9
"""Scales that differ relatively by less are one: their difference may be rounding alone."""


def check_groups(rare_groups: Any, min_group_size: Any) -> tuple[str, int]:
    """Return the two parameters that say what becomes of small groups, checked."""
    check_option(rare_groups, "rare_groups", RARE_GROUPS)
    return rare_groups, check_integer(min_group_size, "min_group_size")


def read_labels(labels: Any, n: int) -> np.ndarray:
    """Return what ``group_by`` gave as an array of n labels, none of them missing."""
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n,):
        raise ValueError(f"`group_by` must give one label a row, shape ({n},), got shape {array.shape}.")
    missing = pd.isna(array)
    if missing.any():
        raise ValueError(
            f"`group_by` must give a label for every row, got {array[missing][0]} at row "
            f"{int(np.argmax(missing))}. Give missing values a label of their own."
        )
    return array


class Groups:
    """Which calibration rows serve which new rows: those of the same label.

    Parameters
    ----------
    labels : ndarray of shape (n,) or None
        Group of each calibration row; one group if None.
    repetitions : ndarray of shape (n,) or None
        How many rows each stands for.
    rare_groups : {"raise", "pool"}
        What becomes of a label unseen or of fewer than ``min_group_size`` rows: an error, or the rows of
        all groups together.
    min_group_size : int
        Rows below which a group counts as rare.

    Attributes
    ----------
    sizes : dict
        Number of calibration rows of each label.
    """

    def __init__(
        self,
        labels: np.ndarray | None,
        repetitions: FloatArray | None,
        *,
        rare_groups: str,
        min_group_size: int,
    ) -> None:
        self.rare_groups, self.min_group_size = rare_groups, min_group_size
        self.sizes: dict[Any, float] = {}
        if labels is None:
            return
        self._codes, unique = pd.factorize(labels, sort=False)
        counts = np.bincount(self._codes, weights=repetitions, minlength=len(unique))
        self.sizes = dict(zip(unique.tolist(), counts.tolist(), strict=True))
        self._labels = pd.Index(unique)
        self._rare = counts < min_group_size
        if rare_groups == "raise" and self._rare.any():
            self._refuse(unique[int(np.argmax(self._rare))])

    def partition(self, labels: np.ndarray | None) -> Iterator[Part]:
        """Yield the new rows of each group, given the label of each, or None where there are no groups."""
        if labels is None:
            yield Part(-1, slice(None), slice(None))
            return
        number_of = self._number_of(labels)
        for number in np.unique(number_of).tolist():
            calibrating = slice(None) if number < 0 else np.flatnonzero(self._codes == number)
            yield Part(number, np.flatnonzero(number_of == number), calibrating)

    def _number_of(self, labels: np.ndarray) -> IntArray:
        """Return the group of each row, -1 where all groups are pooled."""
        codes = np.asarray(self._labels.get_indexer(pd.Index(labels)), dtype=np.intp)
        rare = (codes < 0) | self._rare[np.maximum(codes, 0)]
        if self.rare_groups == "raise" and rare.any():
            row = int(np.argmax(rare))
            self._refuse(labels[row], f" at row {row}")
        return np.where(rare, -1, codes)

    def _refuse(self, label: Any, where: str = "") -> None:
        label = getattr(label, "item", lambda: label)()
        raise ValueError(
            f"`group_by` gives the label {label!r}{where}, which has {self.sizes.get(label, 0):g} "
            f"calibration rows; `min_group_size` is {self.min_group_size}. Use larger groups, lower "
            "`min_group_size`, or rare_groups='pool', which calibrates such rows by all groups together."
        )


class Part(NamedTuple):
    """New rows of one group, and their calibration rows."""

    number: int
    """Of the group; -1 for all rows together."""
    new: IntArray | slice
    calibrating: IntArray | slice


def grouped_dist(
    groups: Groups,
    labels: np.ndarray | None,
    scores: FloatArray,
    mass: FloatArray | None,
    loc: FloatArray,
    scale: FloatArray,
    unseen: ArrayLike = 1.0,
    *,
    symmetric: bool,
) -> Distribution:
    """Return the conformal predictive distribution of each new row, in the order of the rows.

    Parameters
    ----------
    groups : Groups
        Of the calibration rows.
    labels : ndarray of shape (m,) or None
        Groups of the new rows.
    scores, mass : ndarray of shape (n,)
        Standardised residuals, absolute ones if ``symmetric``, and their weights, all 1 if None.
    loc, scale : ndarray of shape (m,)
        What is predicted for the new rows.
    unseen, symmetric : object
        As in `ConformalPredictive`.
    """
    weight_of_new = np.broadcast_to(np.asarray(unseen, dtype=np.float64), loc.shape)
    parts, rows, places = [], [], np.arange(len(loc))
    for _, new, calibrating in groups.partition(labels):
        weights = None if mass is None else mass[calibrating]
        parts.append(
            ConformalPredictive(
                loc[new], scale[new], scores[calibrating], weights, weight_of_new[new], symmetric
            )
        )
        rows.append(places[new])
    if len(parts) == 1:
        return parts[0]
    return Concatenated(parts, np.argsort(np.concatenate(rows)))


def equal_count_edges(scale: FloatArray, n_bins: int, weights: FloatArray | None) -> FloatArray:
    """Return increasing edges between bins of about equal weight; equal scales share a bin.

    An edge lies halfway between two scales, so that rounding of either moves no row. There are fewer
    bins than requested where scales are tied.
    """
    check_n_bins(n_bins, scale.size, "group_by")
    ranks = WeightedRanks(scale, weights)
    last = ranks.reach(ranks.total * np.arange(1, n_bins) / n_bins)  # the largest scale of each bin but one
    after = np.searchsorted(ranks.values, last * (1 + _SAME), side="right")
    inner = after < len(ranks)
    low, high = last[inner], ranks.values[after[inner]]
    return np.unique(low + (high - low) / 2)
