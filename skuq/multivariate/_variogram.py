"""Variogram score of joint distributions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_non_negative, check_number
from skuq._weights import weighted_mean
from skuq.distributions import JointDistribution
from skuq.metrics._proper import check_estimator
from skuq.metrics._spec import metric
from skuq.multivariate._inputs import Chain, check_chain, check_scaled_forecast, transform, unbiased_factor

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
    check=check_variogram,
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
        step = max(1, CACHED // (members.shape[1] * members.shape[2]))
        for start in range(0, len(scores), step):  # small blocks stay in the cache
            part = slice(start, start + step)
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
