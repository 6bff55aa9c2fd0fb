"""Without torch or skorch, skuq works and skuq.neural raises with what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCK = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, *args):
        if name.split(".")[0] == {!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}")

sys.meta_path.insert(0, Blocked())
"""


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("package", ["torch", "skorch"])
def test_a_missing_package_is_named_with_its_remedy(package):
    result = run(BLOCK.format(package) + "import skuq.neural")
    assert result.returncode == 1
    assert 'pip install "skuq[torch]"' in result.stderr.splitlines()[-1]
    assert "ImportError" in result.stderr.splitlines()[-1]


def test_nothing_else_imports_torch():
    result = run(
        "import sys, skuq, skuq.regressors, skuq.metrics, skuq.model_selection, skuq.displays; "
        "sys.exit('torch' in sys.modules or 'skorch' in sys.modules)"
    )
    assert result.returncode == 0, result.stderr
