"""Distributions on integers: atoms, mean distances of counts, and sums over steps.

Atoms are points of positive probability. They are found from the jumps of the cdf.

The CRPS of count distributions has a closed form. With E[X 1{X <= y}] = E[X] H(y - 1), where H is the cdf of
the same family with another parameter,

    E |X - y|       = y (2 F(y) - 1) - E[X] (2 H(y - 1) - 1),
    CRPS(y)         = E |X - y| - E |X - X'| / 2,
    E |X - X'| / 2  = m (I0(2m) + I1(2m)) exp(-2m)                              Poisson(m), H = F
                    = n p q 2F1(1 - n, 1/2; 2; 4 p q)                           Binomial(n, p), H = F_{n - 1}
                    = n q / p^2 2F1(n + 1, 1/2; 2; -4 q / p^2)                  NegBin(n, p), H = F_{n + 1}

with q = 1 - p (Wei and Held 2014, Calibration tests for count data; Jordan, Krueger and Lerch 2019).
scipy's 2F1 is NaN for large n and small p of the negative binomial distribution. These rows are sums of
F (1 - F).

If a cdf is constant between atoms at distance 1, such as the integers, the integrals of the CRPS and of the
moments are sums:

    CRPS(y)     = sum_{k < y} F(k)^2 + sum_{k >= y} (1 - F(k))^2,
    E |Y - y|   = sum_{k < y} F(k) + sum_{k >= y} (1 - F(k)),
    E (Y - c)   = sum_{k >= c} (1 - F(k)) - sum_{k < c} F(k),
    E (Y - c)^2 = sum_{k >= c} (2 (k - c) + 1) (1 - F(k)) + sum_{k < c} (2 (c - k) - 1) F(k).

Each step evaluates the cdf of all rows that have not reached their last atom. No array of rows by atoms is
built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import special, stats

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.distributions._family import Family

FLOAT32_ROUNDING = 2.0**-22
"""Relative rounding error of a few operations in single precision. Some models compute in this precision."""

_DISCRETE_ROUNDING = 1e-9
"""Relative rounding error of the atoms of a distribution without a continuous part."""

_SHARE_OF_SPREAD = 1e-3
"""Upper limit of the rounding error, as a share of the interquartile range."""

_WIDER = 8.0
"""Ratio of the widths of two windows. For a density, the probabilities of the windows have the same ratio. At
an atom, the probabilities are equal."""


class Windows(NamedTuple):
    """Ends of a narrow window around each y, and whether the window contains an atom.

    All have the shape (n,).
    """

    low: FloatArray
    high: FloatArray
    atom: BoolArray


def tie_tolerance(dist: Family, y: FloatArray) -> FloatArray:
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


def atom_windows(dist: Family, y: FloatArray) -> Windows:
    near = tie_tolerance(dist, y)
    low, high = np.minimum(y - near, np.nextafter(y, -np.inf)), y + near
    mass = dist._cdf(high) - dist._cdf(low)
    far = _WIDER * near
    window = dist._cdf(y + far) - dist._cdf(np.minimum(y - far, low))
    return Windows(low, high, (mass > 0) & (mass > 0.5 * window))


def log_masses(dist: Family, y: FloatArray) -> FloatArray:
    """Return log P(Y = y) from the jump of the cdf. It is minus infinity if there is no atom."""
    finite = np.isfinite(y)
    low, high, atom = atom_windows(dist, np.where(finite, y, 0.0))
    return np.where(finite & atom, log_difference(dist, low, high), -np.inf)


def log_difference(dist: Family, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return log P(low < Y <= high). The smaller of the two tails is used, to avoid cancellation."""
    below, above = dist._cdf(high), dist._sf(low)
    mass = np.where(below < above, below - dist._cdf(low), above - dist._sf(high))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(mass, 0.0)))


_POINTS_PER_STD = 8
"""Number of evaluated integers per standard deviation of a wide row. On this scale, F (1 - F) is smooth."""

_BLOCK = 1 << 20
"""An array contains at most this number of evaluations of the cdf."""


class CountMeans(NamedTuple):
    """The means E |X - y| and E |X - X'| / 2, both of shape (n,)."""

    distance: FloatArray
    half_difference: FloatArray


def count_means(frozen: Any, parameters: dict[str, FloatArray], y: FloatArray) -> CountMeans | None:
    """Return the means of a frozen Poisson, binomial or negative binomial distribution.

    Otherwise, return None.
    """
    x = y - parameters["loc"]
    family = type(frozen.dist)  # A subclass, such as Bernoulli of binomial, has other parameters.
    with np.errstate(all="ignore"):
        if family is type(stats.poisson):
            mean = parameters["mu"]
            half = mean * (special.i0e(2 * mean) + special.i1e(2 * mean))
            shifted = stats.poisson.cdf(x - 1, mean)
        elif family is type(stats.binom):
            n, p = parameters["n"], parameters["p"]
            mean, variance = n * p, n * p * (1 - p)
            half = variance * special.hyp2f1(1 - n, 0.5, 2.0, 4 * p * (1 - p))
            shifted = stats.binom.cdf(x - 1, np.maximum(n - 1, 0), p)
        elif family is type(stats.nbinom):
            n, p = parameters["n"], parameters["p"]
            mean, variance = n * (1 - p) / p, n * (1 - p) / p**2
            half = variance * special.hyp2f1(n + 1, 0.5, 2.0, -4 * (1 - p) / p**2)
            shifted = stats.nbinom.cdf(x - 1, n + 1, p)
        else:
            return None
    distance = x * (2 * frozen.cdf(y) - 1) - mean * (2 * shifted - 1)
    return CountMeans(np.asarray(distance, dtype=float), _complete(frozen, parameters, half))


def _complete(frozen: Any, parameters: dict[str, FloatArray], half: Any) -> FloatArray:
    """Return E |X - X'| / 2. Rows that are not finite are replaced by sums."""
    values = np.array(half, dtype=float)
    rows = np.flatnonzero(~np.isfinite(values))
    if not rows.size:
        return values
    std = np.broadcast_to(frozen.std(), values.shape)[rows]
    stride = np.maximum(np.floor(std / _POINTS_PER_STD), 1.0)
    low, high = (np.broadcast_to(end, values.shape)[rows] for end in (frozen.ppf(1e-16), frozen.isf(1e-15)))
    n_points = np.ceil((high - low) / stride).astype(int) + 2
    size = max(1, _BLOCK // int(n_points.max()))
    for start in range(0, rows.size, size):
        block = slice(start, start + size)
        each = {name: value[rows[block], np.newaxis] for name, value in parameters.items()}
        k = low[block, np.newaxis] - 1 + stride[block, np.newaxis] * np.arange(n_points[block].max())
        cdf = frozen.dist.cdf(k, **each)
        values[rows[block]] = stride[block] * (cdf * (1 - cdf)).sum(axis=1)
    return values


Term: TypeAlias = Callable[[FloatArray], Any]
"""Function that is applied to F below y, or to 1 - F above y."""

TAIL = np.array(1e-15)
"""A sum leaves out tails with this probability."""

MOST_ATOMS = 300
"""A step cdf with at most this number of atoms is integrated from atom to atom."""


def by_length(low: FloatArray, high: FloatArray) -> Iterator[IntArray]:
    """Yield groups of rows with similar numbers of steps, so that few unnecessary steps are computed."""
    steps = np.maximum(high - low, 1.0)
    group = np.ceil(np.log2(steps) / 2)
    for value in np.unique(group):
        yield np.flatnonzero(group == value)


def sum_steps(
    dist: Family, y: FloatArray, low: FloatArray, high: FloatArray, below: Term, above: Term
) -> FloatArray:
    """Return the integral of below(F) up to y plus the integral of above(1 - F) from y.

    The integrals are computed between two atoms of each row, ``low`` and ``high`` of shape (n,). Their
    difference is an integer. If y is between two atoms, the step between these atoms is split at y. If y is
    outside the range, the nearer end is used instead of y.
    """
    total = np.zeros(len(y))
    for rows in by_length(low, high):
        part, first, last = dist._take(rows), low[rows], high[rows]
        inside = np.clip(y[rows], first, last)
        score = np.zeros(len(rows))
        for step in range(int(np.max(last - first))):
            k = first + step
            split = np.clip(inside - k, 0.0, 1.0)
            cdf = part._cdf(k)
            terms = split * below(cdf) + (1 - split) * above(1 - cdf)
            score += np.where(k < last, terms, 0.0)
        total[rows] = score
    return total


def step_moments(
    dist: Family, center: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the first and the second moment about ``center`` of Y clipped to [low, high].

    All arrays have the shape (n,). ``center``, ``low`` and ``high`` are atoms.
    """
    first, second = np.zeros(len(center)), np.zeros(len(center))
    for rows in by_length(low, high):
        part, begin, end, middle = dist._take(rows), low[rows], high[rows], center[rows]
        for step in range(int(np.max(end - begin))):
            k = begin + step
            cdf = part._cdf(k)
            mass = np.where(k < end, np.where(k >= middle, 1 - cdf, -cdf), 0.0)
            first[rows] += mass
            second[rows] += mass * (2 * (k - middle) + 1)
    return first, second


def with_atoms(points: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the points, shape (n, k). In rows with few atoms, the atoms replace the points.

    The cdf must be smooth between the points.
    """
    with np.errstate(invalid="ignore"):
        few = high - low <= MOST_ATOMS
    if not few.any():
        return points
    atoms = np.minimum(low[few, np.newaxis] + np.arange(np.max((high - low)[few]) + 1), high[few, np.newaxis])
    width = max(points.shape[1], atoms.shape[1])
    out = np.repeat(points[:, [-1]], width, axis=1)  # repeated points give integration panels of width 0
    out[:, : points.shape[1]] = points
    out[few] = high[few, np.newaxis]
    out[np.ix_(few, np.arange(atoms.shape[1]))] = atoms
    return out
