"""Sequential test of the coverage of prediction intervals."""

from __future__ import annotations

import math
import numbers
from typing import Any, Self

import numpy as np
from scipy.special import betainc, betaln, logsumexp

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import DEFAULT_COVERAGE, check_option, check_single_coverage
from skuq.metrics._inputs import check_forecast_or_bounds
from skuq.metrics._intervals import coverage_rows

ALTERNATIVES = ("less", "greater", "two-sided")

SPACING = 256
"""Number of rows between two times at which the test assumes that the coverage may change."""


class CoverageMonitor:
    r"""Sequential test of the coverage of prediction intervals.

    The monitor compares targets with their intervals as rows arrive. The evidence against the nominal
    coverage is an e-value. If the coverage is nominal, the probability that the e-value ever reaches ``1 /
    false_alarm`` is at most `false_alarm`, for any number of updates. In contrast, if you repeat a test for a
    fixed number of rows after each update, it eventually raises a false alarm. For a single period of fixed
    length, `prediction_interval_coverage` and its standard error have more power.

    Parameters
    ----------
    coverage : float, default=0.9
        Nominal coverage of the central interval. Bounds in `update` must have this coverage.
    false_alarm : float, default=0.01
        Largest probability that a model with nominal coverage ever raises an alarm, in (0, 1).
    alternative : {"less", "greater", "two-sided"}, default="less"
        Alternative hypothesis: the coverage is below nominal ("less"), above nominal ("greater"), or either
        of them ("two-sided"). Use "less" for conformal intervals and for forecasts with atoms, because the
        coverage of these intervals may be above nominal even if the model is correct.

    Attributes
    ----------
    n_rows_ : int
        Number of rows so far.
    n_misses_ : int
        Number of targets outside their interval.
    e_value_ : float
        Evidence for the alternative. If the null hypothesis is true, the expected e-value is at most 1.
    alarm_ : bool
        Whether the e-value was ``1 / false_alarm`` or more after some update.

    See Also
    --------
    PITMonitor : Sequential test of whole distributions.
    prediction_interval_coverage : Share of targets in their interval.

    Notes
    -----
    Suppose that the coverage changes at row s. The evidence for this change is the likelihood ratio of the
    misses in row s and all later rows. Let p = 1 - c be the nominal probability of a miss. Under the
    alternative, the probability q of a miss is uniform between p and 1 (low coverage), or between 0 and p
    (high coverage). If there are k misses in m rows, the evidence for low coverage

    .. math:: E_s = \frac1{1 - p} \int_p^1 \frac{q^k (1 - q)^{m - k}}{p^k (1 - p)^{m - k}} \, dq

    is a supermartingale under the null hypothesis. The null hypothesis is that the probability of a miss in
    each row, given all previous rows, is at most p. The test assumes possible changes at every 256th row. The
    e-value is the weighted mean of the likelihood ratios of these changes. The weight of the j-th possible
    change is :math:`1 / (j (j + 1))` [1]_. Therefore, the e-value is also a supermartingale. By Ville's
    inequality, the probability that the e-value ever reaches 1 / a is at most a. The two-sided e-value is the
    mean of both one-sided e-values. Suppose that the nominal coverage is 90 %, but the true coverage is 85 %.
    If the coverage is low from the start, the median time of detection is at most 700 rows. If the low
    coverage follows 10 000 rows with nominal coverage, the median time is at most 1500 rows. The time of an
    update is proportional to the number of new rows plus the number of all previous rows divided by 256.

    References
    ----------
    .. [1] Ramdas, Gruenwald, Vovk and Shafer (2023), Game-theoretic statistics and safe anytime-valid
       inference. https://doi.org/10.1214/23-STS894

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.monitoring import CoverageMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = CoverageMonitor(0.9)
    >>> for _ in range(20):
    ...     y = rng.normal(size=100)
    ...     monitor = monitor.update(y, Normal(np.zeros(100), np.ones(100)))
    >>> monitor.alarm_
    False
    >>> while not monitor.alarm_:  # now the noise is larger than predicted
    ...     y = 1.2 * rng.normal(size=100)
    ...     monitor = monitor.update(y, Normal(np.zeros(100), np.ones(100)))
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
        self._misses_before = np.zeros(1)  # Number of misses before each possible change.

    def __repr__(self) -> str:
        state = f"{self.n_misses_} misses in {self.n_rows_} rows, e_value_={self.e_value_:.3g}"
        return f"CoverageMonitor({self.coverage}, {state})"

    def update(self, y: ArrayLike, y_pred: Any) -> Self:
        """Add targets and their intervals in chronological order.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed targets. A block without rows has no effect.
        y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
            Forecast of every target. An array holds lower and upper bounds.

        Returns
        -------
        self : CoverageMonitor
            The monitor.
        """
        if has_no_rows(y, y_pred, takes_bounds=True):
            return self
        target, forecast, _ = check_forecast_or_bounds(y, y_pred, None)
        inside = coverage_rows(target, forecast, coverage=self.coverage)
        misses = self.n_misses_ + np.concatenate([[0.0], np.cumsum(1.0 - inside)])
        # A change is possible at each row that is a multiple of the spacing.
        begins = np.arange(SPACING * self._misses_before.size, self.n_rows_ + target.size, SPACING)
        self._misses_before = np.append(self._misses_before, misses[begins - self.n_rows_])
        self.n_rows_, self.n_misses_ = self.n_rows_ + target.size, int(misses[-1])
        self.e_value_ = self._evidence()
        self.alarm_ = self.alarm_ or self.e_value_ >= 1 / self.false_alarm
        return self

    def _evidence(self) -> float:
        number = np.arange(1.0, self._misses_before.size + 1)
        rows = self.n_rows_ - SPACING * (number - 1)
        misses = self.n_misses_ - self._misses_before
        weight = 1 / (number * (number + 1))
        sides = ["less", "greater"] if self.alternative == "two-sided" else [self.alternative]
        log_values = [np.log(weight) + self._log_ratio(misses, rows, side) for side in sides]
        with np.errstate(over="ignore"):
            started = float(np.exp(logsumexp(log_values) - math.log(len(sides))))
        # The e-value of each future change is 1, so the sum of the weights of all future changes is added.
        return started + 1 / (number.size + 1)

    def _log_ratio(self, misses: FloatArray, rows: FloatArray, side: str) -> FloatArray:
        p = 1.0 - self.coverage
        a, b = misses + 1, rows - misses + 1
        # `share` is the integral of a beta density over the values of q under the alternative.
        share = betainc(b, a, 1 - p) if side == "less" else betainc(a, b, p)
        with np.errstate(divide="ignore"):  # The share may be 0, so that its logarithm is -inf.
            log_share = np.log(share) - math.log(1 - p if side == "less" else p)
        null = misses * math.log(p) + (rows - misses) * math.log1p(-p)
        return np.asarray(betaln(a, b) + log_share - null)


def has_no_rows(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None = None, *, takes_bounds: bool = False
) -> bool:
    """Return whether a block has no rows. Its forecast is an empty array or a frozen scipy distribution."""
    if isinstance(y_pred, tuple | type):  # The check of the forecast refuses every tuple and every class.
        return False
    columns = [*y_pred.args, *y_pred.kwds.values()] if hasattr(y_pred, "kwds") else [y_pred]
    columns = [column for column in columns if not isinstance(column, numbers.Real)]
    columns += [y_true] if sample_weight is None else [y_true, sample_weight]
    if len(columns) < 2 or not all(_is_empty(column) for column in columns):
        return False
    return np.shape(y_pred)[1:] in ([(), (2,)] if takes_bounds else [()])


def _is_empty(column: Any) -> bool:
    if isinstance(column, list | tuple):
        return not column
    return getattr(column, "shape", ())[:1] == (0,)
