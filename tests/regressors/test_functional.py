"""FunctionalRegressor in scikit-learn's inspection tools, in meta-estimators, and with bad arguments."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.exceptions import NoDecompositionError, NotProbabilisticError
from skuq.metrics import get_scorer
from skuq.prediction import predict_dist, supports_dist
from skuq.regressors import FunctionalRegressor, LeastSquaresRegressor, ResidualRegressor

FUNCTIONALS = {
    "mean": lambda dist: dist.mean(),
    "median": lambda dist: dist.median(),
    "std": lambda dist: dist.std(),
    "epistemic_std": lambda dist: dist.epistemic().std(),
    "quantile": lambda dist: dist.quantile(0.8),
    "width": lambda dist: dist.interval(0.6)[:, 1] - dist.interval(0.6)[:, 0],
}
OPTIONS = {"quantile": {"levels": 0.8}, "width": {"coverage": 0.6}}


def log_std(dist):
    return np.log(dist.std())


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    return X, 2 * X[:, 0] + np.exp(1.2 * X[:, 1] - 0.5) * rng.normal(size=600)


@pytest.fixture(scope="module")
def model(data):
    return ResidualRegressor(LinearRegression(), random_state=0).fit(*data)


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize("frozen", [False, True])
def test_predict_is_the_functional_of_the_distribution(data, functional, frozen):
    inner = LeastSquaresRegressor().fit(*data)
    estimator = FrozenEstimator(inner) if frozen else LeastSquaresRegressor()
    regressor = FunctionalRegressor(estimator, functional, **OPTIONS.get(functional, {})).fit(*data)
    expected = FUNCTIONALS[functional](inner.predict_dist(data[0]))
    np.testing.assert_allclose(regressor.predict(data[0]), expected, rtol=1e-12)
    values, std = regressor.predict(data[0], return_std=True)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(std, inner.predict_dist(data[0]).std(), rtol=1e-12)


def test_a_function_of_the_distribution(data, model):
    X = data[0]
    regressor = FunctionalRegressor(FrozenEstimator(model), log_std)
    np.testing.assert_array_equal(regressor.predict(X), np.log(model.predict_dist(X).std()))
    with pytest.raises(ValueError, match="`functional` must have shape"):
        FunctionalRegressor(FrozenEstimator(model), lambda dist: 1.0).predict(X)


def test_the_importance_for_the_std_names_the_noise_and_the_one_for_the_crps_does_not(data, model):
    X, y = (part[:300] for part in data)
    std = FunctionalRegressor(FrozenEstimator(model), log_std)
    for_std = permutation_importance(std, X, std.predict(X), n_repeats=3, random_state=0).importances_mean
    assert for_std.argmax() == 1
    assert for_std[1] > 10 * np.delete(for_std, 1).max()
    for_crps = permutation_importance(
        std, X, y, scoring=get_scorer("neg_crps"), n_repeats=3, random_state=0
    ).importances_mean
    assert for_crps.argmax() == 0


def test_partial_dependence_of_the_std(data, model):
    std = FunctionalRegressor(FrozenEstimator(model), "std")
    along = partial_dependence(std, data[0], [1], grid_resolution=5, kind="both")
    assert (np.diff(along["average"][0]) > 0).all()
    assert along["individual"].shape == (1, 600, 5)
    two_way = partial_dependence(std, data[0], [(0, 1)], grid_resolution=3)
    assert two_way["average"].shape == (1, 3, 3)
    flat = partial_dependence(std, data[0], [0], grid_resolution=5)["average"][0]
    assert np.ptp(flat) < 0.2 * np.ptp(along["average"][0])


def test_shap_explains_the_std(data, model):
    shap = pytest.importorskip("shap")
    std, X = FunctionalRegressor(FrozenEstimator(model), "std"), data[0]
    explained = shap.PermutationExplainer(std.predict, X[:8])(X[8:10])
    np.testing.assert_allclose(explained.values.sum(axis=1) + explained.base_values, std.predict(X[8:10]))


def test_other_tools_of_scikit_learn(data):
    X, y = data
    regressor = FunctionalRegressor(LeastSquaresRegressor(), "mean")
    assert cross_val_predict(regressor, X, y, cv=3).shape == (600,)
    assert learning_curve(regressor, X, y, train_sizes=[0.5, 1.0], cv=3)[2].mean() > 0.5
    search = GridSearchCV(regressor, {"functional": ["mean", "median"]}, cv=2).fit(X, y)
    assert supports_dist(search)


def test_pipelines(data):
    X, y = data
    dist = predict_dist(make_pipeline(StandardScaler(), BayesianRidge()).fit(X, y), X)
    inside = FunctionalRegressor(make_pipeline(StandardScaler(), BayesianRidge()), "width")
    outside = make_pipeline(StandardScaler(), FunctionalRegressor(BayesianRidge(), "width"))
    for regressor in (inside.fit(X, y), outside.fit(X, y)):
        np.testing.assert_allclose(regressor.predict(X), np.ptp(dist.interval(0.9), axis=1))
        np.testing.assert_allclose(predict_dist(regressor, X).std(), dist.std())


def test_the_distribution_passes_through(data, model):
    regressor, expected = FunctionalRegressor(FrozenEstimator(model)), model.predict_dist(data[0])
    np.testing.assert_array_equal(predict_dist(regressor, data[0]).std(), expected.std())
    outer = FrozenEstimator(FunctionalRegressor(model).fit(*data))
    np.testing.assert_array_equal(predict_dist(outer, data[0]).mean(), expected.mean())
    assert supports_dist(FunctionalRegressor(BayesianRidge()))


def test_weights_and_names_of_columns(data):
    X, y = pd.DataFrame(data[0], columns=list("abcd")), data[1]
    weight = np.arange(600) % 3
    weighted = FunctionalRegressor(LeastSquaresRegressor()).fit(X, y, sample_weight=weight)
    rows = np.repeat(np.arange(600), weight)
    repeated = FunctionalRegressor(LeastSquaresRegressor()).fit(X.iloc[rows], y[rows])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X))
    assert list(weighted.feature_names_in_) == list("abcd")
    frozen = FunctionalRegressor(FrozenEstimator(LeastSquaresRegressor().fit(X, y)))
    for regressor in (weighted, frozen):
        with pytest.raises(ValueError, match="feature names"):
            regressor.predict(X[["b", "a", "c", "d"]])


def test_what_is_not_fitted_says_so(data):
    for estimator in (BayesianRidge(), FrozenEstimator(BayesianRidge())):
        with pytest.raises(NotFittedError):
            FunctionalRegressor(estimator).predict(data[0])
    # a fitted estimator is cloned, so that only a frozen one predicts without `fit`
    with pytest.raises(NotFittedError):
        FunctionalRegressor(BayesianRidge().fit(*data)).predict(data[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"functional": "variance"}, "`functional` must be one of 'mean', .* got 'variance'"),
        ({"functional": "quantile", "levels": 1.5}, "`levels` must lie strictly between 0 and 1"),
        ({"functional": "width", "coverage": 90}, "`coverage` must .* Did you mean 0.9"),
        ({"functional": "std", "levels": 0.9}, "`levels` must be 0.5 unless `functional` is 'quantile'"),
        ({"functional": "mean", "coverage": 0.8}, "`coverage` must be 0.9 unless `functional` is 'width'"),
    ],
)
def test_bad_arguments_are_named(data, model, options, message):
    with pytest.raises(ValueError, match=message):
        FunctionalRegressor(BayesianRidge(), **options).fit(*data)
    with pytest.raises(ValueError, match=message):
        FunctionalRegressor(FrozenEstimator(model), **options).predict(data[0])


def test_an_estimator_without_a_distribution_is_named(data):
    with pytest.raises(NotProbabilisticError, match=r"FunctionalRegressor\(UncertaintyRegressor\(Ridge"):
        FunctionalRegressor(Ridge()).fit(*data)
    regressor = FunctionalRegressor(ResidualRegressor(Ridge(), random_state=0), "epistemic_std")
    with pytest.raises(NoDecompositionError, match="does not separate"):
        regressor.fit(*data).predict(data[0])
