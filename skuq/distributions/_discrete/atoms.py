"""Atoms of distributions, which are points of positive probability.

They are found from the jumps of the cdf.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from skuq._typing import BoolArray, FloatArray

FLOAT32_ROUNDING = 2.0**-22
"""Relative rounding error of a few operations in single precision. Some models compute in this precision."""

_DISCRETE_ROUNDING = 1e-9
"""Relative rounding error of the atoms of a distribution without a continuous part."""

_SHARE_OF_SPREAD = 1e-3
"""Upper limit of the rounding error, as a share of the interquartile range."""

_WIDER = 8.0
"""Ratio of the widths of two windows. For a density, the probabilities of the windows have the same ratio. At
an atom, the probabilities are equal."""


class Jumps(Protocol):
    @property
    def has_mass(self) -> bool: ...
    def _cdf(self, y: FloatArray) -> FloatArray: ...
    def _sf(self, y: FloatArray) -> FloatArray: ...
    def _ppf(self, p: FloatArray) -> FloatArray: ...
    def _isf(self, q: FloatArray) -> FloatArray: ...


class Windows(NamedTuple):
    """Ends of a narrow window around each y, and whether the window contains an atom.

    All have the shape (n,).
    """

    low: FloatArray
    high: FloatArray
    atom: BoolArray


def tie_tolerance(dist: Jumps, y: FloatArray) -> FloatArray:
    """Return the distance within which an atom counts as equal to y, shape (n,)."""
    low, high = dist._ppf(np.asarray(0.25)), dist._isf(np.asarray(0.25))
    size = np.abs(y)
    for quartile in (low, high):
        size = np.maximum(size, np.where(np.isfinite(quartile), np.abs(quartile), 0.0))
    if dist.has_mass:
        return _DISCRETE_ROUNDING * size
    with np.errstate(invalid="ignore"):
        spread = _SHARE_OF_SPREAD * (high - low)
    return np.where(spread > 0, np.minimum(FLOAT32_ROUNDING * size, spread), FLOAT32_ROUNDING * size)


def atom_windows(dist: Jumps, y: FloatArray) -> Windows:
    near = tie_tolerance(dist, y)
    low, high = np.minimum(y - near, np.nextafter(y, -np.inf)), y + near
    mass = dist._cdf(high) - dist._cdf(low)
    far = _WIDER * near
    window = dist._cdf(y + far) - dist._cdf(np.minimum(y - far, low))
    return Windows(low, high, (mass > 0) & (mass > 0.5 * window))


def log_masses(dist: Jumps, y: FloatArray) -> FloatArray:
    """Return log P(Y = y) from the jump of the cdf. It is minus infinity if there is no atom."""
    finite = np.isfinite(y)
    low, high, atom = atom_windows(dist, np.where(finite, y, 0.0))
    return np.where(finite & atom, log_difference(dist, low, high), -np.inf)


def log_difference(dist: Jumps, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return log P(low < Y <= high). The smaller of the two tails is used, to avoid cancellation."""
    below, above = dist._cdf(high), dist._sf(low)
    mass = np.where(below < above, below - dist._cdf(low), above - dist._sf(high))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(mass, 0.0)))
