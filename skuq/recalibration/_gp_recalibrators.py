"""Recalibrators by Gaussian processes: normal, Cauchy and beta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_ndtr, logsumexp, ndtri
from sklearn.utils.validation import check_is_fitted

from skuq._numeric import WeightedRanks
from skuq._typing import FloatArray, Frozen, IntArray
from skuq.distributions import Distribution, StudentT
from skuq.distributions._beta_recalibrated import BetaRecalibrated
from skuq.distributions._pit import pit_scores, spread_atoms
from skuq.recalibration._base import check_dist
from skuq.recalibration._gp import (
    LatentPrior,
    Rows,
    expect,
    factorize,
    gauss_hermite,
    icosahedron,
    place_nodes,
)
from skuq.recalibration._gp_fit import (
    CalibrationRows,
    GPRecalibrator,
    Standardization,
    check_variation,
    log_size,
    read_rows,
    standardization,
)
from skuq.recalibration._residuals import outside_share
from skuq.recalibration._scaling import RowsWithUncertainty, ScalingRecalibrator, finite_std, overall_factor

_MAX_EXPONENT = 50.0
"""Exponents are limited to this value to prevent overflow. The search rejects points with such large
values."""


@dataclass(frozen=True)
class NormalLikelihood:
    """Likelihood of y ~ N(mu, s^2 exp(w)). The observation is log |z| with z = (y - mu) / s."""

    log_square: FloatArray

    def start(self, weight: FloatArray) -> FloatArray:
        return np.array([logsumexp(self.log_square, b=weight) - np.log(weight.sum())])

    def take(self, rows: IntArray) -> NormalLikelihood:
        return NormalLikelihood(self.log_square[rows])

    def variational_expectations(
        self, rows: Rows, mean: FloatArray, covariance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E log p = -(m + z^2 exp(-m + v / 2)) / 2 + const and the gradients in closed form."""
        exponent = self.log_square[rows] - mean[0] + covariance[0, 0] / 2
        half = 0.5 * np.exp(np.minimum(exponent, _MAX_EXPONENT))
        return -0.5 * mean[0] - half, (half - 0.5)[np.newaxis], -half[np.newaxis, np.newaxis]


class GPNormalRecalibrator(GPRecalibrator, ScalingRecalibrator):
    r"""Multiply each standard deviation by a factor that depends smoothly on the prediction.

    The class corrects a model that is overconfident in one region and underconfident in another. The factor
    is a smooth function of the predicted mean and standard deviation. Means and shapes do not change. The
    distributions of a biased model become wider. Prefer `StdScalingRecalibrator` if there are fewer than
    about 100 rows. Prefer `GPBetaRecalibrator` if bias and skewness depend on the prediction. Prefer
    `IsotonicRecalibrator` if bias and skewness are the same for all predictions.

    Parameters
    ----------
    n_inducing_points : int, default=24
        Maximum number of inducing points. With more points, the function may be less smooth. The cost is
        proportional to the square of this number.
    batch_size : int or None, default=None
        Number of rows of each stochastic gradient step. With None, each step uses all rows, and the search
        converges to the optimum. With about 100 000 rows or more, batches are faster, but less exact.
    max_iter : int or None, default=None
        Maximum number of iterations. None means at most 100 iterations with all rows (usually, 10 to 40 are
        enough), or exactly 500 iterations with batches.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches. Not used if ``batch_size`` is None. An integer makes results reproducible.

    Attributes
    ----------
    lengthscales_ : ndarray of shape (2,)
        Distances between predictions over which the factor changes. The first distance is between predicted
        means, in the units of y. The second distance is between natural logarithms of predicted standard
        deviations.
    amplitudes_ : ndarray of shape (1,)
        Size of the variation of the log variance factor, as a standard deviation. It applies to distances of
        ``lengthscales_`` or more. If it is close to 0, one factor for all rows is sufficient.
    inducing_points_ : ndarray of shape (m, 2)
        Predicted means and standard deviations of the inducing points, in the units of y. m is smaller than
        ``n_inducing_points`` if fewer points are sufficient.
    elbo_ : float
        Evidence lower bound for the calibration rows, up to a constant that depends only on these rows.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    GPBetaRecalibrator : Bias, scale and skewness that depend on the prediction.
    GPCauchyRecalibrator : Cauchy distributions with a scale that depends on the prediction.
    StdScalingRecalibrator : One factor for all standard deviations.

    Notes
    -----
    The model [1]_ is :math:`y_i \sim N(\mu_i, \sigma_i^2 e^{w(x_i)})` with the inputs :math:`x_i = (\mu_i /
    u, \log(\sigma_i / u))`. Both inputs are divided by the same scale :math:`u`. Therefore, the result does
    not depend on the units of y, and an input that varies little between rows has little influence. The
    function :math:`w` is a constant plus a Gaussian process with a Matérn kernel (5/2), one length scale per
    input, and inducing points [2]_. Let :math:`m` and :math:`v` be the mean and the variance of :math:`w(x)`,
    and :math:`z = (y - \mu) / \sigma`. The expected log-likelihood is

    .. math:: -\tfrac{1}{2} [\log 2 \pi \sigma^2 + m + z^2 e^{-m + v/2}].

    The objective is the sum of this expectation over the n rows, minus the divergence from the prior. Natural
    gradients [3]_ maximize the objective over the posterior, and a quasi-Newton method maximizes it over the
    three parameters of the kernel. The variance is multiplied by :math:`E \, e^w = e^{m + v/2}`. Far from all
    calibration rows, only the constant determines this factor.

    For a family other than `Normal`, :math:`\sigma` is the standard deviation of the distribution, and the
    likelihood of a normal distribution is used. The distribution is scaled about its mean and keeps its
    shape. Point masses do not change. `fit` ignores rows whose target equals a predicted point mass.

    There are four differences from GPNormal in netcal. The weight of the data relative to the prior does not
    depend on the batch size. The result does not depend on the units. Expectations are exact. The kernel
    distinguishes rows with different :math:`\sigma`. The published kernel hardly distinguishes such rows.

    Cost: O(n m^2) time per iteration. Basis functions are computed in blocks of 2048 rows to save memory.

    References
    ----------
    .. [1] F. Küppers, J. Schneider, A. Haselhoff, "Parametric and multivariate uncertainty calibration
       for regression and object detection", ECCV Workshops 2022.
       https://doi.org/10.1007/978-3-031-25072-9_30
    .. [2] J. Hensman, A. Matthews, Z. Ghahramani, "Scalable variational Gaussian process
       classification", AISTATS 2015, PMLR 38.
    .. [3] M. E. Khan, W. Lin, "Conjugate-computation variational inference", AISTATS 2017, PMLR 54.

    Examples
    --------
    This model predicts a standard deviation of 1. The true standard deviation grows from 0.3 on the left to
    3.5 on the right:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import GPNormalRecalibrator
    >>> loc = np.linspace(-5, 5, 2000)
    >>> truth = np.exp(loc / 4)
    >>> y = np.random.default_rng(0).normal(loc, truth)
    >>> recalibrator = GPNormalRecalibrator().fit(Normal(loc, 1.0), y)
    >>> recalibrator.transform(Normal([-3.0, 3.0], 1.0)).std().round(1), truth[[400, 1600]].round(1)
    (array([0.5, 2.2]), array([0.5, 2.1]))
    """

    _prior = LatentPrior(constants=np.array([3.0]), rates=np.array([1.0]))
    """Prior of the log variance factor. A standard deviation of 3 corresponds to a scale factor of exp(3 / 2)
    = 4.5."""

    def _calibration_rows(self, spread: RowsWithUncertainty) -> CalibrationRows:
        overall_factor(spread.z, spread.weight)
        return read_rows(spread.dist, log_size(spread.z, spread.weight), spread.weight)

    def _likelihood(self, observed: FloatArray) -> NormalLikelihood:
        (log_abs_z,) = observed
        return NormalLikelihood(2 * log_abs_z)

    def _factors(self, dist: Distribution) -> FloatArray:
        if self._process is None:
            return np.asarray(1.0)
        mean, covariance = self._process.at(dist.mean(), finite_std(dist))
        # mean of exp(w) under the normal posterior of w
        return np.asarray(np.exp((mean[0] + covariance[0, 0] / 2) / 2))


_NODES = 16


@dataclass(frozen=True)
class CauchyLikelihood:
    """Likelihood of y ~ Cauchy(mu, s exp(w)). The observation is log |z| with z = (y - mu) / s."""

    log_size: FloatArray

    @cached_property
    def _rule(self) -> tuple[FloatArray, FloatArray]:
        return gauss_hermite(_NODES)

    def start(self, weight: FloatArray) -> FloatArray:
        return np.array([WeightedRanks(self.log_size, weight).median])

    def take(self, rows: IntArray) -> CauchyLikelihood:
        return CauchyLikelihood(self.log_size[rows])

    def variational_expectations(
        self, rows: Rows, mean: FloatArray, covariance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        some = CauchyLikelihood(self.log_size[rows])
        return expect(some.at, mean, covariance, self._rule)

    def at(self, latent: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return -w - log(1 + z^2 exp(-2 w)) and its derivative at latent values of shape (1, nodes, n)."""
        twice = 2 * (self.log_size - latent)
        return -latent[0] - np.logaddexp(0.0, twice[0]), 2 * expit(twice) - 1


class GPCauchyRecalibrator(GPRecalibrator):
    r"""Replace each distribution with a Cauchy distribution whose scale depends smoothly on the prediction.

    Use this class only in the rare case that some predictions are wrong by orders of magnitude. The tails of
    a Cauchy distribution are so heavy that a gross outlier hardly changes the fit. For ordinary data, 90 %
    intervals become more than 1.5 times as wide as needed, and intervals with a low coverage become too
    narrow. Use `GPNormalRecalibrator` if a Cauchy distribution does not clearly fit the residuals better.
    Prefer `IsotonicRecalibrator` or `EmpiricalRecalibrator` to estimate the tails from the data. Prefer
    ``StdScalingRecalibrator(robust=True)`` if the outliers are errors in the data.

    Parameters
    ----------
    n_inducing_points : int, default=24
        Maximum number of inducing points. With more points, the function may be less smooth. The cost is
        proportional to the square of this number.
    batch_size : int or None, default=None
        Number of rows of each stochastic gradient step. With None, each step uses all rows, and the search
        converges to the optimum. With about 50 000 rows or more, batches are faster, but less exact.
    max_iter : int or None, default=None
        Maximum number of iterations. None means at most 100 iterations with all rows (usually, 10 to 40 are
        enough), or exactly 500 iterations with batches.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches. Not used if ``batch_size`` is None. An integer makes results reproducible.

    Attributes
    ----------
    lengthscales_ : ndarray of shape (2,)
        Distances between predictions over which the factor changes. The first distance is between predicted
        means, in the units of y. The second distance is between natural logarithms of predicted standard
        deviations.
    amplitudes_ : ndarray of shape (1,)
        Size of the variation of the log scale factor, as a standard deviation. It applies to distances of
        ``lengthscales_`` or more. If it is close to 0, one factor for all rows is sufficient.
    inducing_points_ : ndarray of shape (m, 2)
        Predicted means and standard deviations of the inducing points, in the units of y. m is smaller than
        ``n_inducing_points`` if fewer points are sufficient.
    elbo_ : float
        Evidence lower bound for the calibration rows, up to a constant that depends only on these rows.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    GPNormalRecalibrator : A factor of the scale. The shape does not change.
    EmpiricalRecalibrator : The distribution of the standardized residuals.

    Notes
    -----
    The model [1]_ is :math:`y_i \sim \mathrm{Cauchy}(\mu_i, \sigma_i e^{w(x_i)})`, where :math:`\mu_i` and
    :math:`\sigma_i` are the mean and the standard deviation of the prediction, and :math:`w` is a smooth
    function as in `GPNormalRecalibrator`. The log-likelihood is concave in :math:`w`. The expected
    log-likelihood is computed by Gauss-Hermite quadrature with 16 nodes. The result is ``StudentT(mean,
    scale, df=1)`` with the scale :math:`\sigma \, E \, e^w`. A 90 % interval is the mean plus or minus 6.3
    scales.

    A Cauchy distribution has neither a mean nor a standard deviation, so metrics that need moments raise an
    error. `predict` returns the mean of the original distribution, which is the median of the Cauchy
    distribution. The class also changes a calibrated normal model. Point masses do not change.

    Cost: O(n m^2) time per iteration. Basis functions are computed in blocks of 2048 rows to save memory.

    References
    ----------
    .. [1] F. Küppers, J. Schneider, A. Haselhoff, "Parametric and multivariate uncertainty calibration
       for regression and object detection", ECCV Workshops 2022.
       https://doi.org/10.1007/978-3-031-25072-9_30

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import GPCauchyRecalibrator
    >>> rng = np.random.default_rng(0)
    >>> loc = rng.normal(size=500)
    >>> y = loc + 0.3 * rng.standard_cauchy(size=500)
    >>> recalibrated = GPCauchyRecalibrator().fit(Normal(loc, 1.0), y).transform(Normal([0.0], 1.0))
    >>> recalibrated.scale.round(1), recalibrated.interval(0.9).round(0)
    (array([0.3]), array([[-2.,  2.]]))
    """

    _prior = LatentPrior(constants=np.array([1.5]), rates=np.array([2.0]))
    """Prior of the log scale factor. A standard deviation of 1.5 corresponds to a factor of 4.5."""

    def _calibration_rows(self, spread: RowsWithUncertainty) -> CalibrationRows:
        overall_factor(np.sign(spread.z), spread.weight)  # raises if all residuals are 0
        return read_rows(spread.dist, log_size(spread.z, spread.weight), spread.weight)

    def _likelihood(self, observed: FloatArray) -> CauchyLikelihood:
        return CauchyLikelihood(observed[0])

    def _transform(self, dist: Distribution) -> Distribution:
        mean, std = dist.mean(), finite_std(dist)
        if self._process is None:
            return StudentT(mean, std, 1.0)
        latent, covariance = self._process.at(mean, std)
        # mean of exp(w) under the normal posterior of w
        return StudentT(mean, std * np.exp(latent[0] + covariance[0, 0] / 2), 1.0)

    def predict(self, dist: Distribution | Frozen) -> FloatArray:
        """Return the mean of `dist`, which is the median of the recalibrated distribution.

        Parameters
        ----------
        dist : Distribution or frozen scipy distribution of n rows
            Predictions of the model for which the recalibrator was fitted.

        Returns
        -------
        y_pred : ndarray of shape (n,)
            In the units of `dist`.
        """
        check_is_fitted(self)
        return check_dist(dist).mean()


_PRIOR = LatentPrior(constants=np.array([1.5, 1.0, 3.0]), rates=np.array([2.0, 4.0, 1.0]))
"""Prior of the latent scale, the latent skewness and the latent shift in log odds. The exponents depend on
the scale and the skewness."""

_LOGISTIC_MEDIAN = math.log(3.0)
"""Median of the absolute log odds of a level that is uniformly distributed on [0, 1]."""

_LARGEST = 6.0
"""Largest absolute value of the logarithms of the exponents a and b (see `BetaLikelihood`). For standardized
predictions, the values are much smaller."""

_ON_ATOMS = 0.1
"""If a larger share of the targets is on atoms, predictions are not standardized, because atoms would
move."""


def _log_exponents(latent: FloatArray) -> FloatArray:
    both = np.stack([latent[0] + latent[1], latent[0] - latent[1]])
    return np.asarray(np.clip(both, -_LARGEST, _LARGEST))


@dataclass(frozen=True)
class BetaLikelihood:
    """Ratio of the recalibrated density to the original density, at the PIT values."""

    # With the level t and z = a log t - b log(1 - t) + c, the logarithm of the ratio is log(a / t + b / (1 -
    # t)) + log s(z) + log s(-z), where s is the logistic function.

    log_lower: FloatArray
    log_upper: FloatArray

    @cached_property
    def _rule(self) -> tuple[FloatArray, FloatArray]:
        return icosahedron()

    def start(self, weight: FloatArray) -> FloatArray:
        """Return the best common map for all rows, because the identity may be far from the optimum."""

        def cost(latent: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self.at(np.broadcast_to(latent[:, np.newaxis, np.newaxis], (3, 1, len(weight))))
            prior = latent / _PRIOR.constants**2
            return float(latent @ prior / 2 - value[0] @ weight), prior - slope[:, 0] @ weight

        odds = WeightedRanks(self.log_lower - self.log_upper, weight)
        size = WeightedRanks(np.abs(odds.values - odds.median), odds.weights).median / _LOGISTIC_MEDIAN
        starts = [np.zeros(3)]
        if size > 0:  # a map that standardizes the log odds
            starts.append(np.array([-np.log(size), 0.0, -odds.median / size]))
        found = [minimize(cost, start, jac=True, method="L-BFGS-B") for start in starts]
        return np.asarray(min(found, key=lambda each: each.fun).x)

    def take(self, rows: IntArray) -> BetaLikelihood:
        return BetaLikelihood(self.log_lower[rows], self.log_upper[rows])

    def variational_expectations(
        self, rows: Rows, mean: FloatArray, covariance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        some = BetaLikelihood(self.log_lower[rows], self.log_upper[rows])
        return expect(some.at, mean, covariance, self._rule)

    def at(self, latent: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log density ratio and its gradient at latent values of shape (3, nodes, n)."""
        log_a, log_b = _log_exponents(latent)
        lower, upper = np.exp(log_a) * self.log_lower, -np.exp(log_b) * self.log_upper
        z = lower + upper + latent[2]
        odds = log_a - self.log_lower - (log_b - self.log_upper)  # log((a / t) / (b / (1 - t)))
        share, soft_odds = _logistic(odds)
        level, soft_z = _logistic(z)
        value = log_b - self.log_upper + soft_odds + z - 2 * soft_z
        slope = 1 - 2 * level
        by_a, by_b = share + slope * lower, 1 - share + slope * upper
        return value, np.stack([by_a + by_b, by_a - by_b, slope])


def _logistic(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    small = np.exp(-np.abs(x))
    return np.where(x > 0, 1.0, small) / (1.0 + small), np.maximum(x, 0.0) + np.log1p(small)


class GPBetaRecalibrator(GPRecalibrator):
    r"""Recalibrate the probability levels with a beta map that depends smoothly on the prediction.

    The map is a function from probability levels to probability levels. For each predicted quantile, it
    estimates the share of targets below this quantile among rows with similar predictions. The map has three
    parameters: bias, scale and skewness. Each parameter is a smooth function of the predicted mean and
    standard deviation, so the map corrects errors that differ between regions. The map cannot change the
    number of modes of a distribution. Prefer `GPNormalRecalibrator` if only the scale is wrong, or if the
    result must be normal. Prefer `IsotonicRecalibrator` if the errors are the same for all predictions. With
    fewer than about 200 rows, both alternatives are safer.

    Parameters
    ----------
    n_inducing_points : int, default=24
        Maximum number of inducing points. With more points, the functions may be less smooth. The cost is
        proportional to the square of this number.
    batch_size : int or None, default=None
        Number of rows of each stochastic gradient step. With None, each step uses all rows, and the search
        converges to the optimum. With about 20 000 rows or more, batches are faster, but less exact.
    max_iter : int or None, default=None
        Maximum number of iterations. None means at most 100 iterations with all rows (usually, 10 to 40 are
        enough), or exactly 500 iterations with batches.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches. Not used if ``batch_size`` is None. An integer makes results reproducible.

    Attributes
    ----------
    lengthscales_ : ndarray of shape (2,)
        Distances between predictions over which the map changes. The first distance is between predicted
        means, in the units of y. The second distance is between natural logarithms of predicted standard
        deviations.
    amplitudes_ : ndarray of shape (3,)
        Sizes of the variation of the latent scale, skewness and shift, as standard deviations. The map varies
        by these sizes between predictions whose distances are at least ``lengthscales_``. If all amplitudes
        are close to 0, one map for all rows is sufficient.
    inducing_points_ : ndarray of shape (m, 2)
        Predicted means and standard deviations of the inducing points, in the units of y. m is smaller than
        ``n_inducing_points`` if fewer points are sufficient.
    outside_share_ : float
        Share of the rows whose target is outside the support of the distribution after standardization (see
        Notes), for example below the smallest member of an ensemble. No map of the probability levels
        corrects these rows. If the share is well above 0.1, 90 % intervals cannot cover 90 %, and `fit`
        raises an error.
    elbo_ : float
        Evidence lower bound for the calibration rows, relative to their density under the model.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    GPNormalRecalibrator : A factor of the scale. Normal distributions stay normal.
    IsotonicRecalibrator : One increasing function of the probability levels for all rows.
    BetaRecalibrated : The returned distribution.

    Notes
    -----
    The recalibrated distribution function [1]_ is

    .. math:: G(y) = s\{a \log F(y) - b \log[1 - F(y)] + c\}, \quad
        a = e^{w_1 + w_2}, \; b = e^{w_1 - w_2}, \; c = w_3,

    where :math:`s` is the logistic function. Each of :math:`w_1, w_2, w_3` is a constant plus a Gaussian
    process of the prediction. The prior mean of these functions is 0, which gives the identity map. The three
    processes are independent a priori, but not in the posterior. The kernel, the inputs, the inducing points
    and the search are the same as in `GPNormalRecalibrator`. The expected log-likelihood is computed with 13
    nodes per row. This cubature rule is exact for polynomials up to degree five.

    The result is a `BetaRecalibrated` distribution: the average of G over the same 13 nodes of the posterior.
    Far from all calibration rows, only the constants determine the map.

    If the scale of the model is wrong by a factor above 2, or its location by more than 2 scales, the
    predictions are first standardized with one affine map for all rows. After this map, predictions and
    targets have the same median and the same range from the 20 % to the 80 % quantile. The family of the
    distribution does not change. For a `Transformed` distribution, the affine map is applied before the
    transformation of the target. The inputs of the process and ``inducing_points_`` then refer to the
    standardized predictions. Predictions are not standardized if more than a tenth of the targets are on
    atoms. The search starts at the best map that is common to all rows.

    A target outside the support, which may occur for an ensemble, has the level 0 or 1. If a share s of the
    targets is below the support, these targets are distributed evenly over the levels from 0 to s. Targets
    above the support are treated in the same way. If a target equals an atom, it is distributed evenly over
    the levels of the atom. Point masses do not change. `fit` ignores rows whose target equals a predicted
    point mass.

    There are four differences from GPBeta in netcal. The three latent functions are separate instead of
    multiples of one function. Expectations are computed by cubature instead of from 128 draws. The weight of
    the data relative to the prior does not depend on the batch size. The distribution is evaluated exactly
    instead of on a grid of 512 points.

    Cost: O(n m^2) time per iteration. Basis functions are computed in blocks of 2048 rows to save memory.

    References
    ----------
    .. [1] H. Song, T. Diethe, M. Kull, P. Flach, "Distribution calibration for regression", ICML 2019,
       PMLR 97, eq. 5.

    Examples
    --------
    The positive predictions of this model are too high by 1:

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

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        self._standardization, self.outside_share_ = Standardization(), 0.0
        super()._fit(dist, y, weight)

    def _calibration_rows(self, spread: RowsWithUncertainty) -> CalibrationRows:
        """Return the rows for the likelihood, with predictions standardized if needed.

        A target on an atom becomes several rows with levels inside the atom.
        """
        dist, y, weight = spread.dist, spread.y, spread.weight
        overall_factor(np.sign(spread.z), weight)  # raises if all residuals are 0
        lower, upper = pit_scores(dist, y)
        on_atoms = lower < upper
        if not on_atoms.all():
            rows = np.flatnonzero(~on_atoms)
            check_variation(dist[rows], y[rows], weight[rows])
        if weight[on_atoms].sum() <= _ON_ATOMS * weight.sum():
            self._standardization = standardization(dist, y, weight)
            if self._standardization.changes:
                dist = self._standardization(dist)
                lower, upper = pit_scores(dist, y)
        self.outside_share_ = outside_share(lower, upper, weight, spread.rows, type(self).__name__)
        row, score, share = spread_atoms(*_bounded(lower, upper, weight), weight)
        return read_rows(dist[row], np.stack([log_ndtr(score), log_ndtr(-score)]), share)

    def _likelihood(self, observed: FloatArray) -> BetaLikelihood:
        return BetaLikelihood(*observed)

    def _transform(self, dist: Distribution) -> Distribution:
        if self._process is None:
            return dist
        dist = self._standardization(dist)
        mean, covariance = self._process.at(dist.mean(), finite_std(dist))
        nodes, weights = icosahedron()
        latent = place_nodes(mean, factorize(covariance), nodes)
        a, b = np.exp(_log_exponents(latent))
        return BetaRecalibrated(dist, a.T, b.T, latent[2].T, weights)


def _bounded(lower: FloatArray, upper: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Spread the normal scores of targets outside the support over the outermost levels."""
    total = weight.sum()
    below, above = upper == -np.inf, lower == np.inf
    return (
        np.where(above, -ndtri(weight[above].sum() / total), lower),
        np.where(below, ndtri(weight[below].sum() / total), upper),
    )
