"""Scale and tails of a predictive distribution.

The scale and the tails are estimated from rows that are not used in training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri, stdtrit

from skuq._ranks import WeightedRanks
from skuq._typing import FloatArray
from skuq.distributions import Distribution, Normal, StudentT

_DEGREES_OF_FREEDOM = np.array([3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0])
"""Candidate degrees of freedom. The smallest are the heaviest tails whose variance can be estimated. The
largest are nearly normal tails."""


@dataclass(frozen=True)
class Calibration:
    """Factor of the standard deviations, and degrees of freedom.

    With infinite degrees of freedom, the distribution is normal. There is one factor per target.
    """

    factor: Any = 1.0
    df: float = np.inf

    @classmethod
    def fit_scale(cls, z: FloatArray, coverage: float, weight: FloatArray | None) -> Calibration:
        score = conformal_score(z, coverage, weight)
        return cls(score / float(ndtri((1 + coverage) / 2))) if score > 0 else cls()

    @classmethod
    def fit_scale_and_tails(cls, z: FloatArray, coverage: float, weight: FloatArray | None) -> Calibration:
        """Return the most likely Student t distribution whose central intervals have the nominal coverage."""
        # Predicted standard deviations have errors, so standardized residuals have heavier tails than a
        # normal distribution. With a normal distribution, a factor that is right at one coverage would be
        # wrong at other coverages.
        score = conformal_score(z, coverage, weight)
        if not score > 0:
            return cls()
        df = _DEGREES_OF_FREEDOM[:, np.newaxis]
        scale = score / stdtrit(df, (1 + coverage) / 2)
        log_constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi)
        log_density = log_constant - np.log(scale) - (df + 1) / 2 * np.log1p(np.square(z / scale) / df)
        best = int(np.argmax(np.average(log_density, axis=1, weights=weight)))
        tail = float(_DEGREES_OF_FREEDOM[best])
        return cls(float(scale[best, 0]) * np.sqrt(tail / (tail - 2)), tail)

    def apply(self, loc: FloatArray, scale: FloatArray, epistemic: FloatArray | None = None) -> Distribution:
        if np.isinf(self.df):
            return Normal(loc, self.factor * scale, None if epistemic is None else self.factor * epistemic)
        width = self.factor * np.sqrt(1 - 2 / self.df)
        return StudentT(loc, width * scale, self.df, None if epistemic is None else width * epistemic)


@dataclass(frozen=True)
class FixedTails(Calibration):
    """Student t distributions with given degrees of freedom and with the predicted scales."""

    def apply(self, loc: FloatArray, scale: FloatArray, epistemic: FloatArray | None = None) -> Distribution:
        return StudentT(loc, scale, self.df, epistemic)


def conformal_score(z: FloatArray, coverage: float, weight: FloatArray | None) -> float:
    """Return the absolute residual with the rank ceil((n + 1) coverage), or the largest residual."""
    ranks = WeightedRanks(np.abs(z), weight)
    return min(float(ranks.quantile((ranks.total + 1) * coverage)), float(ranks.values[-1]))
