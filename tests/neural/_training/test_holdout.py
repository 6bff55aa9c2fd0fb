"""Which rows are held out: shares, numbers of rows, splitters, and weights of 0."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

pytest.importorskip("torch")
pytest.importorskip("skorch")

from skuq._fitting.training_data import TrainingData
from skuq.neural._training.holdout import hold_out


def of_classes(*counts, weight=None):
    y = np.repeat(np.arange(float(len(counts))), counts)
    return TrainingData(np.zeros((len(y), 1)), y, weight)


def rows(n=20, weight=None):
    return TrainingData(np.zeros((n, 1)), np.arange(float(n)), weight)


@pytest.mark.parametrize("size", [1, 7, np.int64(7), 19])
def test_so_many_rows_are_held_out(size):
    assert hold_out(size, rows(), 0).sum() == size


def test_a_number_and_a_share_hold_out_the_same_rows():
    for seed in range(5):
        np.testing.assert_array_equal(hold_out(5, rows(), seed), hold_out(0.25, rows(), seed))
    assert (hold_out(5, rows(), 0) != hold_out(5, rows(), 1)).any()


def test_more_rows_hold_out_the_fewer_as_well():
    assert hold_out(9, rows(), 3)[hold_out(4, rows(), 3)].all()


def test_only_rows_with_weight_are_drawn():
    weight = np.repeat([0.0, 1.0], 10)
    assert not hold_out(9, rows(weight=weight), 0)[:10].any()
    with pytest.raises(ValueError, match="must lie between 1 and 9 as a number of rows"):
        hold_out(10, rows(weight=weight), 0)


def test_a_splitter_holds_out_its_first_test_rows():
    np.testing.assert_array_equal(np.flatnonzero(hold_out(KFold(5), rows(), 0)), np.arange(4))


@pytest.mark.parametrize("size", [0, -1, 20])
def test_no_row_or_all_cannot_be_held_out(size):
    with pytest.raises(ValueError, match=f"must lie between 1 and 19 as a number of rows, got {size}"):
        hold_out(size, rows(), 0)


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_classes_are_held_out_in_their_shares(seed):
    data = of_classes(50, 30, 20)
    held_out = hold_out(0.2, data, seed, by_class=True)
    assert np.bincount(data.y[held_out].astype(int)).tolist() == [10, 6, 4]
    np.testing.assert_array_equal(hold_out(20, data, seed, by_class=True), held_out)
    assert (hold_out(0.2, data, seed + 10, by_class=True) != held_out).any()


def test_rows_of_classes_without_weight_are_not_held_out():
    weight = np.where(np.arange(40) % 2 == 0, 0.0, 1.0)
    data = of_classes(20, 20, weight=weight)
    held_out = hold_out(0.4, data, 0, by_class=True)
    assert np.bincount(data.y[held_out].astype(int)).tolist() == [4, 4]
    assert not held_out[weight == 0].any()


def test_a_splitter_needs_no_shares():
    np.testing.assert_array_equal(
        np.flatnonzero(hold_out(KFold(2), of_classes(2, 2), 0, by_class=True)), np.arange(2)
    )


@pytest.mark.parametrize(
    ("splits", "error"),
    [
        ([3, 4], TypeError),
        ([], ValueError),
        ([(np.arange(20), [])], ValueError),
        ([(np.arange(19), [20])], ValueError),
        ([(np.arange(19), np.ones(7, dtype=bool))], ValueError),
        (KFold(30), ValueError),
    ],
    ids=["no pairs", "no fold", "no test rows", "no such row", "short mask", "too many folds"],
)
def test_errors_of_a_splitter_name_the_parameter(splits, error):
    with pytest.raises(error, match="`validation_size`") as caught:
        hold_out(splits, rows(), 0)
    assert "`cv" not in str(caught.value)
    assert caught.value.__cause__ is None
