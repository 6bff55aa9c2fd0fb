"""Reliability diagrams of quantiles and probabilities by isotonic recalibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    check_integer,
    check_number,
    check_option,
    check_random_state,
    check_single_coverage,
)
from skuq.distributions._convert import is_array
from skuq.evaluation._decomposition import Problem, Request, make_problem, read_classes
from skuq.evaluation._resampling import Rows, bootstrap_weights
from skuq.metrics._class_scores import check_class
from skuq.metrics._sections import ProbabilitySections, Sections

BANDS = ("consistency", "confidence", None)

MOST_BAND_POINTS = 1000
"""The band is computed at this number of forecasts or fewer. At other forecasts, the band is interpolated."""


def quantile_reliability_curve(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    levels: float = 0.5,
    sample_weight: ArrayLike | None = None,
    band: str | None = "consistency",
    confidence: float = 0.9,
    n_draws: int = 200,
    random_state: int | np.random.RandomState | None = None,
) -> pd.DataFrame:
    r"""Return the reliability curve of a predicted quantile.

    The curve gives the quantile of the targets for each value of the forecast quantile. It shows the values
    at which the forecast quantile is too low or too high. The quantile of the targets given the forecast is
    estimated by isotonic regression, so no bins have to be chosen. The curve of a calibrated forecast is near
    the diagonal. A band shows how far the curve may deviate by chance.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n,)
        Forecast of every target. An array holds quantiles at `levels`. A consistency band cannot be computed
        for an array.
    levels : float, default=0.5
        Level of the quantile, in (0, 1).
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    band : {"consistency", "confidence"} or None, default="consistency"
        "consistency" is the range of the curves for targets that are drawn from the forecasts. A curve
        outside this band is evidence of miscalibration. "confidence" is the range of the curves for resampled
        rows. This band shows the uncertainty of the estimated curve. None means no band.
    confidence : float, default=0.9
        Probability that the band contains the curve at a single forecast. Even the curve of a calibrated
        forecast leaves the band at some forecasts, so the band is not a test of the whole curve. Use the
        p-value of `score_decomposition` for such a test.
    n_draws : int, default=200
        Number of draws of targets, or of resamples of the rows, for the band.
    random_state : int, RandomState instance or None, default=None
        Controls the random draws of the band. Pass an int for reproducible output across calls.

    Returns
    -------
    curve : DataFrame
        One row per distinct value of the forecast, in increasing order. `forecast`: forecast quantile;
        `recalibrated`: quantile of the targets from isotonic regression; `n`: weight of the rows;
        `consistency_low` and `consistency_high`, or `confidence_low` and `confidence_high`: bounds of the
        band. All columns except `n` are in the units of y.

    See Also
    --------
    score_decomposition : Miscalibration, i.e. the increase of the mean loss because the curve differs from
        the diagonal.
    skuq.displays.QuantileReliabilityDisplay : A plot of the curve.
    skuq.metrics.regression_calibration_curve : The observed share of targets at each nominal level.

    Notes
    -----
    The curve minimizes the mean pinball loss among all increasing functions of the forecast [1]_. The minimum
    is not unique. The cost is O(n log n) per curve. The memory is O(n). For more than 1000 distinct
    forecasts, the band is computed at 1000 of these forecasts and interpolated between them.

    References
    ----------
    .. [1] Gneiting, Wolffram, Resin, Kraus, Bracher, Dimitriadis, Hagenmeyer, Jordan, Lerch, Phipps and
       Schienle (2023), Model diagnostics and forecast evaluation for quantiles.
       https://doi.org/10.1146/annurev-statistics-032921-020240

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import quantile_reliability_curve
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 3, size=2000)
    >>> y = x * rng.normal(size=2000)
    >>> constant = Normal(np.zeros(2000), np.sqrt(3) * (0.8 + 0.1 * x))  # the noise grows faster with x
    >>> curve = quantile_reliability_curve(y, constant, levels=0.9, random_state=0)
    >>> curve.drop(columns="n").iloc[[200, 1000, 1800]].round(1)
          forecast  recalibrated  consistency_low  consistency_high
    200        1.8           0.5              1.6               2.0
    1000       2.1           1.9              1.9               2.3
    1800       2.4           3.6              2.2               2.7
    """
    check_single_coverage(levels, "levels")
    request = Request("pinball", "quantile", levels, None, None)
    problem = make_problem(y_true, y_pred, request, sample_weight)
    if problem.forecast is None and band == "consistency":
        raise ValueError(
            "`band` must be 'confidence' or None if `y_pred` is an array of quantiles, got 'consistency'. "
            "Targets can be drawn only from a distribution."
        )
    return _curve(problem, band, confidence, n_draws, random_state)


def probability_reliability_curve(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    threshold: float | None = None,
    labels: ArrayLike | None = None,
    of_class: Any = None,
    sample_weight: ArrayLike | None = None,
    band: str | None = "consistency",
    confidence: float = 0.9,
    n_draws: int = 200,
    random_state: int | np.random.RandomState | None = None,
) -> pd.DataFrame:
    r"""Return the reliability curve of a probability: the frequency of an event given the forecast.

    The event is a class, or a target above a threshold. The frequency of the event given the forecast is
    estimated by isotonic regression, so no bins have to be chosen. The curve of calibrated probabilities is
    near the diagonal. A band shows how far the curve may deviate by chance.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Numbers if `y_pred` is a Distribution, otherwise class labels.
    y_pred : Distribution, frozen scipy distribution, or array-like
        Forecast of every target. An array holds class probabilities of shape (n, K), or the probability of
        the second of two classes of shape (n,).
    threshold : float, default=None
        The event is a target above this threshold. Required if `y_pred` is a Distribution.
    labels : array-like of shape (K,), default=None
        Class of each column, such as ``estimator.classes_``. None means the sorted classes of `y_true`.
    of_class : object, default=None
        Label of the class. None means the most probable class of each row, or the second class if `y_pred`
        has shape (n,).
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    band : {"consistency", "confidence"} or None, default="consistency"
        "consistency" is the range of the curves for events that are drawn with the forecast probabilities.
        "confidence" is the range of the curves for resampled rows. None means no band.
    confidence : float, default=0.9
        Probability that the band contains the curve at a single forecast.
    n_draws : int, default=200
        Number of draws of targets, or of resamples of the rows, for the band.
    random_state : int, RandomState instance or None, default=None
        Controls the random draws of the band. Pass an int for reproducible output across calls.

    Returns
    -------
    curve : DataFrame
        One row per distinct probability, in increasing order. `forecast`: forecast probability;
        `recalibrated`: frequency of the event from isotonic regression; `n`: weight of the rows;
        `consistency_low` and `consistency_high`, or `confidence_low` and `confidence_high`: bounds of the
        band.

    See Also
    --------
    quantile_reliability_curve : The curve of a quantile.
    skuq.metrics.class_reliability_table : Observed frequencies in bins of the probability.
    skuq.displays.ClassReliabilityDisplay : A plot of the curve with ``strategy="isotonic"``.

    Notes
    -----
    The curve is the CORP reliability diagram [1]_. The curve minimizes the Brier score and the log loss among
    all increasing functions of the forecast. The cost is O(n log n) per curve, and the memory is O(n). For
    more than 1000 distinct forecasts, the band is computed at 1000 of these forecasts and interpolated
    between them.

    References
    ----------
    .. [1] Dimitriadis, Gneiting and Jordan (2021), Stable reliability diagrams for probabilistic classifiers.
       https://doi.org/10.1073/pnas.2016191118

    Examples
    --------
    >>> from skuq.evaluation import probability_reliability_curve
    >>> y, proba = [0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]
    >>> probability_reliability_curve(y, proba, band=None).round(2)
       forecast  recalibrated    n
    0       0.1          0.25  1.0
    1       0.2          0.25  1.0
    2       0.3          0.25  1.0
    3       0.4          0.25  1.0
    4       0.5          1.00  1.0
    5       0.9          1.00  1.0
    """
    if is_array(y_pred):
        if threshold is not None:
            raise ValueError("`threshold` must be None if `y_pred` is an array, got a threshold.")
        problem = _problem_of_class(y_true, y_pred, labels, of_class, sample_weight)
    else:
        if threshold is None:
            raise ValueError("`threshold` must be a value of y if `y_pred` is a Distribution, got None.")
        if labels is not None or of_class is not None:
            raise ValueError("`labels` and `of_class` must be None if `y_pred` is a Distribution.")
        threshold = check_number(threshold, "threshold")
        rows = Rows(y_true, sample_weight)
        dist = rows.of(y_pred)
        problem = _binary(rows, rows.y > threshold, dist.sf(threshold))
    return _curve(problem, band, confidence, n_draws, random_state)


def _problem_of_class(
    y_true: ArrayLike, y_pred: Any, labels: ArrayLike | None, of_class: Any, sample_weight: ArrayLike | None
) -> Problem:
    rows, forecast = read_classes(y_true, y_pred, labels, sample_weight)
    columns = forecast.argmax(axis=1)
    if of_class is not None:
        columns[:] = check_class(of_class, "of_class", rows.labels)
    elif np.ndim(y_pred) == 1:
        columns[:] = 1
    probability = forecast[np.arange(len(forecast)), columns].astype(np.float64)
    return _binary(rows, rows.y == columns, np.minimum(probability, 1.0))


def _binary(rows: Rows, event: Any, probability: FloatArray) -> Problem:
    one = np.ones(1)
    sections = ProbabilitySections(probability[np.newaxis], pd.Index(["event"]), one, one, np.equal, "brier")
    events = rows.with_targets(event.astype(np.intp))
    return Problem(events, sections, np.column_stack([1 - probability, probability]))


def _curve(
    problem: Problem,
    band: str | None,
    confidence: float,
    n_draws: int,
    random_state: int | np.random.RandomState | None,
) -> pd.DataFrame:
    check_option(band, "band", BANDS)
    share = check_single_coverage(confidence, "confidence")
    check_integer(n_draws, "n_draws", 2)
    rng = check_random_state(random_state)
    sections = problem.sections
    y, weight = problem.rows.y[np.newaxis], problem.rows.weight
    last = sections.last[0]
    forecast = sections.ordered[0][last]
    mass = problem.rows.repetitions[sections.order[0]]
    fitted = sections.recalibrated(y, None if weight is None else weight[np.newaxis])
    curve = {
        "forecast": forecast,
        "recalibrated": _at(fitted, sections, forecast)[0],
        "n": np.diff(np.cumsum(mass)[last], prepend=0.0),
    }
    if band is not None:
        places = np.linspace(0, forecast.size - 1, min(forecast.size, MOST_BAND_POINTS))
        few = forecast[np.unique(places.round().astype(np.intp))]
        if band == "consistency":
            blocks = problem.redrawn(n_draws, rng)
            curves = [_at(drawn.recalibrated(targets), drawn, few) for drawn, targets in blocks]
        else:
            weights = bootstrap_weights(problem.rows, n_draws, rng)
            curves = [_at(sections.recalibrated(y, resample), sections, few) for resample in weights]
        ends = np.quantile(np.concatenate(curves), [(1 - share) / 2, (1 + share) / 2], axis=0)
        if few.size < forecast.size:
            ends = np.stack([np.interp(forecast, few, end) for end in ends])
        low, high = ends
        curve |= {f"{band}_low": low, f"{band}_high": high}
    return pd.DataFrame(curve)


def _at(fitted: FloatArray, sections: Sections, forecast: FloatArray) -> FloatArray:
    place = np.searchsorted(sections.ordered[0], forecast, side="right") - 1
    return np.asarray(fitted[:, np.maximum(place, 0)])
