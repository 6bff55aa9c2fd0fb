"""Expectations of log-likelihoods over normal latent values, and their derivatives.

The gradient for the covariance is backpropagated through the Cholesky factor that places the nodes. The
result is the exact gradient of the computed value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from skuq._typing import FloatArray

AtNodes: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Map from latent values (latents, nodes, n) to the log-likelihoods (nodes, n) and the gradients of these
values."""

_LEAST_VARIANCE = 1e-12
"""Lower limit of the conditional variance of a latent value. Without it, rounding could make the variance
negative."""


def gauss_hermite(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    nodes, weights = hermegauss(n_nodes)  # for exp(-x^2 / 2), so the weights sum to sqrt(2 pi)
    return nodes[:, np.newaxis], weights / weights.sum()


def icosahedron() -> tuple[FloatArray, FloatArray]:
    """Return 13 nodes and weights for three standard normal variables.

    The rule is exact up to degree five (Stroud 1971).
    """
    golden = (1 + np.sqrt(5.0)) / 2
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) * [1.0, golden]
    corners = np.insert(signs, 0, 0.0, axis=1)
    vertices = np.concatenate([np.roll(corners, shift, axis=1) for shift in range(3)])
    vertices *= np.sqrt(5.0 / (1 + golden**2))
    # 12 nodes with weight 0.05 and squared radius 5 give variances of 12 * 0.05 * 5 / 3 = 1
    return np.concatenate([np.zeros((1, 3)), vertices]), np.concatenate([[0.4], np.full(12, 0.05)])


def factorize(covariance: FloatArray) -> FloatArray:
    size = len(covariance)
    factor = np.zeros_like(covariance)
    # Cholesky-Banachiewicz algorithm, vectorized over rows, for matrices of at most 3 by 3
    for p in range(size):
        for q in range(p + 1):
            rest = covariance[p, q] - sum(factor[p, r] * factor[q, r] for r in range(q))
            factor[p, q] = np.sqrt(np.maximum(rest, _LEAST_VARIANCE)) if p == q else rest / factor[q, q]
    return factor


def place_nodes(mean: FloatArray, factor: FloatArray, nodes: FloatArray) -> FloatArray:
    return np.asarray(mean[:, np.newaxis] + np.einsum("pqn,kq->pkn", factor, nodes))


def expect(
    log_likelihood: AtNodes,
    mean: FloatArray,
    covariance: FloatArray,
    rule: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E f (n,), the gradient for the mean (latents, n), and twice the gradient for the covariance."""
    nodes, weights = rule
    factor = factorize(covariance)
    value, gradient = log_likelihood(place_nodes(mean, factor, nodes))
    weighted = gradient * weights[:, np.newaxis]
    # a node is mean + C x, so the gradient for C is the gradient at the node times x
    by_factor = np.einsum("pkn,kq->pqn", weighted, nodes)
    return weights @ value, weighted.sum(axis=1), _by_covariance(factor, by_factor)


def _by_covariance(factor: FloatArray, by_factor: FloatArray) -> FloatArray:
    """Return twice the gradient for V = C C', given the gradient for C."""
    size = len(factor)
    inverse = np.zeros_like(factor)  # C^-1 by forward substitution
    for p in range(size):
        inverse[p, p] = 1.0 / factor[p, p]
        for q in range(p):
            inverse[p, q] = -sum(factor[p, r] * inverse[r, q] for r in range(q, p)) / factor[p, p]
    low = np.zeros_like(factor)  # low(C' T)
    for p in range(size):
        for q in range(p + 1):
            low[p, q] = sum(factor[r, p] * by_factor[r, q] for r in range(p, size))
        low[p, p] /= 2.0
    half = np.einsum("rpn,rsn,sqn->pqn", inverse, low, inverse)
    return np.asarray(half + half.transpose(1, 0, 2))
