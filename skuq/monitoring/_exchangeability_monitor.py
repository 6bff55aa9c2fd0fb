"""Sequential test of exchangeability by conformal p-values."""

from __future__ import annotations

from typing import Self

import numpy as np

from skuq._typing import ArrayLike
from skuq._validation import as_float_array, check_probabilities
from skuq.monitoring._beta_bets import BetaMonitor


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
