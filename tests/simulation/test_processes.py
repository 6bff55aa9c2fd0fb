"""Processes that give training sets: known, estimated from data, and data that are split."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
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

from skuq.distributions import Empirical, Normal, ScipyDistribution, StudentT
from skuq.metrics import crps_loss, get_scorer, prediction_interval_coverage
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import EstimatedProcess, KnownProcess, SplitData, make_known_process, simulate_coverage
from tests.simulation.processes import Oracle, line, linear_process, uniform

# --------------------------------------------------------------------------------------- known


def test_a_training_set_depends_on_its_number_and_the_seed_alone():
    process, again = linear_process(), linear_process()
    for index in (3, 0, 3):
        for part, other in zip(process.training_set(index), again.training_set(index), strict=True):
            assert_array_equal(part, other)
    assert not np.array_equal(process.training_set(0)[1], process.training_set(1)[1])
    assert not np.array_equal(process.training_set(0)[1], linear_process(random_state=1).training_set(0)[1])
    unseeded = linear_process(random_state=None)  # a seed is drawn at construction
    assert_array_equal(unseeded.training_set(0)[1], unseeded.training_set(0)[1])
    assert not np.array_equal(unseeded.X_test_, linear_process(random_state=None).X_test_)
    for index, error in ((-1, ValueError), (0.5, TypeError)):
        with pytest.raises(error, match="`index`"):
            process.training_set(index)


def test_fixed_features_leave_the_targets_random():
    process = linear_process(fixed_X=True)
    (X, y), (X_other, y_other) = process.training_set(0), process.training_set(1)
    assert_array_equal(X, X_other)
    assert not np.array_equal(y, y_other)
    assert not np.array_equal(X, process.X_test_[: len(X)])


def test_targets_have_the_distribution_of_the_truth():
    process = KnownProcess(
        lambda X: ScipyDistribution(stats.gamma(1 + X[:, 0], scale=2.0)),
        lambda n, rng: rng.uniform(size=(n, 1)),
        n_train=4000,
        random_state=0,
    )
    X, y = process.training_set(0)
    assert stats.kstest(process.predict_dist(X).cdf(y), "uniform").pvalue > 0.01
    atoms = KnownProcess(
        lambda X: Empirical(np.column_stack([X[:, 0], X[:, 0] + 1])), uniform, n_train=50, random_state=0
    )
    X, y = atoms.training_set(0)
    assert set(np.round(y - X[:, 0], 12)) == {0.0, 1.0}


def test_a_known_process_is_the_best_forecast():
    process = linear_process(n_train=2000)
    X, y = process.training_set(0)
    truth = crps_loss(y, process.predict_dist(X))
    assert truth < min(crps_loss(y, Normal(X[:, 0], scale)) for scale in (0.07, 0.14))
    assert get_scorer("neg_crps")(process, X, y) == -truth
    assert_array_equal(process.predict(X), X[:, 0])


def test_data_frames_pass_through_a_known_process():
    def draw(n, rng):
        return pd.DataFrame({"size": rng.uniform(size=n), "kind": rng.choice(["a", "b"], size=n)})

    def truth(X):
        return Normal(X["size"] + (X["kind"] == "a"), 1.0)

    process = KnownProcess(truth, draw, n_train=30, n_test=20, random_state=0)
    assert list(process.X_test_.columns) == list(process.training_set(0)[0].columns) == ["size", "kind"]
    assert len(process.truth_) == 20


def test_the_conventions_of_scikit_learn():
    process = linear_process()
    assert "n_train=25" in repr(process)
    assert process.get_params()["n_test"] == 50
    assert_array_equal(clone(process).X_test_, process.X_test_)
    assert_array_equal(pickle.loads(pickle.dumps(process)).training_set(2)[1], process.training_set(2)[1])
    assert len(process.set_params(n_test=7).X_test_) == len(process.truth_) == 7
    with pytest.raises(ValueError, match="`n_test`"):
        process.set_params(n_test=0)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"truth": 3}, TypeError, "`truth` must be a function, got 3"),
        ({"draw_X": None}, TypeError, "`draw_X` must be a function"),
        ({"truth": lambda X: X[:, 0]}, TypeError, "`truth` must return a skuq Distribution, got ndarray"),
        ({"truth": lambda X: Normal([0.0], 1.0)}, ValueError, "50 rows, one per row .* got 1"),
        (
            {"truth": lambda X: StudentT(X[:, 0], 1.0, 0.9)},
            ValueError,
            "`truth` must return distributions with a finite mean in every row",
        ),
        ({"draw_X": lambda n, rng: rng.uniform(size=n)}, ValueError, r"array of shape \(50, 1\)"),
        ({"draw_X": lambda n, rng: rng.uniform(size=(5, 1))}, ValueError, r"must return 50 rows .* \(5, 1\)"),
        ({"n_train": 0}, ValueError, "`n_train` must be at least 1"),
        ({"n_train": 2.5}, TypeError, "`n_train` must be an integer"),
        ({"n_test": 0}, ValueError, "`n_test` must be at least 1"),
        ({"fixed_X": "yes"}, ValueError, "`fixed_X` must be one of"),
        ({"random_state": -1}, ValueError, "`random_state`"),
    ],
)
def test_bad_parameters_of_a_known_process(params, error, match):
    with pytest.raises(error, match=match):
        KnownProcess(**{"truth": line, "draw_X": uniform, "n_train": 25, "n_test": 50} | params)


def test_a_draw_with_other_columns_than_the_test_rows():
    columns = iter([1, 2])
    process = KnownProcess(
        line, lambda n, rng: rng.uniform(size=(n, next(columns))), n_train=5, n_test=5, random_state=0
    )
    with pytest.raises(ValueError, match=r"`draw_X` must return the same columns .* got 2, but"):
        process.training_set(0)


def test_the_worlds_of_the_paper():
    x = np.array([[-0.5], [0.0], [0.5]])
    for name, std in (
        ("cubic", [0.2, 0.2, 0.2]),
        ("cubic-heteroscedastic", [0.35, 0.1, 0.35]),
        ("cubic-gap", [0.2, 0.2, 0.2]),
    ):
        process = make_known_process(name, n_train=10, n_test=2000, random_state=0)
        assert_allclose(process.predict(x), [-8, -1, 0])
        assert_allclose(process.predict_dist(x).std(), std)
        assert len(process.training_set(0)[1]) == 10
        assert np.abs(process.X_test_).max() <= 0.5
        in_gap = ((process.X_test_ > -0.2) & (process.X_test_ < 0.1)).mean()
        assert in_gap < 0.03 if name == "cubic-gap" else 0.25 < in_gap < 0.35
    with pytest.raises(ValueError, match="`name` must be one of 'cubic'"):
        make_known_process("quadratic")


# ------------------------------------------------------------------------------------ split data


@pytest.fixture(scope="module")
def line_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(2000, 1))
    return X, X[:, 0] + 0.1 * rng.normal(size=2000)


def test_rows_are_disjoint(line_data):
    X, _ = line_data
    number = np.arange(2000.0)
    process = SplitData(X, number, n_train=60, n_test=150, random_state=0)
    assert process.n_training_sets_ == 30
    parts = [process.y_test_, *(process.training_set(s)[1] for s in range(30))]
    rows = np.concatenate(parts)
    assert len(np.unique(rows)) == len(rows) == 150 + 30 * 60
    for X_part, y_part in [(process.X_test_, process.y_test_), process.training_set(7)]:
        assert_array_equal(X_part, X[y_part.astype(int)])
    assert_array_equal(clone(process).y_test_, process.y_test_)
    frame, series = pd.DataFrame(X, columns=["x"]), pd.Series(number)
    process = SplitData(frame, series, n_train=40, n_test=200, random_state=0)
    assert list(process.training_set(0)[0].columns) == ["x"]
    for index in (45, -1):
        with pytest.raises(ValueError, match="`index`"):
            process.training_set(index)


def test_coverage_of_each_simulation_is_the_metric(line_data):
    process = SplitData(*line_data, n_train=40, n_test=200, random_state=0)
    result = simulate_coverage(
        LeastSquaresRegressor(), process, n_simulations=40, coverage=0.8, random_state=0
    )
    for s in (0, 39):
        dist = LeastSquaresRegressor().fit(*process.training_set(s)).predict_dist(process.X_test_)
        assert result.picp[s] == prediction_interval_coverage(process.y_test_, dist, coverage=0.8)
    assert abs(result.picp.mean() - 0.8) < 0.05
    assert result.confidence_coverage is None
    assert result.bias is None


def test_what_one_target_a_row_cannot_answer_raises(line_data):
    process = SplitData(*line_data, n_train=40, n_test=200, random_state=0)
    result = simulate_coverage(Oracle(line), process, n_simulations=30, random_state=0)
    for refused in (lambda: result.picf, result.brier_score):
        with pytest.raises(ValueError, match="this process has only one target per row"):
            refused()
    for refused in (lambda: result.cicp, lambda: result.brier_score("confidence")):
        with pytest.raises(ValueError, match="no confidence intervals"):
            refused()
    table = result.summary()
    assert table.index.to_list() == [("prediction", 0.9)]
    assert table["brier"].isna().all()
    assert table["true_width"].isna().all()
    assert_allclose(table["mean_coverage"], result.picp.mean())
    assert list(result.to_frame().columns) == ["prediction_width", "spread"]
    # the reason: single targets are covered or not, so that perfect intervals would score badly
    share = result.prediction_coverage.mean(axis=0)
    assert np.square(share - 0.9).mean() == pytest.approx(0.09, abs=0.03)


def test_confidence_intervals_are_refused_before_the_first_fit(line_data):
    class NeverFitted(LeastSquaresRegressor):
        def fit(self, X, y):
            raise AssertionError

    process = SplitData(*line_data, n_train=40, n_test=200, random_state=0)
    with pytest.raises(ValueError, match="`confidence_intervals` must be 'auto' or False for a SplitData"):
        simulate_coverage(NeverFitted(), process, confidence_intervals=True)
    with pytest.raises(ValueError, match=r"this SplitData has .*`n_simulations` must be at most 45"):
        simulate_coverage(NeverFitted(), process, n_simulations=46)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"n_train": 1000}, ValueError, "2200 rows .* two training sets of 1000, got 2000"),
        ({"n_train": 0}, ValueError, "`n_train` must be at least 1"),
        ({"n_test": "all"}, TypeError, "`n_test` must be an integer"),
        ({"y": [1.0]}, ValueError, "`y` must have 2000 rows"),
        ({"y": np.zeros((2000, 2))}, ValueError, "`y` must have one column"),
    ],
)
def test_bad_parameters_of_split_data(line_data, params, error, match):
    X, y = line_data
    with pytest.raises(error, match=match):
        SplitData(**{"X": X, "y": y, "n_train": 40, "n_test": 200} | params)


# ------------------------------------------------------------------------------------- estimated

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


@pytest.mark.laws
@pytest.mark.parametrize("estimator", SETTINGS, ids=repr)
def test_checks_of_what_a_setting_computes(estimator, subtests):
    for check in CHECKS_OF_SETTINGS:
        with subtests.test(msg=check.__name__):
            check(type(estimator).__name__, estimator)


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def test_the_truth_is_the_two_regressors(diabetes):
    X, y = diabetes
    process = EstimatedProcess(LinearRegression(), residuals="training", random_state=0).fit(X, y)
    mean = LinearRegression().fit(X, y)
    variance = LinearRegression().fit(X, np.square(y - mean.predict(X)))
    assert_allclose(process.predict(X), mean.predict(X))
    assert_allclose(process.predict_dist(X).std(), np.sqrt(np.maximum(variance.predict(X), 0)), atol=1e-3)
    assert_array_equal(process.truth_.mean(), process.predict(X[process.test_rows_]))


def test_rows_are_split_and_features_stay(diabetes):
    X, y = diabetes
    process = EstimatedProcess(LinearRegression(), test_size=42, random_state=0).fit(X, y)
    assert_array_equal(np.sort(np.concatenate([process.train_rows_, process.test_rows_])), np.arange(442))
    assert len(process.test_rows_) == 42
    (X_0, y_0), (X_1, y_1) = process.training_set(0), process.training_set(1)
    assert_array_equal(X_0, X[process.train_rows_])
    assert_array_equal(X_0, X_1)
    assert not np.array_equal(y_0, y_1)
    again = EstimatedProcess(LinearRegression(), test_size=42, random_state=0).fit(X, y)
    assert_array_equal(again.training_set(1)[1], y_1)


def test_training_residuals_of_deep_trees_are_too_small(diabetes):
    X, y = diabetes
    out, training = (
        EstimatedProcess(DecisionTreeRegressor(max_depth=12), residuals=residuals, random_state=0).fit(X, y)
        for residuals in ("out-of-sample", "training")
    )
    assert training.truth_.std().mean() < 0.3 * out.truth_.std().mean()


@pytest.mark.parametrize("noise", ["normal", "student_t", "gamma"])
def test_noise_has_mean_zero_and_the_fitted_variance(diabetes, noise):
    X, y = diabetes
    process = EstimatedProcess(DummyRegressor(), noise=noise, random_state=0).fit(X, y)
    assert_allclose(process.truth_.mean(), y.mean())
    assert_allclose(process.truth_.std(), y.std(), rtol=0.02)
    pit = process.predict_dist(X[process.train_rows_]).cdf(process.training_set(0)[1])
    assert stats.kstest(pit, "uniform").pvalue > 0.01


def test_noise_of_a_function(diabetes):
    X, y = diabetes
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


def test_an_estimated_process_is_the_best_forecast(diabetes):
    X, y = diabetes
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
def test_bad_parameters_of_an_estimated_process(diabetes, params, error, match):
    with pytest.raises(error, match=match):
        EstimatedProcess(**{"estimator": LinearRegression()} | params).fit(*diabetes)
    with pytest.raises(ValueError, match="`y` must have one column, got 2"):
        EstimatedProcess(LinearRegression()).fit(diabetes[0], np.column_stack([diabetes[1]] * 2))
