"""What is left of a time budget, by a clock that the tests turn."""

import math
from types import SimpleNamespace

import pytest

from skuq.model_selection import _auto_space as module
from skuq.model_selection._auto_space import Budget, Cost


@pytest.fixture
def now(monkeypatch):
    clock = SimpleNamespace(seconds=50.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: clock.seconds))
    return clock


def test_the_rest_shrinks_with_time(now):
    budget = Budget(60.0)
    now.seconds += 45
    assert budget.remaining() == 15.0
    now.seconds += 20
    assert budget.remaining() == -5.0
    assert Budget(None).remaining() == float("inf")


def test_a_fit_is_expected_to_take_as_long_as_the_slowest_of_its_kind_and_size():
    budget = Budget(60.0)
    assert budget.largest("a") == 0
    assert budget.forecast("a", 100) == (0.0, 0.0, math.inf)
    budget.observe("a", 100, 2.0)
    budget.observe("a", 100, 1.0)
    budget.observe("b", 100, 9.0)
    assert budget.largest("a") == 100
    assert budget.forecast("a", 100) == budget.forecast("a", 60) == (2.0, 2.0, 2.0)
    budget.observe("a", 50, 0.5)
    assert budget.forecast("a", 30) == (0.5, 0.5, 0.5)
    assert budget.expected("a", 60) == 2.0


@pytest.mark.parametrize("power", [0.5, 0.7, 0.85, 1.0, 1.1])
def test_one_size_bounds_the_time_of_another(power):
    budget = Budget(60.0)
    budget.observe("a", 100, 3.0)
    for rows in (101, 400, 12_345):
        low, likely, high = budget.forecast("a", rows)
        assert low <= 3.0 * (rows / 100) ** power <= high * (1 + 1e-12)
        assert low < likely < high


@pytest.mark.parametrize(
    "seconds",
    [
        lambda n: 0.3 + 0.001 * n,
        lambda n: 0.001 * n,
        lambda n: 1e-5 * n**1.5,
        lambda n: 1e-9 * n**3,
        lambda n: 0.2 + 1e-4 * n * math.log(n),
        lambda n: 0.4 * n**0.3,
        lambda n: 2.0,
    ],
)
@pytest.mark.parametrize("sizes", [(100, 400), (400, 1600), (100, 200)])
def test_two_sizes_give_the_growth(seconds, sizes):
    budget = Budget(60.0)
    for rows in sizes:
        budget.observe("a", rows, seconds(rows))
    for rows in (2 * sizes[1], 5 * sizes[1], 20 * sizes[1]):
        low, likely, high = budget.forecast("a", rows)
        assert 0.95 * low <= seconds(rows) <= high
        assert low <= likely <= high
        assert likely <= 4 * seconds(rows)
        assert likely >= 0.6 * seconds(rows)


def test_sizes_that_differ_by_a_row_give_no_growth():
    budget = Budget(60.0)
    budget.observe("a", 1333, 0.4)
    budget.observe("a", 1334, 0.6)
    assert 0.6 < budget.expected("a", 2000) < 0.9
    budget.observe("a", 1334, 0.3)
    assert 0.6 < budget.expected("a", 2000) < 0.9


def test_a_stated_time_is_used_before_the_first_fit():
    cost = Cost(imports=5.0, seconds=1.0, per_row=0.01)
    budget = Budget(60.0)
    assert budget.forecast("a", 200, cost) == (1.5, 3.0, 6.0)
    budget.observe("a", 200, 9.0)
    assert budget.forecast("a", 200, cost) == (9.0, 9.0, 9.0)


def test_a_fit_starts_only_if_it_ends_before_the_reserve(now):
    budget = Budget(60.0)
    now.seconds += 30
    assert budget.latest_start(20.0, 5.0) == pytest.approx(50.0 + 60 - 5 - 20)
    assert Budget(None).latest_start(20.0, 5.0) == float("inf")


def test_uses_of_the_time_add_up_to_all_of_it(now):
    budget = Budget(60.0)
    for use, seconds in (("imports", 1.0), ("trials", 2.0), ("trials", 4.0)):
        with budget.account(use):
            now.seconds += seconds
    now.seconds += 8.0
    uses = budget.uses()
    assert uses == {
        "imports": 1.0,
        "probes": 0.0,
        "trials": 6.0,
        "choice": 0.0,
        "refits": 0.0,
        "other": 8.0,
        "total": 15.0,
    }
