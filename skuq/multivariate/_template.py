"""Templates of copulas: points in the unit cube with uniform columns."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_integer, check_no_nan

NORMAL_POINTS = 1024
"""A normal copula is represented by this number of points."""


def rank_template(values: ArrayLike) -> FloatArray:
    """Return the template of an empirical copula: the ranks of each column as levels between 0 and 1.

    Parameters
    ----------
    values : array-like of shape (K, d)
        One row per observation and one column per target. For example, pass the PIT values or the normal
        scores of the targets under out-of-sample forecasts. Only the order within each column matters. Ties
        are ranked in the order of the rows. If forecasts have atoms, pass randomized PIT values.

    Returns
    -------
    ranks : ndarray of shape (K, d)
        ``(rank - 0.5) / K`` with ranks from 1 to K in each column.

    See Also
    --------
    normal_template : Template of a normal copula.
    CopulaJoint : Joint distribution with a template.

    Examples
    --------
    >>> from skuq.multivariate import rank_template
    >>> rank_template([[0.3, 0.9], [0.1, 0.8]])
    array([[0.75, 0.75],
           [0.25, 0.25]])
    """
    array = check_no_nan(as_float_array(values, "values"), "values")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"`values` must have shape (K, d) with K, d >= 1, one column per target, got {array.shape}."
        )
    return ranks_in_order(array.argsort(axis=0, kind="stable"))


def ranks_in_order(order: IntArray) -> FloatArray:
    """Return the template whose columns have the given order, shape (K, d)."""
    ranks = np.empty(order.shape)
    grid = (np.arange(len(order)) + 0.5) / len(order)
    np.put_along_axis(ranks, order, grid[:, np.newaxis], axis=0)
    return ranks


def normal_template(correlation: ArrayLike, size: int = NORMAL_POINTS) -> FloatArray:
    """Return points of a normal copula from a Sobol sequence, without random numbers.

    Parameters
    ----------
    correlation : array-like of shape (d, d)
        Correlation matrix of the normal scores.
    size : int, default=1024
        Number of points, a power of 2.

    Returns
    -------
    ranks : ndarray of shape (size, d)
        Levels between 0 and 1. Each column contains the values ``(rank - 0.5) / size`` for all ranks.

    See Also
    --------
    rank_template : Template of an empirical copula.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.multivariate import normal_template
    >>> ranks = normal_template([[1.0, 0.8], [0.8, 1.0]])
    >>> ranks.shape, float(np.corrcoef(ranks.T)[0, 1].round(2))  # 6 / pi * arcsin(0.8 / 2) is 0.79
    ((1024, 2), 0.79)
    """
    matrix = check_correlation(correlation)
    count = check_integer(size, "size", 2)
    if count & (count - 1):
        raise ValueError(f"`size` must be a power of 2, got {count}. Use {1 << count.bit_length()}.")
    scores = normal_points(len(matrix), count) @ root(matrix).T
    return ranks_in_order(scores.argsort(axis=0, kind="stable"))


def normal_points(d: int, size: int = NORMAL_POINTS) -> FloatArray:
    """Return points of d independent standard normal variables, shape (size, d).

    Their sample covariance is I.
    """
    sobol = qmc.Sobol(d, scramble=False).random_base2(int(math.log2(size)))
    points = ndtri(sobol + 0.5 / size)
    points -= points.mean(axis=0)
    upper = np.linalg.cholesky(points.T @ points / size)
    return np.asarray(np.linalg.solve(upper, points.T).T)


def root(matrices: FloatArray) -> FloatArray:
    """Return a matrix A with A A' = M for each positive semidefinite matrix M, shape (..., d, d)."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., np.newaxis, :])


def check_correlation(correlation: ArrayLike, d: int | None = None) -> FloatArray:
    """Return a symmetric positive semidefinite matrix with ones on the diagonal."""
    matrix = np.array(as_float_array(correlation, "correlation"))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"`correlation` must have shape (d, d), got {matrix.shape}.")
    if d is not None and len(matrix) != d:
        raise ValueError(f"`correlation` must have shape ({d}, {d}), one row per target, got {matrix.shape}.")
    check_covariance(matrix, "correlation")
    if not np.allclose(np.diag(matrix), 1.0, rtol=0.0, atol=1e-8):
        raise ValueError(
            f"`correlation` must have ones on its diagonal, got {np.diag(matrix)}. Divide the covariance by "
            "the products of the standard deviations."
        )
    np.fill_diagonal(matrix, 1.0)
    return matrix


def check_covariance(matrices: FloatArray, name: str) -> None:
    """Raise an error if a matrix of shape (..., d, d) is not finite, symmetric and positive semidefinite."""
    stack = matrices.reshape(-1, *matrices.shape[-2:])
    size = np.abs(stack).max(axis=(1, 2))
    bad = ~np.isfinite(size)
    reason = "be finite"
    if not bad.any():
        bad = np.abs(stack - stack.transpose(0, 2, 1)).max(axis=(1, 2)) > 1e-8 * size
        reason = "be symmetric"
    if not bad.any():
        lowest = np.linalg.eigvalsh(stack)[:, 0]
        bad = lowest < -1e-8 * size
        reason = "be positive semidefinite"
    if bad.any():
        row = int(np.argmax(bad))
        where = f" at row {row}" if matrices.ndim > 2 else ""
        raise ValueError(f"`{name}` must {reason}, got {stack[row].tolist()}{where}.")


def weighted_levels(order: IntArray, weights: FloatArray) -> FloatArray:
    """Return the middle level of each point under weights that sum to 1, shape (..., K, d).

    ``order`` sorts each column of the points, shape (K, d) or (b, K, d). ``weights`` have the shape (K,) or
    (b, K). The weighted columns are uniform, so weights change the dependence but not the marginals.
    """
    columns = weights[..., np.newaxis]
    order = order if order.ndim == columns.ndim else order[np.newaxis]
    share = np.take_along_axis(columns, order, axis=-2)
    middle = np.cumsum(share, axis=-2) - share / 2
    # a point of weight 0 has no effect, but its quantile must be finite
    least = np.where(share > 0, middle, np.inf).min(axis=-2, keepdims=True)
    most = np.where(share > 0, middle, -np.inf).max(axis=-2, keepdims=True)
    levels = np.empty(share.shape)
    np.put_along_axis(levels, np.broadcast_to(order, share.shape), np.clip(middle, least, most), axis=-2)
    return levels
