"""The built documentation in a browser: nothing is cut off, nothing fails, nothing is fetched from elsewhere.

`make docs` builds the site. Chromium is that of the system, driven by playwright.
"""

from __future__ import annotations

import functools
import http.server
import re
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

import pytest

from tests.test_public_api import PUBLIC

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "_build" / "html"
SOURCES = (
    "skuq/**/*.py",
    "CHANGELOG.md",
    "benchmarks/results/*.csv",
    "docs/_templates/*/*",
    "docs/*.py",
    "docs/*.rst",
    "docs/*.toml",
    "docs/[!_]*/*.rst",
    "docs/guides/*/*",
    "docs/_static/*",
    "examples/**/*.py",
)
WRITTEN_BY_THE_BUILD = {"auto_examples", "how-to", "tutorials", "generated"}
WIDTHS = (400, 1400)  # pixels, of a phone and of a laptop
CLICKS = 3
WITHOUT_A_LINK = {"search.html", "genindex.html", "py-modindex.html"}

# The page, where it is wider than the window; on a laptop also each element of the article that hides a part
# of its content. On a phone code and tables may scroll.
TOO_WIDE = """(laptop) => {
    const found = []
    const page = document.documentElement
    if (page.scrollWidth > page.clientWidth) found.push(`page: ${page.scrollWidth} in ${page.clientWidth}`)
    for (const item of laptop ? document.querySelectorAll("article *") : []) {
        const cut = item.clientWidth > 0 && item.scrollWidth > item.clientWidth + 1
        if (cut && getComputedStyle(item).overflowX !== "visible")
            found.push(`${item.scrollWidth - item.clientWidth} px too wide: ${item.textContent.slice(0, 60)}`)
    }
    return found
}"""
LINKS = "[...document.querySelectorAll('a[href]')].map(link => link.href)"


def newest_source() -> float:
    """Return when a file was last changed from which the site is built."""
    files = (file for pattern in SOURCES for file in ROOT.glob(pattern) if file.is_file())
    by_hand = (file for file in files if not WRITTEN_BY_THE_BUILD & set(file.relative_to(ROOT).parts))
    return max(file.stat().st_mtime for file in by_hand)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and does not print a line for each."""

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """Serve the built site."""
    index = SITE / "index.html"
    if not index.is_file() or index.stat().st_mtime < newest_source():
        pytest.skip("docs/_build/html is missing or older than its sources: run `make docs` first")
    handler = functools.partial(QuietHandler, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@dataclass
class Visitor:
    """A tab of the browser that opens pages and collects their faults and links."""

    address: str
    tab: Any
    page: str = ""
    faults: list[str] = field(default_factory=list)
    links: dict[str, set[str]] = field(default_factory=dict)
    widths: tuple[int, ...] = WIDTHS

    def __post_init__(self) -> None:
        self.tab.on("console", self.on_console)
        self.tab.on("pageerror", lambda error: self.add(str(error)))
        self.tab.on("request", self.on_request)

    def add(self, fault: str) -> None:
        self.faults.append(f"{self.page}: {fault}")

    def on_console(self, message: Any) -> None:
        if message.type == "error":
            self.add(f"console: {message.text}")

    def on_request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:")):
            self.add(f"fetches {request.url}")

    def visit(self, page: str) -> None:
        """Open a page of the site."""
        self.page = page
        self.tab.goto(self.address + page)
        self.widths = self.widths[::-1]  # the window changes once per page
        for width in self.widths:
            self.tab.set_viewport_size({"width": width, "height": 900})
            for found in self.tab.evaluate(TOO_WIDE, width == max(WIDTHS)):
                self.add(f"at {width} px {found}")
        targets = (urldefrag(link).url.removeprefix(self.address) for link in self.tab.evaluate(LINKS))
        self.links[page] = {target or "index.html" for target in targets}


def test_the_site_in_a_browser(address: str, browser: Any, subtests: Any) -> None:
    pages = {page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html")}
    pages = {page for page in pages if not page.startswith("_static")}  # parts of the theme
    moved = tomllib.loads((ROOT / "docs" / "moved_names.toml").read_text(encoding="utf-8"))
    redirects = {f"reference/generated/{old}.html" for names in moved.values() for old in names}
    redirects.add("replications/ablations.html")
    with subtests.test("a page that moved leads to its present page"):
        assert redirects <= pages
        for page in redirects:
            target = re.search(r'url=([^"]+)', (SITE / page).read_text(encoding="utf-8"))
            assert target is not None, page
            assert (SITE / page).parent.joinpath(target[1]).resolve().is_file(), page
    pages -= redirects
    visitor = Visitor(address, browser.new_page())
    for page in sorted(pages):
        visitor.visit(page)
    links = visitor.links
    with subtests.test("nothing is cut off, fails, or is fetched from elsewhere"):
        assert visitor.faults == []
    with subtests.test("every page is within three clicks of the first"):
        reached = {"index.html"}
        for _ in range(CLICKS):
            reached |= {link for page in reached for link in links.get(page, ())}
        assert pages - reached - WITHOUT_A_LINK == set()
    with subtests.test("links inside the site lead somewhere"):
        inside = {
            link for found in links.values() for link in found if not link.startswith(("http", "mailto"))
        }
        assert [link for link in sorted(inside) if not (SITE / link).exists()] == []
    with subtests.test("the reference links a page of every public name"):
        names = {f"{module}.{name}" for module in PUBLIC if module != "skuq" for name in PUBLIC[module]}
        assert {f"reference/generated/{name}.html" for name in names} <= links["reference/api.html"]
