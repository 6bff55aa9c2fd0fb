"""Coverage on data whose truth is known: the purpose of an out-of-sample `fit_transform`."""

import numpy as np
import pytest
from joblib import Memory
from sklearn.ensemble import BaggingRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from skuq.prediction import predict_dist
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import BootstrapRegressor, RecalibratedRegressor, UncertaintyRegressor
from tests.regressors.worlds import heteroscedastic_world

SEEDS = range(20)
BAGGED = BaggingRegressor(DecisionTreeRegressor(), n_estimators=25)
MANY_BAGS = BaggingRegressor(DecisionTreeRegressor(), n_estimators=50)  # enough out-of-bag members per row


def coverage(dist, y):
    bounds = dist.interval(0.9)
    return np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))


def mean_coverage(make, world=heteroscedastic_world, n=300, **params):
    covered = []
    for seed in SEEDS:
        X, y = world(n, seed)
        X_new, y_new = world(1000, 1000 + seed)
        covered.append(coverage(predict_dist(make(seed).fit(X, y, **params), X_new), y_new))
    return np.mean(covered)


def noisy_line(n, seed):
    """One column, in which neighbors predict each other, and noise that varies."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.sin(4 * X[:, 0]) + (0.2 + 2 * X[:, 0]) * rng.normal(size=n)


# joblib warns where a busy machine is slow to write a few numbers.
slow_disk = pytest.mark.filterwarnings("ignore:Persisting input arguments took:UserWarning")


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """Cache of pipelines that differ in the recalibrator: their regressor is fitted once."""
    return Memory(tmp_path_factory.mktemp("regressors"), verbose=0)


@slow_disk
@pytest.mark.parametrize("recalibrator", [None, IsotonicRecalibrator(), StdScalingRecalibrator()])
@pytest.mark.parametrize("method", ["residual", "bootstrap"])
def test_trees_that_follow_every_row_do_not_flatter_themselves(method, recalibrator, memory):
    def make(seed):
        tree = DecisionTreeRegressor(random_state=0)
        model = UncertaintyRegressor(tree, method, random_state=seed)
        return model if recalibrator is None else make_pipeline(model, recalibrator, memory=memory)

    low, high = (0.88, 0.94) if recalibrator is None and method == "bootstrap" else (0.88, 0.92)
    if isinstance(recalibrator, StdScalingRecalibrator) and method == "residual":
        low = 0.86  # shapes differ between rows, so one factor of all standard deviations is not enough
    assert low < mean_coverage(make, noisy_line) < high


@slow_disk
@pytest.mark.parametrize("recalibrator", [IsotonicRecalibrator(), StdScalingRecalibrator()])
def test_noise_that_varies_is_learned_from_rows_unseen_by_both_models(recalibrator, memory):
    def make(seed):
        model = BootstrapRegressor(
            DecisionTreeRegressor(random_state=0), 15, noise="heteroscedastic", random_state=seed
        )
        return make_pipeline(model, recalibrator, memory=memory)

    assert 0.88 < mean_coverage(make, noisy_line, n=400) < 0.92


PIPELINES = {
    "bootstrap, std": lambda seed: make_pipeline(
        UncertaintyRegressor(BAGGED, "bootstrap", random_state=seed), StdScalingRecalibrator()
    ),
    "bootstrap, isotonic": lambda seed: make_pipeline(
        BootstrapRegressor(BAGGED, random_state=seed), IsotonicRecalibrator()
    ),
    "members, std": lambda seed: make_pipeline(
        BootstrapRegressor(MANY_BAGS, noise=None, random_state=seed), StdScalingRecalibrator()
    ),
    "residual, isotonic": lambda seed: make_pipeline(
        UncertaintyRegressor(
            BaggingRegressor(DecisionTreeRegressor(), n_estimators=10), "residual", cv=3, random_state=seed
        ),
        IsotonicRecalibrator(),
    ),
    "few members, std": lambda seed: make_pipeline(
        BootstrapRegressor(BaggingRegressor(DecisionTreeRegressor()), random_state=seed),
        StdScalingRecalibrator(),
    ),
    "own trees": lambda seed: make_pipeline(
        BootstrapRegressor(DecisionTreeRegressor(), 25, random_state=seed), StdScalingRecalibrator()
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_with_a_recalibrator_covers_within_two_points(name):
    assert mean_coverage(PIPELINES[name]) == pytest.approx(0.9, abs=0.02)


def test_in_sample_calibration_would_not():
    covered = []
    for seed in SEEDS:
        X, y = heteroscedastic_world(300, seed)
        X_new, y_new = heteroscedastic_world(1000, 1000 + seed)
        model = BootstrapRegressor(BAGGED, noise=None, random_state=seed).fit(X, y)
        recalibrator = StdScalingRecalibrator().fit(model.predict_dist(X), y)
        covered.append(coverage(recalibrator.transform(model.predict_dist(X_new)), y_new))
    assert np.mean(covered) < 0.75


def selection_world(n, seed):
    """300 columns of which none matters: a selector fitted on a row fits its noise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 300)), rng.normal(size=n)


def test_a_supervised_selector_inside_keeps_the_coverage_that_one_outside_loses():
    child = make_pipeline(SelectKBest(f_regression, k=10), LinearRegression())
    inside = mean_coverage(
        lambda seed: make_pipeline(
            UncertaintyRegressor(child, cv=5, random_state=seed),
            StdScalingRecalibrator(),
        ),
        selection_world,
        n=150,
    )
    assert inside == pytest.approx(0.9, abs=0.02)
    outside = mean_coverage(
        lambda seed: make_pipeline(
            SelectKBest(f_regression, k=10),
            UncertaintyRegressor(LinearRegression(), cv=5, random_state=seed),
            StdScalingRecalibrator(),
        ),
        selection_world,
        n=150,
    )
    assert outside < inside - 0.03


def grouped_world(n, seed):
    """A mean of its own for each group of 5 rows; new rows belong to new groups."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=n // 5)
    places = rng.uniform(size=(n // 5, 2))
    group = np.repeat(np.arange(n // 5), 5)
    return places[group] + 1e-3 * rng.normal(size=(n, 2)), means[group] + 0.2 * rng.normal(size=n)


def test_group_k_fold_keeps_the_coverage_that_random_folds_lose():
    groups = np.repeat(np.arange(60), 5)

    def wrap(cv, seed):
        bootstrap = BootstrapRegressor(DecisionTreeRegressor(), 12, random_state=seed)
        return RecalibratedRegressor(bootstrap, cv=cv, random_state=seed)

    grouped = mean_coverage(lambda seed: wrap(GroupKFold(5), seed), grouped_world, groups=groups)
    assert grouped == pytest.approx(0.9, abs=0.02)
    assert mean_coverage(lambda seed: wrap(5, seed), grouped_world) < 0.7


def sorted_world(n, seed):
    """Rows in the order of the first column, as files often are."""
    X, y = heteroscedastic_world(n, seed)
    order = np.argsort(X[:, 0])
    return X[order], y[order]


def test_sorted_rows_keep_the_coverage():
    def wrap(seed):
        child = DecisionTreeRegressor(min_samples_leaf=10)
        return make_pipeline(UncertaintyRegressor(child, cv=5, random_state=seed), StdScalingRecalibrator())

    assert mean_coverage(wrap, sorted_world) == pytest.approx(0.9, abs=0.02)
