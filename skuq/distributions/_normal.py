"""The normal family, and location-scale families."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_no_nan, check_non_negative
from skuq.distributions._base import Distribution
from skuq.distributions._value_quadrature import squared_normal_cdf, symmetric_integrals


def read_rows(*, may_be_infinite: str = "", **parameters: ArrayLike) -> list[FloatArray]:
    """Return checked copies of the parameters, broadcast to shape (n,)."""
    arrays = []
    for name, values in parameters.items():
        array = as_float_array(values, name)
        if array.ndim > 1:
            raise ValueError(f"`{name}` must be a number or have shape (n,), got {array.shape}.")
        arrays.append((check_no_nan if name == may_be_infinite else check_finite)(array, name))
        if array.size == 0:
            raise ValueError(f"`{name}` must have at least one row, got none.")
    n = max((array.shape[0] for array in arrays if array.ndim), default=1)
    for name, array in zip(parameters, arrays, strict=True):
        if array.ndim and array.shape[0] != n:
            raise ValueError(f"`{name}` must have {n} rows like the other parameters, got {array.shape[0]}.")
    return [np.array(np.broadcast_to(array, (n,))) for array in arrays]


def read_epistemic_scale(
    epistemic_scale: ArrayLike | None, scale: FloatArray, whole: str = "`scale`"
) -> FloatArray | None:
    """Return the epistemic scale. Raise an error if it exceeds the scale of the whole distribution."""
    if epistemic_scale is None:
        return None
    array = as_float_array(epistemic_scale, "epistemic_scale")
    if array.ndim > 1 or (array.ndim and array.shape != scale.shape):
        raise ValueError(f"`epistemic_scale` must have shape {scale.shape}, got {array.shape}.")
    array = np.array(np.broadcast_to(array, scale.shape))
    check_non_negative(check_finite(array, "epistemic_scale"), "epistemic_scale")
    above = array > scale * (1 + 1e-12)
    if above.any():
        row = int(np.argmax(above))
        raise ValueError(
            f"`epistemic_scale` must not exceed {whole}, got {array[row]:g} > {scale[row]:g} at row {row}."
        )
    return np.minimum(array, scale)


def standardize(y: FloatArray, loc: FloatArray, scale: FloatArray, point_mass: bool) -> FloatArray:
    """Return (y - loc) / scale as a new array. For a point mass, the result is inf or -inf."""
    z = np.subtract(y, loc)
    if not point_mass:
        z /= scale
        return z
    atom = scale == 0
    np.divide(z, scale, out=z, where=~atom)
    z[atom] = np.where(z[atom] >= 0, np.inf, -np.inf)
    return z


def unstandardize(z: FloatArray, loc: FloatArray, scale: FloatArray, point_mass: bool) -> FloatArray:
    """Return loc + scale z, or loc for a point mass. The array ``z`` may be overwritten."""
    if not point_mass:
        y = np.multiply(scale, z, out=z if np.shape(z) == scale.shape else None)
        y += loc
        return y
    with np.errstate(invalid="ignore"):
        return np.where(scale == 0, loc, loc + scale * z)


def mean_absolute(mean: FloatArray, scale: FloatArray) -> FloatArray:
    z = np.divide(mean, scale, out=np.zeros_like(mean), where=scale > 0)
    smooth = scale * math.sqrt(2 / math.pi) * np.exp(-0.5 * z * z) + mean * (2 * ndtr(z) - 1)
    return np.where(scale > 0, smooth, np.abs(mean))


def noise_scale(scale: FloatArray, epistemic_scale: FloatArray) -> FloatArray:
    # Dividing by a power of two prevents overflow and underflow of the squares.
    whole, exponent = np.frexp(scale)
    part = np.ldexp(epistemic_scale, -exponent)
    return np.asarray(np.ldexp(np.sqrt((whole - part) * (whole + part)), exponent))


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

    _PER_ROW = ("loc", "scale", "epistemic_scale")

    def __init__(self, loc: ArrayLike, scale: ArrayLike, epistemic_scale: ArrayLike | None = None) -> None:
        location, width = read_rows(loc=loc, scale=scale)
        check_non_negative(width, "scale")
        part = read_epistemic_scale(epistemic_scale, width)
        self._set(loc=location, scale=width, epistemic_scale=part)

    @cached_property
    def _point_mass(self) -> bool:
        return bool(self.scale.min() == 0)

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

    _light_tails = True

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
        # This is sigma [z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)]. One line makes a new array in each
        # step and takes 1.9 times as long for 100 000 rows, and 1.1 times for 1000 rows.
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
