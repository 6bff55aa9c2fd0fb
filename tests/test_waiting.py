"""No test waits without end: one that does fails in the end, and worker processes of joblib are replaced."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from joblib.externals.loky import ProcessPoolExecutor

pytestmark = pytest.mark.laws

ROOT = Path(__file__).resolve().parent.parent
KEPT: list[np.ndarray] = []

WAITING = """
import threading
import time

def test_that_waits():
    threading.Thread(target=time.sleep, args=(20,), name="the other thread", daemon=True).start()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""


def grow() -> None:
    """Take more memory than joblib lets a worker keep (300 MB), and stay until it measures again (1 s)."""
    KEPT.append(np.ones(45_000_000))
    time.sleep(1.1)


def test_a_worker_that_stops_is_replaced():
    pytest.importorskip("psutil")  # joblib measures the memory of its workers by it
    with ProcessPoolExecutor(max_workers=1) as executor:
        tasks = [executor.submit(task) for task in (int, grow, int, int)]
        assert [task.result(timeout=60) for task in tasks] == [0, None, 0, 0]


def test_a_test_that_waits_fails_with_the_tracebacks_of_all_threads(tmp_path):
    (tmp_path / "test_waiting.py").write_text(WAITING, encoding="utf-8")
    options = [
        "-c",
        ROOT / "pyproject.toml",
        f"--rootdir={tmp_path}",
        "--timeout=1",
        "-p",
        "no:cacheprovider",
    ]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path], capture_output=True, text=True, check=False
    )
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout + result.stderr
    assert "Timeout (>1.0s)" in result.stdout
    assert "Stack of the other thread" in result.stdout


def test_every_test_has_a_limit(request, pytestconfig):
    assert 0 < float(pytestconfig.getini("timeout")) <= 300
    slow = [item for item in request.session.items if item.get_closest_marker("slow")]
    assert all(item.get_closest_marker("timeout") for item in slow)
