"""The report of an accumulator: values with intervals from the sums of squares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from skuq._typing import FloatArray
from skuq.metrics._accumulator.plans import value_of_means
from skuq.metrics._accumulator.statistics import Sums
from skuq.metrics._report.records import assemble, record
from skuq.metrics._report.table import UncertaintyReport
from skuq.metrics._significance import interval_of_draws
from skuq.metrics._spec import MetricSpec


@dataclass(frozen=True)
class ReportEntry:
    """A metric, its options, its value as a function of its statistics, and their values."""

    spec: MetricSpec
    options: Mapping[str, Any]
    value: Callable[..., float]
    state: Sequence[Any]

    @property
    def _sums(self) -> Sums | None:
        """Sums of the values per row of which the metric is a function; None if it depends on others."""
        sums = self.state[0]
        only = self.spec.rows is not None and len(self.state) == 1
        return sums if only and isinstance(sums, Sums) else None

    def standard_error(self, n: float) -> float:
        """Return the standard error of the mean of one number per row; NaN of other metrics."""
        sums = self._sums
        if sums is None or sums.products is None or self.spec.combine is not None:
            return np.nan
        return float(sums.units[0] * np.sqrt(_covariance(sums)[0, 0] / n))

    def interval(
        self, n: float, confidence: float, n_resamples: int, rng: np.random.RandomState
    ) -> tuple[float, float]:
        """Return the interval of a metric of means per row, which are normal; NaN of others."""
        sums = self._sums
        if sums is None:
            return np.nan, np.nan
        if self.spec.combine is None and sums.products is not None:
            error = float(ndtri((1 + confidence) / 2) * self.standard_error(n))
            return float(sums.means[0]) - error, float(sums.means[0]) + error
        draws = _draws(sums, n, n_resamples, rng)
        values = value_of_means(self.spec, self.options, draws)
        if not values.size or not np.isfinite(values).all():
            return np.nan, np.nan
        # The draws of a metric that is not linear are biased, and are corrected for it.
        return interval_of_draws(values, float(self.value(sums)), 0.0, confidence, "bca")


def _covariance(sums: Sums) -> FloatArray:
    """Return the covariance of the columns in their units, shape (c, c); NaN where a column is infinite."""
    products: Any = sums.products
    with np.errstate(invalid="ignore", over="ignore"):
        means = sums.means / sums.units
        covariance = np.asarray(products / sums.total - np.outer(means, means))
    # The difference of two nearly equal numbers may fall below 0 by rounding.
    np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
    return covariance


def _draws(sums: Sums, n: float, size: int, rng: np.random.RandomState) -> FloatArray:
    """Return means of as many rows as these may have, shape (size, c)."""
    if sums.products is None:  # shares of the rows between levels
        share = np.maximum(sums.means, 0.0)
        return np.asarray(rng.multinomial(round(n), share / share.sum(), size=size) / n)
    covariance = _covariance(sums) / n
    if not np.isfinite(covariance).all():
        return np.empty((0, sums.means.size))
    # Not by Cholesky's factors: the covariance of columns that are proportional is singular.
    values, vectors = np.linalg.eigh(covariance)
    spread = rng.normal(size=(size, values.size)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return np.asarray(sums.means + spread * sums.units)


def report_of(
    entries: Sequence[ReportEntry],
    n: float,
    summary: str,
    *,
    confidence: float,
    n_resamples: int,
    rng: np.random.RandomState,
) -> UncertaintyReport:
    """Return the table of the metrics of n rows."""
    records = []
    for entry in entries:
        low, high = entry.interval(n, confidence, n_resamples, rng)
        formula = entry.spec.calibrated
        numbers = {
            "value": float(entry.value(*entry.state)),
            "low": low,
            "high": high,
            "calibrated": np.nan if formula is None else float(formula(n, **entry.options)),
            "calibrated_low": np.nan,
            "calibrated_high": np.nan,
        }
        records.append(record(entry.spec, entry.options, numbers, n, confidence))
    return assemble({"model": pd.DataFrame(records)}, {"model": summary}, n, confidence, single=True)
