"""Facts of the rows and forecasts of a report: hash, description, periods and coverage of parts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri
from scipy.stats import beta, kstwobign

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_array, check_sample_weight, effective_rows
from skuq.distributions import Distribution, Quantiles
from skuq.distributions._convert import as_forecast
from skuq.metrics import prediction_interval_coverage, reliability_table
from skuq.metrics._class_scores import check_class_forecast, check_labels, claimed_mass, is_in_set, sets_of
from skuq.metrics._kernels import covered
from skuq.monitoring import ClassMetricAccumulator, MetricAccumulator

Accumulator = MetricAccumulator | ClassMetricAccumulator
Parts = Mapping[str, Mapping[str, pd.DataFrame]]
"""Coverage of parts of the rows, by the name of the grouping and the name of the model."""

FALSE_ALARM = 0.01
"""Largest probability that any part of the rows of a calibrated model is flagged."""

STANDARD_ERRORS = 3.0
"""A difference of more than this number of standard errors is not due to chance."""

SMALL_GAP = 0.01
"""A significant difference between two shares is called small below this value."""

INNER, OUTER = 0.5, 0.99

WIDEST_GAP, WIDEST_TAIL = 0.25, 0.1
"""The page has no verdict on the shape and the standard deviation if two neighboring levels of the given
quantiles are farther apart, or if the probability beyond the outermost quantiles is larger."""

MOST_GROUPS = 100
OTHERS = "other groups"

MOST_LISTED = 20
"""Largest number of classes in the description of the rows."""


@dataclass(frozen=True)
class Forecasts:
    """Checked targets and forecasts of one or several models for the same rows."""

    y: np.ndarray
    models: dict[str, Any]
    weight: FloatArray | None
    coverage: float
    labels: np.ndarray | None

    @property
    def of_classes(self) -> bool:
        return self.labels is not None

    @property
    def total(self) -> float:
        return effective_rows(self.weight, len(self.y))

    def bounds(self, name: str) -> FloatArray:
        forecast = self.models[name]
        bounds: FloatArray = (
            forecast.interval(self.coverage) if isinstance(forecast, Distribution) else forecast
        )
        return bounds

    def shares(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return whether each target is in its interval or set, and the probability of this event."""
        forecast = self.models[name]
        if not self.of_classes:
            bounds = self.bounds(name)
            inside = covered(self.y, bounds[:, 0], bounds[:, 1]).astype(float)
            return inside, np.full(len(self.y), self.coverage)
        codes, _ = check_labels(self.y, self.labels, forecast.shape[1])
        sets = sets_of(forecast, self.coverage)
        inside = is_in_set(codes, sets)
        if forecast.dtype == np.bool_:
            return inside, np.full(len(self.y), self.coverage)
        return inside, claimed_mass(forecast, sets)

    def may_cover_more(self, name: str) -> bool:
        """Return whether calibrated intervals or sets of this forecast may cover more than nominal."""
        forecast = self.models[name]
        if self.of_classes:
            return bool(forecast.dtype == np.bool_)
        return isinstance(forecast, Distribution) and not forecast.has_density


def checked_forecasts(
    y_true: ArrayLike,
    models: Mapping[str, Any],
    *,
    sample_weight: ArrayLike | None,
    coverage: float,
    labels: ArrayLike | None,
    of_classes: bool,
) -> Forecasts:
    """Return the forecasts of a report, after `uncertainty_report` has accepted them."""
    y = np.ravel(as_array(y_true, "y_true"))
    weight = check_sample_weight(sample_weight, len(y))
    if of_classes:
        arrays = {name: check_class_forecast(each) for name, each in models.items()}
        _, known = check_labels(y, labels, next(iter(arrays.values())).shape[1])
        return Forecasts(y, dict(arrays), weight, coverage, known)
    checked = {name: as_forecast(each) for name, each in models.items()}
    return Forecasts(y.astype(float), checked, weight, coverage, None)


def data_hash(forecasts: Forecasts) -> str:
    """Return the SHA-256 hash of targets, weights and forecasts."""
    digest = hashlib.sha256()
    _add(digest, forecasts.y)
    _add(digest, forecasts.weight)
    for name, forecast in forecasts.models.items():
        digest.update(name.encode())
        if isinstance(forecast, Distribution):
            _add(digest, forecasts.bounds(name))
            _add(digest, forecast.cdf(forecasts.y))
        else:
            _add(digest, forecast)
    return digest.hexdigest()


def _add(digest: Any, values: Any) -> None:
    array = np.asarray([] if values is None else values)
    if array.dtype.kind not in "biuf":
        array = np.array([str(each) for each in array.ravel()], dtype=np.str_)
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())


def facts_of(forecasts: Forecasts) -> dict[str, str]:
    """Describe the rows, the targets and the forecasts in words."""
    y, n = forecasts.y, len(forecasts.y)
    facts = {"Rows": f"{n}"}
    if forecasts.weight is not None:
        facts["Sum of the weights"] = f"{forecasts.total:g}"
    if forecasts.labels is None:
        low, middle, high = np.quantile(y, [0, 0.5, 1])
        facts["Observed values"] = f"{low:.3g} to {high:.3g}, median {middle:.3g}"
    else:
        facts["Classes"] = _listed(forecasts.labels)
    facts["Nominal coverage"] = f"{100 * forecasts.coverage:g} %"
    kinds = {name: _kind(forecasts, forecast) for name, forecast in forecasts.models.items()}
    if len(set(kinds.values())) == 1:
        facts["Forecasts"] = next(iter(kinds.values()))
    else:
        facts |= {f"Forecasts of {name}": kind for name, kind in kinds.items()}
    return facts


def _listed(labels: np.ndarray) -> str:
    shown = [str(label) for label in labels[:MOST_LISTED]]
    rest = len(labels) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def facts_of_accumulator(accumulator: Accumulator) -> dict[str, str]:
    """Describe accumulated rows in words."""
    facts = {"Rows": f"{accumulator.n_rows}"}
    if accumulator.total_weight != accumulator.n_rows:
        facts["Sum of the weights"] = f"{accumulator.total_weight:g}"
    if isinstance(accumulator, ClassMetricAccumulator):
        facts["Classes"] = _listed(accumulator.labels)
    facts["Nominal coverage"] = f"{100 * accumulator.coverage:g} %"
    names = [name for name, exact in accumulator.exact.items() if not exact]
    how = f"computed from histograms: {', '.join(names)}" if names else "all metrics are exact"
    return {**facts, "Computation": f"sums over blocks of rows; {how}"}


def _kind(forecasts: Forecasts, forecast: Any) -> str:
    if isinstance(forecast, Distribution):
        return f"predictive distributions ({type(forecast).__name__})"
    if not forecasts.of_classes:
        return "lower and upper bounds of intervals"
    return "prediction sets" if forecast.dtype == np.bool_ else "class probabilities"


def coverage_of_parts(forecasts: Forecasts, name: str, parts: pd.Series[Any]) -> pd.DataFrame:
    """Return the coverage of one model for each part of the rows."""
    inside, claimed = forecasts.shares(name)
    weight = np.ones(len(inside)) if forecasts.weight is None else forecasts.weight
    columns = {"n": weight, "coverage": weight * inside, "nominal": weight * claimed}
    sums = pd.DataFrame(columns).groupby(parts.to_numpy(), sort=True).sum()
    sums = sums[sums["n"] > 0]
    sums[["coverage", "nominal"]] = sums[["coverage", "nominal"]].div(sums["n"], axis=0)
    return with_flags(sums, may_cover_more=forecasts.may_cover_more(name))


def coverage_of_accumulators(parts: Mapping[Any, Accumulator]) -> pd.DataFrame:
    """Return the coverage of accumulated parts of the rows."""
    filled = {label: each for label, each in parts.items() if each.n_rows}
    shares = [_accumulated_shares(each) for each in filled.values()]
    table = pd.DataFrame(shares, columns=["coverage", "nominal"], index=pd.Index(list(filled)))
    table.insert(0, "n", [each.total_weight for each in filled.values()])
    atoms = (each.has_atoms for each in filled.values() if isinstance(each, MetricAccumulator))
    return with_flags(table, may_cover_more=any(atoms))


def _accumulated_shares(accumulator: Accumulator) -> tuple[float, float]:
    """Return the observed and the expected coverage."""
    if isinstance(accumulator, MetricAccumulator):
        return accumulator.result()["picp"], accumulator.coverage
    return accumulator.result()["set_coverage"], accumulator.expected_coverage


@dataclass(frozen=True)
class Diagnostics:
    """Errors of one model in bins of the predicted uncertainty, its coverage at two levels, and its kind."""

    bins: pd.DataFrame | None = None
    has_atoms: bool | None = None
    """Whether the forecasts have point masses. None if this is not known."""
    levels: tuple[float, ...] | None = None
    """Levels of the quantiles that are given for all rows. None for forecasts without levels."""
    inner: float = np.nan
    """Share of observed values in the central interval with the nominal coverage `INNER`."""
    outer: float = np.nan
    """Share of observed values in the central interval with the nominal coverage `OUTER`."""

    @property
    def kind(self) -> str:
        """Return "distribution", "ensemble" (point masses), "quantiles", "few quantiles" or "unknown"."""
        if self.levels is None:
            return {None: "unknown", True: "ensemble", False: "distribution"}[self.has_atoms]
        tail = max(self.levels[0], 1 - self.levels[-1]) if self.levels else 1.0
        few = max(np.diff(self.levels), default=1.0) > WIDEST_GAP or tail > WIDEST_TAIL
        return "few quantiles" if few else "quantiles"

    def knows(self, *levels: float) -> bool:
        """Return whether the quantiles of these levels are given or between close given quantiles."""
        if self.levels is None:
            return True
        given = np.array(self.levels)
        if np.isclose(given, np.reshape(levels, (-1, 1))).any(axis=1).all():
            return True
        place = given.searchsorted(levels)
        inside = (place > 0) & (place < len(given))
        return bool(inside.all() and (np.diff(given)[place - 1] <= WIDEST_GAP).all())

    def gives_intervals(self, coverage: float) -> bool:
        """Return whether the ends of the central intervals are given."""
        return self.knows((1 - coverage) / 2, (1 + coverage) / 2)


def diagnostics_of(forecasts: Forecasts, name: str) -> Diagnostics:
    forecast, y, weight = forecasts.models[name], forecasts.y, forecasts.weight
    if not isinstance(forecast, Distribution):
        return Diagnostics()
    try:
        bins = reliability_table(y, forecast, sample_weight=weight)
    except ValueError:  # Some distributions have no standard deviation.
        bins = None
    # Levels between or beyond the given ones are not a fault of the forecast.
    if isinstance(forecast, Quantiles):
        return Diagnostics(bins, levels=tuple(forecast.levels.tolist()))
    if not forecast.has_density:
        return Diagnostics(bins, has_atoms=True)
    shares = [
        prediction_interval_coverage(y, forecast, sample_weight=weight, coverage=level)
        for level in (INNER, OUTER)
    ]
    return Diagnostics(bins, False, None, *shares)


def diagnostics_of_accumulator(accumulator: Accumulator) -> Diagnostics:
    if isinstance(accumulator, ClassMetricAccumulator):
        return Diagnostics()
    bins = accumulator.reliability_table() if "reliability" in accumulator.curves else None
    return Diagnostics(bins, accumulator.has_atoms, accumulator._quantile_levels)


def error_of_share(share: float, n: float) -> float:
    """Return the standard error of a share of n rows."""
    return math.sqrt(share * (1 - share) / n)


def bias_and_width(
    levels: FloatArray, shares: FloatArray, n: float, least: float = 2.5 * SMALL_GAP
) -> tuple[int, int]:
    """Return whether forecasts are too high (1) or too low (-1), and too wide (1) or too narrow (-1).

    0 means that chance explains the difference, that it is less than `least` standard deviations, or that
    there are fewer than two levels between 0 and 1. The argument `shares` has the shares of observed values
    below the quantiles of the levels. With normal errors, the normal quantiles of both are on a line. A bias
    moves the line, and a wrong width changes its slope.
    """
    between = (levels > 0) & (levels < 1)
    levels, shares = levels[between], shares[between]
    if len(levels) < 2:
        return 0, 0
    x, y = ndtri(levels), ndtri(np.clip(shares, 0.5 / n, 1 - 0.5 / n))
    far = np.maximum(np.abs(x), np.abs(y))
    precision = np.exp(-0.5 * far**2) / np.sqrt(ndtr(far) * ndtr(-far))
    slope, middle = np.polyfit(x, y, 1, w=precision)
    # Standard errors for n calibrated rows, from simulations of 10 and 100 levels.
    limits = [max(STANDARD_ERRORS * error / np.sqrt(n), least) for error in (1.1, 0.9)]
    bias, width = (
        int(np.sign(value)) if abs(value) > limit else 0
        for value, limit in zip((middle, slope - 1), limits, strict=True)
    )
    return bias, width


def explained_by_chance(levels: FloatArray, shares: FloatArray, n: float) -> bool:
    """Return whether calibrated rows have such shares (Kolmogorov-Smirnov, and tests of bias and width)."""
    if np.abs(shares - levels).max() > kstwobign.isf(0.0027) / np.sqrt(n):
        return False
    return bias_and_width(levels, shares, n, least=0.0) == (0, 0)


def errors_of_halves(bins: pd.DataFrame) -> list[tuple[float, float, float]]:
    """Return rows, root mean predicted variance and root mean squared error of the lower and upper bins."""
    found = []
    for half in (bins.iloc[: len(bins) // 2], bins.iloc[len(bins) // 2 :]):
        n = float(half["n"].sum())
        if n:
            rmv, rmse = (
                math.sqrt(float((half["n"] * half[name] ** 2).sum()) / n) for name in ("rmv", "rmse")
            )
            found.append((n, rmv, rmse))
    return found


def with_flags(table: pd.DataFrame, *, may_cover_more: bool) -> pd.DataFrame:
    """Add simultaneous intervals of the coverage, and flags of parts with a wrong coverage."""
    tail = FALSE_ALARM / (2 * max(len(table), 1))
    n, hits = table["n"], table["n"] * table["coverage"]
    low, high = beta.ppf(tail, hits, n - hits + 1), beta.isf(tail, hits + 1, n - hits)
    table = table.assign(low=np.nan_to_num(low, nan=0.0), high=np.nan_to_num(high, nan=1.0))
    wrong = table["high"] < table["nominal"]
    if not may_cover_more:
        wrong |= table["low"] > table["nominal"]
    return table.assign(flag=wrong)


def is_low(table: pd.DataFrame) -> pd.Series[bool]:
    """Return which parts have a coverage that is significantly too low."""
    low: pd.Series[bool] = table["flag"] & (table["coverage"] < table["nominal"])
    return low


def is_high(table: pd.DataFrame) -> pd.Series[bool]:
    """Return which parts have a coverage that is significantly too high."""
    high: pd.Series[bool] = table["flag"] & (table["coverage"] > table["nominal"])
    return high


def groups_of(values: Any, name: str, n: int) -> pd.Series[Any]:
    """Return the group of each row as text. Small groups beyond the largest ones become one group."""
    labels = _column(values, name, n).astype(str)
    counts = labels.value_counts()
    if len(counts) > MOST_GROUPS:
        labels = labels.where(labels.isin(counts.index[: MOST_GROUPS - 1]), OTHERS)
    return labels


def periods_of(values: Any, name: str, n: int) -> pd.Series[Any]:
    """Return the start of the period of each row. All periods have the same length."""
    column = _column(values, name, n)
    times = as_times(column)
    missing = times.isna().to_numpy()
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(
            f"`{name}` must hold times or numbers, got {column.iloc[row]!r} at row {row}. Use dates such as "
            "2024-01-31."
        )
    return periods(times, period_starts(times.min(), times.max()))


def _column(values: Any, name: str, n: int) -> pd.Series[Any]:
    column = pd.Series(np.asarray(values) if not isinstance(values, pd.Series) else values.to_numpy())
    if len(column) != n:
        raise ValueError(f"`{name}` must have {n} rows, one per sample, got {len(column)}.")
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(f"`{name}` must not have missing values, got one at row {int(np.argmax(missing))}.")
    return column


N_PERIODS = 12


def as_times(values: pd.Series[Any]) -> pd.Series[Any]:
    """Convert values to floats, or dates in any usual format to timestamps. Other values become missing."""
    if pd.api.types.is_numeric_dtype(values):
        return values.astype(float)
    return pd.to_datetime(values, errors="coerce", format="mixed", utc=True).dt.tz_localize(None)


def period_starts(first: Any, last: Any) -> pd.Index[Any]:
    starts: pd.Index[Any]
    if first == last:
        starts = pd.Index([first])
    elif isinstance(first, pd.Timestamp):
        exact = pd.date_range(first, last, periods=N_PERIODS + 1)[:-1].floor("s")
        days = exact.ceil("D")
        # If the times are dates without hours, each period begins at midnight.
        starts = days if first == days[0] and last == last.normalize() and days.is_unique else exact
    else:
        starts = pd.Index(np.linspace(first, last, N_PERIODS + 1)[:-1])
    return starts


def periods(times: pd.Series[Any], starts: pd.Index[Any]) -> pd.Series[Any]:
    """Return the start of the period of each time."""
    place = np.clip(starts.searchsorted(times, side="right") - 1, 0, len(starts) - 1)
    return pd.Series(starts[place], index=times.index)
