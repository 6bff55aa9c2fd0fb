"""Differences of the parts of a score between two models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_integer, check_random_state, check_single_coverage
from skuq.evaluation._decomposition.decomposition import COLUMNS
from skuq.evaluation._decomposition.problem import Problem, Request, make_problem
from skuq.evaluation._resampling import bootstrap_weights
from skuq.evaluation._significance import interval_of_draws, standard_error


def compare_score_decompositions(
    y_true: ArrayLike,
    y_pred_a: Any,
    y_pred_b: Any,
    *,
    score: str = "crps",
    method: str = "quantile",
    levels: int | ArrayLike | None = None,
    threshold: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    confidence: float = 0.95,
    n_resamples: int = 300,
    random_state: int | np.random.RandomState | None = None,
) -> pd.DataFrame:
    """Return the parts of the scores of two models, with confidence intervals of their differences.

    The table shows whether one model has a better score because it is better calibrated, or because it
    discriminates better. Each bootstrap resample contains the same rows for both models, so the variation
    that both models share cancels. The rows must be independent.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred_a, y_pred_b : Distribution, frozen scipy distribution, or array-like
        Forecasts of both models for the same rows. See `score_decomposition`.
    score : {"crps", "pinball", "squared_error", "brier", "log_loss"}, default="crps"
        Score to decompose.
    method : {"quantile", "threshold"}, default="quantile"
        Decomposition of the CRPS.
    levels : int, float or array-like of shape (k,), default=None
        Quantile levels. See `score_decomposition`.
    threshold : float or array-like of shape (k,), default=None
        Values of y. See `score_decomposition`. Both models need the same thresholds, so
        ``method="threshold"`` requires an array.
    labels : array-like of shape (K,), default=None
        Class of each column of probabilities.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row. A resample draws as many rows as the sum of the weights.
    confidence : float, default=0.95
        Nominal probability that an interval contains the true difference, i.e. the difference for unlimited
        data.
    n_resamples : int, default=300
        Number of resamples.
    random_state : int, RandomState or None, default=None
        Controls the resamples. Pass an int for reproducible output across calls.

    Returns
    -------
    table : DataFrame
        Rows `score`, `miscalibration` and `discrimination`. `a`, `b`: values of the two models; `difference`:
        a - b; `low`, `high`: confidence interval of the difference; `standard_error`: standard error of the
        difference. The part `uncertainty` is omitted, because it is equal for both models.

    See Also
    --------
    score_decomposition : Decomposition of the score of one model.
    paired_permutation_test : Test of the difference between two models in any metric.

    Notes
    -----
    The intervals are basic bootstrap intervals, which reflect the quantiles of the resampled differences
    about the observed difference. A resample contains repeated rows, which increase miscalibration and
    discrimination. The reflection removes this bias. The cost is two decompositions per resample. For 1000
    rows, 300 resamples with 19 levels take 1.5 s.

    References
    ----------
    .. [1] Davison and Hinkley (1997), Bootstrap methods and their application, section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import compare_score_decompositions
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.normal(size=(2, 500))
    >>> y = x + z + rng.normal(size=500)
    >>> biased, blind = Normal(x + z + 0.8, np.ones(500)), Normal(x, np.full(500, 2**0.5))  # blind ignores z
    >>> table = compare_score_decompositions(y, biased, blind, levels=9, random_state=0)
    >>> print(table[["a", "b", "low", "high"]].round(2).to_string())
                       a     b   low  high
    score           0.73  0.77 -0.10  0.00
    miscalibration  0.19  0.04  0.11  0.18
    discrimination  0.44  0.24  0.15  0.24
    """
    level = check_single_coverage(confidence, "confidence")
    check_integer(n_resamples, "n_resamples", 2)
    rng = check_random_state(random_state)
    if method == "threshold" and threshold is None:
        raise ValueError(
            "with method='threshold', `threshold` must be an array, got None. The comparison needs the same "
            "thresholds for both models."
        )
    request = Request(score, method, levels, threshold, labels)
    a, b = (make_problem(y_true, each, request, sample_weight) for each in (y_pred_a, y_pred_b))
    weight = None if a.weight is None else a.weight[np.newaxis]
    values = [_rows_of_table(each, weight) for each in (a, b)]
    draws = np.concatenate(
        [
            _rows_of_table(a, weights) - _rows_of_table(b, weights)
            for weights in bootstrap_weights(a.rows, n_resamples, rng)
        ]
    )
    difference = (values[0] - values[1])[0]
    intervals = [interval_of_draws(draws[:, i], float(difference[i]), 0.0, level, "basic") for i in range(3)]
    return pd.DataFrame(
        {
            "a": values[0][0],
            "b": values[1][0],
            "difference": difference,
            "low": [low for low, _ in intervals],
            "high": [high for _, high in intervals],
            "standard_error": [standard_error(draws[:, i]) for i in range(3)],
        },
        index=COLUMNS[:3],
    )


def _rows_of_table(problem: Problem, weight: FloatArray | None) -> FloatArray:
    """Return score, miscalibration and discrimination for r vectors of weights, shape (r, 3)."""
    parts = problem.parts(problem.y[np.newaxis], weight)
    return np.stack([parts[..., i] @ problem.sections.share for i in range(3)], axis=1)
