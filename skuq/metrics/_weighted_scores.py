"""Proper scores with more weight on some targets or on some levels."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import log_ndtr

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option, check_support
from skuq.distributions import Distribution
from skuq.metrics._inputs import check_forecast
from skuq.metrics._kernels import BLOCK, location_scale, standardized
from skuq.metrics._spec import Means, metric, value_of

LEVEL_WEIGHTS = {
    "tails": Polynomial([1.0, -4.0, 4.0]),
    "left": Polynomial([1.0, -2.0, 1.0]),
    "right": Polynomial([0.0, 0.0, 1.0]),
    "center": Polynomial([0.0, 1.0, -1.0]),
}
"""Weight of a level, as a polynomial of the level."""


def _in_blocks(
    score: Callable[[FloatArray, Distribution], FloatArray], y: FloatArray, dist: Distribution
) -> FloatArray:
    if y.size <= BLOCK:
        return score(y, dist)
    blocks = [slice(start, start + BLOCK) for start in range(0, y.size, BLOCK)]
    return np.concatenate([score(y[rows], dist[rows]) for rows in blocks])


def check_region(lower: float, upper: float) -> None:
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, bool | np.bool_) or not isinstance(bound, numbers.Real):
            raise TypeError(
                f"`{name}` must be a number, got {bound!r}. For a bound per row, pass clipped targets and "
                "`dist.clip(lower, upper)` to `crps_loss`."
            )
    check_support(float(lower), float(upper), 1)


def threshold_weighted_crps_rows(
    y: FloatArray, dist: Distribution, *, lower: float = -np.inf, upper: float = np.inf
) -> FloatArray:
    return _in_blocks(lambda part, rows: rows.clip(lower, upper).crps(np.clip(part, lower, upper)), y, dist)


def threshold_weighted_crps(lower: float, upper: float) -> Means:
    check_region(lower, upper)
    return Means(partial(threshold_weighted_crps_rows, lower=lower, upper=upper))


@metric(
    "twcrps",
    title="Threshold-weighted CRPS",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=True,
    any_of=("lower", "upper"),
    source="Gneiting & Ranjan 2011; Allen et al. 2023",
    kernel=threshold_weighted_crps,
)
def threshold_weighted_crps_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    lower: float = -np.inf,
    upper: float = np.inf,
) -> float:
    r"""Return the threshold-weighted CRPS: the part of the CRPS between two values of y.

    The smaller the better, minimum is zero. The score compares forecasts in a region that matters, such as
    floods or prices above a limit. The score is proper: the true distribution has the best expected score. Do
    not compute an unweighted score from only the rows with targets in the region. Such a score is not proper,
    because it favors forecasts that always predict values in the region (the forecaster's dilemma). If two
    forecasts differ only outside the region, their scores are equal.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    lower, upper : float, default=-inf, inf
        Bounds of the region, in the units of y. ``lower`` must be less than ``upper``. Without bounds, the
        score is the CRPS. A scorer needs at least one bound, such as ``make_scorer("twcrps", lower=2.0)``.

    Returns
    -------
    loss : float
        In the units of y. If several regions together cover all values of y without overlap, their scores add
        up to `crps_loss`.

    See Also
    --------
    quantile_weighted_crps_loss : CRPS with weights on levels instead of values of y.
    threshold_weighted_nll_loss : Logarithmic score of a region.
    Supported : Clipped distribution.

    Notes
    -----
    .. math:: \int_a^b (F(t) - 1\{t \ge y\})^2 dt

    To compute the score, the forecast and the target are clipped to the region, and the CRPS of the result is
    computed. A closed form exists for the families listed in `Supported`. For bounds that
    differ between rows, pass ``dist.clip(lower, upper)`` and clipped targets to `crps_loss`.

    References
    ----------
    .. [1] Gneiting and Ranjan (2011), Comparing density forecasts using threshold- and quantile-weighted
       scoring rules. https://doi.org/10.1198/jbes.2010.08110
    .. [2] Allen, Ginsbourger and Ziegel (2023), Evaluating forecasts for high-impact events using transformed
       kernel scores. https://doi.org/10.1137/22M1532184
    .. [3] Lerch et al. (2017), Forecaster's dilemma: extreme events and forecast evaluation.
       https://doi.org/10.1214/16-STS588

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, threshold_weighted_crps_loss
    >>> y, dist = [0.5, 2.5], Normal([0.0, 0.0], [1.0, 1.0])
    >>> below = threshold_weighted_crps_loss(y, dist, upper=1.0)
    >>> above = threshold_weighted_crps_loss(y, dist, lower=1.0)
    >>> round(below, 4), round(above, 4)
    (0.4597, 0.6759)
    >>> round(below + above, 4), round(crps_loss(y, dist), 4)
    (1.1356, 1.1356)
    """
    given = check_forecast(y_true, y_pred, sample_weight)
    return value_of(threshold_weighted_crps(lower, upper), *given)


def quantile_weighted_crps_rows(y: FloatArray, dist: Distribution, *, weighting: str) -> FloatArray:
    weight = LEVEL_WEIGHTS[weighting]

    def score(part: FloatArray, rows: Distribution) -> FloatArray:
        form = location_scale(rows)
        if form is None:
            return rows._weighted_crps(part, weight)
        loc, scale, standard = form
        return np.asarray(scale * standard._weighted_crps(standardized(part, loc, scale), weight))

    return _in_blocks(score, y, dist)


def quantile_weighted_crps(weighting: str) -> Means:
    check_option(weighting, "weighting", list(LEVEL_WEIGHTS))
    return Means(partial(quantile_weighted_crps_rows, weighting=weighting))


@metric(
    "qwcrps",
    title="Quantile-weighted CRPS",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=True,
    any_of=("weighting",),
    source="Gneiting & Ranjan 2011",
    kernel=quantile_weighted_crps,
)
def quantile_weighted_crps_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    weighting: str = "tails",
) -> float:
    r"""Return the quantile-weighted CRPS: the integral of weighted pinball losses over all levels.

    The smaller the better, minimum is zero. The score is proper. It gives more weight to the tails or to the
    center of the forecast of each row. `threshold_weighted_crps_loss` gives weight to the same values of y in
    all rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    weighting : {"tails", "left", "right", "center"}, default="tails"
        Weight v(p) of level p: ``(2 p - 1) ** 2`` for both tails, ``(1 - p) ** 2`` for the left tail, ``p **
        2`` for the right tail, and ``p (1 - p)`` for the center. A scorer needs an explicit value, such as
        ``make_scorer("qwcrps", weighting="right")``.

    Returns
    -------
    loss : float
        In the units of y. At most `crps_loss`. Compare only values with the same weighting.

    See Also
    --------
    pinball_loss : The loss at chosen levels.

    Notes
    -----
    .. math:: 2 \int_0^1 \rho_p(y, Q(p))\, v(p)\, dp

    where :math:`\rho_p` is the pinball loss. The integral is exact for `~skuq.distributions.Empirical`. Most
    other families need about 250 quantiles per row. Location-scale families need these quantiles only once
    for all rows. A mixture needs 100 evaluations of the cdf of each member.

    References
    ----------
    .. [1] Gneiting and Ranjan (2011), Comparing density forecasts using threshold- and quantile-weighted
       scoring rules. https://doi.org/10.1198/jbes.2010.08110

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import quantile_weighted_crps_loss
    >>> y, dist = [0.5, 2.5], Normal([0.0, 0.0], [1.0, 1.0])
    >>> [round(quantile_weighted_crps_loss(y, dist, weighting=name), 4) for name in ("left", "right")]
    [0.302, 0.4032]
    """
    given = check_forecast(y_true, y_pred, sample_weight)
    return value_of(quantile_weighted_crps(weighting), *given)


def threshold_weighted_nll_rows(
    y: FloatArray, dist: Distribution, *, lower: float, upper: float
) -> FloatArray:
    log_below, log_above = (
        np.where(
            np.isinf(bound), -np.inf, log_ndtr(sign * dist._normal_score(np.full(len(dist), float(bound))))
        )
        for bound, sign in ((lower, 1), (upper, -1))
    )
    inside = (lower < y) & (y < upper)
    return np.where(inside, -dist.logpdf(y), -np.logaddexp(log_below, log_above))


def threshold_weighted_nll(lower: float, upper: float) -> Means:
    check_region(lower, upper)
    return Means(partial(threshold_weighted_nll_rows, lower=lower, upper=upper))


@metric(
    "twnll",
    title="Threshold-weighted NLL",
    units="log",
    direction="lower",
    optimum=-np.inf,
    needs="density",
    proper=True,
    any_of=("lower", "upper"),
    source="Diks, Panchenko & van Dijk 2011 (censored likelihood)",
    kernel=threshold_weighted_nll,
)
def threshold_weighted_nll_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    lower: float = -np.inf,
    upper: float = np.inf,
) -> float:
    r"""Return the censored log score: the log score with all values outside a region merged into one.

    The smaller the better, without a minimum. The score is proper. For a target inside the region, the score
    is the negative log density at the target. For a target outside, the score is the negative log of the
    probability of all values outside. Use the score for targets that were censored at the bounds, such as
    measurements below a limit of detection.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets. Targets on a bound count as outside.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. The forecast must have a density.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    lower, upper : float, default=-inf, inf
        Bounds of the region, in the units of y. ``lower`` must be less than ``upper``. Without bounds, the
        score is the NLL. A scorer needs at least one bound, such as ``make_scorer("twnll", lower=2.0)``.

    Returns
    -------
    loss : float
        In nats. Infinite if the density at a target inside the region is 0, or if a target is outside and the
        probability of all values outside is 0.

    Raises
    ------
    NoDensityError
        If the forecast has atoms, such as an ensemble or a scale of 0.

    See Also
    --------
    threshold_weighted_crps_loss : Score that is defined for every distribution.
    nll_loss : The log score of all values.

    Notes
    -----
    Let a and b be the bounds. The score of a row is

    .. math:: -1\{a < y < b\} \log f(y) - 1\{y \le a \text{ or } y \ge b\} \log(F(a) + 1 - F(b)).

    Multiplying y and the bounds by c adds log(c) for targets inside. The cost is three passes over the rows.

    References
    ----------
    .. [1] Diks, Panchenko and van Dijk (2011), Likelihood-based scoring rules for comparing density forecasts
       in tails. https://doi.org/10.1016/j.jeconom.2011.04.001

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import threshold_weighted_nll_loss
    >>> dist = Normal([0.0], [1.0])
    >>> round(threshold_weighted_nll_loss([2.0], dist, lower=1.0), 4)  # the NLL
    2.9189
    >>> round(threshold_weighted_nll_loss([0.3], dist, lower=1.0), 4)  # minus log P(Y <= 1)
    0.1728
    """
    given = check_forecast(y_true, y_pred, sample_weight)
    return value_of(threshold_weighted_nll(lower, upper), *given)
