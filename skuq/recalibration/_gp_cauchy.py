"""Recalibration to Cauchy distributions with a scale that is a smooth function of the prediction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from skuq._ranks import WeightedRanks
from skuq._typing import FloatArray, IntArray
from skuq.distributions import Distribution, StudentT
from skuq.recalibration._base import check_dist
from skuq.recalibration._gp.base import GPRecalibrator
from skuq.recalibration._gp.cubature import expect, gauss_hermite
from skuq.recalibration._gp.engine import LatentPrior, Rows
from skuq.recalibration._gp.fit import CalibrationRows, log_size, read_rows
from skuq.recalibration._scaling import RowsWithUncertainty, finite_std, overall_factor

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
        Always 2. A Distribution is treated as an array with two columns: mean and standard deviation.

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

    Cost: O(n m^2) time per iteration, in total about 0.5 s for 10 000 rows. Basis functions are computed in
    blocks of 2048 rows to save memory.

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

    def predict(self, dist: Any) -> FloatArray:
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
