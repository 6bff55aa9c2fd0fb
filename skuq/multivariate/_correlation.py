"""Normal scores and their correlation matrix."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import ndtri

from skuq._typing import FloatArray

FEWEST_COMMON_ROWS = 30
"""Smallest number of rows in which both targets of a pair are known, if the correlation is estimated
separately for each pair."""

_LEAST_EIGENVALUE = 1e-6
"""The smallest eigenvalue of a projected correlation matrix is at least this value."""


def normal_scores(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the normal scores of the ranks in each column, shape (n, d). Missing values stay NaN."""
    scores = np.full(values.shape, np.nan)
    for column, score in zip(values.T, scores.T, strict=True):
        known = np.flatnonzero(~np.isnan(column))
        order = known[np.argsort(column[known], kind="stable")]
        reached = np.cumsum(weight[order])
        score[order] = ndtri((reached - weight[order] / 2) / reached[-1])
    return scores


def shrunk_correlation(scores: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the correlation matrix of complete scores, shrunk toward independence.

    The covariance matrix is shrunk by the method of Ledoit and Wolf (2004). A weight is a number of
    repetitions.
    """
    n, d = float(weight.sum()), scores.shape[1]
    centered = scores - np.average(scores, axis=0, weights=weight)
    covariance = (centered * weight[:, np.newaxis]).T @ centered / n
    mean_variance = np.trace(covariance) / d
    distance = np.sum((covariance - mean_variance * np.eye(d)) ** 2)
    fourth = weight @ np.sum(centered**2, axis=1) ** 2 / n
    error = (fourth - np.sum(covariance**2)) / n
    intensity = min(error, distance) / distance if distance > 0 else 0.0
    return as_correlation((1 - intensity) * covariance + intensity * mean_variance * np.eye(d))


def pairwise_correlation(scores: FloatArray, weight: FloatArray, labels: list[str]) -> FloatArray:
    """Return the correlation matrix of scores with missing values.

    Each entry is estimated from the rows that have both scores. The matrix is then projected to a positive
    definite matrix.
    """
    d = scores.shape[1]
    correlation = np.eye(d)
    for i, j in combinations(range(d), 2):
        common = ~np.isnan(scores[:, i] + scores[:, j])
        if np.count_nonzero(common) < FEWEST_COMMON_ROWS:
            raise ValueError(
                f"`y` must have at least {FEWEST_COMMON_ROWS} rows without missing values for each pair of "
                f"targets, got {np.count_nonzero(common)} for {labels[i]} and {labels[j]}. The dependence of "
                "two targets is estimated from these rows. Leave one target out, or use "
                "dependence='independent'."
            )
        pair = scores[common][:, [i, j]]
        covariance = np.cov(pair.T, aweights=weight[common])
        correlation[i, j] = correlation[j, i] = as_correlation(covariance)[0, 1]
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= _LEAST_EIGENVALUE:
        return correlation
    return as_correlation((vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T)


def as_correlation(covariance: FloatArray) -> FloatArray:
    """Return the correlation matrices of covariance matrices of shape (..., d, d)."""
    std = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    correlation = covariance / (std[..., :, np.newaxis] * std[..., np.newaxis, :])
    index = np.arange(covariance.shape[-1])
    correlation[..., index, index] = 1.0
    return np.asarray(correlation)
