"""Templates of copulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri

from skuq.distributions import normal_template, rank_template
from skuq.distributions._joint.template import normal_points, weighted_levels


def test_ranks_are_evenly_spaced_in_each_column():
    values = np.random.RandomState(0).normal(size=(80, 3))
    ranks = rank_template(values)
    assert_array_equal(np.sort(ranks, axis=0), np.tile(((np.arange(80) + 0.5) / 80)[:, np.newaxis], 3))
    assert_array_equal(ranks.argsort(axis=0), values.argsort(axis=0))
    assert_array_equal(rank_template(np.exp(values)), ranks)
    assert_array_equal(rank_template(ranks), ranks)


def test_infinite_values_have_ranks():
    assert_array_equal(rank_template([[-np.inf], [0.0], [np.inf]])[:, 0], [1 / 6, 0.5, 5 / 6])


@pytest.mark.parametrize(
    ("values", "message"),
    [([1.0, 2.0], "shape"), (np.empty((0, 2)), "shape"), ([[np.nan, 0.0]], "NaN")],
)
def test_bad_values(values, message):
    with pytest.raises(ValueError, match=message):
        rank_template(values)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_normal_template_has_the_correlation(d):
    correlation = 0.6 * np.ones((d, d)) + 0.4 * np.eye(d)
    ranks = normal_template(correlation)
    assert_array_equal(np.sort(ranks, axis=0), np.tile(((np.arange(1024) + 0.5) / 1024)[:, np.newaxis], d))
    assert_allclose(np.corrcoef(ndtri(ranks).T), correlation, atol=0.01)
    assert_array_equal(normal_template(correlation), ranks)


def test_normal_points_have_exact_moments():
    points = normal_points(4)
    assert_allclose(points.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(points.T @ points / len(points), np.eye(4), atol=1e-12)


@pytest.mark.parametrize(
    ("correlation", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "positive semidefinite"),
        ([[1.0, 0.5], [0.2, 1.0]], "symmetric"),
        ([[2.0, 0.5], [0.5, 1.0]], "ones on its diagonal"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite"),
        ([1.0, 0.5], "shape"),
    ],
)
def test_bad_correlation(correlation, message):
    with pytest.raises(ValueError, match=message):
        normal_template(correlation)


def test_size_is_a_power_of_two():
    with pytest.raises(ValueError, match=r"power of 2, got 300\. Use 512"):
        normal_template(np.eye(2), size=300)


def test_weighted_levels_are_those_of_repeated_points():
    order = np.array([[0, 2], [1, 1], [2, 0]])
    weights = np.array([1.0, 2.0, 1.0]) / 4
    assert_allclose(weighted_levels(order, weights), [[0.125, 0.875], [0.5, 0.5], [0.875, 0.125]])
    equal = weighted_levels(order, np.full((5, 3), 1 / 3))
    assert_allclose(equal, np.tile((order[:, ::-1] + 0.5) / 3 * 0 + equal[0], (5, 1, 1)))
    assert_allclose(np.sort(equal[0], axis=0), np.tile([[1 / 6], [0.5], [5 / 6]], 2))


def test_points_of_weight_zero_have_finite_quantiles():
    levels = weighted_levels(np.array([[0], [1], [2]]), np.array([0.0, 1.0, 0.0]))
    assert_array_equal(levels, 0.5)
