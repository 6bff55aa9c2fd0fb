"""Groups of rows (Mondrian categories).

Scores are ranked within a group, so that the coverage is guaranteed in each group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skuq._ranks import WeightedRanks
from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_integer, check_n_bins, check_option, check_unused
from skuq.distributions import Distribution
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._conformal_predictive import ConformalPredictive

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
    """Label of rare groups, which are calibrated with all rows. Pickling keeps the identity of an Enum."""

    ALL_LABELS = "all labels"


ALL_LABELS = Pooled.ALL_LABELS


class Part(NamedTuple):
    """Label of one group, and the indices of its new rows."""

    label: Hashable
    new: IntArray | slice


ALL_ROWS = Part(ALL_LABELS, slice(None))
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
        self._labels = labels
        codes, unique = pd.factorize(labels, sort=False)
        counts = np.bincount(codes, weights=repetitions, minlength=len(unique))
        self._set_sizes(dict(zip(unique.tolist(), counts.tolist(), strict=True)))

    def followed_by(
        self, labels: np.ndarray, repetitions: FloatArray, n_added: int, removed: np.ndarray
    ) -> Groups:
        """Return the groups after rows are added. The last ``n_added`` labels belong to the added rows."""
        joined = copy(self)
        joined.__dict__.pop("_rows_of_labels", None)
        joined._labels = labels
        sizes = dict(self.sizes)
        for label, n in zip(labels[-n_added:].tolist(), repetitions[-n_added:].tolist(), strict=True):
            sizes[label] = sizes.get(label, 0.0) + n
        for label in set(removed.tolist()):
            rows = [row for row, each in enumerate(labels) if each == label]
            sizes.pop(label)
            if rows:
                sizes[label] = float(repetitions[rows].sum())
        joined._set_sizes(sizes)
        return joined

    def _set_sizes(self, sizes: dict[Any, float]) -> None:
        self.sizes = sizes
        if self.rare_groups == "raise":
            for label in filter(self._is_rare, sizes):
                self._refuse(label)

    def _is_rare(self, label: Any) -> bool:
        return self.sizes.get(label, 0.0) < self.min_group_size

    def partition(self, labels: np.ndarray) -> Iterator[Part]:
        codes, unique = pd.factorize(labels, sort=False)
        names = unique.tolist()
        rare = np.array([self._is_rare(label) for label in names], dtype=bool)
        if self.rare_groups == "raise" and rare.any():
            row = int(np.argmax(rare[codes]))
            self._refuse(labels[row], f" at row {row}")
        for number in np.flatnonzero(~rare).tolist():
            yield Part(names[number], np.flatnonzero(codes == number))
        if rare.any():
            yield Part(ALL_LABELS, np.flatnonzero(rare[codes]))

    def calibration_rows(self, label: Hashable) -> IntArray | slice:
        """Return the indices of the calibration rows with this label."""
        return slice(None) if label is ALL_LABELS else self._rows_of_labels[label]

    @cached_property
    def _rows_of_labels(self) -> dict[Hashable, IntArray]:
        codes, unique = pd.factorize(self._labels, sort=False)
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        return dict(zip(unique.tolist(), rows, strict=True))

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
    for label, new in [ALL_ROWS] if groups is None or labels is None else groups.partition(labels):
        calibrating = slice(None) if groups is None else groups.calibration_rows(label)
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
