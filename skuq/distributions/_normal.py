"""The normal family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import check_non_negative
from skuq.distributions._base import Distribution
from skuq.distributions._location_scale import (
    mean_absolute,
    merge_optional,
    noise_scale,
    read_epistemic_scale,
    read_rows,
    standardize,
    unstandardize,
)
from skuq.distributions._numerics.squared_cdf import squared_normal_cdf, symmetric_integrals

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False, repr=False)
class Normal(Distribution):
    """Normal distributions, one per row.

    Parameters
    ----------
    loc : float or array-like of shape (n,)
        Mean of each row, in the units of y.
    scale : float or array-like of shape (n,)
        Standard deviation of each row, at least 0. A row with scale 0 is a point mass at ``loc``.
    epistemic_scale : float or array-like of shape (n,), default=None
        Standard deviation of the regression function f(x), at most ``scale``. The rest of the variance is
        noise. The methods `epistemic` and `aleatoric` require this argument.

    See Also
    --------
    StudentT : Distributions with heavier tails, for a scale that is estimated from few rows.

    Notes
    -----
    Every method costs one pass over the rows. The CRPS has a closed form (eq. 8 of Wibbeke et al. 2025). The
    smaller the better, as in Gneiting and Raftery (2007), https://doi.org/10.1198/016214506000001437.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> dist = Normal([0.0, 5.0], [1.0, 0.0])
    >>> dist.cdf(0.0)
    array([0.5, 0. ])
    >>> dist.crps([0.0, 7.0]).round(4)
    array([0.2337, 2.    ])
    """

    loc: FloatArray
    scale: FloatArray
    epistemic_scale: FloatArray | None

    def __init__(self, loc: ArrayLike, scale: ArrayLike, epistemic_scale: ArrayLike | None = None) -> None:
        location, width = read_rows(loc=loc, scale=scale)
        check_non_negative(width, "scale")
        part = read_epistemic_scale(epistemic_scale, width)
        self._set(loc=location, scale=width, epistemic_scale=part)

    @cached_property
    def _point_mass(self) -> bool:
        return bool(self.scale.min() == 0)

    def _rows(self) -> int:
        return len(self.loc)

    def _take(self, rows: IntArray) -> Normal:
        part = self.epistemic_scale
        return Normal(self.loc[rows], self.scale[rows], None if part is None else part[rows])

    @classmethod
    def _merge(cls, parts: Sequence[Normal]) -> Normal | None:
        epistemic, mergeable = merge_optional([part.epistemic_scale for part in parts])
        if not mergeable:
            return None
        loc = np.concatenate([part.loc for part in parts])
        return cls(loc, np.concatenate([part.scale for part in parts]), epistemic)

    def mean(self) -> FloatArray:
        return self.loc.copy()

    def std(self) -> FloatArray:
        return self.scale.copy()

    def _z(self, y: FloatArray) -> FloatArray:
        return standardize(y, self.loc, self.scale, self._point_mass)

    def _normal_score(self, y: FloatArray) -> FloatArray:
        return self._z(y)

    def _from_normal_score(self, score: FloatArray) -> FloatArray:
        return unstandardize(np.array(score), self.loc, self.scale, self._point_mass)

    def _cdf(self, y: FloatArray) -> FloatArray:
        z = self._z(y)
        return ndtr(z, out=z)

    def _sf(self, y: FloatArray) -> FloatArray:
        z = self._z(y)
        return ndtr(np.negative(z, out=z), out=z)

    def _ppf(self, p: FloatArray) -> FloatArray:
        return unstandardize(ndtri(p), self.loc, self.scale, self._point_mass)

    def _isf(self, q: FloatArray) -> FloatArray:
        return unstandardize(-ndtri(q), self.loc, self.scale, self._point_mass)

    def _interval(self, tail: FloatArray, out: FloatArray) -> None:
        half_width = np.multiply(self.scale, -ndtri(tail), out=out[1])
        np.subtract(self.loc, half_width, out=out[0])
        half_width += self.loc

    @property
    def _light_tails(self) -> bool:
        return True

    @property
    def has_density(self) -> bool:
        return not self._point_mass

    def _logpdf(self, y: FloatArray) -> FloatArray:
        z = self._z(y)
        # If the square overflows, the density is 0, which is the correct limit.
        with np.errstate(over="ignore"):
            np.multiply(z, z, out=z)
        z *= -0.5
        z -= np.log(self.scale)
        z -= LOG_SQRT_2PI
        return z

    def _crps(self, y: FloatArray) -> FloatArray:
        z = self._z(y)
        if self._point_mass:
            atom = self.scale == 0
            z[atom] = 0.0
        # This is sigma [z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)].
        score = ndtr(z)
        score *= 2.0
        score -= 1.0
        score *= z
        with np.errstate(over="ignore"):
            np.multiply(z, z, out=z)
        z *= -0.5
        np.exp(z, out=z)
        z *= math.sqrt(2.0 / math.pi)
        score += z
        score -= 1.0 / math.sqrt(math.pi)
        score *= self.scale
        if self._point_mass:
            score[atom] = np.abs(y - self.loc)[atom]
        return score

    def _squared_integrals(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        return symmetric_integrals(squared_normal_cdf, y, self.loc, self.scale)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        return mean_absolute(y - self.loc, self.scale)

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        draws = rng.standard_normal((len(self), m))
        draws *= self.scale[:, np.newaxis]
        draws += self.loc[:, np.newaxis]
        return draws

    def _standard_form(self) -> tuple[FloatArray, FloatArray, Distribution]:
        return self.loc, self.scale, Normal(0.0, 1.0)

    def _landmarks(self) -> FloatArray:
        if (self.scale == 0).all():
            return self.loc[:, np.newaxis]
        return super()._landmarks()

    def _affine(self, shift: FloatArray, factor: FloatArray) -> Normal:
        size = np.abs(factor)
        part = self.epistemic_scale
        return Normal(shift + factor * self.loc, size * self.scale, None if part is None else size * part)

    def epistemic(self) -> Normal:
        if self.epistemic_scale is None:
            return super().epistemic()  # type: ignore[return-value]
        return Normal(self.loc, self.epistemic_scale)

    def aleatoric(self) -> Normal:
        if self.epistemic_scale is None:
            return super().aleatoric()  # type: ignore[return-value]
        return Normal(np.zeros_like(self.loc), noise_scale(self.scale, self.epistemic_scale))
