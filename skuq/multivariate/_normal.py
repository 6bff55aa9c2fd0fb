"""Multivariate normal distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_finite
from skuq.distributions import Distribution, JointDistribution, Normal
from skuq.distributions._joint_points import correlation_of
from skuq.distributions._row_container import equal
from skuq.multivariate._conditional import conditional_normal, warn_outside
from skuq.multivariate._template import NORMAL_POINTS, check_covariance, normal_points, root

LEAST_EIGENVALUE = 1e-12
"""A distribution has a density only if the smallest eigenvalue of its correlation matrix exceeds this
value."""

# Old versions of scipy have no argument for the random numbers of the integral.
_SEED = {"rng": 0} if "rng" in signature(multivariate_normal.cdf).parameters else {}


@dataclass(frozen=True, eq=False, repr=False)
class NormalJoint(JointDistribution):
    """Multivariate normal distributions, one per row.

    Parameters
    ----------
    loc : array-like of shape (n, d)
        Means, in the units of the targets.
    covariance : array-like of shape (d, d) or (n, d, d)
        Covariance matrix for all rows, or one per row. Must be positive semidefinite. A target with variance
        0 is constant.
    names : sequence of d str, default=None
        Names of the targets.

    See Also
    --------
    CopulaJoint : Marginals of other families.

    Notes
    -----
    `linear`, `condition`, `logpdf`, `cov` and the marginals have closed forms. `cdf` integrates numerically,
    to about 1e-5 for d > 2. `apply`, `probability` and simultaneous intervals use 1024 points per row. The
    mean and the covariance of these points are exact.

    Examples
    --------
    >>> from skuq.multivariate import NormalJoint
    >>> dist = NormalJoint([[1.0, 2.0]], [[1.0, 0.8], [0.8, 1.0]])
    >>> dist.linear([1.0, -1.0]).interval(0.9).round(2)
    array([[-2.04,  0.04]])
    >>> dist.condition([[2.0, float("nan")]]).mean()
    array([[2.8]])
    """

    loc: FloatArray
    covariance: FloatArray
    names: tuple[str, ...] | None

    def __init__(self, loc: ArrayLike, covariance: ArrayLike, names: Sequence[str] | None = None) -> None:
        center = np.array(check_finite(as_float_array(loc, "loc"), "loc"))
        if center.ndim != 2 or 0 in center.shape:
            raise ValueError(f"`loc` must have shape (n, d) with n, d >= 1, got {center.shape}.")
        n, d = center.shape
        matrices = np.array(as_float_array(covariance, "covariance"))
        if matrices.shape not in {(d, d), (n, d, d)}:
            raise ValueError(
                f"`covariance` must have shape ({d}, {d}) or ({n}, {d}, {d}), got {matrices.shape}."
            )
        check_covariance(matrices, "covariance")
        matrices = (matrices + np.swapaxes(matrices, -1, -2)) / 2
        self._set(loc=center, covariance=matrices, names=self._read_names(names, d))

    @cached_property
    def _std(self) -> FloatArray:
        std = np.sqrt(np.maximum(np.einsum("...ii->...i", self.covariance), 0.0))
        return np.broadcast_to(std, self.loc.shape)

    @cached_property
    def _correlation(self) -> FloatArray:
        """Return the correlation matrices, shape (d, d) or (n, d, d)."""
        return correlation_of(self.covariance)

    @cached_property
    def _root(self) -> FloatArray:
        return root(self._correlation)

    def _target_count(self) -> int:
        return int(self.loc.shape[1])

    def _per_row(self) -> tuple[str, ...]:
        return ("loc",) if self.covariance.ndim == 2 else ("loc", "covariance")

    @classmethod
    def _merge(cls, parts: Sequence[NormalJoint]) -> NormalJoint:
        loc = np.concatenate([part.loc for part in parts])
        first = parts[0]
        if all(part.covariance.ndim == 2 and equal(part.covariance, first.covariance) for part in parts):
            return first._with(loc=loc)
        return first._with(loc=loc, covariance=np.concatenate([part.cov() for part in parts]))

    def marginals(self) -> tuple[Distribution, ...]:
        return tuple(Normal(loc, scale) for loc, scale in zip(self.loc.T, self._std.T, strict=True))

    def _corr(self) -> FloatArray:
        d = self.shape[1]
        return np.array(np.broadcast_to(self._correlation, (len(self), d, d)))

    def cov(self) -> FloatArray:
        d = self.shape[1]
        return np.array(np.broadcast_to(self.covariance, (len(self), d, d)))

    def _point_count(self) -> int:
        return NORMAL_POINTS

    def _standard_points(self, rows: slice) -> FloatArray:
        """Return the normal scores of the points, shape (K, d) or (b, K, d)."""
        root = self._root if self._root.ndim == 2 else self._root[rows]
        return normal_points(self.shape[1]) @ np.swapaxes(root, -1, -2)

    def _points(self, rows: slice) -> tuple[FloatArray, None]:
        loc, std = self.loc[rows, np.newaxis], self._std[rows, np.newaxis]
        return loc + std * self._standard_points(rows), None

    def _levels(self, rows: slice) -> FloatArray:
        return np.asarray(ndtr(self._standard_points(rows)))

    def _linear(self, w: FloatArray) -> Normal:
        scaled = w * self._std
        half = (scaled[:, np.newaxis] @ self._root)[:, 0]  # the sum of squares cannot become negative
        return Normal(self.loc @ w, np.sqrt(np.square(half).sum(axis=1)))

    def _cdf(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = (y - self.loc) / self._std
        constant = self._std == 0
        scores = np.where(constant, np.where(y >= self.loc, np.inf, -np.inf), scores)
        return normal_cdf(scores, self._correlation)

    @cached_property
    def _definite(self) -> bool:
        return bool(self._std.min() > 0 and np.linalg.eigvalsh(self._correlation).min() > LEAST_EIGENVALUE)

    @property
    def has_density(self) -> bool:
        return self._definite

    def _logpdf(self, y: FloatArray) -> FloatArray:
        scores = (y - self.loc) / self._std
        d = self.shape[1]
        quadratic, log_det = quadratic_form(scores, self._correlation)
        return np.asarray(
            -0.5 * (quadratic + log_det + d * math.log(2.0 * math.pi)) - np.log(self._std).sum(axis=1)
        )

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        n, d = self.shape
        scores = rng.normal(size=(n, m, d)) @ np.swapaxes(self._root, -1, -2)
        return self.loc[:, np.newaxis] + self._std[:, np.newaxis] * scores

    def _condition(self, y: FloatArray, observed: IntArray, unknown: IntArray) -> NormalJoint:
        std = self._std
        distance = y - self.loc[:, observed]
        constant = std[:, observed] == 0
        for j, target in enumerate(observed):
            warn_outside(constant[:, j] & (distance[:, j] != 0), self._label(target))
        scores = np.divide(distance, std[:, observed], out=np.zeros_like(distance), where=~constant)
        coefficients, covariance = conditional_normal(self._correlation, observed, unknown)
        left = std[:, unknown]
        loc = self.loc[:, unknown] + left * (coefficients @ scores[..., np.newaxis])[..., 0]
        factor = left if covariance.ndim == 3 or np.ptp(left, axis=0).any() else left[0]
        scaled = factor[..., :, np.newaxis] * covariance * factor[..., np.newaxis, :]
        return NormalJoint(loc, scaled, self._names_of(unknown))


def quadratic_form(scores: FloatArray, correlation: FloatArray) -> tuple[FloatArray, FloatArray]:
    lower = np.linalg.cholesky(correlation)
    whitened = np.linalg.solve(lower, scores[..., np.newaxis])[..., 0]
    log_det = 2.0 * np.log(np.einsum("...ii->...i", lower)).sum(axis=-1)
    return np.square(whitened).sum(axis=1), log_det


def normal_cdf(scores: FloatArray, correlation: FloatArray) -> FloatArray:
    """Return the multivariate normal cdf at normal scores, shape (n,)."""
    finite = np.clip(scores, -40.0, 40.0)
    if scores.shape[1] == 1:
        return np.asarray(ndtr(finite[:, 0]))
    if correlation.ndim == 2:
        values: Any = multivariate_normal.cdf(finite, cov=correlation, allow_singular=True, **_SEED)
    else:
        values = [
            multivariate_normal.cdf(row, cov=matrix, allow_singular=True, **_SEED)
            for row, matrix in zip(finite, correlation, strict=True)
        ]
    return np.where((scores == -np.inf).any(axis=1), 0.0, np.clip(np.atleast_1d(values), 0.0, 1.0))
