"""Dependence between targets: normal scores, templates, and dependence that varies with x."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm, rankdata
from sklearn.covariance import ledoit_wolf

from skuq.distributions import Empirical, Normal
from skuq.multivariate._dependence import (
    MOST_ROWS,
    as_correlation,
    fit_conditional_weights,
    fit_dependence,
    forecast_scores,
    log_copula_density,
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
    for correlation in (shrunk_correlation, lambda *given: pairwise_correlation(*given, list("abc"))):
        assert correlation(values, weight) == pytest.approx(correlation(repeated, ones), abs=1e-12)
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


LABELS = ["a", "b"]


def normal_draws(n, rho=0.8, seed=0):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, n))
    return np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])


def template_of(kind, values, weight=None):
    unknown = np.isnan(values)
    missing = bool((unknown.any(axis=1) & ~unknown.all(axis=1)).any())
    X = np.zeros((len(values), 1))
    return fit_dependence(kind, X, values, weight, LABELS, missing=missing, seed=0, n_jobs=None)


def correlation_of(template):
    return np.corrcoef(template.T)[0, 1]


def test_ranks_of_forecasts_follow_the_pit():
    rng = np.random.default_rng(0)
    y, dist = rng.normal(size=20), Normal(np.zeros(20), rng.uniform(1, 2, 20))
    found = forecast_scores(np.arange(20), dist, y, 20, np.random.RandomState(0))
    assert np.array_equal(found, rankdata(dist.pit(y)) - 1)
    # an untested row has no rank, and a repeated row has one
    dist, y = Normal([0.0, 0.0, 0.0], 1.0), np.array([1.0, 2.0, -9.0])
    found = forecast_scores(np.array([3, 1, 3]), dist, y, 5, np.random.RandomState(0))
    assert np.isnan(found[[0, 2, 4]]).all()
    assert found[3] < found[1]  # by the first test of row 3


def test_atoms_and_values_beyond_the_support_have_ranks_in_random_order():
    dist = Empirical(np.tile([0.0, 0.0, 0.0, 1.0], (200, 1)))
    y = np.repeat([0.0, 5.0], 100)
    columns = [
        forecast_scores(np.arange(200), dist, y, 200, np.random.RandomState(seed)) for seed in range(2)
    ]
    for part in (slice(0, 100), slice(100, 200)):
        within = np.corrcoef(columns[0][part], columns[1][part])[0, 1]
        assert abs(within) < 0.3  # ties in the order of the rows would give 1
    assert columns[0][:100].max() < columns[0][100:].min()


def test_the_empirical_template_has_uniform_columns():
    values = normal_draws(300)
    found = template_of("empirical", values)
    grid = (np.arange(300) + 0.5) / 300
    assert np.array_equal(np.sort(found.ranks, axis=0), np.column_stack([grid, grid]))
    assert correlation_of(found.ranks) == pytest.approx(0.79, abs=0.05)
    assert found.options(None) == {"weights": None, "correlation": None}
    # rows without any forecast are no missing values
    unknown = np.vstack([values, np.full((50, 2), np.nan)])
    assert np.array_equal(template_of("empirical", unknown).ranks, found.ranks)
    with pytest.raises(ValueError, match="at least 2 rows for all targets, got 1"):
        template_of("empirical", unknown[299:])
    many = template_of("empirical", normal_draws(MOST_ROWS + 500))  # a subset of the rows is ranked again
    assert np.array_equal(np.sort(many.ranks[:, 1]), (np.arange(MOST_ROWS) + 0.5) / MOST_ROWS)


def test_templates_with_a_correlation():
    found = template_of("gaussian", normal_draws(500))
    assert found.correlation[0, 1] == pytest.approx(0.8, abs=0.05)
    assert np.array_equal(found.options(None)["correlation"], found.correlation)
    found = template_of("independent", normal_draws(100))
    assert np.array_equal(found.correlation, np.eye(2))
    assert abs(correlation_of(found.ranks)) < 0.01


@pytest.mark.parametrize(("n", "is_normal"), [(500, False), (250, True)])
def test_missing_values_leave_complete_rows_or_pairs(n, is_normal):
    values = normal_draws(n)
    values[: n // 4, 0] = np.nan
    values[n // 4 : n // 2, 1] = np.nan
    found = template_of("empirical", values)
    assert found.is_normal == is_normal
    assert correlation_of(found.ranks) == pytest.approx(0.79, abs=0.07)
    if not is_normal:
        assert len(found.ranks) == n // 2


def test_few_common_rows_raise_unless_independent():
    values = normal_draws(100)
    values[:80, 0] = np.nan
    with pytest.raises(ValueError, match="got 20 for a and b"):
        template_of("empirical", values)
    template_of("independent", values)


def test_weights_are_those_of_the_template_rows():
    values, weight = normal_draws(100), np.random.default_rng(0).integers(0, 3, 100).astype(float)
    found = template_of("empirical", values, weight)
    assert np.array_equal(found.options(None)["weights"], weight[weight > 0])
    assert len(found.ranks) == np.count_nonzero(weight)


def world(n, varying, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    rho = 0.9 * np.sign(X[:, 0]) if varying else np.full(n, 0.6)
    first, second = rng.normal(size=(2, n))
    values = np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])
    return X, normal_scores(values, np.ones(n))


def fitted_weights(n, varying, X=None, **options):
    table, scores = world(n, varying)
    weight = np.ones(n)
    chosen = options.pop("template_rows", np.arange(n))
    correlation = shrunk_correlation(scores, weight)
    found = fit_conditional_weights(
        table if X is None else X(table), scores, correlation, weight, chosen, 0, None
    )
    return table, scores, found


def test_log_density_is_that_of_the_normal_copula():
    correlation = np.array([[1.0, 0.7], [0.7, 1.0]])
    scores = np.random.default_rng(0).normal(size=(5, 2))
    joint = multivariate_normal(cov=correlation).logpdf(scores)
    expected = joint - norm.logpdf(scores).sum(axis=1)
    assert log_copula_density(correlation, scores) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("step", [1, 3])
def test_weights_follow_the_sign_of_the_correlation(step):
    rows = np.arange(0, 400, step)
    _, scores, found = fitted_weights(400, varying=True, template_rows=rows)
    assert found.share > 0.5
    weights = found(np.array([[-0.8, 0.0], [0.8, 0.0]]))
    assert weights.shape == (2, len(rows))
    assert weights.sum(axis=1) == pytest.approx(1.0)
    assert (weights >= 0).all()
    moments = weights @ (scores[rows, 0] * scores[rows, 1])
    assert moments[0] < (-0.5 if step == 1 else 0)
    assert moments[1] > (0.5 if step == 1 else 0.6)


def test_a_constant_dependence_and_few_rows_do_not_pass_the_gate():
    for n, varying in ((400, False), (900, False), (299, True)):
        assert fitted_weights(n, varying)[2] is None


def test_categories_are_features():
    def as_table(X):
        return pd.DataFrame({"side": np.where(X[:, 0] > 0, "right", "left"), "other": X[:, 1]})

    found = fitted_weights(400, varying=True, X=as_table)[2]
    weights = found(pd.DataFrame({"side": ["left", "right", "unknown"], "other": [0.0, 0.0, 0.0]}))
    assert weights.shape == (3, 400)
    assert not np.allclose(weights[0], weights[1])
    with pytest.raises(ValueError, match="must be a table"):
        fitted_weights(400, varying=True, X=lambda X: np.zeros((400, 2, 2)))
