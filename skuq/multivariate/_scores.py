"""Energy score and variogram score of joint distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist, pdist

from skuq._numeric import row_blocks, weighted_mean
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_number,
    check_option,
    check_positive,
    check_sample_weight,
)
from skuq.distributions import Distribution, JointDistribution
from skuq.metrics._inputs import rows_with_weight
from skuq.metrics._proper import check_estimator, crps_rows
from skuq.metrics._spec import metric
from skuq.multivariate._empirical import EmpiricalJoint

Chain = Callable[[FloatArray], Any]
STD = "std"
"""With this option, the scale of a target is its standard deviation in ``y_true``."""


def check_joint_forecast(
    y_true: ArrayLike, y_pred: Any, sample_weight: ArrayLike | None
) -> tuple[FloatArray, JointDistribution, FloatArray | None]:
    """Return targets of shape (n, d), their forecast, and the weights. Rows of weight 0 are removed."""
    if isinstance(y_pred, Distribution):
        raise TypeError(
            f"`y_pred` must be a JointDistribution of several targets, got the univariate "
            f"{type(y_pred).__name__}. Use `crps_loss`, or build a `skuq.multivariate.CopulaJoint` from "
            "the marginals."
        )
    if not isinstance(y_pred, JointDistribution):
        raise TypeError(
            "`y_pred` must be a JointDistribution, for example from `predict_dist` of "
            f"`skuq.multivariate.MultiOutputUncertaintyRegressor`, got {type(y_pred).__name__}. For an array "
            "of members, use `skuq.multivariate.EmpiricalJoint(members)`."
        )
    if y_true is None:
        raise ValueError("`y_true` must hold observed values, one row per sample, got None.")
    y = check_finite(y_pred._check_y(y_true, "y_true"), "y_true")
    weight = check_sample_weight(sample_weight, len(y_pred))
    y, dist, weight = rows_with_weight(weight, y, y_pred)
    return y, dist, weight


def check_scaled_forecast(
    y_true: ArrayLike,
    y_pred: Any,
    sample_weight: ArrayLike | None,
    scale: ArrayLike | Literal["std"] | None,
) -> tuple[FloatArray, JointDistribution, FloatArray | None, FloatArray]:
    """Return the results of `check_joint_forecast`, and the divisor of each target."""
    y, dist, weight = check_joint_forecast(y_true, y_pred, sample_weight)
    return y, dist, weight, check_scale(scale, y, weight)


def check_scale(
    scale: ArrayLike | Literal["std"] | None, y: FloatArray, weight: FloatArray | None
) -> FloatArray:
    """Return the positive divisor of each target, shape (d,)."""
    d = y.shape[1]
    if scale is None:
        return np.ones(d)
    if isinstance(scale, str):
        check_option(scale, "scale", (STD,))
        center = np.average(y, axis=0, weights=weight)
        std = np.sqrt(np.average(np.square(y - center), axis=0, weights=weight))
        constant = ~(std > 0)
        if constant.any():
            raise ValueError(
                f"`y_true` must vary in every column for scale='std', but column {int(np.argmax(constant))} "
                "is constant. Pass the standard deviations of the training targets as `scale`."
            )
        return np.asarray(std)
    divisor = check_finite(as_float_array(scale, "scale"), "scale")
    if divisor.shape not in {(), (d,)}:
        raise ValueError(f"`scale` must be a number or have shape ({d},), got {divisor.shape}.")
    return check_positive(np.array(np.broadcast_to(divisor, (d,))), "scale")


def transform(values: FloatArray, chain: Chain | None, scale: FloatArray) -> FloatArray:
    """Return the chaining function at points of shape (..., d), divided by the scale of each target."""
    chained = values if chain is None else _apply_chain(chain, values)
    return chained if (scale == 1).all() else chained / scale


def _apply_chain(chain: Chain, values: FloatArray) -> FloatArray:
    mapped = as_float_array(chain(values), "the result of chain")
    if mapped.shape != values.shape:
        raise ValueError(
            f"`chain` must map points of shape (..., d) to points of the same shape, but shape "
            f"{values.shape} became {mapped.shape}."
        )
    return check_finite(mapped, "the result of chain")


def check_chain(chain: Any) -> None:
    if chain is not None and not callable(chain):
        raise TypeError(f"`chain` must be callable or None, got {type(chain).__name__}.")


def unbiased_factor(weights: FloatArray | None, rows: int, k: int) -> FloatArray:
    """Return 1 / (1 - c) for the probability c that two random points of a row are the same point.

    A mean over pairs of different points has this factor.
    """
    coincide = np.full(rows, 1.0 / k) if weights is None else np.square(weights).sum(axis=1)
    if (coincide > 1 - 1e-9).any():
        raise ValueError(
            "`y_pred` must have at least two points of positive weight in every row for "
            "crps_estimator='fair'. Use crps_estimator='nrg'."
        )
    return 1.0 / (1.0 - coincide)


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
    kernel=check_energy,
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
        if weights is None:
            score = np.array([pdist(row).sum() for row in members]) / members.shape[1] ** 2
        else:
            pairs = zip(members, weights, strict=True)
            score = 0.5 * np.array([share @ cdist(row, row) @ share for row, share in pairs])
        if crps_estimator == "fair":
            score *= unbiased_factor(weights, *members.shape[:2])
        distance = np.sqrt(np.square(members - targets[rows, np.newaxis]).sum(axis=2))
        mean = distance.mean(axis=1) if weights is None else (distance * weights).sum(axis=1)
        out[rows] = mean - score
    return out


def _shared_rows(y: FloatArray, members: FloatArray, weights: FloatArray, crps_estimator: str) -> FloatArray:
    """Return the energy scores of rows with common members. Each row has its own weights."""
    between = cdist(members, members)
    out = np.empty(len(y))
    for rows in row_blocks(len(y), len(members), BLOCK):
        share = weights[rows]
        half = 0.5 * ((share @ between) * share).sum(axis=1)
        if crps_estimator == "fair":
            half *= unbiased_factor(share, *share.shape)
        out[rows] = (cdist(y[rows], members) * share).sum(axis=1) - half
    return out


CACHED = 1 << 15
"""Number of points per block, so that a block fits into the cache."""


def check_variogram(
    *,
    p: float = 0.5,
    crps_estimator: str = "nrg",
    pair_weight: Any = None,
    scale: Any = None,
    chain: Any = None,
) -> None:
    check_number(p, "p", positive=True)
    check_estimator(crps_estimator=crps_estimator)
    check_chain(chain)


@metric(
    "variogram_score",
    title="variogram score",
    units=1,
    direction="lower",
    optimum=0.0,
    bounds=(-np.inf, np.inf),
    needs="joint",
    proper=True,
    source="Scheuerer & Hamill 2015, eq. 8",
    meaning="the squared errors of the variogram sum to {value}",
    kernel=check_variogram,
)
def variogram_score_loss(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    p: float = 0.5,
    crps_estimator: str = "nrg",
    pair_weight: ArrayLike | None = None,
    scale: ArrayLike | Literal["std"] | None = None,
    chain: Chain | None = None,
) -> float:
    r"""Return the variogram score of joint distributions of several targets.

    The smaller the better, minimum is zero. For each pair of targets, the score compares the observed
    difference with the expected difference. The score is therefore sensitive to a wrong dependence. The score
    is proper, but not strictly proper: it does not change if the same constant is added to the forecasts of
    all targets. Use it together with `energy_score_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n, d)
        Observed targets.
    y_pred : JointDistribution
        Forecast of every target. It has n rows and d targets.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    p : float, default=0.5
        Order of the variogram, positive. Small orders are robust to large differences.
    crps_estimator : {"nrg", "fair"}, default="nrg"
        "nrg" scores the distribution of the points. "fair" is an unbiased estimate for members that are
        random draws. See `energy_score_loss`.
    pair_weight : array-like of shape (d, d), default=None
        Non-negative weight of each pair of targets. None means 1 for every pair.
    scale : "std", array-like of shape (d,) or None, default=None
        Divisor of each target. See `energy_score_loss`. If the targets have different units, a scale is
        required. Scorers use "std".
    chain : callable, default=None
        Chaining function of the threshold-weighted score. See `energy_score_loss`.

    Returns
    -------
    loss : float
        In the units of the targets to the power 2p. Every pair counts twice: as (a, b) and as (b, a). If d =
        1, the score is 0.

    See Also
    --------
    energy_score_loss : Strictly proper score that is sensitive to the marginals.

    Notes
    -----
    .. math:: \mathrm{VS}_p(F, y) = \sum_{a, b} w_{ab} \bigl( |y_a - y_b|^p - E |X_a - X_b|^p \bigr)^2,
        \quad X \sim F.

    If the means of two targets are very different, the effect of their dependence is small compared with the
    difference between the targets, and the score is not very sensitive to the dependence. Subtract the means
    of the training targets with ``chain=lambda y: y - y_train.mean(axis=0)``.

    The cost is O(n K d^2) for K points per row.

    References
    ----------
    .. [1] Scheuerer and Hamill (2015), Variogram-based proper scoring rules for probabilistic forecasts of
       multivariate quantities, eq. 8. https://doi.org/10.1175/MWR-D-14-00269.1

    Examples
    --------
    >>> from skuq.multivariate import EmpiricalJoint
    >>> from skuq.multivariate import variogram_score_loss
    >>> dist = EmpiricalJoint([[[0.0, 1.0], [2.0, 6.0]]])
    >>> variogram_score_loss([[0.0, 0.0]], dist)  # 2 (0 - (1 + 2) / 2)^2
    4.5
    """
    check_variogram(p=p, crps_estimator=crps_estimator, pair_weight=pair_weight, scale=scale, chain=chain)
    y, dist, weight, divisor = check_scaled_forecast(y_true, y_pred, sample_weight, scale)
    pairs = _read_pair_weight(pair_weight, y.shape[1])
    return weighted_mean(variogram_rows(y, dist, p, pairs, divisor, crps_estimator, chain), weight)


def variogram_rows(
    y: FloatArray,
    dist: JointDistribution,
    p: float,
    pair_weight: FloatArray,
    scale: FloatArray,
    crps_estimator: str,
    chain: Chain | None,
) -> FloatArray:
    """Return the variogram score of each row, shape (n,)."""
    targets = transform(y, chain, scale)
    out = np.empty(len(dist))
    for rows, points, weights in dist._blocks():
        members, observed = transform(points, chain, scale), targets[rows]
        # "fair" subtracts the variance times coincidence / (1 - coincidence).
        share = unbiased_factor(weights, *members.shape[:2]) - 1.0 if crps_estimator == "fair" else None
        scores = np.empty(len(observed))
        # small blocks stay in the cache
        for part in row_blocks(len(scores), members.shape[1] * members.shape[2], CACHED):
            arrays = (None if each is None else each[part] for each in (weights, share))
            scores[part] = _block_scores(observed[part], members[part], p, pair_weight, *arrays)
        out[rows] = scores
    return out


def _block_scores(
    y: FloatArray,
    members: FloatArray,
    p: float,
    pair_weight: FloatArray,
    weights: FloatArray | None,
    share: FloatArray | None,
) -> FloatArray:
    score = np.zeros(len(y))
    columns, targets = np.ascontiguousarray(np.moveaxis(members, 2, 0)), y.T
    for a in range(len(columns) - 1):
        factor = pair_weight[a, a + 1 :] + pair_weight[a + 1 :, a]
        value = _power(columns[a] - columns[a + 1 :], p)
        mean = _mean(value, weights)
        term = np.square(mean - _power(targets[a] - targets[a + 1 :], p))
        if share is not None:
            term -= share * _mean(np.square(value - mean[..., np.newaxis]), weights)
        score += factor @ term
    return score


def _power(difference: FloatArray, p: float) -> FloatArray:
    np.abs(difference, out=difference)
    return np.sqrt(difference, out=difference) if p == 0.5 else difference**p


def _mean(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    return np.asarray(values.mean(axis=-1) if weights is None else (values * weights).sum(axis=-1))


def _read_pair_weight(pair_weight: ArrayLike | None, d: int) -> FloatArray:
    if pair_weight is None:
        return np.ones((d, d))
    weights = check_finite(as_float_array(pair_weight, "pair_weight"), "pair_weight")
    if weights.shape != (d, d):
        raise ValueError(
            f"`pair_weight` must have shape ({d}, {d}), one weight per pair of targets, got {weights.shape}."
        )
    return check_non_negative(weights, "pair_weight")
