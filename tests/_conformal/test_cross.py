"""CV+, jackknife+ and jackknife+-after-bootstrap: the bounds of the papers and of MAPIE, and coverage."""

import pickle
import re
import tracemalloc
import warnings

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

from skuq._conformal.cross_bounds import FoldBounds, PairBounds
from skuq.exceptions import SmallSampleWarning
from skuq.regressors import CrossConformalRegressor
from tests.regressors.worlds import linear_world

COVERAGES = [0.3, 0.5, 0.8, 0.9, 0.95]
METHODS = ["cv+", "jackknife+", "jackknife+ab"]
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


class Remembering(LinearRegression):
    def fit(self, X, y):
        self.y_seen = y
        return super().fit(X, y)


def test_resamples_are_bootstraps_that_leave_rows_out():
    X, y = linear_world(3)
    model = CrossConformalRegressor(Remembering(), "jackknife+ab", n_estimators=60, random_state=0).fit(X, y)
    seen = [member.estimator.y_seen for member in model._conformal.members]
    assert len(seen) == 60
    assert {len(values) for values in seen} == {3}
    assert {len(np.unique(values)) for values in seen} == {1, 2}


# ----------------------------------------------------------------------------------------- MAPIE


class TestMapie:
    """MAPIE 1.6.0, given the same folds or resamples."""

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("mapie")

    def cross(self, X, y, X_new, cv, symmetric, estimator, coverages=COVERAGES):
        from mapie.conformity_scores import AbsoluteConformityScore
        from mapie.regression import CrossConformalRegressor

        model = CrossConformalRegressor(
            estimator, confidence_level=coverages, conformity_score=AbsoluteConformityScore(symmetric), cv=cv
        )
        return model.fit_conformalize(X, y).predict_interval(X_new, allow_infinite_bounds=True)[1]

    def bagged(self, X, y, X_new, cv, symmetric, estimator, aggregate):
        from mapie.conformity_scores import AbsoluteConformityScore
        from mapie.regression import JackknifeAfterBootstrapRegressor

        model = JackknifeAfterBootstrapRegressor(
            estimator,
            confidence_level=COVERAGES,
            conformity_score=AbsoluteConformityScore(symmetric),
            resampling=cv,
            aggregation_method=aggregate,
        )
        return model.fit_conformalize(X, y).predict_interval(X_new)[1]

    @both_shapes
    @pytest.mark.parametrize("estimator", [LinearRegression(), TREE], ids=repr)
    @pytest.mark.parametrize(
        "cv", [KFold(2), KFold(5, shuffle=True, random_state=0), KFold(30), LeaveOneOut()], ids=repr
    )
    def test_same_bounds(self, rows, cv, estimator, symmetric):
        (X, y), X_new = rows
        method, own = ("jackknife+", None) if isinstance(cv, LeaveOneOut) else ("cv+", cv)
        found = interval(X, y, X_new, method, estimator, cv=own, symmetric=symmetric)
        expected = self.cross(X, y, X_new, cv, symmetric, estimator)
        assert_allclose(found, np.sort(expected, axis=1), rtol=1e-10, atol=1e-10)

    @both_shapes
    @pytest.mark.parametrize("aggregate", ["mean", "median"])
    @pytest.mark.parametrize("estimator", [LinearRegression(), TREE], ids=repr)
    def test_same_bounds_after_bootstrap(self, rows, estimator, aggregate, symmetric):
        from mapie.subsample import Subsample

        (X, y), X_new = rows
        cv = Subsample(30, random_state=0)
        found = interval(
            X, y, X_new, "jackknife+ab", estimator, cv=cv, aggregate=aggregate, symmetric=symmetric
        )
        expected = self.bagged(X, y, X_new, cv, symmetric, estimator, aggregate)
        assert_allclose(found, np.sort(expected, axis=1), rtol=1e-10, atol=1e-10)

    def test_rounding_lifts_its_rank_on_one_side_only(self):
        """60 times 0.95 is 57, the rank of both papers; MAPIE's lower bound takes 58 and its upper one 57."""
        X, y = linear_world(59)
        own = interval(X, y, X[:5], "cv+", cv=KFold(5), coverage=[0.95])
        paper = by_hand(X, y, X[:5], KFold(5).split(X), True, LinearRegression())[:, :, [-1]]
        assert_allclose(own, paper, rtol=1e-12)
        theirs = self.cross(X, y, X[:5], KFold(5), True, LinearRegression(), [0.95])
        assert_allclose(theirs[:, 1], own[:, 1], rtol=1e-12)
        assert (theirs[:, 0] < own[:, 0]).all()

    def test_it_drops_rows_that_every_model_has_seen(self, rows):
        """Kim et al. rank all n rows, and a row that no model can judge has no rank: skuq raises."""
        from mapie.subsample import Subsample

        (X, y), X_new = rows
        cv = Subsample(5, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            theirs = self.bagged(X, y, X_new, cv, True, LinearRegression(), "mean")
        assert any("belongs to every resampling" in str(warning.message) for warning in caught)
        assert np.isfinite(theirs).all()
        with pytest.raises(
            ValueError,
            match=r"rows are in all 5 resamples. The first of these rows is \d+\. .* With `cv`, pass more",
        ):
            interval(X, y, X_new, "jackknife+ab", cv=cv)


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


def true_coverages(make, n, d, coverage, n_sets, estimator):
    """The coverage of each training set, over new X, exact in y."""
    covered = []
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        X, _, y = linear(rng, n, d)
        X_new, mean, _ = linear(rng, 100, d)
        lower, upper = make(estimator, seed).fit(X, y).predict_interval(X_new, coverage).T
        covered.append(np.mean(ndtr(upper - mean) - ndtr(lower - mean)))
    return np.array(covered)


MAKERS = {
    "cv+": lambda estimator, seed: CrossConformalRegressor(estimator, random_state=seed),
    "cv+, 10 folds, asymmetric": lambda estimator, seed: CrossConformalRegressor(
        estimator, cv=10, symmetric=False, random_state=seed
    ),
    "jackknife+": lambda estimator, seed: CrossConformalRegressor(estimator, "jackknife+"),
    "jackknife+, asymmetric": lambda estimator, seed: CrossConformalRegressor(
        estimator, "jackknife+", symmetric=False
    ),
    "jackknife+ab": lambda estimator, seed: CrossConformalRegressor(
        estimator, "jackknife+ab", n_estimators=30, random_state=seed
    ),
    "jackknife+ab, median": lambda estimator, seed: CrossConformalRegressor(
        estimator, "jackknife+ab", n_estimators=30, aggregate="median", random_state=seed
    ),
}


def assert_guaranteed_and_close(covered, coverage):
    """Of as many rows as make (n + 1) times the coverage, on one side too, a whole number."""
    error = covered.std(ddof=1) / np.sqrt(len(covered))
    assert covered.mean() >= 1 - 2 * (1 - coverage) - 3 * error
    assert abs(covered.mean() - coverage) <= 0.015


@pytest.mark.parametrize("maker", ["cv+", "jackknife+", "jackknife+ab"])
def test_coverage_on_a_gaussian_linear_example(maker):
    covered = true_coverages(MAKERS[maker], 39, 2, 0.9, 100, FastLeastSquares())
    assert_guaranteed_and_close(covered, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [0.7, 0.8, 0.9, 0.95])
@pytest.mark.parametrize(("n", "d"), [(79, 2), (119, 5), (199, 5)])
@pytest.mark.parametrize("maker", MAKERS)
def test_coverage_on_gaussian_linear_examples(maker, n, d, coverage):
    covered = true_coverages(MAKERS[maker], n, d, coverage, 300, FastLeastSquares())
    assert_guaranteed_and_close(covered, coverage)


class Interpolating(FastLeastSquares):
    """The least-squares solution of least norm, which is least stable where columns are as many as rows."""


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
def test_the_guarantee_holds_for_an_unstable_model(maker):
    """Barber et al. (2021): least squares with as many columns as rows, where the plain jackknife fails."""
    covered = true_coverages(MAKERS[maker], 60, 60, 0.9, 100, Interpolating())
    error = covered.std(ddof=1) / np.sqrt(len(covered))
    assert covered.mean() >= 0.8 - 3 * error


def test_single_trees_cover_too_much_but_not_when_bagged():
    """The numbers of the class docstring."""
    covered = {
        method: true_coverages(MAKERS[method], 200, 5, 0.9, 10, DecisionTreeRegressor(random_state=0)).mean()
        for method in ("cv+", "jackknife+ab")
    }
    assert 0.965 < covered["cv+"] < 0.995
    assert covered["jackknife+ab"] == pytest.approx(0.91, abs=0.02)


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


@both_shapes
def test_rows_that_are_never_tested_do_not_calibrate(rows, symmetric):
    (X, y), X_new = rows
    cv = TimeSeriesSplit(4)
    model = CrossConformalRegressor(LinearRegression(), cv=cv, symmetric=symmetric).fit(X, y)
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
    (X, y), X_new = rows
    cv = RepeatedKFold(n_splits=4, n_repeats=3, random_state=0)
    model = CrossConformalRegressor(LinearRegression(), cv=cv).fit(X, y)
    assert model.n_calibration_ == pytest.approx(60)
    centers, residuals = [], []
    for train, test in cv.split(X):
        fitted = LinearRegression().fit(X[train], y[train])
        residuals.extend(np.abs(y[test] - fitted.predict(X[test])))
        centers.extend([fitted.predict(X_new)] * len(test))
    upper = np.sort(np.column_stack(centers) + np.array(residuals), axis=1)
    # three tests count one row, so that the 55th row of 61 is the 165th test
    assert_allclose(model.predict_interval(X_new)[:, 1], upper[:, 3 * 55 - 1], rtol=1e-12)


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
def test_a_constant_target_is_predicted_without_doubt(method, symmetric):
    X, _ = linear_world(60)
    y = np.full(60, 0.1)
    bounds = interval(X, y, X[:5], method, SVR(kernel="linear"), symmetric=symmetric)
    assert_allclose(bounds, 0.1, rtol=1e-12)


@every_method
def test_ties(method):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(90, 1)).astype(float), rng.integers(0, 3, size=90).astype(float)
    bounds = interval(X, y, X[:20], method, DecisionTreeRegressor(), symmetric=False)
    assert (np.diff(bounds, axis=2)[:, 1] >= 0).all()
    assert (np.diff(bounds, axis=2)[:, 0] <= 0).all()
    covered = interval(X, y, X, method, DecisionTreeRegressor(), coverage=[0.9])[:, :, 0]
    assert np.mean((covered[:, 0] <= y) & (y <= covered[:, 1])) >= 0.9


@every_method
@both_shapes
def test_units_of_y_do_not_matter(rows, method, symmetric):
    (X, y), X_new = rows
    for unit, offset in ((1e-3, 0.0), (1e3, 5.0)):
        expected = offset + unit * interval(X, y, X_new, method, symmetric=symmetric)
        found = interval(X, offset + unit * y, X_new, method, symmetric=symmetric)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * unit)


@both_shapes
@every_method
def test_bounds_never_cross(method, symmetric):
    """Where models disagree, the bounds of low coverage cross, and are exchanged."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), 0.01 * rng.normal(size=40)
    y[:3] += 10
    lower, upper = interval(
        X, y, X, method, DecisionTreeRegressor(random_state=0), coverage=[0.05], symmetric=symmetric
    )[:, :, 0].T
    assert (lower <= upper).all()


@pytest.mark.parametrize("method", ["jackknife+", "jackknife+ab"])
@pytest.mark.parametrize("rows_at_a_time", [1, 7])
def test_blocks_of_rows_do_not_matter(rows, method, rows_at_a_time):
    (X, y), X_new = rows
    whole = interval(X, y, X_new, method)
    assert_allclose(interval(X, y, X_new, method, block_size=rows_at_a_time), whole, rtol=1e-12)


@every_method
def test_jobs_do_not_matter(rows, method):
    (X, y), X_new = rows
    expected = interval(X, y, X_new, method, TREE)
    with parallel_config("threading"):
        assert_array_equal(interval(X, y, X_new, method, TREE, n_jobs=2), expected)


@every_method
def test_data_frames_and_missing_values_belong_to_the_model(rows, method):
    (X, y), X_new = rows
    expected = interval(X, y, X_new, method)
    frame, frame_new = (pd.DataFrame(part, columns=list("abc")) for part in (X, X_new))
    frame["d"], frame_new["d"] = np.nan, np.nan
    model = make_pipeline(SimpleImputer(keep_empty_features=True), LinearRegression())
    assert_allclose(interval(frame, y, frame_new, method, model, **blocks(method, 10)), expected, rtol=1e-9)


@every_method
def test_precomputed_kernels(rows, method):
    (X, y), X_new = rows
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


@every_method
def test_a_copy_predicts_the_same(rows, method):
    (X, y), X_new = rows
    model = CrossConformalRegressor(LinearRegression(), method, random_state=0).fit(X, y)
    copied = pickle.loads(pickle.dumps(model))
    assert_array_equal(copied.predict_interval(X_new), model.predict_interval(X_new))


class SometimesLost(LinearRegression):
    """Predicts NaN for whatever lies beyond what it has seen."""

    def fit(self, X, y):
        self.range_ = X.min(), X.max()
        return super().fit(X, y)

    def predict(self, X):
        X = np.asarray(X)
        inside = (X[:, 0] >= self.range_[0]) & (X[:, 0] <= self.range_[1])
        return np.where(inside, super().predict(X), np.nan)


@every_method
def test_a_model_that_predicts_nan_raises(method):
    X, y = np.arange(60.0)[:, np.newaxis], np.arange(60.0)
    lost = r"SometimesLost predicts NaN or infinity for 1 of \d+ rows, .*, in (fold|resample) \d+ of \d+\."
    with pytest.raises(ValueError, match=lost):
        interval(X, y, X, method, SometimesLost())
    inner = [(np.r_[0:5, 50:60], np.arange(5, 50))]
    model = CrossConformalRegressor(SometimesLost(), cv=inner).fit(X, y)
    with pytest.raises(ValueError, match="1 of 2 rows, the first of them row 1, in the model of fold 1"):
        model.predict_interval([[3.0], [99.0]])


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"method": "cv+", "cv": 5}, ValueError, "4 rows for 5 folds"),
        ({"method": "cv+", "cv": "five"}, TypeError, "`cv` must be an int, a splitter"),
        ({"method": "jackknife+", "cv": KFold(2)}, ValueError, "`cv` must be None with method 'jack"),
        ({"method": "cv+", "cv": [([0, 1, 2], [2, 3])]}, ValueError, "but fold 0 has row 2 in both"),
        ({"method": "jackknife+ab", "cv": 5}, TypeError, "Without `cv`, `n_estimators` resamples are drawn"),
        (
            {"method": "jackknife+ab", "n_estimators": 1},
            ValueError,
            "rows are in all 1 resamples. .* Increase `n_estimators` to about 50",
        ),
        (
            {"method": "jackknife+ab", "cv": ShuffleSplit(2, random_state=0)},
            ValueError,
            "With `cv`, pass more resamples",
        ),
    ],
)
def test_contradictions_raise(options, error, match):
    X, y = linear_world(4)
    with pytest.raises(error, match=match):
        CrossConformalRegressor(LinearRegression(), random_state=0, **options).fit(X, y)


@pytest.mark.parametrize(
    ("method", "option", "users"),
    [
        ("cv+", {"n_estimators": 50}, "'jackknife+ab'"),
        ("cv+", {"aggregate": "mean"}, "'jackknife+ab'"),
        ("cv+", {"block_size": 10}, "'jackknife+' and 'jackknife+ab'"),
        ("jackknife+", {"cv": KFold(2)}, "'cv+' and 'jackknife+ab'"),
        ("jackknife+", {"n_estimators": 50}, "'jackknife+ab'"),
        ("jackknife+", {"aggregate": "median"}, "'jackknife+ab'"),
    ],
)
def test_an_option_that_the_method_does_not_use_raises(rows, method, option, users):
    ((X, y), _), (name,) = rows, option
    words = (
        f"`{name}` must be None with method '{method}', got {option[name]!r}. It is a parameter of {users}."
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        CrossConformalRegressor(LinearRegression(), method, **option).fit(X, y)


def test_given_resamples_have_their_number(rows):
    (X, y), _ = rows
    splits = list(ShuffleSplit(20, random_state=0).split(X))
    with pytest.raises(ValueError, match="`n_estimators` must be None with `cv`, got 20"):
        interval(X, y, X, "jackknife+ab", cv=splits, n_estimators=20)


def test_bad_options():
    X, y = linear_world(20)
    for options, error, words in (
        ({"method": "split"}, ValueError, r"`method` must be one of 'cv\+', 'jackknife\+', 'jackknife\+ab'"),
        ({"symmetric": 1}, ValueError, "`symmetric` must be one of True, False"),
        ({"cv": 1}, ValueError, "`cv` must be at least 2"),
        ({"n_estimators": 0}, ValueError, "`n_estimators` must be at least 1"),
        ({"n_estimators": 2.5}, TypeError, "`n_estimators` must be an integer"),
        ({"aggregate": "mode"}, ValueError, "`aggregate` must be one of 'mean', 'median'"),
        ({"block_size": 0}, ValueError, "`block_size` must be at least 1"),
        ({"random_state": "seed"}, ValueError, "seed"),
    ):
        bagged = {"method": "jackknife+ab"} if "cv" not in options else {}
        with pytest.raises(error, match=words):
            CrossConformalRegressor(LinearRegression(), **bagged | options).fit(X, y)


@every_method
def test_a_frozen_model_cannot_be_refitted(rows, method):
    (X, y), _ = rows
    frozen = FrozenEstimator(LinearRegression().fit(X, y))
    with pytest.raises(ValueError, match=r"must not be frozen with method .* Use ConformalRegressor"):
        CrossConformalRegressor(frozen, method).fit(X, y)


@every_method
def test_weights_that_are_no_repetitions_raise(rows, method):
    (X, y), _ = rows
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        CrossConformalRegressor(LinearRegression(), method).fit(X, y, sample_weight=np.full(60, 0.01))
    past = (np.arange(60) < 12).astype(float)
    with pytest.raises(ValueError, match="must be positive for at least one test row of `cv`"):
        CrossConformalRegressor(LinearRegression(), cv=TimeSeriesSplit(4)).fit(X, y, sample_weight=past)


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
    sums = by_hand_sums(X, y, X[:2])
    levels = np.arange(1, n + 1) / (n + 1)
    assert_allclose(np.setdiff1d(dist.levels.round(12), 0.5), np.setdiff1d(levels.round(12), 0.5))
    for level, column in zip(levels, sums.T, strict=True):
        assert_allclose(dist.quantile(level), column, rtol=1e-9)


def by_hand_sums(X, y, X_new):
    sums = []
    for train, test in LeaveOneOut().split(X):
        model = LinearRegression().fit(X[train], y[train])
        sums.append(model.predict(X_new) + y[test] - model.predict(X[test]))
    return np.sort(np.column_stack(sums), axis=1)


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


def test_memory_of_cv_plus_is_that_of_rows_and_folds():
    n, n_folds = 20_000, 5
    X, y = linear_world(n)
    model = CrossConformalRegressor(LinearRegression(), cv=n_folds, random_state=0)
    assert peak_floats(lambda: model.fit(X, y).predict_interval(X)) < 20 * (n + n * n_folds)


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_memory_after_bootstrap_is_that_of_a_block(aggregate):
    X, y = linear_world(2000)
    X_new, _ = linear_world(5000)
    model = CrossConformalRegressor(
        LinearRegression(), "jackknife+ab", n_estimators=30, aggregate=aggregate, random_state=0
    ).fit(X, y)
    assert peak_floats(lambda: model.predict_interval(X_new)) < 2 * 5000 * 30 + 2e6


def test_memory_of_the_jackknife_is_that_of_a_block():
    X, y = linear_world(300)
    X_new, _ = linear_world(20_000)
    model = CrossConformalRegressor(FastLeastSquares(), "jackknife+", block_size=1000).fit(X, y)
    assert peak_floats(lambda: model.predict_interval(X_new)) < 2 * 1000 * 300 + 2e6
