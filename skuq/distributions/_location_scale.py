"""Parameters, standardization and decomposition of location-scale families."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import as_float_array, check_finite, check_no_nan, check_non_negative


def read_rows(*, may_be_infinite: str = "", **parameters: ArrayLike) -> list[FloatArray]:
    """Return checked copies of the parameters, broadcast to shape (n,)."""
    arrays = []
    for name, values in parameters.items():
        array = as_float_array(values, name)
        if array.ndim > 1:
            raise ValueError(f"`{name}` must be a number or have shape (n,), got {array.shape}.")
        arrays.append((check_no_nan if name == may_be_infinite else check_finite)(array, name))
    n = max((array.shape[0] for array in arrays if array.ndim), default=1)
    for name, array in zip(parameters, arrays, strict=True):
        if array.ndim and array.shape[0] != n:
            raise ValueError(f"`{name}` must have {n} rows like the other parameters, got {array.shape[0]}.")
    if n == 0:
        raise ValueError("a distribution must have at least one row, got none.")
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


def merge_optional(parts: list[FloatArray | None]) -> tuple[FloatArray | None, bool]:
    """Stack the arrays, or return None if all are None. The flag is False if some but not all are None."""
    present = [part for part in parts if part is not None]
    if not present:
        return None, True
    return np.concatenate(present), len(present) == len(parts)
