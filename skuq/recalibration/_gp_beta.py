"""Recalibration of bias, scale and skew as smooth functions of the prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtri

from skuq._typing import FloatArray, IntArray
from skuq._validation import effective_rows
from skuq.distributions import BetaRecalibrated, Distribution, LevelMap, Recalibrated
from skuq.distributions._pit import PER_ATOM, atom_points, pit_scores
from skuq.distributions._ranks import WeightedRanks
from skuq.recalibration._base import BaseRecalibrator
from skuq.recalibration._gp_cubature import expect, factorise, icosahedron, place_nodes
from skuq.recalibration._gp_engine import LatentPrior, Rows
from skuq.recalibration._gp_fit import describe, fit_field, read_rows
from skuq.recalibration._isotonic import centre_and_spread
from skuq.recalibration._residuals import outside_share
from skuq.recalibration._scaling import finite_std, overall_factor, read_spread

_PRIOR = LatentPrior(constants=np.array([1.5, 1.0, 3.0]), rates=np.array([2.0, 4.0, 1.0]))
"""Of latent scale, skew and shift, logarithms of exponents and log odds of a level."""

_LOGISTIC_MEDIAN = math.log(3.0)
"""Median of |log odds| of a uniform level."""

_NARROW = 2.0
"""Standard deviation of the normal scores above which they are standardised first."""

_LARGEST = 6.0
"""Logarithms of a and b are held here: 400 is enough for standard deviations 100 times too large."""

_FEW = 3
"""Fewer rows than this may share one target by chance."""


def _log_exponents(latent: FloatArray) -> FloatArray:
    """Return log a and log b of latent scale and skew, the first two rows."""
    both = np.stack([latent[0] + latent[1], latent[0] - latent[1]])
    return np.asarray(np.clip(both, -_LARGEST, _LARGEST))


@dataclass(frozen=True)
class BetaLikelihood:
    """Density of beta calibration over that of the base, at the levels that were observed.

    With t the level, the log density ratio is log(a / t + b / (1 - t)) + log s(z) + log s(-z), where
    z = a log t - b log(1 - t) + c and s is the logistic function.
    """

    log_lower: FloatArray
    log_upper: FloatArray

    @cached_property
    def _rule(self) -> tuple[FloatArray, FloatArray]:
        return icosahedron()

    def start(self, weight: FloatArray) -> FloatArray:
        """Return the best map of all rows, so that the search need not cross the scales between them.

        A model's standard deviations may be off by orders of magnitude, and its levels by thousands on the
        scale of log odds.
        """

        def cost(latent: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self.at(np.broadcast_to(latent[:, np.newaxis, np.newaxis], (3, 1, len(weight))))
            prior = latent / _PRIOR.constants**2
            return float(latent @ prior / 2 - value[0] @ weight), prior - slope[:, 0] @ weight

        odds = WeightedRanks(self.log_lower - self.log_upper, weight)
        size = WeightedRanks(np.abs(odds.values - odds.median), odds.weights).median / _LOGISTIC_MEDIAN
        starts = [np.zeros(3)]
        if size > 0:  # the log odds, standardised
            starts.append(np.array([-np.log(size), 0.0, -odds.median / size]))
        found = [minimize(cost, start, jac=True, method="L-BFGS-B") for start in starts]
        return np.asarray(min(found, key=lambda each: each.fun).x)

    def take(self, rows: IntArray) -> BetaLikelihood:
        """Return the likelihood of some of the rows."""
        return BetaLikelihood(self.log_lower[rows], self.log_upper[rows])

    def expect(
        self, rows: Rows, mean: FloatArray, covariance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E log p and its derivatives by cubature."""
        some = BetaLikelihood(self.log_lower[rows], self.log_upper[rows])
        return expect(some.at, mean, covariance, self._rule)

    def at(self, latent: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log density ratio and its gradient at latent values (3, nodes, n)."""
        log_a, log_b = _log_exponents(latent)
        lower, upper = np.exp(log_a) * self.log_lower, -np.exp(log_b) * self.log_upper
        z = lower + upper + latent[2]
        odds = log_a - self.log_lower - (log_b - self.log_upper)  # of a / t against b / (1 - t)
        share, soft_odds = _logistic(odds)
        level, soft_z = _logistic(z)
        value = log_b - self.log_upper + soft_odds + z - 2 * soft_z
        slope = 1 - 2 * level
        by_a, by_b = share + slope * lower, 1 - share + slope * upper
        return value, np.stack([by_a + by_b, by_a - by_b, slope])


def _logistic(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return 1 / (1 + exp(-x)) and log(1 + exp(x)) for one exponential."""
    small = np.exp(-np.abs(x))
    return np.where(x > 0, 1.0, small) / (1.0 + small), np.maximum(x, 0.0) + np.log1p(small)


class GPBetaRecalibrator(BaseRecalibrator):
    r"""Map the probability levels by a beta calibration map that depends smoothly on the prediction.

    It answers at which level the truth lies, for predictions like this one, when the model says 10 %,
    50 %, 90 %: bias, scale and skew, three numbers, each learnt as a function of predicted mean and
    standard deviation. So it mends a model that is too high here and too low there, as well as one
    that is too narrow in places. Three numbers cannot make two modes of one. Prefer `GPNormalRecalibrator`
    where only the scale is wrong or Gaussian distributions must come out, and `IsotonicRecalibrator` where
    the defect is the same for all predictions, whatever its form; with fewer than about 200 rows either is
    safer.

    Parameters
    ----------
    n_inducing_points : int, default=24
        At most so many predictions carry the functions. More follow wigglier ones, at a cost in
        proportion to the square.
    batch_size : int or None, default=None
        None sums over all rows in every step and stops at the optimum. An int takes random batches of
        so many rows, which is faster from about 20 000 rows on and somewhat less exact.
    max_iter : int or None, default=None
        Most iterations: None is 100 on all rows, of which 10 to 40 are usual, and 500 by batches, which
        are always used up.
    random_state : int, RandomState instance or None, default=None
        The batches; without ``batch_size`` nothing is random.

    Attributes
    ----------
    lengthscales_ : ndarray of shape (2,)
        Distance over which the map changes: in predicted mean, in the units of y, and in the natural
        logarithm of the predicted standard deviation.
    deviations_ : ndarray of shape (3,)
        Standard deviations of the latent scale, skew and shift over such distances and beyond; where all
        are near 0, one map for all rows is enough.
    inducing_points_ : ndarray of shape (m, 2)
        Means and standard deviations that carry the functions, in the units of y; m is smaller than
        ``n_inducing_points`` where fewer say the same.
    outside_share_ : float
        Share of the rows whose `y` lies where the model gives no probability at all, as below the
        smallest member of an ensemble. A map of levels cannot reach them; well above 0.1 no interval
        covers 90 %, and `fit` raises.
    lower_bound_ : float
        Evidence lower bound of the calibration rows' density over that of the model.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Always 2, the columns of a Distribution seen as an array.

    See Also
    --------
    GPNormalRecalibrator : The scale alone, with Gaussian output.
    IsotonicRecalibrator : One map of any form for all rows.
    skuq.distributions.BetaRecalibrated : What it returns.

    Notes
    -----
    The recalibrated distribution function [1]_ is

    .. math:: G(y) = s\{a \log F(y) - b \log[1 - F(y)] + c\}, \quad
        a = e^{w_1 + w_2}, \; b = e^{w_1 - w_2}, \; c = w_3,

    with :math:`s` the logistic function, and :math:`w_1, w_2, w_3` are each a constant plus a Gaussian
    process over the prediction, with mean 0, the identity. They are independent beforehand but not
    given the data, and correlations of the three are kept. The kernel, its inputs, inducing points and
    the search are those of `GPNormalRecalibrator`. The expected log-likelihood is taken at 13 nodes a
    row, exact for polynomials of degree five.

    What comes out averages G over the same 13 nodes of the posterior, a `BetaRecalibrated` that is
    evaluated on demand: against 200 000 draws its levels are right to 1e-4 among 1000 calibration rows,
    and to 0.01 far away from them, where the map is that of the constants.

    Where the normal scores of the levels spread more than twice as far as they should, they are first
    standardised by one straight map for all rows: beta maps of far too narrow a model have too sharp a peak,
    and 90 % intervals would cover 84 %. The search starts from the best map of all rows.

    Levels of exactly 0 or 1, as with ensembles, count evenly over the levels that such rows take up, and a
    target on an atom over the levels of the atom. A row predicted without uncertainty stays as it is; it is
    left out where the prediction is exact.

    Unlike netcal's GPBeta: three latent functions instead of multiples of one, an expectation instead
    of 128 draws, data in full against the prior whatever the batch, and no grid of 512 points.

    Cost: O(n m^2) time an iteration, about 2 s in all for 10 000 rows; memory for a block of 2048 rows.

    References
    ----------
    .. [1] H. Song, T. Diethe, M. Kull, P. Flach, "Distribution calibration for regression", ICML 2019,
       PMLR 97, eq. 5.

    Examples
    --------
    A model whose predictions are 1 too high where they are large, and right elsewhere:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import GPBetaRecalibrator
    >>> loc = np.linspace(-5, 5, 1000)
    >>> y = np.random.default_rng(0).normal(loc - (loc > 0), 1.0)
    >>> recalibrator = GPBetaRecalibrator().fit(Normal(loc, 1.0), y)
    >>> recalibrator.predict(Normal([-3.0, 3.0], 1.0)).round(1)
    array([-3.1,  2. ])
    """

    def __init__(
        self,
        *,
        n_inducing_points: int = 24,
        batch_size: int | None = None,
        max_iter: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_inducing_points = n_inducing_points
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        n = effective_rows(weight, len(y))
        spread = read_spread(dist, y, weight)
        if spread is not None and len(y) >= _FEW and y.min() == y.max():
            raise ValueError(
                f"`y` must take more than one value, got {y[0]:g} in all {len(y)} rows: every prediction "
                "would have a bias of its own and no noise. Use StdScalingRecalibrator, or fit on more rows."
            )
        self._field, self._rescaling, self.outside_share_ = None, None, 0.0
        if spread is not None:
            overall_factor(np.sign(spread.z), spread.weight)  # raises where all are exact
            lower, upper = pit_scores(spread.dist, spread.y)
            self.outside_share_ = outside_share(lower, upper, spread.weight, n, type(self).__name__)
            repeats = np.ones(len(lower)) if spread.weight is None else spread.weight
            self._rescaling = _rescaling(lower, upper, repeats, light_tails=spread.dist._light_tails)
            if self._rescaling is not None:
                lower, upper = (self._rescaling.pieces(score) for score in (lower, upper))
            row, score, share = _as_points(lower, upper, repeats)
            rescaled = self._rescaled(spread.dist)
            rows = read_rows(rescaled[row], np.stack([log_ndtr(score), log_ndtr(-score)]), share)
            self._field = fit_field(rows, BetaLikelihood(*rows.seen), _PRIOR, self)
        describe(self, self._field, _PRIOR)

    def _rescaled(self, dist: Distribution) -> Distribution:
        return dist if self._rescaling is None else Recalibrated(dist, self._rescaling)

    def _transform(self, dist: Distribution) -> Distribution:
        if self._field is None:  # fitted to exact point masses, which any map fits
            return dist
        dist = self._rescaled(dist)
        mean, covariance = self._field.at(dist.mean(), finite_std(dist))
        nodes, weights = icosahedron()
        latent = place_nodes(mean, factorise(covariance), nodes)
        a, b = np.exp(_log_exponents(latent))
        return BetaRecalibrated(dist, a.T, b.T, latent[2].T, weights)


def _rescaling(
    lower: FloatArray, upper: FloatArray, weight: FloatArray, *, light_tails: bool
) -> LevelMap | None:
    """Return the map that standardises the normal scores of the PIT, where they are far from standard.

    Three parameters on the scale of log odds follow a Gaussian scale only so far: several times too narrow a
    model would come out with too sharp a peak, and 90 % intervals cover 84 %.
    """
    score = (lower + upper)[np.isfinite(lower) & np.isfinite(upper)] / 2
    mass = weight[np.isfinite(lower) & np.isfinite(upper)]
    if not len(score):
        return None
    order = np.argsort(score)
    centre, spread = centre_and_spread(score[order], mass[order])
    if spread <= _NARROW:
        return None
    outer = 1 / spread if light_tails else 1.0
    ends = np.array([min(score.min(), centre - spread), max(score.max(), centre + spread)])
    return LevelMap.from_scores(ends, (ends - centre) / spread, outer, outer)


def _as_points(
    lower: FloatArray, upper: FloatArray, weight: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return row, normal score and weight of points that stand for the rows.

    A row on an atom is several points, evenly spaced over its levels; so is one out of reach, which lies
    somewhere in the levels that all such rows on its side take up.
    """
    total = weight.sum()
    below, above = upper == -np.inf, lower == np.inf
    upper = np.where(below, ndtri(weight[below].sum() / total), upper)
    lower = np.where(above, -ndtri(weight[above].sum() / total), lower)
    atom = lower < upper
    spread = atom_points(lower[atom], upper[atom])
    row = np.arange(len(lower))
    return (
        np.concatenate([row[~atom], np.repeat(row[atom], PER_ATOM)]),
        np.concatenate([lower[~atom], spread.ravel()]),
        np.concatenate([weight[~atom], np.repeat(weight[atom] / PER_ATOM, PER_ATOM)]),
    )
