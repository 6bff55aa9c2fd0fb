"""Index of the documentation for language models, llms.txt."""

import re
from pathlib import Path

import public_names

import skuq

README = Path(__file__).resolve().parent.parent / "README.md"
FOLDERS = {
    "": "Start",
    "tutorials": "Tutorial",
    "how-to": "Guides",
    "explanation": "Explanation",
    "reference": "Reference",
    "replications": "Papers and replications",
    "auto_examples": "Examples",
    "development": "Development",
}


def quick_start():
    """Return the first block of code of the README."""
    return re.search(r"^```python\n.*?^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]


def page_lines(titles, address):
    """Return the headings and links of all pages, by folder, from their titles."""
    lines = []
    for folder, heading in FOLDERS.items():
        pages = sorted(name for name in titles if name.rpartition("/")[0].partition("/")[0] == folder)
        links = [f"- [{titles[name]}]({address}{name}.html)" for name in pages if "/generated/" not in name]
        lines += [f"## {heading}", "", *links, ""] if links else []
    return lines


def name_lines(address):
    """Return the headings of the modules, and a link and a summary for each public name and result object."""

    def link(module, name):
        page = f"{address}reference/generated/{module}.{name}.html"
        return f"- [{name}]({page}): {public_names.summary(module, name)}"

    lines = []
    for section in public_names.sections():
        links = [link(section.module, name) for name in section.names]
        lines += [f"## {section.heading}", "", *links, ""]
    return [*lines, "## Result objects", "", *(link(*pair) for pair in public_names.results()), ""]


def text(titles, site):
    """Return llms.txt. Links are relative as long as the site has no address."""
    address = f"{site}/" if site else ""
    summary = " ".join(skuq.__doc__.partition("\n\n")[0].split())
    start = ["# skuq", "", f"> {summary}", "", f"Version {skuq.__version__}.", "", quick_start(), ""]
    return "\n".join([*start, *page_lines(titles, address), *name_lines(address)])


def write_index(app, exception):
    """Write llms.txt to the root of the built site."""
    if exception is None and app.builder.format == "html":
        titles = {name: title.astext() for name, title in app.env.titles.items()}
        Path(app.outdir, "llms.txt").write_text(text(titles, app.config.site), encoding="utf-8")
