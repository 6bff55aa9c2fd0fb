"""Histograms of the logarithm: where rows go, how they add, and their quantiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skuq.monitoring._statistics import LogHistogram, Slots, bin_width

WIDTH = bin_width(0.01)
keys = st.lists(
    st.one_of(st.just(0.0), st.just(np.inf), st.floats(1e-300, 1e300)), min_size=1, max_size=20
).map(np.array)


def histogram(key, *columns, weight=None):
    return LogHistogram.of(Slots.of(key, WIDTH), columns, weight)


def same(first, second):
    np.testing.assert_allclose(first.table, second.table, rtol=1e-12)
    assert (first.low, first.high) == (second.low, second.high)
    if first.table.shape[1] > 2:
        assert first.first == second.first


def test_the_center_of_a_bin_is_within_the_accuracy():
    for accuracy in (1e-5, 1e-3, 0.1):
        assert np.tanh(bin_width(accuracy) / 2) == pytest.approx(accuracy, rel=1e-9)


@given(keys, keys, keys)
def test_addition_is_that_of_the_rows(first, second, third):
    whole = histogram(np.concatenate([first, second, third]))
    one, two, three = (histogram(key) for key in (first, second, third))
    same((one + two) + three, whole)
    same(one + (two + three), whole)
    same(three + two + one, whole)


@given(keys)
def test_each_row_is_in_the_slot_of_its_value(key):
    slots = Slots.of(key, WIDTH)
    assert (slots.index < slots.size).all()
    np.testing.assert_array_equal(slots.index == 0, key == 0)
    np.testing.assert_array_equal(slots.index == slots.size - 1, key == np.inf)
    inside = (key > 0) & (key < np.inf)
    place = slots.first + slots.index[inside] - 1
    np.testing.assert_array_equal(place, np.floor(np.log(key[inside]) / WIDTH))


@given(keys, st.floats(0, 1))
def test_quantiles_are_within_the_accuracy(key, level):
    found = float(histogram(key).quantile(np.array([level]), WIDTH)[0])
    expected = np.quantile(key, level, method="inverted_cdf")
    if np.isfinite(expected):
        assert found == pytest.approx(expected, rel=0.01 * (1 + 1e-9), abs=0)
    else:
        assert found == np.inf


def test_columns_and_weights_are_summed():
    key, column = np.array([1.0, 1.0, 5.0, 0.0]), np.array([2.0, 4.0, 8.0, 16.0])
    weight = np.array([1.0, 3.0, 2.0, 0.5])
    found = histogram(key, column, weight=weight)
    np.testing.assert_array_equal(found.weight, [0.5, 4.0, 2.0])
    np.testing.assert_array_equal(found.means, [[16.0, 3.5, 8.0]])
