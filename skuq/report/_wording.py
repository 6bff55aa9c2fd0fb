"""Words of the page: shares, names of parts, and the sentence below each figure."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from skuq._numeric import WeightedRanks
from skuq.displays import (
    CalibrationCurveDisplay,
    ClassReliabilityDisplay,
    PITHistogramDisplay,
    ReliabilityDisplay,
    SharpnessDisplay,
)
from skuq.distributions import Quantiles
from skuq.evaluation._report_table import TIE
from skuq.report._measure import (
    SMALL_GAP,
    STANDARD_ERRORS,
    bias_and_width,
    errors_of_halves,
    explained_by_chance,
    is_high,
    is_low,
)

MOST_NAMED = 5
"""Maximum number of parts that a sentence names."""

MOST_LETTERS = 28
"""Maximum number of letters of a name in the legend of a figure."""


def plain_words(text: str) -> str:
    """Replace "target" and "y", the terms of the metrics, with "observed value", the term of the page."""
    return text.replace("target", "observed value").replace(
        "units of y", "in the units of the observed values"
    )


def in_hundred(*shares: float) -> list[str]:
    """Return shares per hundred, with decimals if shares would otherwise look equal, or look like 0 or 1."""
    for decimals in (0, 1, 2, 3):
        texts = [f"{100 * share:.{decimals}f}" for share in shares]
        looks_exact = any(
            0 < share < 1 and float(text) in (0, 100) for share, text in zip(shares, texts, strict=True)
        )
        if len(set(texts)) == len(texts) and not looks_exact:
            break
    return texts


def rounded(value: float, error: float) -> str:
    """Return a number with the digits that its error allows."""
    if not 0 < error < math.inf:
        return f"{value:.3g}"
    decimals = -math.floor(math.log10(error))
    return f"{round(value, decimals):.{max(decimals, 0)}f}"


def sides(of_classes: bool) -> tuple[str, str]:
    """Return the words for a coverage that is too low or too high."""
    return ("too certain", "not certain enough") if of_classes else ("too narrow", "too wide")


def is_of_periods(table: pd.DataFrame) -> bool:
    """Return whether the parts are periods of time. Names of groups are text."""
    return isinstance(table.index, pd.DatetimeIndex) or pd.api.types.is_numeric_dtype(table.index)


def part_label(label: Any, table: pd.DataFrame) -> str:
    """Return the name of a group, or the start of a period, without hours if all starts are at midnight."""
    if isinstance(label, pd.Timestamp):
        starts = pd.DatetimeIndex(table.index)
        days = bool((starts == starts.normalize()).all())
        return f"{label:%Y-%m-%d}" if days else f"{label:%Y-%m-%d %H:%M}"
    return f"{label:g}" if isinstance(label, float) else str(label)


def listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def of_all_models(texts: Mapping[str, str]) -> str:
    """Return one line for each sentence, with the names of its models. A single model has no name."""
    if len(texts) == 1:
        return next(iter(texts.values()))
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    return "\n".join(f"{listed(each)}: {text}" for text, each in names.items())


def legend_names(names: Iterable[str]) -> dict[str, str]:
    """Return both ends of long names, or the lines of the whole names if their ends are equal."""
    ends = {name: name if len(name) <= MOST_LETTERS else f"{name[:14]}\u2026{name[-13:]}" for name in names}
    uses = Counter(ends.values())
    return {
        name: text if uses[text] == 1 else "\n".join(textwrap.wrap(name, MOST_LETTERS))
        for name, text in ends.items()
    }


MEANINGS = {
    "high": "the forecasts are too high",
    "low": "the forecasts are too low",
    "narrow": "the intervals are too narrow",
    "wide": "the intervals are too wide",
}
CURVES = {
    "high": "lies above the diagonal",
    "low": "lies below the diagonal",
    "narrow": "is flatter than the diagonal in the middle",
    "wide": "is steeper than the diagonal in the middle",
}
BARS = {
    "high": "fall from left to right",
    "low": "rise from left to right",
    "narrow": "form a U",
    "wide": "form a hump",
}


def _equal(n: float) -> str:
    return f"except for differences that chance explains with {n:.12g} rows."


def _shape(curve: bool, levels: Any, shares: Any, n: float) -> str:
    """Describe the shape of the observed shares below levels, and its meaning."""
    bias, width = bias_and_width(levels, shares, n)
    seen = [("low", "", "high")[bias + 1], ("narrow", "", "wide")[width + 1]]
    seen = [each for each in seen if each]
    what, looks = ("The curve", CURVES) if curve else ("The bars", BARS)
    if seen:
        return (
            f"{what} {' and '.join(looks[each] for each in seen)}, so "
            f"{' and '.join(MEANINGS[each] for each in seen)}."
        )
    worst = int(np.argmax(np.abs(shares - levels)))
    if explained_by_chance(levels, shares, n):
        verb = "follows the diagonal" if curve else "have equal heights"
        return f"{what} {verb}, {_equal(n)}"
    if abs(shares[worst] - levels[worst]) <= SMALL_GAP:
        verb = "is close to the diagonal" if curve else "have almost equal heights"
        return (
            f"{what} {verb}: the share of observed values below a quantile differs from its level by at most "
            f"{100 * SMALL_GAP:g} percentage point."
        )
    level, share = in_hundred(levels[worst], shares[worst])
    return (
        f"{what} {'leaves the diagonal' if curve else 'have different heights'}, because {share} % of the "
        f"observed values lie below the quantile of {level} %."
    )


def read_few_quantiles(forecast: Quantiles) -> str:
    return (
        f"Only {len(forecast.levels)} quantiles are given. skuq assumes the distribution between and beyond "
        "these quantiles, so the page draws no conclusion from this figure."
    )


def read_calibration(display: CalibrationCurveDisplay) -> str:
    return _shape(True, display.levels, np.asarray(display.proportions), display.n_rows)


def read_pit(display: PITHistogramDisplay) -> str:
    k = len(display.proportions)
    levels, shares = np.arange(1, k) / k, np.cumsum(display.proportions)[:-1]
    return _shape(False, levels, shares, display.n_rows)


def read_reliability(display: ReliabilityDisplay) -> str:
    table: Any = display.table
    parts = errors_of_halves(table)
    if any(rmse > 0 and rmv == 0 for _, rmv, rmse in parts):
        return "Some points lie above the diagonal: the predicted standard deviation is 0, but not the error."
    total = sum(n for n, *_ in parts)
    rmv, rmse = (math.sqrt(sum(each[0] * each[i] ** 2 for each in parts) / total) for i in (1, 2))
    ratios = [rmse / rmv if rmv else 1.0 for _, rmv, rmse in (parts[0], parts[-1], (total, rmv, rmse))]
    # The standard error of the logarithm of a root mean square of m normal errors is 1 / sqrt(2 m).
    errors = [math.sqrt(0.5 / n) for n in (parts[0][0], parts[-1][0], total)]
    first, second, whole = (
        int(np.sign(ratio - 1)) if _differ(ratio, 1.0, error) else 0
        for ratio, error in zip(ratios, errors, strict=True)
    )
    if first == second == whole == 0:
        return f"The points lie on the diagonal, {_equal(total)}"
    low, high, factor = (rounded(ratio, ratio * error) for ratio, error in zip(ratios, errors, strict=True))
    if whole == 0 or (first != second and _differ(ratios[0], ratios[1], math.hypot(*errors[:2]))):
        slope = "flatter" if ratios[0] > ratios[1] else "steeper"
        return (
            f"The points are {slope} than the diagonal: errors are {low} times the predicted standard "
            f"deviation where it is small, and {high} times where it is large."
        )
    side = "above" if whole > 0 else "below"
    return f"The points lie {side} the diagonal: errors are {factor} times as large as predicted."


def _differ(first: float, second: float, error: float) -> bool:
    """Return whether chance does not explain that ratios differ, given the error of their log difference."""
    low, high = sorted((first, second))
    return high > low * math.exp(STANDARD_ERRORS * error)


def read_sharpness(display: SharpnessDisplay) -> str:
    ranks = WeightedRanks(display.std, display.sample_weight)
    tail = 0.05 * ranks.total
    ends = ranks.values[0], ranks.values[-1], ranks.quantile(tail), ranks.quantile_from_top(tail)
    least, most, low, high = (f"{float(end):.3g}" for end in ends)
    if least == most:
        return f"The predicted standard deviation is {least} in all rows."
    usual = low if low == high else f"between {low} and {high}"
    mean = f"{display.value:.3g}"
    return f"The predicted standard deviation is {mean} on average, and {usual} in 90 % of the rows."


def read_classes(display: ClassReliabilityDisplay) -> str:
    table: Any = display.table
    n, p = table["n"], table["predicted"].clip(0, 1)
    gap = float((n * (table["observed"] - p)).sum() / n.sum())
    error = math.sqrt(float((n * p * (1 - p)).sum())) / float(n.sum())
    size = rounded(100 * abs(gap), 100 * error)
    if abs(gap) > max(STANDARD_ERRORS * error, TIE):
        side, less = ("below", "less") if gap < 0 else ("above", "more")
        return (
            f"The points lie {side} the diagonal, because the class is observed {size} percentage points "
            f"{less} often than predicted."
        )
    far = (table["observed"] - p).abs() > STANDARD_ERRORS * np.sqrt(p * (1 - p) / n) + 0.5 / n
    if far.any():
        worst = 100 * float((table["observed"] - p)[far].abs().max())
        return f"Some points are up to {worst:.0f} percentage points off the diagonal, more than by chance."
    return f"The points lie on the diagonal, {_equal(float(n.sum()))}"


def read_intervals(
    share: float, goal: float, n: float, *, may_cover_more: bool, drawn: int, rows: int
) -> str:
    error = math.sqrt(goal * (1 - goal) / n)
    shown, nominal = rounded(100 * share, 100 * error), f"{100 * goal:g}"
    words = f"{shown} % of the intervals contain their observed value, and {nominal} % should"
    if abs(share - goal) <= STANDARD_ERRORS * error + 0.5 / n:
        words += "." if f"{float(shown):g}" == nominal else "; chance explains the difference."
    elif may_cover_more and share > goal:
        words += " at least."
    else:
        words += f", so {'too few do' if share < goal else 'too many do'}."
    return words + (f" {drawn} of {rows} rows are drawn." if drawn < rows else "")


def read_parts(table: pd.DataFrame, of_classes: bool) -> str:
    what = "probabilities" if of_classes else "intervals"
    texts = []
    for side, chosen in zip(sides(of_classes), (is_low(table), is_high(table)), strict=True):
        names = [part_label(label, table) for label in table.index[chosen]]
        if names:
            rest = len(names) - MOST_NAMED
            names = names[:MOST_NAMED] + ([f"{rest} more"] if rest > 0 else [])
            texts.append(f"{side} in {listed(names)}")
    if texts:
        return f"The {what} are {', '.join(texts)}."
    return f"The {what} are right in each part, {_equal(float(table['n'].sum()))}"
