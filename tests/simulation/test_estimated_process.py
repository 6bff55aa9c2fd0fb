import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import (
    check_dict_unchanged,
    check_estimators_dtypes,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_subset_invariance,
    check_regressors_train,
    parametrize_with_checks,
)

from skuq.distributions import Normal, StudentT
from skuq.metrics import crps_loss, get_scorer
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import EstimatedProcess, simulate_coverage

SETTINGS = [
    EstimatedProcess(DecisionTreeRegressor(max_depth=3), residuals="training", noise="gamma", random_state=0),
    EstimatedProcess(RandomForestRegressor(3), noise="student_t", cv=2, random_state=0),
]
CHECKS_OF_SETTINGS = [
    check_dict_unchanged,
    check_estimators_dtypes,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_subset_invariance,
    check_regressors_train,
]


@parametrize_with_checks([EstimatedProcess(LinearRegression(), random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", CHECKS_OF_SETTINGS)
@pytest.mark.parametrize("estimator", SETTINGS, ids=repr)
def test_checks_of_what_a_setting_computes(estimator, check):
    check(type(estimator).__name__, estimator)


@pytest.fixture(scope="module")
def data():
    return load_diabetes(return_X_y=True)


def test_the_truth_is_the_two_regressors(data):
    X, y = data
    process = EstimatedProcess(LinearRegression(), residuals="training", random_state=0).fit(X, y)
    mean = LinearRegression().fit(X, y)
    variance = LinearRegression().fit(X, np.square(y - mean.predict(X)))
    assert_allclose(process.predict(X), mean.predict(X))
    assert_allclose(process.predict_dist(X).std(), np.sqrt(np.maximum(variance.predict(X), 0)), atol=1e-3)
    assert_array_equal(process.truth_.mean(), process.predict(X[process.test_rows_]))


def test_rows_are_split_and_features_stay(data):
    X, y = data
    process = EstimatedProcess(LinearRegression(), test_size=42, random_state=0).fit(X, y)
    assert_array_equal(np.sort(np.concatenate([process.train_rows_, process.test_rows_])), np.arange(442))
    assert len(process.test_rows_) == 42
    (X_0, y_0), (X_1, y_1) = process.training_set(0), process.training_set(1)
    assert_array_equal(X_0, X[process.train_rows_])
    assert_array_equal(X_0, X_1)
    assert not np.array_equal(y_0, y_1)
    again = EstimatedProcess(LinearRegression(), test_size=42, random_state=0).fit(X, y)
    assert_array_equal(again.training_set(1)[1], y_1)


def test_training_residuals_of_deep_trees_are_too_small(data):
    X, y = data
    out, training = (
        EstimatedProcess(DecisionTreeRegressor(max_depth=12), residuals=residuals, random_state=0).fit(X, y)
        for residuals in ("out-of-sample", "training")
    )
    assert training.truth_.std().mean() < 0.3 * out.truth_.std().mean()


@pytest.mark.parametrize("noise", ["normal", "student_t", "gamma"])
def test_noise_has_mean_zero_and_the_fitted_variance(data, noise):
    X, y = data
    process = EstimatedProcess(DummyRegressor(), noise=noise, random_state=0).fit(X, y)
    assert_allclose(process.truth_.mean(), y.mean())
    assert_allclose(process.truth_.std(), y.std(), rtol=0.02)
    pit = process.predict_dist(X[process.train_rows_]).cdf(process.training_set(0)[1])
    assert stats.kstest(pit, "uniform").pvalue > 0.01


def test_noise_of_a_function(data):
    X, y = data
    process = EstimatedProcess(
        LinearRegression(), noise=lambda loc, scale: StudentT(loc, scale, 5), random_state=0
    )
    assert isinstance(process.fit(X, y).truth_, StudentT)
    with pytest.raises(TypeError, match="`noise` must return a skuq Distribution, got tuple"):
        EstimatedProcess(LinearRegression(), noise=lambda loc, scale: (loc, scale)).fit(X, y)
    with pytest.raises(ValueError, match="`noise` must return distributions with a finite mean"):
        EstimatedProcess(LinearRegression(), noise=lambda loc, scale: StudentT(loc, scale, 1)).fit(X, y)


def test_a_target_without_noise_gives_point_masses():
    X = np.arange(40.0)[:, np.newaxis]
    for noise in ("normal", "gamma"):
        process = EstimatedProcess(LinearRegression(), noise=noise, random_state=0).fit(X, np.full(40, 3.0))
        assert_allclose(process.training_set(0)[1], 3.0)


def test_the_process_is_the_best_forecast(data):
    X, y = data
    process = EstimatedProcess(LinearRegression(), random_state=0).fit(X, y)
    X_train, y_train = process.training_set(0)
    truth = crps_loss(y_train, process.predict_dist(X_train))
    assert get_scorer("neg_crps")(process, X_train, y_train) == -truth
    assert truth < crps_loss(y_train, Normal(np.full(len(y_train), y_train.mean()), y_train.std()))


def test_words_and_missing_values_are_left_to_the_estimator():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": rng.choice(["a", "b"], size=100), "size": rng.normal(size=100)})
    X.loc[3, "size"] = np.nan
    forest = make_pipeline(
        make_column_transformer((OrdinalEncoder(), ["kind"]), remainder="passthrough"),
        RandomForestRegressor(5),
    )
    y = (X["kind"] == "a") + rng.normal(size=100)
    process = EstimatedProcess(forest, random_state=0).fit(X, y)
    assert list(process.X_test_.columns) == ["kind", "size"]
    result = simulate_coverage(
        make_pipeline(
            forest[:1],
            make_column_transformer(("drop", [1]), remainder="passthrough"),
            LeastSquaresRegressor(),
        ),
        process,
        n_simulations=30,
        random_state=0,
    )
    assert result.to_frame().index.equals(process.X_test_.index)


def test_an_unfitted_process():
    process = EstimatedProcess()
    with pytest.raises(NotFittedError, match=r"EstimatedProcess is not fitted yet. Call `fit\(X, y\)`"):
        simulate_coverage(LeastSquaresRegressor(), process)
    with pytest.raises(NotFittedError):
        process.training_set(0)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"residuals": "oob"}, ValueError, "`residuals` must be one of 'out-of-sample', 'training'"),
        ({"noise": "cauchy"}, ValueError, "`noise` must be one of 'normal', 'student_t', 'gamma'"),
        ({"estimator": LinearRegression}, TypeError, "`estimator` must be an instance"),
        ({"estimator": LogisticRegression()}, TypeError, "`estimator` must be a regressor"),
        ({"noise_estimator": 3}, TypeError, "`noise_estimator` must be a regressor or None, got int"),
        ({"test_size": 1.5}, ValueError, "test_size"),
        ({"cv": "five"}, TypeError, "`cv` must be an int"),
    ],
)
def test_bad_parameters(data, params, error, match):
    with pytest.raises(error, match=match):
        EstimatedProcess(**{"estimator": LinearRegression()} | params).fit(*data)


def test_a_target_of_two_columns(data):
    X, y = data
    with pytest.raises(ValueError, match="`y` must have one column, got 2"):
        EstimatedProcess(LinearRegression()).fit(X, np.column_stack([y, y]))
