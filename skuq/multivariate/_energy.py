"""Energy score of joint distributions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist, pdist

from skuq._typing import ArrayLike, FloatArray
from skuq._weights import weighted_mean
from skuq.distributions import JointDistribution
from skuq.metrics._proper import check_estimator, crps_rows
from skuq.metrics._spec import metric
from skuq.multivariate._empirical import EmpiricalJoint
from skuq.multivariate._inputs import Chain, check_chain, check_scaled_forecast, transform, unbiased_factor

BLOCK = 1 << 22
"""Distances are computed in blocks of this size."""


def check_energy(*, crps_estimator: str = "nrg", scale: Any = None, chain: Any = None) -> None:
    check_estimator(crps_estimator=crps_estimator)
    check_chain(chain)


@metric(
    "energy_score",
    title="energy score",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(-np.inf, np.inf),
    needs="joint",
    proper=True,
    source="Gneiting & Raftery 2007, eq. 22",
    meaning="mean distance to the targets, minus half of the mean distance within the forecast, is {value}",
    check=check_energy,
)
def energy_score_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    crps_estimator: str = "nrg",
    scale: ArrayLike | Literal["std"] | None = None,
    chain: Chain | None = None,
) -> float:
    r"""Return the energy score of joint distributions of several targets.

    The smaller the better, minimum is zero. The energy score is the generalization of the CRPS to vectors. It
    is strictly proper. The score is much more sensitive to errors in the marginals than to errors in the
    dependence. Therefore, also report `variogram_score_loss`. If certain sums of the targets matter, report
    `linear_crps_loss` for these sums.

    Parameters
    ----------
    y_true : array-like of shape (n, d)
        Observed targets.
    y_pred : JointDistribution
        Forecast of every target. It has n rows and d targets.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    crps_estimator : {"nrg", "fair"}, default="nrg"
        A joint distribution has K points per row, such as the members of an `EmpiricalJoint`. "nrg" scores
        the distribution of these points. Use "nrg" for `CopulaJoint` and `NormalJoint`, whose points are not
        random. "fair" is for an `EmpiricalJoint` whose members are random draws: it is an unbiased estimate
        of the score of the distribution from which the members were drawn. "fair" may be negative and
        requires at least two members.
    scale : "std", array-like of shape (d,) or None, default=None
        Divisor of each target. Distances depend on the units: without a divisor, a target with large values
        dominates the score. "std" divides by the standard deviations of ``y_true``. None means 1. Scorers use
        "std".
    chain : callable, default=None
        Chaining function of the threshold-weighted score. The function maps points of shape (..., d) to
        points of the same shape. For example, ``lambda y: np.maximum(y, 0)`` ignores differences between
        negative values.

    Returns
    -------
    loss : float
        In the units of the targets. If `scale` is given, the score has no units.

    See Also
    --------
    variogram_score_loss : Score that is sensitive to the dependence of the targets.
    skuq.metrics.crps_loss : Score of one target.

    Notes
    -----
    .. math:: \mathrm{ES}(F, y) = E\lVert X - y \rVert - \tfrac12 E\lVert X - X' \rVert, \quad X, X' \sim F.

    For d = 1, the score is the CRPS of the marginal. The cost is O(n K^2 d) for K points per row. If all rows
    of an `EmpiricalJoint` have the same K members, the cost is O(K^2 d + n K^2).

    References
    ----------
    .. [1] Gneiting and Raftery (2007), Strictly proper scoring rules, prediction, and estimation, eq. 22.
       https://doi.org/10.1198/016214506000001437
    .. [2] Allen, Ginsbourger and Ziegel (2023), Evaluating forecasts for high-impact events using transformed
       kernel scores. https://doi.org/10.1137/22M1532184

    Examples
    --------
    >>> from skuq.multivariate import EmpiricalJoint
    >>> from skuq.multivariate import energy_score_loss
    >>> dist = EmpiricalJoint([[[0.0, 0.0], [3.0, 4.0]]])
    >>> energy_score_loss([[0.0, 0.0]], dist), energy_score_loss([[0.0, 0.0]], dist, crps_estimator="fair")
    (1.25, 0.0)
    """
    check_energy(crps_estimator=crps_estimator, scale=scale, chain=chain)
    y, dist, weight, divisor = check_scaled_forecast(y_true, y_pred, sample_weight, scale)
    return weighted_mean(energy_rows(y, dist, divisor, crps_estimator, chain), weight)


def energy_rows(
    y: FloatArray, dist: JointDistribution, scale: FloatArray, crps_estimator: str, chain: Chain | None
) -> FloatArray:
    """Return the energy score of each row, shape (n,)."""
    if dist.shape[1] == 1 and chain is None:
        return np.asarray(crps_rows(y[:, 0], dist.marginals()[0], crps_estimator=crps_estimator) / scale[0])
    targets = transform(y, chain, scale)
    if isinstance(dist, EmpiricalJoint) and dist.members.ndim == 2 and dist.weights is not None:
        return _shared_rows(targets, transform(dist.members, chain, scale), dist.weights, crps_estimator)
    out = np.empty(len(dist))
    for rows, points, weights in dist._blocks():
        members = np.ascontiguousarray(transform(points, chain, scale))
        score = np.array([_half_spread(row, share) for row, share in _pairs(members, weights)])
        if crps_estimator == "fair":
            score *= unbiased_factor(weights, *members.shape[:2])
        distance = np.sqrt(np.square(members - targets[rows, np.newaxis]).sum(axis=2))
        mean = distance.mean(axis=1) if weights is None else (distance * weights).sum(axis=1)
        out[rows] = mean - score
    return out


def _pairs(members: FloatArray, weights: FloatArray | None) -> Any:
    shares = [None] * len(members) if weights is None else weights
    return zip(members, shares, strict=True)


def _half_spread(members: FloatArray, weights: FloatArray | None) -> float:
    if weights is None:
        return float(pdist(members).sum()) / len(members) ** 2
    return 0.5 * float(weights @ cdist(members, members) @ weights)


def _shared_rows(y: FloatArray, members: FloatArray, weights: FloatArray, crps_estimator: str) -> FloatArray:
    """Return the energy scores of rows with common members. Each row has its own weights."""
    between = cdist(members, members)
    out = np.empty(len(y))
    step = max(1, BLOCK // len(members))
    for start in range(0, len(y), step):
        rows = slice(start, start + step)
        share = weights[rows]
        half = 0.5 * ((share @ between) * share).sum(axis=1)
        if crps_estimator == "fair":
            half *= unbiased_factor(share, *share.shape)
        out[rows] = (cdist(y[rows], members) * share).sum(axis=1) - half
    return out
