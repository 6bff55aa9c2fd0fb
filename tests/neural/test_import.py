"""Without torch or skorch, skuq works and skuq.neural raises with what to install."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("package", ["torch", "skorch"])
def test_a_missing_package_is_named_with_its_remedy(package, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("skuq.neural")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # its import raises ModuleNotFoundError
    with pytest.raises(ImportError, match=r'pip install "skuq\[torch\]"') as caught:
        importlib.import_module("skuq.neural")
    assert caught.type is ImportError
    assert caught.value.__cause__.name == package


def test_nothing_else_imports_torch():
    result = run(
        "import sys, skuq, skuq.regressors, skuq.metrics, skuq.model_selection, skuq.displays; "
        "sys.exit('torch' in sys.modules or 'skorch' in sys.modules)"
    )
    assert result.returncode == 0, result.stderr
