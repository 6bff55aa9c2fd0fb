"""Conformal regressors in scikit-learn: metadata, containers, real data."""

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import BayesianRidge, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import skuq
from skuq.metrics import get_scorer
from skuq.prediction import predict_dist
from skuq.regressors import (
    ConformalRegressor,
    CrossConformalRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from tests.regressors.worlds import linear_world

# ------------------------------------------------------------------------------------------ in scikit-learn


def test_in_pipelines_and_searches():
    X, y = linear_world(150)
    child = BayesianRidge()
    pipeline = Pipeline([("scaler", StandardScaler()), ("model", ConformalRegressor(child, random_state=0))])
    crossed = CrossConformalRegressor(child, random_state=0)
    iterations = {"model__estimator__max_iter": [1, 300]}
    grid = [
        {"model__method": ["split", "normalized", "cqr"]} | iterations,
        {"model": [crossed], "model__method": ["cv+", "jackknife+ab"]} | iterations,
    ]
    search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_crps"), cv=2, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.cv_results_["params"]) == 10
    assert predict_dist(search, X).interval(0.8).shape == (150, 2)
    inside = ConformalRegressor(make_pipeline(StandardScaler(), Ridge()), random_state=0).fit(X, y)
    assert np.isfinite(inside.predict_interval(X)).all()


def test_behind_a_transformed_target():
    X, y = linear_world(150)
    model = TransformedTargetRegressor(
        ConformalRegressor(Ridge(), random_state=0), func=np.log1p, inverse_func=np.expm1
    ).fit(X, np.exp(0.3 * y))
    inner = model.regressor_.predict_interval(X)
    dist = predict_dist(model, X)
    assert np.allclose(dist.interval(0.9), np.expm1(inner))
    assert np.isfinite(dist.crps(np.exp(0.3 * y))).all()
    outer = ConformalRegressor(
        TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1), random_state=0
    )
    assert np.isfinite(outer.fit(X, np.exp(0.3 * y)).predict_interval(X)).all()


@pytest.mark.parametrize("routing", [True, False])
def test_metadata_both_ways(routing):
    from sklearn import config_context

    X, y = linear_world(120)
    groups, weight = np.repeat(np.arange(24), 5), np.arange(120) % 3 + 1.0
    cv = GroupShuffleSplit(1, test_size=0.3, random_state=0)
    with config_context(enable_metadata_routing=routing):
        child = Ridge().set_fit_request(sample_weight=True) if routing else Ridge()
        model = ConformalRegressor(child, cv=cv).fit(X, y, sample_weight=weight, groups=groups)
    train, test = next(cv.split(X, y, groups))
    plain = Ridge().fit(X[train], y[train], sample_weight=weight[train])
    assert np.array_equal(model.predict(X), plain.predict(X))
    assert model.n_calibration_ == weight[test].sum()


def test_routed_metadata_through_a_search():
    from sklearn import config_context
    from sklearn.model_selection import GroupKFold

    X, y = linear_world(120)
    groups = np.repeat(np.arange(24), 5)
    with config_context(enable_metadata_routing=True):
        cv = GroupShuffleSplit(1, test_size=0.3, random_state=0)
        pipeline = make_pipeline(StandardScaler(), ConformalRegressor(Ridge(), cv=cv))
        search = GridSearchCV(
            pipeline, {"conformalregressor__symmetric": [True, False]}, cv=GroupKFold(3), error_score="raise"
        )
        search.fit(X, y, groups=groups)
    assert search.predict(X).shape == (120,)


def test_weights_for_a_child_that_takes_none():
    from sklearn.neighbors import KNeighborsRegressor

    X, y = linear_world(80)
    with pytest.raises(ValueError, match="`fit` of KNeighborsRegressor does not accept"):
        ConformalRegressor(KNeighborsRegressor()).fit(X, y, sample_weight=np.ones(80))


def test_it_is_not_in_the_quick_start():
    assert "ConformalRegressor" not in skuq.__all__


@pytest.mark.parametrize("method", ["split", "normalized"])
def test_the_front_door(method):
    X, y = linear_world(120)
    child = LeastSquaresRegressor()
    front = UncertaintyRegressor(child, "conformal", method_params={"method": method}, random_state=5)
    own = ConformalRegressor(child, method, random_state=5)
    assert np.array_equal(front.fit(X, y).predict_interval(X), own.fit(X, y).predict_interval(X))
    assert front.method_ == "conformal"
    assert np.array_equal(front.predict(X), own.predict(X))
    one = GroupShuffleSplit(1, random_state=0)
    groups = np.repeat(np.arange(24), 5)
    grouped = UncertaintyRegressor(child, "conformal", cv=one).fit(X, y, groups=groups)
    assert np.array_equal(grouped.estimator_.calibration_rows_, next(one.split(X, y, groups))[1])


def test_the_front_door_lets_sequences_in():
    X, y = linear_world(120)
    front = UncertaintyRegressor(LeastSquaresRegressor(), "conformal", random_state=5).fit(X[:80], y[:80])
    own = ConformalRegressor(LeastSquaresRegressor(), random_state=5).fit(X[:80], y[:80])
    before = front.predict_interval(X)
    front.estimator_.partial_fit(X[80:], y[80:] + 10)
    own.partial_fit(X[80:], y[80:] + 10)
    assert np.array_equal(front.predict_interval(X), own.predict_interval(X))
    assert (front.predict_interval(X)[:, 1] > before[:, 1]).all()


def test_without_held_out_rows_there_are_no_numbers_of_them():
    X, y = linear_world(30)
    seed = np.random.RandomState(0)
    model = CrossConformalRegressor(LeastSquaresRegressor(), random_state=seed).fit(X, y)
    assert not hasattr(model, "calibration_rows_")
    assert not hasattr(model, "partial_fit")
    assert model.n_calibration_ == 30


# ------------------------------------------------------------------------------------------------ real data


@pytest.mark.parametrize("name", ["gal/gal_concrete", "gal/gal_power", "paper001/abalone", "gal/gal_wine"])
def test_coverage_on_real_data(shared_data, name):
    data = shared_data(name).select_dtypes("number")
    data = data.sample(min(1500, len(data)), random_state=0)
    X, X_new, y, y_new = train_test_split(
        data.iloc[:, :-1], data.iloc[:, -1].astype(float), test_size=0.4, random_state=0
    )
    tree = DecisionTreeRegressor(min_samples_leaf=10, random_state=0)
    models = {
        "split": tree,
        "normalized": ResidualRegressor(tree, cv=3, random_state=0),
        "cqr": MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.05, 0.5, 0.95]),
    }
    for method, estimator in models.items():
        scaled = make_pipeline(StandardScaler(), estimator)
        model = ConformalRegressor(scaled, method, calibration_size=0.4, random_state=0).fit(X, y)
        n, m = model.n_calibration_, len(y_new)
        # both sets are finite: variance of a mean of m rows and of the coverage of n calibration rows
        tolerance = 3.5 * np.sqrt(0.09 / m + 0.09 / n)
        lower, upper = model.predict_interval(X_new).T
        assert abs(np.mean((lower <= y_new) & (y_new <= upper)) - 0.9) < tolerance
