"""Sequential bets against uniform levels, and the monitors of levels that use them."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy.special import betaln, log_ndtr

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_probabilities, check_random_state, check_single_coverage
from skuq.distributions._pit import randomized_scores
from skuq.metrics._inputs import check_forecast
from skuq.monitoring._coverage_monitor import has_no_rows

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


class PITMonitor(BetaMonitor):
    r"""Sequential test of the calibration of predictive distributions.

    The monitor compares targets with their distributions as rows arrive. The PIT (probability integral
    transform) of a calibrated forecast is uniform. The evidence against a uniform PIT is an e-value. For a
    calibrated forecast, the probability that the e-value ever reaches ``1 / false_alarm`` is at most
    `false_alarm`, for any number of updates. The monitor detects biases and standard deviations that are too
    small or too large. `CoverageMonitor` tests only one interval per row. Use `CoverageMonitor` for intervals
    whose coverage may be above nominal even if the model is correct, such as conformal intervals.

    Parameters
    ----------
    false_alarm : float, default=0.01
        Largest probability that a calibrated forecast ever raises an alarm, in (0, 1).
    random_state : int, RandomState instance or None, default=None
        Controls the random numbers for targets that equal an atom (point mass). Forecasts without atoms need
        no random numbers.

    Attributes
    ----------
    n_rows_ : int
        Number of rows so far.
    e_value_ : float
        Evidence against calibration. For a calibrated forecast, the expected e-value is at most 1.
    alarm_ : bool
        Whether the e-value was ``1 / false_alarm`` or more after some row.
    alarm_row_ : int or None
        Number of rows up to and including the row of the first alarm. None without an alarm.

    See Also
    --------
    CoverageMonitor : Sequential test of the coverage of one interval.
    ExchangeabilityMonitor : Sequential test of the exchangeability of new rows with the calibration rows.
    calibration_drift : Table of past periods, including tests of the PIT.
    skuq.displays.PITHistogramDisplay : Plot of the PIT values.

    Notes
    -----
    The null hypothesis is that the PIT :math:`u_i = F_i(y_i)` of each row is uniform given all previous rows
    [1]_. A bet b is a density on [0, 1]. Under the null hypothesis, :math:`b(u_i)` has the expected value 1,
    so the product of :math:`b(u_i)` over the rows is a martingale. The mean of the products of several bets
    is also a martingale [2]_. The 49 bets are beta densities. Each of their two parameters is 0.5, 0.7, 0.85,
    1, 1.2, 1.5 or 2. If the calibration changes at row s, a product that begins at s has the most evidence.
    Therefore, new products begin at every 256th row. The e-value is

    .. math:: E_n = \sum_{j \ge 1} w_j \frac1{49} \sum_{k=1}^{49}
        \prod_{i = 256 (j - 1) + 1}^{n} b_k(u_i), \quad
        w_j = \frac{\log 3}{\log(j + 2)} - \frac{\log 3}{\log(j + 3)}.

    A product without rows is 1, and the weights add up to 1. By Ville's inequality, the probability that the
    e-value ever reaches 1 / a is at most a. The e-value is computed after each row, so the alarm does not
    depend on the blocks.

    In simulations of a normal forecast with an error from the first row, the median number of rows until
    detection is at most 250 if the standard deviation is too small by a factor 1.2, at most 220 if it is too
    large by a factor 1.25, and at most 220 for a bias of 0.3 standard deviations. If the error follows 10 000
    rows of a calibrated forecast, the median is at most 600.

    If a forecast has atoms (point masses), such as a forecast of counts, its PIT is discrete. If a target
    equals an atom, the monitor draws the PIT uniformly from :math:`F(y-)` to :math:`F(y)`. The randomized PIT
    is uniform for a calibrated forecast [3]_. A target outside the support of its forecast is impossible and
    gives an infinite e-value. For this reason, do not pass the members of a small ensemble as an `Empirical`
    distribution if the targets are continuous. Fit a density to the members first. The evidence from a target
    far in a tail is not reduced by rounding, because the densities are computed from logarithms of
    probabilities.

    No fitted model is calibrated exactly, so the monitor detects small deviations after very many rows. If a
    forecast is calibrated on k rows, the errors of its probabilities are about :math:`0.5 / \sqrt k`. The
    monitor may detect these errors after more than k new rows. If the rows are dependent, such as neighboring
    hours, the probability of a false alarm may be larger than `false_alarm`.

    The e-value depends on the order of the rows, and monitors cannot be merged. For one test of several
    independent streams, compare the mean of their e-values with ``1 / false_alarm``, because this mean is
    also an e-value. The time of an update is proportional to the number of new rows. The size of the state
    does not depend on the number of rows.

    References
    ----------
    .. [1] Arnold, Henzi and Ziegel (2023), Sequentially valid tests for forecast calibration, Annals of
       Applied Statistics 17, 1909-1935. https://doi.org/10.1214/22-AOAS1697
    .. [2] Ramdas, Gruenwald, Vovk and Shafer (2023), Game-theoretic statistics and safe anytime-valid
       inference. https://doi.org/10.1214/23-STS894
    .. [3] Czado, Gneiting and Held (2009), Predictive model assessment for count data, Biometrics 65,
       1254-1261. https://doi.org/10.1111/j.1541-0420.2009.01191.x

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.monitoring import PITMonitor
    >>> rng = np.random.default_rng(0)
    >>> forecast = Normal(np.zeros(1000), np.ones(1000))
    >>> monitor = PITMonitor().update(rng.normal(size=1000), forecast)
    >>> monitor.alarm_
    False
    >>> monitor = monitor.update(0.8 * rng.normal(size=1000), forecast)  # now the intervals are too wide
    >>> monitor.alarm_, monitor.alarm_row_
    (True, 1229)
    """

    def __init__(
        self, *, false_alarm: float = 0.01, random_state: int | np.random.RandomState | None = None
    ) -> None:
        super().__init__(false_alarm, random_state)

    def update(self, y: ArrayLike, y_pred: Any) -> Self:
        """Add targets and their distributions in chronological order.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observed targets. A block without rows has no effect.
        y_pred : Distribution or frozen scipy distribution
            Forecast of every target.

        Returns
        -------
        self : PITMonitor
            The monitor.
        """
        if has_no_rows(y, y_pred):
            return self
        target, dist, _ = check_forecast(y, y_pred, None)
        score = randomized_scores(dist, target, self._rng)
        self._bet(log_ndtr(score), log_ndtr(-score))
        return self


class ExchangeabilityMonitor(BetaMonitor):
    r"""Sequential test of the exchangeability of new rows with the calibration rows.

    The guarantee of conformal prediction holds only for exchangeable rows. The monitor takes the p-values of
    `ConformalRegressor.predict_p
    <skuq.conformal.ConformalRegressor.predict_p>` in chronological order. If the rows are exchangeable, the
    probability that the e-value ever reaches ``1 / false_alarm`` is at most `false_alarm`. The monitor
    detects that errors become larger or smaller. To test only whether the coverage is too low, use
    `CoverageMonitor`. For forecasts without conformal calibration, use `PITMonitor`.

    Parameters
    ----------
    false_alarm : float, default=0.01
        Largest probability that exchangeable rows ever raise an alarm, in (0, 1).

    Attributes
    ----------
    n_rows_ : int
        Number of rows so far.
    e_value_ : float
        Evidence against exchangeability. For exchangeable rows, the expected e-value is at most 1.
    alarm_ : bool
        Whether the e-value was ``1 / false_alarm`` or more after some row.
    alarm_row_ : int or None
        Number of rows up to and including the row of the first alarm. None without an alarm.

    See Also
    --------
    skuq.conformal.ConformalRegressor.predict_p : Computes the p-values.
    PITMonitor : Similar test of the PIT of a forecast.

    Notes
    -----
    The p-value of a row is its randomized rank among the calibration rows and all earlier new rows. For
    exchangeable rows, these p-values are independent and uniform [1]_, so the product of bets on these
    p-values is a martingale, called a conformal test martingale [2]_. The bets and their restarts are the
    same as in `PITMonitor`.

    The test needs the p-values of all new rows since the calibration. If rows arrive in blocks, first call
    `predict_p` with a block. Then call `partial_fit` with the same block, so that the ranks of later rows
    include this block. The regressor must have no ``window``, because p-values from ranks among the latest
    rows are dependent.

    References
    ----------
    .. [1] V. Vovk, A. Gammerman, G. Shafer, "Algorithmic learning in a random world", 2nd edition, Springer
       2022, theorem 11.1. https://doi.org/10.1007/978-3-031-06649-8
    .. [2] V. Vovk, I. Nouretdinov, A. Gammerman, "Testing exchangeability on-line", ICML 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skuq.monitoring import ExchangeabilityMonitor
    >>> from skuq.conformal import ConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 1))
    >>> y = X[:, 0] + np.where(np.arange(2000) < 1500, 1.0, 1.5) * rng.normal(size=2000)
    >>> model = ConformalRegressor(LinearRegression(), random_state=0).fit(X[:1000], y[:1000])
    >>> p = model.predict_p(X[1000:], y[1000:], random_state=0)
    >>> monitor = ExchangeabilityMonitor().update(p[:500])
    >>> monitor.alarm_
    False
    >>> monitor = monitor.update(p[500:])  # the noise is larger
    >>> monitor.alarm_
    True
    """

    def __init__(self, *, false_alarm: float = 0.01) -> None:
        super().__init__(false_alarm, None)

    def update(self, p_values: ArrayLike) -> Self:
        """Add p-values in chronological order.

        Parameters
        ----------
        p_values : array-like of shape (n,)
            p-values in [0, 1] from `predict_p`. A block without rows has no effect.

        Returns
        -------
        self : ExchangeabilityMonitor
            The monitor.
        """
        values = as_float_array(p_values, "p_values")
        if values.ndim != 1:
            raise ValueError(f"`p_values` must be 1-D, got shape {values.shape}.")
        check_probabilities(values, "p_values")
        if values.size:
            with np.errstate(divide="ignore"):
                self._bet(np.log(values), np.log1p(-values))
        return self
