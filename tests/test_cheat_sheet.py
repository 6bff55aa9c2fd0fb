"""The cheat sheet and llms.txt have every public name; the code is that of the reference."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.test_public_api import PUBLIC, RESULTS

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
NAMES = {f"{module}.{name}" for module in PUBLIC if module != "skuq" for name in PUBLIC[module]}
RESULT_NAMES = {f"{module}.{name}" for module, name in RESULTS}


def load(name: str) -> dict[str, Any]:
    """Return the names of a module of docs, which imports other modules of docs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        return runpy.run_path(str(ROOT / "docs" / f"{name}.py"))


@pytest.fixture(scope="module")
def sheet() -> dict[str, Any]:
    pytest.importorskip("matplotlib")
    return load("cheat_sheet")


def test_the_sheet_has_every_public_name(sheet):
    page = sheet["page"]()
    assert {f"{section.module}.{name}" for section in sheet["sections"]() for name in section.names} == NAMES
    assert all(f"<{name}>`" in page for name in NAMES)
    # The code is that of the reference, which tests/test_docs.py runs.
    assert "model.predict_interval(X_new, coverage=0.9)" in sheet["start"]()
    assert len(sheet["start"]()) > 15
    assert not any("import" in line for line in sheet["start"]())
    assert all(f"\n    {line}\n" in page for line in sheet["start"]())


def test_the_sheet_fits_one_page_in_a_font_that_can_be_read(sheet):
    sizes = [size for size in sheet["SIZES"] if sheet["columns"](size)]
    assert sizes[0] >= 6
    text = " ".join(line for column in sheet["columns"](sizes[0]) for _, line in column)
    assert all(name.rpartition(".")[2] in text for name in NAMES)


def test_the_pdf_and_the_page_are_the_same_in_every_build(sheet, tmp_path):
    for name in "ab":
        sheet["write_cheat_sheet"](SimpleNamespace(srcdir=tmp_path / name))
    first, second = ((tmp_path / name / "reference/generated") for name in "ab")
    pdf = (first / "skuq-cheat-sheet.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") == 1
    assert {p.name for p in first.iterdir()} == {"skuq-cheat-sheet.pdf", "cheat-sheet.inc"}
    assert all((second / path.name).read_bytes() == path.read_bytes() for path in first.iterdir())


def test_index_for_language_models_links_pages_and_names(tmp_path):
    pytest.importorskip("torch")
    pages = {
        "index": "skuq",
        "install": "Install",
        "how-to/decide": "Decide",
        "explanation/generated/x": "X",
    }
    titles = {page: SimpleNamespace(astext=lambda title=title: title) for page, title in pages.items()}
    builder = SimpleNamespace(format="html")
    for site in ("", "https://example.org/docs"):
        app = SimpleNamespace(outdir=tmp_path, env=SimpleNamespace(titles=titles), builder=builder)
        app.config = SimpleNamespace(site=site)
        load("llms")["write_index"](app, None)
        text = (tmp_path / "llms.txt").read_text("utf-8")
        links = dict(re.findall(r"^- \[(.+)\]\((.+?)\)(?:: .+)?$", text, re.MULTILINE))
        address = f"{site}/" if site else ""
        assert text.startswith("# skuq\n\n> ")
        assert links["Decide"] == f"{address}how-to/decide.html"
        assert links["skuq"] == f"{address}index.html"
        assert "X" not in links
        names = {f"{address}reference/generated/{name}.html" for name in NAMES | RESULT_NAMES}
        assert names <= set(re.findall(r"\]\((.+?)\)", text))
