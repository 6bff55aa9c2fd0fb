"""The one cross-fitting loop."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import PairwiseKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skuq._fitting.cross_fit import CrossFit, cross_fit, resolve_cv
from skuq.distributions import Distribution, Normal
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist


class Recorder(RegressorMixin, BaseEstimator):
    """Remembers what it was fitted with."""

    def fit(self, X, y=None, sample_weight=None, tag=None):
        self.X_, self.y_, self.sample_weight_, self.tag_ = X, y, sample_weight, tag
        return self

    def predict_dist(self, X):
        return Normal(np.zeros(X.shape[0] if hasattr(X, "shape") else len(X)), 1.0)


def point(estimator, X):
    return estimator.predict(X)


class TestResolveCv:
    def test_int_and_none_are_shuffled_folds(self):
        for cv, folds in ((None, 5), (3, 3), (np.int64(4), 4)):
            splitter = resolve_cv(cv, 0)
            assert type(splitter) is KFold
            assert splitter.n_splits == folds
            assert splitter.shuffle
            assert isinstance(splitter.random_state, int)

    def test_the_seed_is_drawn_once_and_decides(self):
        X = np.zeros((20, 1))
        same = [[test.tolist() for _, test in resolve_cv(4, 7).split(X)] for _ in range(2)]
        assert same[0] == same[1]
        assert same[0] != [test.tolist() for _, test in resolve_cv(4, 8).split(X)]
        rng = np.random.RandomState(0)
        assert resolve_cv(4, rng).random_state != resolve_cv(4, rng).random_state

    def test_splitters_and_iterables_as_given(self):
        splitter = GroupKFold(3)
        assert resolve_cv(splitter, 0) is splitter
        pairs = resolve_cv(iter([([0], [1])]), 0)
        assert pairs.get_n_splits() == 1

    @pytest.mark.parametrize(
        ("cv", "error", "message"),
        [
            (1, ValueError, "`cv` must be at least 2, got 1"),
            (0, ValueError, "`cv` must be at least 2"),
            (True, TypeError, "`cv` must be an int, a splitter"),
            (2.5, TypeError, "`cv` must be an int, a splitter"),
            ("prefit", TypeError, "`cv` must be an int, a splitter"),
        ],
    )
    def test_bad_input(self, cv, error, message):
        with pytest.raises(error, match=message):
            resolve_cv(cv, 0)


class TestFolds:
    def test_each_row_is_predicted_by_a_model_that_has_not_seen_it(self, data):
        X, y = data
        splitter = KFold(4, shuffle=True, random_state=3)
        result = cross_fit(BayesianRidge(), X, y, cv=splitter)
        assert isinstance(result, CrossFit)
        for (train, test), model, rows, dist in zip(
            splitter.split(X), result.estimators, result.test_rows, result.predictions, strict=True
        ):
            np.testing.assert_array_equal(rows, test)
            expected = BayesianRidge().fit(X[train], y[train])
            np.testing.assert_array_equal(model.coef_, expected.coef_)
            np.testing.assert_array_equal(dist.std(), predict_dist(expected, X[test]).std())
        means = cross_val_predict(BayesianRidge(), X, y, cv=splitter)
        np.testing.assert_allclose(result.in_row_order(60).mean(), means)

    def test_point_predictions(self, data):
        X, y = data
        splitter = KFold(4, shuffle=True, random_state=3)
        result = cross_fit(LinearRegression(), X, y, cv=splitter, predict=point)
        expected = cross_val_predict(LinearRegression(), X, y, cv=splitter)
        np.testing.assert_allclose(result.in_row_order(60), expected)
        rows, values = result.tested()
        np.testing.assert_allclose(values, expected[rows])

    def test_the_estimator_is_cloned(self, data):
        X, y = data
        model = BayesianRidge()
        cross_fit(model, X, y, cv=3)
        assert not hasattr(model, "coef_")

    def test_n_jobs_changes_nothing(self, data):
        X, y = data
        one, two = (
            cross_fit(BayesianRidge(), X, y, cv=KFold(4), n_jobs=n).in_row_order(60) for n in (None, 2)
        )
        np.testing.assert_array_equal(one.mean(), two.mean())
        np.testing.assert_array_equal(one.std(), two.std())

    @pytest.mark.parametrize("n_jobs", [None, 2])
    def test_on_fold_is_called_in_order(self, data, n_jobs):
        X, y = data
        seen = []
        result = cross_fit(BayesianRidge(), X, y, cv=KFold(4), n_jobs=n_jobs, on_fold=seen.append)
        assert seen == [0, 1, 2, 3]
        assert len(result.estimators) == 4

    def test_frozen_estimator_is_not_fitted_again(self, data):
        X, y = data
        frozen = FrozenEstimator(BayesianRidge().fit(X[:30], y[:30]))
        result = cross_fit(frozen, X, y, cv=KFold(3))
        np.testing.assert_array_equal(result.in_row_order(60).mean(), frozen.predict(X))


class TestContainersOfX:
    def test_data_frame_keeps_names_and_missing_values(self, data):
        X, y = data
        frame = pd.DataFrame(X.copy(), columns=list("abc"), index=np.arange(60) * 7)
        frame.iloc[0, 0] = np.nan
        result = cross_fit(Recorder(), frame, pd.Series(y, index=frame.index), cv=KFold(3))
        assert list(result.estimators[0].X_.columns) == ["a", "b", "c"]
        assert result.estimators[1].X_.isna().sum().sum() == 1
        assert isinstance(result.estimators[0].y_, pd.Series)

    def test_list_and_sparse(self, data):
        X, y = data
        result = cross_fit(Recorder(), X.tolist(), y.tolist(), cv=KFold(3))
        assert X[20:].tolist() == result.estimators[0].X_
        result = cross_fit(Recorder(), sparse.csr_matrix(X), y, cv=KFold(3))
        assert sparse.issparse(result.estimators[0].X_)

    def test_distribution(self, data):
        X, y = data
        dist = predict_dist(BayesianRidge().fit(X, y), X)

        class Keep(BaseEstimator):
            def fit(self, X, y):
                assert isinstance(X, Distribution)
                return self

            def predict_dist(self, X):
                return X

        result = cross_fit(Keep(), dist, y, cv=4).in_row_order(60)
        np.testing.assert_array_equal(result.loc, dist.loc)

    def test_without_y(self, data):
        result = cross_fit(Recorder(), data[0], None, cv=KFold(3))
        assert result.estimators[0].y_ is None

    def test_precomputed_kernel(self, data):
        X, y = data
        splitter = KFold(3)
        kernel = rbf_kernel(X)
        result = cross_fit(KernelRidge(kernel="precomputed"), kernel, y, cv=splitter, predict=point)
        expected = cross_val_predict(KernelRidge(kernel="rbf", gamma=1 / 3), X, y, cv=splitter)
        np.testing.assert_allclose(result.in_row_order(60), expected)


class TestParams:
    def test_values_per_row_are_cut_and_others_pass(self, data):
        X, y = data
        weight = np.arange(60.0)
        result = cross_fit(Recorder(), X, y, cv=KFold(3), params={"sample_weight": weight, "tag": "whole"})
        np.testing.assert_array_equal(result.estimators[0].sample_weight_, weight[20:])
        assert result.estimators[0].tag_ == "whole"

    def test_unused_params_raise(self, data):
        X, y = data
        with pytest.raises(TypeError, match="unexpected"):
            cross_fit(Recorder(), X, y, cv=3, params={"speed": 3})

    def test_groups_go_to_the_splitter(self, data):
        X, y = data
        groups = np.repeat(np.arange(6), 10)
        for splitter in (GroupKFold(3), LeaveOneGroupOut()):
            result = cross_fit(Recorder(), X, y, cv=splitter, groups=groups)
            for rows in result.test_rows:
                inside = set(groups[rows])
                assert not inside & set(np.delete(groups, rows))

    @pytest.mark.parametrize("cv", [5, None, KFold(3), ShuffleSplit(2), [([0, 1], [2])], RepeatedKFold()])
    def test_groups_that_nothing_uses_raise(self, data, cv):
        X, y = data
        with pytest.raises(ValueError, match=r"`groups` is given, but .* does not use it"):
            cross_fit(Recorder(), X, y, cv=cv, groups=np.zeros(60))

    def test_groups_for_a_splitter_of_another_package(self, data):
        class Own:
            def split(self, X, y=None, groups=None):
                yield np.flatnonzero(groups == 0), np.flatnonzero(groups == 1)

            def get_n_splits(self, X=None, y=None, groups=None):
                return 1

        X, y = data
        groups = np.repeat([0, 1], 30)
        result = cross_fit(Recorder(), X, y, cv=Own(), groups=groups)
        np.testing.assert_array_equal(result.test_rows[0], np.arange(30, 60))

    def test_groups_are_needed(self, data):
        X, y = data
        with pytest.raises(ValueError, match="groups"):
            cross_fit(Recorder(), X, y, cv=GroupKFold(3))


class TestRowOrder:
    @pytest.mark.parametrize(
        "cv", [TimeSeriesSplit(3), RepeatedKFold(n_splits=3, n_repeats=2), ShuffleSplit(2)]
    )
    def test_any_splitter_gives_tested_pairs_but_no_row_order(self, data, cv):
        X, y = data
        result = cross_fit(BayesianRidge(), X, y, cv=cv)
        rows, dist = result.tested()
        assert len(rows) == len(dist) == sum(len(rows) for rows in result.test_rows)
        with pytest.raises(ValueError, match=r"`cv` must test every row exactly once.*RecalibratedRegressor"):
            result.in_row_order(60)

    def test_masks(self, data):
        X, y = data
        first = np.arange(60) < 25
        result = cross_fit(BayesianRidge(), X, y, cv=[(first, ~first), (~first, first)])
        expected = predict_dist(BayesianRidge().fit(X[first], y[first]), X[~first])
        np.testing.assert_allclose(result.in_row_order(60)[25:].mean(), expected.mean())

    @pytest.mark.parametrize(
        ("cv", "message"),
        [
            ([], "at least one fold"),
            ([([0, 1], [])], "at least one fold"),
            ([([], [1])], "at least one fold"),
            ([([0, 1], [60])], "row numbers from 0 to 59, got 60 to 60"),
            ([([0, 1], [-1])], "row numbers from 0 to 59"),
            ([([True, False], [1])], r"masks of shape \(60,\)"),
        ],
    )
    def test_bad_folds(self, data, cv, message):
        X, y = data
        with pytest.raises(ValueError, match=message):
            cross_fit(BayesianRidge(), X, y, cv=cv)

    def test_more_folds_than_rows_raise(self, data):
        X, y = data
        for cv in (4, KFold(4)):
            with pytest.raises(
                ValueError, match=r"row per fold, got 3 rows for 4 folds.*more rows, or.*`cv=2`"
            ):
                cross_fit(BayesianRidge(), X[:3], y[:3], cv=cv)
        assert len(cross_fit(LinearRegression(), X[:3], y[:3], cv=2, predict=point).estimators) == 2


class TestRefusals:
    def test_not_probabilistic(self, data):
        X, y = data
        with pytest.raises(NotProbabilisticError, match="Ridge gives no"):
            cross_fit(Ridge(), X, y, cv=3)

    def test_wrong_number_of_predictions(self, data):
        X, y = data
        with pytest.raises(ValueError, match="must return one prediction per row, got 1 for 20 rows of X"):
            cross_fit(Recorder(), X, y, cv=KFold(3), predict=lambda estimator, X: np.zeros(1))

    def test_frozen_dataclass(self, data):
        X, y = data
        result = cross_fit(BayesianRidge(), X, y, cv=3)
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.estimators = ()


class Many(BayesianRidge):
    """Trains on many row sets in one call."""

    def _fit_many(self, X, y, rows, sample_weight=None):
        type(self).calls = getattr(type(self), "calls", 0) + 1
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        return [clone(self).fit(X[train], y[train], sample_weight=weight[train]) for train in rows]


def test_fit_many_is_used_where_present(data):
    X, y = data
    weight = np.linspace(1.0, 2.0, 60)
    one_call = cross_fit(Many(), X, y, cv=KFold(3), params={"sample_weight": weight})
    loop = cross_fit(BayesianRidge(), X, y, cv=KFold(3), params={"sample_weight": weight})
    assert Many.calls == 1
    np.testing.assert_array_equal(one_call.in_row_order(60).mean(), loop.in_row_order(60).mean())


def test_fit_many_behind_a_frozen_estimator_is_not(data):
    X, y = data
    Many.calls = 0
    frozen = FrozenEstimator(Many().fit(X, y))
    cross_fit(frozen, X, y, cv=KFold(3))
    assert Many.calls == 0


def test_supervised_steps_are_inside_the_folds(data):
    X, y = data
    model = make_pipeline(StandardScaler(), PolynomialFeatures(), BayesianRidge())
    result = cross_fit(model, X, y, cv=KFold(3))
    assert len({float(fitted[0].mean_[0]) for fitted in result.estimators}) == 3


def test_beats_the_constant(data):
    X, y = data
    kernel = PairwiseKernel(metric="linear")
    model = GaussianProcessRegressor(kernel, alpha=1.0, optimizer=None, normalize_y=True)
    dist = cross_fit(model, X, y, cv=KFold(3)).in_row_order(60)
    assert (
        dist.crps(y).mean() < cross_fit(DummyRegressor(), X, y, cv=KFold(3)).in_row_order(60).crps(y).mean()
    )
