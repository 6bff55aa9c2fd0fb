"""Frozen distributions of scipy.stats, and an adaptive integral of their cdf.

The smoothness of the cdf is unknown. The panels of the integral do not depend on y, and the panel that
contains y is split at y. A panel is halved until the Gauss rule of 7 nodes and its Kronrod extension of 15
nodes agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy import stats

from skuq._numeric import ROUNDING, bisect, level_rounding
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import as_float_array, check_finite
from skuq.distributions._base import Distribution
from skuq.distributions._discrete import TAIL, count_means, sum_steps, with_atoms
from skuq.distributions._expectation import StepPanels
from skuq.distributions._family import INTEGERS, Lattice
from skuq.distributions._value_quadrature import LANDMARK_TAIL, UNIFORM, divide_tails, step_terms

MOST_STEPS = 1 << 14
"""Maximum number of integers whose terms are all evaluated. More integers are summed by a rule."""

LEAST_LEVELS = 2.0 ** np.array([-200, -53, -46])
"""Levels that replace a smaller level whose quantile is wrong. The first right quantile is used."""


def is_frozen_scipy(value: Any) -> bool:
    return isinstance(getattr(value, "dist", None), stats.rv_continuous | stats.rv_discrete)


@dataclass(frozen=True, eq=False, repr=False)
class ScipyDistribution(Distribution):
    """Frozen scipy distributions with parameters of shape (n,). Each entry of the parameters is one row.

    Parameters
    ----------
    frozen : frozen scipy.stats distribution
        Distribution such as ``scipy.stats.gamma(a=shape, scale=scale)`` with parameters of shape (n,).
        The parameters are copied. Discrete distributions have no density.

    Notes
    -----
    Every method calls scipy. The CRPS is an adaptive integral of the cdf, with about 1000 values of the cdf
    per row. A quantile of a very small level is used only if the cdf confirms it. The CRPS of Poisson,
    binomial and negative binomial distributions has a closed form. For other discrete distributions, the
    CRPS is a sum over the integers of the support. Discrete distributions have masses instead of a density.
    See `logpmf`.

    Examples
    --------
    >>> from scipy import stats
    >>> from skuq.distributions import ScipyDistribution
    >>> dist = ScipyDistribution(stats.gamma(a=[1.0, 4.0], scale=2.0))
    >>> dist.mean(), dist.crps([1.0, 9.0]).round(4)
    (array([2., 8.]), array([0.4261, 1.1648]))
    """

    frozen: Any

    def __init__(self, frozen: Any) -> None:
        if not is_frozen_scipy(frozen):
            raise TypeError(
                "`frozen` must be a frozen scipy.stats distribution, for example stats.gamma(a=2), "
                f"got {frozen!r}."
            )
        family = frozen.dist
        parameters = {name: _read_parameter(value, name) for name, value in _parameters(frozen).items()}
        atoms = np.asarray(getattr(family, "xk", 0.0))
        if (atoms != np.round(atoms)).any():
            raise ValueError(
                "`frozen` must have integer atoms if it is discrete, as scipy requires. Use "
                "skuq.distributions.Empirical(members, weights) for other atoms."
            )
        shape = np.broadcast_shapes(*(np.shape(value) for value in parameters.values()))
        if len(shape) > 1 or 0 in shape:
            raise ValueError(
                f"`frozen` must have parameters that are numbers or have shape (n,), got shape {shape}."
            )
        if np.shape(frozen.cdf(0.0)) != shape:
            raise ValueError(
                f"`frozen` must be one distribution per row, but scipy reads parameters of shape {shape} of "
                f"{family.name} as one distribution. For a distribution on few integers, pass "
                "`Empirical(np.arange(k)[np.newaxis], frozen.pmf(np.arange(k)))`."
            )
        rows = {name: np.array(np.broadcast_to(value, shape or (1,))) for name, value in parameters.items()}
        copied = family(**rows)
        with np.errstate(all="ignore"):
            bad = np.isnan(np.broadcast_to(copied.support()[0], shape or (1,)))
            # Infinite parameters are valid for some families and invalid for others.
            if any(np.isinf(value).any() for value in rows.values()):
                median = copied.ppf(0.5)
                # Older versions of scipy return 0 as the median of Poisson(inf).
                bad |= ~(np.isfinite(median) & (copied.cdf(median) > 0.25))
        if bad.any():
            row = int(np.argmax(bad))
            given = ", ".join(f"{name}={value[row]}" for name, value in rows.items())
            raise ValueError(
                f"`frozen` must have valid parameters, but scipy rejects {family.name}({given}) at row {row}."
            )
        self._set(frozen=copied)

    @cached_property
    def _keywords(self) -> dict[str, FloatArray]:
        return dict(self.frozen.kwds)

    def _rows(self) -> int:
        return len(next(iter(self._keywords.values())))

    def _take(self, rows: IntArray) -> ScipyDistribution:
        return ScipyDistribution(
            self.frozen.dist(**{name: value[rows] for name, value in self._keywords.items()})
        )

    @classmethod
    def _merge(cls, parts: Sequence[ScipyDistribution]) -> ScipyDistribution | None:
        family = parts[0].frozen.dist
        if any(
            type(part.frozen.dist) is not type(family) or part.frozen.dist.name != family.name
            for part in parts
        ):
            return None
        names = parts[0]._keywords
        return cls(
            family(**{name: np.concatenate([part._keywords[name] for part in parts]) for name in names})
        )

    @property
    def _discrete(self) -> bool:
        return isinstance(self.frozen.dist, stats.rv_discrete)

    def _moment(self, values: Any, name: str) -> FloatArray:
        moment = np.array(np.broadcast_to(values, (len(self),)), dtype=float)
        if np.isnan(moment).any():
            row = int(np.argmax(np.isnan(moment)))
            raise ValueError(
                f"the {self.frozen.dist.name} distribution has no {name} at row {row}. Use quantiles."
            )
        return moment

    def mean(self) -> FloatArray:
        return self._moment(self.frozen.mean(), "mean")

    def std(self) -> FloatArray:
        scale = self._keywords.get("scale", 1.0)  # scipy would square the scale, which may overflow.
        shapes = {name: value for name, value in self._keywords.items() if name not in {"loc", "scale"}}
        return self._moment(scale * self.frozen.dist.std(**shapes), "standard deviation")

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.asarray(self.frozen.cdf(y), dtype=float)

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.asarray(self.frozen.sf(y), dtype=float)

    def _ppf(self, p: FloatArray) -> FloatArray:
        if not self._discrete:
            return _confirmed(p, self.frozen.ppf, self.frozen.cdf)
        quantile = np.asarray(self.frozen.ppf(p), dtype=float)
        # Rounding must not make a level larger than the cdf at an atom.
        reached = self.frozen.cdf(quantile - 1) >= p - level_rounding(p)
        return np.where(reached & (p > 0), quantile - 1, quantile)

    def _isf(self, q: FloatArray) -> FloatArray:
        if not self._discrete:
            return _confirmed(q, self.frozen.isf, self.frozen.sf)
        # scipy computes ppf(1 - q), but 1 - q is rounded to 1 for small q.
        quantile = self.frozen.isf(np.maximum(q, 2.0**-53))
        reached = self.frozen.sf(quantile - 1) <= q + level_rounding(q)
        quantile = np.where(reached & (q < 1), quantile - 1, quantile)
        return np.asarray(np.where(q > 0, quantile, self.frozen.support()[1]), dtype=float)

    @property
    def has_density(self) -> bool:
        return not self._discrete

    @property
    def has_mass(self) -> bool:
        return self._discrete

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return np.asarray(self.frozen.logpdf(y), dtype=float)

    def _logpmf(self, y: FloatArray) -> FloatArray:
        finite = np.isfinite(y)
        return np.where(finite, self.frozen.logpmf(np.where(finite, y, 0.0)), -np.inf)

    def _weighted_crps(self, y: FloatArray, weight: Polynomial) -> FloatArray:
        return super()._weighted_crps(y, weight) if self._discrete else adaptive_crps(self, y, weight)

    def _tails_at(self, rows: IntArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return F and 1 - F of one row for each x. Above the median, 1 - F is scipy's ``sf``."""
        parameters = {name: value[rows] for name, value in self._keywords.items()}
        with np.errstate(all="ignore"):
            cdf = np.asarray(self.frozen.dist.cdf(x, **parameters), dtype=float)
            sf = 1 - cdf
            upper = np.flatnonzero(cdf > 0.5)
            parameters = {name: value[upper] for name, value in parameters.items()}
            sf[upper] = self.frozen.dist.sf(x[upper], **parameters)
        return cdf, sf

    def _integration_error(self, row: int, number: int) -> ValueError:
        given = ", ".join(f"{name}={value[row]}" for name, value in self._keywords.items())
        return ValueError(
            f"the CRPS of {self.frozen.dist.name}({given}) at row {number} cannot be integrated, because a "
            "tail is too heavy, or because scipy's cdf or quantiles are not accurate enough. With a heavy "
            "tail, the CRPS may be infinite: use `pinball_loss` or `nll_loss`. Else, use a sample: "
            "`Empirical(frozen.rvs((1000, n)).T)`."
        )

    def _crps(self, y: FloatArray) -> FloatArray:
        if not self._discrete:
            return super()._crps(y)
        means = count_means(self.frozen, self._keywords, y)
        if means is None:
            return self._sum_steps(y, 2)
        return np.maximum(means.distance - means.half_difference, 0.0)

    def _mean_distance(self, y: FloatArray) -> FloatArray:
        if not self._discrete:
            return super()._mean_distance(y)
        means = count_means(self.frozen, self._keywords, y)
        return self._sum_steps(y, 1) if means is None else means.distance

    def _lattice(self) -> Lattice | None:
        if not self._discrete or (self._keywords["loc"] % 1).any():
            return None
        return INTEGERS

    @property
    def _integrates_values(self) -> bool:
        return self._discrete

    def _landmarks(self) -> FloatArray:
        """Return quantiles, or all atoms of a row with few atoms."""
        points = super()._landmarks()
        if not self._discrete:
            return points
        return with_atoms(points, self._ppf(np.asarray(1e-13)), self._isf(np.asarray(1e-13)))

    def _sum_steps(self, y: FloatArray, power: int) -> FloatArray:
        """Sum |F(k) - 1{y <= k}|^power over unit steps. Outside the support, the step cdf is 0 or 1."""
        low, high = self._ppf(TAIL), self._isf(TAIL)
        wide = np.flatnonzero((high - low > MOST_STEPS) & (self._lattice() is not None))
        last = np.where(np.isin(np.arange(len(self)), wide), low, high)
        score = sum_steps(self, y, low, last, lambda cdf: cdf**power, lambda sf: sf**power)
        score += np.abs(y - np.clip(y, low, high))
        if wide.size:
            part = self._take(wide)
            panels = StepPanels(part, INTEGERS, np.ones(wide.size, dtype=bool))
            score[wide] = panels.integrate_cdf(y[wide], lambda cdf: cdf**power, lambda sf: sf**power)
        return score

    def _sample(self, m: int, rng: np.random.RandomState) -> FloatArray:
        return np.asarray(self.frozen.rvs(size=(m, len(self)), random_state=rng), dtype=float).T

    def _standard_form(self) -> tuple[FloatArray, FloatArray, Distribution] | None:
        shapes = {name: value for name, value in self._keywords.items() if name not in {"loc", "scale"}}
        if self._discrete or any((value != value[0]).any() for value in shapes.values()):
            return None
        standard = ScipyDistribution(self.frozen.dist(**{name: value[0] for name, value in shapes.items()}))
        return self._keywords["loc"], self._keywords["scale"], standard

    def _affine(self, shift: FloatArray, factor: FloatArray) -> ScipyDistribution | None:
        if self._discrete or (factor <= 0).any():
            return None
        moved = {
            **self._keywords,
            "loc": shift + factor * self._keywords["loc"],
            "scale": factor * self._keywords["scale"],
        }
        return ScipyDistribution(self.frozen.dist(**moved))


def _confirmed(
    level: FloatArray, inverse: Callable[[FloatArray], Any], tail: Callable[[FloatArray], Any]
) -> FloatArray:
    """Return the quantile of scipy at a level, or at a larger level if the cdf does not confirm it.

    Many families compute the upper quantile at q as the quantile at 1 - q, which is 1 below 2^-53. A level of
    which 1 - q keeps digits is not checked, unless its quantile is infinite or NaN.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        quantile = _quantile_or_nan(level, inverse)
        doubtful = (level > 0) & (level < 1) & ((level < LEAST_LEVELS[-1]) | ~np.isfinite(quantile))
        if doubtful.any():
            doubtful &= ~_has_level(quantile, level, tail)
        for least in LEAST_LEVELS:
            if not doubtful.any():
                break
            larger = np.maximum(level, least)
            nearest = _quantile_or_nan(larger, inverse)
            found = doubtful & _has_level(nearest, larger, tail)
            quantile, doubtful = np.where(found, nearest, quantile), doubtful & ~found
        if (np.isnan(quantile) & (level >= LEAST_LEVELS[-1]) & (level <= 1)).any():
            return np.asarray(inverse(level), dtype=float)  # raises scipy's own error, if there is one
    return quantile


def _has_level(quantile: FloatArray, level: FloatArray, tail: Callable[[FloatArray], Any]) -> BoolArray:
    """Return whether a tail probability reaches the level, within a factor of 2, at the quantile."""
    step = 4 * np.spacing(quantile)
    ends = tail(quantile - step), tail(quantile + step)
    near = (np.minimum(*ends) <= 2 * level) & (np.maximum(*ends) >= level / 2)
    return np.asarray(near & np.isfinite(quantile))


def _quantile_or_nan(level: FloatArray, inverse: Callable[[FloatArray], Any]) -> FloatArray:
    try:
        return np.asarray(inverse(level), dtype=float)
    except (ValueError, OverflowError, RuntimeError):  # raised by the searches and by Boost
        return np.full(np.shape(inverse(np.asarray(0.5))), np.nan)


def _read_parameter(value: Any, name: str) -> NDArray[Any]:
    """Return a parameter as an array of real numbers. Integers are not converted."""
    array, reals = np.asarray(value), as_float_array(value, name)
    if name in {"loc", "scale"}:
        check_finite(reals, name)
    return array if array.dtype.kind in "biuf" else reals


def _parameters(frozen: Any) -> dict[str, Any]:
    family = frozen.dist
    names = [name.strip() for name in family.shapes.split(",")] if family.shapes else []
    defaults = {"loc": 0.0} if isinstance(family, stats.rv_discrete) else {"loc": 0.0, "scale": 1.0}
    positional = dict(zip([*names, *defaults], frozen.args, strict=False))
    return {**defaults, **positional, **frozen.kwds}


# ------------------------------------------------------------------------------ adaptive integrals

_POSITIVE_NODES = np.array(
    [
        *(0.9914553711208126, 0.9491079123427585, 0.8648644233597691, 0.7415311855993944),
        *(0.5860872354676911, 0.4058451513773972, 0.20778495500789848),
    ]
)
_KRONROD = np.array(
    [
        *(0.022935322010529224, 0.06309209262997856, 0.10479001032225019, 0.14065325971552592),
        *(0.1690047266392679, 0.19035057806478542, 0.20443294007529889),
    ]
)
_GAUSS = np.array([0.0, 0.1294849661688697, 0.0, 0.27970539148927664, 0.0, 0.3818300505051189, 0.0])
KRONROD_NODES = np.concatenate([-_POSITIVE_NODES, [0.0], _POSITIVE_NODES[::-1]])
KRONROD = np.concatenate([_KRONROD, [0.20948214108472782], _KRONROD[::-1]])
GAUSS = np.concatenate([_GAUSS, [0.4179591836734694], _GAUSS[::-1]])

TOLERANCE = 1e-8
"""Largest difference of the two rules in one panel, in units of the width of the row."""

MOST_ROUNDS = 40
MOST_PANELS = 2000
"""Limits for one row. A cdf with a larger rounding error than the tolerance does not converge."""

_BLOCK = 1000
"""Number of rows that are integrated together, so that the nodes of all panels fit into memory."""


@dataclass(frozen=True)
class Panels:
    """Panels of all rows, in the order of the rows and of y, with the integrals below and above y."""

    row: IntArray
    start: FloatArray
    stop: FloatArray
    below: FloatArray
    above: FloatArray


def adaptive_crps(dist: ScipyDistribution, y: FloatArray, weight: Polynomial = UNIFORM) -> FloatArray:
    """Return the CRPS with a weight per level, shape (n,). The distribution has n rows or one row."""
    below, above = step_terms(weight)
    score, one = np.empty(len(y)), len(dist) == 1
    panels = _adapt(dist, below, above, np.zeros(1, dtype=np.intp)) if one else None
    for first in range(0, len(y), _BLOCK):
        rows = np.arange(first, min(first + _BLOCK, len(y)))
        part, row = (dist, np.zeros_like(rows)) if one else (dist._take(rows), np.arange(rows.size))
        score[rows] = _score(part, panels or _adapt(part, below, above, rows), row, y[rows], below, above)
    return score


def _score(
    dist: ScipyDistribution,
    panels: Panels,
    row: IntArray,
    y: FloatArray,
    below: Polynomial,
    above: Polynomial,
) -> FloatArray:
    """Return the scores of y, whose distributions are the given rows."""
    first = np.searchsorted(panels.row, row)
    last = np.searchsorted(panels.row, row, side="right") - 1
    inside = np.clip(y, panels.start[first], panels.stop[last])
    at = bisect(lambda place: panels.start[place] <= inside, first + 1, last + 1) - 1  # the panel of y
    low, high = _cumulated(panels.row, panels.below), _cumulated(panels.row[::-1], panels.above[::-1])[::-1]
    whole = low[at] - panels.below[at] + high[at] - panels.above[at]
    # Beyond the outermost panel, the cdf is 0 or 1.
    outside = np.where(y > inside, below(np.ones(1)), above(np.ones(1))) * np.abs(y - inside)
    return outside + whole + _split(dist, row, panels, at, inside, below, above)


def _cumulated(row: IntArray, values: FloatArray) -> FloatArray:
    """Return cumulative sums that begin anew in each row."""
    sums = np.empty_like(values)
    for part in np.split(np.arange(row.size), np.flatnonzero(np.diff(row)) + 1):
        sums[part] = np.cumsum(values[part])
    return sums


def _split(
    dist: ScipyDistribution,
    row: IntArray,
    panels: Panels,
    at: IntArray,
    y: FloatArray,
    below: Polynomial,
    above: Polynomial,
) -> FloatArray:
    total = np.zeros(len(y))
    for side, start, stop in ((0, panels.start[at], y), (1, y, panels.stop[at])):
        half = (stop - start) / 2
        x = (start + half)[:, np.newaxis] + half[:, np.newaxis] * KRONROD_NODES
        tail = dist._tails_at(np.repeat(row, KRONROD_NODES.size), x.ravel())[side].reshape(x.shape)
        total += half * ((above if side else below)(tail) @ KRONROD)
    return total


def _adapt(dist: ScipyDistribution, below: Polynomial, above: Polynomial, numbers: IntArray) -> Panels:
    """Return the panels. ``numbers`` are the numbers of the rows in error messages."""
    edges, width = _first_edges(dist, numbers)
    row = np.repeat(np.arange(len(dist)), edges.shape[1] - 1)
    start, stop = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    wide = stop > start
    wide[:: edges.shape[1] - 1] = True  # Each row keeps a panel, even if its quantiles are one number.
    row, start, stop = row[wide], start[wide], stop[wide]
    parts = []
    for _ in range(MOST_ROUNDS):
        half = (stop - start) / 2
        x = (start + half)[:, np.newaxis] + half[:, np.newaxis] * KRONROD_NODES
        cdf, sf = (
            tail.reshape(x.shape) for tail in dist._tails_at(np.repeat(row, KRONROD_NODES.size), x.ravel())
        )
        values = np.stack([below(cdf), above(sf)])
        kronrod, gauss = half * (values @ KRONROD), half * (values @ GAUSS)
        # Over a very wide panel with F = 1, the difference of the two rules is rounding.
        error = (np.abs(kronrod - gauss) - ROUNDING * kronrod).max(axis=0)
        done = (error <= TOLERANCE * width[row]) | (half <= 1e-14 * np.abs(start))
        parts.append((row[done], start[done], stop[done], *kronrod[:, done]))
        if np.isnan(error).any():
            wrong = int(row[np.isnan(error)][0])
            raise dist._integration_error(wrong, int(numbers[wrong]))
        if done.all():
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
            order = np.lexsort((columns[1], columns[0]))
            return Panels(*(column[order] for column in columns))
        row, start, stop, middle = row[~done], start[~done], stop[~done], (start + half)[~done]
        row = np.concatenate([row, row])
        start, stop = np.concatenate([start, middle]), np.concatenate([middle, stop])
        if row.size > MOST_PANELS * len(dist):
            break
    raise dist._integration_error(int(row[0]), int(numbers[row[0]]))


def _first_edges(dist: ScipyDistribution, numbers: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the edges of the first panels of each row, and a width of the row.

    The edges are landmarks, and points whose distances from the center double, for heavy tails.
    """
    points = np.sort(dist._landmarks(), axis=1)
    center = points[:, [points.shape[1] // 2]]
    quarter = points.shape[1] // 4
    width = points[:, -1 - quarter] - points[:, quarter]
    with np.errstate(invalid="ignore"):
        reach = np.abs(points - center).max(axis=1)
        bad = ~(np.isfinite(reach) & (reach * LANDMARK_TAIL[0] ** 2 <= TOLERANCE * width))
    if bad.any():
        wrong = int(np.argmax(bad))
        raise dist._integration_error(wrong, int(numbers[wrong]))
    return divide_tails(points), np.where(width > 0, width, 1.0)
