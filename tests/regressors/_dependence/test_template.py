"""Templates from out-of-sample forecasts."""

import numpy as np
import pytest
from scipy.stats import rankdata

from skuq.distributions import Empirical, Normal
from skuq.regressors._dependence.template import MOST_ROWS, fit_dependence, forecast_scores

LABELS = ["a", "b"]


def ranks(n, rho=0.8, seed=0):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, n))
    return np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])


def fit(kind, values, weight=None):
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


def test_untested_rows_have_no_rank_and_repeated_rows_one():
    rows = np.array([3, 1, 3])
    dist, y = Normal([0.0, 0.0, 0.0], 1.0), np.array([1.0, 2.0, -9.0])
    found = forecast_scores(rows, dist, y, 5, np.random.RandomState(0))
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
    found = fit("empirical", ranks(300))
    grid = (np.arange(300) + 0.5) / 300
    assert np.array_equal(np.sort(found.ranks, axis=0), np.column_stack([grid, grid]))
    assert correlation_of(found.ranks) == pytest.approx(0.79, abs=0.05)
    assert found.options(None) == {"weights": None, "correlation": None}


def test_a_subset_of_the_rows_is_ranked_again():
    found = fit("empirical", ranks(MOST_ROWS + 500))
    grid = (np.arange(MOST_ROWS) + 0.5) / MOST_ROWS
    assert np.array_equal(np.sort(found.ranks[:, 1]), grid)


def test_the_normal_template_has_the_correlation():
    found = fit("gaussian", ranks(500))
    assert found.correlation[0, 1] == pytest.approx(0.8, abs=0.05)
    assert np.array_equal(found.options(None)["correlation"], found.correlation)


def test_independent_targets():
    found = fit("independent", ranks(100))
    assert np.array_equal(found.correlation, np.eye(2))
    assert abs(correlation_of(found.ranks)) < 0.01


@pytest.mark.parametrize(("n", "is_normal"), [(500, False), (250, True)])
def test_missing_values_leave_complete_rows_or_pairs(n, is_normal):
    values = ranks(n)
    values[: n // 4, 0] = np.nan
    values[n // 4 : n // 2, 1] = np.nan
    found = fit("empirical", values)
    assert found.is_normal == is_normal
    assert correlation_of(found.ranks) == pytest.approx(0.79, abs=0.07)
    if not is_normal:
        assert len(found.ranks) == n // 2


def test_rows_without_any_forecast_are_no_missing_values():
    values = np.vstack([ranks(100), np.full((50, 2), np.nan)])
    assert np.array_equal(fit("empirical", values).ranks, fit("empirical", values[:100]).ranks)


def test_without_tested_rows_there_is_no_template():
    with pytest.raises(ValueError, match="at least 2 rows for all targets, got 1"):
        fit("empirical", np.vstack([ranks(1), np.full((50, 2), np.nan)]))


def test_few_common_rows_raise_unless_independent():
    values = ranks(100)
    values[:80, 0] = np.nan
    with pytest.raises(ValueError, match="got 20 for a and b"):
        fit("empirical", values)
    fit("independent", values)


def test_weights_are_those_of_the_template_rows():
    values, weight = ranks(100), np.random.default_rng(0).integers(0, 3, 100).astype(float)
    found = fit("empirical", values, weight)
    assert np.array_equal(found.options(None)["weights"], weight[weight > 0])
    assert len(found.ranks) == np.count_nonzero(weight)
