"""Recalibrators where people will use them: behind a regressor and in a search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

from skuq.metrics import get_scorer
from skuq.prediction import predict_dist
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import BootstrapRegressor, LeastSquaresRegressor, ResidualRegressor

both = pytest.mark.parametrize("recalibrator", [StdScalingRecalibrator(), IsotonicRecalibrator()], ids=repr)


def make_rows(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + (0.1 + 0.4 * np.abs(X[:, 0])) * rng.normal(size=n)


def coverage(model, X, y):
    bounds = predict_dist(model, X).interval(0.9)
    return np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))


@pytest.mark.laws
@both
def test_bagged_trees_have_the_nominal_coverage(recalibrator):
    achieved = []
    for seed in range(20):
        X, y = make_rows(seed, 1300)
        forest = RandomForestRegressor(40, min_samples_leaf=3, random_state=seed)
        model = make_pipeline(BootstrapRegressor(forest, random_state=seed), clone(recalibrator))
        achieved.append(coverage(model.fit(X[:300], y[:300]), X[300:], y[300:]))
    assert np.mean(achieved) == pytest.approx(0.9, abs=0.02)


@pytest.mark.laws
@both
def test_a_selector_inside_the_folds_keeps_the_coverage(recalibrator):
    achieved = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1200, 150))
        y = X[:, 0] + rng.normal(size=1200)
        inside = make_pipeline(SelectKBest(f_regression, k=10), LinearRegression())
        model = make_pipeline(ResidualRegressor(inside, random_state=0), clone(recalibrator))
        achieved.append(coverage(model.fit(X[:200], y[:200]), X[200:], y[200:]))
    assert np.mean(achieved) == pytest.approx(0.9, abs=0.035)


def test_a_search_chooses_the_recalibrator_that_is_needed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = X[:, 0] + rng.gamma(0.5, 1.0, size=600)  # skewed, so that no factor helps
    pipeline = Pipeline([("model", LeastSquaresRegressor()), ("recalibrator", IdentityRecalibrator())])
    grid = {"recalibrator": [IdentityRecalibrator(), StdScalingRecalibrator(), IsotonicRecalibrator()]}
    search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_crps"), error_score="raise").fit(X, y)
    assert isinstance(search.best_params_["recalibrator"], IsotonicRecalibrator)
    assert (
        predict_dist(search, X).crps(y).mean()
        < 0.95 * predict_dist(search.best_estimator_[:1], X).crps(y).mean()
    )


def test_a_search_over_one_recalibrator_alone():
    rng = np.random.default_rng(0)
    dist = LeastSquaresRegressor().fit_transform(rng.normal(size=(200, 2)), rng.normal(size=200))
    y = dist.sample(1, random_state=0)[:, 0]
    grid = {"n_knots": ["auto", 5, None]}
    search = GridSearchCV(
        IsotonicRecalibrator(), grid, scoring=get_scorer("neg_nll"), cv=3, error_score="raise"
    )
    search.fit(dist, y)
    assert search.best_params_["n_knots"] is not None
    assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"].max())
    assert len(predict_dist(search, dist)) == 200


@both
def test_the_point_prediction_moves_only_where_it_should(recalibrator, tmp_path):
    X, y = make_rows(0, 400)
    plain = LeastSquaresRegressor().fit(X, y)
    model = make_pipeline(LeastSquaresRegressor(), clone(recalibrator)).fit(X, y)
    if isinstance(recalibrator, StdScalingRecalibrator):
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    else:
        assert_allclose(model.predict(X), predict_dist(model, X).mean(), rtol=1e-12)
    # memory and output containers change nothing
    expected = predict_dist(model, X).interval(0.9)
    cached = make_pipeline(LeastSquaresRegressor(), clone(recalibrator), memory=str(tmp_path)).fit(X, y)
    framed = clone(model).set_output(transform="pandas").fit(X, y)
    for other in (cached, clone(cached).fit(X, y), framed):
        assert_allclose(predict_dist(other, X).interval(0.9), expected, rtol=1e-13)
    assert model.get_feature_names_out().tolist() == ["mean", "std"]
