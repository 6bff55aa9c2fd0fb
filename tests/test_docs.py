"""Every Python block of the README and the documentation runs, page by page, from top to bottom."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
RST_BLOCK = re.compile(r"^\.\. code-block:: python\n(?P<code>(?:\n|[ \t]+.*\n?)+)", re.MULTILINE)
MARKDOWN_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)

PAGES = sorted([*(ROOT / "docs").glob("*.rst"), *(ROOT / "docs").glob("[!_a]*/*.rst"), ROOT / "README.md"])

# What a page claims of its own results.
CLAIMS = {
    "docs/tutorials/getting-started.rst": ["0.85 < coverage < 0.95", "crps > 0", "len(best) == len(y_test)"],
    "docs/explanation/honest-calibration.rst": ["unseen > 2 * seen"],
    "docs/explanation/reaching-through.rst": ["(lower > 0).all()"],
    "docs/how-to/wrap-your-own.rst": ["len(dist) == 100", "len(gamma) == 2"],
    "docs/how-to/choose-a-method.rst": [
        "all(interval.shape == (300, 2) for interval in intervals)",
        "(confidence_interval[:, 0] > prediction_interval[:, 0]).all()",
    ],
}


def blocks(page: Path) -> list[tuple[int, str]]:
    """Return the Python blocks of a page with the line each starts on."""
    text = page.read_text(encoding="utf-8")
    pattern = MARKDOWN_BLOCK if page.suffix == ".md" else RST_BLOCK
    return [
        (text.count("\n", 0, match.start("code")), textwrap.dedent(match["code"]))
        for match in pattern.finditer(text)
    ]


WITH_CODE = {page.relative_to(ROOT).as_posix(): page for page in PAGES if blocks(page)}


@pytest.mark.parametrize("name", sorted(WITH_CODE))
def test_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = WITH_CODE[name]
    if "skuq.displays" in page.read_text(encoding="utf-8"):
        pytest.importorskip("matplotlib")
    namespace: dict[str, Any] = {"__name__": "page"}
    for line, code in blocks(page):
        # Empty lines before the code make the line numbers of an error those of the page.
        exec(compile("\n" * line + code, name, "exec"), namespace)
    for claim in CLAIMS.get(name, []):
        assert eval(claim, namespace), claim


def test_every_block_is_found():
    for page in PAGES:
        marker = "```python" if page.suffix == ".md" else "code-block:: python"
        assert len(blocks(page)) == page.read_text(encoding="utf-8").count(marker), page.name


def test_claims_belong_to_pages():
    assert set(CLAIMS) <= set(WITH_CODE)
    assert "README.md" in WITH_CODE
