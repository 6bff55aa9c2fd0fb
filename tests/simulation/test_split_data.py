import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skuq.metrics import prediction_interval_coverage
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import SplitData, simulate_coverage
from tests.simulation.processes import Oracle, line


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(2000, 1))
    return X, X[:, 0] + 0.1 * rng.normal(size=2000)


def test_rows_are_disjoint(data):
    X, _ = data
    number = np.arange(2000.0)
    process = SplitData(X, number, n_train=60, n_test=150, random_state=0)
    assert process.n_training_sets_ == 30
    parts = [process.y_test_, *(process.training_set(s)[1] for s in range(30))]
    rows = np.concatenate(parts)
    assert len(np.unique(rows)) == len(rows) == 150 + 30 * 60
    for X_part, y_part in [(process.X_test_, process.y_test_), process.training_set(7)]:
        assert_array_equal(X_part, X[y_part.astype(int)])
    assert_array_equal(clone(process).y_test_, process.y_test_)


def test_coverage_of_each_simulation_is_the_metric(data):
    process = SplitData(*data, n_train=40, n_test=200, random_state=0)
    result = simulate_coverage(
        LeastSquaresRegressor(), process, n_simulations=40, coverage=0.8, random_state=0
    )
    for s in (0, 39):
        dist = LeastSquaresRegressor().fit(*process.training_set(s)).predict_dist(process.X_test_)
        assert result.picp[s] == prediction_interval_coverage(process.y_test_, dist, coverage=0.8)
    assert abs(result.picp.mean() - 0.8) < 0.05
    assert result.confidence_coverages is None
    assert result.bias is None


def test_what_one_target_a_row_cannot_answer_raises(data):
    process = SplitData(*data, n_train=40, n_test=200, random_state=0)
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
    share = result.prediction_coverages.mean(axis=0)
    assert np.square(share - 0.9).mean() == pytest.approx(0.09, abs=0.03)


def test_confidence_intervals_are_refused_before_the_first_fit(data):
    class NeverFitted(LeastSquaresRegressor):
        def fit(self, X, y):
            raise AssertionError

    process = SplitData(*data, n_train=40, n_test=200, random_state=0)
    with pytest.raises(ValueError, match="`confidence` must be 'auto' or False for a SplitData"):
        simulate_coverage(NeverFitted(), process, confidence=True)
    with pytest.raises(ValueError, match=r"this SplitData has .*`n_simulations` must be at most 45"):
        simulate_coverage(NeverFitted(), process, n_simulations=46)


def test_data_frames_pass_through(data):
    X, y = data
    process = SplitData(pd.DataFrame(X, columns=["x"]), pd.Series(y), n_train=40, n_test=200, random_state=0)
    assert list(process.training_set(0)[0].columns) == ["x"]


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
def test_bad_parameters(data, params, error, match):
    X, y = data
    with pytest.raises(error, match=match):
        SplitData(**{"X": X, "y": y, "n_train": 40, "n_test": 200} | params)


@pytest.mark.parametrize("index", [48, -1])
def test_bad_numbers_of_training_sets(data, index):
    with pytest.raises(ValueError, match="`index`"):
        SplitData(*data, n_train=40, n_test=100, random_state=0).training_set(index)
