import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone

from skuq.distributions import Empirical, Normal, ScipyDistribution, StudentT
from skuq.metrics import crps_loss, get_scorer
from skuq.simulation import KnownProcess, make_known_process
from tests.simulation.processes import line, linear_process, uniform


def test_a_training_set_depends_on_its_number_and_the_seed_alone():
    process, again = linear_process(), linear_process()
    for index in (3, 0, 3):
        for part, other in zip(process.training_set(index), again.training_set(index), strict=True):
            assert_array_equal(part, other)
    assert not np.array_equal(process.training_set(0)[1], process.training_set(1)[1])
    assert not np.array_equal(process.training_set(0)[1], linear_process(random_state=1).training_set(0)[1])


def test_without_a_seed_one_is_drawn_at_construction():
    process = linear_process(random_state=None)
    assert_array_equal(process.training_set(0)[1], process.training_set(0)[1])
    assert not np.array_equal(process.X_test_, linear_process(random_state=None).X_test_)


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


def test_the_process_is_the_best_forecast():
    process = linear_process(n_train=2000)
    X, y = process.training_set(0)
    truth = crps_loss(y, process.predict_dist(X))
    assert truth < min(crps_loss(y, (X[:, 0], scale)) for scale in (0.07, 0.14))
    assert get_scorer("neg_crps")(process, X, y) == -truth
    assert_array_equal(process.predict(X), X[:, 0])


def test_data_frames_pass_through():
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
def test_bad_parameters(params, error, match):
    with pytest.raises(error, match=match):
        KnownProcess(**{"truth": line, "draw_X": uniform, "n_train": 25, "n_test": 50} | params)


def test_a_draw_with_other_columns_than_the_test_rows():
    columns = iter([1, 2])
    process = KnownProcess(
        line, lambda n, rng: rng.uniform(size=(n, next(columns))), n_train=5, n_test=5, random_state=0
    )
    with pytest.raises(ValueError, match=r"`draw_X` must return the same columns .* got 2, but"):
        process.training_set(0)


@pytest.mark.parametrize(("index", "error"), [(-1, ValueError), (0.5, TypeError)])
def test_bad_numbers_of_training_sets(index, error):
    with pytest.raises(error, match="`index`"):
        linear_process().training_set(index)


def test_a_truth_with_atoms():
    process = KnownProcess(
        lambda X: Empirical(np.column_stack([X[:, 0], X[:, 0] + 1])), uniform, n_train=50, random_state=0
    )
    X, y = process.training_set(0)
    assert set(np.round(y - X[:, 0], 12)) == {0.0, 1.0}


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
