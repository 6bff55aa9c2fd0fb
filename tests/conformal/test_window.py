"""Calibration with a window: bounded memory, and coverages that are requested after rows have left."""

import pickle
from itertools import product

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator

from skuq.conformal import ConformalRegressor
from skuq.conformal._adaptive import SequenceConformal
from skuq.conformal._intervals import ObservedRows
from skuq.distributions import Normal
from tests.conformal.conftest import MODELS
from tests.conformal.test_adaptive import ADAPTATIONS, level_of, observed
from tests.regressors.worlds import linear_world

COVERAGES = [0.5, 0.8, 0.9]
FIRST = [("split", "aci"), ("normalized", "dtaci"), ("cqr", "aci")]
METHODS = [
    pytest.param(*pair, marks=() if pair in FIRST else pytest.mark.laws)
    for pair in product(MODELS, ADAPTATIONS)
]
pytestmark = pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")


def is_positive(X):
    return X[:, 0] > 0


def start(models, method, X, y, **params):
    return ConformalRegressor(models[method], method, **params).fit(X, y)


def drifting(n, seed=5):
    """Rows whose noise increases."""
    X, y = linear_world(n, seed)
    return X, y + np.linspace(0, 3, n) * np.random.default_rng(seed).normal(size=n)


def observe(regressor, X, y, together=1):
    for first in range(0, len(y), together):
        regressor.partial_fit(X[first : first + together], y[first : first + together])
    return regressor


# --------------------------------------------------------------------------- late coverages


@pytest.mark.parametrize(("method", "adapt"), METHODS)
@pytest.mark.parametrize(("together", "symmetric", "window", "n"), [(1, True, 70, 70), (7, False, None, 140)])
def test_a_late_coverage_equals_an_early_one(models, method, adapt, together, symmetric, window, n):
    """This is exact until an observed row leaves the window. The rows of `fit` may have left."""
    X, y = drifting(n)
    params = {"adapt": adapt, "window": window, "symmetric": symmetric}
    early, late = (start(models, method, *linear_world(100, seed=2), **params) for _ in range(2))
    early.predict_interval(X, COVERAGES)
    for regressor in (early, late):
        observe(regressor, X, y, together)
    late = pickle.loads(pickle.dumps(late))
    np.testing.assert_array_equal(early.predict_interval(X, COVERAGES), late.predict_interval(X, COVERAGES))


@pytest.mark.parametrize("options", [{}, {"group_by": is_positive, "min_group_size": 5}])
@pytest.mark.parametrize(("method", "adapt"), METHODS)
@pytest.mark.parametrize("together", [8, pytest.param(1, marks=pytest.mark.laws)])
def test_a_late_coverage_starts_with_the_rows_in_the_window(models, method, adapt, together, options):
    """It equals the coverage of a regressor that is calibrated on the rows before the window."""
    window, n = 40, 200
    X, y = drifting(n)
    params = {"adapt": adapt, "window": window, **options}
    late = observe(start(models, method, *linear_world(100, seed=2), **params), X, y, together)
    late = pickle.loads(pickle.dumps(late))
    before, last = slice(n - 2 * window, n - window), slice(n - window, n)
    new = start(models, method, X[before], y[before], **params)
    observe(new, X[last], y[last], together)
    for coverage in COVERAGES:
        assert level_of(late, coverage) == level_of(new, coverage) != 1 - coverage
    X_next, y_next = drifting(10, seed=6)
    for regressor in (late, new):
        observe(regressor, X_next, y_next, together)
    np.testing.assert_array_equal(late.predict_interval(X, COVERAGES), new.predict_interval(X, COVERAGES))


@pytest.mark.laws
@pytest.mark.parametrize(("method", "adapt"), [("split", "aci"), ("normalized", "dtaci"), ("cqr", "dtaci")])
def test_the_coverage_after_a_late_request(models, method, adapt):
    n = 1200
    X, y = drifting(n)
    regressor = start(models, method, *linear_world(100, seed=2), adapt=adapt, window=150)
    strategy = SequenceConformal(regressor._conformal, *regressor._adaptation)
    regressor._conformal = strategy
    prediction = strategy._predict(X)
    inside = []
    for t in range(n):
        if t >= 600:
            low, high = regressor.predict_interval(X[[t]], 0.8)[0]
            inside.append(low <= y[t] <= high)
        strategy.add(observed(prediction[t : t + 1], y[[t]]))
    assert np.mean(inside) == pytest.approx(0.8, abs=0.03)
    assert np.mean(inside[:200]) == pytest.approx(0.8, abs=0.08)


# ----------------------------------------------------------------------------------- memory


def sizes(models, method, options, window, counts):
    """Return the pickle size of the calibration after several numbers of calls."""
    X, y = linear_world(counts[-1], seed=4)
    regressor = start(models, method, *linear_world(100, seed=2), window=window, **options)
    strategy, size = SequenceConformal(regressor._conformal, *regressor._adaptation), []
    regressor._conformal = strategy
    prediction = strategy._predict(X)
    for t in range(counts[-1]):
        rows = strategy._options.rows(X[[t]])
        strategy.add(ObservedRows(rows, prediction[t : t + 1], y[[t]], np.ones(1)))
        if t == 20:
            regressor.predict_interval(X[:1], [0.9, 0.8])
        if t + 1 in counts:
            size.append(len(pickle.dumps(strategy)))
    return size


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *(
            pytest.param(method, {"adapt": adapt}, marks=() if (method, adapt) in FIRST else pytest.mark.laws)
            for method, adapt in product(MODELS, ADAPTATIONS)
        ),
        ("split", {"adapt": "dtaci", "symmetric": False}),
        ("split", {"group_by": is_positive, "rare_groups": "pool"}),
        pytest.param("cqr", {"group_by": is_positive, "rare_groups": "pool"}, marks=pytest.mark.laws),
    ],
)
def test_the_memory_is_bounded_by_the_window(models, method, options):
    early, late = sizes(models, method, options, 50, [150, 400])
    assert late <= early + 500


def test_calls_of_many_rows_leave_at_once(models):
    """The window may be shorter than a call, and a call may be partly in the window."""
    X, y = drifting(400)
    for method in MODELS:
        for together in (7, 100):
            regressor = start(models, method, *linear_world(100, seed=2), window=20)
            observe(regressor, X, y, together)
            assert regressor.n_calibration_ == 20
            assert np.isfinite(regressor.predict_interval(X[:5], COVERAGES)).all()
            assert len(regressor.predict_dist(X[:5])) == 5


# ------------------------------------------------------------------------------- bad input


class LargeScale(RegressorMixin, BaseEstimator):
    """Normal distributions. The scale is the first column."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def predict_dist(self, X):
        return Normal(np.zeros(len(X)), X[:, 0])


@pytest.mark.parametrize("window", [30, 200])
def test_rows_that_are_invalid_at_one_coverage_change_nothing(window):
    """Bounds of 90 % are finite, and bounds of 99 % are not."""
    rng = np.random.default_rng(0)
    X, y = np.ones((150, 1)), rng.normal(size=150)
    model = FrozenEstimator(LargeScale().fit(X, y))
    regressor = ConformalRegressor(model, "cqr", window=window).fit(X[:100], y[:100])
    regressor.predict_interval(X, [0.9, 0.99])
    observe(regressor, X[100:], y[100:])
    before = pickle.dumps(regressor._conformal)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"coverage 0\.99 at row 0"):
        regressor.partial_fit(np.full((1, 1), 1e308), [0.0])
    assert pickle.dumps(regressor._conformal) == before
    observe(regressor, X[:5], y[:5])
    assert np.isfinite(regressor.predict_interval(X, [0.9])).all()


def test_a_sequence_has_the_parameters_of_its_fit(models):
    """`set_params` after `fit` changes nothing before the next `fit`."""
    X, y = drifting(60)
    fitted, changed = (start(models, "split", X[:40], y[:40], window=30, gamma=0.1) for _ in range(2))
    changed.set_params(window=10, gamma=0.9, adapt="dtaci")
    intervals = [observe(each, X[40:50], y[40:50]).predict_interval(X[50:]) for each in (fitted, changed)]
    np.testing.assert_array_equal(*intervals)
