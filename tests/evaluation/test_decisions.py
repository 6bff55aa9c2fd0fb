"""Expected losses, optimal actions and economic value: draws, closed forms, published numbers."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.stats import norm

from skuq.distributions import Empirical, Normal, StudentT, Transformed
from skuq.evaluation import expected_loss, optimal_action, relative_economic_value
from skuq.metrics import interval_score_loss, pinball_loss
from tests.distributions import families
from tests.distributions.families import ALL, FAMILIES, LOC, SCALE, N, law

DEFAULT = {
    *("Normal", "Transformed", "SharedEmpirical, weighted", "discrete scipy", "Hurdle inside", "Mixture"),
    *("Supported Normal", "Quantiles with atoms", "ConformalPredictive", "Recalibrated Normal"),
}
SEARCHED = {"StudentT", "Transformed", "SharedEmpirical, weighted", "discrete scipy", "Hurdle inside"}
REPRESENTATIVES = [name for name in FAMILIES if name in families.DEFAULT]
every_family = law(REPRESENTATIVES, DEFAULT)
every_known_family = law([name for name in REPRESENTATIVES if name in ALL], DEFAULT)

ROW = 4
NORMAL = Normal(LOC, SCALE)


def pinball(action, y, levels=0.8):
    return (y - action) * (levels - (y < action))


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


def check_draws(dist, n):
    row = dist[[ROW]]
    draws, a, threshold = draws_of(row, n), row.mean() + 0.3, float(row.ppf(0.7)[0])
    check(np.abs(draws - a), expected_loss(row, action=a)[0])
    check((draws - a) ** 2, expected_loss(row, "squared", action=a)[0])
    check(pinball(a, draws), expected_loss(row, "pinball", action=a, levels=0.8)[0])
    low, high = row.ppf(0.1)[0] - 0.1, row.ppf(0.9)[0] + 0.1
    scores = high - low + 2 / 0.4 * (np.maximum(low - draws, 0) + np.maximum(draws - high, 0))
    check(scores, expected_loss(row, "interval", action=[[low, high]], coverage=0.6)[0])
    check(np.abs(draws - draws[::-1])[: n // 2] / 2, expected_loss(row, "crps")[0])
    check(bounded(a, draws), expected_loss(row, bounded, action=a)[0])

    def costs(action, y):
        return np.where(y > threshold, 2.0, 0.0) + np.maximum(action - y, 0.0)

    check(costs(a, draws), expected_loss(row, costs, action=a, breaks=[threshold])[0])


@every_family
def test_the_loss_is_the_mean_of_many_draws(dist):
    check_draws(dist, 20_000)


@pytest.mark.slow
def test_the_loss_is_the_mean_of_a_million_draws(subtests):
    for name, dist in FAMILIES.items():
        with subtests.test(msg=name):
            check_draws(dist, 1_000_000)


# -------------------------------------------------------------------------------------- exact relations


def test_the_newsvendor_is_exact():
    under, over = 3.0, 1.0
    level, sales = under / (under + over), Normal(100.0, 20.0)
    z = stats.norm.ppf(level)
    action = optimal_action(sales, "pinball", levels=level)
    assert_allclose(action, 100 + 20 * z, rtol=1e-12)
    cost = (under + over) * expected_loss(sales, "pinball", levels=level)
    assert_allclose(cost, (under + over) * 20 * stats.norm.pdf(z), rtol=1e-12)
    at_mean = (under + over) * expected_loss(sales, "pinball", action=100.0, levels=level)
    assert_allclose([*action, *cost, *at_mean], [113.489795, 25.422126, 31.915382], atol=1e-6)


def test_the_normal_crps_and_absolute_error_have_closed_forms():
    assert_allclose(expected_loss(NORMAL, "crps"), SCALE / np.sqrt(np.pi), rtol=1e-12)
    assert_allclose(expected_loss(NORMAL), SCALE * np.sqrt(2 / np.pi), rtol=1e-12)
    assert_allclose(expected_loss(NORMAL, "squared"), SCALE**2, rtol=1e-12)


@every_known_family
def test_a_function_gives_the_exact_loss(dist):
    action = dist.mean() + np.linspace(-1, 1, N)
    for name, function, options in (
        ("absolute", lambda a, y: np.abs(y - a), {}),
        ("squared", lambda a, y: (y - a) ** 2, {}),
        ("pinball", pinball, {"levels": 0.8}),
    ):
        exact = expected_loss(dist, name, action=action, **options)
        numerical = expected_loss(dist, function, action=action)
        assert_allclose(numerical, exact, rtol=2e-7, atol=1e-8)


@law([name for name in REPRESENTATIVES if name in ALL], SEARCHED)
def test_the_search_finds_the_exact_action(dist):
    dist = dist[4]  # The search costs the same for each row. Row 3 of a point mass is searched below.
    tolerance = 1e-3 * np.maximum(dist.std(), 1e-3)
    mean = optimal_action(dist, lambda a, y: (a - y) ** 2)
    assert (np.abs(mean - dist.mean()) <= tolerance).all()
    found = optimal_action(dist, pinball)
    exact = optimal_action(dist, "pinball", levels=0.8)
    worse = expected_loss(dist, "pinball", action=found, levels=0.8) - expected_loss(
        dist, "pinball", action=exact, levels=0.8
    )
    assert (worse <= 1e-9).all()
    if dist.has_density:
        assert (np.abs(found - exact) <= tolerance).all()


@pytest.mark.parametrize("name", ["Normal", "Empirical", "Normal with point masses"])
def test_the_search_continues_beyond_the_quantiles(name):
    dist = ALL[name][3]
    found = optimal_action(dist, lambda a, y: (a - 2 * y - 50) ** 2)
    assert (np.abs(found - 2 * dist.mean() - 50) <= 1e-3 * np.maximum(dist.std(), 1e-3)).all()


@every_family
def test_no_action_is_better_than_the_optimal_one(dist):
    for loss, options in (("absolute", {}), ("squared", {}), ("pinball", {"levels": 0.7})):
        least = expected_loss(dist, loss, **options)
        for shift in (-0.1, 0.1):
            action = optimal_action(dist, loss, **options) + shift
            assert (expected_loss(dist, loss, action=action, **options) >= least - 1e-9).all()


def test_the_estimate_is_the_mean_loss_of_calibrated_forecasts():
    rng = np.random.default_rng(3)
    loc, scale = rng.normal(size=20_000), np.exp(0.5 * rng.normal(size=20_000))
    y, dist = rng.normal(loc, scale), Normal(loc, scale)
    assert_allclose(
        expected_loss(dist, "pinball", levels=0.9).mean(), pinball_loss(y, dist, levels=[0.9]), rtol=0.03
    )
    assert_allclose(
        expected_loss(dist, "interval", coverage=0.8).mean(),
        interval_score_loss(y, dist, coverage=0.8),
        rtol=0.03,
    )
    assert_allclose(expected_loss(dist, "crps").mean(), dist.crps(y).mean(), rtol=0.03)


# ---------------------------------------------------------------------------------------- arguments


def test_levels_and_costs_may_differ_between_rows():
    level, price = np.linspace(0.1, 0.9, N), np.arange(1.0, N + 1)
    action = optimal_action(NORMAL, "pinball", levels=level)
    assert_allclose(action, NORMAL.ppf(level))
    found = optimal_action(NORMAL, lambda a, y: price * np.maximum(y - a, 0) + np.maximum(a - y, 0))
    assert_allclose(found, NORMAL.ppf(price / (price + 1)), atol=1e-3 * SCALE.min())
    one_by_one = [expected_loss(NORMAL[i], "pinball", levels=level[i])[0] for i in range(N)]
    assert_allclose(expected_loss(NORMAL, "pinball", levels=level), one_by_one, rtol=1e-12)


@pytest.mark.parametrize("loss", ["pinball", pinball])
def test_possible_actions_are_compared(loss):
    actions, options = np.arange(-3.0, 4.0), {"levels": 0.8} if loss == "pinball" else {}
    best = optimal_action(NORMAL, loss, actions=actions, **options)
    costs = [expected_loss(NORMAL, "pinball", action=a, levels=0.8) for a in actions]
    assert_array_equal(best, actions[np.argmin(costs, axis=0)])


def test_a_jump_needs_a_break():
    def late(action, y):
        return (y > 1.0).astype(float)

    exact = stats.norm.sf(1.0)
    assert_allclose(expected_loss(Normal(0, 1), late, action=0.0, breaks=[1.0]), exact, rtol=1e-12)
    assert_allclose(expected_loss(Normal(0, 1), late, action=0.0), exact, atol=0.03)
    several = expected_loss(
        Normal(0, 1), lambda a, y: np.floor(np.clip(y, -2, 2)), action=0.5, breaks=[-1, 0, 1, 2, -2]
    )
    assert_allclose(several, -0.5 + stats.norm.sf(2.0), rtol=1e-10)


def test_a_tuple_and_a_frozen_distribution_are_forecasts():
    expected = expected_loss(NORMAL, "crps")
    assert_allclose(expected_loss(Normal(LOC, SCALE), "crps"), expected)
    assert_allclose(expected_loss(stats.norm(LOC, SCALE), "crps"), expected, rtol=1e-6)


def test_infinite_losses():
    wild = StudentT(0.0, 1.0, 1.5)
    assert expected_loss(wild, "squared", action=0.0)[0] == np.inf
    assert np.isfinite(expected_loss(wild)).all()
    assert expected_loss(StudentT(0.0, 1.0, 1.0))[0] == np.inf
    with pytest.raises(ValueError, match="has a mean only for `df` above 1"):
        expected_loss(StudentT(0.0, 1.0, 1.0), "pinball", levels=0.3)
    assert expected_loss(NORMAL[0], action=-np.inf)[0] == np.inf
    assert expected_loss(NORMAL[0], "interval", action=[[-np.inf, 0.0]])[0] == np.inf


def test_conformal_intervals_that_need_more_rows_cost_infinitely_much():
    dist = FAMILIES["ConformalPredictive"]
    with pytest.warns(UserWarning, match="level"):
        assert (expected_loss(dist, "pinball", levels=0.999) == np.inf).all()


# ------------------------------------------------------------ relative economic value


RATIOS = [0.02, 0.05, 0.1, 0.2, 0.5]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    return x, np.exp(x / 2), x + np.exp(x / 2) * rng.normal(size=x.size)


def economic_values(*args, **kwargs):
    return relative_economic_value(*args, **kwargs)["value"].to_numpy()


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1.0, [0.460, 0.560, 0.626, 0.387, 0.003]),
        (0.0, [-4.148, -1.004, 0.044, 0.081, 0.003]),
        (0.5, [-0.223, 0.242, 0.486, 0.301, 0.003]),
    ],
)
def test_known_numbers(data, factor, expected):
    loc, scale, y = data
    found = economic_values(y, Normal(loc, factor * scale), threshold=2.0, ratios=RATIOS)
    assert_allclose(found, expected, atol=5e-4)


def test_the_columns_follow_the_definition():
    y, probability = np.array([0.0, 1.0, 1.0, 0.0, 0.0]), np.array([0.1, 0.9, 0.3, 0.4, 0.2])
    dist = Normal(norm.ppf(probability) + 0.5, 1.0)  # P(Y > 0.5) is the probability
    table = relative_economic_value(y, dist, threshold=0.5, ratios=[0.35])
    acting, missed, frequency = 2 / 5, 1 / 5, 2 / 5
    expense = 0.35 * acting + missed
    expected = [(0.35 - expense) / (0.35 - 0.35 * frequency), expense, 0.35, 0.35 * frequency, acting]
    assert_allclose(table.loc[0.35], expected)
    assert list(table) == ["value", "expense", "frequency_expense", "perfect_expense", "acting"]
    assert table.index.name == "cost_loss_ratio"


def test_limits_of_the_scale(data):
    y = data[2]
    assert_allclose(economic_values(y, Normal(y, 0.0), threshold=2.0), 1.0)
    frequency = np.mean(y > 2.0)
    climate = Normal(norm.ppf(frequency) + 2.0, 1.0)[np.zeros(len(y), dtype=int)]
    assert_allclose(economic_values(y, climate, threshold=2.0), 0.0, atol=1e-12)


def test_the_right_forecast_has_the_smallest_expense(data):
    loc, scale, y = data
    right = relative_economic_value(y, Normal(loc, scale), threshold=2.0)
    for other in ((loc, 0.5 * scale), (loc, 2 * scale), (loc + 0.5, scale), (loc, 0.0)):
        wrong = relative_economic_value(y, Normal(*other), threshold=2.0)
        assert (right["expense"] <= wrong["expense"] + 0.002).all()


def test_an_event_below_is_the_mirror_image(data):
    loc, scale, y = data
    above = relative_economic_value(y, Normal(loc, scale), threshold=2.0)
    below = relative_economic_value(-y, Normal(-loc, scale), threshold=-2.0, above=False)
    pd.testing.assert_frame_equal(above, below)


def test_weights_are_repetitions(data):
    loc, scale, y = (each[:300] for each in data)
    weight = np.arange(300) % 3
    repeated = np.repeat(np.arange(300), weight)
    weighted = relative_economic_value(y, Normal(loc, scale), threshold=1.0, sample_weight=weight)
    plain = relative_economic_value(y[repeated], Normal(loc[repeated], scale[repeated]), threshold=1.0)
    pd.testing.assert_frame_equal(weighted, plain)


def test_a_probability_equal_to_the_ratio_acts():
    dist = Empirical(np.tile(np.repeat([0.0, 1.0], [7, 3]), (2, 1)))
    table = relative_economic_value([0.0, 1.0], dist, threshold=0.5, ratios=np.linspace(0.1, 0.5, 5))
    assert_array_equal(table["acting"], [1, 1, 1, 0, 0])


def test_the_default_ratios():
    table = relative_economic_value([0.0, 1.0], Normal([0.0, 1.0], 1.0), threshold=0.5)
    assert_allclose(table.index, np.linspace(0.01, 0.99, 99))
