"""Report of forecasts of censored targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skuq._censoring import product_limit, read_event, require_events
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import (
    DEFAULT_COVERAGE,
    check_number,
    check_sample_weight,
    check_single_coverage,
    check_target,
)
from skuq.distributions import Distribution, Empirical, as_distribution
from skuq.metrics import (
    concordance_score,
    interval_coverage_bounds,
    ipcw_brier_loss,
    ipcw_crps_loss,
    localized_crps_loss,
    nll_loss,
    regression_calibration_curve,
)

_TIME_LEVEL = 0.8
"""By default, scores are computed up to this quantile of y."""


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalReport:
    """Scores and calibration of forecasts of censored targets.

    Parameters
    ----------
    table : DataFrame
        One row per property and one column per forecast.
    n_rows, n_events : int
        Number of rows, and number of observed targets.
    upper : float
        Largest time of the weighted CRPS, and time of the Brier score.
    coverage : float
        Nominal coverage of the intervals.

    See Also
    --------
    survival_report : Function that makes the report.

    Examples
    --------
    >>> from skuq.evaluation import survival_report
    >>> y, dist = [1.5, 1.0, 4.0], ([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    >>> report = survival_report(y, dist, event=[True, False, True], upper=3.0)
    >>> report.n_rows, report.n_events
    (3, 2)
    """

    table: pd.DataFrame
    n_rows: int
    n_events: int
    upper: float
    coverage: float

    def __repr__(self) -> str:
        return (
            f"Censored targets: {self.n_rows} rows, {self.n_events} observed, scores up to {self.upper:g}, "
            f"coverage {self.coverage:g}\n\n{self.table.round(4)}"
        )


def survival_report(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    event: ArrayLike | None = None,
    upper: float | None = None,
    coverage: float = DEFAULT_COVERAGE,
    sample_weight: ArrayLike | None = None,
) -> SurvivalReport:
    """Return scores and calibration of forecasts of right-censored targets.

    For comparison, the column "kaplan_meier" has the scores of the Kaplan-Meier curve of the same rows. This
    forecast does not use features.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. For a censored row, the time of censoring. Use rows on which no model was
        trained.
    y_pred : Distribution, tuple (loc, scale) or frozen scipy distribution
        Forecast of every target, or a mapping from names to the forecasts of several models.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed.
    upper : float or None, default=None
        Largest time of the weighted CRPS (`~skuq.metrics.ipcw_crps_loss`), and time of the Brier score. None
        means the 80 % quantile of y.
    coverage : float, default=0.9
        Nominal coverage of the central interval. Strictly between 0 and 1.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    report : SurvivalReport
        The attribute ``table`` has these rows:

        - "ipcw_crps": weighted CRPS up to the time `upper`. The smaller the better.
        - "localized_crps": CRPS of each row up to its censoring time. The smaller the better.
        - "ipcw_brier": Brier score at the time `upper`. The smaller the better.
        - "nll": negative log-likelihood. The smaller the better. NaN if the forecast has no density.
        - "concordance": concordance index. The larger the better.
        - "calibration_error": mean distance of the calibration curve from the diagonal.
        - "coverage_low": smallest possible coverage of the central intervals.
        - "coverage_high": largest possible coverage of the central intervals.
        - "coverage": estimated coverage of the central intervals.

    See Also
    --------
    uncertainty_report : Report without censoring, with confidence intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.evaluation import survival_report
    >>> rng = np.random.default_rng(0)
    >>> loc = rng.normal(size=1000)
    >>> T, C = loc + rng.normal(size=1000), rng.normal(1.0, size=1000)
    >>> report = survival_report(np.minimum(T, C), (loc, np.ones(1000)), event=T <= C)
    >>> report.table.loc[["ipcw_crps", "concordance", "coverage"]].round(2)
                 model  kaplan_meier
    ipcw_crps     0.40          0.56
    concordance   0.76          0.50
    coverage      0.90          0.90
    """
    nominal = check_single_coverage(coverage)
    forecasts = y_pred if isinstance(y_pred, Mapping) else {"model": y_pred}
    y = check_target(y_true)
    weight = check_sample_weight(sample_weight, y.size)
    mask = read_event(event, y.size)
    require_events(mask, weight)
    time = float(np.quantile(y, _TIME_LEVEL)) if upper is None else check_number(upper, "upper")
    columns = {name: as_distribution(forecast) for name, forecast in forecasts.items()}
    columns["kaplan_meier"] = _without_features(y, mask, weight)
    table = {name: _properties(y, dist, mask, weight, time, nominal) for name, dist in columns.items()}
    n_events = y.size if mask is None else int(mask.sum())
    return SurvivalReport(pd.DataFrame(table), y.size, n_events, time, nominal)


def _without_features(y: FloatArray, event: BoolArray | None, weight: FloatArray | None) -> Distribution:
    """Return the Kaplan-Meier estimate for each row. Later times count as the last time."""
    curve = product_limit(y, event, weight)
    steps = -np.diff(np.concatenate([[1.0], curve.survival[:-1], [0.0]]))
    kept = steps > 0
    return Empirical(np.tile(curve.times[kept], (y.size, 1)), steps[kept])


def _properties(
    y: FloatArray,
    dist: Distribution,
    event: BoolArray | None,
    weight: FloatArray | None,
    time: float,
    coverage: float,
) -> dict[str, float]:
    given: dict[str, Any] = {"event": event, "sample_weight": weight}
    curve = regression_calibration_curve(y, dist, **given)
    bounds = interval_coverage_bounds(y, dist, coverage=coverage, **given)
    return {
        "ipcw_crps": ipcw_crps_loss(y, dist, upper=time, **given),
        "localized_crps": localized_crps_loss(y, dist, **given),
        "ipcw_brier": ipcw_brier_loss(y, dist, time=time, **given),
        "nll": nll_loss(y, dist, **given) if dist.has_density else np.nan,
        "concordance": concordance_score(y, dist, **given),
        "calibration_error": float(np.abs(curve.observed - curve.levels).mean()),
        "coverage_low": bounds.low,
        "coverage_high": bounds.high,
        "coverage": bounds.estimate,
    }
