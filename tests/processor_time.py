"""A limit on the processor time of each test in the default tier.

The time of a test includes its own fixtures and its child processes. It excludes the set-up of fixtures that
several tests share. A test above the limit fails by its name. Processor time does not grow while a test waits
for a busy processor, unlike wall time. The first test that uses a package also imports and compiles it, and
other processes make each test slower. Therefore a test that passes above the limit is repeated, at most
twice. It fails if the last time is also above the limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest
from _pytest.runner import runtestprotocol
from sklearn.tree import DecisionTreeRegressor

LIMIT = 1.0
"""Seconds of processor time for one test."""

REFERENCE = 0.34
"""Seconds of the work in `_slowness` on the machine for which `LIMIT` was set."""


def _slowness() -> float:
    """Return the processor time of some work now, relative to the machine for which `LIMIT` was set.

    The work is like that of the tests. Other processes may slow down the memory and its caches, which a loop
    without data would not show.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    start = time.process_time()
    for _ in range(600):
        DecisionTreeRegressor(random_state=0).fit(X, y).predict(X)
    return (time.process_time() - start) / REFERENCE


class ProcessorTime:
    """Hooks of pytest that measure each test."""

    def __init__(self) -> None:
        self.start = self.wall = self.used = 0.0
        self.shared = 0.0  # of the shared fixtures that the present test was the first to request
        self.nested = 0  # shared fixtures that are being set up
        self.children: dict[int, float] = {}  # processor time when last measured, by process

    def now(self) -> float:
        """Return the processor time of this process and of its children that have ended."""
        return sum(os.times()[:4])

    def of_running_children(self) -> float:
        """Return the processor time of running children since the last call, as a correction of `now`."""
        before, self.children = self.children, {}
        for child in psutil.Process().children(recursive=True):
            try:
                used = child.cpu_times()
            except psutil.Error:
                continue
            self.children[child.pid] = used.user + used.system
        running = sum(used - before.get(pid, 0.0) for pid, used in self.children.items())
        # `now` includes all the time of a child that has ended, also the time of earlier tests.
        ended = sum(used for pid, used in before.items() if pid not in self.children)
        return running - ended

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        start = self.now()
        self.nested += 1
        try:
            return (yield)
        finally:
            self.nested -= 1
            if not self.nested:
                self.shared += self.now() - start

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self.start, self.wall, self.shared = self.now(), time.monotonic(), 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        self.used = self.now() - self.start - self.shared
        if self.used > LIMIT or time.monotonic() - self.wall > LIMIT / 4:  # child processes take some time
            self.used += self.of_running_children()
        item.user_properties[:] = [("processor_time", self.used)]
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        limit, repetitions = LIMIT, 0

        def is_slow() -> bool:
            is_limited = "not laws" in item.config.option.markexpr
            return is_limited and self.used > limit and all(report.passed for report in reports)

        while is_slow() and repetitions < 2:
            # A slow machine has more time. Other processes change its speed, hence the mean of two.
            before = _slowness()
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            limit = LIMIT * max(1.0, (before + _slowness()) / 2)
            repetitions += 1
        if is_slow():
            reports[-1].outcome = "failed"
            reports[-1].longrepr = (
                f"{self.used:.2f} s of processor time; the limit is {limit:.2f} s.\n"
                "Use less data or a fitted model that tests share, or mark the test `laws` or `docs`."
            )
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def pytest_configure(config: pytest.Config) -> None:
    """Measure the tests of this process."""
    config.pluginmanager.register(ProcessorTime())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the processor time of all tests, and with --durations the tests that used most of it."""
    times = [
        (dict(report.user_properties)["processor_time"], report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown" and "processor_time" in dict(report.user_properties)
    ]
    if shown := config.getoption("durations"):
        terminalreporter.section(f"slowest {shown} tests by processor time")
        for used, name in sorted(times, reverse=True)[:shown]:
            terminalreporter.write_line(f"{used:7.2f} s  {name}")
    total = sum(used for used, _ in times)
    terminalreporter.write_line(
        f"Processor time of {len(times)} tests without shared fixtures: {total:.0f} s"
    )
