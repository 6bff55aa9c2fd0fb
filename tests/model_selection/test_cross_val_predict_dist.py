"""Out-of-fold distributions in row order, with metadata routed as cross_validate does."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import Normal
from skuq.exceptions import NotProbabilisticError
from skuq.model_selection import cross_val_predict_dist
from skuq.prediction import predict_dist


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, X @ [2.0, -1.0, 0.5] + rng.normal(scale=0.8, size=60)


class Local(RegressorMixin, BaseEstimator):
    """Predicts the weighted mean of its training rows; refuses rows of a group it was trained on."""

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.average(y, weights=sample_weight)
        self.groups_ = set(X[:, 0])
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)

    def predict_dist(self, X):
        assert not self.groups_ & set(X[:, 0])
        return Normal(self.predict(X), 1.0)


def test_equals_cross_val_predict(data):
    X, y = data
    model = make_pipeline(StandardScaler(), BayesianRidge())
    splitter = KFold(4, shuffle=True, random_state=1)
    dist = cross_val_predict_dist(model, X, y, cv=splitter)
    np.testing.assert_allclose(dist.mean(), cross_val_predict(model, X, y, cv=splitter))
    frame, series = pd.DataFrame(X, columns=list("abc")), pd.Series(y, index=np.arange(60) + 5)
    np.testing.assert_allclose(cross_val_predict_dist(model, frame, series, cv=splitter).mean(), dist.mean())
    search = GridSearchCV(BayesianRidge(), {"alpha_1": [1e-6, 1.0]}, cv=3)
    assert len(cross_val_predict_dist(search, X, y, cv=3)) == 60
    assert np.isfinite(cross_val_predict_dist(BayesianRidge(), X, np.ones(60)).mean()).all()


def test_default_folds_are_shuffled_and_the_same_at_every_call():
    # sorted rows: unshuffled folds would make every model extrapolate
    X = np.arange(50.0)[:, np.newaxis]
    y = X[:, 0] ** 2
    first, second = (cross_val_predict_dist(BayesianRidge(), X, y) for _ in range(2))
    np.testing.assert_array_equal(first.mean(), second.mean())
    unshuffled = cross_val_predict_dist(BayesianRidge(), X, y, cv=KFold(5))
    assert first.crps(y).mean() < unshuffled.crps(y).mean()
    five = cross_val_predict_dist(BayesianRidge(), X, y, cv=5)
    np.testing.assert_array_equal(first.mean(), five.mean())


@pytest.mark.laws
def test_n_jobs_changes_nothing(data):
    X, y = data
    one, two = (cross_val_predict_dist(BayesianRidge(), X, y, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.std(), two.std())


@pytest.fixture
def grouped():
    groups = np.repeat(np.arange(6), 10)
    return groups[:, np.newaxis].astype(float), np.arange(60.0), groups, np.linspace(1.0, 3.0, 60)


def expected_means(groups, y, weight, splitter):
    expected = np.empty(len(y))
    for train, test in splitter.split(y, groups=groups):
        expected[test] = np.average(y[train], weights=weight[train])
    return expected


def test_groups_and_params_without_routing(grouped):
    X, y, groups, weight = grouped
    dist = cross_val_predict_dist(
        Local(), X, y, cv=GroupKFold(3), groups=groups, params={"sample_weight": weight}
    )
    np.testing.assert_allclose(dist.mean(), expected_means(groups, y, weight, GroupKFold(3)))


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.laws)])
def test_groups_and_params_with_routing(grouped, n_jobs):
    X, y, groups, weight = grouped
    with sklearn.config_context(enable_metadata_routing=True):
        model = Local().set_fit_request(sample_weight=True)
        params = {"groups": groups, "sample_weight": weight}
        dist = cross_val_predict_dist(model, X, y, cv=GroupKFold(3), params=params, n_jobs=n_jobs)
        np.testing.assert_allclose(dist.mean(), expected_means(groups, y, weight, GroupKFold(3)))
        with pytest.raises(ValueError, match="`groups` must be passed as `params="):
            cross_val_predict_dist(model, X, y, cv=GroupKFold(3), groups=groups)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            cross_val_predict_dist(Local(), X, y, cv=GroupKFold(3), params=params)
        with pytest.raises(TypeError, match="groups"):
            cross_val_predict_dist(model, X, y, cv=KFold(3), params=params)


def test_a_generator_of_folds_with_routing(data):
    X, y = data
    folds = list(KFold(3).split(X))
    with sklearn.config_context(enable_metadata_routing=True):
        dist = cross_val_predict_dist(BayesianRidge(), X, y, cv=iter(folds))
    np.testing.assert_allclose(dist.mean(), cross_val_predict_dist(BayesianRidge(), X, y, cv=KFold(3)).mean())


def test_tested_rows_of_a_time_series(data):
    X, y = data
    cv = TimeSeriesSplit(3)
    dist, rows = cross_val_predict_dist(BayesianRidge(), X, y, cv=cv, return_rows=True)
    assert_array_equal(rows, np.concatenate([test for _, test in cv.split(X)]))
    train, test = list(cv.split(X))[1]
    alone = predict_dist(BayesianRidge().fit(X[train], y[train]), X[test])
    assert_array_equal(dist.mean()[np.isin(rows, test)], alone.mean())


def test_tested_rows_are_ascending_and_may_repeat(data):
    X, y = data
    folds = [(np.arange(30), np.arange(59, 40, -1)), (np.arange(20), np.arange(30, 60))]
    dist, rows = cross_val_predict_dist(BayesianRidge(), X, y, cv=folds, return_rows=True)
    assert len(dist) == len(rows) == 49
    assert (np.diff(rows) >= 0).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda X, y: (X, y[:-1]), ValueError, "`y` must have 60 rows"),
        (lambda X, y: (X, np.column_stack([y, y])), ValueError, "y should be a 1d array"),  # of the estimator
        (
            lambda X, y: (X, np.where(y == y[3], np.nan, y)),
            ValueError,
            "`y` must be finite, got nan at row 3",
        ),
        (
            lambda X, y: (X, np.where(y == y[3], np.inf, y)),
            ValueError,
            "`y` must be finite, got inf at row 3",
        ),
        (lambda X, y: (X, np.full(60, "a")), TypeError, "`y` must hold real numbers"),
        (lambda X, y: (X[:0], y[:0]), ValueError, "at least one row"),
        (lambda X, y: (X[:1], y[:1]), ValueError, "at least one row per fold, got 1 rows for 5 folds"),
    ],
)
def test_bad_rows(data, change, error, message):
    with pytest.raises(error, match=message):
        cross_val_predict_dist(BayesianRidge(), *change(*data))


def test_bad_arguments(data):
    with pytest.raises(NotProbabilisticError, match="Ridge"):
        cross_val_predict_dist(Ridge(), *data)
    with pytest.raises(ValueError, match="`return_rows` must be"):
        cross_val_predict_dist(BayesianRidge(), *data, return_rows="all")
    with pytest.raises(ValueError, match="KFold does not use it"):
        cross_val_predict_dist(BayesianRidge(), *data, groups=np.zeros(60))
    with pytest.raises(ValueError, match=r"every row exactly once.*RecalibratedRegressor"):
        cross_val_predict_dist(BayesianRidge(), *data, cv=TimeSeriesSplit(3))
