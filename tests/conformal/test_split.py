"""Split conformal prediction: training and calibration rows, score quantiles by weight and group."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import GroupShuffleSplit, KFold, ShuffleSplit

from skuq._numeric import RANK_TOLERANCE
from skuq.conformal import ConformalRegressor
from skuq.conformal._base import WeightedRows
from skuq.conformal._scores import Band
from skuq.conformal._split import CalibrationRows, GroupsAndShift
from skuq.distributions._concatenated import Concatenated
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


def calibration_rows(scores, *, weight=None, ratio=1.0, labels=None, rare_groups="raise", min_group_size=1):
    scores = np.atleast_2d(np.asarray(scores, dtype=float))
    n = scores.shape[1]
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    options = GroupsAndShift(None, rare_groups, min_group_size, None, None)
    return CalibrationRows(scores, new_rows(n, test_weight=ratio, labels=labels), weight, options)


def new_rows(n, *, test_weight=1.0, labels=None):
    labels = None if labels is None else np.asarray(labels, dtype=object)
    return WeightedRows(n, np.asarray(test_weight), labels)


NINE = np.arange(1.0, 10.0)


def test_the_quantile_has_the_rank_of_n_and_one_rows():
    one, two = calibration_rows(NINE).ranked, calibration_rows([NINE, 10 * NINE]).ranked
    for level, expected in ((0.9, 9.0), (0.5, 5.0), (0.91, np.inf), (0.0, 1.0)):
        assert_array_equal(one.quantile(new_rows(2), level), [[expected] * 2])
    for level, expected in ((1.0, np.inf), (0.999, 9.0)):
        assert_array_equal(one.quantile(new_rows(1, test_weight=1e-30), level), [[expected]])
    # two scores take the level of half the miscoverage
    assert_array_equal(two.quantile(new_rows(1), 0.8), [[9.0], [90.0]])
    assert_array_equal(two.quantile(new_rows(1), 0.9), [[np.inf], [np.inf]])


def test_weights_are_repetitions_times_density_ratio_beside_that_of_the_new_row():
    weighted = calibration_rows([1.0, 2.0, 3.0], weight=[2, 1, 1], ratio=[1.0, 4.0, 0.0]).ranked
    rows = new_rows(3, test_weight=[2.0, 4.0, 60.0])
    assert_array_equal(weighted.weight_for(rows), [6.0, 6.0, 6.0])
    assert_array_equal(weighted.quantile(rows, 0.25), [[1.0, 2.0, np.inf]])  # 2, 2.5 and 16.5


def test_each_group_has_its_own_ranks():
    groups = calibration_rows([1.0, 2.0, 10.0, 20.0], labels=["a", "a", "b", "b"]).ranked
    rows = new_rows(3, labels=["b", "a", "b"])
    assert_array_equal(groups.quantile(rows, 0.6), [[20.0, 2.0, 20.0]])
    assert_array_equal(groups.weight_for(rows), [2.0, 2.0, 2.0])
    with pytest.raises(ValueError, match="label 'c' at row 1"):
        groups.quantile(new_rows(2, labels=["a", "c"]), 1.0)
    pooled = calibration_rows([1.0, 2.0, 10.0, 20.0], labels=["a", "a", "b", "b"], rare_groups="pool")
    assert_array_equal(pooled.ranked.quantile(new_rows(2, labels=["a", "c"]), 0.6), [[2.0, 10.0]])


def test_the_exceeded_share_is_the_share_of_intervals_that_miss_y():
    weighted = calibration_rows([1.0, 2.0, 3.0], weight=[1, 2, 4]).ranked
    y = np.array([0.0, 1.0, -1.5, 3.0, 9.0])
    band = Band(np.zeros(5), np.zeros(5), np.ones(5))
    wanted = np.array([0.0, 0.0, 1.0, 3.0, 7.0]) / (8 * (1 - RANK_TOLERANCE))
    assert_array_equal(weighted.exceeded_share(new_rows(5), band, y), wanted)


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_exceeded_share_of_rounded_bounds_is_exact(symmetric):
    """Numbers with rounding errors and many ties, and bands of positive length, on both sides of y."""
    rng = np.random.default_rng(0)
    low = np.round(rng.normal(size=200), 1) / 3
    high, y = low + np.round(rng.uniform(size=200), 1) / 7, np.round(rng.normal(size=200), 1)
    scores = [np.round(rng.normal(size=60), 1) / 7 + 0.1 for _ in range(1 if symmetric else 2)]
    ranked = calibration_rows(scores).ranked
    share = ranked.exceeded_share(new_rows(200), Band(low, high, np.ones(200)), y)
    outside = [(low - scores[0][:, None] > y), (high + scores[-1][:, None] < y)]
    n_outside = np.maximum(*(side.sum(axis=0) for side in outside))
    assert_array_equal(share, n_outside / (61 * (1 - RANK_TOLERANCE)))


def test_later_rows_follow_and_the_window_keeps_the_latest():
    first = calibration_rows([1.0, 2.0], weight=[1, 2], ratio=[1.0, 3.0], labels=["a", "b"])
    later = calibration_rows([3.0], weight=[5], ratio=[7.0], labels=["b"])
    both = first.followed_by(later, None)
    assert_array_equal(both.scores, [[1.0, 2.0, 3.0]])
    assert both.rows.n == 3
    kept = first.followed_by(later, 2)
    assert_array_equal(kept.scores, [[2.0, 3.0]])
    assert_array_equal(kept.repetitions * kept.rows.test_weight, [6.0, 35.0])
    assert_array_equal(kept.rows.labels, ["b", "b"])
    assert_array_equal(both.ranked.quantile(new_rows(1, labels=["b"]), 0.5), [[3.0]])


def test_rows_without_weight_or_with_small_groups_are_refused():
    with pytest.raises(ValueError, match="must be positive for at least one"):
        calibration_rows([1.0], weight=[0.0]).check()
    with pytest.raises(ValueError, match="label 'b' with 1"):
        calibration_rows([1.0, 2.0, 3.0], labels=["a", "a", "b"], min_group_size=2).check()
