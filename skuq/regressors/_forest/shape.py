"""Shape of the predictive distribution of a forest, calibrated on out-of-bag rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from skuq._ranks import WeightedRanks, score_level
from skuq._typing import FloatArray
from skuq._validation import DEFAULT_COVERAGE
from skuq.distributions import StudentT
from skuq.distributions._estimated_scale import fit_student, predictive_scores, prior_share

_LEVELS = np.array([0.0025, 0.005, 0.01, *np.arange(1, 40) / 40, 0.99, 0.995, 0.9975])
"""Levels of the predictive quantiles. They include 0.05, 0.5 and 0.95, the levels of the default interval and
of the median."""

_LEAST_LEVEL = 0.025
"""Levels with at least this distance to 0 and 1 are always used, even if there are too few rows to estimate
their quantiles."""

_LEAF_SHARES = np.arange(10) / 10
"""Candidate weights of the quantiles of the leaves. A weight is below 1, because equal targets in a leaf
would otherwise give equal quantiles."""


@dataclass(frozen=True, eq=False)
class ForestShape:
    """Map from location, scale and the quantiles of the leaves to the predictive quantiles."""

    levels: FloatArray  # levels for which there are enough rows
    standard: FloatArray  # quantiles of the standardized residuals at these levels
    leaf_share: float = 0.0  # weight of the quantiles of the leaves
    factor: float = 1.0  # multiplies the distances from the median
    n: float = np.inf  # number of independent calibration rows

    @classmethod
    def of_residuals(cls, z: FloatArray, weight: FloatArray, n: float) -> ForestShape:
        tail = np.minimum(_LEVELS, 1 - _LEVELS)
        levels = _LEVELS[tail >= min(1 / (n + 1), _LEAST_LEVEL) * (1 - 1e-9)]
        return cls(levels, _shrunk_quantiles(z, weight, levels, n), n=n)

    def averaged(
        self, loc: FloatArray, scale: FloatArray, leaf: FloatArray, y: FloatArray, weight: FloatArray
    ) -> ForestShape:
        """Return the shape with a leaf share from the one-standard-error rule (Breiman et al. 1984)."""
        # The levels are denser in the tails, so each level is weighted by the distance between its neighbors.
        per_level = np.gradient(self.levels)
        shares = [replace(self, leaf_share=float(share)) for share in _LEAF_SHARES]
        losses = np.stack(
            [_pinball(shape.quantiles(loc, scale, leaf), y, self.levels) @ per_level for shape in shares]
        )
        excess = losses - losses[int(np.argmin(losses @ weight))]
        mean = excess @ weight / weight.sum()
        squares = np.square(excess - mean[:, np.newaxis]) @ weight
        within = mean <= np.sqrt(squares) / weight.sum()
        best = shares[int(np.flatnonzero(within)[-1])]
        return replace(best, leaf_share=best.leaf_share * (1 - prior_share(self.n)))

    def stretched(
        self, loc: FloatArray, scale: FloatArray, leaf: FloatArray, y: FloatArray, weight: FloatArray
    ) -> ForestShape:
        """Return the shape with the factor for which 90 % intervals contain 90 % of the targets."""
        tail = (1 - DEFAULT_COVERAGE) / 2
        quantiles = self.quantiles(loc, scale, leaf)
        low, middle, high = (
            quantiles[:, np.argmin(np.abs(self.levels - level))] for level in (tail, 0.5, 1 - tail)
        )
        usable = (low < middle) & (middle < high)
        if not usable.any():
            return self
        below, above = (middle - y)[usable], (y - middle)[usable]
        score = np.maximum(below / (middle - low)[usable], above / (high - middle)[usable])
        ranks = WeightedRanks(score, weight[usable])
        # the conformal rank, or the largest rank if there are too few rows
        level = min(float(score_level(DEFAULT_COVERAGE, True)) * (1 + 1 / self.n), 1.0)
        factor = float(ranks.quantile(level * ranks.total))
        if not 0 < factor < np.inf:
            return self
        return replace(self, factor=factor ** (1 - prior_share(self.n)))

    def quantiles(self, loc: FloatArray, scale: FloatArray, leaf: FloatArray | None) -> FloatArray:
        values = loc[:, np.newaxis] + scale[:, np.newaxis] * self.standard
        if leaf is not None and self.leaf_share > 0:
            values = values + self.leaf_share * (leaf - values)  # exact for equal values
        if self.factor == 1:
            return values
        center = values[:, [len(self.levels) // 2]]  # the middle level is 0.5
        return np.asarray(center + self.factor * (values - center))


def _shrunk_quantiles(z: FloatArray, weight: FloatArray, levels: FloatArray, n: float) -> FloatArray:
    if not z.any():
        return np.zeros(len(levels))
    df, scale = fit_student(z, weight)
    family = StudentT(0.0, scale, df)
    student = family._from_normal_score(predictive_scores(ndtri(levels), n))
    ranked = np.clip(levels, 1 / (n + 1), n / (n + 1))
    # Beyond the outermost ranks, the quantiles continue parallel to the Student t quantiles.
    beyond = student - family._from_normal_score(predictive_scores(ndtri(ranked), n))
    share = prior_share(n)
    return share * student + (1 - share) * (_sample_quantiles(z, weight, ranked) + beyond)


def _sample_quantiles(z: FloatArray, weight: FloatArray, levels: FloatArray) -> FloatArray:
    """Return interpolated quantiles. The k-th smallest of n values has the level k / (n + 1)."""
    order = np.argsort(z, kind="stable")
    values, counts = z[order], weight[order]
    values, counts = values[counts > 0], counts[counts > 0]
    last = np.cumsum(counts)
    # A row with weight w counts as w equal values. Their ranks are last - w + 1 to last.
    first = last - counts + np.minimum(counts, 1.0)
    ranks = np.column_stack([first, last]).ravel()
    return np.asarray(np.interp(levels * (last[-1] + 1), ranks, np.repeat(values, 2)))


def _pinball(quantiles: FloatArray, y: FloatArray, levels: FloatArray) -> FloatArray:
    error = y[:, np.newaxis] - quantiles
    return np.asarray(np.maximum(levels * error, (levels - 1) * error))
