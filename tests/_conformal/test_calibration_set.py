"""The calibration set: score quantiles by weight and group, and the weight that an observed row exceeds."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skuq._conformal.calibration_set import CalibrationSet, PredictedRows
from skuq._conformal.groups_and_shift import GroupsAndShift
from skuq._conformal.scores import Band
from skuq._ranks import RANK_TOLERANCE


def calibration_set(scores, *, weight=None, ratio=None, labels=None, rare_groups="raise", min_group_size=1):
    scores = np.atleast_2d(np.asarray(scores, dtype=float))
    ones = np.ones(scores.shape[1])
    weight, ratio = (ones if part is None else np.asarray(part, dtype=float) for part in (weight, ratio))
    labels = None if labels is None else np.asarray(labels, dtype=object)
    options = GroupsAndShift(rare_groups=rare_groups, min_group_size=min_group_size)
    return CalibrationSet(scores, weight, ratio, labels, options)


def new_rows(n, *, test_weight=1.0, labels=None, y=()):
    labels = None if labels is None else np.asarray(labels, dtype=object)
    return PredictedRows(n, np.asarray(test_weight), labels, None, np.asarray(y, dtype=float), np.ones(n))


NINE = np.arange(1.0, 10.0)


def test_the_quantile_has_the_rank_of_n_and_one_rows():
    one, two = calibration_set(NINE), calibration_set([NINE, 10 * NINE])
    for level, expected in ((0.9, 9.0), (0.5, 5.0), (0.91, np.inf), (0.0, 1.0)):
        assert_array_equal(one.quantile(new_rows(2), level), [[expected] * 2])
    for level, expected in ((1.0, np.inf), (0.999, 9.0)):
        assert_array_equal(one.quantile(new_rows(1, test_weight=1e-30), level), [[expected]])
    # two scores take the level of half the miscoverage
    assert_array_equal(two.quantile(new_rows(1), 0.8), [[9.0], [90.0]])
    assert_array_equal(two.quantile(new_rows(1), 0.9), [[np.inf], [np.inf]])


def test_weights_are_repetitions_times_density_ratio_beside_that_of_the_new_row():
    weighted = calibration_set([1.0, 2.0, 3.0], weight=[2, 1, 1], ratio=[1.0, 4.0, 0.0])
    assert_array_equal(weighted.weight, [2.0, 4.0, 0.0])
    rows = new_rows(3, test_weight=[2.0, 4.0, 60.0])
    assert_array_equal(weighted.weight_for(rows), [6.0, 6.0, 6.0])
    assert_array_equal(weighted.quantile(rows, 0.25), [[1.0, 2.0, np.inf]])  # 2, 2.5 and 16.5


def test_each_group_has_its_own_ranks():
    groups = calibration_set([1.0, 2.0, 10.0, 20.0], labels=["a", "a", "b", "b"])
    rows = new_rows(3, labels=["b", "a", "b"])
    assert_array_equal(groups.quantile(rows, 0.6), [[20.0, 2.0, 20.0]])
    assert_array_equal(groups.weight_for(rows), [2.0, 2.0, 2.0])
    with pytest.raises(ValueError, match="label 'c' at row 1"):
        groups.quantile(new_rows(2, labels=["a", "c"]), 1.0)
    pooled = calibration_set([1.0, 2.0, 10.0, 20.0], labels=["a", "a", "b", "b"], rare_groups="pool")
    assert_array_equal(pooled.quantile(new_rows(2, labels=["a", "c"]), 0.6), [[2.0, 10.0]])


def test_the_exceeded_share_is_the_share_of_intervals_that_miss_y():
    weighted = calibration_set([1.0, 2.0, 3.0], weight=[1, 2, 4])
    y = np.array([0.0, 1.0, -1.5, 3.0, 9.0])
    band = Band(np.zeros(5), np.zeros(5), np.ones(5))
    wanted = np.array([0.0, 0.0, 1.0, 3.0, 7.0]) / (8 * (1 - RANK_TOLERANCE))
    assert_array_equal(weighted.exceeded_share(new_rows(5, y=y), band), wanted)


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_exceeded_share_of_rounded_bounds_is_exact(symmetric):
    """Numbers with rounding errors and many ties, and bands of positive length, on both sides of y."""
    rng = np.random.default_rng(0)
    low = np.round(rng.normal(size=200), 1) / 3
    high, y = low + np.round(rng.uniform(size=200), 1) / 7, np.round(rng.normal(size=200), 1)
    scores = [np.round(rng.normal(size=60), 1) / 7 + 0.1 for _ in range(1 if symmetric else 2)]
    share = calibration_set(scores).exceeded_share(new_rows(200, y=y), Band(low, high, np.ones(200)))
    outside = [(low - scores[0][:, None] > y), (high + scores[-1][:, None] < y)]
    n_outside = np.maximum(*(side.sum(axis=0) for side in outside))
    assert_array_equal(share, n_outside / (61 * (1 - RANK_TOLERANCE)))


def test_later_rows_follow_and_the_window_keeps_the_latest():
    first = calibration_set([1.0, 2.0], weight=[1, 2], ratio=[1.0, 3.0], labels=["a", "b"])
    later = calibration_set([3.0], weight=[5], ratio=[7.0], labels=["b"])
    both = first.followed_by(later, None)
    assert_array_equal(both.scores, [[1.0, 2.0, 3.0]])
    assert len(both) == 3
    kept = first.followed_by(later, 2)
    assert_array_equal(kept.scores, [[2.0, 3.0]])
    assert_array_equal(kept.weight, [6.0, 35.0])
    assert_array_equal(kept.labels, ["b", "b"])
    assert_array_equal(both.with_scores(-both.scores).quantile(new_rows(1, labels=["b"]), 0.5), [[-3.0]])


def test_rows_without_weight_or_with_small_groups_are_refused():
    with pytest.raises(ValueError, match="must be positive for at least one"):
        calibration_set([1.0], weight=[0.0]).check()
    with pytest.raises(ValueError, match="label 'b' with 1"):
        calibration_set([1.0, 2.0, 3.0], labels=["a", "a", "b"], min_group_size=2).check()


@pytest.mark.parametrize("window", [None, 12])
def test_ranks_that_follow_equal_new_ranks(window):
    """Groups, ratios, weights of 0 and ties: rows added in small and large batches."""
    rng = np.random.default_rng(1)

    def draw(n):
        return calibration_set(
            rng.integers(0, 5, size=n).astype(float),
            weight=rng.integers(0, 3, size=n),
            ratio=rng.integers(0, 4, size=n).astype(float),
            labels=rng.choice(["a", "b", "c"], size=n),
            rare_groups="pool",
            min_group_size=3,
        )

    current = draw(30)
    for n in (1, 1, 2, 5, 1, 17, 1, 1, 3, 1, 40, 1, 1):
        rows = new_rows(3, labels=["a", "b", "c"])
        current.quantile(rows, 0.5)  # the ranks of the groups in use are updated
        current = current.followed_by(draw(n), window)
        fresh = current.with_scores(current.scores)
        assert not fresh._ranks_of_groups
        for level in (0.2, 0.5, 0.8):
            assert_array_equal(current.quantile(rows, level), fresh.quantile(rows, level))
        assert_array_equal(current.weight_for(rows), fresh.weight_for(rows))
        assert current.groups.sizes == fresh.groups.sizes
