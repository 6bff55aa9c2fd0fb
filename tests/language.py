"""Constructions that readers parse twice, counted in docstrings and pages.

Run as ``python tests/language.py [PATH ...]`` to list them with their places.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

CONSTRUCTIONS = (
    r"those (?:of|that|with|without|which|in|from|where|whose|by|at|on|for|before|after|below|above)\b",
    r"that (?:of|with|without)\b",
    r"(?:as|than|with|of|from|for|to|by) those\b(?! \w+s\b)",
    r"as (?:it|they) (?:is|are|was|were|came|comes)\b",
    r"where there (?:is|are|was|were)\b",
    r"stands? for\b",
    r"(?:^|(?<=[.:;(] ))(?:What|How|Which|Where)\b(?![^.]*\?)",
    r"what (?:is|it|was|they|comes|came|follows|others|the|a|an|makes|helps|lets|each|every|one|remains)\b"
    r"(?![^.]*\?)",
    r"of which\b",
    r"whatever\b",
    r"however (?:many|few|large|small|long|extreme|deep|far)\b",
    r"so (?:many|few)\b",
    r"beside\b",
    r"one an? (?:row|sample|column|fold|member|class|level|step|call|fit|target)\b",
    r"but for\b",
    r"(?<!there )(?:is|are|was|were) no (?!longer\b|more\b|less\b)\w+",
    r"be it\b",
    r"nobody's\b|out of all proportion|came true",
)
BRITISH = (
    r"\w*(?:standardis|normalis|summaris|optimis|generalis|regularis|parametris|initialis|randomis|recognis"
    r"|minimis|maximis|penalis|characteris|discretis|vectoris|winsoris|organis|realis)(?:e|es|ed|ing|ation"
    r"|ations|er|ers)\b",
    r"(?:behaviour|colour|neighbour|favour|centre|grey|labell|modell|travell|programme\b|learnt|analys(?:e|ed)\b"
    r"|licence|artefact|whilst|mould|fulfil\b|catalogue)\w*",
)
ALL = re.compile(f"(?<![\\w`-])(?:{'|'.join(CONSTRUCTIONS)})", re.MULTILINE | re.IGNORECASE)
SPELLING = re.compile(f"\\b(?:{'|'.join(BRITISH)})", re.IGNORECASE)
_QUESTION_WORDS = re.compile(r"(?:What|How|Which|Where)$", re.IGNORECASE)
_CODE = re.compile(
    r"``[^`]*``|`[^`]*`|:\w+:`[^`]*`|>>>.*|\.\.\. .*|^\s*\.\. .*|^\s*:[\w-]+:.*|:math:`[^`]*`|https?://\S+|\[\d+\]_",
    re.MULTILINE,
)


class Text(NamedTuple):
    """Prose of a docstring, a comment or a page."""

    path: str
    line: int
    kind: str
    prose: str


class Finding(NamedTuple):
    """A construction and its place."""

    path: str
    line: int
    words: str


def docstrings(path: Path) -> Iterator[Text]:
    """Yield all docstrings of a module and the strings below its attributes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            value = child.value if isinstance(child, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield Text(str(path), value.lineno, "docstring", value.value)


def comments(path: Path) -> Iterator[Text]:
    """Yield all comments of a module."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield Text(str(path), token.start[0], "comment", token.string.lstrip("# "))


def messages(path: Path) -> Iterator[Text]:
    """Yield the texts of errors, warnings and labels: strings with a space that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped
        if is_text and " " in node.value.strip():
            yield Text(str(path), node.lineno, "message", node.value)


def pages(path: Path) -> Iterator[Text]:
    """Yield the prose of a page, without blocks of code."""
    lines, in_code = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        if re.match(r"\s*\.\. (?:code-block|math|plot|figure|image|autosummary)::|```", line):
            in_code = not (line.startswith("```") and in_code)
            lines.append("")
            continue
        if in_code and line and not line.startswith((" ", "`")) and path.suffix != ".md":
            in_code = False
        lines.append("" if in_code else line)
    yield Text(str(path), 1, "page", "\n".join(lines))


@functools.cache
def prose_of(text: Text) -> str:
    """Return the prose without code, with the same number of lines."""
    return _CODE.sub(lambda found: " x " + "\n" * found.group().count("\n"), text.prose)


def findings(texts: list[Text], pattern: re.Pattern[str] = ALL) -> tuple[list[Finding], int]:
    """Return the constructions in the texts and the number of words."""
    found, words = [], 0
    for text in texts:
        prose = prose_of(text)
        words += len(prose.split())
        for match in pattern.finditer(prose):
            if _QUESTION_WORDS.match(match.group()) and not match.group()[0].isupper():
                continue
            line = text.line + prose[: match.start()].count("\n")
            found.append(Finding(text.path, line, " ".join(match.group().split())))
    return found, words


def is_built(file: Path) -> bool:
    """Return whether the build of the documentation writes the file; guides are written by hand."""
    built = {"_build", "generated", "auto_examples", "how-to", "tutorials"}
    return bool(built & set(file.parts)) and "guides" not in file.parts


def read(paths: list[Path], kinds: tuple[str, ...] = ("docstring", "comment", "message")) -> list[Text]:
    """Return the texts of files and folders."""
    texts: list[Text] = []
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if is_built(file):
                continue
            if file.suffix == ".py":
                texts += [text for way in (docstrings, comments, messages) for text in way(file)]
            elif file.suffix in (".rst", ".md"):
                texts += pages(file)
    return [text for text in texts if text.kind in kinds or text.kind == "page"]


def main(arguments: list[str]) -> None:
    """Print the constructions of the given files, of skuq and its pages by default."""
    names = [one for one in arguments if not one.startswith("--")]
    paths = [Path(one) for one in names] or [ROOT / one for one in ("skuq", "docs", "examples", "README.md")]
    for path in paths:
        for kinds in (("docstring",), ("comment",), ("message",), ("page",)):
            texts = [text for text in read([path], kinds) if text.kind in kinds]
            if not texts:
                continue
            found, words = findings(texts)
            british, _ = findings(texts, SPELLING)
            if "--quiet" not in arguments:
                for one in sorted(found + british):
                    sys.stdout.write(f"{one.path}:{one.line}: {one.words}\n")
            rate = 1e4 * len(found) / max(words, 1)
            sys.stdout.write(
                f"{path} {kinds[0]}: {len(found)} in {words} words, {rate:.0f} per 10 000; "
                f"{len(british)} British spellings\n"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
