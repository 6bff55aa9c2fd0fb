"""Moments and mean distances of distributions without closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import FloatArray
from skuq.distributions._discrete.step_sums import MOST_ATOMS
from skuq.distributions._expectation.outcome_rule import OutcomeRule
from skuq.distributions._numerics.cdf_quadrature import value_mean_distance, value_moments
from skuq.distributions._numerics.level_quadrature import level_mean_distance, level_moments

_TAIL = np.asarray(1e-13)


def moments(dist: Any) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation. The mean is NaN if both tails have an infinite mean."""
    rule = _sum_rule(dist)
    if rule is None:
        return value_moments(dist) if dist._integrates_values else level_moments(dist)
    return rule_moments(rule, dist._ppf(np.asarray(0.5)))


def mean_distance(dist: Any, y: FloatArray) -> FloatArray:
    """Return E|Y - y|, shape (n,)."""
    rule = _sum_rule(dist)
    if rule is not None:
        return rule.expect(lambda outcome: np.abs(outcome - y), y)
    return value_mean_distance(dist, y) if dist._integrates_values else level_mean_distance(dist, y)


def rule_moments(rule: OutcomeRule, center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation, computed from the moments about ``center``."""
    with np.errstate(over="ignore", invalid="ignore"):
        first = rule.expect(lambda outcome: outcome - center, center)
        second = rule.expect(lambda outcome: (outcome - center) ** 2, center)
        variance = np.where(np.isfinite(second), np.maximum(second - first**2, 0.0), np.inf)
    return center + first, np.sqrt(variance)


def _sum_rule(dist: Any) -> OutcomeRule | None:
    """Return a rule if all atoms are listed or if a row has many numbered atoms, otherwise None."""
    if dist._listed_atoms() is not None:
        return OutcomeRule(dist)
    lattice = None if dist.has_density else dist._lattice()
    if lattice is None:
        return None
    size = np.abs(lattice.index(dist._isf(_TAIL)) - lattice.index(dist._ppf(_TAIL)))
    return OutcomeRule(dist, sum_integers=False) if (size > MOST_ATOMS).any() else None
