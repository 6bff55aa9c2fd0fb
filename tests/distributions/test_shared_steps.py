"""What is particular to step distributions with a shared table of cdfs."""

import pickle

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose, assert_array_equal

from skuq.distributions import Empirical, _step_table, concat
from skuq.distributions._step_table import SharedSteps, StepTable

THRESHOLDS = np.array([-1.0, 0.2, 1.5, 4.0])
CDFS = np.array([[0.3, 0.9, 1, 1], [0.3, 0.5, 0.9, 1], [0, 0.15, 0.35, 1]])
POSITION = np.array([0.0, 2.0, 0.25, 1.5, 1.0])
TABLE = StepTable.from_cdfs(THRESHOLDS, CDFS)
DENSE = np.stack([CDFS[0], CDFS[2], 0.75 * CDFS[0] + 0.25 * CDFS[1], (CDFS[1] + CDFS[2]) / 2, CDFS[1]])
Y = np.array([-2.0, 0.0, 0.2, 3.0, 9.0])


def as_empirical():
    return Empirical(np.tile(THRESHOLDS, (5, 1)), np.diff(DENSE, axis=1, prepend=0.0))


@pytest.mark.parametrize("block", [1, 9, 1 << 20])
def test_equals_the_dense_distribution(block, monkeypatch):
    monkeypatch.setattr(_step_table, "_BLOCK", block)
    ours, dense = SharedSteps(TABLE, POSITION), as_empirical()
    assert_allclose(ours.mean(), dense.mean(), rtol=1e-14)
    assert_allclose(ours.std(), dense.std(), rtol=1e-14)
    assert_allclose(ours.crps(Y), dense.crps(Y), rtol=1e-13)
    assert_allclose(ours._mean_distance(Y), dense._mean_distance(Y), rtol=1e-13)
    weight = Polynomial([0.0, 1.0])
    assert_allclose(ours._weighted_crps(Y, weight), dense._weighted_crps(Y, weight), rtol=1e-13)
    for y in THRESHOLDS:
        assert_allclose(ours.cdf(y), dense.cdf(y), rtol=1e-14)
    for level in (0.0, 0.15, 0.3, 0.31, 0.5, 0.9, 1.0):
        assert_array_equal(ours.ppf(level), dense.ppf(level))


def test_an_outlier_of_the_table_rounds_no_other_row():
    cdfs = np.array([[0.0, 0.3, 0.9, 1.0, 1.0], [0.0, 0.0, 0.2, 1.0, 1.0], [1e-3, 0.5, 0.5, 0.5, 1.0]])
    thresholds = np.array([-1e12, 0.1, 0.2, 0.7, 1e12])
    dist = SharedSteps(StepTable.from_cdfs(thresholds, cdfs), np.array([0.0, 1.0, 0.5, 2.0]))
    mass = np.diff([*cdfs[:2], (cdfs[0] + cdfs[1]) / 2], prepend=0.0)
    for each in (dist[:3], Empirical(np.tile(thresholds, (3, 1)), mass)):
        assert_allclose(each.mean(), [0.22, 0.6, 0.41], rtol=1e-15)
        assert_allclose(each._mean_distance(np.full(3, 0.3)), [0.16, 0.34, 0.25], rtol=1e-14)
        assert_allclose(each.crps(0.3), [0.094, 0.26, 0.1135], rtol=1e-14)
        assert_allclose(each.std(), np.sqrt([0.0276, 0.04, 0.0699]), rtol=1e-14)
    assert_allclose(dist.mean()[3], 0.499e12 + 0.05, rtol=1e-15)


def test_table_has_the_runs_of_equal_values():
    assert_array_equal(TABLE.starts, [0, 2, 3, 4, 5, 6, 7, 8, 9])
    assert_array_equal(TABLE.values, [0.3, 0, 0.9, 0.5, 0.15, 1, 0.9, 0.35, 1])


@pytest.mark.parametrize("cost", [0, 1000])
def test_dense_cdfs_are_searched_or_expanded(cost, monkeypatch):
    monkeypatch.setattr(_step_table, "_SEARCH_COST", cost)
    for steps in (slice(0, 4), slice(1, 3), slice(3, 4)):
        for cdfs in ([0, 1, 2], [1], [0, 2]):
            assert_array_equal(TABLE._dense(steps, np.array(cdfs)), CDFS.T[steps, cdfs])


def test_rows_of_two_tables_are_concatenated():
    ours = SharedSteps(TABLE, POSITION)
    twin = pickle.loads(pickle.dumps(ours))
    assert type(concat([ours, twin])) is SharedSteps
    other = SharedSteps(StepTable.from_cdfs(np.array([0.0, 1.0]), [[0.5, 1.0]]), np.zeros(1))
    assert_allclose(concat([ours, other]).mean(), [*ours.mean(), 0.5])
    with pytest.raises(ValueError, match="read-only"):
        twin.table.values[0] = 0.0
