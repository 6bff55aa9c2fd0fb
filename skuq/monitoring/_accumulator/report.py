"""Report of an accumulator. Its confidence intervals are computed from sums of squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from skuq._typing import FloatArray
from skuq.evaluation._internal import (
    Headline,
    assemble,
    class_headline_words,
    headline_words,
    interval_of_draws,
    record,
)
from skuq.evaluation._report.table import UncertaintyReport
from skuq.metrics._internal import MetricSpec, warn_of_small_report
from skuq.monitoring._accumulator.plans import Plan, value_of_means
from skuq.monitoring._accumulator.statistics import Sums

__all__ = ["Headline", "ReportEntry", "class_headline_words", "headline_words", "report_of"]


@dataclass(frozen=True)
class ReportEntry:
    """Metric with its options, its plan and the values of its statistics."""

    spec: MetricSpec
    options: Mapping[str, Any]
    plan: Plan
    state: Sequence[Any]

    @property
    def _sums(self) -> Sums | None:
        sums = self.state[0]
        only = self.spec.fast.rows is not None and len(self.state) == 1
        return sums if only and isinstance(sums, Sums) else None

    def standard_error(self, n: float) -> float:
        sums = self._sums
        if sums is None or sums.products is None or self.spec.fast.combine is not None:
            return np.nan
        return float(sums.units[0] * np.sqrt(_covariance(sums)[0, 0] / n))

    def interval(
        self, n: float, confidence: float, n_resamples: int, rng: np.random.RandomState
    ) -> tuple[float, float]:
        """Return the interval of a metric that is a function of means over rows.

        Return NaN for other metrics.
        """
        sums = self._sums
        if sums is None:
            return np.nan, np.nan
        if self.spec.fast.combine is None and sums.products is not None:
            error = float(ndtri((1 + confidence) / 2) * self.standard_error(n))
            return float(sums.means[0]) - error, float(sums.means[0]) + error
        draws = _draws(sums, n, n_resamples, rng)
        values = value_of_means(self.spec, self.options, draws)
        if not values.size or not np.isfinite(values).all():
            return np.nan, np.nan
        # The draws of a nonlinear metric are biased, and the BCa interval corrects this bias.
        return interval_of_draws(values, float(self.plan.value(sums)), 0.0, confidence, "bca")


def _covariance(sums: Sums) -> FloatArray:
    """Return the covariance of the columns, shape (c, c). It is NaN for infinite columns."""
    products: Any = sums.products
    with np.errstate(invalid="ignore", over="ignore"):
        means = sums.means / sums.units
        covariance = np.asarray(products / sums.total - np.outer(means, means))
    # Rounding may make the difference of nearly equal numbers negative.
    np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
    return covariance


def _draws(sums: Sums, n: float, size: int, rng: np.random.RandomState) -> FloatArray:
    """Draw the means of n rows from their approximate normal distribution, shape (size, c)."""
    if sums.products is None:  # The columns contain the shares of PIT values between adjacent levels.
        share = np.maximum(sums.means, 0.0)
        return np.asarray(rng.multinomial(round(n), share / share.sum(), size=size) / n)
    covariance = _covariance(sums) / n
    if not np.isfinite(covariance).all():
        return np.empty((0, sums.means.size))
    # The covariance of proportional columns is singular, so it has no Cholesky factors.
    values, vectors = np.linalg.eigh(covariance)
    spread = rng.normal(size=(size, values.size)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return np.asarray(sums.means + spread * sums.units)


def report_of(
    entries: Sequence[ReportEntry],
    n: float,
    headline: Headline,
    *,
    confidence: float,
    n_resamples: int,
    rng: np.random.RandomState,
) -> UncertaintyReport:
    warn_of_small_report(n)
    records = []
    for entry in entries:
        low, high = entry.interval(n, confidence, n_resamples, rng)
        numbers = {
            "value": float(entry.plan.value(*entry.state)),
            "low": low,
            "high": high,
            "calibrated": entry.plan.calibrated(n, *entry.state),
            "calibrated_low": np.nan,
            "calibrated_high": np.nan,
        }
        records.append(record(entry.spec, entry.options, numbers, n, confidence))
    return assemble({"model": pd.DataFrame(records)}, {"model": headline}, n, confidence, single=True)
