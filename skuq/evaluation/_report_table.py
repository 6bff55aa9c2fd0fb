"""The report as a DataFrame that prints as a table, with a sentence for each value."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import ndtri

from skuq._numeric import ROUNDING, weighted_mean, weighted_means
from skuq._validation import FEWEST_ROWS
from skuq.distributions import Distribution
from skuq.evaluation._resampling import Rows
from skuq.metrics._class_scores import ClassForecast, is_in_set
from skuq.metrics._kernels import covered
from skuq.metrics._prediction_sets import set_mass_rows
from skuq.metrics._spec import MetricSpec

CERTAIN, PERHAPS = 1.5, "perhaps "
"""A verdict begins with "perhaps" if the difference is less than 1.5 times the half width of the 95 %
interval, that is, less than three standard errors."""

TOO_FEW = "no verdict from so few rows"

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
    def of(
        cls, values: Iterable[float], bounds: Iterable[float] = (), *, percent: bool, error: float = 0.0
    ) -> Self:
        """Return the format that shows three digits of the largest number, or as many as its error allows.

        The last digit is the first digit of half the standard error `error`. An error of 0 is unknown.
        """
        unit = 100.0 if percent else 1.0
        main = [abs(unit * value) for value in values if math.isfinite(value)]
        largest = max([*main, *(abs(unit * bound) for bound in bounds if math.isfinite(bound))], default=0.0)
        if largest == 0:
            return cls(0, percent)
        # Values below their error need no digit of their own.
        shown = [v for v in main if v > max(ROUNDING * largest, unit * error / 2)]
        digits = _decimals(largest, 3)
        if 0 < unit * error < math.inf:
            digits = min(digits, _decimals(unit * error / 2, 1))
        needed = [digits] + [max(_decimals(v, 1), min(_decimals(v, 3), 0)) for v in shown]
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


def rounded(value: float, error: float, *, percent: bool = False) -> str:
    """Return a number with the digits that its standard error allows."""
    return RowFormat.of([value], percent=percent, error=error)(value)


def _decimals(value: float, digits: int) -> int:
    return digits - 1 - int(f"{value:.{digits - 1}e}".split("e")[1])


def standard_error(lows: Iterable[float], highs: Iterable[float]) -> float:
    """Return the smallest standard error of some 95 % intervals, or 0 if none is known."""
    widths = [high - low for low, high in zip(lows, highs, strict=True) if high > low]
    return min(widths, default=0.0) / 4


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
    def format(self) -> RowFormat:
        bounds = (self.low, self.high, self.calibrated_low, self.calibrated_high)
        error = standard_error([self.low], [self.high])
        return RowFormat.of(
            [self.value, self.calibrated], bounds, percent=is_in_percent(self.spec), error=error
        )

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
    probabilities and if there are too few rows."""
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
    verdict = _verdict(inside, coverage, _half_width(coverage, n, 0.95), n)
    if below is None:
        words = f"the intervals contain {percent(inside)} of the targets"
        return Headline(words, inside, coverage, math.nan, verdict)
    words = coverage_words(inside, coverage, n, 0.95)
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
    if forecast.dtype == np.bool_:
        inside = weighted_mean(is_in_set(rows.y, forecast), rows.weight)
        return Headline(f"the sets contain {percent(inside)} of the labels", inside, math.nan, math.nan, "")
    means = weighted_means(set_mass_rows(rows.y, forecast, coverage=coverage), rows.weight)
    inside, claimed, variance = means.tolist()
    return class_headline_words(inside, claimed, variance, rows.total)


def class_headline_words(inside: float, claimed: float, variance: float, n: float) -> Headline:
    """Return the summary from the means of `set_mass_rows`."""
    chance = _half_width_of(variance, n, 0.95)
    word = _verdict(inside, claimed, chance, n)
    share = percent(inside) if word in ("", "calibrated") else percent_unlike(inside, claimed)
    words = (
        f"{word or TOO_FEW}: the sets contain {share} of the labels, with a predicted probability of "
        f"{percent(claimed)}"
    )
    return Headline(words, inside, claimed, math.nan, word)


def coverage_words(inside: float, nominal: float, n: float, confidence: float) -> str:
    word = _verdict(inside, nominal, _half_width(nominal, n, confidence), n)
    share = percent(inside) if word in ("", "calibrated") else percent_unlike(inside, nominal)
    return f"{word or TOO_FEW}: the {percent(nominal)} intervals contain {share} of the targets"


def _verdict(inside: float, claimed: float, chance: float, n: float) -> str:
    """Return the verdict on a share, or "" if there are too few rows to find it right."""
    if abs(inside - claimed) <= chance:
        return "" if n < FEWEST_ROWS else "calibrated"
    word = "overconfident" if inside < claimed else "underconfident"
    return word if abs(inside - claimed) > CERTAIN * chance else PERHAPS + word


def _describe_coverage(result: Result) -> str:
    nominal = float(result.optimum if result.optimum is not None else np.nan)
    if result.spec.of_classes:
        word = _verdict(result.value, nominal, _half_width(nominal, result.n, result.confidence), result.n)
        return f"{word or TOO_FEW}: the {percent(nominal)} sets contain {percent(result.value)} of the labels"
    return coverage_words(result.value, nominal, result.n, result.confidence)


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
    is_calibration_error = spec.small_sample and spec.direction == "lower" and spec.optimum == 0
    if is_calibration_error:
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


WIDTH = 120
"""Number of columns of the printed report."""

TIE = 1e-9
"""Two values are equally good if their relative difference is smaller than this, because the difference may
be due to rounding."""

STAR = "* best value of the row; test its significance with `paired_permutation_test`"


class UncertaintyReport(pd.DataFrame):
    """DataFrame that `uncertainty_report` returns. It is printed as a readable table.

    A selection of rows or columns is a plain DataFrame.

    Parameters
    ----------
    data, index, columns, dtype, copy : optional
        Arguments of `pandas.DataFrame`.

    See Also
    --------
    uncertainty_report : Makes the table and describes its columns.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import uncertainty_report
    >>> y, dist = [-0.5, 0.5] * 27 + [-3.0, 3.0] * 3, Normal([0.0] * 60, [1.0] * 60)
    >>> report = uncertainty_report(y, dist, metrics=["picp"], n_resamples=0, n_draws=0)
    >>> print(report)
    Uncertainty report, 60 rows
    calibrated: the 90 % intervals contain 90 % of the targets
    <BLANKLINE>
    Metric   Value  Calibrated  Best
    PICP    90.0 %      90.0 %  90 %
    <BLANKLINE>
    PICP  calibrated: the 90 % intervals contain 90 % of the targets
    """

    def __repr__(self) -> str:
        return self.to_text() if self._is_whole() else super().__repr__()

    def _repr_html_(self) -> str:
        return str(self.to_html())

    def to_text(self) -> str:
        """Return the report as text, with the models side by side.

        Returns
        -------
        text : str
            A summary line per model, a table, and the readings.
        """
        lines = [self._title()]
        lines += [f"{name}: {words}" if self._names() else words for name, words in self._summary().items()]
        frame = self._side_by_side() if self._names() else self._one_model(self)
        lines += ["", _aligned(frame.drop(columns="Reading", errors="ignore"))]
        if self._names():
            lines.append(STAR)
        for name in self._names():
            lines += ["", name, *_readings(self._part(name), indent="  ")]
        if not self._names():
            lines += ["", *_readings(self)]
        return "\n".join(lines)

    def to_html(self, *args: Any, **kwargs: Any) -> Any:
        """Return the report as an HTML fragment, or as the HTML table of pandas if there are arguments.

        Parameters
        ----------
        *args, **kwargs
            Arguments of `pandas.DataFrame.to_html`.

        Returns
        -------
        html : str
            Headings, summary and table. They have the colors and fonts of the page in which they are shown.
        """
        if args or kwargs or not self._is_whole():
            return pd.DataFrame(self).to_html(*args, **kwargs)
        named = bool(self._names())
        items = [
            f"<li>{f'<b>{escape(name)}</b>: ' if named else ''}{escape(words)}</li>"
            for name, words in self._summary().items()
        ]
        parts = [f"<p><b>{escape(self._title())}</b></p>", f"<ul>{''.join(items)}</ul>"]
        parts.append(_html_table(self._side_by_side() if named else self._one_model(self)))
        if named:
            note = re.sub("`(.+?)`", r"<code>\1</code>", escape(STAR))
            parts.append(f"<p>{note}</p>")
        for name in self._names():
            readings = self._part(name)
            frame = pd.DataFrame({"Metric": readings["title"], "Reading": readings["reading"]})
            parts += [f"<p><b>{escape(name)}</b></p>", _html_table(frame)]
        return f'<div class="skuq-report">{"".join(parts)}</div>'

    def _is_whole(self) -> bool:
        numbers = {"value", "low", "high", "calibrated", "calibrated_low", "calibrated_high"}
        needed = {"title", *numbers, "direction", "optimum", "reading"}
        return "summary" in self.attrs and needed <= set(self.columns)

    def _summary(self) -> dict[str, str]:
        return dict(self.attrs["summary"])

    def _names(self) -> list[str]:
        return list(self._summary()) if self.index.nlevels > 1 else []

    def _part(self, name: str) -> pd.DataFrame:
        return pd.DataFrame(self.xs(name, level="model"))

    def _title(self) -> str:
        return f"Uncertainty report, {self.attrs['rows']:g} rows"

    def _percent(self) -> str:
        return f"{100 * self.attrs['confidence']:g} %"

    def _one_model(self, part: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of one model as text."""
        written = [self._format(part.iloc[[i]]) for i in range(len(part))]
        frame = pd.DataFrame({"Metric": part["title"], "Value": _each(written, part["value"])})
        if part["low"].notna().any():
            frame[f"{self._percent()} interval"] = _spans(written, part["low"], part["high"])
        if part["calibrated"].notna().any():
            frame["Calibrated"] = _each(written, part["calibrated"])
        if part["calibrated_low"].notna().any():
            bounds = part["calibrated_low"], part["calibrated_high"]
            frame[f"{self._percent()} of calibrated"] = _spans(written, *bounds)
        frame["Best"] = self._best(part)
        frame["Reading"] = part["reading"]
        return frame

    def _format(self, rows: pd.DataFrame) -> RowFormat:
        values, bounds = (
            rows[names].to_numpy(dtype=float).ravel().tolist()
            for names in (["value", "calibrated"], ["low", "high", "calibrated_low", "calibrated_high"])
        )
        in_percent = rows["title"].iloc[0] in self.attrs["in_percent"]
        error = standard_error(rows["low"], rows["high"])
        return RowFormat.of(values, bounds, percent=in_percent, error=error)

    def _best(self, rows: pd.DataFrame) -> list[str]:
        cells = []
        for title, direction, optimum in zip(rows["title"], rows["direction"], rows["optimum"], strict=True):
            written = percent(optimum) if title in self.attrs["in_percent"] else f"{optimum:g}"
            goal = written if math.isfinite(optimum) else ""
            cells.append(", ".join(part for part in (direction, goal) if part))
        return cells

    def _side_by_side(self, *, spans: bool = True) -> pd.DataFrame:
        first = self.groupby(level="metric", sort=False).first()
        written = [self._format(rows) for _, rows in self.groupby(level="metric", sort=False)]
        frame = pd.DataFrame({"Metric": first["title"]})
        for name in self._names():
            part, won = self._part(name).reindex(first.index), won_by(self, name)
            columns = (part[column] for column in ("value", "low", "high"))
            frame[name] = [
                f"{form(value)}{'*' if metric in won else ' '}" + f" {form.span(low, high)}" * spans
                for form, metric, value, low, high in zip(written, part.index, *columns, strict=True)
            ]
        frame["Best"] = self._best(first)
        return frame


def won_by(report: pd.DataFrame, name: str) -> set[str]:
    """Return the metrics with their best value for one model, unless all models have it."""
    won = set()
    for metric, part in report.groupby(level="metric"):
        values, direction = part["value"].dropna().droplevel("metric"), part["direction"].iloc[0]
        if not direction or name not in values.index:
            continue
        best = values.min() if direction == "lower" else values.max()
        ties = (values == best) | ((values - best).abs() <= TIE * abs(best))
        if ties[name] and not ties.all():
            won.add(str(metric))
    return won


def _readings(part: pd.DataFrame, indent: str = "") -> list[str]:
    longest = max(map(len, part["title"]), default=0)
    lines: list[str] = []
    for title, reading in zip(part["title"], part["reading"], strict=True):
        first = f"{indent}{title:{longest}}  "
        lines += textwrap.wrap(reading, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
    return lines


def _each(written: list[RowFormat], values: pd.Series[float]) -> list[str]:
    return [form(value) for form, value in zip(written, values, strict=True)]


def _spans(written: list[RowFormat], low: pd.Series[float], high: pd.Series[float]) -> list[str]:
    return [form.span(*bounds) for form, *bounds in zip(written, low, high, strict=True)]


def _aligned(frame: pd.DataFrame) -> str:
    columns = [[str(name), *map(str, frame[name])] for name in frame.columns]
    widths = [max(map(len, cells)) for cells in columns]
    sides = [">" if _is_numeric(cells[1:]) else "<" for cells in columns]
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        for row in zip(*columns, strict=True)
    )
    return "\n".join(line.rstrip() for line in lines)


def _is_numeric(cells: list[str]) -> bool:
    try:
        [float(cell.removesuffix(" %")) for cell in cells if cell]
    except ValueError:
        return False
    return True


def _html_table(frame: pd.DataFrame) -> str:
    sides = ["right" if _is_numeric(list(frame[name])) else "left" for name in frame.columns]
    styles = [
        f"text-align:{side};padding:0.15em 0.6em{'' if name == 'Reading' else ';white-space:nowrap'}"
        for name, side in zip(frame.columns, sides, strict=True)
    ]
    head = "".join(_html_cell("th", name, style) for name, style in zip(frame.columns, styles, strict=True))
    rows = (
        "".join(_html_cell("td", cell, style) for cell, style in zip(row, styles, strict=True))
        for row in frame.itertuples(index=False)
    )
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html_cell(tag: str, content: object, style: str) -> str:
    return f'<{tag} style="{style}">{escape(str(content))}</{tag}>'
