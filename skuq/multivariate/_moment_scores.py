"""Scores of properties of joint distributions: marginals, sums, means and covariances."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from skuq._numeric import weighted_mean
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array
from skuq.distributions import JointDistribution
from skuq.metrics._proper import check_estimator
from skuq.metrics._spec import metric
from skuq.multivariate._concatenated import ConcatenatedJoint
from skuq.multivariate._empirical import EmpiricalJoint
from skuq.multivariate._scores import check_joint_forecast, check_scaled_forecast, unbiased_factor

LEAST_EIGENVALUE = 1e-12
"""A correlation matrix counts as positive definite if its smallest eigenvalue is at least this value."""


@metric(
    "mean_crps",
    title="mean CRPS of the targets",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="joint",
    proper=True,
    source="Gneiting & Raftery 2007, eq. 20",
    meaning="on average, as accurate as point forecasts with a mean absolute error of {value}",
)
def mean_crps_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    scale: ArrayLike | Literal["std"] | None = None,
) -> float:
    """Return the mean of the CRPS of all targets.

    The smaller the better, minimum is zero. The score is proper. It depends only on the marginals, not on the
    dependence of the targets.

    Parameters
    ----------
    y_true : array-like of shape (n, d)
        Observed targets.
    y_pred : JointDistribution
        Forecast of every target. It has n rows and d targets.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    scale : "std", array-like of shape (d,) or None, default=None
        Divisor of each target. See `energy_score_loss`. Scorers use "std".

    Returns
    -------
    loss : float
        In the units of the targets. If `scale` is given, the score has no units.

    See Also
    --------
    energy_score_loss : Score of the joint distribution.

    Notes
    -----
    The score costs as much as d calls of `~skuq.metrics.crps_loss`.

    Examples
    --------
    >>> from skuq.multivariate import NormalJoint
    >>> from skuq.multivariate import mean_crps_loss
    >>> dist = NormalJoint([[0.0, 0.0]], [[1.0, 0.9], [0.9, 1.0]])
    >>> round(mean_crps_loss([[0.0, 0.0]], dist), 4)
    0.2337
    """
    y, dist, weight, divisor = check_scaled_forecast(y_true, y_pred, sample_weight, scale)
    columns = zip(dist.marginals(), y.T, divisor, strict=True)
    scores = np.mean([marginal.crps(target) / unit for marginal, target, unit in columns], axis=0)
    return weighted_mean(scores, weight)


@metric(
    "linear_crps",
    title="CRPS of a weighted sum of the targets",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, np.inf),
    needs="joint",
    proper=True,
    source="Gneiting & Raftery 2007, eq. 20",
    meaning="for the sum, as accurate as a point forecast with a mean absolute error of {value}",
)
def linear_crps_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    w: ArrayLike | None = None,
) -> float:
    """Return the CRPS of a weighted sum of the targets, w'y.

    The smaller the better, minimum is zero. The score is proper for the distribution of the sum. The score is
    sensitive to the dependence of the targets. For example, if the targets are positively correlated, a
    forecast with independent targets predicts a distribution of the sum that is too narrow.

    Parameters
    ----------
    y_true : array-like of shape (n, d)
        Observed targets.
    y_pred : JointDistribution
        Forecast of every target. It has n rows and d targets.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    w : array-like of shape (d,), default=None
        Weight of each target. None means 1 for every target.

    Returns
    -------
    loss : float
        In the units of the sum.

    See Also
    --------
    skuq.distributions.JointDistribution.linear : Distribution of the sum. Every univariate metric accepts it.

    Notes
    -----
    The cost is O(n K d) for K points per row.

    Examples
    --------
    >>> from skuq.multivariate import NormalJoint
    >>> from skuq.multivariate import linear_crps_loss
    >>> dist = NormalJoint([[0.0, 0.0]], [[1.0, 0.9], [0.9, 1.0]])
    >>> y = [[0.0, 0.0]]
    >>> round(linear_crps_loss(y, dist), 4), round(linear_crps_loss(y, dist, w=[1.0, -1.0]), 4)
    (0.4556, 0.1045)
    """
    y, dist, weight = check_joint_forecast(y_true, y_pred, sample_weight)
    weights = np.ones(y.shape[1]) if w is None else as_float_array(w, "w")
    total = dist.linear(weights)
    return weighted_mean(total.crps(y @ weights), weight)


@metric(
    "dawid_sebastiani",
    title="Dawid-Sebastiani score",
    units="log",
    direction="lower",
    optimum=-np.inf,
    needs="joint",
    proper=True,
    source="Dawid & Sebastiani 1999, eq. 15",
    kernel=check_estimator,
)
def dawid_sebastiani_loss(
    y_true: ArrayLike, y_pred: Any, *, sample_weight: ArrayLike | None = None, crps_estimator: str = "nrg"
) -> float:
    r"""Return the Dawid-Sebastiani score of the predicted means and covariances.

    The smaller the better, without a minimum. The score is proper and depends only on the mean and the
    covariance of the forecast. For normal distributions, the score is an affine function of the log score.

    Parameters
    ----------
    y_true : array-like of shape (n, d)
        Observed targets.
    y_pred : JointDistribution
        Forecast of every target. It has n rows and d targets, with positive definite covariances.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    crps_estimator : {"nrg", "fair"}, default="nrg"
        "nrg" uses the covariance of the distribution. "fair" uses the unbiased covariance of the m members of
        an `EmpiricalJoint`, i.e. the divisor m - 1. "fair" has no effect on other distributions.

    Returns
    -------
    loss : float
        Multiplying all targets by c adds 2 d log(c).

    Raises
    ------
    ValueError
        If a covariance is singular. An ensemble of m members requires m > d.

    See Also
    --------
    energy_score_loss : Score that depends on the whole distribution.

    Notes
    -----
    .. math:: \mathrm{DSS}(F, y) = \log \det \Sigma + (y - \mu)^T \Sigma^{-1} (y - \mu)

    References
    ----------
    .. [1] Dawid and Sebastiani (1999), Coherent dispersion criteria for optimal experimental design, eq. 15.
       https://doi.org/10.1214/aos/1018031101

    Examples
    --------
    >>> from skuq.multivariate import NormalJoint
    >>> from skuq.multivariate import dawid_sebastiani_loss
    >>> dawid_sebastiani_loss([[1.0, 2.0]], NormalJoint([[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]))
    5.0
    """
    check_estimator(crps_estimator=crps_estimator)
    y, dist, weight = check_joint_forecast(y_true, y_pred, sample_weight)
    return weighted_mean(dawid_sebastiani_rows(y, dist, crps_estimator), weight)


def dawid_sebastiani_rows(y: FloatArray, dist: JointDistribution, crps_estimator: str) -> FloatArray:
    """Return the Dawid-Sebastiani score of each row, shape (n,)."""
    std, correlation = dist.std(), dist.corr()
    constant = ~(std > 0) | ~np.isfinite(std)
    singular = constant.any(axis=1) | (np.linalg.eigvalsh(correlation)[:, 0] < LEAST_EIGENVALUE)
    if singular.any():
        raise ValueError(
            "`y_pred` must have a finite, positive definite covariance in every row, got a singular or "
            f"infinite one at row {int(np.argmax(singular))}. Use `energy_score_loss`."
        )
    if crps_estimator == "fair":
        std = std * np.sqrt(_variance_factor(dist))[:, np.newaxis]
    scores = (y - dist.mean()) / std
    lower = np.linalg.cholesky(correlation)
    whitened = np.linalg.solve(lower, scores[..., np.newaxis])[..., 0]
    log_det = 2.0 * (np.log(np.einsum("nii->ni", lower)) + np.log(std)).sum(axis=1)
    return np.asarray(log_det + np.square(whitened).sum(axis=1))


def _variance_factor(dist: JointDistribution) -> FloatArray:
    """Return the factor that makes the variance of random members unbiased, or 1 for other distributions."""
    if isinstance(dist, ConcatenatedJoint):
        factors = np.concatenate([_variance_factor(part) for part in dist.parts])
        return np.asarray(factors[dist.order])
    if not isinstance(dist, EmpiricalJoint):
        return np.ones(len(dist))
    return unbiased_factor(dist.weights, len(dist), dist.members.shape[-2])
