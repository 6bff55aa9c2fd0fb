r"""Weights of the training rows that are in the same leaves as a new row.

For a row x, the weight of training row j is a mean over trees: 1 / (number of training rows in the leaf of x)
if j is in this leaf, otherwise 0 (equations 3 and 4 of Meinshausen 2006). All training rows in the leaf
count, including rows that the tree has not drawn. For a training row x, only its out-of-bag trees are used,
and its own weight is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skuq._typing import BoolArray, FloatArray, IntArray

_BLOCK = 1 << 22
"""A temporary matrix contains at most this number of weights (32 MB)."""

_ROUNDING = 1e-9
"""A cumulative sum of weights may differ from its exact value by this rounding error."""


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield blocks of rows.

    The number of rows per block limits the size of a matrix with ``n_columns`` columns.
    """
    step = max(1, _BLOCK // max(n_columns, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


@dataclass(frozen=True, eq=False)
class LeafWeights:
    """Weights of the training rows in each leaf of a forest."""

    members: Any  # sparse, shape (n_nodes, n): weight of a training row in each leaf that contains it
    total: FloatArray  # sum of the weights in each leaf, shape (n_nodes,)

    @classmethod
    def from_leaves(cls, leaves: IntArray, n_nodes: int, weight: FloatArray) -> LeafWeights:
        n, n_trees = leaves.shape
        entries = (np.repeat(weight, n_trees), (leaves.ravel(), np.repeat(np.arange(n), n_trees)))
        members = sparse.csr_array(entries, shape=(n_nodes, n))
        return cls(members, np.asarray(members.sum(axis=1)))

    def of_new(self, leaves: IntArray) -> Any:
        return _normalized(self._product(leaves, _inverse(self.total[leaves])))

    def of_training(self, leaves: IntArray, oob: BoolArray, rows: IntArray, weight: FloatArray) -> Any:
        others = self._without(leaves, weight)
        product = self._product(leaves, np.where(oob, _inverse(others), 0.0))
        product.data[product.indices == np.repeat(rows, np.diff(product.indptr))] = 0.0
        return _normalized(product)

    def average(self, values: FloatArray) -> FloatArray:
        average: FloatArray = (self.members @ values) * _inverse(self.total)
        return average

    def oob_average(
        self, values: FloatArray, leaves: IntArray, oob: BoolArray, weight: FloatArray
    ) -> FloatArray:
        sums = (self.members @ values)[leaves] - (weight * values)[:, np.newaxis]
        inverse = np.where(oob, _inverse(self._without(leaves, weight)), 0.0)
        used = np.maximum((inverse > 0).sum(axis=1), 1)
        average: FloatArray = (sums * inverse).sum(axis=1) / used
        return average

    def average_over_trees(self, averages: FloatArray, leaves: IntArray) -> FloatArray:
        used = np.maximum((self.total[leaves] > 0).sum(axis=1), 1)
        mean: FloatArray = averages[leaves].sum(axis=1) / used
        return mean

    def _without(self, leaves: IntArray, weight: FloatArray) -> FloatArray:
        total = self.total[leaves]
        others = total - weight[:, np.newaxis]
        return np.where(others > 1e-12 * total, others, 0.0)

    def _product(self, leaves: IntArray, share: FloatArray) -> Any:
        m, n_trees = leaves.shape
        indptr = np.arange(m + 1) * n_trees
        selected = sparse.csr_array((share.ravel(), leaves.ravel(), indptr), shape=(m, self.members.shape[0]))
        return selected @ self.members


def leaf_quantiles(weights: Any, order: IntArray, y: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the quantiles of y under sparse weights, shape (m, k). The array ``order`` sorts y."""
    ascending = weights[:, order]
    ascending.sort_indices()
    # A single cumulative sum covers all rows: row i uses the range from i to i + 1.
    cumulative = np.cumsum(ascending.data)
    rows = np.arange(weights.shape[0])
    index = np.searchsorted(cumulative, rows[:, np.newaxis] + levels - _ROUNDING)
    first, last = ascending.indptr[:-1], ascending.indptr[1:] - 1
    position = np.clip(index, first[:, np.newaxis], last[:, np.newaxis])
    quantiles: FloatArray = y[order][ascending.indices[position]]
    return quantiles


def _inverse(total: FloatArray) -> FloatArray:
    return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)


def _normalized(weights: Any) -> Any:
    weights.eliminate_zeros()
    total = np.asarray(weights.sum(axis=1))
    if (total > 0).all():
        weights.data /= np.repeat(total, np.diff(weights.indptr))
        return weights
    dense = weights.toarray()
    dense[total == 0] = 1.0
    return sparse.csr_array(dense / dense.sum(axis=1, keepdims=True))
