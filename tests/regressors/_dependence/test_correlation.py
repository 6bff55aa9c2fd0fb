"""Normal scores and their correlation matrix."""

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from sklearn.covariance import ledoit_wolf

from skuq.regressors._dependence.correlation import (
    as_correlation,
    normal_scores,
    pairwise_correlation,
    shrunk_correlation,
)

ONES = np.ones(60)


def draws(rho=0.6, n=60, d=3, seed=0):
    root = np.linalg.cholesky(rho + (1 - rho) * np.eye(d))
    return np.random.default_rng(seed).normal(size=(n, d)) @ root.T


def test_normal_scores_are_quantiles_of_the_ranks():
    values = draws()
    expected = norm.ppf((rankdata(values, axis=0) - 0.5) / 60)
    assert normal_scores(values, ONES) == pytest.approx(expected, abs=1e-12)


def test_missing_values_have_no_score_and_do_not_change_the_others():
    values = draws()
    values[::3, 1] = np.nan
    scores = normal_scores(values, ONES)
    known = ~np.isnan(values[:, 1])
    assert np.array_equal(np.isnan(scores[:, 1]), ~known)
    assert np.array_equal(scores[known, 1], normal_scores(values[known], ONES[known])[:, 1])


def test_shrinkage_is_that_of_ledoit_and_wolf():
    values = draws()
    covariance, _ = ledoit_wolf(values)
    assert shrunk_correlation(values, ONES) == pytest.approx(as_correlation(covariance), abs=1e-12)


def test_weights_count_repetitions():
    values = draws()
    weight = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    repeated = np.repeat(values, weight.astype(int), axis=0)
    ones = np.ones(len(repeated))
    assert shrunk_correlation(values, weight) == pytest.approx(shrunk_correlation(repeated, ones), abs=1e-12)
    weighted = pairwise_correlation(values, weight, list("abc"))
    assert weighted == pytest.approx(pairwise_correlation(repeated, ones, list("abc")), abs=1e-12)


def test_one_target_has_correlation_one():
    assert shrunk_correlation(draws(d=1), ONES).tolist() == [[1.0]]


def test_pairs_use_all_their_rows():
    values = draws(n=200)
    values[:100, 2] = np.nan
    correlation = pairwise_correlation(values, np.ones(200), list("abc"))
    assert correlation[0, 1] == pytest.approx(np.corrcoef(values[:, 0], values[:, 1])[0, 1])
    assert correlation[0, 2] == pytest.approx(np.corrcoef(values[100:, 0], values[100:, 2])[0, 1])


def test_indefinite_correlations_are_projected():
    base = np.random.default_rng(0).normal(size=(90, 2))
    values = np.full((90, 3), np.nan)
    # the pairs (a, b), (b, c) and (a, c) have correlations 1, 1 and -1 on different rows
    for rows, (i, j), sign in zip(
        np.split(np.arange(90), 3), [(0, 1), (1, 2), (0, 2)], (1, 1, -1), strict=True
    ):
        values[rows, i] = base[rows, 0]
        values[rows, j] = sign * base[rows, 0]
    correlation = pairwise_correlation(values, np.ones(90), list("abc"))
    assert np.linalg.eigvalsh(correlation)[0] > 0
    assert np.diag(correlation) == pytest.approx(1.0)


def test_a_pair_with_few_common_rows_is_named():
    values = draws()
    values[:31, 0] = np.nan
    with pytest.raises(ValueError, match="got 29 for a and c"):
        pairwise_correlation(values[:, [0, 2]], ONES, ["a", "c"])
