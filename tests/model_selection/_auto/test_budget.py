"""What is left of a time budget, by a clock that the tests turn."""

from types import SimpleNamespace

import pytest

from skuq.model_selection._auto import budget as module
from skuq.model_selection._auto.budget import Budget


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


def test_a_fit_is_expected_to_take_as_long_as_the_slowest_of_its_kind(now):
    budget = Budget(60.0)
    assert not budget.has_observed("a")
    assert budget.expected("a", 100) == 0.0
    budget.observe("a", 100, 2.0)
    budget.observe("a", 50, 3.0)
    budget.observe("a", 100, 1.0)
    budget.observe("b", 100, 9.0)
    assert budget.has_observed("a")
    assert budget.expected("a", 200) == pytest.approx(12.0)


def test_a_fit_starts_only_if_it_ends_before_the_reserve(now):
    budget = Budget(60.0)
    budget.observe("a", 100, 10.0)
    now.seconds += 30
    assert budget.latest_start("a", 200, 5.0) == pytest.approx(50.0 + 60 - 5 - 20)
    assert Budget(None).latest_start("a", 200, 5.0) == float("inf")
