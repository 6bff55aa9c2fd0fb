"""Recalibration of the standard deviation by a smooth function of the prediction."""

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
        Always 2. A Distribution is treated as an array with two columns: mean and standard deviation.

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

    Cost: O(n m^2) time per iteration, in total about 0.5 s for 10 000 rows. Basis functions are computed in
    blocks of 2048 rows to save memory.

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
