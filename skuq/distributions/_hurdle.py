"""Mixtures of a single value with positive probability and a distribution of all other values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._numeric import level_rounding
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_probabilities, per_row
from skuq.distributions._affine import affine
from skuq.distributions._base import Distribution, check_distribution
from skuq.distributions._members import root_mean_square
from skuq.distributions._normal import Normal


@dataclass(frozen=True, eq=False, repr=False)
class Hurdle(Distribution):
    r"""Distributions with P(Y = at) = p, and a given distribution of all other values.

    Use this family for a target with many exact zeros, such as rainfall, a number of claims or purchases.
    `skuq.regressors.HurdleRegressor` predicts this family. A zero-inflated distribution also has this form,
    where p is the total probability of the value.

    Parameters
    ----------
    p : float or array-like of shape (n,)
        Probability of the value ``at``.
    dist : Distribution
        Conditional distribution of Y given that Y differs from ``at``, n rows. Use `Truncated` to remove mass
        on the wrong side of ``at``. Tail mass at infinity, as in `ConformalPredictive`, is excluded.
    at : float or array-like of shape (n,), default=0.0
        The value, in the units of y.

    Raises
    ------
    ValueError
        If `p` is not in [0, 1], or if `at` is not finite.

    See Also
    --------
    skuq.regressors.HurdleRegressor : A classifier and a regressor that predict this family.
    Supported : Clipped distributions, whose atoms are at the ends of the support.

    Notes
    -----
    Let a be the value and G the cdf of ``dist``. The cdf of the mixture is :math:`p 1\{a \le y\} + (1 - p)
    G(y)`. The CRPS is

    .. math:: p |y - a| + (1 - p) C(y) - p (1 - p) C(a),

    where :math:`C(y)` is the CRPS of ``dist``. The result is exact if the family of ``dist`` has a closed
    form.

    Examples
    --------
    >>> from skuq.distributions import Hurdle, Normal, Truncated
    >>> rain = Hurdle([0.7, 0.2], Truncated(Normal([2.0, 5.0], 2.0), lower=0.0))
    >>> rain.cdf(0.0), rain.mean().round(2)
    (array([0.7, 0.2]), array([0.77, 4.03]))
    >>> rain.interval(0.9).round(2)
    array([[0.  , 4.16],
           [0.  , 8.07]])
    """

    p: FloatArray
    dist: Distribution
    at: FloatArray

    _PER_ROW = ("p", "dist", "at")

    def __init__(self, p: ArrayLike, dist: Distribution, at: ArrayLike = 0.0) -> None:
        check_distribution(dist, "dist")
        share = per_row(check_probabilities(p, "p"), "p", len(dist))
        value = per_row(check_finite(as_float_array(at, "at"), "at"), "at", len(dist))
        self._set(p=share, dist=dist._finite_part(), at=value)

    def mean(self) -> FloatArray:
        with np.errstate(invalid="ignore"):  # A mean may be infinite.
            return np.where(self.p < 1, self.at + (1 - self.p) * (self.dist.mean() - self.at), self.at)

    def std(self) -> FloatArray:
        mean = self.mean()
        with np.errstate(invalid="ignore"):  # A mean may be infinite.
            gap = np.where(np.isinf(mean), np.inf, self.dist.mean() - mean)
        spread = [self.at - mean, np.hypot(self.dist.std(), gap)]
        return root_mean_square(np.column_stack([self.p, 1 - self.p]), np.column_stack(spread))

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.minimum(self.p * (y >= self.at) + (1 - self.p) * self.dist._cdf(y), 1.0)

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.minimum(self.p * (y < self.at) + (1 - self.p) * self.dist._sf(y), 1.0)

    def _ppf(self, p: FloatArray) -> FloatArray:
        below = (1 - self.p) * self.dist._cdf(self.at)
        slack = level_rounding(np.asarray(p))
        inner = self.dist._ppf(self._inner_level(p, p - slack > below + self.p))
        return np.where((p > below) & (p - slack <= below + self.p), self.at, inner)

    def _isf(self, q: FloatArray) -> FloatArray:
        above = (1 - self.p) * self.dist._sf(self.at)
        slack = level_rounding(np.asarray(q))
        inner = self.dist._isf(self._inner_level(q, q > above + self.p))
        return np.where((q + slack >= above) & (q <= above + self.p), self.at, inner)

    def _inner_level(self, level: FloatArray, beyond: Any) -> FloatArray:
        """Convert a level of the mixture to a level of ``dist``.

        In the rows of the mask ``beyond``, the level includes the probability of the atom.
        """
        rest = np.where(self.p < 1, 1 - self.p, 1.0)
        return np.asarray(np.clip((level - self.p * beyond) / rest, 0.0, 1.0))

    @property
    def has_mass(self) -> bool:
        return self.dist.has_mass

    def _logpmf(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            atom, rest = np.log(self.p * (y == self.at)), np.log1p(-self.p)
        return np.asarray(np.logaddexp(atom, rest + self.dist.logpmf(y)))

    def _crps(self, y: FloatArray) -> FloatArray:
        atom, own = np.abs(y - self.at), self.dist._crps(y)
        # The CRPS at the atom is the integral of the squared difference of both cdfs.
        with np.errstate(invalid="ignore"):  # All scores of a row may be infinite.
            score = self.p * atom + (1 - self.p) * (own - self.p * self.dist._crps(self.at))
        score = np.where(np.isinf(own), np.inf, np.maximum(score, 0.0))
        return np.where(self.p < 1, score, atom)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return self.p * np.abs(y - self.at) + (1 - self.p) * self.dist._mean_distance(y)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        is_atom = rng.uniform(size=(len(self), m)) < self.p[:, np.newaxis]
        return np.where(is_atom, self.at[:, np.newaxis], self.dist._sample(m, rng))

    def _leaves(self) -> list[tuple[Any, Distribution]]:
        rest = [((1 - self.p) * weight, leaf) for weight, leaf in self.dist._leaves()]
        return [(self.p, Normal(self.at, 0.0)), *rest]

    @property
    def _light_tails(self) -> bool:
        return self.dist._light_tails

    _integrates_values = True

    def _landmarks(self) -> FloatArray:
        return np.column_stack([self.at, self.dist._landmarks()])

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Distribution | None:
        if (factor == 0).any():
            return None
        return Hurdle(self.p, affine(self.dist, shift, factor), shift + factor * self.at)
