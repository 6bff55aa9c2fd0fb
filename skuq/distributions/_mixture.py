"""Mixtures of any distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import logsumexp

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_option, check_same_length
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution
from skuq.distributions._concatenated import read_parts
from skuq.distributions._cramer import pool_spread
from skuq.distributions._empirical import Empirical
from skuq.distributions._family import of_all
from skuq.distributions._level_quadrature import (
    LevelKind,
    UnreachableLevel,
    has_infinite_quantile,
    most_demanding,
)
from skuq.distributions._members import (
    ValueFunction,
    mixture_isf,
    mixture_normal_score,
    mixture_ppf,
    mixture_quantile,
    read_weights,
    root_mean_square,
)
from skuq.distributions._normal import Normal
from skuq.distributions._normal_mixture import NormalMixture


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Distribution):
    r"""Mixtures of m distributions of any families, one mixture per row.

    Parameters
    ----------
    components : sequence of m Distribution
        Distributions with the same n rows.
    weights : array-like of shape (m,) or (n, m), default=None
        Non-negative weights, which are rescaled to sum to one in each row. None means equal weights.
    ensemble : bool, default=False
        Whether the components are models of one ensemble, each with its own noise. If True, `epistemic`
        returns the mixture of the epistemic parts of the components. This mixture includes the spread between
        the components. `aleatoric` returns the mixture of the aleatoric parts. Every component must have an
        epistemic and an aleatoric part.

    Returns
    -------
    dist : Mixture, NormalMixture or Empirical
        Without `ensemble`, the result is a `NormalMixture` if all components are normal or mixtures of
        normals, and an `Empirical` if all components are `Empirical`. Both are exact and faster.

    Notes
    -----
    The moments are computed from the moments of the components. Let :math:`w_i` be the weight and :math:`c_i`
    the CRPS of component :math:`F_i`. The CRPS of the mixture is

    .. math:: \sum_i w_i c_i(y) - \tfrac12 \sum_{ij} w_i w_j \int (F_i(x) - F_j(x))^2 dx.

    The second sum does not depend on y and is computed once. The distances are exact for pairs of `Normal`,
    `NormalMixture`, `Quantiles`, `Empirical` and `SharedEmpirical` components. For `StudentT` and
    `Recalibrated` components, each distance requires 130 to 250 evaluations of a tabulated CRPS per row, and
    the CRPS of the mixture has a relative error of about 1e-6 or less. For seven or more smooth components,
    one integral replaces the sum over pairs. For other families, the CRPS is an integral of the cdf. This
    integral requires about 100 m evaluations of the cdf of each component. `Transformed` components without a
    mean are winsorized. If the CRPS of another component is infinite, the CRPS of the mixture is infinite.

    Each quantile is found by a search between the quantiles of the components, with about ten evaluations of
    the cdf. If all rows have the same levels, the quantiles are cached.

    Examples
    --------
    >>> from skuq.distributions import Mixture, Normal, StudentT
    >>> dist = Mixture([Normal([0.0], [1.0]), StudentT([4.0], [1.0], df=5)], weights=[0.75, 0.25])
    >>> dist.mean(), dist.cdf(0.0).round(4)
    (array([1.]), array([0.3763]))
    >>> Mixture([Normal([0.0], [1.0]), Normal([4.0], [1.0])])
    NormalMixture(n=1)
    """

    components: tuple[Distribution, ...]
    weights: FloatArray | None
    ensemble: bool

    _PER_ROW = ("components", "weights")

    def __new__(  # type: ignore[misc]
        cls,
        components: Sequence[Distribution],
        weights: ArrayLike | None = None,
        ensemble: bool = False,
    ) -> Distribution:
        parts = _read_components(components)
        share = read_weights(weights, len(parts[0]), len(parts))
        if check_option(ensemble, "ensemble", (True, False)):
            return super().__new__(cls)
        if all(isinstance(part, Normal | NormalMixture) for part in parts):
            return _normal_mixture(parts, share)
        if all(isinstance(part, Empirical) for part in parts):
            return _empirical(parts, share)
        return super().__new__(cls)

    def __init__(
        self,
        components: Sequence[Distribution],
        weights: ArrayLike | None = None,
        ensemble: bool = False,
    ) -> None:
        parts = _read_components(components)
        share = read_weights(weights, len(parts[0]), len(parts))
        self._set(components=parts, weights=share, ensemble=ensemble)

    def _take(self, rows: IntArray) -> Any:
        taken = super()._take(rows)
        spread = self.__dict__.get("_spread")
        if spread is not None and isinstance(taken, Mixture):
            taken._set(_spread=spread[rows])  # The spread of the selected rows is already computed.
        return taken

    def _w(self) -> FloatArray:
        return _weights(self.weights, len(self), len(self.components))

    def _average(self, values: list[FloatArray]) -> FloatArray:
        weights = self._w()
        # Members of weight 0 are removed, because 0 times infinity is NaN.
        members = np.where(weights > 0, np.stack(values, axis=1), 0.0)
        return np.asarray((weights * members).sum(axis=1))

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        means = [part.mean() for part in self.components]
        center = self._average(means)
        # By the law of total variance, the variance is the mean variance plus the variance of the means.
        with np.errstate(invalid="ignore"):  # A mean may be infinite.
            gaps = [np.where(np.isinf(center), np.inf, mean - center) for mean in means]
        spread = [np.hypot(part.std(), gap) for part, gap in zip(self.components, gaps, strict=True)]
        return center, root_mean_square(self._w(), np.stack(spread, axis=1))

    def _leaves(self) -> list[tuple[Any, Distribution]]:
        parts = zip(self._w().T, self.components, strict=True)
        return [(weight * share, leaf) for weight, part in parts for share, leaf in part._leaves()]

    def _crps(self, y: FloatArray) -> FloatArray:
        finite = self._finite_part()
        if finite is not self:
            return finite._crps(y)
        if all(isinstance(part, Normal) for part in self.components):  # This case requires ensemble=True.
            return _normal_mixture(self.components, self.weights)._crps(y)
        if all(isinstance(part, Empirical) for part in self.components):
            return _empirical(self.components, self.weights)._crps(y)
        if self._spread is None:
            return super()._crps(y)
        scores = sum(
            np.where(weight > 0, weight * leaf._crps(y), 0.0)
            for weight, leaf in self._leaves()
            if np.any(weight > 0)
        )
        return np.maximum(scores - self._spread, 0.0)

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        pool = self._finite_part()._integrable
        if pool is not self:
            score: FloatArray = pool._weighted_crps(y, weight)
            return score
        score = super()._weighted_crps(y, weight)
        # A member's own integrals may reach farther than the landmarks.
        for part, share in zip(self.components, self._w().T, strict=True):
            if not part._light_tails and has_infinite_quantile(part).any():
                endless = np.isinf(part._weighted_crps(y, weight)) & (share > 0)
                score = np.where(endless, np.inf, score)
        return score

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return self._average([part._mean_distance(y) for part in self.components])

    @cached_property
    def _spread(self) -> FloatArray | None:
        """Mean CRPS of the members minus the CRPS of the mixture. This difference does not depend on y."""
        return pool_spread(self._leaves())

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.minimum(self._average([part._cdf(y) for part in self.components]), 1.0)

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.minimum(self._average([part._sf(y) for part in self.components]), 1.0)

    def _tail_table(self, x: FloatArray) -> FloatArray:
        total = np.zeros(x.shape)
        for part, weight in zip(self.components, self._w().T, strict=True):
            if weight.any():
                total += weight[:, np.newaxis] * part._tail_table(x)
        return np.minimum(total, 1.0, out=total)

    _ppf, _isf = mixture_ppf, mixture_isf
    _normal_score, _from_normal_score = mixture_normal_score, mixture_quantile

    @cached_property
    def _kept(self) -> dict[tuple[str, float], FloatArray]:
        return {}

    def _of_members(self, method: str, at: FloatArray) -> FloatArray:
        return np.stack([getattr(part, method)(at) for part in self.components], axis=1)

    def _atoms(self, upper: bool) -> ValueFunction | None:
        if self.has_density:
            return None
        parts = [
            (part, weight > 0)
            for part, weight in zip(self.components, self._w().T, strict=True)
            if not part.has_density
        ]

        def largest(y: FloatArray) -> FloatArray:
            atoms = []
            for part, active in parts:
                atom = part._isf(part._sf(y)) if upper else part._ppf(part._cdf(y))
                atoms.append(np.where(active & (atom <= y), atom, -np.inf))
            return np.asarray(np.max(atoms, axis=0))

        return largest

    _light_tails = of_all("components", "_light_tails")
    has_density = of_all("components", "has_density")

    def _logpdf(self, y: FloatArray) -> FloatArray:
        terms = np.stack([part._logpdf(y) for part in self.components], axis=1)
        return np.asarray(logsumexp(terms, axis=1, b=self._w()))

    has_mass = of_all("components", "has_mass")

    def _logpmf(self, y: FloatArray) -> FloatArray:
        terms = np.stack([part.logpmf(y) for part in self.components], axis=1)
        return np.asarray(logsumexp(terms, axis=1, b=self._w()))

    def _finite_part(self) -> Distribution:
        return self if self._finite is None else self._finite

    @cached_property
    def _finite(self) -> Distribution | None:
        """Return the mixture of the finite parts, or None if all components are finite."""
        finite = super()._finite_part()
        return None if finite is self else finite

    def _unreachable_level(self, level: FloatArray, kind: LevelKind) -> UnreachableLevel | None:
        return most_demanding(part._unreachable_level(level, kind) for part in self.components)

    _integrates_values = True

    def _landmarks(self) -> FloatArray:
        return np.concatenate([part._landmarks() for part in self.components], axis=1)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        n = len(self)
        # All members are sampled. For each draw, one member is selected at random by its weight.
        member = (rng.uniform(size=(n, m, 1)) >= np.cumsum(self._w(), axis=1)[:, np.newaxis, :-1]).sum(axis=2)
        draws = np.stack([part._sample(m, rng) for part in self.components])
        return np.asarray(np.take_along_axis(draws, member[np.newaxis], axis=0)[0])

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        if (factor == 0).any():
            return None
        parts = [affine(part, shift, factor) for part in self.components]
        return self._with(components=parts)

    def epistemic(self) -> Distribution:
        if not self.ensemble:
            return super().epistemic()
        return Mixture([part.epistemic() for part in self.components], self.weights)

    def aleatoric(self) -> Distribution:
        if not self.ensemble:
            return super().aleatoric()
        return Mixture([part.aleatoric() for part in self.components], self.weights)


def _read_components(components: Sequence[Distribution]) -> tuple[Distribution, ...]:
    parts = tuple(read_parts(components, "components"))
    check_same_length([len(part) for part in parts], "components")
    return parts


def _weights(weights: FloatArray | None, n: int, m: int) -> FloatArray:
    return np.broadcast_to(1.0 / m, (n, m)) if weights is None else weights


def _member_weights(
    parts: tuple[Distribution, ...], share: FloatArray | None, sizes: list[int]
) -> FloatArray | None:
    """Return the weights of all members of all parts, or None for equal weights."""
    if (
        share is None
        and len(set(sizes)) == 1
        and all(getattr(part, "weights", None) is None for part in parts)
    ):
        return None
    n = len(parts[0])
    outer = _weights(share, n, len(parts))
    inner = [
        _weights(getattr(part, "weights", None), n, size) for part, size in zip(parts, sizes, strict=True)
    ]
    return np.concatenate([outer[:, [k]] * weight for k, weight in enumerate(inner)], axis=1)


def _normal_mixture(parts: tuple[Distribution, ...], share: FloatArray | None) -> NormalMixture:
    normals = [part for part in parts if isinstance(part, Normal | NormalMixture)]
    loc = [part.loc.reshape(len(part), -1) for part in normals]
    scale = [part.scale.reshape(len(part), -1) for part in normals]
    weights = _member_weights(parts, share, [part.shape[1] for part in loc])
    return NormalMixture(np.concatenate(loc, axis=1), np.concatenate(scale, axis=1), weights)


def _empirical(parts: tuple[Distribution, ...], share: FloatArray | None) -> Empirical:
    members = [part.members for part in parts if isinstance(part, Empirical)]
    weights = _member_weights(parts, share, [part.shape[1] for part in members])
    return Empirical(np.concatenate(members, axis=1), weights)
