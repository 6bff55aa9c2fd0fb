"""Least squares against statsmodels and against refitting."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut

from skuq._fitting.cross_fit import cross_fit
from skuq.distributions import StudentT
from skuq.regressors import LeastSquaresRegressor
from tests.regressors.worlds import linear_world

COVERAGES = [0.5, 0.9, 0.99]


def awkward_world(n=40, seed=0):
    """Columns of very different offsets and units."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 1e3, 1e-3] + [0.0, 1e5, 5.0]
    return X, X @ [1.0, 1e-3, 100.0] + rng.normal(size=n)


@pytest.fixture(scope="module")
def sm():
    return pytest.importorskip("statsmodels.api")


def assert_intervals(model, X, result, design, coverage):
    """Compare prediction and confidence intervals with those of statsmodels."""
    frame = result.get_prediction(design).summary_frame(alpha=1 - coverage)
    for dist, kind in ((model.predict_dist(X), "obs"), (model.predict_dist(X).epistemic(), "mean")):
        expected = frame[[f"{kind}_ci_lower", f"{kind}_ci_upper"]]
        assert np.allclose(dist.interval(coverage), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("world", [linear_world(40), awkward_world()], ids=["plain", "awkward"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("coverage", COVERAGES)
def test_intervals_equal_statsmodels(sm, world, fit_intercept, coverage):
    X, y = world
    design = sm.add_constant(X) if fit_intercept else X
    model = LeastSquaresRegressor(fit_intercept=fit_intercept).fit(X, y)
    assert_intervals(model, X, sm.OLS(y, design).fit(), design, coverage)


@pytest.mark.parametrize("coverage", COVERAGES)
def test_weights_that_sum_to_n_equal_statsmodels_wls(sm, coverage):
    X, y = linear_world(40)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=40)
    weight *= 40 / weight.sum()
    design = sm.add_constant(X)
    # statsmodels predicts a new row of weight 1, as skuq does
    expected = sm.WLS(y, design, weights=weight).fit()
    assert_intervals(LeastSquaresRegressor().fit(X, y, sample_weight=weight), X, expected, design, coverage)


def test_weights_count_repetitions_where_statsmodels_counts_rows(sm):
    X, y = linear_world(20)
    weight = np.random.default_rng(2).integers(0, 4, size=20)
    repeated = np.repeat(np.arange(20), weight)
    design = sm.add_constant(X)
    model = LeastSquaresRegressor().fit(X, y, sample_weight=weight)
    assert_intervals(model, X, sm.OLS(y[repeated], design[repeated]).fit(), design, 0.9)
    assert model.df_ == weight.sum() - 4


def test_the_distribution_is_student_t_with_both_scales():
    X, y = linear_world(30)
    model = LeastSquaresRegressor().fit(X, y)
    dist = model.predict_dist(X)
    assert isinstance(dist, StudentT)
    assert np.allclose(dist.df, 26)
    assert np.allclose(dist.aleatoric().scale, model.noise_scale_)
    reference = LinearRegression().fit(X, y)
    assert np.allclose(model.coef_, reference.coef_)
    assert model.intercept_ == pytest.approx(reference.intercept_)
    assert np.allclose(model.predict(X), reference.predict(X))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_fit_transform_equals_refitting_without_each_row(weighted, fit_intercept):
    X, y = linear_world(25)
    weight = np.random.default_rng(3).integers(0, 4, size=25).astype(float) if weighted else None
    params = {"sample_weight": weight} if weighted else {}
    model = LeastSquaresRegressor(fit_intercept=fit_intercept)
    closed = model.fit_transform(X, y, **params)
    refitted = cross_fit(model, X, y, cv=LeaveOneOut(), params=params).in_row_order(25)
    for name in ("loc", "scale", "df", "epistemic_scale"):
        assert np.allclose(getattr(closed, name), getattr(refitted, name), rtol=1e-9), name


def test_collinear_columns_lower_the_rank_not_the_precision():
    X, y = linear_world(30)
    doubled = np.column_stack([X, X[:, 0] + X[:, 1], np.full(30, 7.0)])
    plain, collinear = LeastSquaresRegressor().fit(X, y), LeastSquaresRegressor().fit(doubled, y)
    assert collinear.rank_ == 4
    assert collinear.df_ == plain.df_
    assert np.allclose(collinear.predict_interval(doubled), plain.predict_interval(X), rtol=1e-10)


def test_more_columns_than_rows_raise():
    X = np.random.default_rng(0).normal(size=(10, 20))
    with pytest.raises(ValueError, match="at least 3 degrees of freedom, got 0"):
        LeastSquaresRegressor().fit(X, X[:, 0])


@pytest.mark.parametrize("n", [4, 5, 6])
def test_fewer_than_three_degrees_of_freedom_raise(n):
    X = np.arange(float(n)).reshape(-1, 1)
    y = X[:, 0] ** 2
    if n - 2 < 3:
        with pytest.raises(ValueError, match=f"3 degrees of freedom, got {n - 2}: {n} observations minus 2"):
            LeastSquaresRegressor().fit(X, y)
    else:
        assert LeastSquaresRegressor().fit(X, y).df_ == n - 2
    if n == 5:
        with pytest.raises(ValueError, match="at least 3 degrees of freedom without each row, got 2"):
            LeastSquaresRegressor().fit_transform(X, y)


def test_a_row_of_leverage_one_has_no_leave_one_out_distribution():
    X, y = linear_world(20)
    X = np.column_stack([X, np.arange(20) == 11])
    with pytest.raises(ValueError, match=r"Without row 11 \(leverage 1\)"):
        LeastSquaresRegressor().fit_transform(X, y)
    assert np.isfinite(LeastSquaresRegressor().fit(X, y).predict_interval(X)).all()


def test_a_large_offset_costs_no_digits():
    X, y = linear_world(50)
    near = LeastSquaresRegressor().fit(X, y).predict_interval(X)
    far = LeastSquaresRegressor().fit(X + 1e7, y + 1e7).predict_interval(X + 1e7) - 1e7
    assert np.allclose(far, near, atol=1e-6)


def test_an_exact_line_is_a_point_mass():
    X = np.arange(8.0).reshape(-1, 1)
    dist = LeastSquaresRegressor().fit(X, 2 * X[:, 0]).predict_dist(X)
    assert np.allclose(dist.interval(), 2 * X, atol=1e-9)


def test_coverage_is_exact_in_small_samples():
    covered = []
    for seed in range(200):
        X, y = linear_world(28, seed)
        bounds = LeastSquaresRegressor().fit(X[:8], y[:8]).predict_interval(X[8:], 0.8)
        covered.append(np.mean((bounds[:, 0] <= y[8:]) & (y[8:] <= bounds[:, 1])))
    assert np.mean(covered) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("unit", [1e-90, 1e90])
def test_extreme_units_of_the_target(unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = X[:, 0] + rng.normal(size=30)
    expected, scaled = (LeastSquaresRegressor().fit(X, y * factor) for factor in (1.0, unit))
    np.testing.assert_allclose(scaled.predict_interval(X) / unit, expected.predict_interval(X), rtol=1e-9)
    loo, loo_scaled = (LeastSquaresRegressor().fit_transform(X, y * factor) for factor in (1.0, unit))
    np.testing.assert_allclose(loo_scaled.interval() / unit, loo.interval(), rtol=1e-9)
