"""Dependence between targets, estimated from out-of-sample ranks, constant or predicted by a forest."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.ensemble import RandomForestRegressor

from skuq._compat import count_rows, safe_indexing
from skuq._fitting.table import ScaleFeatures
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions import Distribution
from skuq.distributions._pit import randomized_scores
from skuq.multivariate._template import normal_template, rank_template
from skuq.regressors._forest_trees import LeafWeights, Trees

FEWEST_COMMON_ROWS = 30
"""Smallest number of rows in which both targets of a pair are known, if the correlation is estimated
separately for each pair."""

_LEAST_EIGENVALUE = 1e-6
"""The smallest eigenvalue of a projected correlation matrix is at least this value."""


def normal_scores(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the normal scores of the ranks in each column, shape (n, d). Missing values stay NaN."""
    scores = np.full(values.shape, np.nan)
    for column, score in zip(values.T, scores.T, strict=True):
        known = np.flatnonzero(~np.isnan(column))
        order = known[np.argsort(column[known], kind="stable")]
        reached = np.cumsum(weight[order])
        score[order] = ndtri((reached - weight[order] / 2) / reached[-1])
    return scores


def shrunk_correlation(scores: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the correlation matrix of complete scores, shrunk toward independence.

    The covariance matrix is shrunk by the method of Ledoit and Wolf (2004). A weight is a number of
    repetitions.
    """
    n, d = float(weight.sum()), scores.shape[1]
    centered = scores - np.average(scores, axis=0, weights=weight)
    covariance = (centered * weight[:, np.newaxis]).T @ centered / n
    mean_variance = np.trace(covariance) / d
    distance = np.sum((covariance - mean_variance * np.eye(d)) ** 2)
    fourth = weight @ np.sum(centered**2, axis=1) ** 2 / n
    error = (fourth - np.sum(covariance**2)) / n
    intensity = min(error, distance) / distance if distance > 0 else 0.0
    return as_correlation((1 - intensity) * covariance + intensity * mean_variance * np.eye(d))


def pairwise_correlation(scores: FloatArray, weight: FloatArray, labels: list[str]) -> FloatArray:
    """Return the correlation matrix of scores with missing values.

    Each entry is estimated from the rows that have both scores. The matrix is then projected to a positive
    definite matrix.
    """
    d = scores.shape[1]
    correlation = np.eye(d)
    for i, j in combinations(range(d), 2):
        common = ~np.isnan(scores[:, i] + scores[:, j])
        if np.count_nonzero(common) < FEWEST_COMMON_ROWS:
            raise ValueError(
                f"`y` must have at least {FEWEST_COMMON_ROWS} rows without missing values for each pair of "
                f"targets, got {np.count_nonzero(common)} for {labels[i]} and {labels[j]}. The dependence of "
                "two targets is estimated from these rows. Leave one target out, or use "
                "dependence='independent'."
            )
        pair = scores[common][:, [i, j]]
        covariance = np.cov(pair.T, aweights=weight[common])
        correlation[i, j] = correlation[j, i] = as_correlation(covariance)[0, 1]
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= _LEAST_EIGENVALUE:
        return correlation
    return as_correlation((vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T)


def as_correlation(covariance: FloatArray) -> FloatArray:
    """Return the correlation matrices of covariance matrices of shape (..., d, d)."""
    std = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    correlation = covariance / (std[..., :, np.newaxis] * std[..., np.newaxis, :])
    index = np.arange(covariance.shape[-1])
    correlation[..., index, index] = 1.0
    return np.asarray(correlation)


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


DEPENDENCES = ("empirical", "gaussian", "conditional", "independent")

MOST_ROWS = 1000
"""An empirical template has at most this number of rows."""

FEWEST_COMPLETE_ROWS = 200
"""If some rows have missing values, an empirical template needs at least this number of complete rows."""


@dataclass(frozen=True, eq=False)
class Dependence:
    """Template of levels, the weights of its rows, and the correlation matrix of the normal scores."""

    ranks: FloatArray  # shape (K, d)
    weights: FloatArray | None  # shape (K,); None gives equal weights
    correlation: FloatArray  # shape (d, d)
    is_normal: bool  # whether the template is a normal copula
    conditional: ConditionalWeights | None = None

    def options(self, X: Any) -> dict[str, Any]:
        weights = self.weights if self.conditional is None else self.conditional(X)
        return {"weights": weights, "correlation": self.correlation if self.is_normal else None}


def forecast_scores(
    rows: IntArray, dist: Distribution, y: FloatArray, n: int, rng: np.random.RandomState
) -> FloatArray:
    """Return the ranks of the PIT of the tested rows, shape (n,).

    Other rows have NaN. ``y`` contains the targets of the tested rows. On atoms, the PIT is randomized. Rows
    outside the support have a PIT of 0 or 1 and get ranks in random order. If a row is tested several times,
    only its first test counts.
    """
    rows, first = np.unique(rows, return_index=True)
    if len(first) == len(dist) and np.array_equal(first, np.arange(len(dist))):
        scores = randomized_scores(dist, y, rng)
    else:
        scores = randomized_scores(dist[first], y[first], rng)
    ranks = np.empty(len(scores))
    ranks[np.lexsort((rng.uniform(size=len(scores)), scores))] = np.arange(len(scores))
    found = np.full(n, np.nan)
    found[rows] = ranks
    return found


def fit_dependence(
    kind: str,
    X: Any,
    ranks: FloatArray,
    weight: FloatArray | None,
    labels: list[str],
    *,
    missing: bool,
    seed: int,
    n_jobs: int | None,
) -> Dependence:
    """Estimate the dependence from ranks of shape (n, d).

    Rows that are not tested have NaN. ``missing`` is True if targets are missing. In this case, a row may
    have ranks for some of the targets only.
    """
    d = ranks.shape[1]
    if kind == "independent":
        return _normal(np.eye(d))
    repetitions = np.ones(len(ranks)) if weight is None else weight
    complete = ~np.isnan(ranks).any(axis=1) & (repetitions > 0)
    n_complete = np.count_nonzero(complete)
    if missing and (n_complete < FEWEST_COMPLETE_ROWS or kind == "gaussian"):
        scores = normal_scores(ranks, repetitions)
        return _normal(pairwise_correlation(scores, repetitions, labels))
    if n_complete < 2:
        raise ValueError(
            f"`cv` must test at least 2 rows for all targets, got {n_complete}. Use the same folds for all "
            "targets, or dependence='independent'."
        )
    rows = np.flatnonzero(complete)
    scores = normal_scores(ranks[rows], repetitions[rows])
    correlation = shrunk_correlation(scores, repetitions[rows])
    if kind == "gaussian":
        return _normal(correlation)
    rng = np.random.RandomState(seed)
    chosen = np.arange(len(rows))
    if len(rows) > MOST_ROWS:
        chosen = np.sort(rng.choice(len(rows), MOST_ROWS, replace=False))
    conditional = None
    if kind == "conditional":
        conditional = fit_conditional_weights(
            safe_indexing(X, rows), scores, correlation, repetitions[rows], chosen, seed, n_jobs
        )
    weights = None if weight is None else weight[rows[chosen]]
    template = rank_template(ranks[rows[chosen]])
    return Dependence(template, weights, correlation, is_normal=False, conditional=conditional)


def _normal(correlation: FloatArray) -> Dependence:
    return Dependence(normal_template(correlation), None, correlation, is_normal=True)
