"""A shape of the standardized residuals that depends on x, in `ResidualRegressor`."""

import pickle

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skuq.distributions import Quantiles
from skuq.metrics import crps_loss
from skuq.regressors import ResidualRegressor
from tests.regressors.worlds import linear_world


def outlier_world(n, seed=0, columns=3):
    """Linear mean, small noise and far outliers: above where the second column is positive, else below."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, columns))
    outlier = rng.exponential(size=n) * (rng.random(n) < 0.4)
    noise = 0.1 * rng.normal(size=n) + np.where(X[:, 1] > 0, outlier, -outlier)
    return X, X[:, 0] + noise


def test_a_shape_that_changes_with_x_covers_each_group_on_both_sides():
    X, y = outlier_world(2500)
    X_new, y_new = outlier_world(4000, seed=1)
    common, conditional = (
        ResidualRegressor(LinearRegression(), shape=shape, random_state=0).fit(X, y).predict_dist(X_new)
        for shape in ("empirical", "auto")
    )
    assert isinstance(conditional, Quantiles)
    assert crps_loss(y_new, conditional) < 0.93 * crps_loss(y_new, common)
    for group in (X_new[:, 1] > 0.1, X_new[:, 1] < -0.1):
        for level in (0.05, 0.95):
            errors = [
                abs(np.mean(y_new[group] <= dist.quantile(level)[group]) - level)
                for dist in (common, conditional)
            ]
            assert errors[1] < 0.03
            assert errors[0] > 0.04  # the common shape is right for neither group


def test_the_common_shape_remains_where_the_shape_is_constant():
    X, _ = outlier_world(400)
    y = X[:, 0] + np.random.default_rng(1).exponential(size=400)
    auto, common = (
        ResidualRegressor(LinearRegression(), shape=shape, random_state=0).fit(X, y)
        for shape in ("auto", "empirical")
    )
    assert auto.conditional_shape_ is None
    for name in ("cdf", "logpdf", "crps"):
        assert np.array_equal(*(getattr(model.predict_dist(X), name)(y) for model in (auto, common)))
    assert np.array_equal(*(model.fit_transform(X, y).crps(y) for model in (auto, common)))


def test_a_conditional_shape_is_taken_by_name_without_a_guard():
    X, y = outlier_world(60)
    taken = {
        shape: [
            ResidualRegressor(LinearRegression(), shape=shape, random_state=seed).fit(X, y).conditional_shape_
            is not None
            for seed in range(3)
        ]
        for shape in ("conditional", "auto", "empirical", "normal")
    }
    assert sum(taken["conditional"]) > sum(taken["auto"])
    assert not any(taken["empirical"] + taken["normal"])


def test_out_of_fold_distributions_have_a_shape_that_changes_with_x():
    X, y = outlier_world(1000)
    X_new, y_new = outlier_world(3000, seed=1)
    common, conditional = (
        ResidualRegressor(LinearRegression(), shape=shape, random_state=0) for shape in ("empirical", "auto")
    )
    out_of_fold = [model.fit_transform(X, y) for model in (common, conditional)]
    assert isinstance(out_of_fold[1], Quantiles)
    assert np.mean(out_of_fold[1].cdf(y) <= 0.9) == pytest.approx(0.9, abs=0.02)
    own, new, seen = (
        crps_loss(target, dists[1]) / crps_loss(target, dists[0])
        for target, dists in (
            (y, out_of_fold),
            (y_new, [model.predict_dist(X_new) for model in (common, conditional)]),
            (y, [model.predict_dist(X) for model in (common, conditional)]),
        )
    )
    assert new < 0.93
    assert own > new - 0.03  # not better than on new rows
    assert seen < own - 0.03  # the trees have seen these rows


def test_out_of_fold_distributions_are_in_row_order():
    X, y = outlier_world(600)
    order = np.random.default_rng(0).permutation(600)
    folds = list(KFold(5).split(X))
    place = np.argsort(order)
    moved = [(place[train], place[test]) for train, test in folds]
    dists = [
        ResidualRegressor(LinearRegression(), cv=cv, random_state=0).fit_transform(X[rows], y[rows])
        for rows, cv in ((slice(None), folds), (order, moved))
    ]
    assert isinstance(dists[0], Quantiles)
    assert np.allclose(dists[0].values[order], dists[1].values)


def test_rows_of_one_group_do_not_choose_the_shape_of_their_own_group():
    taken = {"random": 0, "by group": 0}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(60), 10)
        X = rng.normal(size=(60, 3))[group]  # rows of one group are equal
        y = X[:, 0] + rng.normal(size=60)[group] + 0.1 * rng.normal(size=600)
        for name, cv, params in (("random", 5, {}), ("by group", GroupKFold(5), {"groups": group})):
            model = ResidualRegressor(LinearRegression(), cv=cv, random_state=seed).fit(X, y, **params)
            taken[name] += model.conditional_shape_ is not None
    assert taken == {"random": 3, "by group": 0}  # other rows of the group show the error


@pytest.mark.parametrize("cv", [TimeSeriesSplit(4), RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)])
def test_the_shape_changes_with_x_by_any_splitter(cv):
    X, y = outlier_world(1000)
    model = ResidualRegressor(LinearRegression(), cv=cv, random_state=0).fit(X, y)
    low, high = model.predict_dist([[0, -0.5, 0], [0, 0.5, 0]]).interval(0.9)
    assert -low[0] > 1.3 * low[1]
    assert high[1] > -1.3 * high[0]


def test_a_shape_that_changes_with_x_has_the_units_of_y():
    X, y = outlier_world(500)
    dists = [
        ResidualRegressor(LinearRegression(), random_state=0).fit(X, factor * y).predict_dist(X)
        for factor in (1.0, 2.0**-40)
    ]
    assert isinstance(dists[0], Quantiles)
    assert dists[1].values / 2.0**-40 == pytest.approx(dists[0].values, rel=1e-9, abs=1e-9)


def test_weights_count_as_repetitions_in_a_shape_that_changes_with_x():
    X, y = outlier_world(600)
    keep = np.random.default_rng(1).random(600) < 0.5
    X[~keep, 1] *= -1  # wrong rows
    folds = list(KFold(5).split(X))
    inside = np.flatnonzero(keep)
    place = np.cumsum(keep) - 1
    part = [tuple(place[np.intersect1d(rows, inside)] for rows in fold) for fold in folds]
    weighted = ResidualRegressor(LinearRegression(), LinearRegression(), cv=folds, random_state=0)
    weighted.fit(X, y, sample_weight=keep.astype(float))
    without = ResidualRegressor(LinearRegression(), LinearRegression(), cv=part, random_state=0)
    without.fit(X[keep], y[keep], sample_weight=np.ones(keep.sum()))
    assert without.conditional_shape_ is not None
    assert weighted.conditional_shape_.share == pytest.approx(without.conditional_shape_.share, abs=1e-6)
    low, high = weighted.predict_dist([[0, -0.5, 0], [0, 0.5, 0]]).interval(0.9)
    assert -low[0] > 1.2 * low[1]
    assert high[1] > -1.2 * high[0]


def test_few_rows_have_the_common_shape():
    for n in (12, 25, 39):
        X, y = outlier_world(n)
        assert ResidualRegressor(LinearRegression(), random_state=0).fit(X, y).conditional_shape_ is None


def test_a_shape_that_changes_with_x_is_pickled_and_the_same_for_any_number_of_jobs():
    X, y = outlier_world(400)
    X[::7, 2] = np.nan
    boosting = HistGradientBoostingRegressor(max_iter=20)
    with parallel_config(backend="threading"):
        one, two = (ResidualRegressor(boosting, n_jobs=jobs, random_state=0).fit(X, y) for jobs in (1, 2))
    assert one.conditional_shape_ is not None
    expected = one.predict_dist(X).values
    assert np.array_equal(two.predict_dist(X).values, expected)
    assert np.array_equal(pickle.loads(pickle.dumps(one)).predict_dist(X).values, expected)
    assert np.allclose(one.predict_dist(X[5:6]).values, expected[5:6])


def test_the_shape_changes_with_words_and_with_a_scale_model_of_the_user():
    X, y = outlier_world(800)
    table = pd.DataFrame({"x": X[:, 0], "side": np.where(X[:, 1] > 0, "above", "below")})
    mean = make_pipeline(FunctionTransformer(lambda frame: frame[["x"]]), LinearRegression())
    new = pd.DataFrame({"x": [0.0, 0.0], "side": ["below", "above"]})
    for scale_estimator in (None, mean):
        model = ResidualRegressor(mean, scale_estimator, random_state=0).fit(table, y)
        low, high = model.predict_dist(new).interval(0.9)
        assert -low[0] > 1.5 * low[1]
        assert high[1] > -1.5 * high[0]


def test_a_sparse_table_has_a_shape_that_depends_on_the_prediction():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 2))
    noise = rng.exponential(size=800) - 1
    y = X[:, 0] + 0.3 * np.where(X[:, 0] > 0, noise, -noise)
    model = ResidualRegressor(LinearRegression(), random_state=0).fit(csr_array(X), y)
    low, high = model.predict_dist(csr_array([[-0.7, 0.0], [0.7, 0.0]])).interval(0.9) - [[-0.7], [0.7]]
    assert -low[0] > 1.3 * low[1]
    assert high[1] > -1.3 * high[0]


def test_the_shape_is_one_of_four():
    X, y = linear_world(20)
    with pytest.raises(ValueError, match="`shape` must be one of 'auto', 'conditional'"):
        ResidualRegressor(LinearRegression(), shape="gamma").fit(X, y)
