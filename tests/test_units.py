"""Powers of two as units of numbers of any size."""

import numpy as np
import pytest

from skuq._numeric import (
    mean_of,
    power_of_two,
    root_mean_square,
    standard_deviation,
    unit_of,
)

SIZES = [5e-324, 1e-310, 1e-200, 0.3, 1.0, 1.5, 2.0, 1e200, 1.7e308]


@pytest.mark.parametrize("size", SIZES)
def test_a_power_of_two_next_to_a_size(size):
    unit = power_of_two(size)
    assert np.frexp(unit)[0] == 0.5
    assert unit <= size
    assert size / unit < 2
    assert unit_of(np.array([0.0, -size, size / 3, np.inf])) == unit


def test_sizes_without_a_power_of_two_have_the_unit_1():
    assert power_of_two(0.0) == power_of_two(np.inf) == unit_of(np.empty(0)) == unit_of(np.zeros(3)) == 1.0


@pytest.mark.parametrize("size", [2.0**-900, 2.0**-3, 1.0, 2.0**900])
@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.0, 2.0, 5.0, 1.0])])
def test_moments_scale_with_the_values(size, weight):
    values = np.array([1.0, -2.0, 4.0, 0.5, 3.0])
    mean = np.average(values, weights=weight)
    assert mean_of(size * values, weight) == pytest.approx(size * mean)
    variance = np.average(np.square(values - mean), weights=weight)
    assert standard_deviation(size * values, weight) == pytest.approx(size * np.sqrt(variance))
    square = np.average(np.square(values), weights=weight)
    assert root_mean_square(size * values, weight) == pytest.approx(size * np.sqrt(square))


@pytest.mark.parametrize("value", [0.1, 1e-250, -1e250, 1.7e308])
def test_equal_values_do_not_vary(value):
    assert standard_deviation(np.full(7, value)) == 0
    assert standard_deviation(np.full(7, value), np.arange(7.0)) == 0
