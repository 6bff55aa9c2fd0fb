"""Sequential test of the calibration of whole distributions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import log_ndtr

from skuq._typing import ArrayLike
from skuq.distributions._pit import randomized_scores
from skuq.metrics._internal import check_forecast, has_no_rows
from skuq.monitoring._beta_bets import BetaMonitor


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

    The table shows the median number of rows until detection in simulations of a normal forecast. The error
    is present from the first row, or it follows 10 000 rows of a calibrated forecast.

    ==============================================  ==============  =================
    error of the forecast                           from first row  after 10 000 rows
    ==============================================  ==============  =================
    standard deviation too small by a factor 1.2    220             350
    standard deviation too large by a factor 1.25   205             340
    bias of 0.3 standard deviations                 180             305
    ==============================================  ==============  =================

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
    also an e-value. The time of an update is proportional to the number of new rows. A million rows of a
    normal forecast take about 1 s. The size of the state does not depend on the number of rows.

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
