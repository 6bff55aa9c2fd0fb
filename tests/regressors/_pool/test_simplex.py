"""Minima over the simplex, beside scipy and by their conditions."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from skuq.regressors._pool.simplex import minimise_convex, minimise_quadratic


def pool_programme(rng, m, n):
    """Linear and quadratic coefficients of the CRPS of a pool of m point forecasts on n rows."""
    points, y = rng.normal(size=(n, m)) * rng.uniform(0.1, 1.0, m), rng.normal(size=n)
    linear = np.abs(points - y[:, np.newaxis]).mean(axis=0)
    return linear, -np.abs(points[:, :, np.newaxis] - points[:, np.newaxis]).mean(axis=0)


def value(weights, linear, quadratic):
    return linear @ weights + weights @ quadratic @ weights / 2


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e9])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 9])
def test_a_quadratic_reaches_the_optimum_beside_scipy(m, unit):
    rng = np.random.default_rng(m)
    for n in (4, 20, 300):
        linear, quadratic = pool_programme(rng, m, n)
        weights = minimise_quadratic(unit * linear, unit * quadratic)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1, abs=1e-14)
        gradient = linear + quadratic @ weights
        assert gradient.min() >= weights @ gradient - 1e-12  # no member's weight should grow
        peer = minimize(
            value,
            np.full(m, 1 / m),
            args=(linear, quadratic),
            jac=lambda w, b, Q: b + Q @ w,
            bounds=[(0, 1)] * m,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        assert abs(value(weights, linear, quadratic) - peer.fun) < 1e-8
        np.testing.assert_allclose(weights, peer.x, atol=1e-5)


def test_a_quadratic_is_minimal_over_all_supports():
    rng = np.random.default_rng(0)
    for _ in range(20):
        linear, quadratic = pool_programme(rng, 4, 10)
        best = np.inf
        for size in range(1, 5):
            for support in map(list, itertools.combinations(range(4), size)):
                equations = np.ones((size + 1, size + 1))
                equations[:size, :size], equations[size, size] = quadratic[np.ix_(support, support)], 0
                weights = np.zeros(4)
                weights[support] = np.linalg.solve(equations, np.append(-linear[support], 1))[:size]
                if weights.min() >= 0:
                    best = min(best, value(weights, linear, quadratic))
        assert value(minimise_quadratic(linear, quadratic), linear, quadratic) == pytest.approx(
            best, abs=1e-8
        )


def test_members_that_are_equal_or_combinations_of_others_do_no_harm():
    linear, quadratic = pool_programme(np.random.default_rng(0), 3, 30)
    twice = [0, 1, 2, 1]
    weights = minimise_quadratic(linear[twice], quadratic[np.ix_(twice, twice)])
    alone = minimise_quadratic(linear, quadratic)
    np.testing.assert_allclose([weights[0], weights[1] + weights[3], weights[2]], alone, atol=1e-10)
    assert minimise_quadratic(np.zeros(2), np.zeros((2, 2))).sum() == 1


def test_small_differences_count_beside_a_large_common_score():
    rng, unit = np.random.default_rng(0), 2.0**-50  # of which multiples are added to 1 without rounding
    for _ in range(50):
        points = 10 * rng.normal(size=(4, 3))
        quadratic = -np.square(points[:, np.newaxis] - points).sum(axis=2)
        linear = rng.integers(1000, size=4)
        weights = minimise_quadratic(linear, quadratic)
        np.testing.assert_allclose(minimise_quadratic(1 + unit * linear, unit * quadratic), weights)


def test_many_members_reach_the_optimum():
    linear, quadratic = pool_programme(np.random.default_rng(0), 60, 100)
    gradient = linear + quadratic @ (weights := minimise_quadratic(linear, quadratic))
    assert gradient.min() >= weights @ gradient - 1e-12


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
def test_cutting_planes_reach_the_optimum_of_smooth_and_other_functions(unit):
    for m in (2, 4):
        linear, quadratic = pool_programme(np.random.default_rng(m), m, 50)

        def smooth(w, b=linear, Q=quadratic):
            return unit * value(w, b, Q), unit * (b + Q @ w)

        exact = value(minimise_quadratic(linear, quadratic), linear, quadratic)
        assert value(minimise_convex(smooth, m), linear, quadratic) <= exact * (1 + 1.1e-5)

    def corner(w):
        return unit * np.abs(w - [0.2, 0.3, 0.5]).sum(), unit * np.sign(w - [0.2, 0.3, 0.5])

    np.testing.assert_allclose(minimise_convex(corner, 3), [0.2, 0.3, 0.5], atol=1e-4)
