"""Expected losses and optimal actions: against draws, closed forms, and the mathematics of scores."""

import numpy as np
import pytest
from scipy import stats

from skuq.distributions import Normal, StudentT, Transformed
from skuq.evaluation import expected_loss, optimal_action
from skuq.metrics import interval_score_loss, pinball_loss
from tests.distributions.families import ALL, LOC, SCALE, N
from tests.distributions.test_mean_distance import FAMILIES, every_family

ROW = 4
NORMAL = Normal(LOC, SCALE)


def pinball(action, y, level=0.8):
    return (y - action) * (level - (y < action))


def bounded(action, y):
    return np.tanh((y - action) ** 2)


# -------------------------------------------------------------------------------------- against draws


def draws_of(dist, n):
    """Return n draws of a one-row distribution, without a search of quantiles where possible."""
    if isinstance(dist, Transformed):
        return dist.func(draws_of(dist.base, n))
    rng = np.random.default_rng(0)
    weights, leaves = zip(*dist._finite_part()._leaves(), strict=True)
    counts = rng.multinomial(n, np.ravel(weights) / np.sum(weights))
    parts = [
        leaf[np.zeros(k, dtype=int)].ppf(rng.random(k)) for leaf, k in zip(leaves, counts, strict=True) if k
    ]
    return rng.permutation(np.concatenate(parts))


def check(losses, expected):
    error = 4 * losses.std() / np.sqrt(losses.size) + 1e-12 * (1 + abs(expected))
    assert abs(losses.mean() - expected) < error


@pytest.mark.parametrize("n", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@every_family
def test_the_loss_is_the_mean_of_many_draws(dist, n):
    row = dist[[ROW]]
    draws, a, threshold = draws_of(row, n), row.mean() + 0.3, float(row.ppf(0.7)[0])
    check(np.abs(draws - a), expected_loss(row, action=a)[0])
    check((draws - a) ** 2, expected_loss(row, "squared", action=a)[0])
    check(pinball(a, draws), expected_loss(row, "pinball", action=a, level=0.8)[0])
    low, high = row.ppf(0.1)[0] - 0.1, row.ppf(0.9)[0] + 0.1
    scores = high - low + 2 / 0.4 * (np.maximum(low - draws, 0) + np.maximum(draws - high, 0))
    check(scores, expected_loss(row, "interval", action=[[low, high]], coverage=0.6)[0])
    check(np.abs(draws - draws[::-1])[: n // 2] / 2, expected_loss(row, "crps")[0])
    check(bounded(a, draws), expected_loss(row, bounded, action=a)[0])

    def costs(action, y):
        return np.where(y > threshold, 2.0, 0.0) + np.maximum(action - y, 0.0)

    check(costs(a, draws), expected_loss(row, costs, action=a, breaks=[threshold])[0])


# -------------------------------------------------------------------------------------- exact relations


def test_the_newsvendor_is_exact():
    under, over = 3.0, 1.0
    level, sales = under / (under + over), Normal(100.0, 20.0)
    z = stats.norm.ppf(level)
    action = optimal_action(sales, "pinball", level=level)
    np.testing.assert_allclose(action, 100 + 20 * z, rtol=1e-12)
    cost = (under + over) * expected_loss(sales, "pinball", level=level)
    np.testing.assert_allclose(cost, (under + over) * 20 * stats.norm.pdf(z), rtol=1e-12)
    at_mean = (under + over) * expected_loss(sales, "pinball", action=100.0, level=level)
    np.testing.assert_allclose([*action, *cost, *at_mean], [113.489795, 25.422126, 31.915382], atol=1e-6)


def test_the_normal_crps_and_absolute_error_have_closed_forms():
    np.testing.assert_allclose(expected_loss(NORMAL, "crps"), SCALE / np.sqrt(np.pi), rtol=1e-12)
    np.testing.assert_allclose(expected_loss(NORMAL), SCALE * np.sqrt(2 / np.pi), rtol=1e-12)
    np.testing.assert_allclose(expected_loss(NORMAL, "squared"), SCALE**2, rtol=1e-12)


every_known_family = pytest.mark.parametrize("dist", ALL.values(), ids=ALL.keys())


@pytest.mark.parametrize("loss", ["absolute", "squared", "pinball"])
@every_known_family
def test_a_function_gives_the_exact_loss(dist, loss):
    functions = {
        "absolute": lambda a, y: np.abs(y - a),
        "squared": lambda a, y: (y - a) ** 2,
        "pinball": pinball,
    }
    options = {"level": 0.8} if loss == "pinball" else {}
    action = dist.mean() + np.linspace(-1, 1, N)
    exact = expected_loss(dist, loss, action=action, **options)
    numerical = expected_loss(dist, functions[loss], action=action)
    np.testing.assert_allclose(numerical, exact, rtol=2e-7, atol=1e-8)


@every_known_family
def test_the_search_finds_the_exact_action(dist):
    dist = dist[:3]  # The search costs the same for each row.
    tolerance = 1e-3 * np.maximum(dist.std(), 1e-3)
    mean = optimal_action(dist, lambda a, y: (a - y) ** 2)
    assert (np.abs(mean - dist.mean()) <= tolerance).all()
    found = optimal_action(dist, pinball)
    exact = optimal_action(dist, "pinball", level=0.8)
    worse = expected_loss(dist, "pinball", action=found, level=0.8) - expected_loss(
        dist, "pinball", action=exact, level=0.8
    )
    assert (worse <= 1e-9).all()
    if dist.has_density:
        assert (np.abs(found - exact) <= tolerance).all()


@pytest.mark.parametrize("name", ["Normal", "Empirical", "Normal with point masses"])
def test_the_search_continues_beyond_the_quantiles(name):
    dist = ALL[name]
    found = optimal_action(dist, lambda a, y: (a - 2 * y - 50) ** 2)
    assert (np.abs(found - 2 * dist.mean() - 50) <= 1e-3 * np.maximum(dist.std(), 1e-3)).all()


@every_family
def test_no_action_is_better_than_the_optimal_one(dist):
    for loss, options in (("absolute", {}), ("squared", {}), ("pinball", {"level": 0.7})):
        least = expected_loss(dist, loss, **options)
        for shift in (-0.1, 0.1):
            action = optimal_action(dist, loss, **options) + shift
            assert (expected_loss(dist, loss, action=action, **options) >= least - 1e-9).all()


def test_the_estimate_is_the_mean_loss_of_calibrated_forecasts():
    rng = np.random.default_rng(3)
    loc, scale = rng.normal(size=20_000), np.exp(0.5 * rng.normal(size=20_000))
    y, dist = rng.normal(loc, scale), Normal(loc, scale)
    np.testing.assert_allclose(
        expected_loss(dist, "pinball", level=0.9).mean(), pinball_loss(y, dist, levels=[0.9]), rtol=0.03
    )
    np.testing.assert_allclose(
        expected_loss(dist, "interval", coverage=0.8).mean(),
        interval_score_loss(y, dist, coverage=0.8),
        rtol=0.03,
    )
    np.testing.assert_allclose(expected_loss(dist, "crps").mean(), dist.crps(y).mean(), rtol=0.03)


# ---------------------------------------------------------------------------------------- arguments


def test_levels_and_costs_may_differ_between_rows():
    level, price = np.linspace(0.1, 0.9, N), np.arange(1.0, N + 1)
    action = optimal_action(NORMAL, "pinball", level=level)
    np.testing.assert_allclose(action, NORMAL.ppf(level))
    found = optimal_action(NORMAL, lambda a, y: price * np.maximum(y - a, 0) + np.maximum(a - y, 0))
    np.testing.assert_allclose(found, NORMAL.ppf(price / (price + 1)), atol=1e-3 * SCALE.min())
    one_by_one = [expected_loss(NORMAL[i], "pinball", level=level[i])[0] for i in range(N)]
    np.testing.assert_allclose(expected_loss(NORMAL, "pinball", level=level), one_by_one, rtol=1e-12)


@pytest.mark.parametrize("loss", ["pinball", pinball])
def test_possible_actions_are_compared(loss):
    actions, options = np.arange(-3.0, 4.0), {"level": 0.8} if loss == "pinball" else {}
    best = optimal_action(NORMAL, loss, actions=actions, **options)
    costs = [expected_loss(NORMAL, "pinball", action=a, level=0.8) for a in actions]
    np.testing.assert_array_equal(best, actions[np.argmin(costs, axis=0)])


def test_a_jump_needs_a_break():
    def late(action, y):
        return (y > 1.0).astype(float)

    exact = stats.norm.sf(1.0)
    np.testing.assert_allclose(expected_loss(Normal(0, 1), late, action=0.0, breaks=[1.0]), exact, rtol=1e-12)
    np.testing.assert_allclose(expected_loss(Normal(0, 1), late, action=0.0), exact, atol=0.03)
    several = expected_loss(
        Normal(0, 1), lambda a, y: np.floor(np.clip(y, -2, 2)), action=0.5, breaks=[-1, 0, 1, 2, -2]
    )
    np.testing.assert_allclose(several, -0.5 + stats.norm.sf(2.0), rtol=1e-10)


def test_a_tuple_and_a_frozen_distribution_are_forecasts():
    expected = expected_loss(NORMAL, "crps")
    np.testing.assert_allclose(expected_loss((LOC, SCALE), "crps"), expected)
    np.testing.assert_allclose(expected_loss(stats.norm(LOC, SCALE), "crps"), expected, rtol=1e-6)


def test_infinite_losses():
    wild = StudentT(0.0, 1.0, 1.5)
    assert expected_loss(wild, "squared", action=0.0)[0] == np.inf
    assert np.isfinite(expected_loss(wild)).all()
    assert expected_loss(StudentT(0.0, 1.0, 1.0))[0] == np.inf
    with pytest.raises(ValueError, match="has a mean only for `df` above 1"):
        expected_loss(StudentT(0.0, 1.0, 1.0), "pinball", level=0.3)
    assert expected_loss(NORMAL[0], action=-np.inf)[0] == np.inf
    assert expected_loss(NORMAL[0], "interval", action=[[-np.inf, 0.0]])[0] == np.inf


def test_conformal_intervals_that_need_more_rows_cost_infinitely_much():
    dist = FAMILIES["ConformalPredictive"]
    with pytest.warns(UserWarning, match="level"):
        assert (expected_loss(dist, "pinball", level=0.999) == np.inf).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "huber"}, "`loss` must be one of 'absolute', .* got 'huber'"),
        ({"loss": "pinball"}, r"`level` must be given .* pass level=u / \(u \+ o\)"),
        ({"loss": "pinball", "level": 75}, "`level` must lie strictly between 0 and 1, got 75"),
        ({"loss": "pinball", "level": [0.5, 0.6]}, "`level` must have 7 rows"),
        ({"loss": "squared", "level": 0.3}, "`level` must be None unless the loss is 'pinball'"),
        ({"coverage": 0.8}, "`coverage` must be None unless the loss is 'interval'"),
        ({"breaks": [1.0]}, "`breaks` must be None unless the loss is a function"),
        ({"loss": bounded, "breaks": [np.nan]}, "`breaks` must be finite"),
        ({"loss": bounded, "breaks": [[1.0]]}, "`breaks` must have shape"),
        ({"loss": lambda a, y: 1.0}, r"`loss` must return an array of shape \(7,\)"),
        ({"loss": lambda a, y: np.nan * y}, "`loss` must not return NaN, got NaN"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        expected_loss(NORMAL, **options)
    with pytest.raises(ValueError, match=message):
        optimal_action(NORMAL, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action": [1.0, 2.0]}, "`action` must have 7 rows"),
        ({"action": np.nan}, "`action` must not contain NaN"),
        ({"loss": "crps", "action": 1.0}, "`action` must be None for the loss 'crps'"),
        ({"loss": "interval", "action": np.zeros((N, 3))}, r"`action` must have shape \(n, 2\)"),
        ({"loss": "interval", "action": np.ones((N, 2)) * [1, 0]}, "`action` must have lower bounds"),
        ({"loss": bounded, "action": np.inf}, "`action` must be finite"),
    ],
)
def test_bad_actions_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        expected_loss(NORMAL, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "crps"}, "`loss` must depend on an action"),
        ({"loss": "interval", "actions": [1.0]}, "`actions` must be None for the loss 'interval'"),
        ({"actions": []}, "`actions` must have shape"),
        ({"actions": [np.inf]}, "`actions` must be finite"),
        (
            {"loss": lambda a, y: -a},
            "still decreases at the action .* Pass the possible actions as `actions`",
        ),
    ],
)
def test_bad_searches_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        optimal_action(NORMAL, **options)


def test_bounds_are_no_forecast():
    with pytest.raises(TypeError, match="`dist` must be a Distribution"):
        expected_loss(np.zeros((3, 2)))
