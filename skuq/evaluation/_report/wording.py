"""Formats of the numbers of a report, and a sentence for each value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from skuq._rounding import ROUNDING
from skuq._weights import weighted_mean
from skuq.distributions import Distribution
from skuq.evaluation._resampling import Rows
from skuq.metrics._internal import ClassForecast, MetricSpec, claimed_mass, covered, is_in_set, sets_of

CERTAIN, PERHAPS = 1.5, "perhaps "
"""A verdict begins with "perhaps" if the difference is less than 1.5 times the half width of the 95 %
interval, that is, less than three standard errors."""

MOST_DECIMALS = 6
"""Numbers that need more decimals than this are printed with an exponent. Numbers of a million or more also
have an exponent."""


@dataclass(frozen=True)
class RowFormat:
    """Unit and number of decimals that all numbers in a row of the report share."""

    decimals: int | None
    """Number of decimals. A negative number means that digits before the decimal point are rounded. None
    prints an exponent."""
    percent: bool

    @classmethod
    def of(cls, values: Iterable[float], bounds: Iterable[float] = (), *, percent: bool) -> Self:
        """Return the format that shows at least three digits of the largest number."""
        unit = 100.0 if percent else 1.0
        main = [abs(unit * value) for value in values if math.isfinite(value)]
        largest = max([*main, *(abs(unit * bound) for bound in bounds if math.isfinite(bound))], default=0.0)
        if largest == 0:
            return cls(0, percent)
        shown = [v for v in main if v > ROUNDING * largest]
        needed = [_decimals(largest, 3)] + [max(_decimals(v, 1), min(_decimals(v, 3), 0)) for v in shown]
        if percent:  # 99.96 % must not be printed as 100 %.
            needed += [_decimals(100 - v, 1) for v in main if 98.5 < v < 100]
        decimals = max(needed)
        fits = decimals <= MOST_DECIMALS and largest < 1e6
        return cls(decimals if fits else None, percent)

    def __call__(self, value: float) -> str:
        """Return a number as text. NaN becomes an empty text."""
        plain = self._plain(value)
        return f"{plain} %" if self.percent and plain else plain

    def span(self, low: float, high: float) -> str:
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
    return digits - 1 - int(f"{value:.{digits - 1}e}".split("e")[1])


def is_in_percent(spec: MetricSpec) -> bool:
    return "{percent}" in spec.meaning or isinstance(spec.optimum, str)


@dataclass(frozen=True)
class Result:
    """A metric of one model: value, interval, optimum, and range of the values of calibrated models."""

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
        return math.isfinite(self.calibrated_low) and math.isfinite(self.calibrated_high)

    @property
    def is_calibration_error(self) -> bool:
        spec = self.spec
        return spec.small_sample and spec.direction == "lower" and spec.optimum == 0

    @property
    def format(self) -> RowFormat:
        bounds = (self.low, self.high, self.calibrated_low, self.calibrated_high)
        return RowFormat.of([self.value, self.calibrated], bounds, percent=is_in_percent(self.spec))

    def with_unit(self, text: str) -> str:
        unit = unit_name(self.spec)
        return text if unit in {"", "y"} else f"{text} {unit}"


def number(value: float, digits: int = 3) -> str:
    if not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "")
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded == 0:
        return "0"
    if not 1e-4 <= abs(rounded) < 1e6:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:.{max(digits - 1 - math.floor(math.log10(abs(rounded))), 0)}f}"


def percent(share: float) -> str:
    """Return a share in percent. Shares near 0 or 100 % have more decimals."""
    rest = 100 * (1 - share if 0.985 < share < 1 else abs(share))
    decimals = 0
    if 0 < rest < 1.5:
        decimals = min(max(-math.floor(math.log10(rest)), 1), 4)
    return f"{100 * share:.{decimals}f} %"


def percent_unlike(share: float, other: float) -> str:
    """Return a share in percent, with decimals if it would otherwise look equal to another share."""
    text = percent(share)
    if text != percent(other):
        return text
    for decimals in (1, 2, 3):
        text = f"{100 * share:.{decimals}f} %"
        if text != f"{100 * other:.{decimals}f} %":
            break
    return text


def unit_name(spec: MetricSpec) -> str:
    if spec.units == "log":
        return "nats"
    return {0: "", 1: "y"}.get(spec.units, f"y^{spec.units}")


def describe(result: Result) -> str:
    if result.error:
        return "not defined: " + result.error.split(". ")[0].rstrip(".")
    if not math.isfinite(result.value) and result.spec.of_classes:
        return "infinite: some observed classes have a predicted probability of 0"
    if not math.isfinite(result.value):
        size = "infinite" if result.value > 0 else "minus infinite"
        return f"{size}: some rows have extreme values or infinite quantiles"
    if isinstance(result.spec.optimum, str):
        return _describe_coverage(result)
    value = result.with_unit(result.format(result.value))
    meaning = result.spec.meaning.format(value=value, percent=value)
    comparison = _compare_with_null(result)
    return f"{meaning}; {comparison}" if meaning and comparison else meaning or comparison


@dataclass(frozen=True)
class Headline:
    """Summary of one forecast in words, with the shares of targets from which the words follow."""

    words: str
    inside: float
    """Share of targets in their central interval or prediction set."""
    claimed: float
    """Nominal coverage, or mean predicted probability of the sets. NaN for sets without probabilities."""
    below: float
    """Share of targets below the median. NaN for intervals and classes."""
    verdict: str
    """"calibrated", "overconfident", "underconfident", the two latter after "perhaps", or "" for sets without
    probabilities."""
    biased: bool = False
    shift: float = math.nan
    """Mean of the observed values minus the medians, in the units of y. NaN if it is not known."""


def headline(rows: Rows, forecast: Any, coverage: float) -> Headline:
    y, weight = rows.y, rows.weight
    bounds = forecast.interval(coverage) if isinstance(forecast, Distribution) else forecast
    inside, below, shift = weighted_mean(covered(y, bounds[:, 0], bounds[:, 1]), weight), None, math.nan
    if isinstance(forecast, Distribution):
        median = forecast.median()
        below = weighted_mean((y < median) + 0.5 * (y == median), weight)
        shift = weighted_mean(y - median, weight)
    return headline_words(inside, below, coverage, rows.total, shift)


def headline_words(
    inside: float, below: float | None, coverage: float, n: float, shift: float = math.nan
) -> Headline:
    verdict = _verdict(inside, coverage, _half_width(coverage, n, 0.95))
    if below is None:
        words = f"the intervals contain {percent(inside)} of the targets"
        return Headline(words, inside, coverage, math.nan, verdict)
    words = coverage_words(inside, coverage, _half_width(coverage, n, 0.95))
    chance = _half_width(0.5, n, 0.95)
    biased = abs(below - 0.5) > chance
    if biased:
        perhaps = "" if abs(below - 0.5) > CERTAIN * chance else PERHAPS
        words += f"; {perhaps}{bias_words({'below': below, 'shift': shift})}"
    return Headline(words, inside, coverage, below, verdict, biased, shift)


def bias_words(shares: Mapping[str, Any]) -> str:
    """Describe a bias by its size, if known, and by the share of observed values below the median."""
    below, shift = shares["below"], shares.get("shift", math.nan)
    side = "high" if below > 0.5 else "low"
    # A few extreme rows can reverse the sign of the mean.
    agrees = math.isfinite(shift) and (shift < 0) == (below > 0.5)
    size = f" on average by {number(abs(shift), 2)} (units of y)" if agrees else ""
    return (
        f"the forecasts are too {side}{size}: {percent(below)} of the observed values lie below the middle "
        "of their forecast; 50 % should"
    )


def headline_of_classes(rows: Rows, forecast: ClassForecast, coverage: float) -> Headline:
    sets = sets_of(forecast, coverage)
    inside = weighted_mean(is_in_set(rows.y, sets), rows.weight)
    if forecast.dtype == np.bool_:
        return Headline(f"the sets contain {percent(inside)} of the labels", inside, math.nan, math.nan, "")
    mass = claimed_mass(forecast, sets)
    claimed, variance = (weighted_mean(each, rows.weight) for each in (mass, mass * (1 - mass)))
    return class_headline_words(inside, claimed, variance, rows.total)


def class_headline_words(inside: float, claimed: float, variance: float, n: float) -> Headline:
    """Return the summary from the means of `set_mass_rows`."""
    chance = _half_width_of(variance, n, 0.95)
    word = _verdict(inside, claimed, chance)
    share = percent(inside) if word == "calibrated" else percent_unlike(inside, claimed)
    words = (
        f"{word}: the sets contain {share} of the labels, with a predicted probability of {percent(claimed)}"
    )
    return Headline(words, inside, claimed, math.nan, word)


def coverage_words(inside: float, nominal: float, chance: float) -> str:
    word = _verdict(inside, nominal, chance)
    share = percent(inside) if word == "calibrated" else percent_unlike(inside, nominal)
    return f"{word}: the {percent(nominal)} intervals contain {share} of the targets"


def _verdict(inside: float, claimed: float, chance: float) -> str:
    if abs(inside - claimed) <= chance:
        return "calibrated"
    word = "overconfident" if inside < claimed else "underconfident"
    return word if abs(inside - claimed) > CERTAIN * chance else PERHAPS + word


def _describe_coverage(result: Result) -> str:
    nominal = float(result.optimum if result.optimum is not None else np.nan)
    chance = _half_width(nominal, result.n, result.confidence)
    if result.spec.of_classes:
        word = _verdict(result.value, nominal, chance)
        return f"{word}: the {percent(nominal)} sets contain {percent(result.value)} of the labels"
    return coverage_words(result.value, nominal, chance)


def _half_width(share: float, n: float, confidence: float) -> float:
    return _half_width_of(share * (1 - share), n, confidence)


def _half_width_of(variance: float, n: float, confidence: float) -> float:
    return float(ndtri((1 + confidence) / 2) * math.sqrt(variance / n) + 0.5 / n)


def _compare_with_null(result: Result) -> str:
    spec, value = result.spec, result.value
    if not result.is_simulated:
        return _compare_without_simulation(result)
    spread = result.calibrated_high - result.calibrated_low
    if spread <= 1e-9 * abs(result.calibrated):
        return "it does not depend on the targets" if spec.direction is None else ""
    ordinary = result.with_unit(result.format.span(result.calibrated_low, result.calibrated_high))
    if result.calibrated_low <= value <= result.calibrated_high:
        return f"a calibrated model has {ordinary} by chance"
    above = value > result.calibrated_high
    if spec.direction is None:
        return f"{'more' if above else 'less'} than if the forecasts were right, {ordinary}"
    worse = above if spec.direction == "lower" else not above
    if worse:
        return f"worse than a calibrated model, {ordinary}"
    if result.is_calibration_error:
        return f"no worse than a calibrated model, {ordinary}"
    # Some metrics that are not proper do not depend on the scale of the forecasts.
    too_wide = "; the forecasts of some rows are too wide" if spec.proper else ""
    return f"{'higher' if above else 'lower'} than if the forecasts were right, {ordinary}{too_wide}"


def _compare_without_simulation(result: Result) -> str:
    """Return the comparison of the value with a formula, or with the optimum if there is no formula."""
    spec = result.spec
    if math.isfinite(result.calibrated) and result.calibrated > 0 and spec.direction == "lower":
        ratio = result.value / result.calibrated
        average = result.with_unit(result.format(result.calibrated))
        return f"{ratio:.1f} times the average of a calibrated model ({average})"
    if spec.direction is None:
        return "neither direction is better"
    if result.optimum in {None, -math.inf}:
        return f"{spec.direction} is better"
    best = float(result.optimum or 0.0)
    return f"{spec.direction} is better, best {percent(best) if is_in_percent(spec) else number(best)}"
