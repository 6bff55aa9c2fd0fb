"""Both sides of every line of the benchmark compute the same; how long they take is no test."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "run.py"
NAME = "skuq_benchmark"


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location(NAME, SCRIPT)
    sys.modules[NAME] = importlib.util.module_from_spec(spec)  # its dataclass looks itself up
    spec.loader.exec_module(sys.modules[NAME])
    yield sys.modules[NAME]
    del sys.modules[NAME]


@pytest.mark.parametrize("lines", ["distribution_lines", "metric_lines"])
def test_both_sides_of_a_line_agree(bench, lines):
    compared = [line for line in getattr(bench, lines)(1000, np.random.default_rng(0)) if line.same]
    assert compared
    for line in compared:
        np.testing.assert_allclose(line.skuq(), line.peer(), rtol=1e-9, atol=1e-12, err_msg=line.what)


def test_times_are_measured(bench):
    own, peer = bench.measure(bench.Line("sum", 10, lambda: sum(range(10)), "peer", lambda: sum(range(10))))
    assert own > 0
    assert peer > 0
