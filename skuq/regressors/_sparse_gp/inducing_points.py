"""Initial inducing points, and the closed form of the posterior that belongs to the collapsed bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.cluster import kmeans_plusplus

from skuq._typing import FloatArray
from skuq.regressors._sparse_gp.collapsed_bound import NO_COVARIANCE, Optimum, covariance, variance

_BLOCK = 2**21
"""At most this number of covariances between inducing points and rows is in memory at the same time."""


def distinct_rows(
    X: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distinct pairs of a row and a target in ascending order, and the weight of each pair."""
    pairs, inverse = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)
    repetitions = np.bincount(inverse.ravel(), weights=weight).astype(np.float64)
    return np.ascontiguousarray(pairs[:, :-1]), np.ascontiguousarray(pairs[:, -1]), repetitions


def choose_inducing_points(
    X: FloatArray, weight: FloatArray, n_inducing_points: int, init: str, rng: np.random.RandomState
) -> tuple[FloatArray, bool]:
    """Return the initial inducing points, and whether these points include all distinct rows of X."""
    rows, inverse = np.unique(X, axis=0, return_inverse=True)
    if len(rows) <= n_inducing_points:
        return rows, True
    repetitions = np.bincount(inverse.ravel(), weights=weight)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    if init == "random":
        share = repetitions / repetitions.sum()
        chosen = np.random.RandomState(seed).choice(len(rows), n_inducing_points, replace=False, p=share)
        return rows[chosen], False
    spread, _ = kmeans_plusplus(rows, n_inducing_points, sample_weight=repetitions, random_state=seed)
    return np.ascontiguousarray(spread), False


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of the process given the training rows. It has one coordinate per inducing point."""

    # With a(x) = L^-1 k_Z(x), the process at x has the mean constant + a' slope and the variance k(x, x) -
    # |a|^2 + |L_B^-1 a|^2 (Titsias 2009, eq. 6).

    inducing: FloatArray  # inducing points Z, shape (m, d)
    root: FloatArray  # L, the lower Cholesky factor of the covariance of Z
    root_b: FloatArray  # L_B, the Cholesky factor of I + A W A' / noise; a(x) of row i is column i of A
    slope: FloatArray  # posterior mean of the whitened inducing values
    constant: float  # mean of the process
    noise: float  # noise variance
    bound: float  # collapsed bound on the log marginal likelihood (Titsias 2009, eq. 9)

    def latent(self, kernel: Any, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, spread = np.empty(len(X)), np.empty(len(X))
        for rows, a, diagonal in _whitened_blocks(kernel, self.inducing, self.root, X):
            b = solve_triangular(self.root_b, a, lower=True, check_finite=False)
            mean[rows] = self.constant + self.slope @ a
            spread[rows] = diagonal - np.einsum("ij,ij->j", a, a) + np.einsum("ij,ij->j", b, b)
        return mean, np.maximum(spread, 0.0)


def collapsed_posterior(
    kernel: Any, X: FloatArray, y: FloatArray, weight: FloatArray, optimum: Optimum, jitter: float
) -> Posterior:
    Z, noise = optimum.inducing, optimum.noise
    K = covariance(kernel, Z, Z)
    m, total = len(Z), float(weight.sum())
    try:
        root = cholesky(K + jitter * K.diagonal().mean() * np.eye(m), lower=True)
    except (ValueError, np.linalg.LinAlgError) as error:
        raise ValueError(NO_COVARIANCE) from error
    residual = y - optimum.constant
    B, projected, unexplained = np.zeros((m, m)), np.zeros(m), 0.0
    for rows, a, diagonal in _whitened_blocks(kernel, Z, root, X):
        w = weight[rows]
        weighted = a * w
        B += weighted @ a.T
        projected += weighted @ residual[rows]
        unexplained += float(w @ diagonal - np.einsum("ij,ij", weighted, a))
    root_b = cholesky(np.eye(m) + B / noise, lower=True)
    c = solve_triangular(root_b, projected, lower=True) / noise
    fit = float(weight @ np.square(residual)) / noise - float(c @ c)
    log_determinant = total * math.log(2.0 * math.pi * noise) + 2.0 * float(np.log(root_b.diagonal()).sum())
    return Posterior(
        inducing=Z,
        root=root,
        root_b=root_b,
        slope=solve_triangular(root_b, c, lower=True, trans="T"),
        constant=optimum.constant,
        noise=noise,
        bound=-0.5 * (log_determinant + fit + unexplained / noise),
    )


def _whitened_blocks(
    kernel: Any, Z: FloatArray, root: FloatArray, X: FloatArray
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield the row numbers of a block of X, the columns a = L^-1 k_Z(x), and the prior variances."""
    step = max(1, _BLOCK // len(Z))
    for start in range(0, len(X), step):
        rows = slice(start, min(start + step, len(X)))
        block = np.ascontiguousarray(X[rows])
        a = solve_triangular(root, covariance(kernel, Z, block), lower=True, check_finite=False)
        yield rows, a, variance(kernel, block)
