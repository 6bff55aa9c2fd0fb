"""Weights of the least CRPS, their pull towards equal ones, the pools, and minima over the simplex."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from skuq.distributions import Empirical, Mixture, Normal, NormalMixture, Quantiles, StudentT
from skuq.regressors._mixture_pool import LinearPool, QuantilePool, minimise_convex, minimise_quadratic

N = 300
RNG = np.random.default_rng(0)
SIGNAL = RNG.normal(size=N)
Y = SIGNAL + RNG.normal(size=N)
MEMBERS = [
    Normal(SIGNAL + 0.5 * RNG.normal(size=N), 1.1),
    StudentT(SIGNAL + 0.8 * RNG.normal(size=N), 1.2, 5.0),
    Quantiles([0.1, 0.5, 0.9], SIGNAL[:, np.newaxis] + RNG.normal(size=(N, 1)) + [-1.5, 0.0, 1.5]),
]
EVERY, ONCE = np.ones(N, dtype=bool), np.ones(N)
POOLS = pytest.mark.parametrize("kind", [LinearPool, QuantilePool])


def least(pool, rows=EVERY):
    """Weights without the pull."""
    return pool._least(rows / rows.sum())


@POOLS
def test_scores_are_those_of_the_pool_itself(kind):
    pool = kind.from_members(MEMBERS, Y, ONCE)
    weights = np.array([0.5, 0.2, 0.3])
    scores = pool.scores(weights, EVERY)
    np.testing.assert_allclose(scores, pool.forecast(weights, EVERY).crps(Y), rtol=1e-4)
    np.testing.assert_allclose(pool.scores(weights, Y > 0), scores[Y > 0])


@POOLS
def test_no_other_weights_have_less_crps(kind):
    pool = kind.from_members(MEMBERS, Y, ONCE)
    best = least(pool)
    value = pool.scores(best, EVERY).mean()
    for other in np.random.default_rng(1).dirichlet(np.ones(3), size=30):
        assert pool.scores(best + 0.05 * (other - best), EVERY).mean() > value * (1 - 1e-4)


@POOLS
def test_the_pull_is_by_the_standard_error_of_the_gain(kind):
    pool = kind.from_members(MEMBERS, Y, ONCE)
    rows = np.arange(N) < 50
    best = least(pool, rows)
    gain = pool.scores(np.full(3, 1 / 3), rows) - pool.scores(best, rows)
    clipped = gain.clip(-np.sort(np.abs(gain))[48], np.sort(np.abs(gain))[48])
    share = max(0, *(1 - each.var() / 50 / each.mean() ** 2 for each in (gain, clipped)))
    np.testing.assert_allclose(pool.weights(rows), 1 / 3 + share * (best - 1 / 3))


def test_members_of_equal_quality_get_equal_weights_more_often_than_not():
    rng, equal = np.random.default_rng(0), 0
    for _ in range(200):
        y = rng.normal(size=40)
        members = [Normal(rng.normal(size=40), np.sqrt(2)) for _ in range(2)]
        weights = LinearPool.from_members(members, y, np.ones(40)).weights(np.ones(40, dtype=bool))
        equal += weights.tolist() == [0.5, 0.5]
    assert equal > 150


def test_a_useless_member_has_next_to_no_weight_even_on_few_rows():
    members = [*MEMBERS, Normal(np.full(N, 1000.0), 1.0)]
    for n in (10, N):
        weights = LinearPool.from_members(members, Y, ONCE).weights(np.arange(N) < n)
        assert weights[-1] < 1e-4


@pytest.mark.parametrize("n", [30, 49, 100, N])
def test_one_absurd_forecast_does_not_leave_the_weights_equal(n):
    members = [MEMBERS[0], Normal(np.where(np.arange(N) == 7, 1e6, SIGNAL + 2), 1.0)]
    pool = LinearPool.from_members([member[:n] for member in members], Y[:n], ONCE[:n])
    assert pool.weights(np.arange(n) >= 0)[1] < 0.1


def test_fractions_of_rows_count_as_what_they_sum_to():
    pool = LinearPool.from_members(MEMBERS, Y, ONCE)
    for n in (50, 100, 150, 200):
        rows = np.arange(n)
        five = np.tile(rows, 5)
        parts = LinearPool.from_members([member[five] for member in MEMBERS], Y[five], np.full(5 * n, 1 / 5))
        np.testing.assert_allclose(parts.weights(five >= 0), pool.weights(np.arange(N) < n), atol=1e-9)


@POOLS
def test_sample_weights_count_rows(kind):
    counts = np.random.default_rng(2).integers(0, 3, size=N)
    rows = np.repeat(np.arange(N), counts)
    weighted = kind.from_members(MEMBERS, Y, counts.astype(float)).weights(EVERY)
    repeated = kind.from_members([member[rows] for member in MEMBERS], Y[rows], np.ones(len(rows))).weights(
        EVERY[rows]
    )
    np.testing.assert_allclose(weighted, repeated, atol=1e-3 if kind is QuantilePool else 1e-10)


@POOLS
def test_units_and_the_order_of_members_do_not_matter(kind):
    weights = kind.from_members(MEMBERS, Y, ONCE).weights(EVERY)
    other = kind.from_members(
        [member._affine(*np.broadcast_arrays([5.0] * N, 1e6)) for member in MEMBERS], 5 + 1e6 * Y, ONCE
    )
    np.testing.assert_allclose(other.weights(EVERY), weights, atol=1e-3 if kind is QuantilePool else 1e-9)
    turned = kind.from_members(MEMBERS[::-1], Y, ONCE).weights(EVERY)
    np.testing.assert_allclose(turned[::-1], weights, atol=5e-3 if kind is QuantilePool else 1e-10)


@POOLS
def test_tiny_targets_have_weights(kind):
    members = [Normal(np.full(N, loc), 1e-90) for loc in (0.0, 1e-90)]
    assert kind.from_members(members, np.full(N, 1e-91), ONCE).weights(EVERY).sum() == pytest.approx(1)


@POOLS
def test_without_rows_weights_are_equal(kind):
    np.testing.assert_allclose(kind.from_members(MEMBERS, Y, ONCE).weights(~EVERY), 1 / 3)
    assert kind.from_members(MEMBERS[:1], Y, ONCE).weights(EVERY).tolist() == [1.0]


def test_a_linear_pool_is_a_mixture_and_leaves_out_weights_of_zero():
    pool = LinearPool.from_members(MEMBERS, Y, ONCE)
    pooled = pool.forecast(np.array([0.5, 0.0, 0.5]), EVERY)
    assert len(pooled.components) == 2
    np.testing.assert_allclose(pooled.cdf(Y), (MEMBERS[0].cdf(Y) + MEMBERS[2].cdf(Y)) / 2)
    assert isinstance(pool.forecast(np.array([0.0, 1.0, 0.0]), EVERY), StudentT)


def test_quantiles_are_averaged():
    weights = np.array([0.5, 0.2, 0.3])
    levels = np.array([0.05, 0.25, 0.5, 0.95])
    averaged = sum(w * member.quantile(levels) for w, member in zip(weights, MEMBERS, strict=True))
    np.testing.assert_allclose(QuantilePool.combine(MEMBERS, weights).quantile(levels), averaged)
    normal = QuantilePool.combine([Normal(Y, 1.0), Normal(0.0 * Y, 3.0)], np.array([0.25, 0.75]))
    assert isinstance(normal, Normal)
    np.testing.assert_allclose(normal.quantile(levels), Normal(0.25 * Y, 2.5).quantile(levels))
    assert QuantilePool.combine(MEMBERS[1:2], np.array([1.0])) is MEMBERS[1]


@pytest.mark.parametrize(
    "members",
    [
        [NormalMixture(np.column_stack([Y, -Y]), 1.0), Normal(Y, 1.0)],
        [Empirical(RNG.normal(size=(N, 5))), Empirical(RNG.normal(size=(N, 4)))],
        [Mixture([MEMBERS[0], MEMBERS[1]]), MEMBERS[2]],
    ],
)
@POOLS
def test_members_may_be_of_any_family(kind, members):
    members, few = [member[:60] for member in members], np.ones(60, dtype=bool)
    pool = kind.from_members(members, Y[:60], ONCE[:60])
    assert pool.forecast(pool.weights(few), few).interval().shape == (60, 2)


def pool_programme(rng, m, n):
    """Linear and quadratic coefficients of the CRPS of a pool of m point forecasts on n rows."""
    points, y = rng.normal(size=(n, m)) * rng.uniform(0.1, 1.0, m), rng.normal(size=n)
    linear = np.abs(points - y[:, np.newaxis]).mean(axis=0)
    return linear, -np.abs(points[:, :, np.newaxis] - points[:, np.newaxis]).mean(axis=0)


def value(weights, linear, quadratic):
    return linear @ weights + weights @ quadratic @ weights / 2


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e9])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 9, 60])
def test_a_quadratic_reaches_the_optimum_beside_scipy(m, unit):
    rng = np.random.default_rng(m)
    for n in (4, 20, 300) if m < 60 else (100,):
        linear, quadratic = pool_programme(rng, m, n)
        weights = minimise_quadratic(unit * linear, unit * quadratic)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1, abs=1e-14)
        gradient = linear + quadratic @ weights
        assert gradient.min() >= weights @ gradient - 1e-12  # no member's weight should grow
        if m == 60:
            continue
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
