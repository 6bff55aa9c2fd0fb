"""Bins of columns."""

import numpy as np

from skuq.regressors._shape.bins import Bins


def test_bins_separate_all_distinct_values_of_a_short_column():
    table = np.array([[3.0, 1.0], [1.0, np.nan], [2.0, 1.0], [3.0, 5.0]])
    bins = Bins.of_table(table)
    assert np.array_equal(bins(table), [[3, 1], [1, 0], [2, 1], [3, 2]])
    assert np.array_equal(bins(np.array([[-9.0, 3.1], [2.4, 2.9]])), [[1, 2], [2, 1]])


def test_bins_of_a_long_column_hold_equally_many_rows_and_keep_their_order():
    values = np.random.default_rng(0).lognormal(size=20_000)
    codes = Bins.of_table(values[:, np.newaxis])(values[:, np.newaxis])[:, 0]
    counts = np.bincount(codes)[1:]
    assert len(counts) == 255
    assert counts.min() > 0.9 * counts.mean()
    assert counts.max() < 1.1 * counts.mean()
    assert (np.diff(codes[np.argsort(values)]) >= 0).all()


def test_a_frequent_value_has_a_bin_of_its_own():
    values = np.concatenate([np.zeros(5000), np.random.default_rng(0).normal(size=5000)])
    codes = Bins.of_table(values[:, np.newaxis])(values[:, np.newaxis])[:, 0]
    assert len(np.unique(codes[:5000])) == 1
    assert (codes[5000:] == codes[0]).sum() <= 80


def test_units_make_no_difference():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(2000, 2))
    for factor in (2.0**-900, 2.0**900):
        assert np.array_equal(Bins.of_table(table)(table), Bins.of_table(factor * table)(factor * table))


def test_constant_and_empty_columns_have_one_bin():
    table = np.column_stack([np.ones(5), np.full(5, np.nan)])
    bins = Bins.of_table(table)
    assert np.array_equal(bins(table), np.tile([1, 0], (5, 1)))
    assert np.array_equal(bins(np.array([[7.0, 7.0]])), [[1, 1]])
