"""Decomposition of a score into miscalibration, discrimination and uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike
from skuq._validation import as_labels, check_integer, check_random_state
from skuq.evaluation._decomposition.problem import Problem, Request, make_problem

LIMIT_LEVEL = 0.95
"""The miscalibration of a calibrated forecast is at most `miscalibration_limit` with this probability."""

COLUMNS = ["score", "miscalibration", "discrimination", "uncertainty"]


@dataclass(frozen=True, eq=False)
class ScoreDecomposition:
    """Parts of a score, ``score = miscalibration - discrimination + uncertainty``.

    Returned by `score_decomposition`. All parts are in the units of the score.

    Parameters
    ----------
    score : float
        Mean score of the forecast.
    miscalibration : float
        Decrease of the score by isotonic recalibration. At least 0. The smaller the better.
    discrimination : float
        Score of the best constant forecast minus the score of the recalibrated forecast. At least 0. The
        larger the better.
    uncertainty : float
        Score of the best constant forecast. It depends only on the targets.
    miscalibration_limit : float
        Miscalibration that a calibrated forecast exceeds with a probability of 5 %. NaN without draws.
    p_value : float
        Probability that a calibrated forecast has at least this miscalibration. NaN without draws.
    parts : DataFrame
        Parts by level, threshold or class. The columns are `share`, `score`, `miscalibration`,
        `discrimination` and `uncertainty`. `share` is the weight of a part in the whole score: the sum of
        `share` times a column gives the value for the whole score.
    groups : DataFrame or None
        Parts for each group of rows. The columns are `n`, `score`, `miscalibration`, `discrimination`,
        `uncertainty` and `miscalibration_limit`. None without groups.

    Examples
    --------
    >>> from skuq.evaluation import score_decomposition
    >>> parts = score_decomposition([1.0, 2.0, 4.0], [1.0, 3.0, 3.0], score="squared_error")
    >>> round(parts.miscalibration - parts.discrimination + parts.uncertainty - parts.score, 12)
    0.0
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    miscalibration_limit: float
    p_value: float
    parts: pd.DataFrame = field(repr=False)
    groups: pd.DataFrame | None = field(default=None, repr=False)


def score_decomposition(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    score: str = "crps",
    method: str = "quantile",
    levels: int | ArrayLike | None = None,
    threshold: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_draws: int = 100,
    random_state: int | np.random.RandomState | None = None,
) -> ScoreDecomposition:
    r"""Decompose a score into miscalibration, discrimination and uncertainty.

    The decomposition shows why a forecast has a high loss. Miscalibration is the part of the loss that
    recalibration would remove. The recalibration is an increasing function of the forecast, fitted to the
    same rows. Discrimination is the difference between the scores of the best constant forecast and of the
    recalibrated forecast. Discrimination is larger if the forecast distinguishes the rows better. Uncertainty
    is the score of the best constant forecast. Uncertainty is the same for all models on the same rows.

    Because the recalibration is fitted to the rows that are evaluated, even a calibrated forecast has a
    positive miscalibration: about 15 % of the CRPS with 100 rows, and 4 % with 1000 rows. Therefore, compare
    the miscalibration with `miscalibration_limit`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Numbers, or class labels if `y_pred` holds class probabilities.
    y_pred : Distribution, frozen scipy distribution, or array-like
        Forecast of every target. For "squared_error", an array holds means of shape (n,). For "pinball" with
        one level, an array holds quantiles of shape (n,). For "brier" and "log_loss", an array holds class
        probabilities of shape (n, K), or the probability of the second of two classes of shape (n,).
    score : {"crps", "pinball", "squared_error", "brier", "log_loss"}, default="crps"
        Score to decompose. "squared_error" scores the mean. With a Distribution, "brier" and "log_loss" score
        the probabilities that targets are above `threshold`.
    method : {"quantile", "threshold"}, default="quantile"
        Decomposition of the CRPS. "quantile" decomposes the pinball loss at each level. "threshold"
        decomposes the Brier score at each threshold. Both methods give the same score, but different
        miscalibrations and discriminations.
    levels : int, float or array-like of shape (k,), default=None
        Quantile levels. For "pinball", an integer m means the levels 1/(m+1), ..., m/(m+1), and all levels
        have the same weight. For "crps", an integer m divides [0, 1] into m cells of equal width and uses the
        centers of the cells. If you pass levels for "crps", they must increase, and the weight of a level is
        the width of its cell. The edges of the cells are 0, 1 and the midpoints of adjacent levels. None
        means 19.
    threshold : float or array-like of shape (k,), default=None
        Values of y. Required for "brier" and "log_loss" of a Distribution, where all thresholds have the same
        weight. For "crps" with ``method="threshold"``, the score is integrated from the first to the last
        threshold by the trapezoid rule. None then means about 100 thresholds that cover the range of targets
        and forecasts.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``. None means the sorted classes of `y_true`.
    groups : array-like of shape (n,), default=None
        Label of each row. If given, the attribute ``groups`` of the result contains the parts for each group.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    n_draws : int, default=100
        Number of times that targets are drawn from the forecasts to compute `miscalibration_limit`. 0 omits
        the limit. No limit can be computed for point forecasts.
    random_state : int, RandomState instance or None, default=None
        Controls the drawn targets. Pass an int for reproducible output across calls.

    Returns
    -------
    decomposition : ScoreDecomposition
        The score, its three parts, and the limit of the miscalibration.

    Raises
    ------
    ValueError
        If an option does not apply to the score, or if thresholds are missing.

    See Also
    --------
    skuq.metrics.crps_miscalibration_error : Metric and scorer for the miscalibration of the CRPS.
    compare_score_decompositions : Confidence intervals of the differences between two models.
    quantile_reliability_curve : Curve of the recalibrated quantiles.
    skuq.displays.ScoreDecompositionDisplay : A plot of miscalibration and discrimination of several models.

    Notes
    -----
    Let S be the mean score, F the forecast, :math:`F^{rc}` its isotonic recalibration and :math:`F^{mg}` the
    best constant forecast. Then [1]_

    .. math::

        \mathrm{MCB} = S(F) - S(F^{rc}), \quad \mathrm{DSC} = S(F^{mg}) - S(F^{rc}), \quad
        \mathrm{UNC} = S(F^{mg})

    The isotonic recalibration is an increasing function of the forecast. Of all increasing functions, it is
    the function with the smallest mean score. The identity and all constants are increasing functions, so no
    part is negative. Each level, threshold and class is recalibrated separately. The CRPS is the integral of
    twice the pinball loss over all levels, and also the integral of the Brier score over all thresholds. The
    parts of the CRPS are the integrals of the parts of these losses [2]_. For smooth forecasts and 19 levels
    or 100 thresholds, the score differs from `crps_loss` by up to 0.5 %.

    Discrimination depends only on the order of the forecasts. If a forecast has no miscalibration, it may
    still be calibrated only on average. For example, a forecast with a constant standard deviation may have
    no miscalibration although the noise varies with X. Such a forecast has less discrimination than the true
    distribution.

    For more than two classes, each class is compared with the rest, and the score is the mean over the
    classes. The Brier score is then the multiclass Brier score divided by the number of classes. For two
    classes, the score is the usual score of the second class. If an observed event has a probability of 0,
    the log loss and its miscalibration are infinite.

    The parts for all rows are not means of the parts for the groups. Differences between groups increase the
    discrimination over all rows, but not the discrimination within a group.

    The log score of a density cannot be decomposed in this way, because the isotonic recalibration has no
    density.

    The cost is O(n log n) per level or threshold. For 100 000 rows, 19 levels take 0.5 s. Each draw takes a
    fourth of this time, because it needs one isotonic regression per level. With 19 levels, 100 draws take
    0.3 s for 1000 rows, 2 s for 10 000 rows and 13 s for 100 000 rows. For 100 000 rows, 20 draws give
    nearly the same limit. The memory is O(n k).

    References
    ----------
    .. [1] Dimitriadis, Gneiting and Jordan (2021), Stable reliability diagrams for probabilistic classifiers,
       eq. 4-6. https://doi.org/10.1073/pnas.2016191118
    .. [2] Arnold, Walz, Ziegel and Gneiting (2024), Decompositions of the mean continuous ranked probability
       score. https://doi.org/10.1214/24-EJS2316

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import score_decomposition
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = x + rng.normal(size=1000)
    >>> good = score_decomposition(y, Normal(x, np.ones(1000)), random_state=0)
    >>> biased = score_decomposition(y, Normal(x + 0.5, np.ones(1000)), random_state=0)
    >>> flat = score_decomposition(y, Normal(np.zeros(1000), np.full(1000, 2**0.5)), random_state=0)
    >>> for each in (good, biased, flat):
    ...     print(f"{each.miscalibration:.3f} {each.miscalibration_limit:.3f} {each.discrimination:.3f}")
    0.028 0.028 0.269
    0.097 0.028 0.269
    0.001 0.002 0.000
    """
    check_integer(n_draws, "n_draws", 0)
    rng = check_random_state(random_state)
    request = Request(score, method, levels, threshold, labels)
    problem = make_problem(y_true, y_pred, request, sample_weight)
    codes, names = _groups(groups, problem)
    table = parts_table(problem)
    whole = _totals(table, problem)
    limit, p_value = miscalibration_limit(problem, whole["miscalibration"], n_draws, rng)
    by_group = None
    if codes is not None:
        rows = [
            _group_row(problem.take(np.flatnonzero(codes == code)), n_draws, rng)
            for code in range(len(names))
        ]
        by_group = pd.DataFrame(rows, index=names)
    return ScoreDecomposition(
        **whole, miscalibration_limit=limit, p_value=p_value, parts=table, groups=by_group
    )


def parts_table(problem: Problem) -> pd.DataFrame:
    weight = None if problem.weight is None else problem.weight[np.newaxis]
    (parts,) = problem.parts(problem.y[np.newaxis], weight)
    table = pd.DataFrame(parts, index=problem.sections.index, columns=COLUMNS)
    table.insert(0, "share", problem.sections.share)
    return table


def _totals(table: pd.DataFrame, problem: Problem) -> dict[str, float]:
    return {name: float(problem.sections.share @ table[name].to_numpy()) for name in COLUMNS}


def miscalibration_limit(
    problem: Problem, observed: float, n_draws: int, rng: np.random.RandomState
) -> tuple[float, float]:
    if not n_draws or problem.forecast is None:
        return math.nan, math.nan
    share = problem.sections.share
    null = np.concatenate(
        [problem.scaled(sections.parts(y)[..., 0] @ share) for sections, y in problem.redrawn(n_draws, rng)]
    )
    # Linear interpolation between infinite values would be NaN.
    rule: Any = "linear" if np.isfinite(null).all() else "inverted_cdf"
    limit = np.quantile(null, LIMIT_LEVEL, method=rule)
    return float(limit), float((1 + np.count_nonzero(null >= observed)) / (1 + n_draws))


def _groups(groups: ArrayLike | None, problem: Problem) -> tuple[Any, pd.Index]:
    if groups is None:
        return None, pd.Index([])
    labels, rows = as_labels(groups, "groups"), problem.rows
    if labels.shape != (rows.given,):
        raise ValueError(f"`groups` must have shape ({rows.given},), got {labels.shape}.")
    codes, names = pd.factorize(labels if rows.keep is None else labels[rows.keep], sort=True)
    return codes, pd.Index(names, name="group")


def _group_row(problem: Problem, n_draws: int, rng: np.random.RandomState) -> dict[str, float]:
    whole = _totals(parts_table(problem), problem)
    limit, _ = miscalibration_limit(problem, whole["miscalibration"], n_draws, rng)
    return {"n": problem.rows.total, **whole, "miscalibration_limit": limit}
