"""Trees whose leaves store the distribution of the levels of their rows.

The targets of a tree are indicators. There is one indicator per threshold: whether the level is at most the
threshold. The splits minimize the sum of the squared errors, which approximates the CRPS of the levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import ExtraTreeRegressor

from skuq._fitting.seeds import MAX_SEED
from skuq._typing import FloatArray

THRESHOLDS = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99])
"""Thresholds for the levels. For each threshold, a leaf stores the share of its rows whose level is at most
the threshold."""

_MOST_ROWS = 5000
"""A tree is fitted to at most this number of rows."""

_SMALLEST_LEAF = 3.0

_BLOCK = 1 << 20
"""A block contains at most this number of pairs of a row and a tree."""


@dataclass(frozen=True, eq=False)
class ShareTrees:
    """Trees whose nodes are numbered consecutively over all trees. The child of a leaf is the leaf itself."""

    roots: NDArray[np.int32]
    depth: int
    feature: NDArray[np.int16]
    threshold: NDArray[np.int16]  # rows with at most this value go to the left child
    children: NDArray[np.int32]  # left and right child, shape (n_nodes, 2)
    leaf: NDArray[np.int32]  # index of each leaf in ``shares``
    shares: NDArray[np.float16]  # share of the rows of a leaf whose level is at most each threshold

    @classmethod
    def of_fitted(cls, fitted: Sequence[ExtraTreeRegressor]) -> Self:
        trees = [one.tree_ for one in fitted]
        counts = [tree.node_count for tree in trees]
        roots = np.cumsum([0, *counts[:-1]])
        first = np.repeat(roots, counts)
        node = np.arange(sum(counts))
        own = np.stack(
            [
                np.concatenate([getattr(tree, side) for tree in trees])
                for side in ("children_left", "children_right")
            ],
            axis=1,
        )
        is_leaf = own[:, 0] < 0
        children = np.where(is_leaf[:, np.newaxis], node[:, np.newaxis], own + first[:, np.newaxis])
        feature, threshold, values = (
            np.concatenate([getattr(tree, name) for tree in trees])
            for name in ("feature", "threshold", "value")
        )
        return cls(
            roots.astype(np.int32),
            max(tree.max_depth for tree in trees),
            np.where(is_leaf, 0, feature).astype(np.int16),
            np.floor(threshold).astype(np.int16),
            children.astype(np.int32),
            (np.cumsum(is_leaf) - 1).astype(np.int32),
            values[is_leaf, :, 0].astype(np.float16),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        nodes = np.cumsum([0, *(len(part.feature) for part in parts[:-1])])
        leaves = np.cumsum([0, *(len(part.shares) for part in parts[:-1])])
        return cls(
            np.concatenate([part.roots + first for part, first in zip(parts, nodes, strict=True)]).astype(
                np.int32
            ),
            max(part.depth for part in parts),
            np.concatenate([part.feature for part in parts]),
            np.concatenate([part.threshold for part in parts]),
            np.concatenate([part.children + first for part, first in zip(parts, nodes, strict=True)]).astype(
                np.int32
            ),
            np.concatenate([part.leaf + first for part, first in zip(parts, leaves, strict=True)]).astype(
                np.int32
            ),
            np.concatenate([part.shares for part in parts]),
        )

    def __call__(self, codes: NDArray[np.int16]) -> FloatArray:
        """Return the mean over trees of the shares at each threshold, shape (n, k)."""
        mean = np.empty((len(codes), self.shares.shape[1]))
        step = max(1, _BLOCK // len(self.roots))
        for start in range(0, len(codes), step):
            rows = slice(start, start + step)
            leaves = self.leaf[self._leaf_nodes(codes[rows])]
            mean[rows] = self.shares[leaves].mean(axis=1, dtype=np.float64)
        return mean

    def _leaf_nodes(self, codes: NDArray[np.int16]) -> NDArray[np.int32]:
        node = np.repeat(self.roots[np.newaxis], len(codes), axis=0)
        flat, start = codes.ravel(), np.arange(len(codes))[:, np.newaxis] * codes.shape[1]
        children = self.children.ravel()
        for _ in range(self.depth):
            right = flat[start + self.feature[node]] > self.threshold[node]
            node = children[2 * node + right]
        return node


def grow_trees(
    codes: NDArray[np.int16],
    level: FloatArray,
    weight: FloatArray | None,
    leaf_factor: float,
    n_trees: int,
    rng: np.random.RandomState,
) -> ShareTrees:
    """Return trees with random thresholds. Each tree is fitted to all rows, or to a random sample of rows."""
    rows = np.arange(len(level)) if weight is None else np.flatnonzero(weight > 0)
    fitted = []
    for _ in range(n_trees):
        drawn = rows if len(rows) <= _MOST_ROWS else rng.choice(rows, _MOST_ROWS, replace=False)
        total = len(drawn) if weight is None else float(weight[drawn].sum())
        leaf = max(_SMALLEST_LEAF, round(leaf_factor * total**0.5))
        tree = ExtraTreeRegressor(
            max_features=None,
            # minus half a row, so that rounding errors do not exclude leaves of the smallest size
            min_weight_fraction_leaf=min((leaf - 0.5) / total, 0.5),
            random_state=int(rng.randint(MAX_SEED)),
        )
        below = (level[drawn, np.newaxis] <= THRESHOLDS).astype(np.float64)
        tree.fit(
            codes[drawn].astype(np.float32),
            below,
            sample_weight=None if weight is None else weight[drawn],
            check_input=False,
        )
        fitted.append(tree)
    return ShareTrees.of_fitted(fitted)
