"""Expectations of a row's log-likelihood over normally distributed latent values, and their derivatives.

The derivative by the covariance is that of the rule itself, backpropagated through the Cholesky factor, so
that the objective and its gradient agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from skuq._typing import FloatArray

AtNodes: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Maps latent values (latents, nodes, n) to log-likelihood (nodes, n) and gradient (latents, nodes, n)."""

_LEAST_VARIANCE = 1e-12
"""Conditional variances of latent values are at least this: rounding may leave a negative one."""


def gauss_hermite(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes (k, 1) and weights (k,) of one standard normal variable."""
    nodes, weights = hermegauss(n_nodes)  # weights of exp(-x^2 / 2), which sum to sqrt(2 pi)
    return nodes[:, np.newaxis], weights / weights.sum()


def icosahedron() -> tuple[FloatArray, FloatArray]:
    """Return nodes (13, 3) and weights (13,) of three standard normal variables, exact to degree five.

    The centre and the vertices of an icosahedron of squared radius 5 (Stroud 1971, E3r2 5-1); every mirror
    image along an axis is the same set of nodes, so that mirrored data give mirrored numbers.
    """
    golden = (1 + np.sqrt(5.0)) / 2
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) * [1.0, golden]
    corners = np.insert(signs, 0, 0.0, axis=1)
    vertices = np.concatenate([np.roll(corners, shift, axis=1) for shift in range(3)])
    vertices *= np.sqrt(5.0 / (1 + golden**2))
    # 12 nodes of weight 0.05 and squared radius 5 have unit variances: 12 * 0.05 * 5 / 3 = 1
    return np.concatenate([np.zeros((1, 3)), vertices]), np.concatenate([[0.4], np.full(12, 0.05)])


def factorise(covariance: FloatArray) -> FloatArray:
    """Return the lower Cholesky factors of covariances, both of shape (latents, latents, n)."""
    size = len(covariance)
    factor = np.zeros_like(covariance)
    # Cholesky-Banachiewicz, vectorised over rows: matrices are 3 by 3 at most, and rows many
    for p in range(size):
        for q in range(p + 1):
            rest = covariance[p, q] - sum(factor[p, r] * factor[q, r] for r in range(q))
            factor[p, q] = np.sqrt(np.maximum(rest, _LEAST_VARIANCE)) if p == q else rest / factor[q, q]
    return factor


def place_nodes(mean: FloatArray, factor: FloatArray, nodes: FloatArray) -> FloatArray:
    """Return the nodes of each row, shape (latents, nodes, n), for mean (latents, n)."""
    return np.asarray(mean[:, np.newaxis] + np.einsum("pqn,kq->pkn", factor, nodes))


def expect(
    log_likelihood: AtNodes,
    mean: FloatArray,
    covariance: FloatArray,
    rule: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E f (n,), its gradient by the mean (latents, n), and twice that by the covariance."""
    nodes, weights = rule
    factor = factorise(covariance)
    value, gradient = log_likelihood(place_nodes(mean, factor, nodes))
    weighted = gradient * weights[:, np.newaxis]
    # nodes are mean + C x: the derivative by C is that at the node times x
    by_factor = np.einsum("pkn,kq->pqn", weighted, nodes)
    return weights @ value, weighted.sum(axis=1), _by_covariance(factor, by_factor)


def _by_covariance(factor: FloatArray, by_factor: FloatArray) -> FloatArray:
    """Twice the gradient by V = C C', given that by C, T: 2 sym(C^-T low(C' T) C^-1).

    low is the lower triangle with half the diagonal.
    """
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
