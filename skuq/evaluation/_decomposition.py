"""Decomposition of a score into miscalibration, discrimination and uncertainty, for one or two models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import (
    as_array,
    as_float_array,
    as_labels,
    check_finite,
    check_increasing,
    check_integer,
    check_no_nan,
    check_option,
    check_probabilities,
    check_random_state,
    check_single_coverage,
)
from skuq.distributions import Distribution
from skuq.distributions._convert import is_array
from skuq.evaluation._resampling import Rows, RowsOfClasses, bootstrap_weights
from skuq.evaluation._significance import interval_of_draws, standard_error
from skuq.evaluation._simulated import drawn_targets
from skuq.metrics._crps_parts import DEFAULT_LEVELS, crps_levels
from skuq.metrics._inputs import finite_moment
from skuq.metrics._kernels import level_grid
from skuq.metrics._sections import MeanSections, ProbabilitySections, Sections, quantile_sections

SCORES = ("crps", "pinball", "squared_error", "brier", "log_loss")
METHODS = ("quantile", "threshold")
PROBABILITY_SCORES = ("brier", "log_loss")

DEFAULT_THRESHOLDS = 100
BLOCK = 2**17
"""A block of redrawn targets contains at most this number of values."""
GRID_LEVELS = (0.005, 0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 0.995)
"""The default thresholds depend on the targets and on the forecast quantiles at these levels."""


@dataclass(frozen=True)
class Request:
    """Checked options: the score and the method of its decomposition."""

    score: str
    method: str
    levels: int | ArrayLike | None
    threshold: ArrayLike | None
    labels: ArrayLike | None

    def __post_init__(self) -> None:
        check_option(self.score, "score", SCORES)
        check_option(self.method, "method", METHODS)
        by_threshold = self.method == "threshold"
        if by_threshold and self.score != "crps":
            raise ValueError(
                f"`method` must be 'quantile' with score={self.score!r}, got 'threshold'. Only the CRPS has "
                "both decompositions."
            )
        of_probability = self.score in PROBABILITY_SCORES
        uses = {
            "levels": self.score == "pinball" or (self.score == "crps" and not by_threshold),
            "threshold": of_probability or by_threshold,
            "labels": of_probability,
        }
        for name, used in uses.items():
            if getattr(self, name) is not None and not used:
                how = f"score={self.score!r} and method={self.method!r}"
                raise ValueError(f"`{name}` must be None with {how}, got {getattr(self, name)!r}.")


@dataclass(frozen=True)
class Problem:
    """Targets and weights of the rows with positive weight, and the sections of one forecast."""

    rows: Rows
    sections: Sections
    forecast: Any

    def parts(self, weights: FloatArray | None = None) -> FloatArray:
        """Return score, miscalibration, discrimination and uncertainty of each section, shape (r, k, 4).

        The weights have shape (r, n). None means the weights of the rows.
        """
        if weights is None and self.rows.weight is not None:
            weights = self.rows.weight[np.newaxis]
        parts = self.sections.parts(self.rows.y[np.newaxis], weights)
        score = parts[..., :1] - parts[..., 1:2] + parts[..., 2:]
        return np.concatenate([score, parts], axis=-1)

    def take(self, pick: IntArray) -> Problem:
        forecast = None if self.forecast is None else self.forecast[pick]
        return replace(self, rows=self.rows.take(pick), sections=self.sections.take(pick), forecast=forecast)

    def redrawn(self, n_draws: int, rng: np.random.RandomState) -> Iterator[tuple[Sections, Any]]:
        """Yield blocks of targets that are drawn from the forecasts, shape (r, n)."""
        for pick, _, y in drawn_targets(self.rows, self.forecast, n_draws, rng, BLOCK):
            yield self.sections if pick is None else self.sections.take(pick), y


def make_problem(
    y_true: ArrayLike, y_pred: Any, request: Request, sample_weight: ArrayLike | None
) -> Problem:
    if request.score in PROBABILITY_SCORES and is_array(y_pred):
        return _of_classes(y_true, y_pred, request, sample_weight)
    rows = Rows(y_true, sample_weight)
    if request.score in PROBABILITY_SCORES:
        return _of_events(rows, rows.of(y_pred), request)
    if request.score == "squared_error":
        return _of_means(rows, y_pred)
    if request.method == "threshold":
        return _of_thresholds(rows, rows.of(y_pred), request)
    return _of_quantiles(rows, y_pred, request)


def _of_quantiles(rows: Rows, y_pred: Any, request: Request) -> Problem:
    levels, share = _levels(request)
    if request.score == "pinball" and levels.size == 1 and _is_point(y_pred):
        quantiles, dist = _points(y_pred, rows)[np.newaxis], None
    else:
        dist = rows.of(y_pred)
        quantiles = dist.quantile(levels).T
    return Problem(rows, quantile_sections(quantiles, levels, share), dist)


def _levels(request: Request) -> tuple[FloatArray, FloatArray]:
    levels = DEFAULT_LEVELS if request.levels is None else request.levels
    if request.score == "crps":
        return crps_levels(levels)
    grid = level_grid(levels)
    return grid, np.full(grid.size, 1 / grid.size)


def _of_means(rows: Rows, y_pred: Any) -> Problem:
    if _is_point(y_pred):
        mean, dist = _points(y_pred, rows), None
    else:
        dist = rows.of(y_pred)
        mean = finite_moment(dist, "mean")
    sections = MeanSections(mean[np.newaxis], pd.Index(["mean"], name="functional"), np.ones(1))
    return Problem(rows, sections, dist)


def _is_point(y_pred: Any) -> bool:
    """Return whether the forecast is one number per row, such as a mean."""
    return is_array(y_pred) and as_array(y_pred, "y_pred").ndim == 1


def _points(y_pred: Any, rows: Rows) -> FloatArray:
    points = check_finite(as_float_array(y_pred, "y_pred"), "y_pred")
    if points.shape != (rows.given,):
        raise ValueError(f"`y_pred` must have {rows.given} rows, one per sample, got {points.shape}.")
    return points if rows.keep is None else points[rows.keep]


def _of_thresholds(rows: Rows, dist: Distribution, request: Request) -> Problem:
    if request.threshold is None:
        grid, width = default_thresholds(rows, dist, DEFAULT_THRESHOLDS)
    else:
        grid = check_increasing(_check_threshold(request.threshold), "threshold")
        if grid.size < 2:
            raise ValueError("`threshold` must be at least two numbers for the CRPS, got one.")
        width = np.diff(grid, prepend=grid[0]) / 2 + np.diff(grid, append=grid[-1]) / 2
    return Problem(rows, _threshold_sections(dist, grid, "brier", width), dist)


def default_thresholds(rows: Rows, dist: Distribution, m: int) -> tuple[FloatArray, FloatArray]:
    # The private method does not warn about infinite quantiles.
    pool = np.concatenate([rows.y, *(dist._ppf(np.asarray(level)) for level in GRID_LEVELS)])
    weight = np.tile(rows.repetitions, 1 + len(GRID_LEVELS))
    pool, weight = pool[np.isfinite(pool)], weight[np.isfinite(pool)]
    shares = np.linspace(0, 1, -(-m // 2) + 1)
    by_weight = np.quantile(pool, shares, weights=weight, method="inverted_cdf")
    edges = np.unique(np.concatenate([by_weight, pool.min() * (1 - shares) + pool.max() * shares]))
    if edges.size == 1:  # All targets and forecasts equal one number, so the CRPS is 0.
        return edges, np.zeros(1)
    return edges[:-1] + np.diff(edges) / 2, np.diff(edges)


def _threshold_sections(
    dist: Distribution, thresholds: FloatArray, score: str, share: FloatArray
) -> ProbabilitySections:
    cdf = np.stack([dist.cdf(np.full(len(dist), each)) for each in thresholds])
    index = pd.Index(thresholds, name="threshold")
    return ProbabilitySections(cdf, index, share, thresholds, np.less_equal, score)


def _check_threshold(threshold: Any) -> FloatArray:
    grid = np.atleast_1d(check_finite(as_float_array(threshold, "threshold"), "threshold"))
    if grid.ndim != 1 or not grid.size:
        raise ValueError(f"`threshold` must be a number or a non-empty 1-D array, got shape {grid.shape}.")
    return grid


def _of_events(rows: Rows, dist: Distribution, request: Request) -> Problem:
    if request.threshold is None:
        raise ValueError(
            f"`threshold` must be given for score={request.score!r} and a Distribution, got None. Pass the "
            "values of y that define the events, or pass class probabilities as `y_pred`."
        )
    if request.labels is not None:
        raise ValueError("`labels` must be None if `y_pred` is a Distribution, got labels.")
    grid = _check_threshold(request.threshold)
    share = np.full(grid.size, 1 / grid.size)
    return Problem(rows, _threshold_sections(dist, grid, request.score, share), dist)


def _of_classes(y_true: ArrayLike, y_pred: Any, request: Request, sample_weight: ArrayLike | None) -> Problem:
    """Return one section per class. For two classes, return a single section."""
    if request.threshold is not None:
        raise ValueError("`threshold` must be None if `y_pred` holds class probabilities, got a threshold.")
    rows, forecast = read_classes(y_true, y_pred, request.labels, sample_weight)
    columns = np.arange(forecast.shape[1]) if forecast.shape[1] != 2 else np.array([1])
    index, share = pd.Index(rows.labels[columns], name="class"), np.full(columns.size, 1 / columns.size)
    probabilities = np.ascontiguousarray(forecast[:, columns].T, dtype=np.float64)
    sections = ProbabilitySections(probabilities, index, share, columns, np.equal, request.score)
    return Problem(rows, sections, forecast)


def read_classes(
    y_true: ArrayLike, y_pred: Any, labels: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[RowsOfClasses, FloatArray]:
    """Return the rows and their class probabilities. One column has the probability of the second class."""
    proba = as_array(y_pred, "y_pred")
    if proba.ndim == 1:
        event = check_no_nan(check_probabilities(proba, "y_pred"), "y_pred")
        proba = np.column_stack([1 - event, event])
    rows = RowsOfClasses(y_true, labels, proba.shape[1] if proba.ndim == 2 else 0, sample_weight)
    return rows, rows.of(proba)


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
    positive miscalibration, which decreases with the number of rows
    (:doc:`/explanation/score-decomposition`). Therefore, compare the miscalibration with
    `miscalibration_limit`.

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

    The cost is O(n log n) per level or threshold. Each draw needs one isotonic regression per level, so draws
    take most of the time. The memory is O(n k).

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
        rows = []
        for code in range(len(names)):
            group = problem.take(np.flatnonzero(codes == code))
            totals = _totals(parts_table(group), group)
            group_limit, _ = miscalibration_limit(group, totals["miscalibration"], n_draws, rng)
            rows.append({"n": group.rows.total, **totals, "miscalibration_limit": group_limit})
        by_group = pd.DataFrame(rows, index=names)
    return ScoreDecomposition(
        **whole, miscalibration_limit=limit, p_value=p_value, parts=table, groups=by_group
    )


def parts_table(problem: Problem) -> pd.DataFrame:
    (parts,) = problem.parts()
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
        [sections.parts(y)[..., 0] @ share for sections, y in problem.redrawn(n_draws, rng)]
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
    discrimination. The reflection removes this bias. The cost is two decompositions per resample.

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
    values = [_rows_of_table(each) for each in (a, b)]
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


def _rows_of_table(problem: Problem, weights: FloatArray | None = None) -> FloatArray:
    """Return score, miscalibration and discrimination for r vectors of weights, shape (r, 3)."""
    parts = problem.parts(weights)
    return np.stack([parts[..., i] @ problem.sections.share for i in range(3)], axis=1)
