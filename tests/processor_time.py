"""A limit on the processor time of each test in the default tier.

The time of a test includes its own fixtures and its child processes. It excludes fixtures that several tests
share, and the first import of a large package. A test above the limit fails by its name. Processor time does
not grow while a test waits for a busy processor, unlike wall time.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

LIMIT = 1.0
"""Seconds of processor time for one test."""

EXCEPTIONS = {
    "test_a_cross_validation_gives_a_curve_a_fold_and_models_share_references": "one display draws groups",
}
"""Tests without a limit, by the end of their name without parameters, and the reason."""

LARGE_PACKAGE = 100
"""Number of modules. A test that imports more of them has no limit, as any other test could be the first."""

REFERENCE = 0.0137
"""Seconds of `_reference_work` on the machine for which `LIMIT` was set."""


def _reference_work() -> float:
    start = time.process_time()
    sum(number * number for number in range(300_000))
    return time.process_time() - start


class ProcessorTime:
    """Hooks of pytest that measure each test."""

    def __init__(self) -> None:
        self.start = self.wall = 0.0
        self.modules = 0  # that were imported before the present test
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

    def pytest_runtest_logstart(self) -> None:
        self.start, self.wall, self.shared = self.now(), time.monotonic(), 0.0
        self.modules = len(sys.modules)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report = yield
        if report.when != "teardown":
            return report
        used = self.now() - self.start - self.shared
        if used > LIMIT or time.monotonic() - self.wall > LIMIT / 4:  # child processes take some time
            used += self.of_running_children()
        report.user_properties.append(("processor_time", used))
        name = item.nodeid.partition("[")[0]
        limited = "not laws" in item.config.option.markexpr and not any(
            name.endswith(exception) for exception in EXCEPTIONS
        )
        if limited and used > LIMIT and len(sys.modules) - self.modules < LARGE_PACKAGE:
            # A slow machine has more time. Its speed is measured now, because other processes change it.
            limit = LIMIT * max(1.0, statistics.median(_reference_work() for _ in range(9)) / REFERENCE)
            if used > limit:
                report.outcome = "failed"
                report.longrepr = (
                    f"{used:.2f} s of processor time; the limit is {limit:.2f} s.\n"
                    "Use less data or a fitted model that tests share, or mark the test `laws` or `docs`."
                )
        return report


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
