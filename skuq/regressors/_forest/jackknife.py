r"""Variance of a forest's prediction by the infinitesimal jackknife (Wager, Hastie and Efron 2014).

The published estimate is a sum of squared covariances over training rows. It equals a quadratic form in the
predictions of the trees: with :math:`a_b = t_b(x) - \bar t(x)` and the bootstrap counts N, the sum is
:math:`a^T K a / B^2`. The matrix :math:`K = \sum_i (N_i - \bar N_i)(N_i - \bar N_i)^T` does not depend on x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from skuq._typing import BoolArray, FloatArray, IntArray
from skuq.regressors._forest.leaf_weights import row_blocks


@dataclass(frozen=True, eq=False)
class InfinitesimalJackknife:
    """Bias-corrected variance of the prediction of a forest.

    The variance of a row is shrunk toward the mean over rows.
    """

    gram: FloatArray  # K, shape (B, B)
    n_draws: float  # sum of 1 / weight over the drawn rows, averaged over trees; it is n without weights
    n_rows: int
    ratio: float = 0.0  # variance divided by the variance between trees, averaged over out-of-bag rows
    ratio_variance: float = 0.0  # variance of this ratio over rows, without the noise due to few trees

    @classmethod
    def of_counts(cls, counts: IntArray, weight: FloatArray) -> InfinitesimalJackknife:
        """Return the jackknife without shrinkage.

        The bootstrap counts have the shape (n, B), and a weight is a number of repetitions.
        """
        weighted = np.flatnonzero(weight > 0)
        n_trees = counts.shape[1]
        gram, n_draws = np.zeros((n_trees, n_trees)), 0.0
        for block in row_blocks(len(weighted), n_trees):
            rows = weighted[block]
            drawn = counts[rows] / np.sqrt(weight[rows])[:, np.newaxis]
            n_draws += float((drawn.mean(axis=1) / np.sqrt(weight[rows])).sum())
            centered = drawn - drawn.mean(axis=1, keepdims=True)
            gram += centered.T @ centered
        return cls(gram, n_draws, len(weighted))

    def corrected(self, deviation: FloatArray, n_trees: FloatArray | int) -> FloatArray:
        """Return the variance of equation 7.

        The deviations have the shape (m, B) and are 0 for unused trees.
        """
        squared = np.einsum("ij,ij->i", deviation @ self.gram, deviation)
        bias = self.n_draws * np.einsum("ij,ij->i", deviation, deviation)
        return np.asarray((squared - bias) / np.square(n_trees))

    def shrunk_by(self, predictions: FloatArray, used: BoolArray) -> InfinitesimalJackknife:
        count = used.sum(axis=1)
        rows = np.flatnonzero(count >= 2)
        deviation, between = _deviation(predictions[rows], used[rows])
        total = float(between.sum())
        if total == 0:
            return self
        variance = self.corrected(deviation, count[rows])
        mean = float(variance.sum()) / total
        # All rows use the same counts, so a mean over rows has the same noise as a single row.
        scaled = deviation / count[rows][:, np.newaxis]
        error = self.n_draws * np.sqrt(2 / self.n_rows) * np.linalg.norm(scaled.T @ scaled) / total
        ratio = float(_mean_above_zero(np.float64(mean), np.float64(error)))
        relative = np.divide(variance, between, out=np.full(len(rows), mean), where=between > 0)
        share = between / total
        observed = float(share @ np.square(relative - mean))
        noise = float(share @ self._noise(ratio, count[rows]))
        return InfinitesimalJackknife(self.gram, self.n_draws, self.n_rows, ratio, max(observed - noise, 0.0))

    def variance(self, predictions: FloatArray, used: BoolArray) -> FloatArray:
        """Return the expected variance of the mean of the used trees.

        The estimate without shrinkage is noisy.
        """
        # Empirical Bayes with a normal prior and normal noise. The ratio of the corrected variance to the
        # variance between trees is shrunk toward its mean over rows, given that the ratio is positive.
        count = np.maximum(used.sum(axis=1), 1)
        deviation, between = _deviation(predictions, used)
        variance = self.corrected(deviation, count)
        relative = np.divide(variance, between, out=np.zeros_like(between), where=between > 0)
        noise = self._noise(self.ratio, count)
        trust = self.ratio_variance / (self.ratio_variance + noise)
        mean = self.ratio + trust * (relative - self.ratio)
        return np.asarray(between * _mean_above_zero(mean, np.sqrt(trust * noise)))

    def _noise(self, ratio: float, count: IntArray) -> FloatArray:
        per_row = self.n_draws / self.n_rows / count
        return np.asarray(2 * self.n_rows * per_row**2 + 4 * ratio * per_row)


def _mean_above_zero(mean: FloatArray | np.float64, std: FloatArray | np.float64) -> FloatArray:
    z = np.divide(mean, std, out=np.full(np.shape(mean), np.inf), where=std > 0)
    hazard = np.exp(-np.square(np.minimum(z, 1e3)) / 2 - log_ndtr(z)) / np.sqrt(2 * np.pi)
    return np.asarray(np.maximum(mean + std * hazard, 0.0))


def _deviation(predictions: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    count = np.maximum(used.sum(axis=1), 1)
    mean = np.where(used, predictions, 0.0).sum(axis=1) / count
    deviation = np.where(used, predictions - mean[:, np.newaxis], 0.0)
    return deviation, np.einsum("ij,ij->i", deviation, deviation) / count
