"""Bins of rows, and counting thresholds."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skuq.distributions import Quantiles, StudentT
from skuq.metrics._binning import bin_means, make_bins
from skuq.metrics._kernels import BLOCK, FEW, count_below
from skuq.metrics._levels import first_covering_level


def sums(bins, column):
    return bins.sums(column)[1]


@pytest.mark.parametrize("side", ["left", "right"])
def test_count_below_is_searchsorted(side):
    def check(thresholds, values):
        counted = count_below(thresholds, values, side)
        np.testing.assert_array_equal(counted, np.searchsorted(thresholds, values, side))

    rng = np.random.default_rng(0)
    for k, n in product((0, 1, FEW, FEW + 1, 99, 300), (1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 7)):
        # many lie on thresholds
        check(np.sort(np.round(rng.normal(size=k), 1)), np.round(rng.normal(size=n), 1))
    for offset, spread in product((0.0, 1.0, -1e9), (1e-300, 1e-8, 1.0, 1e300)):
        thresholds = offset + spread * np.linspace(-1, 1, 51) ** 3
        values = np.concatenate([rng.choice(thresholds, 600), offset + spread * rng.uniform(-2, 2, 600)])
        values = np.concatenate([values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)])
        values[:4] = [np.inf, -np.inf, 1e308, -1e308]
        check(thresholds, values)
        check(np.concatenate([[-np.inf], thresholds, [np.inf]]), values)


@pytest.mark.parametrize("kind", ["quantile", "interval"])
@pytest.mark.parametrize("family", ["normal", "student", "quantiles"])
def test_first_level_that_takes_in_the_target(forecast, family, kind):
    y, dist = forecast
    dist = {
        "normal": dist,
        "student": StudentT(dist.loc, dist.scale, df=3.0),
        "quantiles": Quantiles([0.1, 0.5, 0.9], dist.quantile([0.1, 0.5, 0.9])),
    }[family]
    levels = np.array([0.05, 0.2, 0.5, 0.77, 0.9, 0.98])
    first = first_covering_level(y, dist, levels, kind)
    for j, level in enumerate(levels):
        if kind == "quantile":
            inside = y <= dist.quantile(level)
        else:
            inside = (dist.quantile((1 - level) / 2) <= y) & (y <= dist.quantile((1 + level) / 2))
        np.testing.assert_array_equal(inside, first <= j)


@given(
    keys=st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    n_bins=st.integers(1, 9),
    strategy=st.sampled_from(["quantile", "uniform"]),
    seed=st.integers(0, 99),
)
def test_bins_hold_every_row_once_and_weights_repeat(keys, n_bins, strategy, seed):
    rng = np.random.default_rng(seed)
    key = np.array(keys, dtype=float)
    weight = rng.integers(1, 4, size=key.size)
    column, place = rng.normal(size=key.size), rng.integers(0, 3, size=key.size)
    rows = np.repeat(np.arange(key.size), weight)
    bins = make_bins(key, n_bins, strategy, weight.astype(float))
    repeated = make_bins(key[rows], n_bins, strategy, None)
    np.testing.assert_allclose(bins.totals(), repeated.totals(), atol=1e-9)
    np.testing.assert_allclose(sums(bins, column), sums(repeated, column[rows]), atol=1e-9)
    np.testing.assert_allclose(bins.histogram(place, 3), repeated.histogram(place[rows], 3), atol=1e-9)
    np.testing.assert_allclose(bins.histogram(place, 3).sum(axis=1), bins.totals(), atol=1e-9)
    assert bins.totals().sum() == pytest.approx(weight.sum())
    assert sums(bins, column).sum() == pytest.approx(weight @ column, abs=1e-9)
    if strategy == "quantile" and np.ptp(key) > 0:
        np.testing.assert_allclose(bins.totals(), weight.sum() / bins.n_bins)
    assert (np.diff(bins.edges) >= 0).all()
    assert bins.edges.size == bins.n_bins + 1


def test_a_tie_group_over_several_bins_is_in_each_in_proportion():
    key, column = np.array([1.0] + [2.0] * 8 + [3.0]), np.arange(10.0)
    bins = make_bins(key, 5, "quantile", None)
    np.testing.assert_allclose(bins.totals(), [2, 2, 2, 2, 2])
    tied = column[1:9].mean()
    np.testing.assert_allclose(sums(bins, column), [tied, 2 * tied, 2 * tied, 2 * tied, tied + 9])
    np.testing.assert_allclose(bins.edges, [1, 2, 2, 2, 2, 3])


def test_bin_means_by_hand():
    def means(key, columns, weight=None, n_bins=2):
        bins = make_bins(np.array(key), n_bins, "quantile", weight)
        return bin_means(bins, *map(np.array, columns))

    # A row on an edge is shared in proportion, and rows that tie there are shared as one.
    for key, column, totals, expected in (
        ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [1.5, 1.5], [(10 + 0.5 * 20) / 1.5, (30 + 0.5 * 20) / 1.5]),
        ([1.0, 2.0, 2.0, 2.0], [4.0, 1.0, 2.0, 6.0], [2, 2], [(4 + 3) / 2, 3]),
    ):
        found = means(key, [column])
        np.testing.assert_allclose(found[0], totals)
        np.testing.assert_allclose(found[1], [expected])
    # Weights place the edges.
    weight, found = means([3.0, 1.0, 2.0], ([30.0, 10.0, 20.0], [3.0, 1.0, 2.0]), np.array([1.0, 4.0, 1.0]))
    np.testing.assert_allclose(weight, [3, 3])
    np.testing.assert_allclose(found, [[10, (10 + 20 + 30) / 3], [1, 2]])
    # A large value in one bin does not change the others.
    scale = np.repeat(np.arange(1.0, 11.0), 60)
    y = scale.copy()
    y[0] = 1e12
    np.testing.assert_allclose(
        means(scale, [y**2], n_bins=10)[1][0][1:], np.arange(2.0, 11.0) ** 2, rtol=1e-12
    )


@pytest.mark.parametrize("unit", [1.0, 0.1, 0.01, 1 / 3, 7.0, 1e-3, 1e200])
@pytest.mark.parametrize("n_bins", [2, 5, 10, 20])
def test_a_row_on_an_edge_is_in_the_bin_above_it_in_all_units(unit, n_bins):
    key = np.concatenate([np.arange(n_bins + 1.0) + 1, np.arange(n_bins) + 1.5])
    expected = np.minimum(key.astype(int), n_bins) - 1
    np.testing.assert_array_equal(make_bins(unit * key, n_bins, "uniform", None).row_bin, expected)
    np.testing.assert_array_equal(make_bins(unit * (key - 5), n_bins, "uniform", None).row_bin, expected)
