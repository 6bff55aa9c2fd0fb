"""CV+, jackknife+ and jackknife+-after-bootstrap: the bounds of the papers and of MAPIE, and coverage."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from skuq.conformal import CrossConformalRegressor
from skuq.conformal._cross import FoldBounds, PairBounds
from skuq.exceptions import SmallSampleWarning
from tests.regressors.worlds import linear_world

COVERAGES = [0.3, 0.5, 0.8, 0.9, 0.95]
AFTER = "jackknife+ab"
METHODS = ["cv+", "jackknife+", AFTER]
every_method = pytest.mark.parametrize("method", METHODS)


def blocks(method, n_rows):
    """Return the option for blocks of rows, which "cv+" does not have."""
    return {} if method == "cv+" else {"block_size": n_rows}


TREE = DecisionTreeRegressor(max_depth=3, random_state=0)
both_shapes = pytest.mark.parametrize("symmetric", [True, False])


def skewed_world(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, 2.0, 0.5] + rng.exponential(size=n) ** 1.5


@pytest.fixture(scope="module")
def rows():
    return skewed_world(60), skewed_world(20, seed=1)[0]


def interval(X, y, X_new, method, estimator=None, coverage=tuple(COVERAGES), **options):
    fit_params = {name: options.pop(name) for name in ("sample_weight", "groups") if name in options}
    options.setdefault("random_state", 0)
    model = CrossConformalRegressor(LinearRegression() if estimator is None else estimator, method, **options)
    return model.fit(X, y, **fit_params).predict_interval(X_new, list(coverage))


# ------------------------------------------------------------------------------ the definitions


def rank(coverage, n):
    """ceil((n + 1) c), with a rank that only rounding lifts put back."""
    return int(np.ceil(round(coverage * (n + 1), 9)))


def bounds_of_sums(centers, residuals, coverage, symmetric):
    """Barber et al. (2021): from the predictions (m, n) and the residual (n,) of each row's own model."""
    n = len(residuals)
    if symmetric:
        k = rank(coverage, n)
        upper, lower = centers + np.abs(residuals), centers - np.abs(residuals)
    else:
        k = rank((1 + coverage) / 2, n)
        upper = lower = centers + residuals
    if k > n:
        return np.tile([-np.inf, np.inf], (len(centers), 1))
    # the ceil((1 - alpha)(n + 1))-th smallest, and the floor(alpha (n + 1))-th smallest
    return np.sort(np.column_stack([np.sort(lower)[:, n - k], np.sort(upper)[:, k - 1]]), axis=1)


def by_hand(X, y, X_new, splits, symmetric, estimator):
    centers, residuals = [], []
    for train, test in splits:
        model = clone(estimator).fit(X[train], y[train])
        residuals.extend(y[test] - model.predict(X[test]))
        centers.extend([model.predict(X_new)] * len(test))
    centers, residuals = np.column_stack(centers), np.array(residuals)
    return np.stack([bounds_of_sums(centers, residuals, c, symmetric) for c in COVERAGES], axis=2)


@both_shapes
@pytest.mark.parametrize(
    "cv",
    [KFold(3), KFold(7, shuffle=True, random_state=0), KFold(40), TimeSeriesSplit(4), LeaveOneOut()],
    ids=repr,
)
def test_the_bounds_of_the_paper(rows, cv, symmetric):
    (X, y), X_new = rows
    expected = by_hand(X, y, X_new, cv.split(X), symmetric, LinearRegression())
    assert_allclose(interval(X, y, X_new, "cv+", cv=cv, symmetric=symmetric), expected, rtol=1e-12)


@both_shapes
@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_the_bounds_of_the_paper_after_bootstrap(rows, aggregate, symmetric):
    """Kim, Xu and Barber (2020): each row is judged by the models of the resamples without it."""
    (X, y), X_new = rows
    rng, n = np.random.default_rng(0), len(y)
    drawn = [rng.integers(0, n, n) for _ in range(20)]
    splits = [(train, np.setdiff1d(np.arange(n), train)) for train in drawn]
    models = [clone(TREE).fit(X[train], y[train]) for train in drawn]
    join = getattr(np, aggregate)
    centers, residuals = [], []
    for i in range(n):
        without = [model for model, train in zip(models, drawn, strict=True) if i not in train]
        centers.append(join([model.predict(X_new) for model in without], axis=0))
        residuals.append(y[i] - join([model.predict(X[[i]])[0] for model in without]))
    centers = np.column_stack(centers)
    expected = [bounds_of_sums(centers, np.array(residuals), c, symmetric) for c in COVERAGES]
    found = interval(X, y, X_new, "jackknife+ab", TREE, cv=splits, aggregate=aggregate, symmetric=symmetric)
    assert_allclose(found, np.stack(expected, axis=2), rtol=1e-12)


def test_the_jackknife_leaves_out_one_row_at_a_time(rows):
    (X, y), X_new = rows
    assert_array_equal(interval(X, y, X_new, "jackknife+"), interval(X, y, X_new, "cv+", cv=LeaveOneOut()))


def test_resamples_are_bootstraps_that_leave_rows_out():
    class Remembering(LinearRegression):
        def fit(self, X, y):
            self.y_seen = y
            return super().fit(X, y)

    X, y = linear_world(3)
    model = CrossConformalRegressor(Remembering(), AFTER, n_estimators=60, random_state=0).fit(X, y)
    seen = [member.estimator.y_seen for member in model._conformal.members]
    assert len(seen) == 60
    assert {len(values) for values in seen} == {3}
    assert {len(np.unique(values)) for values in seen} == {1, 2}


@pytest.mark.laws
@both_shapes
@pytest.mark.parametrize("estimator", [LinearRegression(), TREE], ids=repr)
def test_the_bounds_of_mapie(rows, estimator, symmetric, subtests):
    """MAPIE 1.6.0, given the same folds or resamples."""
    regression = pytest.importorskip("mapie.regression")
    from mapie.conformity_scores import AbsoluteConformityScore
    from mapie.subsample import Subsample

    (X, y), X_new = rows
    common = {"confidence_level": COVERAGES, "conformity_score": AbsoluteConformityScore(symmetric)}
    for cv in (KFold(2), KFold(5, shuffle=True, random_state=0), KFold(30), LeaveOneOut()):
        method, own = ("jackknife+", None) if isinstance(cv, LeaveOneOut) else ("cv+", cv)
        model = regression.CrossConformalRegressor(estimator, cv=cv, **common).fit_conformalize(X, y)
        expected = np.sort(model.predict_interval(X_new, allow_infinite_bounds=True)[1], axis=1)
        found = interval(X, y, X_new, method, estimator, cv=own, symmetric=symmetric)
        with subtests.test(cv=cv):
            assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    cv = Subsample(30, random_state=0)
    for aggregate in ("mean", "median"):
        options = {"resampling": cv, "aggregation_method": aggregate}
        model = regression.JackknifeAfterBootstrapRegressor(estimator, **common, **options)
        expected = np.sort(model.fit_conformalize(X, y).predict_interval(X_new)[1], axis=1)
        found = interval(X, y, X_new, AFTER, estimator, cv=cv, aggregate=aggregate, symmetric=symmetric)
        with subtests.test(aggregate):
            assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


# ------------------------------------------------------------------------------------- coverage


class FastLeastSquares(RegressorMixin, BaseEstimator):
    """Closed form, all folds at once, for simulations."""

    def fit(self, X, y):
        self.coef_ = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y)[0]
        return self

    def _fit_many(self, X, y, rows):
        return [clone(self).fit(X[part], y[part]) for part in rows]

    def predict(self, X):
        return self.coef_[0] + X @ self.coef_[1:]


def linear(rng, n, d):
    """A Gaussian linear model: X, the regression function and y."""
    X = rng.normal(size=(n, d))
    mean = X.sum(axis=1)
    return X, mean, mean + rng.normal(size=n)


def true_coverages(options, n, d, coverage, n_sets, estimator):
    """The coverage of each training set, over new X, exact in y."""
    covered = []
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        X, _, y = linear(rng, n, d)
        X_new, mean, _ = linear(rng, 100, d)
        model = CrossConformalRegressor(estimator, random_state=seed, **options).fit(X, y)
        lower, upper = model.predict_interval(X_new, coverage).T
        covered.append(np.mean(ndtr(upper - mean) - ndtr(lower - mean)))
    return np.array(covered)


MAKERS = {
    "cv+": {},
    "cv+, 10 folds, asymmetric": {"cv": 10, "symmetric": False},
    "jackknife+": {"method": "jackknife+"},
    "jackknife+, asymmetric": {"method": "jackknife+", "symmetric": False},
    "jackknife+ab": {"method": AFTER, "n_estimators": 30},
    "jackknife+ab, median": {"method": AFTER, "n_estimators": 30, "aggregate": "median"},
}


@pytest.mark.parametrize(
    ("maker", "n", "d", "coverage", "n_sets"),
    [
        ("cv+", 39, 2, 0.9, 100),
        *(pytest.param(maker, 39, 2, 0.9, 100, marks=pytest.mark.laws) for maker in METHODS[1:]),
        *(
            pytest.param(maker, *size, coverage, 300, marks=pytest.mark.slow)
            for maker in MAKERS
            for size in ((79, 2), (119, 5), (199, 5))
            for coverage in (0.7, 0.8, 0.9, 0.95)
        ),
        # Barber et al. (2021): the solution of least norm with as many columns as rows
        *(pytest.param(maker, 60, 60, 0.9, 100, marks=pytest.mark.slow) for maker in MAKERS),
    ],
)
def test_coverage_on_gaussian_linear_examples(maker, n, d, coverage, n_sets):
    """Of as many rows as make (n + 1) times the coverage, on one side too, a whole number."""
    covered = true_coverages(MAKERS[maker], n, d, coverage, n_sets, FastLeastSquares())
    error = covered.std(ddof=1) / np.sqrt(len(covered))
    assert covered.mean() >= 1 - 2 * (1 - coverage) - 3 * error
    if d < n:
        assert abs(covered.mean() - coverage) <= 0.015


@pytest.mark.laws
def test_single_trees_cover_too_much_but_not_when_bagged():
    """The numbers of the class docstring."""
    covered = {
        method: true_coverages(MAKERS[method], 200, 5, 0.9, 10, DecisionTreeRegressor(random_state=0)).mean()
        for method in ("cv+", "jackknife+ab")
    }
    assert 0.965 < covered["cv+"] < 0.995
    assert covered["jackknife+ab"] == pytest.approx(0.91, abs=0.02)


@pytest.mark.laws
def test_folds_of_groups_cover_new_groups():
    """Rows of a group share an error: whoever holds out whole groups covers groups that are new."""
    covered, naive = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(40), 10)
        X = rng.normal(size=(40, 1))[groups] + 0.01 * rng.normal(size=(400, 1))
        y = rng.normal(size=40)[groups] + 0.3 * rng.normal(size=400)
        X_new, y_new = rng.normal(size=(500, 1)), np.hypot(1, 0.3) * rng.normal(size=500)
        tree = DecisionTreeRegressor(min_samples_leaf=10, random_state=0)
        for scores, options in ((covered, {"cv": GroupKFold(5), "groups": groups}), (naive, {})):
            lower, upper = interval(X, y, X_new, "cv+", tree, coverage=[0.9], **options)[:, :, 0].T
            scores.append(np.mean((lower <= y_new) & (y_new <= upper)))
    assert np.mean(covered) > 0.86
    assert np.mean(naive) < 0.8


# -------------------------------------------------------------------- folds, repetitions, weights


def test_rows_that_are_never_tested_do_not_calibrate(rows):
    (X, y), X_new = rows
    model = CrossConformalRegressor(LinearRegression(), cv=TimeSeriesSplit(4)).fit(X, y)
    assert model.n_calibration_ == 48
    assert_allclose(model.predict(X_new), LinearRegression().fit(X, y).predict(X_new))


@both_shapes
@pytest.mark.parametrize("folds", [3, 30])
def test_the_same_folds_twice_are_the_same_folds(rows, folds, symmetric):
    (X, y), X_new = rows
    splits = list(KFold(folds).split(X))
    once = interval(X, y, X_new, "cv+", cv=splits, symmetric=symmetric)
    assert_allclose(interval(X, y, X_new, "cv+", cv=splits * 2, symmetric=symmetric), once, rtol=1e-12)


def test_repeated_folds_count_each_row_once(rows):
    (X, y), _ = rows
    cv = RepeatedKFold(n_splits=4, n_repeats=3, random_state=0)
    assert CrossConformalRegressor(LinearRegression(), cv=cv).fit(X, y).n_calibration_ == pytest.approx(60)


@both_shapes
@pytest.mark.parametrize("n_folds", [2, 10])
def test_weights_are_repetitions(rows, n_folds, symmetric):
    (X, y), X_new = rows
    times = np.random.default_rng(0).integers(0, 4, size=len(y))
    fold = np.arange(len(y)) % n_folds

    def splits(of):
        return [(np.flatnonzero(of != k), np.flatnonzero(of == k)) for k in range(n_folds)]

    weighted = interval(
        X, y, X_new, "cv+", cv=splits(fold), symmetric=symmetric, sample_weight=times.astype(float)
    )
    again = np.repeat(np.arange(len(y)), times)
    repeated = interval(X[again], y[again], X_new, "cv+", cv=splits(fold[again]), symmetric=symmetric)
    assert_allclose(weighted, repeated, rtol=1e-9)


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_weights_are_repetitions_in_ranks_after_bootstrap(rows, aggregate):
    (X, y), X_new = rows
    times = np.random.default_rng(0).integers(0, 4, size=len(y))
    rng, n = np.random.default_rng(1), len(y)
    drawn = [rng.integers(0, n, n) for _ in range(30)]
    splits = [(train, np.setdiff1d(np.arange(n), train)) for train in drawn]
    weighted = interval(
        X, y, X_new, "jackknife+ab", cv=splits, aggregate=aggregate, sample_weight=times.astype(float)
    )
    row = np.repeat(np.arange(n), times)
    copies = [np.flatnonzero(row == i) for i in range(n)]
    splits = [
        (np.concatenate([copies[i] for i in train]), np.concatenate([copies[i] for i in test]))
        for train, test in splits
    ]
    repeated = interval(X[row], y[row], X_new, "jackknife+ab", cv=splits, aggregate=aggregate)
    assert_allclose(weighted, repeated, rtol=1e-9)


@every_method
def test_rows_without_weight_leave_no_trace(rows, method):
    (X, y), X_new = rows
    weight = np.ones(len(y))
    weight[::5] = 0
    moved = np.where(weight > 0, y, 1e3)
    options = {"sample_weight": weight} | ({"n_estimators": 30} if method == "jackknife+ab" else {})
    assert_allclose(
        interval(X, y, X_new, method, **options), interval(X, moved, X_new, method, **options), rtol=1e-9
    )


# ------------------------------------------------------------------------------------- odd cases


def test_few_rows_give_infinite_bounds_and_a_warning():
    X, y = linear_world(5)
    model = CrossConformalRegressor(LinearRegression(), "jackknife+").fit(X, y)
    with pytest.warns(SmallSampleWarning, match="90 % needs at least 9 calibration rows, got 5"):
        bounds = model.predict_interval(X[:2], [0.5, 0.9])
    assert np.isfinite(bounds[:, :, 0]).all()
    assert_array_equal(bounds[:, :, 1], [[-np.inf, np.inf]] * 2)
    with pytest.warns(SmallSampleWarning, match="90 % needs at least 19 calibration rows"):
        model.set_params(symmetric=False).fit(X, y).predict_interval(X[:2])


@every_method
def test_two_rows(method):
    cv = 2 if method == "cv+" else None
    model = CrossConformalRegressor(LinearRegression(), method, cv=cv, random_state=0)
    model.fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.warns(SmallSampleWarning, match="got 2"):
        assert_array_equal(model.predict_interval([[0.5]]), [[-np.inf, np.inf]])
    # each row's model is the other row's y
    assert_allclose(model.predict_interval([[0.5]], 0.5), [[-1.0, 2.0]])
    assert np.isfinite(model.predict_dist([[0.5]]).mean()).all()


@every_method
@both_shapes
def test_constant_tied_and_disagreeing_targets(method, symmetric):
    """Where models disagree, the bounds of low coverage cross, and are exchanged."""
    rng = np.random.default_rng(0)
    X, _ = linear_world(60)
    bounds = interval(X, np.full(60, 0.1), X[:5], method, SVR(kernel="linear"), symmetric=symmetric)
    assert_allclose(bounds, 0.1, rtol=1e-12)
    X, y = rng.integers(0, 2, size=(90, 1)).astype(float), rng.integers(0, 3, size=90).astype(float)
    bounds = interval(X, y, X, method, DecisionTreeRegressor(), symmetric=symmetric)
    assert (np.diff(bounds, axis=2)[:, 1] >= 0).all()
    assert (np.diff(bounds, axis=2)[:, 0] <= 0).all()
    covered = bounds[:, :, COVERAGES.index(0.9)]
    assert np.mean((covered[:, 0] <= y) & (y <= covered[:, 1])) >= 0.9
    X, y = rng.normal(size=(40, 2)), 0.01 * rng.normal(size=40)
    y[:3] += 10
    tree = DecisionTreeRegressor(random_state=0)
    lower, upper = interval(X, y, X, method, tree, coverage=[0.05], symmetric=symmetric)[:, :, 0].T
    assert (lower <= upper).all()


@every_method
@both_shapes
def test_units_of_y_do_not_matter(rows, method, symmetric):
    (X, y), X_new = rows
    for unit, offset in ((1e-3, 0.0), (1e3, 5.0)):
        expected = offset + unit * interval(X, y, X_new, method, symmetric=symmetric)
        found = interval(X, offset + unit * y, X_new, method, symmetric=symmetric)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * unit)


@every_method
def test_blocks_jobs_and_copies_do_not_matter(rows, method):
    (X, y), X_new = rows
    model = CrossConformalRegressor(TREE, method, random_state=0).fit(X, y)
    expected = model.predict_interval(X_new, COVERAGES)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_interval(X_new, COVERAGES), expected)
    with parallel_config("threading"):
        assert_array_equal(interval(X, y, X_new, method, TREE, n_jobs=2), expected)
    for n_rows in (1, 7):
        assert_allclose(interval(X, y, X_new, method, TREE, **blocks(method, n_rows)), expected, rtol=1e-12)


@every_method
def test_frames_missing_values_and_kernels_belong_to_the_model(rows, method):
    (X, y), X_new = rows
    expected = interval(X, y, X_new, method)
    frame, frame_new = (pd.DataFrame(part, columns=list("abc")) for part in (X, X_new))
    frame["d"], frame_new["d"] = np.nan, np.nan
    model = make_pipeline(SimpleImputer(keep_empty_features=True), LinearRegression())
    assert_allclose(interval(frame, y, frame_new, method, model, **blocks(method, 10)), expected, rtol=1e-9)
    expected = interval(X, y, X_new, method, KernelRidge(kernel="linear"))
    found = interval(X @ X.T, y, X_new @ X.T, method, KernelRidge(kernel="precomputed"), **blocks(method, 10))
    assert_allclose(found, expected, rtol=1e-8)


@every_method
def test_fit_many_trains_all_folds_at_once(rows, method):
    (X, y), X_new = rows
    calls = []

    class Counting(FastLeastSquares):
        def _fit_many(self, X, y, rows):
            calls.append(len(rows))
            return super()._fit_many(X, y, rows)

    found = interval(X, y, X_new, method, Counting())
    assert calls == [{"cv+": 5, "jackknife+": 60, "jackknife+ab": 50}[method]]
    assert_allclose(found, interval(X, y, X_new, method), rtol=1e-9)


def test_bad_options_raise(rows, subtests):
    (X, y), _ = rows
    few_X, few_y = linear_world(4)
    resamples = list(ShuffleSplit(20, random_state=0).split(X))
    for data, options, error, words in (
        (4, {"cv": 5}, ValueError, "4 rows for 5 folds"),
        (4, {"cv": "five"}, TypeError, "`cv` must be an int, a splitter"),
        (4, {"cv": [([0, 1, 2], [2, 3])]}, ValueError, "but fold 0 has row 2 in both"),
        (4, {"method": AFTER, "cv": 5}, TypeError, "Without `cv`, `n_estimators` resamples are drawn"),
        (4, {"method": AFTER, "n_estimators": 1}, ValueError, "in all 1 resamples. .*about 50"),
        (4, {"method": AFTER, "cv": ShuffleSplit(2, random_state=0)}, ValueError, "pass more resamples"),
        (60, {"n_estimators": 50}, ValueError, r"must be None .* 'cv\+', got 50. .*of 'jackknife\+ab'."),
        (60, {"aggregate": "mean"}, ValueError, r"must be None .* 'cv\+', got 'mean'. .*of 'jackknife\+ab'."),
        (60, {"block_size": 10}, ValueError, r"must be None .* 'jackknife\+' and 'jackknife\+ab'."),
        (60, {"method": "jackknife+", "cv": KFold(2)}, ValueError, r"of 'cv\+' and 'jackknife\+ab'."),
        (60, {"method": "jackknife+", "n_estimators": 5}, ValueError, r"'jackknife\+', got 5"),
        (60, {"method": "jackknife+", "aggregate": "median"}, ValueError, "got 'median'"),
        (60, {"method": AFTER, "cv": resamples, "n_estimators": 20}, ValueError, "must be None with `cv`"),
        (60, {"method": "split"}, ValueError, r"one of 'cv\+', 'jackknife\+', 'jackknife\+ab'"),
        (60, {"symmetric": 1}, ValueError, "`symmetric` must be one of True, False"),
        (60, {"cv": 1}, ValueError, "`cv` must be at least 2"),
        (60, {"method": AFTER, "n_estimators": 0}, ValueError, "`n_estimators` must be at least 1"),
        (60, {"method": AFTER, "n_estimators": 2.5}, TypeError, "`n_estimators` must be an integer"),
        (60, {"method": AFTER, "aggregate": "mode"}, ValueError, "must be one of 'mean', 'median'"),
        (60, {"method": AFTER, "block_size": 0}, ValueError, "`block_size` must be at least 1"),
        (60, {"random_state": "seed"}, ValueError, "seed"),
    ):
        model = CrossConformalRegressor(LinearRegression(), **{"random_state": 0} | options)
        with subtests.test(options=options), pytest.raises(error, match=words):
            model.fit(*((few_X, few_y) if data == 4 else (X, y)))


def test_frozen_models_and_weights_that_are_no_repetitions_raise(rows, subtests):
    (X, y), _ = rows
    frozen = FrozenEstimator(LinearRegression().fit(X, y))
    for method in METHODS:
        with subtests.test(method):
            with pytest.raises(ValueError, match=r"must not be frozen with method .* Use ConformalRegressor"):
                CrossConformalRegressor(frozen, method).fit(X, y)
            with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
                interval(X, y, X, method, sample_weight=np.full(60, 0.01))
    past = (np.arange(60) < 12).astype(float)
    with pytest.raises(ValueError, match="must be positive for at least one test row of `cv`"):
        interval(X, y, X, "cv+", cv=TimeSeriesSplit(4), sample_weight=past)


# --------------------------------------------------------------------- distributions and resources


@every_method
@both_shapes
def test_the_distribution_goes_through_the_bounds(rows, method, symmetric):
    (X, y), X_new = skewed_world(100), rows[1]
    model = CrossConformalRegressor(LinearRegression(), method, symmetric=symmetric, random_state=0).fit(X, y)
    dist = model.predict_dist(X_new)
    coverages = [0.5, 0.8, 0.9, 0.94]
    assert_allclose(dist.interval(coverages), model.predict_interval(X_new, coverages), rtol=1e-9)
    assert dist.levels[0] == pytest.approx(1 - dist.levels[-1])
    assert (np.diff(dist.values, axis=1) >= 0).all()
    with pytest.warns(SmallSampleWarning):
        too_much = model.predict_interval(X_new, 0.999)
    assert np.isinf(too_much).all()


@pytest.mark.parametrize("n", [3, 20])
def test_with_few_rows_the_levels_are_those_of_the_ranks(n):
    X, y = linear_world(n)
    model = CrossConformalRegressor(LinearRegression(), "jackknife+", symmetric=False).fit(X, y)
    dist = model.predict_dist(X[:2])
    fitted = [(LinearRegression().fit(X[train], y[train]), test) for train, test in LeaveOneOut().split(X)]
    sums = np.sort([one.predict(X[:2]) + y[test] - one.predict(X[test]) for one, test in fitted], axis=0)
    levels = np.arange(1, n + 1) / (n + 1)
    assert_allclose(np.setdiff1d(dist.levels.round(12), 0.5), np.setdiff1d(levels.round(12), 0.5))
    for level, row in zip(levels, sums, strict=True):
        assert_allclose(dist.quantile(level), row, rtol=1e-9)


def test_levels_are_bounded_in_number_and_reach_into_the_tails():
    X, y = linear_world(3000)
    for symmetric in (True, False):
        model = CrossConformalRegressor(LinearRegression(), symmetric=symmetric, random_state=0).fit(X, y)
        levels = model.predict_dist(X[:3]).levels
        assert 0.999 <= levels[-1] < 1
        assert len(levels) < 110


def test_one_row_that_calibrates():
    X, y = linear_world(10)
    last = [(np.arange(9), [9])]
    model = CrossConformalRegressor(LinearRegression(), cv=last).fit(X, y)
    assert_allclose(model.predict_dist(X[:2]).levels, [0.25, 0.5, 0.75])
    with pytest.raises(ValueError, match="a predictive distribution needs more calibration rows, got 1\\."):
        model.set_params(symmetric=False).fit(X, y).predict_dist(X[:2])


def test_sums_are_counted_where_folds_are_large_and_formed_where_they_are_small():
    X, y = linear_world(200)
    for folds, kind in ((5, FoldBounds), (50, PairBounds)):
        model = CrossConformalRegressor(LinearRegression(), cv=folds).fit(X, y)
        assert isinstance(model._conformal.calibration, kind)


def peak_floats(function):
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 8


def test_memory_is_that_of_rows_and_folds():
    n, n_folds = 10_000, 5
    X, y = linear_world(n)
    model = CrossConformalRegressor(LinearRegression(), cv=n_folds, random_state=0)
    assert peak_floats(lambda: model.fit(X, y).predict_interval(X)) < 20 * (n + n * n_folds)


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_memory_of_aggregated_models_is_that_of_a_block(aggregate):
    X, y = linear_world(5000)
    model = CrossConformalRegressor(
        LinearRegression(), "jackknife+ab", n_estimators=30, aggregate=aggregate, random_state=0
    ).fit(X[:2000], y[:2000])
    assert peak_floats(lambda: model.predict_interval(X[2000:])) < 2 * 3000 * 30 + 2e6


def test_memory_is_that_of_a_block():
    X, y = linear_world(10_000)
    model = CrossConformalRegressor(FastLeastSquares(), "jackknife+", block_size=1000).fit(X[:300], y[:300])
    assert peak_floats(lambda: model.predict_interval(X)) < 2 * 1000 * 300 + 2e6
