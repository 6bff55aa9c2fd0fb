"""Sequential bets against uniform levels. The wealth is an e-value after every row."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln

from skuq._typing import FloatArray
from skuq._validation import check_random_state, check_single_coverage

PARAMETERS = np.array([0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0])
"""Parameters of the beta densities. Each pair of parameters is one bet."""

SPACING = 256
"""Number of rows between two possible times of a change. The bets begin again at these times."""

LEAST_LOG = -1e200
"""Finite value for the logarithm of 0, because the sum of inf and -inf would be NaN."""

_A, _B = (grid.ravel() for grid in np.meshgrid(PARAMETERS, PARAMETERS))
_BETS = np.stack([_A - 1, _B - 1, -betaln(_A, _B)])


class BetaBets:
    """Bets with beta densities against uniform levels, such as PIT values or conformal p-values.

    If each level is uniform given all previous levels, the wealth is a martingale with mean 1. A bet on a
    level u multiplies its stake by the beta density at u. Every `SPACING` rows, all bets begin again with a
    new stake, so that they detect later changes. The stakes of all starts add up to 1. The wealth is the sum
    over all bets and all starts, plus the stakes of future starts.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._log_wealth: FloatArray = np.full(_A.size, -np.inf)

    def update(self, log_level: FloatArray, log_complement: FloatArray) -> FloatArray:
        """Return the logarithm of the wealth after each row, from log(u) and log(1 - u)."""
        log_levels = np.maximum(np.stack([log_level, log_complement], axis=1), LEAST_LOG)
        first_start = -self.n_rows % SPACING
        parts = np.split(log_levels, np.arange(first_start, len(log_levels), SPACING))
        return np.concatenate([self._bet(part) for part in parts if len(part)])

    def _bet(self, log_levels: FloatArray) -> FloatArray:
        """Bet on rows. New bets may begin only at the first row."""
        start = self.n_rows // SPACING
        future = _stakes_after(start + 1)
        if self.n_rows % SPACING == 0:
            stake = math.log(_stakes_after(start) - future) - math.log(_A.size)
            self._log_wealth = np.logaddexp(self._log_wealth, stake)
        sums = np.column_stack([np.cumsum(log_levels, axis=0), np.arange(1.0, len(log_levels) + 1)])
        log_wealth = self._log_wealth + sums @ _BETS
        self.n_rows, self._log_wealth = self.n_rows + len(log_levels), log_wealth[-1]
        largest = np.maximum(log_wealth.max(axis=1), 0.0)
        total = np.exp(log_wealth - largest[:, np.newaxis]).sum(axis=1) + future * np.exp(-largest)
        return np.asarray(largest + np.log(total))


class BetaMonitor:
    """Base class of monitors that bet against uniform levels."""

    def __init__(self, false_alarm: float, random_state: int | np.random.RandomState | None) -> None:
        self.false_alarm = check_single_coverage(false_alarm, "false_alarm")
        self.n_rows_, self.e_value_ = 0, 1.0
        self.alarm_ = False
        self.alarm_row_: int | None = None
        self._bets, self._rng = BetaBets(), check_random_state(random_state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_rows_} rows, e_value_={self.e_value_:.3g})"

    def _bet(self, log_level: FloatArray, log_complement: FloatArray) -> None:
        """Update the e-value and the alarm. The arguments are log(u) and log(1 - u) of new rows."""
        log_e = self._bets.update(log_level, log_complement)
        with np.errstate(over="ignore"):
            self.e_value_ = float(np.exp(log_e[-1]))
        alarms = log_e >= -math.log(self.false_alarm)
        if not self.alarm_ and alarms.any():
            self.alarm_, self.alarm_row_ = True, self.n_rows_ + 1 + int(np.argmax(alarms))
        self.n_rows_ = self._bets.n_rows


def _stakes_after(starts: int) -> float:
    """Return the sum of all stakes after the given number of starts. The stakes decrease slowly."""
    return math.log(3) / math.log(3 + starts)
