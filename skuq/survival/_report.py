"""Report of forecasts of censored targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skuq._censoring import Bounds, product_limit, read_event, require_events, step_masses
from skuq._fitting.seeds import MAX_SEED
from skuq._numeric import weighted_mean, weighted_quantiles
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_integer,
    check_number,
    check_random_state,
    check_single_coverage,
)
from skuq.distributions import Distribution, Empirical
from skuq.evaluation._resampling import Rows, argument_name, bootstrap_weights
from skuq.evaluation._significance import interval_of_draws
from skuq.metrics import regression_calibration_curve
from skuq.metrics._proper import censored_nll_rows, nll_rows
from skuq.metrics._spec import WeightFunction
from skuq.survival._calibration import coverage_of_weights, covered_rows, pair_sums
from skuq.survival._scores import (
    check_uncensored,
    ipcw_brier_of_weights,
    ipcw_crps_of_weights,
    localized_crps_rows,
)

_TIME_LEVEL = 0.8
"""By default, scores are computed up to this quantile of y."""

_REFERENCE = "kaplan_meier"

_MOST_STEPS = 500
"""Largest number of steps of the forecast without features."""


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalReport:
    """Scores and calibration of censored forecasts; returned by `survival_report`.

    Parameters
    ----------
    table : DataFrame
        One row per property and one column per forecast.
    low, high : DataFrame
        Bounds of the confidence intervals, in the shape of `table`. NaN without an interval.
    n_rows, n_events : float
        Number of rows, and number of observed targets, including repetitions.
    upper : float
        Largest time of the weighted CRPS, and time of the Brier score.
    coverage : float
        Nominal coverage of the prediction intervals.
    confidence : float
        Probability of the confidence intervals.

    See Also
    --------
    survival_report : Function that makes the report.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import survival_report
    >>> y, dist = [1.5, 1.0, 4.0], Normal([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    >>> report = survival_report(y, dist, event=[True, False, True], upper=3.0, n_resamples=0)
    >>> report.n_rows, report.n_events
    (3.0, 2.0)
    """

    table: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame
    n_rows: float
    n_events: float
    upper: float
    coverage: float
    confidence: float

    def __repr__(self) -> str:
        legend = f"\n{100 * self.confidence:g} % confidence intervals in brackets"
        if self.low.isna().all(axis=None):
            legend = ""
        return (
            f"Censored targets: {self.n_rows:.12g} rows, {self.n_events:.12g} observed, scores up to "
            f"{self.upper:g}, coverage {self.coverage:g}{legend}\n\n{self._lines().to_string()}"
        )

    def _lines(self) -> pd.DataFrame:
        """Return the values as text. The line below a value has its confidence interval."""
        names, lines = [], []
        columns = (self.table, self.low, self.high)
        for name, *rows in zip(self.table.index, *(each.to_numpy() for each in columns), strict=True):
            value, low, high = rows
            names.append(name)
            lines.append([f"{each:.4g}" for each in value.round(12)])
            if np.isfinite(low).any():
                names.append("")
                lines.append([f"[{a:.3g}, {b:.3g}]" for a, b in zip(low, high, strict=True)])
        return pd.DataFrame(lines, index=names, columns=self.table.columns).replace("[nan, nan]", "")


def survival_report(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    event: ArrayLike | None = None,
    upper: float | None = None,
    coverage: float = DEFAULT_COVERAGE,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 200,
    confidence: float = 0.95,
    random_state: int | np.random.RandomState | None = None,
) -> SurvivalReport:
    """Return scores and calibration of forecasts of right-censored targets.

    For comparison, the column "kaplan_meier" has the scores of the Kaplan-Meier curve of the same rows. This
    forecast does not use features.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. For a censored row, the time of censoring. Use rows on which no model was
        trained.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target, or a mapping from names to the forecasts of several models.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    upper : float or None, default=None
        Largest time of the weighted CRPS (`~skuq.survival.ipcw_crps_loss`), and time of the Brier score. None
        means the smaller of two times: the weighted 80 % quantile of y, and the largest time after which some
        rows are uncensored.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Strictly between 0 and 1.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    n_resamples : int, default=200
        Number of bootstrap resamples of the rows for the confidence intervals. 0 means no intervals.
    confidence : float, default=0.95
        Nominal probability of the confidence intervals. Strictly between 0 and 1.
    random_state : int, RandomState or None, default=None
        Controls the resamples. Pass an int for reproducible output across calls.

    Returns
    -------
    report : SurvivalReport
        The attribute ``table`` has these rows:

        - "ipcw_crps": weighted CRPS up to the time `upper`. The smaller the better.
        - "localized_crps": CRPS of each row up to its censoring time. The smaller the better.
        - "ipcw_brier": Brier score at the time `upper`. The smaller the better.
        - "nll": negative log-likelihood. The smaller the better. NaN if the forecast has no density.
        - "concordance": Harrell's concordance index. The larger the better.
        - "calibration_error": mean distance of the calibration curve from the diagonal.
        - "coverage_low": smallest possible coverage of the central intervals.
        - "coverage_high": largest possible coverage of the central intervals.
        - "coverage": estimated coverage of the central intervals.

        The attributes ``low`` and ``high`` have the bounds of the confidence intervals. The calibration error
        has no interval, because resampling increases calibration errors.

    Raises
    ------
    ValueError
        If all targets are censored, if the estimated probability of being uncensored after the time `upper`
        is 0, or if a forecast has the name "kaplan_meier".

    See Also
    --------
    skuq.evaluation.uncertainty_report : Report without censoring.

    Notes
    -----
    The confidence intervals are quantiles of the resampled values. They describe the variation from the
    choice of test rows, for given models. Each resample has its own censoring weights. Two parts are not
    computed again. The localized CRPS keeps the distribution of unknown censoring times. The concordance is a
    linear function of the resampled weights. Comparing all pairs costs O(n^2) time.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.survival import survival_report
    >>> rng = np.random.default_rng(0)
    >>> loc = rng.normal(size=1000)
    >>> T, C = loc + rng.normal(size=1000), rng.normal(1.0, size=1000)
    >>> report = survival_report(np.minimum(T, C), Normal(loc, np.ones(1000)), event=T <= C)
    >>> report.table.loc[["ipcw_crps", "concordance", "coverage"]].round(2)
                 model  kaplan_meier
    ipcw_crps     0.40          0.56
    concordance   0.76          0.50
    coverage      0.90          0.90
    """
    nominal = check_single_coverage(coverage)
    level = check_single_coverage(confidence, "confidence")
    check_integer(n_resamples, "n_resamples", 0)
    seed = int(check_random_state(random_state).randint(MAX_SEED))
    rows = Rows(y_true, sample_weight)
    mask = read_event(event, rows.given)
    if mask is not None and rows.keep is not None:
        mask = read_event(mask[rows.keep], len(rows))
    require_events(mask)
    time = _check_time(rows, mask, upper)
    properties = {
        name: _properties(rows, dist, mask, time, nominal)
        for name, dist in _forecasts(y_pred, rows, mask).items()
    }
    table = pd.DataFrame(
        {name: {key: value(rows.weight) for key, value in each.items()} for name, each in properties.items()}
    )
    low, high = _intervals(properties, table, rows, n_resamples, level, seed)
    n_events = rows.total if mask is None else float(rows.repetitions @ mask)
    return SurvivalReport(table, low, high, rows.total, n_events, time, nominal, level)


def _forecasts(y_pred: Any, rows: Rows, event: BoolArray | None) -> dict[str, Distribution]:
    forecasts = dict(y_pred) if isinstance(y_pred, Mapping) else {"model": y_pred}
    if not forecasts or _REFERENCE in forecasts:
        raise ValueError(
            f"`y_pred` must hold at least one forecast, and none with the name {_REFERENCE!r}, got the names "
            f"{list(forecasts)}."
        )
    columns = {name: rows.of(forecast, argument_name(y_pred, name)) for name, forecast in forecasts.items()}
    return {**columns, _REFERENCE: _without_features(rows.y, event, rows.repetitions)}


def _check_time(rows: Rows, event: BoolArray | None, upper: float | None) -> float:
    y = rows.y
    if upper is not None:
        time = check_number(upper, "upper")
        check_uncensored(y, event, time, "upper", after=True)
        return time
    earlier = y[y < y.max()]
    time = float(weighted_quantiles(y, _TIME_LEVEL, rows.weight))
    return time if event is None or not earlier.size else min(time, float(earlier.max()))


def _without_features(y: FloatArray, event: BoolArray | None, weight: FloatArray) -> Distribution:
    """Return the Kaplan-Meier estimate for each row. All mass after the last time is slightly after it."""
    curve = product_limit(y, event, weight)
    times, steps = step_masses(curve.times, curve.survival)
    kept = steps > 0
    times, steps = times[kept], steps[kept]
    if times.size <= _MOST_STEPS:
        return Empirical(np.tile(times, (y.size, 1)), steps)
    levels = (np.arange(_MOST_STEPS) + 0.5) / _MOST_STEPS
    places = np.minimum(np.searchsorted(np.cumsum(steps), levels), times.size - 1)
    return Empirical(np.tile(times[places], (y.size, 1)))


def _properties(
    rows: Rows, dist: Distribution, event: BoolArray | None, time: float, coverage: float
) -> dict[str, WeightFunction]:
    """Return the properties as functions of the weights of the rows."""
    y, bounds = rows.y, Bounds.from_event(rows.y, event)
    localized = localized_crps_rows(y, dist, event, rows.weight)
    likelihood = np.full(y.size, np.nan)
    if dist.has_density:
        likelihood = nll_rows(y, dist) if event is None else censored_nll_rows(y, dist, bounds)
    inside, possible = covered_rows(dist, bounds, coverage)
    return {
        "ipcw_crps": ipcw_crps_of_weights(y, dist, event, time),
        "localized_crps": partial(weighted_mean, localized),
        "ipcw_brier": ipcw_brier_of_weights(y, dist, event, time),
        "nll": partial(weighted_mean, likelihood),
        "concordance": partial(_linear_concordance, *pair_sums(y, dist.median(), event, rows.weight), rows),
        "calibration_error": partial(_calibration_error, y, dist, event),
        "coverage_low": partial(weighted_mean, inside),
        "coverage_high": partial(weighted_mean, possible),
        "coverage": coverage_of_weights(dist, bounds, coverage),
    }


def _linear_concordance(
    concordant: FloatArray, comparable: FloatArray, rows: Rows, weight: FloatArray | None
) -> float:
    """Return the concordance. Sums over pairs are replaced by linear functions of the weights."""
    # A pair has two rows, so the derivative of a sum over pairs is twice the sum over the other rows.
    linear = rows.repetitions if weight is None else 2 * weight - rows.repetitions
    return float(linear @ concordant / (linear @ comparable))


def _calibration_error(
    y: FloatArray, dist: Distribution, event: BoolArray | None, weight: FloatArray | None
) -> float:
    curve = regression_calibration_curve(y, dist, event=event, sample_weight=weight)
    return float(np.abs(curve.observed - curve.levels).mean())


def _intervals(
    properties: Mapping[str, Mapping[str, WeightFunction]],
    table: pd.DataFrame,
    rows: Rows,
    n_resamples: int,
    confidence: float,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    low, high = table * np.nan, table * np.nan
    for name, each in properties.items() if n_resamples else ():
        resampled = {key: value for key, value in each.items() if key != "calibration_error"}
        weights = bootstrap_weights(rows, n_resamples, np.random.RandomState(seed))  # the same for all models
        draws = [[value(weight) for value in resampled.values()] for block in weights for weight in block]
        for key, values in zip(resampled, np.transpose(draws), strict=True):
            ends = interval_of_draws(values, 0.0, 0.0, confidence, "percentile")
            low.loc[key, name], high.loc[key, name] = ends
    return low, high
