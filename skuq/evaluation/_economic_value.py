"""Value of a forecast for decisions between acting and not acting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skuq._numeric import reaches
from skuq._typing import ArrayLike
from skuq._validation import check_number, check_open_unit, check_option
from skuq.metrics._inputs import check_forecast

RATIOS = np.arange(1, 100) / 100
"""Default ratios of the cost to the loss."""


def relative_economic_value(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    threshold: float,
    above: bool = True,
    ratios: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> pd.DataFrame:
    r"""Return the relative economic value of a forecast for decisions about protection against an event.

    The larger the better, maximum is one. Before the outcome is known, a user decides whether to act. Acting
    has a cost. If the user does not act and the event happens, the user has a loss. The user acts if the
    predicted probability of the event is at least the ratio of cost to loss. The value is 0 for decisions
    based only on the frequency of the event, and 1 for decisions based on the outcomes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Both the event and its complement must occur.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. ``(point, 0.0)`` gives the value of a point forecast.
    threshold : float
        Threshold of the event, in the units of y.
    above : bool, default=True
        Whether the event is a target above the threshold. False means a target below the threshold or equal
        to it.
    ratios : float or array-like of shape (k,), default=None
        Ratios of the cost of acting to the loss that acting prevents, strictly between 0 and 1. None means
        0.01, 0.02, ..., 0.99.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.

    Returns
    -------
    table : DataFrame of k rows
        Indexed by the ratio of cost to loss. Expenses are means per row, in units of the loss.

        - `value`: relative economic value. It is at most 1. If the value is negative, decisions based on the
          forecast are more expensive than decisions based on the frequency of the event.
        - `expense`: observed expense of decisions based on the forecast.
        - `frequency_expense`: smaller expense of two strategies: to act in all rows, or to act in no row.
        - `perfect_expense`: expense of acting in exactly the rows with an event.
        - `acting`: share of rows with an action.

    Raises
    ------
    ValueError
        If the event occurs in all rows or in no row, or if an argument is not valid.

    See Also
    --------
    skuq.displays.RelativeEconomicValueDisplay : A plot of the curve.
    optimal_action : Decisions with more than two possible actions.

    Notes
    -----
    Let a be the ratio, c the frequency of the event and E the mean expense. Then

    .. math:: V(a) = \frac{\min(a, c) - E(a)}{\min(a, c) - a c}

    If the forecast is not calibrated, the user acts too often or too rarely, so the value may be negative for
    some ratios. The value is largest near a = c. The frequency c is computed from the evaluated rows, so the
    value is slightly too low for few rows. To compare two forecasts, use the `expense` at the ratio of the
    user.

    References
    ----------
    .. [1] Richardson (2000), Skill and relative economic value of the ECMWF ensemble prediction system.
       https://doi.org/10.1002/qj.49712656313

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import relative_economic_value
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=20_000)
    >>> y = x + np.exp(x / 2) * rng.normal(size=x.size)
    >>> right = relative_economic_value(y, Normal(x, np.exp(x / 2)), threshold=2.0, ratios=[0.05, 0.2, 0.5])
    >>> right.round(2)
                     value  expense  frequency_expense  perfect_expense  acting
    cost_loss_ratio
    0.05              0.56     0.02               0.05             0.01    0.43
    0.20              0.39     0.07               0.11             0.02    0.23
    0.50              0.00     0.10               0.11             0.05    0.02
    """
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    limit = check_number(threshold, "threshold")
    check_option(above, "above", (True, False))
    ratio = np.atleast_1d(check_open_unit(RATIOS if ratios is None else ratios, "ratios"))
    happens = y > limit if above else y <= limit
    probability = dist.sf(limit) if above else dist.cdf(limit)
    frequency = float(np.average(happens, weights=weight))
    if not happens.any() or happens.all():
        raise ValueError(
            f"`y_true` must have rows with and without the event, got {int(happens.sum())} targets "
            f"{'above' if above else 'below'} {limit:g} in {len(y)} rows. Choose another threshold."
        )
    acts = [reaches(probability, each) for each in ratio]
    acting = np.array([np.average(rows, weights=weight) for rows in acts])
    missed = np.array([np.average(happens & ~rows, weights=weight) for rows in acts])
    expense = ratio * acting + missed
    reference, perfect = np.minimum(ratio, frequency), ratio * frequency
    columns = {
        "value": (reference - expense) / (reference - perfect),
        "expense": expense,
        "frequency_expense": reference,
        "perfect_expense": perfect,
        "acting": acting,
    }
    return pd.DataFrame(columns, index=pd.Index(ratio, name="cost_loss_ratio"))
