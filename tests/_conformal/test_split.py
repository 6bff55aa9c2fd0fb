"""Split conformal prediction: training and calibration rows, and models that are fitted already."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import GroupShuffleSplit, KFold, ShuffleSplit

from skuq.distributions import Concatenated
from skuq.regressors import ConformalRegressor
from tests.regressors.worlds import linear_world


def test_a_time_ordered_split():
    X, y = linear_world(100)
    split = [(np.arange(70), np.arange(70, 100))]
    model = ConformalRegressor(Ridge(), cv=split).fit(X, y)
    by_hand = ConformalRegressor(FrozenEstimator(Ridge().fit(X[:70], y[:70]))).fit(X[70:], y[70:])
    assert np.array_equal(model.predict_interval(X), by_hand.predict_interval(X))
    masks = ConformalRegressor(Ridge(), cv=[(np.arange(100) < 70, np.arange(100) >= 70)]).fit(X, y)
    assert np.array_equal(masks.predict_interval(X), model.predict_interval(X))
    shuffled = ConformalRegressor(Ridge(), cv=ShuffleSplit(1, test_size=20, random_state=0)).fit(X, y)
    assert shuffled.n_calibration_ == 20


def test_groups_stay_together():
    X, y = linear_world(100)
    groups = np.repeat(np.arange(20), 5)
    cv = GroupShuffleSplit(1, test_size=0.3, random_state=0)
    model = ConformalRegressor(Ridge(), cv=cv).fit(X, y, groups=groups)
    train, test = next(cv.split(X, y, groups))
    assert np.array_equal(model.calibration_rows_, test)
    assert not set(groups[train]) & set(groups[test])
    with pytest.raises(ValueError, match=r"`groups` is given.*GroupShuffleSplit\(1\)"):
        ConformalRegressor(Ridge()).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="`groups` must be given"):
        ConformalRegressor(Ridge(), cv=cv).fit(X, y)


def test_bad_splits(subtests):
    X, y = linear_world(80)
    finished = FrozenEstimator(Ridge().fit(X, y))
    several = r"one split.*got [235].*CrossConformalRegressor, or RecalibratedRegressor\(.*ConformalRecal"
    for estimator, cv, words in (
        (Ridge(), KFold(3), several),
        (Ridge(), 5, several),
        (Ridge(), [(np.arange(50), np.arange(50, 80))] * 2, several),
        (Ridge(), [(np.arange(40), np.arange(39, 80))], "fold 0 has row 39 in both"),
        (finished, ShuffleSplit(1), "`cv` must be None with a FrozenEstimator"),
    ):
        with subtests.test(cv=cv), pytest.raises(ValueError, match=words):
            ConformalRegressor(estimator, cv=cv).fit(X, y)


def test_fit_transform_gives_out_of_fold_distributions():
    X, y = linear_world(80)
    out_of_fold = ConformalRegressor(LinearRegression(), random_state=0).fit_transform(X, y)
    assert isinstance(out_of_fold, Concatenated)
    assert len(out_of_fold) == 80
    with pytest.raises(ValueError, match="`fit_transform` must predict every row out of fold"):
        ConformalRegressor(LinearRegression(), cv=ShuffleSplit(1)).fit_transform(X, y)


def test_a_precomputed_kernel():
    X, y = linear_world(60)
    split = [(np.arange(5, 45), np.r_[:5, 45:60])]
    kernel = linear_kernel(X)
    model = ConformalRegressor(KernelRidge(kernel="precomputed"), cv=split).fit(kernel, y)
    plain = ConformalRegressor(KernelRidge(), cv=split).fit(X, y)
    assert np.allclose(model.predict_interval(kernel), plain.predict_interval(X))
    assert np.allclose(model.predict(kernel), plain.predict(X))
