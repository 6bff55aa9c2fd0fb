r"""The variance of a forest's prediction by the infinitesimal jackknife (Wager, Hastie and Efron 2014).

The published sum over training rows of squared covariances is a quadratic form in the predictions of the
trees: with :math:`a_b = t_b(x) - \bar t(x)` and the bootstrap counts N, it is :math:`a^T K a / B^2`, where
:math:`K = \sum_i (N_i - \bar N_i)(N_i - \bar N_i)^T` is a matrix of trees by trees that does not depend on x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.regressors._forest.leaf_weights import row_blocks

__all__ = ["InfinitesimalJackknife"]


@dataclass(frozen=True, eq=False)
class InfinitesimalJackknife:
    """The bias-corrected variance of a forest's prediction, and its shrinkage.

    Attributes
    ----------
    gram : ndarray of shape (B, B)
        Products of the trees' centred bootstrap counts, summed over the training rows.
    n_draws : float
        Rows that a tree draws, each divided by its weight: n without weights.
    n_rows : int
        Training rows.
    ratio : float
        Mean of the variance divided by the mean variance between trees, expected from out-of-bag rows.
    ratio_variance : float
        Variance of this ratio over rows, without the part due to the finite number of trees.
    """

    gram: FloatArray
    n_draws: float
    n_rows: int
    ratio: float = 0.0
    ratio_variance: float = 0.0

    @classmethod
    def of_counts(cls, counts: IntArray, weight: FloatArray) -> InfinitesimalJackknife:
        """Return the jackknife for bootstrap counts of shape (n, B), without shrinkage.

        A row of weight w stands for w rows, of which each is drawn as often on average: its squared
        covariance is divided by w.
        """
        weighted = np.flatnonzero(weight > 0)
        n_trees = counts.shape[1]
        gram, n_draws = np.zeros((n_trees, n_trees)), 0.0
        for block in row_blocks(len(weighted), n_trees):
            rows = weighted[block]
            drawn = counts[rows] / np.sqrt(weight[rows])[:, np.newaxis]
            n_draws += float((drawn.mean(axis=1) / np.sqrt(weight[rows])).sum())
            centred = drawn - drawn.mean(axis=1, keepdims=True)
            gram += centred.T @ centred
        return cls(gram, n_draws, len(weighted))

    def corrected(self, deviation: FloatArray, n_trees: FloatArray | int) -> FloatArray:
        """Return equation 7 of the paper: the sum of squared covariances less its Monte Carlo bias.

        Parameters
        ----------
        deviation : ndarray of shape (m, B)
            Predictions of the trees less their mean; 0 for trees that are not used.
        n_trees : int or ndarray of shape (m,)
            How many trees are used.

        Returns
        -------
        variance : ndarray of shape (m,)
            May be negative, since the correction is subtracted.
        """
        squared = np.einsum("ij,ij->i", deviation @ self.gram, deviation)
        bias = self.n_draws * np.einsum("ij,ij->i", deviation, deviation)
        return np.asarray((squared - bias) / np.square(n_trees))

    def shrunk_by(self, predictions: FloatArray, used: BoolArray) -> InfinitesimalJackknife:
        """Return the jackknife with a shrinkage estimated from training rows and their out-of-bag trees."""
        count = used.sum(axis=1)
        rows = np.flatnonzero(count >= 2)
        deviation, between = _deviation(predictions[rows], used[rows])
        total = float(between.sum())
        if total == 0:
            return self
        variance = self.corrected(deviation, count[rows])
        mean = float(variance.sum()) / total
        # Rows share the counts, whose noise therefore does not average out: that of a quadratic form in them.
        scaled = deviation / count[rows][:, np.newaxis]
        error = self.n_draws * np.sqrt(2 / self.n_rows) * np.linalg.norm(scaled.T @ scaled) / total
        ratio = float(_mean_above_zero(np.float64(mean), np.float64(error)))
        relative = np.divide(variance, between, out=np.full(len(rows), mean), where=between > 0)
        share = between / total
        observed = float(share @ np.square(relative - mean))
        noise = float(share @ self._noise(ratio, count[rows]))
        return InfinitesimalJackknife(self.gram, self.n_draws, self.n_rows, ratio, max(observed - noise, 0.0))

    def variance(self, predictions: FloatArray, used: BoolArray) -> FloatArray:
        """Return the expected variance of the mean of the used trees, given its noisy estimate.

        The ratio of the corrected variance to the variance between trees is drawn towards its mean over
        rows by empirical Bayes, normal with normal; the expectation is that given a ratio above 0.
        """
        count = np.maximum(used.sum(axis=1), 1)
        deviation, between = _deviation(predictions, used)
        variance = self.corrected(deviation, count)
        relative = np.divide(variance, between, out=np.zeros_like(between), where=between > 0)
        noise = self._noise(self.ratio, count)
        trust = self.ratio_variance / (self.ratio_variance + noise)
        mean = self.ratio + trust * (relative - self.ratio)
        return np.asarray(between * _mean_above_zero(mean, np.sqrt(trust * noise)))

    def _noise(self, ratio: float, count: IntArray) -> FloatArray:
        """Return the variance of the ratio that is due to the finite number of trees.

        Each covariance has the variance (draws per row) * (variance between trees) / B around its limit.
        """
        per_row = self.n_draws / self.n_rows / count
        return np.asarray(2 * self.n_rows * per_row**2 + 4 * ratio * per_row)


def _mean_above_zero(mean: FloatArray | np.float64, std: FloatArray | np.float64) -> FloatArray:
    """Return the mean of a normal distribution given that its value is positive."""
    z = np.divide(mean, std, out=np.full(np.shape(mean), np.inf), where=std > 0)
    hazard = np.exp(-np.square(np.minimum(z, 1e3)) / 2 - log_ndtr(z)) / np.sqrt(2 * np.pi)
    return np.asarray(np.maximum(mean + std * hazard, 0.0))


def _deviation(predictions: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the deviations from the mean of the used trees, and the variance between these trees."""
    count = np.maximum(used.sum(axis=1), 1)
    mean = np.where(used, predictions, 0.0).sum(axis=1) / count
    deviation = np.where(used, predictions - mean[:, np.newaxis], 0.0)
    return deviation, np.einsum("ij,ij->i", deviation, deviation) / count
