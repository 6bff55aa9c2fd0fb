"""Joint distributions of several targets from one regressor per target."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit, TimeSeriesSplit
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import CopulaJoint
from skuq.metrics import crps_loss
from skuq.model_selection import cross_val_predict_dist
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors import (
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    MultiOutputUncertaintyRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)

LINEAR = LeastSquaresRegressor()
FOREST = ForestDistributionRegressor(RandomForestRegressor(30), random_state=0)
RESIDUAL = ResidualRegressor(Ridge(), cv=3, random_state=0)
BY_TARGET = [LINEAR, RESIDUAL, RecalibratedRegressor(BayesianRidge(), cv=3, random_state=0)]


def world(n, rho=0.8, d=3, seed=0):
    """Linear means, and normal errors with one correlation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    root = np.linalg.cholesky(rho + (1 - rho) * np.eye(d))
    return X, X @ rng.normal(size=(2, d)) + rng.normal(size=(n, d)) @ root.T


def varying_world(n, seed=0):
    """Two targets whose errors have a correlation with the sign of the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    first, second = rng.normal(size=(2, n))
    rho = 0.95 * np.sign(X[:, 0])
    return X, np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])


def model(estimator=LINEAR, **params):
    return MultiOutputUncertaintyRegressor(estimator, **{"random_state": 0, **params})


def covered(bounds, y):
    return np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))


# ------------------------------------------------------------------------------------- marginals and template


@pytest.mark.parametrize("estimator", [LINEAR, FOREST, BY_TARGET], ids=["linear", "forest", "list"])
def test_marginals_and_points_are_those_of_the_univariate_regressors(estimator):
    X, y = world(60)
    joint = model(estimator).fit(X, y)
    dist = joint.predict_dist(X[:7])
    for j, one in enumerate(estimator if isinstance(estimator, list) else [estimator] * 3):
        alone = clone(one).fit(X, y[:, j])
        assert np.array_equal(
            dist.marginal(j).quantile([0.1, 0.5]), alone.predict_dist(X[:7]).quantile([0.1, 0.5])
        )
        assert np.array_equal(joint.predict(X)[:, j], alone.predict(X))
        assert np.array_equal(joint.predict_interval(X, 0.8)[:, j], alone.predict_interval(X, 0.8))
        assert np.array_equal(
            joint.predict_quantiles(X, [0.2, 0.7])[:, j], alone.predict_quantiles(X, [0.2, 0.7])
        )


@pytest.mark.parametrize("estimator", [LINEAR, FOREST, BY_TARGET], ids=["linear", "forest", "list"])
def test_the_template_holds_the_ranks_of_out_of_sample_forecasts(estimator):
    # in-sample forecasts have another order
    X, y = world(60)
    joint = model(estimator).fit(X, y)
    for j, one in enumerate(estimator if isinstance(estimator, list) else [estimator] * 3):
        pit = clone(one).fit_transform(X, y[:, j]).pit(y[:, j])
        assert np.array_equal(joint.ranks_[:, j], (rankdata(pit) - 0.5) / 60)
        in_sample = joint.estimators_[j].predict_dist(X).pit(y[:, j])
        assert not np.array_equal(rankdata(in_sample), rankdata(pit))


def test_errors_of_overfitted_trees_are_measured_out_of_sample():
    X, y = world(400, d=2)
    fitted = model(UncertaintyRegressor(RandomForestRegressor(50), random_state=0)).fit(X, y)
    assert fitted.correlation_[0, 1] > 0.6  # the errors of the mean reduce the correlation of the noise
    assert fitted.estimators_[0].method_ == "forest"


@pytest.mark.parametrize("estimator", [Ridge(), BayesianRidge(), make_pipeline(StandardScaler(), Ridge())])
def test_other_regressors_are_wrapped(estimator):
    X, y = world(40, d=2)
    fitted = model(estimator).fit(X, y)
    assert all(isinstance(one, UncertaintyRegressor) for one in fitted.estimators_)
    assert fitted.predict_dist(X).shape == (40, 2)


def test_all_targets_have_the_same_folds_without_random_state():
    X, y = world(50, d=1)
    fitted = MultiOutputUncertaintyRegressor(ResidualRegressor(Ridge())).fit(X, np.hstack([y, y]))
    assert np.array_equal(fitted.ranks_[:, 0], fitted.ranks_[:, 1])


# ------------------------------------------------------------------------------------- what the copula is for


@pytest.mark.parametrize("dependence", ["empirical", "gaussian"])
def test_intervals_of_sums_and_differences_cover(dependence):
    X_all, y_all = world(1500)
    X, y, X_new, y_new = X_all[:400], y_all[:400], X_all[400:], y_all[400:]
    dist = model(dependence=dependence).fit(X, y).predict_dist(X_new)
    independent = model(dependence="independent").fit(X, y).predict_dist(X_new)
    for w in ([1, 1, 1], [1, -1, 0]):
        total = y_new @ w
        assert covered(dist.linear(w).interval(0.9), total) == pytest.approx(0.9, abs=0.03)
        assert crps_loss(total, dist.linear(w)) < 0.99 * crps_loss(total, independent.linear(w))
    assert covered(independent.linear([1, 1, 1]).interval(0.9), y_new.sum(axis=1)) < 0.8


def test_simultaneous_intervals_contain_all_targets():
    X, y = world(1500)
    fitted = model().fit(X[:500], y[:500])
    bounds = fitted.predict_interval(X[500:], 0.9, simultaneous=True)
    inside = ((bounds[..., 0] <= y[500:]) & (y[500:] <= bounds[..., 1])).all(axis=1)
    assert bounds.shape == (1000, 3, 2)
    assert inside.mean() == pytest.approx(0.9, abs=0.03)


def test_a_known_target_improves_the_others():
    X, y = world(1500, d=2)
    dist = model().fit(X[:500], y[:500]).predict_dist(X[500:])
    observed = y[500:].copy()
    observed[:, 1] = np.nan
    given = dist.condition(observed).marginal(0)
    assert crps_loss(y[500:, 1], given) < 0.85 * crps_loss(y[500:, 1], dist.marginal(1))


def test_independent_targets_lose_nothing():
    X, y = world(1500, rho=0.0)
    total = y[500:].sum(axis=1)
    scores = [
        crps_loss(total, model(dependence=kind).fit(X[:500], y[:500]).predict_dist(X[500:]).linear([1, 1, 1]))
        for kind in ("empirical", "independent")
    ]
    assert scores[0] < 1.01 * scores[1]


def test_conditional_dependence_varies_with_x():
    X, y = varying_world(1400)
    fitted = model(dependence="conditional").fit(X[:400], y[:400])
    constant = model().fit(X[:400], y[:400])
    assert fitted.conditional_share_ > 0.5
    assert constant.conditional_share_ == 0.0
    total = y[400:].sum(axis=1)
    scores = [crps_loss(total, one.predict_dist(X[400:]).linear([1, 1])) for one in (fitted, constant)]
    assert scores[0] < 0.9 * scores[1]
    correlation = fitted.predict_dist([[-0.8, 0.0], [0.8, 0.0]]).corr()[:, 0, 1]
    assert correlation[0] < -0.5
    assert correlation[1] > 0.5


def test_conditional_is_empirical_behind_a_closed_gate():
    X, y = world(320, d=2)
    fitted, plain = (model(dependence=kind).fit(X, y) for kind in ("conditional", "empirical"))
    assert fitted.conditional_share_ == 0.0
    w = [1, 1]
    assert np.array_equal(
        fitted.predict_dist(X[:5]).linear(w).quantile(0.9), plain.predict_dist(X[:5]).linear(w).quantile(0.9)
    )


def test_only_the_normal_copula_has_a_density():
    X, y = world(60, d=2)
    assert model(dependence="gaussian").fit(X, y).predict_dist(X).has_density
    assert not model().fit(X, y).predict_dist(X).has_density


# ------------------------------------------------------------------------------------- targets


def test_names_come_from_a_data_frame():
    X, y = world(40, d=2)
    table = pd.DataFrame(y, columns=["load", "price"])
    fitted = model().fit(X, table)
    assert list(fitted.target_names_) == ["load", "price"]
    dist = fitted.predict_dist(X)
    assert np.array_equal(dist.marginal("price").mean(), dist.marginal(1).mean())
    assert model().fit(X, y).target_names_ is None


def test_one_column_is_one_target():
    X, y = world(40, d=1)
    fitted = model().fit(X, y)
    assert fitted.n_outputs_ == 1
    assert fitted.predict(X).shape == (40, 1)
    assert np.array_equal(
        fitted.predict_dist(X).marginal(0).std(), LINEAR.fit(X, y[:, 0]).predict_dist(X).std()
    )


@pytest.mark.parametrize(
    "cv", [None, KFold(3, shuffle=True, random_state=1)], ids=["own folds", "given folds"]
)
def test_missing_targets_leave_rows_out_of_their_own_regressor(cv):
    X, y = world(400, d=2)
    y[::4, 1] = np.nan
    known = ~np.isnan(y[:, 1])
    fitted = model(RESIDUAL, cv=cv).fit(X, y)
    alone = clone(RESIDUAL)
    if cv is not None:
        position = np.cumsum(known) - 1
        splits = [(train[known[train]], test[known[test]]) for train, test in cv.split(X)]
        alone.set_params(cv=[(position[train], position[test]) for train, test in splits])
    pit = alone.fit_transform(X[known], y[known, 1]).pit(y[known, 1])
    assert np.array_equal(fitted.predict(X)[:, 1], alone.predict(X))
    assert np.array_equal(fitted.ranks_[:, 1], (rankdata(pit) - 0.5) / known.sum())
    assert fitted.fit_transform(X, y).shape == (400, 2)


def test_few_complete_rows_use_all_pairs():
    X, y = world(300)
    for j in range(3):
        y[j * 80 : j * 80 + 80, j] = np.nan
    fitted = model().fit(X, y)
    assert len(fitted.ranks_) == 1024
    assert fitted.correlation_[np.triu_indices(3, 1)] == pytest.approx(0.8, abs=0.1)


def test_missing_values_of_nullable_columns():
    X, y = world(300, d=2)
    table = pd.DataFrame(y, columns=["a", "b"]).astype("Float64")
    table.loc[:20, "b"] = pd.NA
    y[:21, 1] = np.nan
    assert np.array_equal(model().fit(X, table).ranks_, model().fit(X, y).ranks_)


def test_counts_have_reproducible_ranks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = rng.poisson(1.0, size=(100, 1)) + np.array([[0, 1]]) * rng.poisson(0.3, size=(100, 1))
    first, second = (model(FOREST).fit(X, y.astype(float)).ranks_ for _ in range(2))
    assert np.array_equal(first, second)


# ------------------------------------------------------------------------------------- folds and metadata


def test_time_ordered_folds():
    X, y = world(200)
    for estimator in (Ridge(), RecalibratedRegressor(LINEAR)):
        fitted = model(estimator, cv=TimeSeriesSplit(4)).fit(X, y)
        assert len(fitted.ranks_) < 200
        assert fitted.correlation_[0, 1] == pytest.approx(0.8, abs=0.15)
    with pytest.raises(ValueError, match="must test every row exactly once"):
        model(Ridge(), cv=TimeSeriesSplit(4)).fit_transform(X, y)


def test_groups_stay_together():
    X, y = world(60, d=2)
    groups = np.arange(60) // 5
    fitted = model(RESIDUAL, cv=GroupKFold(3)).fit(X, y, groups=groups)
    folds = list(GroupKFold(3).split(X, y, groups))
    pit = clone(RESIDUAL).set_params(cv=folds).fit_transform(X, y[:, 0]).pit(y[:, 0])
    assert np.array_equal(fitted.ranks_[:, 0], (rankdata(pit) - 0.5) / 60)
    own = clone(RESIDUAL).set_params(cv=GroupKFold(3))
    pit = clone(own).fit_transform(X, y[:, 0], groups=groups).pit(y[:, 0])
    assert np.array_equal(model(own).fit(X, y, groups=groups).ranks_[:, 0], (rankdata(pit) - 0.5) / 60)


@pytest.mark.parametrize("estimator", [LINEAR, [LINEAR, RESIDUAL]], ids=["one", "list"])
def test_weights_reach_the_regressors_and_the_template(estimator):
    X, y = world(60, d=2)
    weight = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    fitted = model(estimator).fit(X, y, sample_weight=weight)
    first = estimator[0] if isinstance(estimator, list) else estimator
    alone = clone(first).fit(X, y[:, 0], sample_weight=weight)
    assert np.array_equal(fitted.predict(X)[:, 0], alone.predict(X))
    assert fitted.predict_dist(X).weights == pytest.approx(weight / weight.sum())


def test_metadata_is_routed():
    X, y = world(60, d=2)
    weight, groups = np.arange(60) % 3 + 1.0, np.arange(60) // 5
    expected = model(BayesianRidge(), cv=GroupKFold(3)).fit(X, y, sample_weight=weight, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        ridge = BayesianRidge().set_fit_request(sample_weight=True)
        for estimator in (ridge, [ridge, ridge]):
            routed = model(estimator, cv=GroupKFold(3))
            routed.fit(X, y, sample_weight=weight, groups=groups)
            assert np.array_equal(routed.predict(X), expected.predict(X))
            assert np.array_equal(routed.ranks_, expected.ranks_)
        unweighted = model(ridge).set_score_request(sample_weight=False)
        search = GridSearchCV(unweighted, {"dependence": ["empirical", "gaussian"]}, cv=2)
        search.fit(X, y, sample_weight=weight)
        assert predict_dist(search, X).shape == (60, 2)


def test_results_do_not_depend_on_n_jobs():
    X, y = world(60)
    one = model(RESIDUAL).fit(X, y)
    with parallel_config("threading"):
        two = model(RESIDUAL, n_jobs=2).fit(X, y)
    assert np.array_equal(one.ranks_, two.ranks_)
    assert np.array_equal(one.predict_interval(X), two.predict_interval(X))


def test_out_of_fold_joints():
    X, y = world(60, d=2)
    regressor = model()
    dist = regressor.fit_transform(X, y)
    assert isinstance(dist, CopulaJoint)
    for j in range(2):
        assert np.array_equal(dist.marginal(j).mean(), LINEAR.fit_transform(X, y[:, j]).mean())
    assert np.array_equal(dist.ranks, regressor.ranks_)


def test_out_of_fold_joints_of_missing_targets_are_predictions():
    X, y = world(60, d=2)
    y[:5, 1] = np.nan
    regressor = model()
    mean = regressor.fit_transform(X, y).mean()
    assert np.allclose(mean[:5, 1], regressor.predict(X[:5])[:, 1])


# ------------------------------------------------------------------------------------- containers


def test_containers_of_scikit_learn():
    X, y = world(60, d=2)
    pipeline = make_pipeline(StandardScaler(), model())
    assert supports_dist(pipeline)
    expected = (
        model().fit(StandardScaler().fit_transform(X), y).predict_dist(StandardScaler().fit_transform(X))
    )
    fitted = pipeline.fit(X, y)
    for container in (fitted, FrozenEstimator(fitted)):
        assert np.allclose(predict_dist(container, X).std(), expected.std())
    scaled = TransformedTargetRegressor(model(), transformer=StandardScaler()).fit(X, y)
    assert np.allclose(predict_dist(scaled, X).std(), expected.std())


def test_cross_val_predict_dist():
    X, y = world(60, d=2)
    table = pd.DataFrame(y, columns=["a", "b"])
    splitter = KFold(3)
    dist = cross_val_predict_dist(model(), X, table, cv=splitter)
    assert dist.names == ("a", "b")
    for train, test in splitter.split(X):
        assert np.allclose(dist[test].mean(), model().fit(X[train], y[train]).predict(X[test]))
    assert cross_val_predict_dist(model(), X, y[:, :1], cv=splitter).shape == (60, 1)


def test_pickled_and_cloned():
    X, y = world(40, d=2)
    fitted = model([LINEAR, Ridge()], dependence="gaussian").fit(X, y)
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict_dist(X).std(), fitted.predict_dist(X).std())
    assert clone(fitted).dependence == "gaussian"


def test_score_is_the_mean_r2():
    X, y = world(40, d=2)
    fitted = model().fit(X, y)
    assert fitted.score(X, y) == pytest.approx(
        np.mean([LINEAR.fit(X, column).score(X, column) for column in y.T])
    )


# ------------------------------------------------------------------------------------- bad input


def changed(y, row, column, value):
    y = y.astype(object if isinstance(value, str) else float).copy()
    y[row, column] = value
    return y


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y[:, 0], "UncertaintyRegressor, which predicts one target"),
        (lambda y: None, "requires y to be passed"),
        (lambda y: y[:-1], "inconsistent numbers of samples"),
        (lambda y: y[:, :0], "one column per target"),
        (lambda y: y[:, :, np.newaxis], "one column per target"),
        (lambda y: y + 1j, "Complex data not supported"),
        (lambda y: changed(y, 4, 1, np.inf), "got inf in column 1 at row 4"),
        (
            lambda y: changed(y, 4, slice(None), np.nan),
            "got none in 1 rows. The first of these rows is row 4",
        ),
        (lambda y: changed(y, slice(None), 1, 3.0), "got 3 in all rows of column 1"),
        (lambda y: pd.DataFrame(changed(y, slice(None), 1, 3.0), columns=["a", "b"]), "column 'b'"),
        (lambda y: pd.DataFrame(y, columns=["a", "a"]), r"distinct column names, got \['a'\]"),
        (lambda y: changed(y, slice(0, 30), 1, np.nan), "fewer|at least"),
    ],
)
def test_bad_targets(change, message):
    X, y = world(50, d=2)
    with pytest.raises(ValueError, match=message):
        model().fit(X, change(y))


def test_text_in_a_column_is_named():
    X, y = world(50, d=2)
    table = pd.DataFrame(y, columns=["a", "b"]).astype({"b": object})
    table.loc[3, "b"] = "high"
    with pytest.raises(TypeError, match=r"y\['b'\]"):
        model().fit(X, table)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"dependence": "vine"}, ValueError, "`dependence` must be one of"),
        ({"estimator": [LINEAR]}, ValueError, "a list of 2, one per column of `y`, got a list of 1"),
        ({"estimator": MultiOutputRegressor(LINEAR)}, ValueError, "one target"),
        ({"estimator": Ridge}, TypeError, "must be an instance"),
        ({"estimator": StandardScaler()}, TypeError, "must be a regressor"),
        ({"cv": 1}, ValueError, "`cv`"),
        ({"cv": KFold(3)}, ValueError, "LeastSquaresRegressor has no parameter `cv`"),
        ({"estimator": Ridge(), "cv": TimeSeriesSplit(60)}, ValueError, "folds"),
    ],
)
def test_bad_parameters(params, error, message):
    X, y = world(50, d=2)
    with pytest.raises(error, match=message):
        model(**params).fit(X, y)


def test_the_error_of_a_regressor_names_its_target():
    X, y = world(8, d=2)
    y[:6, 1] = np.nan
    with pytest.raises(ValueError, match="degrees of freedom") as caught:
        model().fit(X, pd.DataFrame(y, columns=["a", "b"]))
    assert "Raised in the fit of column 'b' of `y`." in caught.value.__notes__


def test_folds_without_two_values_of_a_target():
    X, y = world(60, d=2)
    y[:19, 1] = np.nan
    folds = PredefinedSplit(np.repeat([0, 1, 2], 20))
    with pytest.raises(ValueError, match="at least 2 values in the training rows and 2 in the test rows"):
        model(RESIDUAL, cv=folds).fit(X, y)


def test_univariate_functions_refuse_joint_distributions():
    X, y = world(40, d=2)
    with pytest.raises(TypeError, match="marginal"):
        crps_loss(y[:, 0], model().fit(X, y).predict_dist(X))


def test_linear_regression_is_no_longer_silent_about_several_targets():
    X, y = world(40, d=2)
    with pytest.raises(ValueError, match="one column"):
        UncertaintyRegressor(LinearRegression()).fit(X, y)
