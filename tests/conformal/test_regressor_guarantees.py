"""What conformal prediction promises, by simulation on known worlds.

The share of new rows that one calibration set covers is random: of n_test new rows it covers
BetaBinomial(n_test, k, n + 1 - k) many, k = ceil((n + 1) coverage), whatever the model and the noise.
"""

import numpy as np
import pytest
from scipy import stats
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.tree import DecisionTreeRegressor

from skuq.conformal import ConformalRegressor
from skuq.regressors import MultiQuantileRegressor, ResidualRegressor
from tests.laws import hits_as_uniform

N_TEST = 100


def world(n, rng):
    """Skewed noise whose size varies, around a mean that no model below has right."""
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + (0.2 + np.abs(X[:, 0])) * (rng.exponential(size=n) - 1)


MODELS = {
    "split": DecisionTreeRegressor(max_depth=3),
    "normalized": ResidualRegressor(LinearRegression(), random_state=0),
    "cqr": MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.1, 0.5, 0.9]),
}


@pytest.fixture(scope="module")
def models():
    X, y = world(150, np.random.default_rng(0))
    return {method: FrozenEstimator(model.fit(X, y)) for method, model in MODELS.items()}


def inside(bounds, y):
    return (bounds[:, 0] <= y) & (y <= bounds[:, 1])


def below_upper(bounds, y):
    return y <= bounds[:, 1]


def above_lower(bounds, y):
    return y >= bounds[:, 0]


def covered(model, coverage, n_cal, n_sets, covers=inside, seed=0, draw=world):
    """Return how many of N_TEST new rows each of many calibration sets covers."""
    counts = np.empty(n_sets, dtype=int)
    for index in range(n_sets):
        rng = np.random.default_rng((seed, index))
        X, y = draw(n_cal + N_TEST, rng)
        model.fit(X[:n_cal], y[:n_cal])
        counts[index] = covers(model.predict_interval(X[n_cal:], coverage), y[n_cal:]).sum()
    return counts


def p_value(counts, n_test, k, n_cal):
    """Kolmogorov-Smirnov test of the counts, made continuous at random, against their exact law."""
    uniform = hits_as_uniform(counts, n_test, k, n_cal, np.random.default_rng(1))
    return stats.kstest(uniform, "uniform").pvalue


def rank(n, coverage):
    return int(np.ceil((n + 1) * coverage - 1e-9))


LAWS, SLOW = pytest.mark.laws, pytest.mark.slow
MANY_CELLS = [
    pytest.param(method, coverage, n_cal, 600, marks=SLOW)
    for method in MODELS
    for coverage in (0.5, 0.8, 0.9, 0.95)
    for n_cal in (19, 50, 99, 300)
]


@pytest.mark.parametrize(
    ("method", "coverage", "n_cal", "n_sets"),
    [
        ("split", 0.9, 19, 300),
        pytest.param("normalized", 0.8, 24, 300, marks=LAWS),
        pytest.param("cqr", 0.75, 30, 300, marks=LAWS),
        *MANY_CELLS,
    ],
)
def test_symmetric_intervals_cover_by_the_law(models, method, coverage, n_cal, n_sets):
    counts = covered(ConformalRegressor(models[method], method), coverage, n_cal, n_sets)
    k = rank(n_cal, coverage)
    assert p_value(counts, N_TEST, k, n_cal) > 1e-3
    for wrong in (k - 1, k + 1):  # a test of few rows notices one rank too few or too many
        assert n_sets > 300 or wrong > n_cal or p_value(counts, N_TEST, wrong, n_cal) < 1e-3


@pytest.mark.parametrize(
    ("method", "coverage", "n_cal", "n_sets"),
    [
        pytest.param("split", 0.8, 29, 300, marks=LAWS),
        pytest.param("cqr", 0.8, 29, 300, marks=LAWS),
        *MANY_CELLS,
    ],
)
def test_each_bound_alone_covers_by_the_law(models, method, coverage, n_cal, n_sets):
    regressor = ConformalRegressor(models[method], method, symmetric=False)
    k = rank(n_cal, (1 + coverage) / 2)
    if k > n_cal:
        pytest.skip("needs more rows")
    for side in (below_upper, above_lower):
        counts = covered(regressor, coverage, n_cal, n_sets, side)
        assert p_value(counts, N_TEST, k, n_cal) > 1e-3
        assert n_sets > 300 or p_value(counts, N_TEST, k - 1, n_cal) < 1e-3
    if method != "cqr":  # one score a row: both bounds together leave out 2 (n + 1 - k) ranks
        both = covered(regressor, coverage, n_cal, n_sets)
        assert p_value(both, N_TEST, 2 * k - n_cal - 1, n_cal) > 1e-3


@pytest.mark.laws
def test_a_model_that_is_fitted_anew_obeys_the_law_too():
    model = ConformalRegressor(LinearRegression(), held_out_size=19)
    counts = []
    for index in range(300):
        X, y = world(60 + N_TEST, np.random.default_rng((7, index)))
        model.set_params(random_state=index).fit(X[:60], y[:60])
        counts.append(inside(model.predict_interval(X[60:]), y[60:]).sum())
    assert p_value(np.array(counts), N_TEST, 18, 19) > 1e-3


def group_of(X):
    return np.where(np.abs(X[:, 0]) > 1.2, "rough", "smooth")


def groups_of(n_rough):
    """Return a world whose first ``n_rough`` calibration rows are of one group, so that both have their n."""

    def draw(n, rng):
        X, y = world(20 * n, rng)
        rough = np.flatnonzero(group_of(X) == "rough")
        smooth = np.flatnonzero(group_of(X) == "smooth")
        rows = np.concatenate([rough[:n_rough], smooth[: n - n_rough - N_TEST]])
        others = np.setdiff1d(np.arange(len(X)), rows)[:N_TEST]
        rows = np.concatenate([rows, others])
        return X[rows], y[rows]

    return draw


@pytest.mark.parametrize(
    ("method", "coverage", "n_rough", "n_smooth", "n_sets"),
    [
        pytest.param("split", 0.8, 14, 39, 200, marks=LAWS),
        *(pytest.param(name, c, 19, 99, 400, marks=SLOW) for c in (0.5, 0.8, 0.9) for name in MODELS),
    ],
)
def test_each_group_covers_by_its_own_law(models, method, coverage, n_rough, n_smooth, n_sets):
    regressor = ConformalRegressor(models[method], method, group_by=group_of)
    n = n_rough + n_smooth
    uniform = {"rough": [], "smooth": []}
    for index in range(n_sets):
        rng = np.random.default_rng((3, index))
        X, y = groups_of(n_rough)(n + N_TEST, rng)
        hit = inside(regressor.fit(X[:n], y[:n]).predict_interval(X[n:], coverage), y[n:])
        for kind, n_cal in (("rough", n_rough), ("smooth", n_smooth)):
            mine = hit[group_of(X[n:]) == kind]
            k = rank(n_cal, coverage)
            uniform[kind].append(hits_as_uniform(mine.sum(), len(mine), k, n_cal, rng))
    for values in uniform.values():
        assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_without_groups_one_covers_too_little_and_one_too_much(models):
    """The reason for `group_by`: the promise of one group is kept at the cost of the other."""
    X, y = world(20000, np.random.default_rng(4))
    bounds = ConformalRegressor(models["split"]).fit(X[:5000], y[:5000]).predict_interval(X[5000:])
    mondrian = ConformalRegressor(models["split"], group_by=group_of).fit(X[:5000], y[:5000])
    held, grouped = (inside(b, y[5000:]) for b in (bounds, mondrian.predict_interval(X[5000:])))
    rough = group_of(X[5000:]) == "rough"
    assert held[rough].mean() < 0.86
    assert held[~rough].mean() > 0.91
    assert grouped[rough].mean() == pytest.approx(0.9, abs=0.025)
    assert grouped[~rough].mean() == pytest.approx(0.9, abs=0.025)


def shifted(n, rng):
    """Rows of `world` where the noise is large: kept with a probability proportional to the ratio."""
    X, y = world(12 * n, rng)
    keep = np.flatnonzero(rng.uniform(size=len(X)) < ratio(X) / np.exp(4))[:n]
    return X[keep], y[keep]


def ratio(X):
    return np.exp(2 * np.abs(X[:, 0]))


@pytest.mark.laws
@pytest.mark.parametrize("method", ["split", "cqr"])
def test_a_density_ratio_restores_the_coverage_that_a_shift_takes(models, method):
    plain, weighted = [], []
    for index in range(60):
        rng = np.random.default_rng((5, index))
        X, y = world(300, rng)
        X_new, y_new = shifted(200, rng)
        regressor = ConformalRegressor(models[method], method)
        plain.append(inside(regressor.fit(X, y).predict_interval(X_new), y_new).mean())
        regressor.set_params(density_ratio=ratio)
        weighted.append(inside(regressor.fit(X, y).predict_interval(X_new), y_new).mean())
    error = np.std(weighted, ddof=1) / np.sqrt(60)
    assert np.mean(plain) < 0.87
    # not below 0.9; above it by as much as the heaviest rows weigh
    assert 0.9 - 3 * error < np.mean(weighted) < 0.93 + 3 * error


def noisy(n, rng):
    X = rng.normal(size=(n, 10))
    return X, X[:, 1] + (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)


PARTS = {"the median of |x_0|": 0.6745, "|x_0| = 1": 1.0}


def parts(predict_interval, rng, n):
    """Return the coverage of new rows where the noise is small and where it is large, for each of PARTS."""
    X, y = noisy(n, rng)
    hit, size = inside(predict_interval(X), y), np.abs(X[:, 0])
    return [[hit[size < edge].mean(), hit[size >= edge].mean()] for edge in PARTS.values()]


def normalized(seed):
    scaled = ResidualRegressor(LinearRegression(), random_state=seed)
    rng = np.random.default_rng((6, seed))
    model = ConformalRegressor(scaled, "normalized", random_state=seed).fit(*noisy(2000, rng))
    return parts(model.predict_interval, rng, 10_000)


def mapie_cv_plus(seed):
    regression = pytest.importorskip("mapie.regression")
    rng = np.random.default_rng((6, seed))
    peer = regression.CrossConformalRegressor(LinearRegression(), confidence_level=0.9, method="plus", cv=5)
    peer.fit_conformalize(*noisy(2000, rng))
    return parts(lambda X: peer.predict_interval(X)[1][:, :, 0], rng, 4000)


@LAWS
def test_normalized_intervals_follow_the_noise():
    """The difference between the coverages of quiet and loud rows is less than half of that of CV+."""
    quiet, loud = np.mean([normalized(seed) for seed in range(3)], axis=0).T
    quiet_of_peer, loud_of_peer = np.transpose(mapie_cv_plus(0))
    assert (quiet - loud < (quiet_of_peer - loud_of_peer) / 2).all()


@LAWS
def test_intervals_of_mapie_cover_little_noise_too_often_and_much_noise_too_seldom():
    _, (little, much) = mapie_cv_plus(0)
    assert little > 0.95
    assert much < 0.79
