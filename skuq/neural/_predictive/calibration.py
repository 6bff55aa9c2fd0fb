"""Scale and tails of a predictive distribution, from rows that the model is not trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtri, stdtrit

from skuq._typing import FloatArray
from skuq.distributions import Distribution, Normal, StudentT
from skuq.distributions._numerics.ranks import WeightedRanks

__all__ = ["Calibration", "FixedTails", "conformal_score"]

_DEGREES_OF_FREEDOM = np.array([3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0])
"""From the heaviest tails whose variance can be estimated to those of a normal distribution."""


@dataclass(frozen=True)
class Calibration:
    """Factor of the standard deviations, and tails; the default changes nothing.

    Attributes
    ----------
    factor : float
        Above 1 the raw model was over-confident.
    df : float
        Degrees of freedom of a Student t distribution; infinite is a normal one.
    """

    factor: float = 1.0
    df: float = np.inf

    @classmethod
    def of_scale(cls, z: FloatArray, coverage: float, weight: FloatArray | None) -> Calibration:
        """Return the factor at which central intervals of normal distributions cover.

        Parameters
        ----------
        z : ndarray of shape (n,)
            Residuals of unseen rows, in standard deviations.
        coverage : float
            Coverage of the intervals that the factor is chosen by.
        weight : ndarray of shape (n,) or None
            Number of rows that each stands for.
        """
        score = conformal_score(z, coverage, weight)
        return cls(score / float(ndtri((1 + coverage) / 2))) if score > 0 else cls()

    @classmethod
    def of_scale_and_tails(cls, z: FloatArray, coverage: float, weight: FloatArray | None) -> Calibration:
        """Return the most likely of the Student t distributions whose central intervals cover.

        Residuals in units of a predicted spread have heavier tails than a normal distribution, because
        the prediction is off. A factor alone that is right at one coverage is then wrong at others.
        """
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
        """Return the distribution with mean ``loc``, and standard deviations multiplied by the factor."""
        if np.isinf(self.df):
            return Normal(loc, self.factor * scale, None if epistemic is None else self.factor * epistemic)
        width = self.factor * np.sqrt(1 - 2 / self.df)
        return StudentT(loc, width * scale, self.df, None if epistemic is None else width * epistemic)


@dataclass(frozen=True)
class FixedTails(Calibration):
    """Student t distributions of given degrees of freedom, whose scales are the predicted ones."""

    def apply(self, loc: FloatArray, scale: FloatArray, epistemic: FloatArray | None = None) -> Distribution:
        return StudentT(loc, scale, self.df, epistemic)


def conformal_score(z: FloatArray, coverage: float, weight: FloatArray | None) -> float:
    """Return the absolute residual of rank ceil((n + 1) coverage), as in split conformal prediction.

    Within so many standard deviations a new row falls with at least that probability. With too few rows
    for the rank it is the largest.
    """
    ranks = WeightedRanks(np.abs(z), weight)
    return min(float(ranks.quantile((ranks.total + 1) * coverage)), float(ranks.values[-1]))
