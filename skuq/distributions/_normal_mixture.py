"""Mixtures of normal distributions, for ensembles of probabilistic models and mixture density models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_non_negative, check_option
from skuq.distributions._base import Distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._members import (
    ValueFunction,
    mixture_isf,
    mixture_normal_score,
    mixture_ppf,
    mixture_quantile,
    read_members,
    read_weights,
    root_mean_square,
)
from skuq.distributions._normal import LOG_SQRT_2PI, Normal, mean_absolute, standardize, unstandardize


@dataclass(frozen=True, eq=False, repr=False)
class NormalMixture(Distribution):
    """Mixtures of m normal distributions, one mixture per row.

    Parameters
    ----------
    loc : array-like of shape (n, m)
        Mean of each member, in the units of y.
    scale : array-like of shape (n, m) or (n, 1) or (1, m) or float
        Standard deviation of each member, at least 0. A member with scale 0 is a point mass.
    weights : array-like of shape (m,) or (n, m), default=None
        Non-negative weights, which are rescaled to sum to one in each row. None means equal weights.
    ensemble : bool, default=False
        Whether the members are models of one ensemble, each with its own noise. If True, `epistemic` returns
        the distribution of the members' means, and `aleatoric` returns the mixture of the members' noise.

    See Also
    --------
    Mixture : Mixture of members of any family.
    Normal : Normal distributions. Use ``Normal(dist.mean(), dist.std())`` as an approximation of the mixture.

    Notes
    -----
    The variance is the mean of the variances plus the variance of the means. The CRPS has the closed form
    of Grimit et al. (2006), https://doi.org/10.1256/qj.05.235, in O(n m^2) time and O(n m) memory. Each
    quantile is found by a search between the quantiles of the members, with about ten evaluations of the cdf.

    Examples
    --------
    >>> from skuq.distributions import NormalMixture
    >>> dist = NormalMixture(loc=[[-1.0, 1.0]], scale=[[0.5, 0.5]])
    >>> dist.mean(), dist.std().round(4)
    (array([0.]), array([1.118]))
    >>> dist.cdf(dist.ppf(0.2)).round(12)
    array([0.2])
    """

    loc: FloatArray
    scale: FloatArray
    weights: FloatArray | None
    ensemble: bool

    _PER_ROW = ("loc", "scale", "weights")

    def __init__(
        self, loc: ArrayLike, scale: ArrayLike, weights: ArrayLike | None = None, ensemble: bool = False
    ) -> None:
        location = read_members(loc, "loc")
        width = np.atleast_2d(as_float_array(scale, "scale"))
        try:
            width = np.array(np.broadcast_to(width, location.shape))
        except ValueError as error:
            message = f"`scale` must have the shape of `loc`, {location.shape}, got {np.shape(scale)}."
            raise ValueError(message) from error
        width = read_members(width, "scale")
        check_non_negative(width, "scale")
        share = read_weights(weights, *location.shape)
        chosen = check_option(ensemble, "ensemble", (True, False))
        self._set(loc=location, scale=width, weights=share, ensemble=chosen)

    @cached_property
    def _point_mass(self) -> bool:
        return bool(self.scale.min() == 0)

    def _w(self) -> FloatArray:
        return (
            np.full((1, self.loc.shape[1]), 1.0 / self.loc.shape[1]) if self.weights is None else self.weights
        )

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        mean = (self._w() * self.loc).sum(axis=1)
        return mean, root_mean_square(self._w(), np.hypot(self.scale, self.loc - mean[:, np.newaxis]))

    def _z(self, y: FloatArray) -> FloatArray:
        return standardize(y[:, np.newaxis], self.loc, self.scale, self._point_mass)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.asarray(np.minimum((self._w() * ndtr(self._z(y))).sum(axis=1), 1.0))

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.asarray(np.minimum((self._w() * ndtr(-self._z(y))).sum(axis=1), 1.0))

    _ppf, _isf = mixture_ppf, mixture_isf
    _normal_score, _from_normal_score = mixture_normal_score, mixture_quantile

    @cached_property
    def _kept(self) -> dict[tuple[str, float], FloatArray]:
        return {}

    def _of_members(self, method: str, at: FloatArray) -> FloatArray:
        if method == "_normal_score":
            return self._z(at)
        z = np.array(at if method == "_from_normal_score" else ndtri(at) if method == "_ppf" else -ndtri(at))
        return unstandardize(z[..., np.newaxis], self.loc, self.scale, self._point_mass)

    def _atoms(self, upper: bool) -> ValueFunction | None:
        if not self._point_mass:
            return None
        atoms = np.where((self.scale == 0) & (self._w() > 0), self.loc, np.inf)
        return lambda y: np.where(atoms <= y[:, np.newaxis], atoms, -np.inf).max(axis=1)

    _light_tails = True

    @property
    def has_density(self) -> bool:
        return not self._point_mass

    def _logpdf(self, y: FloatArray) -> FloatArray:
        z = self._z(y)
        terms = -0.5 * z * z - np.log(self.scale) - LOG_SQRT_2PI
        return np.asarray(logsumexp(terms, axis=1, b=self._w()))

    def _crps(self, y: FloatArray) -> FloatArray:
        n, m = self.loc.shape
        w = np.broadcast_to(self._w(), (n, m))
        score = (w * mean_absolute(y[:, np.newaxis] - self.loc, self.scale)).sum(axis=1)
        for k in range(m):
            distance = mean_absolute(
                self.loc[:, k:] - self.loc[:, [k]], np.hypot(self.scale[:, k:], self.scale[:, [k]])
            )
            distance[:, 0] *= 0.5  # A pair k = l counts once, and a pair k != l counts twice.
            score -= w[:, k] * (w[:, k:] * distance).sum(axis=1)
        return np.asarray(score)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return np.asarray((self._w() * mean_absolute(y[:, np.newaxis] - self.loc, self.scale)).sum(axis=1))

    def _leaves(self) -> list[tuple[Any, Distribution]]:
        weights = np.broadcast_to(self._w(), self.loc.shape)
        return [
            (weight, Normal(loc, scale))
            for weight, loc, scale in zip(weights.T, self.loc.T, self.scale.T, strict=True)
        ]

    _integrates_values = True

    def _landmarks(self) -> FloatArray:
        z = Normal(0.0, 1.0)._landmarks()
        return (self.loc[:, :, np.newaxis] + self.scale[:, :, np.newaxis] * z).reshape(len(self), -1)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        n, members = self.loc.shape
        edges = np.cumsum(np.broadcast_to(self._w(), (n, members)), axis=1)[:, :-1]
        out = np.empty((m, n))
        row = np.arange(n)
        for draw in out:
            member = (rng.uniform(size=(n, 1)) >= edges).sum(axis=1)
            draw[:] = self.loc[row, member] + self.scale[row, member] * rng.standard_normal(n)
        return out.T

    def _affine(self, shift: FloatArray, factor: FloatArray) -> NormalMixture:
        a, b = shift[:, np.newaxis], factor[:, np.newaxis]
        return NormalMixture(a + b * self.loc, np.abs(b) * self.scale, self.weights, self.ensemble)

    def epistemic(self) -> Distribution:
        return Empirical(self.loc, self.weights) if self.ensemble else super().epistemic()

    def aleatoric(self) -> Distribution:
        if not self.ensemble:
            return super().aleatoric()
        return NormalMixture(np.zeros_like(self.loc), self.scale, self.weights)
