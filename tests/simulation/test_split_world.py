import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skuq.metrics import prediction_interval_coverage
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import SplitWorld, simulate_coverage
from tests.simulation.worlds import Oracle, line


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(2000, 1))
    return X, X[:, 0] + 0.1 * rng.normal(size=2000)


def test_rows_are_disjoint(data):
    X, _ = data
    number = np.arange(2000.0)
    world = SplitWorld(X, number, n_train=60, n_test=150, random_state=0)
    assert world.n_training_sets_ == 30
    parts = [world.y_test_, *(world.training_set(s)[1] for s in range(30))]
    rows = np.concatenate(parts)
    assert len(np.unique(rows)) == len(rows) == 150 + 30 * 60
    for X_part, y_part in [(world.X_test_, world.y_test_), world.training_set(7)]:
        assert_array_equal(X_part, X[y_part.astype(int)])
    assert_array_equal(clone(world).y_test_, world.y_test_)


def test_coverage_of_each_simulation_is_the_metric(data):
    world = SplitWorld(*data, n_train=40, n_test=200, random_state=0)
    result = simulate_coverage(LeastSquaresRegressor(), world, n_simulations=40, coverage=0.8, random_state=0)
    for s in (0, 39):
        dist = LeastSquaresRegressor().fit(*world.training_set(s)).predict_dist(world.X_test_)
        assert result.picp[s] == prediction_interval_coverage(world.y_test_, dist, coverage=0.8)
    assert abs(result.picp.mean() - 0.8) < 0.05
    assert result.confidence_coverages is None
    assert result.bias is None


def test_what_one_target_a_row_cannot_answer_raises(data):
    world = SplitWorld(*data, n_train=40, n_test=200, random_state=0)
    result = simulate_coverage(Oracle(line), world, n_simulations=30, random_state=0)
    for refused in (lambda: result.picf, result.brier_score):
        with pytest.raises(ValueError, match="this world has one target a row"):
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
    share = result.prediction_coverages.mean(axis=0)
    assert np.square(share - 0.9).mean() == pytest.approx(0.09, abs=0.03)


def test_confidence_intervals_are_refused_before_the_first_fit(data):
    class NeverFitted(LeastSquaresRegressor):
        def fit(self, X, y):
            raise AssertionError

    world = SplitWorld(*data, n_train=40, n_test=200, random_state=0)
    with pytest.raises(ValueError, match="`confidence` must be 'auto' or False in a SplitWorld"):
        simulate_coverage(NeverFitted(), world, confidence=True)
    with pytest.raises(ValueError, match="`n_simulations` must be at most 45 in this SplitWorld"):
        simulate_coverage(NeverFitted(), world, n_simulations=46)


def test_data_frames_pass_through(data):
    X, y = data
    world = SplitWorld(pd.DataFrame(X, columns=["x"]), pd.Series(y), n_train=40, n_test=200, random_state=0)
    assert list(world.training_set(0)[0].columns) == ["x"]


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"n_train": 1000}, ValueError, "two training sets of 1000, 2200 in all, got 2000"),
        ({"n_train": 0}, ValueError, "`n_train` must be at least 1"),
        ({"n_test": "all"}, TypeError, "`n_test` must be an integer"),
        ({"y": [1.0]}, ValueError, "`y` must have 2000 rows"),
        ({"y": np.zeros((2000, 2))}, ValueError, "`y` must have one column"),
    ],
)
def test_bad_parameters(data, params, error, match):
    X, y = data
    with pytest.raises(error, match=match):
        SplitWorld(**{"X": X, "y": y, "n_train": 40, "n_test": 200} | params)


@pytest.mark.parametrize("index", [48, -1])
def test_bad_numbers_of_training_sets(data, index):
    with pytest.raises(ValueError, match="`index`"):
        SplitWorld(*data, n_train=40, n_test=100, random_state=0).training_set(index)
