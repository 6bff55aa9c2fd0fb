"""Groups of rows (Mondrian categories).

Scores are ranked within a group, so that the coverage is guaranteed in each group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skuq._ranks import WeightedRanks
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_integer, check_n_bins, check_option, check_unused
from skuq.distributions import Concatenated, ConformalPredictive, Distribution

RARE_GROUPS = ("raise", "pool")

_SAME = 1e-9
"""Two scales count as equal if their relative difference is smaller than this value."""


def check_groups(owner: Any) -> tuple[str, int]:
    rare_groups: str = check_option(owner.rare_groups, "rare_groups", RARE_GROUPS)
    min_group_size = check_integer(owner.min_group_size, "min_group_size")
    if owner.group_by is None:
        check_unused(owner, ("rare_groups", "min_group_size"), "without `group_by`", "There are no groups.")
    return rare_groups, min_group_size


def read_labels(labels: Any, n: int) -> np.ndarray:
    """Return the result of ``group_by`` as an array of n labels. Raise an error if a label is missing."""
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n,):
        raise ValueError(f"`group_by` must give one label per row, shape ({n},), got shape {array.shape}.")
    missing = pd.isna(array)
    if missing.any():
        raise ValueError(
            f"`group_by` must give a label for every row, got {array[missing][0]} at row "
            f"{int(np.argmax(missing))}. Return a separate label for missing values."
        )
    return array


class Pooled(Enum):
    """Label of rare groups, which are calibrated with all rows. An Enum is identical after unpickling."""

    ALL_LABELS = "all labels"


ALL_LABELS = Pooled.ALL_LABELS


class Part(NamedTuple):
    """Label of one group, and the indices of its new rows and its calibration rows."""

    label: Hashable
    new: IntArray | slice
    calibrating: IntArray | slice


ALL_ROWS = Part(ALL_LABELS, slice(None), slice(None))
"""The single part that is used if there are no groups."""


class Groups:
    """Groups of calibration rows.

    New rows are calibrated with the calibration rows that have the same label.
    """

    def __init__(
        self,
        labels: np.ndarray,
        repetitions: FloatArray | None,
        *,
        rare_groups: str,
        min_group_size: int,
    ) -> None:
        self.rare_groups, self.min_group_size = rare_groups, min_group_size
        self._codes, unique = pd.factorize(labels, sort=False)
        counts = np.bincount(self._codes, weights=repetitions, minlength=len(unique))
        self.sizes: dict[Any, float] = dict(zip(unique.tolist(), counts.tolist(), strict=True))
        self._labels = pd.Index(unique)
        self._rare = counts < min_group_size
        if rare_groups == "raise" and self._rare.any():
            self._refuse(unique[int(np.argmax(self._rare))])

    def partition(self, labels: np.ndarray) -> Iterator[Part]:
        number_of = self._number_of(labels)
        for number in np.unique(number_of).tolist():
            calibrating = slice(None) if number < 0 else np.flatnonzero(self._codes == number)
            label = ALL_LABELS if number < 0 else self._labels[number]
            yield Part(label, np.flatnonzero(number_of == number), calibrating)

    def _number_of(self, labels: np.ndarray) -> IntArray:
        codes = np.asarray(self._labels.get_indexer(pd.Index(labels)), dtype=np.intp)
        rare = (codes < 0) | self._rare[np.maximum(codes, 0)]
        if self.rare_groups == "raise" and rare.any():
            row = int(np.argmax(rare))
            self._refuse(labels[row], f" at row {row}")
        return np.where(rare, -1, codes)

    def _refuse(self, label: Any, where: str = "") -> None:
        label = getattr(label, "item", lambda: label)()
        raise ValueError(
            f"`group_by` must return labels with at least {self.min_group_size} calibration rows "
            f"(`min_group_size`), got the label {label!r}{where} with {self.sizes.get(label, 0):g} "
            "calibration rows. Use larger groups, a smaller `min_group_size`, or rare_groups='pool', "
            "which calibrates rare groups with the scores of all rows."
        )


def grouped_dist(
    groups: Groups | None,
    labels: np.ndarray | None,
    scores: FloatArray,
    weights: FloatArray | None,
    loc: FloatArray,
    scale: FloatArray,
    test_weight: ArrayLike = 1.0,
    *,
    symmetric: bool,
) -> Distribution:
    """Return the conformal predictive distribution of each new row in the order of the rows."""
    weight_of_new = np.broadcast_to(np.asarray(test_weight, dtype=np.float64), loc.shape)
    parts, rows, positions = [], [], np.arange(len(loc))
    for _, new, calibrating in [ALL_ROWS] if groups is None or labels is None else groups.partition(labels):
        weights_of_part = None if weights is None else weights[calibrating]
        parts.append(
            ConformalPredictive(
                loc[new], scale[new], scores[calibrating], weights_of_part, weight_of_new[new], symmetric
            )
        )
        rows.append(positions[new])
    if len(parts) == 1:
        return parts[0]
    # np.argsort returns the inverse permutation.
    return Concatenated(parts, np.argsort(np.concatenate(rows)))


def equal_count_edges(scale: FloatArray, n_bins: int, weights: FloatArray | None) -> FloatArray:
    # An edge is halfway between two scales, so that rounding cannot move a row to another bin.
    check_n_bins(n_bins, scale.size, "group_by")
    ranks = WeightedRanks(scale, weights)
    # This is the largest scale of each bin.
    last = ranks.quantile(ranks.total * np.arange(1, n_bins) / n_bins)
    # This is the index of the next larger scale.
    after = np.searchsorted(ranks.values, last * (1 + _SAME), side="right")
    inner = after < len(ranks)  # There is no edge above the largest scale.
    low, high = last[inner], ranks.values[after[inner]]
    return np.unique(low + (high - low) / 2)
