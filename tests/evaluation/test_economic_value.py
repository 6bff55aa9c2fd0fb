"""Relative economic value: definition, limits, and the numbers of the reference page."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from skuq.distributions import Empirical, Normal
from skuq.evaluation import relative_economic_value

RATIOS = [0.02, 0.05, 0.1, 0.2, 0.5]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    return x, np.exp(x / 2), x + np.exp(x / 2) * rng.normal(size=x.size)


def values(*args, **kwargs):
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
    found = values(y, (loc, factor * scale), threshold=2.0, ratios=RATIOS)
    np.testing.assert_allclose(found, expected, atol=5e-4)


def test_the_columns_follow_the_definition():
    y, probability = np.array([0.0, 1.0, 1.0, 0.0, 0.0]), np.array([0.1, 0.9, 0.3, 0.4, 0.2])
    dist = Normal(norm.ppf(probability) + 0.5, 1.0)  # P(Y > 0.5) is the probability
    table = relative_economic_value(y, dist, threshold=0.5, ratios=[0.35])
    acting, missed, frequency = 2 / 5, 1 / 5, 2 / 5
    expense = 0.35 * acting + missed
    expected = [(0.35 - expense) / (0.35 - 0.35 * frequency), expense, 0.35, 0.35 * frequency, acting]
    np.testing.assert_allclose(table.loc[0.35], expected)
    assert list(table) == ["value", "expense", "frequency_expense", "perfect_expense", "acting"]
    assert table.index.name == "cost_loss_ratio"


def test_limits_of_the_scale(data):
    y = data[2]
    np.testing.assert_allclose(values(y, (y, 0.0), threshold=2.0), 1.0)
    frequency = np.mean(y > 2.0)
    climate = Normal(norm.ppf(frequency) + 2.0, 1.0)[np.zeros(len(y), dtype=int)]
    np.testing.assert_allclose(values(y, climate, threshold=2.0), 0.0, atol=1e-12)


def test_the_right_forecast_has_the_smallest_expense(data):
    loc, scale, y = data
    right = relative_economic_value(y, (loc, scale), threshold=2.0)
    for other in ((loc, 0.5 * scale), (loc, 2 * scale), (loc + 0.5, scale), (loc, 0.0)):
        wrong = relative_economic_value(y, other, threshold=2.0)
        assert (right["expense"] <= wrong["expense"] + 0.002).all()


def test_an_event_below_is_the_mirror_image(data):
    loc, scale, y = data
    above = relative_economic_value(y, (loc, scale), threshold=2.0)
    below = relative_economic_value(-y, (-loc, scale), threshold=-2.0, event="below")
    pd.testing.assert_frame_equal(above, below)


def test_weights_are_repetitions(data):
    loc, scale, y = (each[:300] for each in data)
    weight = np.arange(300) % 3
    repeated = np.repeat(np.arange(300), weight)
    weighted = relative_economic_value(y, (loc, scale), threshold=1.0, sample_weight=weight)
    plain = relative_economic_value(y[repeated], (loc[repeated], scale[repeated]), threshold=1.0)
    pd.testing.assert_frame_equal(weighted, plain)


def test_a_probability_equal_to_the_ratio_acts():
    dist = Empirical(np.tile(np.repeat([0.0, 1.0], [7, 3]), (2, 1)))
    table = relative_economic_value([0.0, 1.0], dist, threshold=0.5, ratios=np.linspace(0.1, 0.5, 5))
    np.testing.assert_array_equal(table["acting"], [1, 1, 1, 0, 0])


def test_the_default_ratios():
    table = relative_economic_value([0.0, 1.0], ([0.0, 1.0], 1.0), threshold=0.5)
    np.testing.assert_allclose(table.index, np.linspace(0.01, 0.99, 99))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 9.0}, "got 0 targets above 9 in 2 rows"),
        ({"threshold": -9.0}, "got 2 targets above -9 in 2 rows"),
        ({"threshold": np.nan}, "`threshold` must be finite"),
        ({"threshold": 0.5, "event": "over"}, "`event` must be one of 'above', 'below', got 'over'"),
        ({"threshold": 0.5, "ratios": [0.5, 1.0]}, "`ratios` must lie strictly between 0 and 1, got 1"),
        ({"threshold": 0.5, "sample_weight": [-1.0, 1.0]}, "`sample_weight` must be non-negative"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        relative_economic_value([0.0, 1.0], ([0.0, 1.0], 1.0), **options)


def test_one_row_has_no_two_outcomes():
    with pytest.raises(ValueError, match="must have rows with and without the event"):
        relative_economic_value([1.0], ([0.0], 1.0), threshold=0.5)
