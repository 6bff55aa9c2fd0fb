"""The findings of the page: what is wrong, the evidence, and the code that repairs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from skuq._validation import DEFAULT_COVERAGE, FEWEST_ROWS
from skuq.evaluation._report_table import CERTAIN, PERHAPS, bias_words, percent
from skuq.report._measure import (
    INNER,
    OUTER,
    SMALL_GAP,
    STANDARD_ERRORS,
    Diagnostics,
    errors_of_halves,
    is_high,
    is_low,
)
from skuq.report._wording import (
    MOST_NAMED,
    in_hundred,
    is_of_periods,
    listed,
    part_label,
    plain_words,
    rounded,
    sides,
)

MOST_TIMES_CALIBRATED = 3.0
"""Without simulations, an error is large if it is this number of times the average of a calibrated model."""

LARGE_RELATIVE_ERROR = 0.05


@dataclass(frozen=True)
class Evidence:
    """Numbers of one model: its shares, its rows of the report and its coverage of parts of the rows."""

    headline: Mapping[str, Any]
    table: pd.DataFrame
    rows: float
    of_classes: bool
    parts: Mapping[str, pd.DataFrame]
    diagnostics: Diagnostics

    @property
    def local(self) -> list[str]:
        """Names of the groupings in which only some parts are faulty, or faults have opposite directions."""
        return [name for name, table in self.parts.items() if name in self.opposite or self._is_local(table)]

    def _is_local(self, table: pd.DataFrame) -> bool:
        return bool((table["flag"] & self.differs(table)).any()) and _rest_is_right(table)

    def differs(self, table: pd.DataFrame) -> pd.Series[bool]:
        """Return which parts differ significantly in coverage from all rows together."""
        inside = self.headline["inside"]
        differs: pd.Series[bool] = (table["high"] < inside) | (table["low"] > inside)
        return differs

    @property
    def kind(self) -> str:
        """Kind of the forecasts, see `Diagnostics`. A report without a page knows only bounds."""
        return "bounds" if math.isnan(self.headline["below"]) else self.diagnostics.kind

    @property
    def verdict(self) -> str:
        """Verdict on the coverage without "perhaps"."""
        return str(self.headline["verdict"]).removeprefix(PERHAPS)

    @property
    def may_be_chance(self) -> bool:
        """Return whether the number of rows may explain the difference from the claimed coverage."""
        return str(self.headline["verdict"]).startswith(PERHAPS)

    @property
    def bias_may_be_chance(self) -> bool:
        return abs(float(self.headline["below"]) - 0.5) < STANDARD_ERRORS * 0.5 / math.sqrt(self.rows)

    @property
    def has_wrong_width(self) -> bool:
        is_certain = self.verdict not in ("", "calibrated") and not self.may_be_chance
        return is_certain and abs(self.gap) >= SMALL_GAP

    @property
    def has_bias(self) -> bool:
        is_certain = bool(self.headline["biased"]) and not self.bias_may_be_chance
        return is_certain and abs(float(self.headline["below"]) - 0.5) >= SMALL_GAP

    @property
    def shows_shape(self) -> bool:
        """Return whether the shape and the standard deviation are given, not only some quantiles."""
        return self.kind != "few quantiles"

    @property
    def is_uneven(self) -> bool:
        """Return whether the width is right on average, but not for individual rows."""
        plain = abs(self.gap) < 2 * SMALL_GAP
        return plain and self.shows_shape and self.is_beyond("ence", LARGE_RELATIVE_ERROR)

    @property
    def has_heavy_tails(self) -> bool:
        """Return whether inner intervals contain too many and outer intervals too few observed values."""
        inner, outer = self.diagnostics.inner, self.diagnostics.outer
        chances = [STANDARD_ERRORS * math.sqrt(p * (1 - p) / self.rows) for p in (INNER, OUTER)]
        return inner - INNER > chances[0] and OUTER - outer > chances[1]

    @property
    def errors_do_not_grow(self) -> bool:
        """Return whether the rows with larger predicted uncertainty do not have larger errors."""
        bins = self.diagnostics.bins
        if bins is None or len(bins) < 2:
            return False
        (first, low, small), (second, high, large) = errors_of_halves(bins)
        # The standard error of the logarithm of a root mean square of m normal errors is 1 / sqrt(2 m).
        chance = STANDARD_ERRORS * math.sqrt(0.5 / first + 0.5 / second)
        return large <= small and low > 0 and math.log(high / low) > chance

    @property
    def opposite(self) -> list[str]:
        """Names of the groupings whose coverage is too low in some parts and too high in other parts."""
        return [name for name, table in self.parts.items() if is_low(table).any() and is_high(table).any()]

    @property
    def gap(self) -> float:
        return float(self.headline["inside"] - self.headline["claimed"])

    def number(self, metric: str, column: str = "value") -> float:
        return float(self.table[column].get(metric, math.nan))

    def is_beyond(self, metric: str, least: float) -> bool:
        """Return whether a metric exceeds both ``least`` and the values of calibrated models."""
        value, mean, high = (self.number(metric, each) for each in ("value", "calibrated", "calibrated_high"))
        # The range of the table contains 95 % of the calibrated models, that is, two standard errors.
        high = mean * MOST_TIMES_CALIBRATED if math.isnan(high) else mean + CERTAIN * (high - mean)
        return value > max(high, least)


def _rest_is_right(table: pd.DataFrame) -> bool:
    """Return whether all parts without a flag together have the nominal coverage."""
    rest = table.loc[~table["flag"], ["n", "coverage", "nominal"]]
    n = float(rest["n"].sum())
    if n == 0:
        return False
    inside, goal = (float((rest["n"] * rest[column]).sum() / n) for column in ("coverage", "nominal"))
    return abs(inside - goal) < STANDARD_ERRORS * math.sqrt(goal * (1 - goal) / n)


Severity = Literal["wrong", "note", "good"]

FEW_ROWS = 200


@dataclass(frozen=True)
class Tool:
    """Class that corrects a fault, and the situation in which to use the class."""

    when: str
    name: str
    code: str = ""


@dataclass(frozen=True)
class Finding:
    """Fault or property of a forecast: what is observed, what to do, and with which classes."""

    severity: Severity
    title: str
    words: str
    remedy: str = ""
    tools: tuple[Tool, ...] = ()


MODEL, FORECASTS = "If you can train the model again", "With the forecasts alone"
RECALIBRATED = Tool(MODEL, "skuq.UncertaintyRegressor", "skuq.UncertaintyRegressor(model).fit(X, y)")
RESIDUAL = Tool(
    MODEL, "skuq.regressors.ResidualRegressor", "skuq.regressors.ResidualRegressor(model).fit(X, y)"
)
CALIBRATED_CLASSIFIER = Tool(
    "For correct probabilities",
    "sklearn.calibration.CalibratedClassifierCV",
    "sklearn.calibration.CalibratedClassifierCV(model, method='isotonic').fit(X, y)",
)
CONFORMAL_CLASSIFIER = Tool(
    "For sets with a guaranteed coverage",
    "skuq.conformal.ConformalClassifier",
    "skuq.conformal.ConformalClassifier(model).fit(X, y)",
)
ONE_CALL = RESIDUAL, CALIBRATED_CLASSIFIER
"""Calls that repair all faults for which they are recommended."""

HELD_OUT = "Use rows that the model was not trained on, and check the result on a third set of rows."
PARTS_FIRST = (
    "Act on the first finding, and create the report again. Do not change all rows by the same factor: "
    "only some of the rows need this change."
)


def _recalibrator(evidence: Evidence, fault: str) -> str:
    """Return the call of the recalibrator that corrects a fault of the width, the shape or the spread."""
    kind = evidence.kind
    if kind in ("bounds", "few quantiles") or (kind == "quantiles" and fault != "spread"):
        return "QuantileShiftRecalibrator()"
    without_std = kind != "unknown" or math.isnan(evidence.table["value"].get("ence", 0.0))
    if evidence.diagnostics.bins is None and without_std:  # The other recalibrators need standard deviations.
        return "IsotonicRecalibrator()"
    if fault == "spread":
        return "BinnedScalingRecalibrator()"
    if fault == "width":
        coverage = evidence.headline["claimed"]
        level = "" if coverage == DEFAULT_COVERAGE else f", coverage={coverage:.12g}"
        return f"StdScalingRecalibrator(objective='coverage'{level})"
    # No map of the levels extends an ensemble, which may be of an unknown kind, beyond its outermost members.
    return "IsotonicRecalibrator()" if kind == "distribution" else "EmpiricalRecalibrator()"


def _of_forecasts(evidence: Evidence, fault: str, part: str = "") -> Tool:
    """Return the tool that corrects forecasts, or the rows of one part, with past forecasts."""
    call = _recalibrator(evidence, fault)
    old, new, y = "old_forecasts", "forecasts", "old_y"
    if evidence.kind == "bounds":
        coverage = evidence.headline["claimed"]
        levels = ", ".join(f"{(1 + sign * coverage) / 2:.12g}" for sign in (-1, 1))
        old, new = (f"skuq.distributions.Quantiles([{levels}], {bounds})" for bounds in (old, new))
    elif part:  # A frozen scipy distribution has no rows.
        old, new = (f"skuq.distributions.as_distribution({each})" for each in (old, new))
    if part:
        old, new, y = f"{old}[old_rows]", f"{new}[rows]", f"{y}[old_rows]"
    code = f"skuq.recalibration.{call}.fit({old}, {y}).transform({new})"
    name = f"skuq.recalibration.{call.partition('(')[0]}"
    return Tool(f"{FORECASTS}{part}", name, code)


def findings(evidence: Evidence) -> list[Finding]:
    """Return the faults of a forecast, or the statement that no fault was found."""
    rules = CLASS_RULES if evidence.of_classes else REGRESSION_RULES
    found = _with_shared_calls(_merged([finding for rule in rules for finding in rule(evidence)]))
    if not any(finding.severity == "wrong" for finding in found):
        found.insert(0, _no_fault(evidence))
    return sorted(found, key=lambda finding: ("wrong", "good", "note").index(finding.severity))


def _merged(found: list[Finding]) -> list[Finding]:
    """Join the faults that have the same remedy."""
    merged: dict[object, Finding] = {}
    for number, finding in enumerate(found):
        key = finding.tools or finding.remedy or number
        first = merged.get(key)
        if first is None:
            merged[key] = finding
            continue
        title = f"{first.title}, and {finding.title[0].lower()}{finding.title[1:]}"
        merged[key] = replace(first, title=title, words=f"{first.words} {finding.words}")
    return list(merged.values())


def _with_shared_calls(found: list[Finding]) -> list[Finding]:
    """Add a sentence to each finding if its call also repairs an earlier finding."""
    repaired: dict[Tool, str] = {}
    shared = []
    for finding in found:
        tools = [tool for tool in finding.tools if tool in ONE_CALL]
        above = [repaired[tool] for tool in tools if tool in repaired]
        if above:
            words = f'{finding.remedy} This also repairs "{above[0]}": one call repairs both.'
            shared.append(replace(finding, remedy=words))
        else:
            shared.append(finding)
        repaired = dict.fromkeys(tools, finding.title) | repaired
    return shared


def verdict(evidence: Evidence, found: Sequence[Finding]) -> str:
    """Return the one verdict on a forecast, and its coverage, without a period."""
    faults = sum(finding.severity == "wrong" for finding in found)
    more = f", and {faults - 1} more fault{'s' if faults > 2 else ''}" if faults > 1 else ""
    inside, claimed = evidence.headline["inside"], evidence.headline["claimed"]
    expected = DEFAULT_COVERAGE if math.isnan(claimed) else claimed
    error = 100 * math.sqrt(expected * (1 - expected) / evidence.rows)
    share, goal = (f"{rounded(100 * each, error)} %" for each in (inside, claimed))
    words = f"the {percent(claimed)} intervals contain {share} of the observed values"
    if evidence.of_classes:
        words = f"the sets contain {share} of the classes"
        words += "" if math.isnan(claimed) else f", and {goal} should"
    return f"{found[0].title}{more}: {words}"


def _no_fault(evidence: Evidence) -> Finding:
    inside, claimed = evidence.headline["inside"], evidence.headline["claimed"]
    what = "sets contain the label" if evidence.of_classes else "intervals contain the observed value"
    if evidence.rows < FEWEST_ROWS:
        return Finding("good", "No verdict from so few rows", f"{in_hundred(inside)[0]} of 100 {what}.")
    if math.isnan(claimed):
        return Finding("good", "No fault found", f"{in_hundred(inside)[0]} of 100 {what}.")
    chance = STANDARD_ERRORS * math.sqrt(claimed * (1 - claimed) / evidence.rows)
    low, high = max(claimed - chance, 0.0), min(claimed + chance, 1.0)
    share, goal = (rounded(100 * each, 100 * chance / STANDARD_ERRORS) for each in (inside, claimed))
    low, high = (rounded(100 * each, 100 * chance / STANDARD_ERRORS) for each in (low, high))
    words = (
        f"{share} of 100 {what}, and {goal} should. {evidence.rows:.12g} rows cannot show a smaller fault: "
        f"chance explains {low} to {high}. This result is for all rows together. Parts of the rows may have "
        "another coverage."
    )
    return Finding("good", "No fault found", words)


def _coverage(evidence: Evidence) -> Iterator[Finding]:
    verdict = evidence.verdict
    if verdict in ("", "calibrated"):
        return
    inside, claimed = in_hundred(evidence.headline["inside"], evidence.headline["claimed"])
    narrow, small = verdict == "overconfident", abs(evidence.gap) < SMALL_GAP
    title = "The intervals are too narrow" if narrow else "The intervals are too wide"
    effect = (
        "The model is overconfident. Decisions that rely on these intervals fail more often than planned."
        if narrow
        else "The model is underconfident. Decisions that rely on these intervals are more cautious than "
        "necessary."
    )
    words = f"Of 100 intervals, about {claimed} should contain the observed value. Only {inside} do. {effect}"
    if not narrow:
        words = words.replace(f"Only {inside} do", f"{inside} do")
    if small:
        yield Finding("note", f"{title}, by a small amount", words)
        return
    if evidence.may_be_chance:
        words = words.removesuffix(effect) + _by_chance(evidence)
        yield Finding("note", f"{title}, perhaps by chance", words)
        return
    if evidence.local:
        yield Finding("wrong", title, words, PARTS_FIRST)
        return
    if evidence.has_heavy_tails or evidence.has_bias:
        yield Finding("wrong", title, words, *_of_shape(evidence))
        return
    verb = "Widen" if narrow else "Narrow"
    remedy = f"{verb} the intervals by a factor that is learned from past errors. {HELD_OUT}"
    yield Finding("wrong", title, words, remedy, (RECALIBRATED, _of_forecasts(evidence, "width")))


def _by_chance(evidence: Evidence) -> str:
    return f"The number of rows, {evidence.rows:.12g}, may explain this difference."


def _of_shape(evidence: Evidence) -> tuple[str, tuple[Tool, ...]]:
    """Return the remedy that corrects the middle, the width and the shape of the forecasts at once."""
    remedy = f"Correct all predicted probabilities with past errors. {HELD_OUT}"
    return remedy, (RESIDUAL, _of_forecasts(evidence, "shape"))


def _bias(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.headline["biased"]:
        return
    side = "high" if evidence.headline["below"] > 0.5 else "low"
    words = plain_words(f"{bias_words(evidence.headline)}.")
    words = words[0].upper() + words[1:]
    if abs(evidence.headline["below"] - 0.5) < SMALL_GAP:
        yield Finding("note", f"The forecasts are slightly too {side}", words)
        return
    if evidence.bias_may_be_chance:
        words = f"{words} {_by_chance(evidence)}"
        yield Finding("note", f"The forecasts are too {side}, perhaps by chance", words)
        return
    remedy, tools = _of_shape(evidence)
    if evidence.local:
        remedy = f"Correct the first fault first. {remedy}"
    yield Finding("wrong", f"The forecasts are too {side}", words, remedy, tools)


def _location_and_width(evidence: Evidence) -> Iterator[Finding]:
    """Yield bias and wrong coverage, the larger fault first. A bias also reduces the coverage."""
    bias, width = list(_bias(evidence)), list(_coverage(evidence))
    is_larger = bool(bias) and abs(evidence.headline["below"] - 0.5) > abs(evidence.gap)
    yield from [*bias, *width] if is_larger else [*width, *bias]


def _tails(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.has_heavy_tails or evidence.local:
        return
    inner, outer = evidence.diagnostics.inner, 1 - evidence.diagnostics.outer
    words = (
        f"Of 100 observed values, {in_hundred(inner)[0]} lie in the {100 * INNER:g} % intervals, so these "
        f"intervals are too wide. But {100 * outer:.1f} lie outside the {100 * OUTER:g} % intervals, and "
        f"{100 * (1 - OUTER):.1f} should. No single factor corrects both."
    )
    yield Finding("wrong", "Large errors are more frequent than predicted", words, *_of_shape(evidence))


def _shape(evidence: Evidence) -> Iterator[Finding]:
    plain = not evidence.has_wrong_width and not evidence.has_bias and not evidence.is_uneven
    if plain and evidence.shows_shape and evidence.is_beyond("mace", SMALL_GAP):
        (off,) = in_hundred(evidence.number("mace"))
        right = "The coverage of the intervals in this report is right"
        if evidence.verdict != "calibrated":
            right = "Chance may explain the coverage of the intervals in this report"
        words = (
            f"{right}, but other predicted probabilities are wrong: predicted and observed frequencies "
            f"differ by {off} percentage points on average. The calibration curve shows the levels at which "
            "they differ."
        )
        yield Finding("wrong", "The shape of the distributions is wrong", words, *_of_shape(evidence))


def _uneven(evidence: Evidence) -> Iterator[Finding]:
    if evidence.is_uneven:
        (off,) = in_hundred(evidence.number("ence"))
        words = (
            "The coverage is right on average, but some rows have intervals that are too narrow and others "
            f"have intervals that are too wide. Among rows with similar predicted uncertainty, the errors "
            f"differ from the predicted uncertainty by {off} % on average. The reliability diagram shows "
            "these rows."
        )
        tools = RESIDUAL, _of_forecasts(evidence, "spread")
        yield Finding(
            "wrong",
            "The uncertainty of individual rows is wrong",
            words,
            "Model the size of the errors, or correct small and large uncertainties by different factors.",
            tools,
        )


def _order(evidence: Evidence) -> Iterator[Finding]:
    if evidence.errors_do_not_grow:
        words = (
            "Rows with wide intervals do not have larger errors than rows with narrow intervals. Intervals "
            "with the same width for all rows would be better."
        )
        title = "The uncertainty does not show which rows are uncertain"
        if evidence.local:
            yield Finding("wrong", title, words, PARTS_FIRST)
        else:
            remedy = "Predict the size of the errors with a separate model."
            yield Finding("wrong", title, words, remedy, (RESIDUAL,))


def _skill(evidence: Evidence) -> Iterator[Finding]:
    if evidence.rows < FEWEST_ROWS:
        return
    low, constant = evidence.number("crps", "low"), evidence.number("crps_uncertainty")
    if (evidence.number("crps") if math.isnan(low) else low) >= constant:
        words = (
            "The model has larger errors than a forecast that is the same for all rows: the distribution of "
            "the observed values in this report."
        )
        name = "skuq.model_selection.AutoUncertaintyRegressor"
        tool = Tool("To compare models", name, f"{name}(time_budget=60).fit(X, y)")
        yield Finding(
            "wrong",
            "The model is worse than one forecast for all rows",
            words,
            "Check that the observed values and the forecasts have the same order of rows. Then look for a "
            "better model.",
            (tool,),
        )


def _probabilities(evidence: Evidence) -> Iterator[Finding]:
    verdict, small = evidence.verdict, abs(evidence.gap) < SMALL_GAP
    beyond = evidence.is_beyond("ece", SMALL_GAP)
    if verdict in ("overconfident", "underconfident"):
        inside, claimed = in_hundred(evidence.headline["inside"], evidence.headline["claimed"])
        only, sure = ("Only ", "too certain") if verdict == "overconfident" else ("", "not certain enough")
        words = (
            "The most probable classes of a row form its set. According to the probabilities, "
            f"{claimed} of 100 sets should contain the observed class. "
            f"{only}{inside} do. The predicted probabilities are {sure}."
        )
        remedy = f"Correct the probabilities with past labels. {HELD_OUT}"
        title = f"The classifier is {sure}"
        if small and not beyond:
            yield Finding("note", f"{title}, by a small amount", words)
        elif evidence.may_be_chance and not beyond:
            yield Finding("note", f"{title}, perhaps by chance", f"{words} {_by_chance(evidence)}")
        else:
            yield Finding("wrong", title, words, remedy, (CALIBRATED_CLASSIFIER, CONFORMAL_CLASSIFIER))
    elif beyond:
        (off,) = in_hundred(evidence.number("ece"))
        words = (
            f"Predicted probabilities and observed frequencies differ by {off} percentage points on average. "
            "The reliability diagram shows the probabilities that are wrong."
        )
        yield Finding(
            "wrong",
            "The probabilities are wrong",
            words,
            f"Correct the probabilities with past labels. {HELD_OUT}",
            (CALIBRATED_CLASSIFIER,),
        )


def _sets(evidence: Evidence) -> Iterator[Finding]:
    # Sets that contain more labels than nominal are no fault.
    nominal = evidence.number("set_coverage", "optimum")
    if math.isnan(evidence.headline["claimed"]) and evidence.number("set_coverage", "high") < nominal:
        inside, goal = in_hundred(evidence.headline["inside"], nominal)
        words = f"Of 100 sets, at least {goal} should contain the label. Only {inside} do."
        yield Finding(
            "wrong",
            "The sets contain the label too rarely",
            words,
            f"Calibrate the sets on held-out rows. {HELD_OUT}",
            (CONFORMAL_CLASSIFIER,),
        )


def _local_parts(evidence: Evidence) -> Iterator[Finding]:
    for name in evidence.local:
        table, opposite = evidence.parts[name], name in evidence.opposite
        flagged = table[table["flag"] & (opposite | evidence.differs(table))]
        yield _of_parts(
            evidence,
            name,
            table,
            f"The coverage depends on {name}{', in opposite directions' if opposite else ''}",
            f"{_directions(flagged, evidence.of_classes)}{'' if opposite else ' The other rows are right.'}",
            f"Do not change all rows by the same factor: first correct each group separately. {HELD_OUT}",
        )


def _parts(evidence: Evidence) -> Iterator[Finding]:
    for name, table in evidence.parts.items():
        if name in evidence.local or not table["flag"].any():
            continue
        flagged = table[table["flag"] & (evidence.differs(table) | (abs(evidence.gap) < SMALL_GAP))]
        if flagged.empty:
            yield from _alike(name, table, evidence.of_classes)
            continue
        words = (
            f"{_directions(flagged, evidence.of_classes)} "
            f"The coverage is wrong in {len(flagged)} of the {len(table)} parts by {name}."
        )
        remedy = f"Correct each group separately. {HELD_OUT}"
        yield _of_parts(evidence, name, table, f"The coverage depends on {name}", words, remedy)


def _of_parts(
    evidence: Evidence, name: str, table: pd.DataFrame, title: str, words: str, remedy: str
) -> Finding:
    if not is_of_periods(table):
        return Finding("wrong", title, words, remedy, _tools_for_groups(evidence, name))
    remedy = "Recalibrate with recent rows, and monitor the coverage of new rows."
    return Finding("wrong", title, words, remedy, (Tool(FORECASTS, "skuq.monitoring.CoverageMonitor"),))


def _alike(name: str, table: pd.DataFrame, of_classes: bool) -> Iterator[Finding]:
    if len(table) > 1:
        low, high = in_hundred(float(table["coverage"].min()), float(table["coverage"].max()))
        words = (
            f"In the {len(table)} parts by {name}, {low} to {high} of 100 {_covering(of_classes)}. These "
            "differences may be due to chance. The fault concerns all rows."
        )
        yield Finding("note", f"The coverage does not depend on {name}", words)


def _directions(flagged: pd.DataFrame, of_classes: bool) -> str:
    """Name the parts with each fault, as in "The intervals are too wide in North (99 of 100)."."""
    goals = flagged["nominal"].round(9).unique()  # The means of equal numbers differ by rounding.
    texts = [
        f"{side} in {_named_parts(flagged[chosen], len(goals) == 1)}"
        for side, chosen in zip(sides(of_classes), (is_low(flagged), is_high(flagged)), strict=True)
        if chosen.any()
    ]
    words = ", ".join(texts)
    if len(goals) == 1:
        goal = f"{100 * goals[0]:.1f} expected".replace(".0 ", " ")
        words = f"{words[:-1]}; {goal})" if words.endswith(")") else f"{words} ({goal})"
    what = "probabilities" if of_classes else "intervals"
    return f"The {what} are {words}. Each number states how many of 100 {_covering(of_classes)}."


def _covering(of_classes: bool) -> str:
    return "sets contain the observed class" if of_classes else "intervals contain the observed value"


def _named_parts(table: pd.DataFrame, one_goal: bool) -> str:
    """Return the worst parts with their coverage, in the order of the table."""
    size = table["coverage"].sub(table["nominal"]).abs().to_numpy()
    worst = sorted(size.argsort(kind="stable")[::-1][:MOST_NAMED])
    names = []
    for label, row in table.iloc[worst].iterrows():
        inside, goal = in_hundred(float(row["coverage"]), float(row["nominal"]))
        expected = "" if one_goal else f"; {goal} expected"
        names.append(f"{part_label(label, table)} ({inside} of 100{expected})")
    if len(table) > MOST_NAMED:
        names.append(f"{len(table) - MOST_NAMED} more")
    return listed(names)


def _tools_for_groups(evidence: Evidence, name: str) -> tuple[Tool, ...]:
    kind = "conformal.ConformalClassifier" if evidence.of_classes else "conformal.ConformalRegressor"
    again = Tool(
        f"{MODEL}, with {name} as a column of X",
        f"skuq.{kind}",
        f"skuq.{kind}(model, group_by=column).fit(X, y)",
    )
    if evidence.of_classes:
        return (again,)
    return again, _of_forecasts(evidence, "width", f", once for each value of {name}")


def _few_rows(evidence: Evidence) -> Iterator[Finding]:
    if evidence.rows < FEW_ROWS:
        words = (
            f"The report has {evidence.rows:.12g} rows. This small sample shows only large faults, and "
            "another sample may give very different numbers."
        )
        tool = Tool("To use all rows", "skuq.model_selection.cross_val_predict_dist")
        tools = () if evidence.of_classes else (tool,)
        yield Finding("note", "Few rows", words, "Use more rows that the model was not trained on.", tools)


Rule = Callable[[Evidence], Iterator[Finding]]
REGRESSION_RULES: Sequence[Rule] = (
    _local_parts,
    _skill,
    _tails,
    _location_and_width,
    _shape,
    _uneven,
    _order,
    _parts,
    _few_rows,
)
CLASS_RULES: Sequence[Rule] = (_local_parts, _probabilities, _sets, _parts, _few_rows)
