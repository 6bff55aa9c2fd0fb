"""Words of the page: names of parts and models, and the sentence below each figure."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from skuq.evaluation._report_table import TIE, RowFormat, percent, rounded
from skuq.report._measure import (
    SMALL_GAP,
    STANDARD_ERRORS,
    bias_and_width,
    error_of_share,
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


def part_format(table: pd.DataFrame) -> RowFormat:
    """Return the format of the coverage of parts. The 99 % intervals have a width of several errors."""
    error = float((table["high"] - table["low"]).min()) / 8
    return RowFormat.of([*table["coverage"], *table["nominal"]], percent=True, error=error)


def directions(table: pd.DataFrame) -> str:
    """Name the worst parts: "The coverage is too low in North (73 % instead of 90 %)."."""
    form, texts = part_format(table), []
    for side, chosen in (("too low", table[is_low(table)]), ("too high", table[is_high(table)])):
        if chosen.empty:
            continue
        size = chosen["coverage"].sub(chosen["nominal"]).abs().to_numpy()
        worst = sorted(size.argsort(kind="stable")[::-1][:MOST_NAMED])
        names = [
            f"{part_label(label, table)} ({form(row['coverage'])} instead of {form(row['nominal'])})"
            for label, row in chosen.iloc[worst].iterrows()
        ]
        rest = len(chosen) - len(names)
        texts.append(f"{side} in {listed([*names, *[f'{rest} more'] * bool(rest)])}")
    return f"The coverage is {', and '.join(texts)}."


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


SHAPES = {
    "high": ("lies above the diagonal", "fall from left to right", "the forecasts are too high"),
    "low": ("lies below the diagonal", "rise from left to right", "the forecasts are too low"),
    "narrow": ("is flatter than the diagonal in the middle", "form a U", "the intervals are too narrow"),
    "wide": ("is steeper than the diagonal in the middle", "form a hump", "the intervals are too wide"),
}
"""Looks of a calibration curve and of the bars of a PIT histogram, and their meaning."""


def _equal(n: float) -> str:
    return f"except for differences that chance explains with {n:.12g} rows."


def _shape(curve: bool, levels: Any, shares: Any, n: float) -> str:
    """Describe the shape of the observed shares below levels, and its meaning."""
    bias, width = bias_and_width(levels, shares, n)
    names = ("", "high", "low")[bias], ("", "wide", "narrow")[width]
    seen = [SHAPES[name] for name in names if name]
    what = "The curve" if curve else "The bars"
    if seen:
        looks, meanings = (
            " and ".join(each[not curve] for each in seen),
            " and ".join(each[2] for each in seen),
        )
        return f"{what} {looks}, so {meanings}."
    worst = int(np.argmax(np.abs(shares - levels)))
    if explained_by_chance(levels, shares, n):
        return f"{what} {'follows the diagonal' if curve else 'have equal heights'}, {_equal(n)}"
    if abs(shares[worst] - levels[worst]) <= SMALL_GAP:
        verb = "is close to the diagonal" if curve else "have almost equal heights"
        return (
            f"{what} {verb}: the share of observed values below a quantile differs from its level by at most "
            f"{100 * SMALL_GAP:g} percentage point."
        )
    verb = "leaves the diagonal" if curve else "have different heights"
    share = rounded(shares[worst], error_of_share(levels[worst], n), percent=True)
    return (
        f"{what} {verb}, because {share} of the observed values lie below the quantile of "
        f"{percent(levels[worst])}."
    )


def read_few_quantiles(levels: Sequence[float]) -> str:
    given = f"Only the quantiles of {listed([percent(p) for p in levels])} are given"
    return (
        f"{given if levels else 'No quantile is given for all rows'}. skuq assumes the distribution between "
        "and beyond given quantiles, so the page draws no conclusion from this figure."
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
    n = sum(each[0] for each in parts)
    whole = n, *(math.sqrt(sum(each[0] * each[i] ** 2 for each in parts) / n) for i in (1, 2))
    ratios = [rmse / rmv if rmv else 1.0 for _, rmv, rmse in (parts[0], parts[-1], whole)]
    # The standard error of the logarithm of a root mean square of m normal errors is 1 / sqrt(2 m).
    errors = [math.sqrt(0.5 / each[0]) for each in (parts[0], parts[-1], whole)]
    low, high, factor = (rounded(ratio, ratio * error) for ratio, error in zip(ratios, errors, strict=True))
    if _differ(ratios[0], ratios[1], math.hypot(*errors[:2])):
        slope = "flatter" if ratios[0] > ratios[1] else "steeper"
        return (
            f"The points are {slope} than the diagonal: errors are {low} times the predicted standard "
            f"deviation where it is small, and {high} times where it is large."
        )
    if _differ(ratios[2], 1.0, errors[2]):
        side = "above" if ratios[2] > 1 else "below"
        return f"The points lie {side} the diagonal: errors are {factor} times as large as predicted."
    return f"The points lie on the diagonal, {_equal(n)}"


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
    if abs(gap) > max(STANDARD_ERRORS * error, TIE):
        side, less = ("below", "less") if gap < 0 else ("above", "more")
        return (
            f"The points lie {side} the diagonal, because the class is observed "
            f"{rounded(100 * abs(gap), 100 * error)} percentage points {less} often than predicted."
        )
    far = (table["observed"] - p).abs() > STANDARD_ERRORS * np.sqrt(p * (1 - p) / n) + 0.5 / n
    if far.any():
        worst = 100 * float((table["observed"] - p)[far].abs().max())
        return f"Some points are up to {worst:.0f} percentage points off the diagonal, more than by chance."
    return f"The points lie on the diagonal, {_equal(float(n.sum()))}"


def read_intervals(share: float, goal: float, n: float, *, may_cover_more: bool) -> str:
    error = error_of_share(goal, n)
    if abs(share - goal) <= STANDARD_ERRORS * error + 0.5 / n:
        end = ", within the range of chance"
    elif may_cover_more and share > goal:
        end = " at least"
    else:
        end = f", so too {'few' if share < goal else 'many'} do"
    shown = rounded(share, error, percent=True)
    return f"{shown} of the intervals contain their observed value, and {percent(goal)} should{end}."


def read_parts(table: pd.DataFrame) -> str:
    if table["flag"].any():
        return directions(table)
    return f"The coverage is right in each part, {_equal(float(table['n'].sum()))}"
