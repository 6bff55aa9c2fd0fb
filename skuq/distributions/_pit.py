r"""Probability integral transform of observations, for distributions that may have atoms.

The PIT of an observation y is F(y) if F is continuous. An atom is a point of positive probability, at which F
jumps from F(y-) to F(y). The randomized PIT [1]_ is a random number from this interval. If the forecast is
calibrated, the randomized PIT is uniform over [0, 1]. This module uses no random numbers: if an observation
equals an atom, its weight is distributed evenly over [F(y-), F(y)].

.. [1] C. Czado, T. Gneiting, L. Held, "Predictive model assessment for count data", Biometrics 65, 2009,
   eq. 1. https://doi.org/10.1111/j.1541-0420.2009.01191.x
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from skuq._censoring import Bounds, MassFunction, event_weights, interval_masses
from skuq._typing import FloatArray, IntArray
from skuq.distributions._base import Distribution
from skuq.distributions._discrete import atom_windows

PER_ATOM = 8
"""A row on an atom is represented by this number of points."""


def pit_scores(dist: Distribution, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the normal scores of F(y-) and F(y), which differ only on atoms."""
    score = dist._normal_score(y)
    if dist.has_density:
        return score, score
    low, high, atom = atom_windows(dist, y)
    if not atom.any():
        return score, score
    return (
        np.where(atom, dist._normal_score(low), score),
        np.where(atom, dist._normal_score(high), score),
    )


def bound_scores(dist: Distribution, bounds: Bounds) -> Bounds:
    """Return the normal scores of the known bounds of each target under its distribution."""
    low, high = (
        np.where(np.isfinite(end), dist._normal_score(np.where(np.isfinite(end), end, 0.0)), end)
        for end in (bounds.lower, bounds.upper)
    )
    # A censored target beyond the support must not look like an observed target, whose bounds are equal.
    return Bounds(np.where(bounds.observed, low, np.minimum(low, np.finfo(float).max)), high)


def censored_pit_scores(dist: Distribution, bounds: Bounds) -> tuple[FloatArray, FloatArray, MassFunction]:
    """Return intervals of the normal scores of the PIT values, and the function that computes their masses.

    The masses are estimated from censored targets. The mass above the largest known PIT value is left out.
    """
    scores = bound_scores(dist, bounds)
    if not bounds.right_censored:
        cells, masses = interval_masses(scores)
        return cells.lower, cells.upper, masses
    rows = np.flatnonzero(bounds.observed)
    high = scores.lower[rows]
    low = high if dist.has_density else np.minimum(pit_scores(dist[rows], bounds.lower[rows])[0], high)
    return low, high, lambda weight: event_weights(scores.lower, bounds.observed, weight)[rows]


def spread_atoms(
    lower: FloatArray, upper: FloatArray, weight: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the rows, normal scores and weights of the points that represent the rows."""
    row, atom = np.arange(len(lower)), lower < upper
    if not atom.any():
        return row, lower, weight
    even = (np.arange(PER_ATOM) + 0.5) / PER_ATOM
    spread = _scores_between(lower[atom, np.newaxis], upper[atom, np.newaxis], even)
    return (
        np.concatenate([row[~atom], np.repeat(row[atom], PER_ATOM)]),
        np.concatenate([lower[~atom], spread.ravel()]),
        np.concatenate([weight[~atom], np.repeat(weight[atom] / PER_ATOM, PER_ATOM)]),
    )


def randomized_scores(dist: Distribution, y: FloatArray, rng: np.random.RandomState) -> FloatArray:
    lower, upper = pit_scores(dist, y)
    atom = lower < upper
    if not atom.any():
        return upper
    scores = upper.copy()
    scores[atom] = _scores_between(lower[atom], upper[atom], rng.uniform(size=np.count_nonzero(atom)))
    return scores


def middle_scores(dist: Distribution, y: FloatArray) -> FloatArray:
    """Return the normal scores of the middle between F(y-) and F(y), shape (n,)."""
    lower, upper = pit_scores(dist, y)
    return np.where(lower < upper, _scores_between(lower, upper, np.full(lower.shape, 0.5)), upper)


def _scores_between(lower: FloatArray, upper: FloatArray, share: FloatArray) -> FloatArray:
    """Return the normal scores of levels between two levels.

    The ``share`` 0 is the lower level, and 1 is the upper level.
    """
    below, above = ndtr(lower), ndtr(-upper)
    levels = below + (ndtr(upper) - below) * share
    complements = above + (ndtr(-lower) - above) * (1 - share)
    return np.where(levels < complements, ndtri(levels), -ndtri(complements))
