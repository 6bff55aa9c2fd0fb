"""Numbers of one model from which the findings follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from skuq.evaluation._internal import CERTAIN, PERHAPS
from skuq.report._measure import INNER, OUTER, Diagnostics, is_high, is_low

MOST_TIMES_CALIBRATED = 3.0
"""Without simulations, an error is large if it is this number of times the average of a calibrated model."""

SMALL_GAP = 0.01
"""A significant difference between two shares is called small below this value."""

LARGE_RELATIVE_ERROR = 0.05

STANDARD_ERRORS = 3.0
"""A difference of more than this number of standard errors is not due to chance."""


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
        halves = bins.iloc[: len(bins) // 2], bins.iloc[len(bins) // 2 :]
        (low, high), (small, large) = (
            [math.sqrt(float((each["n"] * each[column] ** 2).sum() / each["n"].sum())) for each in halves]
            for column in ("rmv", "rmse")
        )
        # The standard error of the logarithm of a root mean square of m normal errors is 1 / sqrt(2 m).
        chance = STANDARD_ERRORS * math.sqrt(sum(0.5 / float(each["n"].sum()) for each in halves))
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
