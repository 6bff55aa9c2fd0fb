"""The findings of the page: one table of faults with their sentences and remedies, and their conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pandas as pd

from skuq._validation import DEFAULT_COVERAGE, FEWEST_ROWS
from skuq.evaluation._report_table import CERTAIN, PERHAPS, bias_words, percent, rounded, standard_error
from skuq.report._measure import (
    INNER,
    OUTER,
    SMALL_GAP,
    STANDARD_ERRORS,
    Diagnostics,
    error_of_share,
    errors_of_halves,
    is_high,
    is_low,
)
from skuq.report._wording import directions, is_of_periods, listed, plain_words

MOST_TIMES_CALIBRATED = 3.0
"""Without simulations, an error is large if it is this number of times the average of a calibrated model."""

LARGE_RELATIVE_ERROR = 0.05

FEW_ROWS = 200

CHANCE = "perhaps by chance"

Severity = Literal["wrong", "note", "good"]


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


@dataclass(frozen=True)
class Fault:
    """Row of the table of faults. `tools` names the faults that a recalibrator of the forecasts corrects."""

    title: str
    words: str
    remedy: str = ""
    tools: tuple[Tool | str, ...] = ()
    severity: Severity = "wrong"


MODEL, FORECASTS = "If you can train the model again", "With the forecasts alone"
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

HELD_OUT = "Use rows that the model was not trained on, and check the result on a third set of rows."
PARTS_FIRST = (
    "Act on the first finding, and create the report again. Do not change all rows by the same factor: "
    "only some of the rows need this change."
)
SHAPE = f"Correct all predicted probabilities with past errors. {HELD_OUT}", (RESIDUAL, "shape")
WIDTH = (
    f"Multiply the width of the intervals by a factor that is learned from past errors. {HELD_OUT}",
    (Tool(MODEL, "skuq.UncertaintyRegressor", "skuq.UncertaintyRegressor(model).fit(X, y)"), "width"),
)
CLASSES = (
    f"Correct the probabilities with past labels. {HELD_OUT}",
    (CALIBRATED_CLASSIFIER, CONFORMAL_CLASSIFIER),
)
SETS = "The most probable classes of a row form its set. These sets contain the observed class"

FAULTS = {
    "narrow": Fault(
        "The intervals are too narrow",
        "Decisions that rely on too narrow intervals fail more often than planned.",
        *WIDTH,
    ),
    "wide": Fault(
        "The intervals are too wide",
        "Decisions that rely on too wide intervals are more cautious than necessary.",
        *WIDTH,
    ),
    "high": Fault("The forecasts are too high", "{bias}", *SHAPE),
    "low": Fault("The forecasts are too low", "{bias}", *SHAPE),
    "tails": Fault(
        "Large errors are more frequent than predicted",
        "{inner} of the observed values lie in the {INNER} intervals, so these intervals are too wide. But "
        "{outside} lie outside the {OUTER} intervals. No single factor corrects both.",
        *SHAPE,
    ),
    "shape": Fault(
        "The shape of the distributions is wrong",
        "The coverage of the intervals in this report is right within the accuracy of {rows} rows, but other "
        "predicted probabilities are wrong: predicted and observed frequencies differ by {mace} on average. "
        "The calibration curve shows the levels at which they differ.",
        *SHAPE,
    ),
    "uneven": Fault(
        "The uncertainty of individual rows is wrong",
        "The coverage is right on average, but some rows have intervals that are too narrow and others have "
        "intervals that are too wide. Among rows with similar predicted uncertainty, the errors differ from "
        "the predicted uncertainty by {ence} on average. The reliability diagram shows these rows.",
        "Model the size of the errors, or correct small and large uncertainties by different factors.",
        (RESIDUAL, "spread"),
    ),
    "order": Fault(
        "The uncertainty does not show which rows are uncertain",
        "Rows with wide intervals do not have larger errors than rows with narrow intervals. Intervals with "
        "the same width for all rows would be better.",
        "Predict the size of the errors with a separate model.",
        (RESIDUAL,),
    ),
    "skill": Fault(
        "The model is worse than one forecast for all rows",
        "The model has larger errors than a forecast that is the same for all rows: the distribution of the "
        "observed values in this report.",
        "Check that the observed values and the forecasts have the same order of rows. Then look for a "
        "better model.",
        (
            Tool(
                "To compare models",
                "skuq.model_selection.AutoUncertaintyRegressor",
                "skuq.model_selection.AutoUncertaintyRegressor(time_budget=60).fit(X, y)",
            ),
        ),
    ),
    "too certain": Fault("The classifier is too certain", f"{SETS} less often than predicted.", *CLASSES),
    "not certain": Fault(
        "The classifier is not certain enough",
        f"{SETS} more often than predicted.",
        *CLASSES,
    ),
    "probabilities": Fault(
        "The probabilities are wrong",
        "Predicted probabilities and observed frequencies differ by {ece} on average. The reliability "
        "diagram shows the probabilities that are wrong.",
        CLASSES[0],
        (CALIBRATED_CLASSIFIER,),
    ),
    "sets": Fault(
        "The sets contain the label too rarely",
        "The nominal coverage of the sets is {claimed}.",
        f"Calibrate the sets on held-out rows. {HELD_OUT}",
        (CONFORMAL_CLASSIFIER,),
    ),
    "no intervals": Fault(
        "No verdict on the {claimed} intervals",
        "An end of the {claimed} intervals is not given. It is an assumption of skuq.",
        "Create the report with a coverage that the given quantiles enclose{enclosed}.",
        severity="note",
    ),
    "few quantiles": Fault(
        "Few quantiles are given",
        "The forecasts give the quantiles of the levels {levels}. skuq assumes the shape and "
        "the standard deviation, so the report does not evaluate them. Metrics that use the whole "
        "distribution, such as the CRPS, also depend on this assumption.",
        severity="note",
    ),
    "few rows": Fault(
        "Few rows",
        "{rows} rows show only large faults, and another sample may give very different numbers.",
        "Use more rows that the model was not trained on.",
        (Tool("To use all rows", "skuq.model_selection.cross_val_predict_dist"),),
        severity="note",
    ),
}
"""Title, sentences, next step and tools of each fault. Names in braces are numbers of the forecast."""


@dataclass(frozen=True)
class Evidence:
    """Numbers of one model: its shares, its rows of the report and its coverage of parts of the rows."""

    headline: Mapping[str, Any]
    table: pd.DataFrame
    rows: float
    of_classes: bool
    parts: Mapping[str, pd.DataFrame]
    diagnostics: Diagnostics

    def faults(self) -> dict[str, bool | str]:
        """Return the faults in the order of their repair: whether they are present, or their grade."""
        grades = self._faults_of_classes() if self.of_classes else self._faults_of_numbers()
        few = not self.shows_shape and self.knows_intervals
        return grades | {
            "few quantiles": few,
            "no intervals": not self.knows_intervals,
            "few rows": self.rows < FEW_ROWS,
        }

    def _faults_of_classes(self) -> dict[str, bool | str]:
        beyond, rarely = self.is_beyond("ece", SMALL_GAP), self.number("set_coverage", "high") < self.claimed
        return {
            "not certain" if self.gap > 0 else "too certain": "wrong"
            if self.width and beyond
            else self.width,
            "probabilities": beyond and not self.width,
            "sets": math.isnan(self.headline["claimed"]) and rarely,
        }

    def _faults_of_numbers(self) -> dict[str, bool | str]:
        low, below = self.number("crps", "low"), self.headline["below"]
        crps = self.number("crps") if math.isnan(low) else low
        width: dict[str, bool | str] = {"wide" if self.gap > 0 else "narrow": self.width}
        bias: dict[str, bool | str] = {"high" if below > 0.5 else "low": self.bias}
        is_plain, is_exact = "wrong" not in (self.width, self.bias), abs(self.gap) < 2 * SMALL_GAP
        uneven = self.shows_shape and is_exact and self.is_beyond("ence", LARGE_RELATIVE_ERROR)
        shape = self.shows_shape and is_plain and self.is_beyond("mace", SMALL_GAP)
        return {
            "skill": self.rows >= FEWEST_ROWS and crps >= self.number("crps_uncertainty"),
            "tails": self.has_heavy_tails and not self.local,
            # A bias also reduces the coverage.
            **(bias | width if abs(below - 0.5) > abs(self.gap) else width | bias),
            "shape": shape and not uneven,
            "uneven": uneven,
            "order": self.errors_do_not_grow,
        }

    @cached_property
    def width(self) -> str:
        """Grade of a wrong coverage, see `_grade`."""
        verdict = str(self.headline["verdict"])
        if verdict in ("", "calibrated") or not self.knows_intervals:
            return ""
        return _grade(self.gap, certain=not verdict.startswith(PERHAPS))

    @cached_property
    def bias(self) -> str:
        """Grade of a bias, see `_grade`."""
        if not self.headline["biased"] or not self.diagnostics.knows(0.5):
            return ""
        difference = float(self.headline["below"]) - 0.5
        return _grade(difference, certain=abs(difference) >= STANDARD_ERRORS * error_of_share(0.5, self.rows))

    @property
    def gap(self) -> float:
        return float(self.headline["inside"] - self.headline["claimed"])

    @property
    def claimed(self) -> float:
        """Nominal coverage, or the mean predicted probability of sets."""
        claimed = float(self.headline["claimed"])
        return self.number("set_coverage", "optimum") if math.isnan(claimed) else claimed

    @property
    def knows_intervals(self) -> bool:
        """Return whether the forecasts give the ends of the intervals."""
        return self.of_classes or self.diagnostics.gives_intervals(self.claimed)

    @property
    def kind(self) -> str:
        """Kind of the forecasts, see `Diagnostics`. A report without a page knows only bounds."""
        return "bounds" if math.isnan(self.headline["below"]) else self.diagnostics.kind

    @property
    def shows_shape(self) -> bool:
        """Return whether the shape and the standard deviation are given, not only some quantiles."""
        return self.kind != "few quantiles"

    @property
    def has_heavy_tails(self) -> bool:
        """Return whether inner intervals contain too many and outer intervals too few observed values."""
        inner, outer = self.diagnostics.inner, self.diagnostics.outer
        chances = [STANDARD_ERRORS * error_of_share(p, self.rows) for p in (INNER, OUTER)]
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

    @cached_property
    def local(self) -> list[str]:
        """Names of the groupings in which only some parts are faulty, or faults have opposite directions."""
        return [
            name
            for name, table in self.parts.items()
            if name in self.opposite
            or ((table["flag"] & self.differs(table)).any() and _rest_is_right(table))
        ]

    @cached_property
    def opposite(self) -> list[str]:
        """Names of the groupings whose coverage is too low in some parts and too high in other parts."""
        return [name for name, table in self.parts.items() if is_low(table).any() and is_high(table).any()]

    def differs(self, table: pd.DataFrame) -> pd.Series[bool]:
        """Return which parts differ significantly in coverage from all rows together."""
        inside = self.headline["inside"]
        differs: pd.Series[bool] = (table["high"] < inside) | (table["low"] > inside)
        return differs

    def number(self, metric: str, column: str = "value") -> float:
        return float(self.table[column].get(metric, math.nan))

    def is_beyond(self, metric: str, least: float) -> bool:
        """Return whether a metric exceeds both ``least`` and the values of calibrated models."""
        value, mean, high = (self.number(metric, each) for each in ("value", "calibrated", "calibrated_high"))
        # The range of the table contains 95 % of the calibrated models, that is, two standard errors.
        high = mean * MOST_TIMES_CALIBRATED if math.isnan(high) else mean + CERTAIN * (high - mean)
        return value > max(high, least)

    @cached_property
    def numbers(self) -> dict[str, str]:
        """Numbers in the sentences of the table of faults, with the digits that their errors allow."""
        shares = {"inner": self.diagnostics.inner, "outside": 1 - self.diagnostics.outer}
        texts = {
            name: rounded(share, error_of_share(share, self.rows), percent=True)
            for name, share in shares.items()
        }
        for metric in ("mace", "ence", "ece"):
            error = standard_error([self.number(metric, "low")], [self.number(metric, "high")])
            texts[metric] = rounded(self.number(metric), error, percent=True)
        levels = self.diagnostics.levels or ()
        both = [1 - 2 * p for p in levels if p < 0.5 and self.diagnostics.knows(1 - p)]
        words = plain_words(f"{bias_words(self.headline)}.")
        return texts | {
            "rows": f"{self.rows:.12g}",
            "claimed": percent(self.claimed),
            "INNER": percent(INNER),
            "OUTER": percent(OUTER),
            "bias": words[0].upper() + words[1:],
            "levels": listed([f"{p:g}" for p in levels]),
            "enclosed": f", such as coverage={max(both):g}" if both else "",
        }


def _grade(difference: float, *, certain: bool) -> str:
    """Return "wrong", or the reason why a significant difference is no fault."""
    if abs(difference) < SMALL_GAP:
        return "by a small amount"
    return "wrong" if certain else CHANCE


def _rest_is_right(table: pd.DataFrame) -> bool:
    """Return whether all parts without a flag together have the nominal coverage."""
    rest = table.loc[~table["flag"], ["n", "coverage", "nominal"]]
    n = float(rest["n"].sum())
    if n == 0:
        return False
    inside, goal = (float((rest["n"] * rest[column]).sum() / n) for column in ("coverage", "nominal"))
    return abs(inside - goal) < STANDARD_ERRORS * error_of_share(goal, n)


def findings(evidence: Evidence) -> list[Finding]:
    """Return the faults of a forecast, or the statement that no fault was found."""
    found = [_finding(evidence, name, grade) for name, grade in evidence.faults().items() if grade]
    found = _merged([*_of_parts(evidence, local=True), *found, *_of_parts(evidence, local=False)])
    if evidence.knows_intervals and not any(finding.severity == "wrong" for finding in found):
        found.append(_no_fault(evidence))
    return sorted(found, key=lambda finding: ("wrong", "good", "note").index(finding.severity))


def _finding(evidence: Evidence, name: str, grade: bool | str) -> Finding:
    fault = FAULTS[name]
    title, words, remedy = (
        text.format(**evidence.numbers) for text in (fault.title, fault.words, fault.remedy)
    )
    tools = fault.tools
    if grade == CHANCE:
        words = f"{words} The number of rows, {evidence.numbers['rows']}, may explain this difference."
    if grade not in (True, "wrong"):
        return Finding("note", f"{title}, {grade}", words)
    if evidence.local and name in ("narrow", "wide", "high", "low", "order"):
        remedy, tools = PARTS_FIRST, ()
    elif name in ("narrow", "wide") and (evidence.has_heavy_tails or evidence.bias == "wrong"):
        remedy, tools = SHAPE
    calls = tuple(_of_forecasts(evidence, tool) if isinstance(tool, str) else tool for tool in tools)
    return Finding(fault.severity, title, words, remedy, calls)


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


def _no_fault(evidence: Evidence) -> Finding:
    rows, claimed = evidence.numbers["rows"], evidence.claimed
    if evidence.rows < FEWEST_ROWS:
        words = f"The coverage of fewer than {FEWEST_ROWS} rows is too uncertain."
        return Finding("good", "The rows are too few for a verdict", words)
    error = error_of_share(claimed, evidence.rows)
    low, high = (
        rounded(min(max(claimed + sign * STANDARD_ERRORS * error, 0.0), 1.0), error, percent=True)
        for sign in (-1, 1)
    )
    words = (
        f"{rows} rows cannot show a smaller fault: chance explains {low} to {high}. This result is for all "
        "rows together. Parts of the rows may have another coverage."
    )
    return Finding("good", "No fault found", words)


def verdict(evidence: Evidence, found: Sequence[Finding]) -> str:
    """Return the one verdict on a forecast, and its coverage, without a period."""
    faults = sum(finding.severity == "wrong" for finding in found)
    more = f", and {faults - 1} more fault{'s' if faults > 2 else ''}" if faults > 1 else ""
    claimed = evidence.claimed
    error = error_of_share(DEFAULT_COVERAGE if math.isnan(claimed) else claimed, evidence.rows)
    inside, goal = (rounded(each, error, percent=True) for each in (evidence.headline["inside"], claimed))
    if not evidence.knows_intervals:
        given = f"the forecasts give only the quantiles of the levels {evidence.numbers['levels']}"
        words = given if evidence.diagnostics.levels else "no quantile is given for all rows"
    elif not evidence.of_classes:
        words = f"the {percent(claimed)} intervals contain {inside} of the observed values"
    else:
        words = f"the sets contain {inside} of the classes" + (f", and {goal} should" if goal else "")
    return f"{found[0].title}{more}: {words}"


def _of_parts(evidence: Evidence, *, local: bool) -> Iterator[Finding]:
    """Yield the findings of all groupings with faults of some of their parts, or of all groupings."""
    small = abs(evidence.gap) < SMALL_GAP
    for name, table in evidence.parts.items():
        if (name in evidence.local) != local or not table["flag"].any():
            continue
        opposite = name in evidence.opposite
        flagged = table[table["flag"] & (opposite | small | evidence.differs(table))]
        if flagged.empty:
            words = (
                f"Chance may explain the differences between the {len(table)} parts by {name}. The fault "
                "concerns all rows."
            )
            if len(table) > 1:
                yield Finding("note", f"The coverage does not depend on {name}", words)
            continue
        title = f"The coverage depends on {name}{', in opposite directions' if opposite else ''}"
        rest = " The other rows are right." if local and not opposite else ""
        if is_of_periods(table):
            remedy = "Recalibrate with recent rows, and monitor the coverage of new rows."
            tools: tuple[Tool, ...] = (Tool(FORECASTS, "skuq.monitoring.CoverageMonitor"),)
        else:
            remedy = f"Correct each group separately. {HELD_OUT}"
            if local:
                remedy = f"Do not change all rows by the same factor. {remedy}"
            tools = _tools_for_groups(evidence, name)
        yield Finding("wrong", title, directions(flagged) + rest, remedy, tools)


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
        coverage = evidence.claimed
        level = "" if coverage == DEFAULT_COVERAGE else f", coverage={coverage:.12g}"
        return f"StdScalingRecalibrator(objective='coverage'{level})"
    # No map of the levels extends an ensemble, which may be of an unknown kind, beyond its outermost members.
    return "IsotonicRecalibrator()" if kind == "distribution" else "EmpiricalRecalibrator()"


def _of_forecasts(evidence: Evidence, fault: str, part: str = "") -> Tool:
    """Return the tool that corrects forecasts, or the rows of one part, with past forecasts."""
    call = _recalibrator(evidence, fault)
    old, new, y = "old_forecasts", "forecasts", "old_y"
    if evidence.kind == "bounds":
        levels = ", ".join(f"{(1 + sign * evidence.claimed) / 2:.12g}" for sign in (-1, 1))
        old, new = (f"skuq.distributions.Quantiles([{levels}], {bounds})" for bounds in (old, new))
    elif part:  # A frozen scipy distribution has no rows.
        old, new = (f"skuq.distributions.as_distribution({each})" for each in (old, new))
    if part:
        old, new, y = f"{old}[old_rows]", f"{new}[rows]", f"{y}[old_rows]"
    code = f"skuq.recalibration.{call}.fit({old}, {y}).transform({new})"
    name = f"skuq.recalibration.{call.partition('(')[0]}"
    return Tool(f"{FORECASTS}{part}", name, code)
