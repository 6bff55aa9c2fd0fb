"""The one cross-fitting loop."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
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

from skuq._fitting.cross_fit import cross_fit, resolve_cv
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


def test_int_and_none_are_shuffled_folds_of_one_seed():
    for cv, folds in ((None, 5), (3, 3), (np.int64(4), 4)):
        splitter = resolve_cv(cv, 0)
        assert type(splitter) is KFold
        assert splitter.n_splits == folds
        assert splitter.shuffle
    assert resolve_cv(4, 7).random_state == resolve_cv(4, 7).random_state != resolve_cv(4, 8).random_state
    rng = np.random.RandomState(0)
    assert resolve_cv(4, rng).random_state != resolve_cv(4, rng).random_state


def test_splitters_and_iterables_are_used_as_given():
    splitter = GroupKFold(3)
    assert resolve_cv(splitter, 0) is splitter
    assert resolve_cv(iter([([0], [1])]), 0).get_n_splits() == 1


@pytest.mark.parametrize(
    ("cv", "error", "message"),
    [
        (1, ValueError, "`cv` must be at least 2, got 1"),
        (True, TypeError, "`cv` must be an int, a splitter"),
        (2.5, TypeError, "`cv` must be an int, a splitter"),
        ("prefit", TypeError, "`cv` must be an int, a splitter"),
    ],
)
def test_bad_folds_are_named(cv, error, message):
    with pytest.raises(error, match=message):
        resolve_cv(cv, 0)


def test_each_row_is_predicted_by_a_model_that_has_not_seen_it(data):
    X, y = data
    splitter = KFold(4, shuffle=True, random_state=3)
    model, seen = BayesianRidge(), []
    result = cross_fit(model, X, y, cv=splitter, on_fold=seen.append)
    assert not hasattr(model, "coef_")
    assert seen == [0, 1, 2, 3]
    for (train, test), fitted, rows, dist in zip(
        splitter.split(X), result.estimators, result.test_rows, result.predictions, strict=True
    ):
        np.testing.assert_array_equal(rows, test)
        expected = BayesianRidge().fit(X[train], y[train])
        np.testing.assert_array_equal(fitted.coef_, expected.coef_)
        np.testing.assert_array_equal(dist.std(), predict_dist(expected, X[test]).std())
    means = cross_val_predict(BayesianRidge(), X, y, cv=splitter)
    np.testing.assert_allclose(result.in_row_order(60).mean(), means)
    with parallel_config("threading"):
        two = cross_fit(model, X, y, cv=splitter, n_jobs=2, on_fold=seen.append)
    assert seen == [0, 1, 2, 3] * 2
    np.testing.assert_array_equal(two.in_row_order(60).std(), result.in_row_order(60).std())


def test_point_predictions(data):
    X, y = data
    splitter = KFold(4, shuffle=True, random_state=3)
    result = cross_fit(LinearRegression(), X, y, cv=splitter, predict=point)
    expected = cross_val_predict(LinearRegression(), X, y, cv=splitter)
    np.testing.assert_allclose(result.in_row_order(60), expected)
    rows, values = result.tested()
    np.testing.assert_allclose(values, expected[rows])


def test_frozen_estimator_is_not_fitted_again(data):
    X, y = data
    frozen = FrozenEstimator(BayesianRidge().fit(X[:30], y[:30]))
    result = cross_fit(frozen, X, y, cv=KFold(3))
    np.testing.assert_array_equal(result.in_row_order(60).mean(), frozen.predict(X))


def test_containers_of_X_stay_what_they_are(data):
    X, y = data
    frame = pd.DataFrame(X.copy(), columns=list("abc"), index=np.arange(60) * 7)
    frame.iloc[0, 0] = np.nan
    result = cross_fit(Recorder(), frame, pd.Series(y, index=frame.index), cv=KFold(3))
    assert list(result.estimators[0].X_.columns) == ["a", "b", "c"]
    assert result.estimators[1].X_.isna().sum().sum() == 1
    assert isinstance(result.estimators[0].y_, pd.Series)
    result = cross_fit(Recorder(), X.tolist(), y.tolist(), cv=KFold(3))
    assert X[20:].tolist() == result.estimators[0].X_
    result = cross_fit(Recorder(), sparse.csr_matrix(X), y, cv=KFold(3))
    assert sparse.issparse(result.estimators[0].X_)
    assert cross_fit(Recorder(), X, None, cv=KFold(3)).estimators[0].y_ is None


def test_a_distribution_may_be_X(data):
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


def test_precomputed_kernel(data):
    X, y = data
    splitter = KFold(3)
    result = cross_fit(KernelRidge(kernel="precomputed"), rbf_kernel(X), y, cv=splitter, predict=point)
    expected = cross_val_predict(KernelRidge(kernel="rbf", gamma=1 / 3), X, y, cv=splitter)
    np.testing.assert_allclose(result.in_row_order(60), expected)


def test_values_per_row_are_cut_and_others_pass(data):
    X, y = data
    weight = np.arange(60.0)
    result = cross_fit(Recorder(), X, y, cv=KFold(3), params={"sample_weight": weight, "tag": "whole"})
    np.testing.assert_array_equal(result.estimators[0].sample_weight_, weight[20:])
    assert result.estimators[0].tag_ == "whole"
    with pytest.raises(TypeError, match="unexpected"):
        cross_fit(Recorder(), X, y, cv=3, params={"speed": 3})


def test_groups_go_to_the_splitter(data):
    class Own:
        def split(self, X, y=None, groups=None):
            yield np.flatnonzero(groups != 1), np.flatnonzero(groups == 1)

        def get_n_splits(self, X=None, y=None, groups=None):
            return 1

    X, y = data
    groups = np.repeat(np.arange(6), 10)
    for splitter in (GroupKFold(3), LeaveOneGroupOut(), Own()):
        for rows in cross_fit(Recorder(), X, y, cv=splitter, groups=groups).test_rows:
            assert not set(groups[rows]) & set(np.delete(groups, rows))
    with pytest.raises(ValueError, match="groups"):
        cross_fit(Recorder(), X, y, cv=GroupKFold(3))
    for cv in (5, None, KFold(3), ShuffleSplit(2), [([0, 1], [2])], RepeatedKFold()):
        with pytest.raises(ValueError, match=r"`groups` is given, but .* does not use it"):
            cross_fit(Recorder(), X, y, cv=cv, groups=np.zeros(60))


def test_any_splitter_gives_tested_pairs_but_no_row_order(data):
    X, y = data
    for cv in (TimeSeriesSplit(3), RepeatedKFold(n_splits=3, n_repeats=2), ShuffleSplit(2)):
        result = cross_fit(BayesianRidge(), X, y, cv=cv)
        rows, dist = result.tested()
        assert len(rows) == len(dist) == sum(len(rows) for rows in result.test_rows)
        with pytest.raises(ValueError, match=r"`cv` must test every row exactly once.*RecalibratedRegressor"):
            result.in_row_order(60)


def test_masks(data):
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
def test_bad_rows_of_folds(data, cv, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        cross_fit(BayesianRidge(), X, y, cv=cv)


def test_more_folds_than_rows_raise(data):
    X, y = data
    for cv in (4, KFold(4)):
        with pytest.raises(ValueError, match=r"row per fold, got 3 rows for 4 folds.*more rows, or.*`cv=2`"):
            cross_fit(BayesianRidge(), X[:3], y[:3], cv=cv)
    assert len(cross_fit(LinearRegression(), X[:3], y[:3], cv=2, predict=point).estimators) == 2


def test_refusals(data):
    X, y = data
    with pytest.raises(NotProbabilisticError, match="Ridge gives no"):
        cross_fit(Ridge(), X, y, cv=3)
    with pytest.raises(ValueError, match="must return one prediction per row, got 1 for 20 rows of X"):
        cross_fit(Recorder(), X, y, cv=KFold(3), predict=lambda estimator, X: np.zeros(1))


class Many(BayesianRidge):
    """Trains on many row sets in one call."""

    def _fit_many(self, X, y, rows, sample_weight=None):
        type(self).calls = getattr(type(self), "calls", 0) + 1
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        return [clone(self).fit(X[train], y[train], sample_weight=weight[train]) for train in rows]


def test_fit_many_is_used_where_present(data):
    X, y = data
    Many.calls = 0
    cross_fit(FrozenEstimator(Many().fit(X, y)), X, y, cv=KFold(3))
    assert Many.calls == 0
    weight = np.linspace(1.0, 2.0, 60)
    one_call = cross_fit(Many(), X, y, cv=KFold(3), params={"sample_weight": weight})
    loop = cross_fit(BayesianRidge(), X, y, cv=KFold(3), params={"sample_weight": weight})
    assert Many.calls == 1
    np.testing.assert_array_equal(one_call.in_row_order(60).mean(), loop.in_row_order(60).mean())


def test_supervised_steps_are_inside_the_folds(data):
    X, y = data
    model = make_pipeline(StandardScaler(), PolynomialFeatures(), BayesianRidge())
    result = cross_fit(model, X, y, cv=KFold(3))
    assert len({float(fitted[0].mean_[0]) for fitted in result.estimators}) == 3
