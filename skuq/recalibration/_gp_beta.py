"""Recalibration of bias, scale and skew as smooth functions of the prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtri

from skuq._typing import FloatArray, IntArray
from skuq.distributions import BetaRecalibrated, Distribution
from skuq.distributions._numerics.ranks import WeightedRanks
from skuq.distributions._pit import pit_scores, spread_atoms
from skuq.recalibration._gp.base import GPRecalibrator
from skuq.recalibration._gp.cubature import expect, factorise, icosahedron, place_nodes
from skuq.recalibration._gp.engine import LatentPrior, Rows
from skuq.recalibration._gp.fit import CalibrationRows, read_rows
from skuq.recalibration._gp.standardisation import Standardisation, check_variation, standardisation
from skuq.recalibration._residuals import outside_share
from skuq.recalibration._scaling import Spread, finite_std, overall_factor

_PRIOR = LatentPrior(constants=np.array([1.5, 1.0, 3.0]), rates=np.array([2.0, 4.0, 1.0]))
"""Of latent scale, skew and shift, logarithms of exponents and log odds of a level."""

_LOGISTIC_MEDIAN = math.log(3.0)
"""Median of |log odds| of a uniform level."""

_LARGEST = 6.0
"""Logarithms of a and b are held here, out of reach once predictions are standardised."""

_ON_ATOMS = 0.1
"""Share of the targets on atoms above which predictions are not standardised, which would move the atoms."""


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

    def variational_expectations(
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


class GPBetaRecalibrator(GPRecalibrator):
    r"""Map the probability levels by a beta calibration map that depends smoothly on the prediction.

    The map gives, for predictions like this one, the observed level of the model's 10 %, 50 % and 90 %
    quantiles. Its three parameters, which stand for bias, scale and skew, are each learnt as a function of
    predicted mean and standard deviation. It corrects a model that is too high in one region and too low in
    another, as well as one that is too narrow in places. Three parameters cannot make two modes of one.
    Prefer `GPNormalRecalibrator` where only the scale is wrong or Gaussian distributions must come out, and
    `IsotonicRecalibrator` where the defect is the same for all predictions, whatever its form; with fewer
    than about 200 rows either is safer.

    Parameters
    ----------
    n_inducing_points : int, default=24
        Maximum number of inducing points. More points allow a less smooth functions; the cost grows with
        their square.
    batch_size : int or None, default=None
        Number of rows of each stochastic gradient step. None uses all rows in every step and converges to
        the optimum; batches are faster from about 20 000 rows on, and somewhat less exact.
    max_iter : int or None, default=None
        Maximum number of iterations. None means 100 on all rows, of which 10 to 40 are usual, and 500 with
        batches, which are always used up.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches; unused if ``batch_size`` is None.

    Attributes
    ----------
    lengthscales_ : ndarray of shape (2,)
        Distance over which the map changes: in predicted mean, in the units of y, and in the natural
        logarithm of the predicted standard deviation.
    amplitudes_ : ndarray of shape (3,)
        Standard deviations of the latent scale, skew and shift over such distances and beyond; where all
        are near 0, one map for all rows is enough.
    inducing_points_ : ndarray of shape (m, 2)
        Means and standard deviations that carry the functions, in the units of y; m is smaller than
        ``n_inducing_points`` where fewer explain the rows as well.
    outside_share_ : float
        Share of the rows whose `y` lies where the model gives no probability at all, as below the
        smallest member of an ensemble, after standardising (see Notes). A map of levels cannot reach them;
        well above 0.1 no interval covers 90 %, and `fit` raises.
    elbo_ : float
        Evidence lower bound of the calibration rows' density over that of the model.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Always 2, the columns of a Distribution as an array.

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

    Where the model's scale is off by a factor above 2, or its location by more than 2 scales, predictions are
    first standardised by one affine change for all rows, which keeps the family: their median and their range
    from the 20 % to the 80 % quantile are matched with those of the targets, before a transformation of the
    target if there is one. Inputs of the process and ``inducing_points_`` are then those of the standardised
    predictions. Predictions whose targets lie on atoms in more than a tenth of the rows are not
    standardised. The search starts from the best map of all rows.

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

    _prior = _PRIOR

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        self._standardisation, self.outside_share_ = Standardisation(), 0.0
        super()._fit(dist, y, weight)

    def _calibration_rows(self, spread: Spread) -> CalibrationRows:
        """Standardise the predictions and return log levels of the targets, atoms and ends spread out."""
        dist, y = spread.dist, spread.y
        overall_factor(np.sign(spread.z), spread.weight)  # raises where all are exact
        weight = np.ones(len(y)) if spread.weight is None else spread.weight
        lower, upper = pit_scores(dist, y)
        on_atoms = lower < upper
        if not on_atoms.all():
            rows = np.flatnonzero(~on_atoms)
            check_variation(dist[rows], y[rows], weight[rows])
        if weight[on_atoms].sum() <= _ON_ATOMS * weight.sum():
            self._standardisation = standardisation(dist, y, weight)
            if self._standardisation.changes:
                dist = self._standardisation(dist)
                lower, upper = pit_scores(dist, y)
        self.outside_share_ = outside_share(lower, upper, spread.weight, spread.rows, type(self).__name__)
        row, score, share = spread_atoms(*_bounded(lower, upper, weight), weight)
        return read_rows(dist[row], np.stack([log_ndtr(score), log_ndtr(-score)]), share)

    def _likelihood(self, observed: FloatArray) -> BetaLikelihood:
        return BetaLikelihood(*observed)

    def _transform(self, dist: Distribution) -> Distribution:
        if self._process is None:
            return dist
        dist = self._standardisation(dist)
        mean, covariance = self._process.at(dist.mean(), finite_std(dist))
        nodes, weights = icosahedron()
        latent = place_nodes(mean, factorise(covariance), nodes)
        a, b = np.exp(_log_exponents(latent))
        return BetaRecalibrated(dist, a.T, b.T, latent[2].T, weights)


def _bounded(lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return normal scores in which a target beyond the support has a range of levels.

    It lies somewhere in the levels that all such rows on its side take up.
    """
    total = weight.sum()
    below, above = upper == -np.inf, lower == np.inf
    return (
        np.where(above, -ndtri(weight[above].sum() / total), lower),
        np.where(below, ndtri(weight[below].sum() / total), upper),
    )
