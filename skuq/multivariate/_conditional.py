"""Distributions of some targets given observed values of the other targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._compat import warn_user
from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution, Normal
from skuq.distributions._family import of_base
from skuq.distributions._pit import middle_scores
from skuq.exceptions import SkuqWarning

LEAST_SCALE = 1e-7
"""If the conditional standard deviation of a normal score is below this value, the unknown target is treated
as known."""


def observed_scores(
    marginals: Sequence[Distribution], y: FloatArray, targets: Sequence[str], limit: float
) -> FloatArray:
    """Return the normal scores of observed values, shape (n, q).

    Their absolute values are at most the limit.
    """
    scores = np.column_stack(
        [middle_scores(each, column) for each, column in zip(marginals, y.T, strict=True)]
    )
    for column, target in zip(scores.T, targets, strict=True):
        warn_outside(~np.isfinite(column), target)
    return np.where(np.isfinite(scores), scores, np.copysign(limit, scores))


def warn_outside(outside: FloatArray | np.ndarray, target: str) -> None:
    if outside.any():
        warn_user(
            f"the observed value of target {target} is outside the support of its predicted distribution "
            f"in {int(outside.sum())} rows. The first of these rows is row {int(np.argmax(outside))}. The "
            f"conditional distribution uses the nearest point of the support instead.",
            SkuqWarning,
        )


def conditional_normal(
    correlation: FloatArray, observed: IntArray, unknown: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the regression coefficients (..., u, q) and the conditional covariance (..., u, u) of scores."""
    rows, columns = unknown[:, np.newaxis], observed[np.newaxis]
    between = correlation[..., rows, columns]
    within = correlation[..., observed[:, np.newaxis], columns]
    coefficients = between @ np.linalg.pinv(within, hermitian=True, rcond=1e-12)
    covariance = correlation[..., rows, unknown[np.newaxis]] - coefficients @ np.swapaxes(between, -1, -2)
    return coefficients, (covariance + np.swapaxes(covariance, -1, -2)) / 2


def kernel_weights(levels: FloatArray, scores: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the weights of the points near the observed scores, shape (n, K).

    The sum of the weights of a row is 1. The ``levels`` of the observed targets have the shape (K, q) or (n,
    K, q), and the ``scores`` have the shape (n, q).
    """
    points = ndtri(levels)
    points = points if points.ndim == 3 else points[np.newaxis]
    bandwidth = 1.2 * points.shape[1] ** (-1.0 / (scores.shape[1] + 4))
    center = np.clip(scores, points.min(axis=1), points.max(axis=1))
    exponent = np.zeros((len(scores), points.shape[1]))
    for j in range(scores.shape[1]):
        exponent -= 0.5 * np.square((points[:, :, j] - center[:, [j]]) / bandwidth)
    if weights is not None:
        exponent = np.where(weights > 0, exponent, -np.inf)
    share = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    if weights is not None:
        share *= weights
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def conditional_marginal(base: Distribution, shift: FloatArray, scale: float) -> Distribution:
    if scale < LEAST_SCALE:
        return Normal(base._finite_part()._from_normal_score(shift), 0.0)
    if type(base) is Normal:
        return Normal(base.loc + base.scale * shift, base.scale * scale)
    return ConditionalMarginal(base, shift, np.full(len(base), scale))


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalMarginal(Distribution):
    r"""Distribution of F^{-1}(\Phi(shift + scale Z)).

    Here Z is standard normal, and F is the cdf of the base.
    """

    base: Distribution
    shift: FloatArray
    scale: FloatArray

    _PER_ROW = ("base", "shift", "scale")
    _ALIKE = ("has_density",)

    def __post_init__(self) -> None:
        self._set(shift=np.array(self.shift), scale=np.array(self.scale))

    def _normal_score(self, y: FloatArray) -> FloatArray:
        return (self.base._normal_score(y) - self.shift) / self.scale

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        return self.base._from_normal_score(self.shift + self.scale * score)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.asarray(ndtr(self._normal_score(y)))

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.asarray(ndtr(-self._normal_score(y)))

    def _ppf(self, p: FloatArray) -> FloatArray:
        return self._from_normal_score(ndtri(p))

    def _isf(self, q: FloatArray) -> FloatArray:
        return self._from_normal_score(-ndtri(q))

    _integrates_values = True  # the breaks of the base are at different levels in each row

    def _landmarks(self) -> FloatArray:
        return np.sort(np.column_stack([super()._landmarks(), self.base._landmarks()]), axis=1)

    has_density = of_base("has_density")

    def _logpdf(self, y: FloatArray) -> FloatArray:
        before = self.base._normal_score(y)
        after = (before - self.shift) / self.scale
        density = self.base._logpdf(y)
        with np.errstate(invalid="ignore"):
            change = 0.5 * (before - after) * (before + after) - np.log(self.scale)
            return np.where(density == -np.inf, -np.inf, density + change)
