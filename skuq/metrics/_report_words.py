"""What the numbers of a report mean, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from skuq.distributions import Distribution
from skuq.metrics._kernels import weighted_mean
from skuq.metrics._resampling import Rows
from skuq.metrics._spec import MetricSpec


@dataclass(frozen=True)
class Finding:
    """A value and what to hold it against."""

    spec: MetricSpec
    value: float
    optimum: float | None
    n: float
    calibrated: float
    calibrated_low: float
    calibrated_high: float
    confidence: float
    error: str

    @property
    def is_simulated(self) -> bool:
        """Whether the range of calibrated models is known."""
        return math.isfinite(self.calibrated_low) and math.isfinite(self.calibrated_high)

    @property
    def is_calibration_error(self) -> bool:
        """Whether calibrated forecasts of unlimited data have 0, so that no value is too small."""
        spec = self.spec
        return spec.small_sample and spec.direction == "lower" and spec.optimum == 0


def number(value: float, digits: int = 3) -> str:
    """Return a number as a person writes it."""
    if not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "")
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded == 0:
        return "0"
    if not 1e-4 <= abs(rounded) < 1e6:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:.{max(digits - 1 - math.floor(math.log10(abs(rounded))), 0)}f}"


def percent(share: float) -> str:
    """Return a share in percent, with decimals near the ends where whole percents say too little."""
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


def read_finding(finding: Finding) -> str:
    """Return what a value means."""
    if finding.error:
        return "not defined: " + finding.error.split(". ")[0].rstrip(".")
    if not math.isfinite(finding.value):
        size = "infinite" if finding.value > 0 else "minus infinite"
        return f"{size}: some rows are out of all proportion, or have infinite quantiles"
    if isinstance(finding.spec.optimum, str):
        return _read_coverage(finding)
    meaning = finding.spec.meaning.format(value=_value_in_words(finding), percent=percent(finding.value))
    judgement = _judge(finding)
    return f"{meaning}; {judgement}" if meaning and judgement else meaning or judgement


def headline(rows: Rows, forecast: Any, coverage: float) -> str:
    """Return in one line whether the forecasts claim too much, and whether they lie to one side."""
    y, weight, n = rows.y, rows.weight, rows.total
    bounds = forecast.interval(coverage) if isinstance(forecast, Distribution) else forecast
    inside = weighted_mean(((bounds[:, 0] <= y) & (y <= bounds[:, 1])).astype(np.float64), weight)
    if not isinstance(forecast, Distribution):
        return f"{percent(inside)} of the targets inside the interval"
    words = coverage_words(inside, coverage, _deviation(coverage, n, 0.95))
    median = forecast.median()
    below = weighted_mean((y < median) + 0.5 * (y == median), weight)
    if abs(below - 0.5) > _deviation(0.5, n, 0.95):
        side = "high" if below > 0.5 else "low"
        words += f"; biased: the median is too {side}, {percent(below)} of the targets lie below it"
    return words


def coverage_words(inside: float, nominal: float, chance: float) -> str:
    """Return what a share of targets inside the intervals says about the forecasts."""
    if abs(inside - nominal) <= chance:
        word = "calibrated"
    else:
        word = "overconfident" if inside < nominal else "underconfident"
    return f"{word}: {percent(inside)} of the targets inside the {percent(nominal)} interval"


def _read_coverage(finding: Finding) -> str:
    """Return the reading of a share that should equal the option that the record names."""
    nominal = float(finding.optimum if finding.optimum is not None else np.nan)
    chance = _deviation(nominal, finding.n, finding.confidence)
    return coverage_words(finding.value, nominal, chance)


def _deviation(share: float, n: float, confidence: float) -> float:
    """Return how far chance moves an observed share."""
    return float(ndtri((1 + confidence) / 2) * math.sqrt(share * (1 - share) / n) + 0.5 / n)


def _value_in_words(finding: Finding) -> str:
    """Return the value, with its units."""
    unit = unit_of(finding.spec)
    return number(finding.value) if unit in {"", "y"} else f"{number(finding.value)} {unit}"


def _judge(finding: Finding) -> str:
    """Return how the value compares with that of a calibrated model."""
    spec, value = finding.spec, finding.value
    if not finding.is_simulated:
        return _judge_without_simulation(finding)
    spread = finding.calibrated_high - finding.calibrated_low
    if spread <= 1e-9 * abs(finding.calibrated):
        return "it does not depend on the targets" if spec.direction is None else ""
    ordinary = f"{number(finding.calibrated_low)} to {number(finding.calibrated_high)}"
    if finding.calibrated_low <= value <= finding.calibrated_high:
        return f"by chance alone a calibrated model has {ordinary}"
    above = value > finding.calibrated_high
    if spec.direction is None:
        return f"{'more' if above else 'less'} than if the forecasts were true, {ordinary}"
    worse = above if spec.direction == "lower" else not above
    if worse:
        return f"worse than a calibrated model, {ordinary}"
    if finding.is_calibration_error:
        return f"no worse than a calibrated model, {ordinary}"
    cautious = ": they are too cautious" if spec.proper else ""  # others may not see the scale at all
    return f"better than the forecasts promise, {ordinary}{cautious}"


def _judge_without_simulation(finding: Finding) -> str:
    """Return the comparison with a formula, or what would be best."""
    spec = finding.spec
    if math.isfinite(finding.calibrated) and finding.calibrated > 0 and spec.direction == "lower":
        ratio = finding.value / finding.calibrated
        return f"{ratio:.1f} times what a calibrated model scores on average ({number(finding.calibrated)})"
    if spec.direction is None:
        return "neither high nor low is better by itself"
    best = "" if spec.optimum in {None, -math.inf} else f", best {number(float(spec.optimum or 0.0))}"
    return f"{spec.direction} is better{best}"
