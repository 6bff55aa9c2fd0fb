"""Dependence templates for several targets, from the normal scores of out-of-sample forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._sklearn_compat import safe_indexing
from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution
from skuq.distributions._pit import randomized_scores
from skuq.multivariate._conditional_dependence import ConditionalWeights, fit_conditional_weights
from skuq.multivariate._correlation import normal_scores, pairwise_correlation, shrunk_correlation
from skuq.multivariate._template import normal_template, rank_template

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
    chosen = _template_rows(len(rows), rng)
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


def _template_rows(n: int, rng: np.random.RandomState) -> IntArray:
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(rng.choice(n, MOST_ROWS, replace=False))
