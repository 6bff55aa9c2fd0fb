"""Dependence between targets that varies with x, predicted by a forest from products of normal scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from skuq._fitting.columns import ScaleFeatures
from skuq._sklearn_compat import count_rows
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.multivariate._correlation import as_correlation
from skuq.regressors._forest.leaf_weights import LeafWeights
from skuq.regressors._forest.trees import Trees

FEWEST_ROWS = 300
"""With fewer rows, the dependence does not vary with x."""

_SHARES = np.linspace(0, 1, 11)
"""Candidates for the share of the forest in the correlation matrix."""

_STANDARD_ERRORS = 2.0
"""The forest is used if the out-of-bag log score improves by at least this number of standard errors."""

_RIDGE = 1e-6
"""This share of the identity is added to a correlation matrix, so that the matrix is invertible."""

_N_TREES = 100


@dataclass(frozen=True, eq=False)
class ConditionalWeights:
    """Weights of the rows of the template for new rows.

    A row of the template has a positive weight if it shares leaves with the new row.
    """

    trees: Trees
    features: ScaleFeatures
    local: LeafWeights
    weight: FloatArray  # weight of each row of the template without the forest; the sum is 1
    share: float  # share of the forest

    def __call__(self, X: Any) -> FloatArray:
        """Return the weights of the rows of the template, shape (n, K). The sum of each row is 1."""
        near = self.local.of_new(self.trees.leaves(_table(self.features, X))).toarray()
        return np.asarray(self.share * near + (1 - self.share) * self.weight)


def fit_conditional_weights(
    X: Any,
    scores: FloatArray,
    correlation: FloatArray,
    weight: FloatArray,
    template_rows: IntArray,
    seed: int,
    n_jobs: int | None,
) -> ConditionalWeights | None:
    """Fit the forest. Return None if it does not predict the dependence better than ``correlation``.

    X, ``scores`` and ``weight`` have the same rows. The template contains ``template_rows`` of these rows.
    """
    features = ScaleFeatures.from_columns(X)
    if not features.categories:
        raise ValueError(
            f"`X` must be a table of numbers or categories with dependence='conditional', got "
            f"{type(X).__name__}. Use dependence='empirical'."
        )
    n, d = scores.shape
    if n < FEWEST_ROWS or d < 2:
        return None
    first, second = np.triu_indices(d, k=1)
    forest = RandomForestRegressor(
        _N_TREES, min_samples_leaf=max(20, n // 30), max_features=0.5, random_state=seed, n_jobs=n_jobs
    )
    table, products = _table(features, X), scores[:, first] * scores[:, second]
    forest.fit(table, products if products.shape[1] > 1 else products[:, 0], sample_weight=weight)
    trees = Trees.from_forest(forest)
    leaves = trees.leaves(table)
    n_nodes = len(trees.values)
    local = LeafWeights.from_leaves(leaves, n_nodes, weight)
    out_of_bag = _oob_correlation(local, scores, leaves, trees.counts(n) == 0, weight)
    share = _choose_share(out_of_bag, correlation, scores, weight)
    if share == 0:
        return None
    kept = weight[template_rows]
    in_template = LeafWeights.from_leaves(leaves[template_rows], n_nodes, kept)
    return ConditionalWeights(trees, features, in_template, kept / kept.sum(), share)


def _table(features: ScaleFeatures, X: Any) -> FloatArray:
    return features(X, np.empty((count_rows(X), 0)))


def _oob_correlation(
    local: LeafWeights, scores: FloatArray, leaves: IntArray, oob: BoolArray, weight: FloatArray
) -> FloatArray:
    """Return the correlation matrix of each row, shape (n, d, d), from trees that have not drawn the row."""
    n, d = scores.shape
    covariance = np.empty((n, d, d))
    for i in range(d):
        for j in range(i + 1):
            products = scores[:, i] * scores[:, j]
            average = local.oob_average(products, leaves, oob, weight)
            covariance[:, i, j] = covariance[:, j, i] = average
    drawn_by_all = ~oob.any(axis=1)
    covariance[drawn_by_all] = np.eye(d)
    return as_correlation(covariance)


def _choose_share(
    out_of_bag: FloatArray, constant: FloatArray, scores: FloatArray, weight: FloatArray
) -> float:
    """Return the share of the forest with the best log score.

    The share is positive only if the gain is significant.
    """
    rows = np.stack(
        [log_copula_density((1 - share) * constant + share * out_of_bag, scores) for share in _SHARES]
    )
    best = int(np.argmax(rows @ weight))
    gain = rows[best] - rows[0]
    mean = np.average(gain, weights=weight)
    error = np.sqrt(np.average((gain - mean) ** 2, weights=weight) / weight.sum())
    return float(_SHARES[best]) if mean > _STANDARD_ERRORS * error else 0.0


def log_copula_density(correlation: FloatArray, scores: FloatArray) -> FloatArray:
    r"""Return the log density of the normal copula at normal scores z, shape (n,).

    .. math:: -\tfrac12 \log |R| - \tfrac12 z^T (R^{-1} - I) z
    """
    identity = np.eye(scores.shape[1])
    matrix = (1 - _RIDGE) * correlation + _RIDGE * identity
    _, log_determinant = np.linalg.slogdet(matrix)
    solved = np.linalg.solve(matrix, scores[:, :, np.newaxis])[:, :, 0]
    return np.asarray(-(log_determinant + np.sum(scores * (solved - scores), axis=1)) / 2)
