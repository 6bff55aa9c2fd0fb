"""The numbers of a report in words: formats, and a sentence for each value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from skuq.distributions import Distribution
from skuq.metrics._class_inputs import ClassForecast, claimed_mass, is_in_set, sets_of
from skuq.metrics._kernels import covered, weighted_mean
from skuq.metrics._resampling import Rows
from skuq.metrics._rounding import ROUNDING
from skuq.metrics._spec import MetricSpec

MOST_DECIMALS = 6
"""Numbers that need more decimals, and those from a million on, are written with an exponent."""


@dataclass(frozen=True)
class RowFormat:
    """One way to write all numbers of a row of the report: the same unit, as many decimals."""

    decimals: int | None
    """Negative where the digits before the point are rounded too; None for an exponent."""
    percent: bool

    @classmethod
    def of(cls, values: Iterable[float], bounds: Iterable[float] = (), *, percent: bool) -> Self:
        """Return the format that shows three digits of the largest number, and at least one of each value.

        Of a value above 1 it shows three, or all before the point. Bounds may be next to 0 by chance, so that
        their digits do not count.
        """
        unit = 100.0 if percent else 1.0
        main = [abs(unit * value) for value in values if math.isfinite(value)]
        largest = max([*main, *(abs(unit * bound) for bound in bounds if math.isfinite(bound))], default=0.0)
        if largest == 0:
            return cls(0, percent)
        shown = [v for v in main if v > ROUNDING * largest]
        needed = [_decimals(largest, 3)] + [max(_decimals(v, 1), min(_decimals(v, 3), 0)) for v in shown]
        if percent:  # 99.96 % is not 100 %
            needed += [_decimals(100 - v, 1) for v in main if 98.5 < v < 100]
        decimals = max(needed)
        fits = decimals <= MOST_DECIMALS and largest < 1e6
        return cls(decimals if fits else None, percent)

    def __call__(self, value: float) -> str:
        """Return a number as text, nothing for NaN."""
        plain = self._plain(value)
        return f"{plain} %" if self.percent and plain else plain

    def span(self, low: float, high: float) -> str:
        """Return an interval as text, nothing for NaN."""
        return "" if math.isnan(low) or math.isnan(high) else f"{self._plain(low)} to {self(high)}"

    def _plain(self, value: float) -> str:
        if not math.isfinite(value):
            return {math.inf: "inf", -math.inf: "-inf"}.get(value, "")
        value *= 100 if self.percent else 1
        if self.decimals is None:
            return f"{value:.2e}"
        text = f"{round(value, self.decimals):.{max(self.decimals, 0)}f}"
        return text.removeprefix("-") if float(text) == 0 else text


def _decimals(value: float, digits: int) -> int:
    """Return how many decimals show so many digits of a positive number; negative for large ones."""
    return digits - 1 - int(f"{value:.{digits - 1}e}".split("e")[1])


def is_in_percent(spec: MetricSpec) -> bool:
    """Whether a metric is a share or a relative number, which its reading gives in percent."""
    return "{percent}" in spec.meaning or isinstance(spec.optimum, str)


@dataclass(frozen=True)
class Result:
    """A metric of one model with its interval, the null distribution and the optimum."""

    spec: MetricSpec
    value: float
    low: float
    high: float
    optimum: float | None
    n: float
    calibrated: float
    calibrated_low: float
    calibrated_high: float
    confidence: float
    error: str

    @property
    def is_simulated(self) -> bool:
        """Whether the range of calibrated models was simulated."""
        return math.isfinite(self.calibrated_low) and math.isfinite(self.calibrated_high)

    @property
    def is_calibration_error(self) -> bool:
        """Whether calibrated forecasts of unlimited data have 0, so that no value is too small."""
        spec = self.spec
        return spec.small_sample and spec.direction == "lower" and spec.optimum == 0

    @property
    def format(self) -> RowFormat:
        """How the numbers are written, here and in the table."""
        bounds = (self.low, self.high, self.calibrated_low, self.calibrated_high)
        return RowFormat.of([self.value, self.calibrated], bounds, percent=is_in_percent(self.spec))

    def words(self, text: str) -> str:
        """Return numbers with the units of the metric, where these are not those of y."""
        unit = unit_of(self.spec)
        return text if unit in {"", "y"} else f"{text} {unit}"


def number(value: float, digits: int = 3) -> str:
    """Return a number with some significant digits, without an exponent where it is short."""
    if not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "")
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded == 0:
        return "0"
    if not 1e-4 <= abs(rounded) < 1e6:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:.{max(digits - 1 - math.floor(math.log10(abs(rounded))), 0)}f}"


def percent(share: float) -> str:
    """Return a share in percent, with decimals near the ends where whole percents would round to 0 or 100."""
    rest = 100 * (1 - share if 0.985 < share < 1 else abs(share))
    decimals = 0
    if 0 < rest < 1.5:
        decimals = min(max(-math.floor(math.log10(rest)), 1), 4)
    return f"{100 * share:.{decimals}f} %"


def unit_of(spec: MetricSpec) -> str:
    """Return the units of a metric where those of the target are y."""
    if spec.units == "log":
        return "nats"
    return {0: "", 1: "y"}.get(spec.units, f"y^{spec.units}")


def describe(result: Result) -> str:
    """Return the sentence of the report about a value: its meaning and its comparison."""
    if result.error:
        return "not defined: " + result.error.split(". ")[0].rstrip(".")
    if not math.isfinite(result.value):
        size = "infinite" if result.value > 0 else "minus infinite"
        return f"{size}: some rows are out of all proportion, or have infinite quantiles"
    if isinstance(result.spec.optimum, str):
        return _describe_coverage(result)
    value = result.words(result.format(result.value))
    meaning = result.spec.meaning.format(value=value, percent=value)
    comparison = _compare_with_null(result)
    return f"{meaning}; {comparison}" if meaning and comparison else meaning or comparison


def headline(rows: Rows, forecast: Any, coverage: float) -> str:
    """Return in one line whether the forecasts are over- or underconfident, and whether they are biased."""
    y, weight = rows.y, rows.weight
    bounds = forecast.interval(coverage) if isinstance(forecast, Distribution) else forecast
    inside, below = weighted_mean(covered(y, bounds[:, 0], bounds[:, 1]), weight), None
    if isinstance(forecast, Distribution):
        median = forecast.median()
        below = weighted_mean((y < median) + 0.5 * (y == median), weight)
    return headline_words(inside, below, coverage, rows.total)


def headline_words(inside: float, below: float | None, coverage: float, n: float) -> str:
    """Return the same from the shares of n targets inside the interval and below the median.

    Without a median, as of bounds, nothing is compared: their nominal coverage is not known.
    """
    if below is None:
        return f"{percent(inside)} of the targets inside the interval"
    words = coverage_words(inside, coverage, _deviation(coverage, n, 0.95))
    if abs(below - 0.5) > _deviation(0.5, n, 0.95):
        side = "high" if below > 0.5 else "low"
        words += f"; biased: the median is too {side}, {percent(below)} of the targets lie below it"
    return words


def headline_of_classes(rows: Rows, forecast: ClassForecast, coverage: float) -> str:
    """Return in one line whether the sets cover what their probabilities claim, or what given sets cover."""
    sets = sets_of(forecast, coverage)
    inside = weighted_mean(is_in_set(rows.y, sets), rows.weight)
    if forecast.dtype == np.bool_:
        return f"{percent(inside)} of the labels in their set"
    mass = claimed_mass(forecast, sets)
    claimed = weighted_mean(mass, rows.weight)
    chance = _deviation_of(weighted_mean(mass * (1 - mass), rows.weight), rows.total, 0.95)
    word = _verdict(inside, claimed, chance)
    return f"{word}: {percent(inside)} of the labels in sets that claim {percent(claimed)}"


def coverage_words(inside: float, nominal: float, chance: float) -> str:
    """Return a share of targets inside the intervals in words: calibrated, over- or underconfident."""
    word = _verdict(inside, nominal, chance)
    return f"{word}: {percent(inside)} of the targets inside the {percent(nominal)} interval"


def _verdict(inside: float, claimed: float, chance: float) -> str:
    """Return how a share compares with the one that is claimed for it."""
    if abs(inside - claimed) <= chance:
        return "calibrated"
    return "overconfident" if inside < claimed else "underconfident"


def _describe_coverage(result: Result) -> str:
    """Return the sentence about a share whose optimum is an option, the nominal coverage."""
    nominal = float(result.optimum if result.optimum is not None else np.nan)
    chance = _deviation(nominal, result.n, result.confidence)
    if result.spec.of_classes:
        word = _verdict(result.value, nominal, chance)
        return f"{word}: {percent(result.value)} of the labels in the {percent(nominal)} sets"
    return coverage_words(result.value, nominal, chance)


def _deviation(share: float, n: float, confidence: float) -> float:
    """Return the half width of the interval of an observed share."""
    return _deviation_of(share * (1 - share), n, confidence)


def _deviation_of(variance: float, n: float, confidence: float) -> float:
    """Return the same from the variance of a hit; 0.5 / n corrects for continuity."""
    return float(ndtri((1 + confidence) / 2) * math.sqrt(variance / n) + 0.5 / n)


def _compare_with_null(result: Result) -> str:
    """Return how the value compares with that of a calibrated model."""
    spec, value = result.spec, result.value
    if not result.is_simulated:
        return _compare_without_simulation(result)
    spread = result.calibrated_high - result.calibrated_low
    if spread <= 1e-9 * abs(result.calibrated):
        return "it does not depend on the targets" if spec.direction is None else ""
    ordinary = result.words(result.format.span(result.calibrated_low, result.calibrated_high))
    if result.calibrated_low <= value <= result.calibrated_high:
        return f"by chance alone a calibrated model has {ordinary}"
    above = value > result.calibrated_high
    if spec.direction is None:
        return f"{'more' if above else 'less'} than if the forecasts were true, {ordinary}"
    worse = above if spec.direction == "lower" else not above
    if worse:
        return f"worse than a calibrated model, {ordinary}"
    if result.is_calibration_error:
        return f"no worse than a calibrated model, {ordinary}"
    # Only proper scores are known to depend on the scale.
    too_wide = ": the forecasts are too wide" if spec.proper else ""
    return f"better than a calibrated model, {ordinary}{too_wide}"


def _compare_without_simulation(result: Result) -> str:
    """Return the comparison with a formula, or what would be best."""
    spec = result.spec
    if math.isfinite(result.calibrated) and result.calibrated > 0 and spec.direction == "lower":
        ratio = result.value / result.calibrated
        average = result.words(result.format(result.calibrated))
        return f"{ratio:.1f} times what a calibrated model scores on average ({average})"
    if spec.direction is None:
        return "neither high nor low is better by itself"
    if result.optimum in {None, -math.inf}:
        return f"{spec.direction} is better"
    best = float(result.optimum or 0.0)
    return f"{spec.direction} is better, best {percent(best) if is_in_percent(spec) else number(best)}"
