"""Trees on the indicators of probability levels."""

import numpy as np
import pytest
from sklearn.tree import ExtraTreeRegressor

from skuq.regressors._shape.trees import THRESHOLDS, ShareTrees, grow_trees


def binned_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 40, size=(n, 3)).astype(np.int16), rng.random(n)


def fitted_trees(n_trees, seed=0):
    codes, level = binned_rows(300, seed)
    below = (level[:, np.newaxis] <= THRESHOLDS).astype(float)
    trees = [ExtraTreeRegressor(min_samples_leaf=4, random_state=seed + k) for k in range(n_trees)]
    return [tree.fit(codes.astype(np.float32), below) for tree in trees]


def test_compact_trees_predict_as_fitted_ones():
    fitted = fitted_trees(7)
    codes, _ = binned_rows(500, seed=1)
    expected = np.mean([tree.predict(codes.astype(np.float32)) for tree in fitted], axis=0)
    assert ShareTrees.of_fitted(fitted)(codes) == pytest.approx(expected, abs=3e-4)  # two bytes per share


def test_joined_trees_are_the_mean_of_their_parts():
    parts = [ShareTrees.of_fitted(fitted_trees(4, seed)) for seed in (0, 10, 20)]
    codes, _ = binned_rows(200, seed=1)
    expected = np.mean([part(codes) for part in parts], axis=0)
    assert ShareTrees.joined(parts)(codes) == pytest.approx(expected, abs=1e-12)


def test_blocks_of_rows_make_no_difference(monkeypatch):
    trees = ShareTrees.of_fitted(fitted_trees(5))
    codes, _ = binned_rows(103, seed=1)
    whole = trees(codes)
    monkeypatch.setattr("skuq.regressors._shape.trees._BLOCK", 50)
    assert np.array_equal(trees(codes), whole)


def test_shares_increase_with_the_threshold():
    codes, level = binned_rows(400)
    shares = grow_trees(codes, level, None, 0.25, 20, np.random.RandomState(0))(codes)
    assert (np.diff(shares, axis=1) >= -1e-15).all()
    assert shares.min() >= 0
    assert shares.max() <= 1


def test_weights_count_as_repetitions_in_the_leaves():
    codes, level = binned_rows(200)
    codes[:] = 0  # no split is possible: one leaf
    weight = np.random.default_rng(1).integers(0, 4, 200).astype(float)
    weighted, repeated = (
        grow_trees(codes[rows], level[rows], counts, 0.25, 3, np.random.RandomState(0))(codes[:1])
        for rows, counts in ((slice(None), weight), (np.repeat(np.arange(200), weight.astype(int)), None))
    )
    assert np.array_equal(weighted, repeated)


def test_the_leaves_of_doubled_weights_are_those_of_doubled_rows():
    codes, level = binned_rows(500)
    doubled, weighted = (
        grow_trees(np.tile(codes, (k, 1)), np.tile(level, k), weight, 0.25, 5, np.random.RandomState(0))
        for k, weight in ((2, None), (1, np.full(500, 2.0)))
    )
    assert np.array_equal(doubled(codes), weighted(codes))


def test_a_tree_is_grown_on_a_bounded_number_of_rows(monkeypatch):
    monkeypatch.setattr("skuq.regressors._shape.trees._MOST_ROWS", 100)
    codes, level = binned_rows(5000)
    trees = grow_trees(codes, level, None, 0.25, 10, np.random.RandomState(0))
    assert len(trees.shares) <= 10 * 100 / 3
    assert trees(codes).mean(axis=0) == pytest.approx(THRESHOLDS, abs=0.05)


def test_leaves_grow_with_their_factor_and_the_root_of_the_rows():
    codes, level = binned_rows(1600)
    small, large = (
        grow_trees(codes, level, None, factor, 10, np.random.RandomState(0)) for factor in (0.25, 1.0)
    )
    assert 1600 / 3 > len(small.shares) / 10 > 1600 / 40  # 10 rows at least
    assert len(large.shares) / 10 <= 40
