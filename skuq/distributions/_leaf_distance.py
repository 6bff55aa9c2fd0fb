"""The Cramér distance of two distributions that are no mixtures, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from skuq._typing import FloatArray, IntArray
from skuq.distributions._base import Distribution
from skuq.distributions._empirical import Empirical
from skuq.distributions._normal import Normal
from skuq.distributions._normal_mixture import mean_absolute
from skuq.distributions._numerics.crps_table import CrpsTable
from skuq.distributions._numerics.gauss_rules import Rule, exponential_rule
from skuq.distributions._numerics.piecewise_cdf import PiecewiseCdf, piecewise_distance
from skuq.distributions._quantiles import Quantiles
from skuq.distributions._recalibrated import Recalibrated
from skuq.distributions._shapes import Shape, StepCrps, TabulatedCrps, tabulated_shape
from skuq.distributions._shared_empirical import SharedEmpirical
from skuq.distributions._student_t import StudentT

__all__ = ["Leaf", "leaf_distance"]

_FAR = 1e25
"""Extent in units of a scale from which a distribution is a point mass to the last digit."""

_BLOCK = 2**15
"""Values of a CRPS that are computed together: few enough to stay in the cache."""

_SMOOTHER = 2.0
"""Ratio of scales up to which the smoother CRPS is integrated, else that of the larger scale."""

_LONG_TAIL, _REFINED = 8.0, 16
"""Tail in units of the other scale from which the rule of the tail is refined, and by how much."""


@dataclass(frozen=True, eq=False)
class Located:
    """Rows loc + scale Z of one shape, both of shape (n,), with scales of at least 0."""

    dist: Distribution
    loc: FloatArray
    scale: FloatArray
    shape: Shape


class Leaf:
    """A distribution that is no mixture.

    Attributes
    ----------
    dist : Distribution
    located : Located or None
        The same by its shape, if the CRPS of that is tabulated.
    piecewise : PiecewiseCdf or None
        The cdf of quantiles or members.
    """

    def __init__(self, dist: Distribution) -> None:
        self.dist = dist
        self.located: Located | None = None
        self.piecewise: PiecewiseCdf | None = None
        if isinstance(dist, Quantiles):
            self.piecewise = PiecewiseCdf.linear(dist.values, dist.levels, *dist._tails())
        elif isinstance(dist, Empirical):
            self.piecewise = PiecewiseCdf.steps(dist.members, dist._cumulative())
        elif (shape := _shape(dist)) is not None and (form := dist._standard_form()) is not None:
            loc, scale, _ = form
            self.located = Located(dist, loc + scale * shape.center, scale * shape.unit, shape)

    @property
    def has_distance(self) -> bool:
        """Whether `leaf_distance` takes it."""
        return self.located is not None or self.piecewise is not None


def _shape(dist: Distribution) -> Shape | None:
    """Return the common shape of the rows, if its CRPS is tabulated."""
    if isinstance(dist, SharedEmpirical):
        return dist._shape
    if isinstance(dist, Normal):
        return _student_shape(np.inf)
    if isinstance(dist, StudentT):
        df = dist._shared_df()
        return None if df.ndim else _student_shape(float(df))
    if isinstance(dist, Recalibrated) and isinstance(dist.base, Normal | StudentT):
        return None if dist._standard is None else dist._standard._one_row_shape
    return None


@lru_cache(maxsize=32)
def _student_shape(df: float) -> Shape | None:
    """Return the shape of a Student t distribution, or of the normal distribution for infinite df."""
    standard = Normal(0.0, 1.0) if np.isinf(df) else StudentT(0.0, 1.0, df)
    none = np.empty(0)
    return tabulated_shape(standard, lambda: CrpsTable(standard, none), none, none, none)


def leaf_distance(first: Leaf, second: Leaf) -> FloatArray:
    """Return the integral of the squared difference of two cdfs, shape (n,), in the units of y.

    Closed form for two normal distributions, for steps and lines, and for steps and a tabulated CRPS; between
    quantiles and a tabulated CRPS but for the tails. Otherwise by a Gauss rule.
    """
    a, b = first.dist, second.dist
    if isinstance(a, Normal) and isinstance(b, Normal):
        own = (a.scale + b.scale) / np.sqrt(np.pi)
        return np.asarray(np.maximum(mean_absolute(a.loc - b.loc, np.hypot(a.scale, b.scale)) - own, 0.0))
    if first.piecewise is not None and second.piecewise is not None:
        return _by_one_sort(first.piecewise, second.piecewise)
    if first.located is None:
        return leaf_distance(second, first)
    if second.located is not None:
        return _between_shapes(first.located, second.located)
    if isinstance(b, Quantiles):
        return _over_quantiles(first.located, b)
    if isinstance(b, Empirical):
        return _over_members(first.located, b)
    raise TypeError(f"{type(b).__name__} has no distance in closed form.")


def _by_one_sort(first: PiecewiseCdf, second: PiecewiseCdf) -> FloatArray:
    n, knots = len(first.knots), first.knots.shape[1] + second.knots.shape[1]
    blocks = _blocks(n, max(1, _BLOCK // knots))
    return np.concatenate([piecewise_distance(first.take(rows), second.take(rows)) for rows in blocks])


def _blocks(n: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n, size)]


# ------------------------------------------------------------- expectations of a tabulated CRPS


def _expect(
    integrand: Located,
    over: Distribution,
    extent: FloatArray,
    size: int,
    expected: Callable[[IntArray], FloatArray],
    rows: IntArray,
) -> FloatArray:
    """Return the distances of the given rows, as the expectation of one CRPS over the other distribution.

    ``extent`` is the distance to which the other distribution reaches, shape (n,), and ``size`` its number of
    nodes; ``expected`` gives the distances of rows in which it does not reach too far.
    """
    distance = np.zeros(len(over))
    is_near = extent[rows] < _FAR * integrand.scale[rows]  # the scale may be 0
    near, far = rows[is_near], rows[~is_near]
    if far.size:
        distance[far] = over[far]._crps(integrand.loc[far])
    for block in _blocks(near.size, max(1, _BLOCK // size)):
        distance[near[block]] = expected(near[block])
    return np.maximum(distance[rows], 0.0)


def _over_members(integrand: Located, over: Empirical) -> FloatArray:
    members, crps, half = over.members, integrand.shape.crps, over._half_mean_difference()
    weights = over.weights

    def expected(rows: IntArray) -> FloatArray:
        loc, scale = integrand.loc[rows], integrand.scale[rows]
        score = crps((members[rows] - loc[:, np.newaxis]) / scale[:, np.newaxis])
        mean = score.mean(axis=1) if weights is None else np.einsum("ij,ij->i", score, weights[rows])
        return np.asarray(scale * mean - half[rows])

    extent = _extent(members, integrand.loc)
    return _expect(integrand, over, extent, members.shape[1], expected, np.arange(len(over)))


def _extent(sorted_values: FloatArray, loc: FloatArray) -> FloatArray:
    return np.maximum(np.abs(sorted_values[:, 0] - loc), np.abs(sorted_values[:, -1] - loc))


def _over_quantiles(integrand: Located, over: Quantiles) -> FloatArray:
    crps, half, shares = integrand.shape.crps, over._half_mean_difference(), np.diff(over.levels)
    masses, lengths = (over.levels[0], 1 - over.levels[-1]), over._tails()

    def expected(rows: IntArray) -> FloatArray:
        loc, scale = integrand.loc[rows], integrand.scale[rows]
        t = (over.values[rows] - loc[:, np.newaxis]) / scale[:, np.newaxis]
        total = _mean_between(crps, t) @ shares
        total += masses[0] * _over_tail(crps, t[:, 0], -lengths[0][rows] / scale)
        total += masses[1] * _over_tail(crps, t[:, -1], lengths[1][rows] / scale)
        return np.asarray(scale * total - half[rows])

    extent = _extent(over.values, integrand.loc)
    return _expect(integrand, over, extent, over.levels.size, expected, np.arange(len(over)))


def _mean_between(crps: TabulatedCrps, t: FloatArray) -> FloatArray:
    """Return the mean of a CRPS between each two neighbors of sorted values, shape (n, k - 1)."""
    gap = np.diff(t, axis=1)
    narrow = gap <= crps.narrow
    mean = np.diff(crps.integral(t), axis=1) / np.where(narrow, 1.0, gap)
    # the trapezoidal rule with its correction for slopes, where a difference of integrals would cancel
    row, piece = np.nonzero(narrow)
    start, stop = t[row, piece], t[row, piece + 1]
    rise = (crps.slope(stop) - crps.slope(start)) * (stop - start)
    mean[row, piece] = (crps(start) + crps(stop)) / 2 - rise / 12
    return mean


def _over_tail(crps: TabulatedCrps, end: FloatArray, length: FloatArray) -> FloatArray:
    """Return the expectation of a CRPS over an exponential tail from ``end`` on, of a signed decay length."""
    if isinstance(crps, StepCrps):
        return crps(end) + length * crps.slope(end) + 2 * np.abs(length) * crps.decayed_weight(end, length)
    total = np.empty_like(end)
    long = np.abs(length) > _LONG_TAIL
    for rows, refined in ((np.flatnonzero(~long), 1), (np.flatnonzero(long), _REFINED)):
        rule = exponential_rule(refined)
        for block in _blocks(rows.size, max(1, _BLOCK // rule.nodes.size)):
            at = rows[block]
            nodes = end[at, np.newaxis] + length[at, np.newaxis] * rule.nodes
            total[at] = crps(nodes) @ rule.weights
    return total


def _between_shapes(first: Located, second: Located) -> FloatArray:
    """Return the distances of distributions with a shape each.

    Steps are always what the expectation is over. Else the CRPS of the larger scale is integrated, which is
    the smoother one in units of the other, or the one without kinks if scales do not differ much.
    """
    one, other = first.shape, second.shape
    every = np.arange(len(first.loc))
    if one.members is not None and other.members is not None:
        if one.members.nodes.size < other.members.nodes.size:
            return _over_shape(second, first, one.members, every)
        return _over_shape(first, second, other.members, every)
    if one.members is not None:
        return _between_shapes(second, first)
    if other.members is not None:
        coarse = second.scale > _SMOOTHER * first.scale
        choices = [(first, second, other.members, coarse), (first, second, other.rule, ~coarse)]
    else:
        preferred = _SMOOTHER ** (float(one.smooth) - float(other.smooth))
        larger = preferred * first.scale > second.scale
        choices = [(first, second, other.rule, larger), (second, first, one.rule, ~larger)]
    distance = np.empty(len(every))
    for integrand, over, rule, chosen in choices:
        distance[chosen] = _over_shape(integrand, over, rule, every[chosen])
    return distance


def _over_shape(integrand: Located, over: Located, rule: Rule, rows: IntArray) -> FloatArray:
    """Return the distances of the given rows by a rule of a shape."""
    shape = integrand.shape
    error = None if rule is over.shape.members else over.shape.rule_error
    half = over.shape.half_difference_beside(shape)

    def expected(at: IntArray) -> FloatArray:
        scale = integrand.scale[at]
        loc, width = (over.loc[at] - integrand.loc[at]) / scale, over.scale[at] / scale
        return np.asarray(scale * shape.expected_crps(rule, error, loc, width) - over.scale[at] * half)

    extent = np.maximum(np.abs(over.loc - integrand.loc), over.scale)
    return _expect(integrand, over.dist, extent, rule.nodes.size, expected, rows)
