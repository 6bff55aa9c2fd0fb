"""Student t distributions of new errors, for a scale that is estimated from few residuals.

If the scale of normal errors is estimated from n independent residuals, a new error divided by this scale has
a Student t distribution. Its degrees of freedom are n minus the number of fitted parameters. The predictive
distribution is an average of this Student t distribution and of the empirical distribution of the residuals.
The weight of the Student t distribution is constant (`PRIOR_ROWS` residuals), so its effect vanishes for
large n.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, stdtrit

from skuq._typing import FloatArray
from skuq.distributions._level_map import LevelMap
from skuq.distributions._numerics.levels import smaller_tail

PRIOR_ROWS = 20.0
"""Weight of the Student t distribution, as a number of residuals."""

_PARAMETERS = 3
"""Number of fitted parameters: the intercept, the slope, and the dependence on the number of rows."""

_DF_GRID = (3.0, 4.0, 6.0, 9.0, 15.0, 30.0, 100.0)
"""Candidates for the degrees of freedom. The tails range from heavy tails with a finite variance to nearly
normal tails."""

_MAX_STD_BIAS = 0.02
"""Largest accepted relative bias of the standard deviation of a sample.

The bias is about n^(2/df - 1) for n draws from a Student t distribution with df degrees of freedom. With a
larger limit, 90 % intervals from a StdScalingRecalibrator that is fitted to 300 rows would contain 87 % of
the targets.
"""

_TAIL_SCORES = np.arange(-6.0, 7.0)
"""Knots are added at these normal scores if the scores are outside the range of the residuals."""


def fit_student(z: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """Return the degrees of freedom and the scale of the most likely Student t distribution with center 0."""
    squared = np.square(z)
    share = np.full(len(z), 1 / len(z)) if weight is None else weight / weight.sum()
    n = len(z) if weight is None else float(weight.sum())
    settled = [df for df in _DF_GRID if n ** (2 / df - 1) <= _MAX_STD_BIAS]
    best = (-np.inf, np.inf, 1.0)
    for df in settled or _DF_GRID[-1:]:
        variance = float(share @ squared)
        for _ in range(20):  # The EM algorithm gives outliers smaller weights.
            variance = float(share @ (squared * (df + 1) / (df + squared / variance)))
        likelihood = (
            gammaln((df + 1) / 2)
            - gammaln(df / 2)
            - 0.5 * np.log(df * variance)
            - (df + 1) / 2 * float(share @ np.log1p(squared / (df * variance)))
        )
        best = max(best, (float(likelihood), df, float(np.sqrt(variance))))
    return best[1], best[2]


def predictive_df(n: float) -> float:
    return max(n - _PARAMETERS, 3.0)


def prior_share(n: float) -> float:
    return PRIOR_ROWS / (PRIOR_ROWS + n)


def predictive_scores(scores: FloatArray, n: float) -> FloatArray:
    return np.asarray(np.copysign(stdtrit(predictive_df(n), smaller_tail(scores)), scores))


def shrunk_level_map(level_map: LevelMap, n: float) -> LevelMap:
    own, share = level_map.pieces, prior_share(n)
    lowest, highest = own.values[0] - 0.5, own.values[-1] + 0.5
    beyond = _TAIL_SCORES[(_TAIL_SCORES - lowest) * (_TAIL_SCORES - highest) > 0]
    values = np.sort(np.concatenate([own.values, beyond]))
    scores = share * predictive_scores(values, n) + (1 - share) * own.inverse(values)
    return LevelMap.from_scores(scores, values, *own.slopes[[0, -1]])
