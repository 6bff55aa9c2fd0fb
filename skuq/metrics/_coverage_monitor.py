"""Coverage of prediction intervals watched over time, with a test that is valid at every time."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy.special import betainc, betaln, logsumexp

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_option, check_single_coverage
from skuq.metrics._inputs import check_forecast_or_bounds, has_no_rows
from skuq.metrics._intervals import coverage_rows

ALTERNATIVES = ("less", "greater", "two-sided")

SPACING = 256
"""Rows between two possible times of a change."""


class CoverageMonitor:
    r"""Sequential test of the coverage of prediction intervals.

    Do the intervals of a deployed model still have their coverage? Targets are compared with their intervals
    as they arrive, and evidence against the nominal coverage accumulates in an e-value. Under the null
    hypothesis it ever exceeds ``1 / false_alarm`` with a probability of at most `false_alarm`, however often
    it is looked at; a test at each time would reject sooner or later. For one period of fixed length,
    `prediction_interval_coverage` and its standard error have more power.

    Parameters
    ----------
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds must have been made for it.
    false_alarm : float, default=0.01
        Largest probability that a model with this coverage ever causes an alarm, in (0, 1).
    alternative : {"less", "greater", "two-sided"}, default="less"
        Whether the test is against too low a coverage, too high a one, or both. With "less" the null
        hypothesis is a coverage of at least the nominal one, as conformal intervals have, and central
        intervals of calibrated forecasts with atoms, for which the other two cause false alarms.

    Attributes
    ----------
    n_rows_ : int
        Number of rows so far.
    n_misses_ : int
        Number of targets outside their interval.
    e_value_ : float
        Evidence against the null hypothesis, whose expected value under it is at most 1.
    alarm_ : bool
        Whether the e-value has been ``1 / false_alarm`` or more after some update.

    See Also
    --------
    prediction_interval_coverage : The share of targets inside.

    Notes
    -----
    For a change at row s, the evidence is the likelihood ratio of the misses since then, with their
    probability q uniform on one side of the nominal :math:`p = 1 - c`. With k misses in m rows, and against
    too low a coverage,

    .. math:: E_s = \frac1{1 - p} \int_p^1 \frac{q^k (1 - q)^{m - k}}{p^k (1 - p)^{m - k}} \, dq

    is a supermartingale under the null hypothesis that no row has a larger conditional probability of a miss
    than p, and so is the mean over s, one time in 256 rows, with weights :math:`1 / (j (j + 1))` of the j-th
    [1]_; by Ville's inequality it ever exceeds 1 / a with a probability of at most a. The two-sided e-value
    is the mean of the two others. A coverage of 85 % instead of 90 % is found after about 600 rows in the
    median if it is there from the start, and after about 1300 if it follows 10 000 rows with the nominal
    coverage. An update takes time in proportion to its rows, and to all rows so far over 256.

    References
    ----------
    .. [1] Ramdas, Gruenwald, Vovk and Shafer (2023), Game-theoretic statistics and safe anytime-valid
       inference. https://doi.org/10.1214/23-STS894

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.metrics import CoverageMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = CoverageMonitor(0.9)
    >>> for _ in range(20):
    ...     y = rng.normal(size=100)
    ...     monitor = monitor.update(y, (np.zeros(100), np.ones(100)))
    >>> monitor.alarm_
    False
    >>> while not monitor.alarm_:  # the noise is now larger than predicted
    ...     y = 1.2 * rng.normal(size=100)
    ...     monitor = monitor.update(y, (np.zeros(100), np.ones(100)))
    >>> monitor.n_rows_
    2400
    """

    def __init__(
        self, coverage: float = DEFAULT_COVERAGE, *, false_alarm: float = 0.01, alternative: str = "less"
    ) -> None:
        self.coverage = check_single_coverage(coverage)
        self.false_alarm = check_single_coverage(false_alarm, "false_alarm")
        self.alternative: str = check_option(alternative, "alternative", ALTERNATIVES)
        self.n_rows_, self.n_misses_ = 0, 0
        self.e_value_, self.alarm_ = 1.0, False
        self._misses_before = np.zeros(1)  # at the possible times of a change

    def __repr__(self) -> str:
        state = f"{self.n_misses_} misses in {self.n_rows_} rows, e_value_={self.e_value_:.3g}"
        return f"CoverageMonitor({self.coverage}, {state})"

    def update(self, y: ArrayLike, y_pred: Any) -> Self:
        """Compare further targets with their intervals, in the order of time.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed targets. A block without rows changes nothing.
        y_pred : Distribution, tuple (loc, scale), frozen scipy distribution, or array-like of shape (n, 2)
            Forecast of every target. An array holds lower and upper bounds.

        Returns
        -------
        self : CoverageMonitor
            Itself.
        """
        if has_no_rows(y, y_pred):
            return self
        target, forecast, _ = check_forecast_or_bounds(y, y_pred, None)
        inside = coverage_rows(target, forecast, coverage=self.coverage)
        misses = self.n_misses_ + np.concatenate([[0.0], np.cumsum(1.0 - inside)])
        # Of these rows those at a multiple of the spacing may begin a change.
        begins = np.arange(SPACING * self._misses_before.size, self.n_rows_ + target.size, SPACING)
        self._misses_before = np.append(self._misses_before, misses[begins - self.n_rows_])
        self.n_rows_, self.n_misses_ = self.n_rows_ + target.size, int(misses[-1])
        self.e_value_ = self._evidence()
        self.alarm_ = self.alarm_ or self.e_value_ >= 1 / self.false_alarm
        return self

    def _evidence(self) -> float:
        """Return the mean e-value over the possible times of a change."""
        number = np.arange(1.0, self._misses_before.size + 1)
        rows = self.n_rows_ - SPACING * (number - 1)
        misses = self.n_misses_ - self._misses_before
        weight = 1 / (number * (number + 1))
        sides = ["less", "greater"] if self.alternative == "two-sided" else [self.alternative]
        log_values = [np.log(weight) + self._log_ratio(misses, rows, side) for side in sides]
        with np.errstate(over="ignore"):
            started = float(np.exp(logsumexp(log_values) - math.log(len(sides))))
        # A change that has not begun yet has an e-value of 1; of their weights this is the sum.
        return started + 1 / (number.size + 1)

    def _log_ratio(self, misses: FloatArray, rows: FloatArray, side: str) -> FloatArray:
        """Return the logarithm of the likelihood ratio of so many misses in these rows."""
        p = 1.0 - self.coverage
        a, b = misses + 1, rows - misses + 1
        # The integral of a beta density, whose complement is that of the hits.
        share = betainc(b, a, 1 - p) if side == "less" else betainc(a, b, p)
        with np.errstate(divide="ignore"):  # no evidence at all
            log_share = np.log(share) - math.log(1 - p if side == "less" else p)
        null = misses * math.log(p) + (rows - misses) * math.log1p(-p)
        return np.asarray(betaln(a, b) + log_share - null)
