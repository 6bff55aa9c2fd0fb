"""Recalibration of the standard deviation as a smooth function of the prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution
from skuq.recalibration._gp.base import GPRecalibrator
from skuq.recalibration._gp.engine import LatentPrior, Rows
from skuq.recalibration._gp.fit import CalibrationRows, log_size, read_rows
from skuq.recalibration._scaling import RowsWithUncertainty, ScalingRecalibrator, finite_std, overall_factor

_MAX_EXPONENT = 50.0
"""Limit of exponents that prevents overflow, far above all values that the search accepts."""


@dataclass(frozen=True)
class NormalLikelihood:
    """Likelihood of y ~ N(mu, s^2 exp(w)) given the latent w, up to a constant; z is (y - mu) / s."""

    log_square: FloatArray

    def start(self, weight: FloatArray) -> FloatArray:
        """Return the best constant log variance factor."""
        return np.array([logsumexp(self.log_square, b=weight) - np.log(weight.sum())])

    def take(self, rows: IntArray) -> NormalLikelihood:
        return NormalLikelihood(self.log_square[rows])

    def variational_expectations(
        self, rows: Rows, mean: FloatArray, covariance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E log p in closed form, -(m + z^2 exp(-m + v/2)) / 2, and its derivatives."""
        exponent = self.log_square[rows] - mean[0] + covariance[0, 0] / 2
        half = 0.5 * np.exp(np.minimum(exponent, _MAX_EXPONENT))
        return -0.5 * mean[0] - half, (half - 0.5)[np.newaxis], -half[np.newaxis, np.newaxis]


class GPNormalRecalibrator(GPRecalibrator, ScalingRecalibrator):
    r"""Multiply each standard deviation by a factor that depends smoothly on the prediction.

    The class corrects a model that is overconfident in one region and underconfident in another. The factor
    is a smooth function of predicted mean and standard deviation; `StdScalingRecalibrator` has one factor for
    all rows. Bias and shape are not corrected: means stay exactly the same, and a biased model only gets
    wider distributions. Prefer `GPBetaRecalibrator` if bias and skew depend on the prediction,
    `IsotonicRecalibrator` if they do not, and `StdScalingRecalibrator` with fewer than about 100 rows.

    Parameters
    ----------
    n_inducing_points : int, default=24
        Maximum number of inducing points. More points allow a less smooth function; the cost grows with
        their square.
    batch_size : int or None, default=None
        Number of rows of each stochastic gradient step. None uses all rows in every step and converges to the
        optimum; batches are faster from about 100 000 rows on, but less exact.
    max_iter : int or None, default=None
        Maximum number of iterations. None means at most 100 iterations on all rows (10 to 40 usually
        suffice), or exactly 500 iterations with batches.
    random_state : int, RandomState instance or None, default=None
        Seed of the batches; unused if ``batch_size`` is None.

    Attributes
    ----------
    lengthscales_ : ndarray of shape (2,)
        Distances over which the factor changes: in predicted mean, in the units of y, and in the natural
        logarithm of the predicted standard deviation.
    amplitudes_ : ndarray of shape (1,)
        Standard deviation of the log variance factor over the distances ``lengthscales_`` and beyond. If this
        number is near 0, one factor for all rows is enough.
    inducing_points_ : ndarray of shape (m, 2)
        Predicted means and standard deviations of the inducing points, in the units of y; m is smaller than
        ``n_inducing_points`` if fewer points explain the rows as well.
    elbo_ : float
        Evidence lower bound of the calibration rows, up to a constant that depends only on these rows.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Always 2, the columns of a Distribution as an array.

    See Also
    --------
    GPBetaRecalibrator : Bias, scale and skew that depend on the prediction.
    GPCauchyRecalibrator : Cauchy distributions whose scale depends on the prediction.
    StdScalingRecalibrator : One factor for all rows.

    Notes
    -----
    The model [1]_ is :math:`y_i \sim N(\mu_i, \sigma_i^2 e^{w(x_i)})`. Here
    :math:`x_i = (\mu_i / u, \log(\sigma_i / u))` with one scale :math:`u` for both. The result therefore does
    not depend on the units of y, and an input that varies little between rows has little influence. The
    function :math:`w` is a constant plus a Gaussian process with a Matérn kernel (5/2), one length scale per
    input, and inducing points [2]_. With mean :math:`m` and variance :math:`v` of :math:`w(x)` and
    :math:`z = (y - \mu) / \sigma`, the expected log-likelihood is

    .. math:: -\tfrac{1}{2} [\log 2 \pi \sigma^2 + m + z^2 e^{-m + v/2}].

    The objective is the sum of this expectation over all n rows minus the divergence from the prior. Natural
    gradients [3]_ maximize the objective over the posterior, and a quasi-Newton method over the three
    parameters of the kernel. The variance is multiplied by :math:`E \, e^w = e^{m + v/2}`. Far from all
    calibration rows only the constant determines the factor.

    For a family other than `Normal`, :math:`\sigma` is its standard deviation and the likelihood matches
    second moments. The distribution is scaled about its mean and keeps its shape. Point masses do not change.
    `fit` ignores point masses that equal their targets.

    The definition is from netcal's GPNormal. Differences: the data have their full weight relative to the
    prior with any batch size, units do not matter, expectations are exact, and the kernel separates rows of
    different :math:`\sigma`, which the published kernel hardly does.

    Cost: O(n m^2) time per iteration, half a second in total for 10 000 rows; memory for a block of 2048
    rows.

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
    A model that predicts a standard deviation of 1; the true one grows from 0.3 on the left to 3.5 on the
    right:

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
    """Prior of the log variance factor: one standard deviation is a scale factor of exp(3 / 2) = 4.5."""

    def _calibration_rows(self, spread: RowsWithUncertainty) -> CalibrationRows:
        overall_factor(spread.z, spread.weight)  # raises if the spread is 0 or infinite
        return read_rows(spread.dist, log_size(spread.z, spread.weight), spread.weight)

    def _likelihood(self, observed: FloatArray) -> NormalLikelihood:
        (log_abs_z,) = observed
        return NormalLikelihood(2 * log_abs_z)

    def _factors(self, dist: Distribution) -> FloatArray:
        if self._process is None:
            return np.asarray(1.0)
        mean, covariance = self._process.at(dist.mean(), finite_std(dist))
        # mean of the variance factor exp(w) under the normal posterior of w
        return np.asarray(np.exp((mean[0] + covariance[0, 0] / 2) / 2))
