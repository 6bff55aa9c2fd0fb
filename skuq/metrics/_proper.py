"""Proper scores of the whole distribution. They measure calibration and sharpness together."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skuq._censoring import Bounds
from skuq._numeric import log_mass
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_option
from skuq.distributions import Distribution, Empirical
from skuq.distributions._concatenated import Concatenated
from skuq.distributions._pit import bound_scores
from skuq.metrics._inputs import check_censored, check_forecast
from skuq.metrics._spec import Means, metric, value_of

CRPS_ESTIMATORS = ("nrg", "fair")


def check_estimator(*, crps_estimator: str = "nrg") -> None:
    check_option(crps_estimator, "crps_estimator", CRPS_ESTIMATORS)


def crps_rows(y: FloatArray, dist: Distribution, *, crps_estimator: str = "nrg") -> FloatArray:
    return fair_crps(y, dist) if crps_estimator == "fair" else dist.crps(y)


def mean_crps(crps_estimator: str) -> Means:
    check_option(crps_estimator, "crps_estimator", CRPS_ESTIMATORS)
    return Means(partial(crps_rows, crps_estimator=crps_estimator))


@metric(
    "crps",
    title="CRPS",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="distribution",
    proper=True,
    source="Gneiting & Raftery 2007, eq. 20-21",
    meaning="as accurate as a point forecast with a mean absolute error of {value}",
    kernel=mean_crps,
)
def crps_loss(
    y_true: ArrayLike, y_pred: Any, *, sample_weight: ArrayLike | None = None, crps_estimator: str = "nrg"
) -> float:
    r"""Return the continuous ranked probability score (CRPS) of forecast distributions.

    The smaller the better, minimum is zero. The CRPS is the default score for model selection. The CRPS is
    strictly proper, has the units of y and is defined for every distribution. The CRPS of a point forecast is
    the absolute error. The log score (`nll_loss`) penalizes targets far in the tails more than the CRPS does.
    `pinball_loss` scores quantiles at chosen levels.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    crps_estimator : {"nrg", "fair"}, default="nrg"
        Interpretation of an ensemble (`skuq.distributions.Empirical`). "nrg" scores the empirical
        distribution of the members. "fair" is an unbiased estimate of the score of the distribution from
        which the members were drawn. Use "fair" to compare ensembles of different sizes. "fair" requires at
        least two members. The option has no effect on other distributions.

    Returns
    -------
    loss : float
        In the units of y.

    See Also
    --------
    nll_loss : Logarithmic score.
    interval_score_loss : Proper score of one interval.

    Notes
    -----
    .. math:: \mathrm{CRPS}(F, y) = \int (F(t) - 1\{t \ge y\})^2 dt
        = E|X - y| - \tfrac12 E|X - X'|, \quad X, X' \sim F,

    If the family has a closed form of the CRPS, the closed form is used. The cost is O(n), or O(n m) for
    sorted ensembles of m members.

    References
    ----------
    .. [1] Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation, eq. 20-21.
       https://doi.org/10.1198/016214506000001437
    .. [2] Ferro (2014), Fair scores for ensemble forecasts. https://doi.org/10.1002/qj.2270

    Examples
    --------
    >>> from skuq.distributions import Empirical, Normal
    >>> from skuq.metrics import crps_loss
    >>> round(crps_loss([1.0, 2.0], Normal([1.0, 1.0], [1.0, 1.0])), 4)
    0.4181
    >>> members = Empirical([[0.0, 2.0, 4.0]])
    >>> round(crps_loss([1.0], members), 4), round(crps_loss([1.0], members, crps_estimator="fair"), 4)
    (0.7778, 0.3333)
    """
    return value_of(mean_crps(crps_estimator), *check_forecast(y_true, y_pred, sample_weight))


def fair_crps(y: FloatArray, dist: Distribution) -> FloatArray:
    """Return the fair CRPS, in which E|X - X'| is the mean over pairs of different members."""
    if isinstance(dist, Concatenated):
        return dist._dispatch(lambda part, rows: fair_crps(rows, part), y)
    if not isinstance(dist, Empirical):
        return dist.crps(y)
    n, m = dist.members.shape
    coincide = np.full(n, 1 / m) if dist.weights is None else np.square(dist.weights).sum(axis=1)
    if (coincide > 1 - 1e-9).any():
        row = int(np.argmax(coincide))
        raise ValueError(
            "`y_pred` must have at least two members of positive weight for crps_estimator='fair', got one "
            f"member at row {row}. Use crps_estimator='nrg'."
        )
    return np.asarray(dist.crps(y) - dist._half_mean_difference() * coincide / (1 - coincide))


def nll_rows(y: FloatArray, dist: Distribution) -> FloatArray:
    return -(dist.logpmf(y) if dist.has_mass else dist.logpdf(y))


def censored_nll_rows(y: FloatArray, dist: Distribution, bounds: Bounds) -> FloatArray:
    """Return minus the log density of observed targets, or minus the log probability between bounds."""
    observed = bounds.observed
    loss = np.empty(y.size)
    if observed.any():
        loss[observed] = nll_rows(y[observed], dist[observed])
    unknown = np.flatnonzero(~observed)
    rows, ends = dist[unknown], bounds.take(unknown)
    scores = bound_scores(rows, ends)
    loss[unknown] = -log_mass(scores.lower, scores.upper)
    return loss


@metric(
    "nll",
    title="NLL",
    units="log",
    direction="lower",
    optimum=-np.inf,
    needs="density",
    proper=True,
    source="Gneiting & Raftery 2007, section 4.1; Wibbeke et al. 2025, eq. 10",
    kernel=lambda: Means(nll_rows),
)
def nll_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    event: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> float:
    r"""Return the negative log-likelihood (NLL): the mean negative log density at the targets.

    The smaller the better, without a minimum. The score is strictly proper. It depends only on the density at
    the target. A single target far out in a thin tail can dominate the mean. Prefer `crps_loss` for targets
    with outliers and for distributions without a density.

    For discrete forecasts, such as counts, the probability of the target replaces the density, and the
    minimum is 0. Do not compare the log score of a discrete forecast with the log score of a density.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. Every row must have a density (`has_density`), or every row must be discrete
        (`has_mass`).
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    event : array-like of bool, shape (n,), default=None
        True if the target is observed. False if the target is only known to be larger than y. None means that
        all targets are observed. A censored row has the score :math:`-\log(1 - F(y))`.
    lower, upper : array-like of shape (n,), default=None
        Known bounds of each target, instead of `event`; None means y. Equal bounds mean an observed target,
        and infinite bounds are allowed. A row with other bounds has the score
        :math:`-\log(F(\mathrm{upper}) - F(\mathrm{lower}))`.

    Returns
    -------
    loss : float
        In nats. Multiplying y by c adds log(c) for densities. Infinite if the density or the mass at a target
        is 0.

    Raises
    ------
    NoDensityError
        If the forecast has atoms and is not discrete. Examples are an ensemble, a scale of 0, a clipped
        forecast, and a `~skuq.distributions.Hurdle` of a continuous distribution. Score such a forecast in
        two parts: the probability of the atom by the log loss of classification, and the continuous part by
        this function.

    See Also
    --------
    crps_loss : Score that is defined for every distribution.

    Notes
    -----
    .. math:: \mathrm{NLL} = -\frac1n \sum_i \log f_i(y_i)

    The cost is one pass over the rows.

    References
    ----------
    .. [1] Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation.
       https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import nll_loss
    >>> round(nll_loss([1.0, 2.0], Normal([1.0, 1.0], [1.0, 1.0])), 4)
    1.1689
    >>> round(nll_loss([1.0, 2.0], Normal([1.0, 1.0], [1.0, 1.0]), event=[True, False]), 4)  # y > 2 in row 1
    1.38
    >>> from scipy import stats
    >>> round(nll_loss([1, 2], stats.poisson([1.0, 1.0])), 4)
    1.3466
    """
    y, dist, weight, bounds = check_censored(y_true, y_pred, sample_weight, event, lower, upper)
    rows = nll_rows if bounds is None else partial(censored_nll_rows, bounds=bounds)
    return value_of(Means(rows), y, dist, weight)
