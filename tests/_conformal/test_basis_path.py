"""Cutoffs over a basis, compared with one linear program per row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

from skuq._conformal.basis_path import Calibration, cutoffs, independent_rows, separated, start


def program(phi, scores, weight, new, tau):
    """Return the cutoff of one row by a linear program: the dual variable of the new row is nearly tau."""
    result = linprog(
        -scores,
        A_eq=phi.T,
        b_eq=-tau * (1 - 1e-6) * new,
        bounds=np.c_[(tau - 1) * weight, tau * weight],
        method="highs-ds",
    )
    return np.inf if result.status == 2 else -new @ result.eqlin.marginals


def by_path(phi, scores, weight, new, tau):
    rows = Calibration(phi, separated(scores), (tau - 1) * weight, tau * weight)
    return cutoffs(rows, start(rows, np.zeros(phi.shape[1])), scores, new, tau)


def problem(seed):
    """Return functions with ties, groups and small integers, tied scores, and weights."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 120)), int(rng.integers(1, 6))
    phi = rng.normal(size=(n, d))
    phi[:, 0] = 1
    if d > 1 and seed % 3 == 0:
        phi[:, 1] = rng.normal(size=n) > 0
    if d > 2 and seed % 3 == 1:
        phi[:, 2] = rng.integers(0, 3, n)
    if seed % 5 == 0:
        phi[n // 2 :] = phi[: n - n // 2]  # duplicate rows
    scores = rng.normal(size=n)
    scores = np.round(scores, 1) if seed % 2 else scores
    weight = rng.integers(1, 4, n).astype(float) if seed % 4 == 0 else np.ones(n)
    return phi, scores, weight, float(rng.choice([0.5, 0.8, 0.9, 0.95])), rng


MORE_BLOCKS = [pytest.param(block, marks=pytest.mark.slow) for block in range(5, 25)]


@pytest.mark.parametrize("block", [*range(5), *MORE_BLOCKS])
def test_cutoffs_equal_one_linear_program_per_row(block):
    """With 40 problems per block. The slow blocks complete 1000 problems."""
    n_finite = n_infinite = 0
    for seed in range(40 * block, 40 * (block + 1)):
        phi, scores, weight, tau, rng = problem(seed)
        if np.linalg.matrix_rank(phi) < phi.shape[1]:
            continue
        new = np.concatenate([phi[rng.integers(0, len(phi), 3)], 2 * rng.normal(size=(2, phi.shape[1]))])
        expected = np.array([program(phi, scores, weight, row, tau) for row in new])
        found = by_path(phi, scores, weight, new, tau)
        assert_array_equal(np.isinf(found), np.isinf(expected))
        assert_allclose(found[np.isfinite(found)], expected[np.isfinite(expected)], rtol=0, atol=1e-9)
        n_finite, n_infinite = n_finite + np.isfinite(found).sum(), n_infinite + np.isinf(found).sum()
    assert n_finite > 50
    assert n_infinite > 5


@pytest.mark.parametrize("tau", [0.05, 0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [9, 19, 20, 101, 999])
def test_a_constant_gives_the_conformal_rank(n, tau):
    scores = np.random.default_rng(n).permutation(n).astype(float) + 1
    rank = np.ceil((n + 1) * tau - 1e-9)
    assert_array_equal(
        by_path(np.ones((n, 1)), scores, np.ones(n), np.ones((2, 1)), tau), rank if rank <= n else np.inf
    )


def test_weights_are_repetitions():
    phi, scores, weight, tau, _ = problem(8)
    times = weight.astype(int)
    repeated = by_path(
        np.repeat(phi, times, axis=0), np.repeat(scores, times), np.ones(times.sum()), phi, tau
    )
    assert_allclose(by_path(phi, scores, weight, phi, tau), repeated, rtol=0, atol=1e-12)


def test_the_order_of_rows_does_not_matter():
    phi, scores, weight, tau, rng = problem(9)
    order = rng.permutation(len(phi))
    shuffled = by_path(phi[order], scores[order], weight[order], phi, tau)
    assert_allclose(by_path(phi, scores, weight, phi, tau), shuffled, rtol=0, atol=1e-12)


def test_many_new_rows_are_divided_into_chunks(monkeypatch):
    phi, scores, weight, tau, rng = problem(2)
    new = rng.normal(size=(200, phi.shape[1]))
    together = by_path(phi, scores, weight, new, tau)
    monkeypatch.setattr("skuq._conformal.basis_path._CHUNK_FLOATS", 1)
    assert_array_equal(by_path(phi, scores, weight, new, tau), together)


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e200])
def test_the_unit_of_scores_does_not_matter(unit):
    phi, scores, weight, tau, _ = problem(2)
    expected = by_path(phi, scores, weight, phi, tau)
    assert_allclose(by_path(phi, unit * scores, weight, phi, tau) / unit, expected, rtol=1e-9)


def test_a_start_without_solution():
    phi = np.c_[np.ones(4), [0.0, 0.0, 1.0, 1.0]]
    rows = Calibration(phi, np.arange(4.0), np.full(4, -0.1), np.full(4, 0.9))
    assert start(rows, np.array([0.0, 5.0])) is None
    assert len(independent_rows(phi)) == 2
