"""The files around the code: continuous integration, issue forms, versions, and addresses that exist."""

from __future__ import annotations

import os
import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import skuq

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
# Folders and files that are no part of the repository.
IGNORED = {
    "build",
    "dist",
    "_build",
    "plots",
    "auto_examples",
    "how-to",
    "tutorials",
    "generated",
    "__pycache__",
    "node_modules",
}
YAML = {".yml", ".yaml"}
TEXT = {".py", ".rst", ".md", ".toml", ".cff", ".txt", ".json", ".csv", "", *YAML}


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def read_yaml(path: Path) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def address_of(name: str) -> str:
    """Return an address of docs/conf.py, empty where there is none yet."""
    return re.search(rf'^{name} = "(.*)"$', text("docs/conf.py"), re.MULTILINE)[1]


def files_of_the_repository() -> list[Path]:
    """Return the text files outside environments, caches and what the commands write."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        entered = {name for name in folders if not name.startswith(".") or name in {".ci", ".github"}}
        folders[:] = entered - IGNORED  # os.walk enters no others: environments have 100 000 files
        paths = (Path(folder, name) for name in names)
        found += [p for p in paths if p.suffix in TEXT and (p.suffix in YAML or not p.name.startswith("."))]
    return found


def test_continuous_integration_names_targets_of_make_that_exist():
    rules = re.findall(r"^([\w -]+):", text("Makefile"), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    named = {target for run in commands_of_workflows() for target in re.findall(r"make ([\w-]+)", run)}
    tests = {"test", "test-rest", "test-automl", "test-foundation", "test-minimum", "test-newest"}
    assert named == {"coverage", "lint", "docs"} | tests
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/development").glob("*.rst"))
    named |= set(re.findall(r"(?:``|\$ )make ([\w-]+)", pages + text("README.md") + text("CONTRIBUTING.md")))
    assert named <= targets


def commands_of_workflows() -> list[str]:
    workflows = [read_yaml(path) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))]
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_no_job_keeps_the_credentials_of_its_checkout():
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        steps = [step for job in read_yaml(path)["jobs"].values() for step in job["steps"]]
        checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
        assert checkouts
        assert all(step.get("with", {}).get("persist-credentials") is False for step in checkouts), path.name


def test_line_ends_are_equal_on_all_systems():
    assert "* text=auto eol=lf" in text(".gitattributes").splitlines()
    assert not [path for path in files_of_the_repository() if b"\r\n" in path.read_bytes()]


def test_continuous_integration_names_sessions_of_nox_and_tests_that_exist():
    sessions = set(re.findall(r"^@nox\.session\ndef (\w+)", text("noxfile.py"), re.MULTILINE))
    runs = commands_of_workflows()
    assert {name for run in runs for name in re.findall(r"nox -s (\w+)", run)} <= sessions
    for path in {path for run in runs for path in re.findall(r"(?:tests|skuq)[\w/.]*", run)}:
        assert (ROOT / path).exists(), path


def test_news_fragments_have_a_known_kind():
    kinds = {kind["directory"] for kind in tomllib.loads(text("pyproject.toml"))["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changes").iterdir():
        assert path.name == "README.md" or re.fullmatch(rf"[\w+-]+\.({'|'.join(kinds)})\.md", path.name), (
            path.name
        )


def test_actions_are_pinned_by_the_hash_of_their_tag(monkeypatch):
    pin = runpy.run_path(str(ROOT / ".ci/pin_actions.py"))
    monkeypatch.setitem(
        pin["pinned"].__globals__, "commit_of", lambda repository, tag: f"{len(repository)}{tag}f"
    )
    assert pin["pinned"]("uses: actions/checkout@v4\n") == "uses: actions/checkout@16v4f # v4\n"
    assert pin["pinned"]("uses: a/b/c@1f # v5\n") == "uses: a/b/c@3v5f # v5\n"


def test_version_is_written_into_each_file_that_has_it(tmp_path, monkeypatch):
    release = runpy.run_path(str(ROOT / ".ci/release.py"))
    for name, pattern in release["VERSIONS"].items():
        assert re.findall(pattern, text(name), re.MULTILINE) == [skuq.__version__]
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text(name), encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("## [9.8.7] - 2030-01-01\n", encoding="utf-8")
    monkeypatch.setitem(release["bump"].__globals__, "run", lambda *command, cwd: None)  # towncrier
    release["bump"]("9.8.7", tmp_path)
    for name, pattern in release["VERSIONS"].items():
        written = (tmp_path / name).read_text(encoding="utf-8")
        assert re.findall(pattern, written, re.MULTILINE) == ["9.8.7"]
        assert written.replace("9.8.7", skuq.__version__) == text(name)


def test_first_version_has_the_unreleased_text_and_the_news():
    first_version = runpy.run_path(str(ROOT / ".ci/release.py"))["first_version"]
    start, title = "# Changelog\n\n<!-- news -->\n\n", "## [0.1.0] - 2030-01-01\n\n"
    news, unreleased = "### Changed\n\n- Less.\n", "All steps.\n\n### Added\n\n- More.\n"
    written = f"{start}{title}{news}\n\n## [Unreleased]\n\n{unreleased}"  # by towncrier
    assert first_version(written) == f"{start}{title}{unreleased}\n{news}"
    assert first_version(start + title + news) == start + title + news
    assert text("CHANGELOG.md").partition("<!-- news -->\n\n")[2].startswith("## [")


def test_release_installs_the_test_tools_of_make():
    release = runpy.run_path(str(ROOT / ".ci/release.py"))
    assert release["TOOLS"] == tuple(re.search(r"^TOOLS := (.*)$", text("Makefile"), re.MULTILINE)[1].split())
    assert all((ROOT / path).is_file() for path in release["TESTS"])


def test_continuous_integration_runs_what_the_script_runs():
    script, workflow = text(".ci/run"), text(".github/workflows/ci.yml")
    commands = set(re.findall(r"^\s*(?:\w+=1 |nice )?(make [\w-]+)", script, re.MULTILINE))
    others = {f"make test-{name}" for name in ("automl", "foundation", "newest", "rest")}
    with_data = {"make tables"}  # the workflow has no folder of data
    assert commands == {"make lint", "make docs", "make test"} | others | with_data
    assert all(command in workflow for command in commands - with_data)


def test_continuous_integration_has_every_supported_python():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    supported = {c.split(" :: ")[-1] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert set(re.findall(r'"(3\.\d+)"', text(".github/workflows/ci.yml"))) == supported


def test_no_address_is_invented():
    """An address of a repository or a site of skuq is one of the two in docs/conf.py, which may be empty."""
    known = [address for name in ("repository", "site") if (address := address_of(name))]
    pattern = re.compile(r"(?:https?://|www\.|git@)[\w.:/@-]*skuq[\w./-]*|skuq\.(?:readthedocs|github)\.io")
    files = files_of_the_repository()
    assert {"ci.yml", "conf.py", "README.md", ".readthedocs.yaml"} <= {path.name for path in files}
    for path in files:
        for found in pattern.findall(path.read_text(encoding="utf-8", errors="replace")):
            invented = not any(found.startswith(address) for address in known)
            assert path == Path(__file__) or not invented, f"{path.name}: {found}"


def test_extra_of_the_documentation_has_what_the_pages_import():
    """The build runs the guides and the examples, and imports what docs/conf.py and skuq.neural need."""
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        found = set()
        for requirement in requirements:
            name, inner = re.match(r"([\w-]+)(?:\[(.*)\])?", requirement).groups()
            inner = inner.split(",") if name == "skuq" else []
            found |= {name} | {other for extra in inner for other in names(extras[extra])}
        return found

    installed = {name.replace("-", "_") for name in names([*project["dependencies"], *extras["docs"]])}
    # The modules of scikit-learn and scikit-survival, and what scikit-learn and sphinx depend on.
    installed |= {"sklearn", "sksurv", "joblib", "docutils"}
    scripts = [*(ROOT / "docs/guides").rglob("*.py"), *(ROOT / "examples").rglob("plot_*.py")]
    for script in scripts:
        imported = re.findall(r"^ *(?:from|import) (\w+)", script.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(imported) <= installed | sys.stdlib_module_names, script.name


def test_documentation_has_a_switcher_only_with_an_address():
    options = runpy.run_path(str(ROOT / "docs/site_options.py"))
    assert options["theme_options"]("", "", "0.1.0") == {}
    assert options["context"]("") == {}
    both = options["theme_options"]("https://example.org/owner/name", "https://example.org/docs", "0.1.0")
    assert both["github_url"] == "https://example.org/owner/name"
    assert both["use_edit_page_button"]
    assert both["switcher"] == {
        "json_url": "https://example.org/docs/_static/switcher.json",
        "version_match": "0.1.0",
    }
    assert "version-switcher" in both["navbar_end"]
    context = options["context"]("https://example.org/owner/name")
    assert (context["github_user"], context["github_repo"], context["doc_path"]) == ("owner", "name", "docs")


def test_switcher_has_the_current_version_and_the_released_ones():
    options = runpy.run_path(str(ROOT / "docs/site_options.py"))
    entries = options["versions"]("https://example.org/docs", "0.3.0", released=("0.2.0", "0.1.0"))
    assert [entry["version"] for entry in entries] == ["0.3.0", "0.2.0", "0.1.0"]
    assert [entry["url"].removeprefix("https://example.org/docs/") for entry in entries] == [
        "",
        "0.2.0/",
        "0.1.0/",
    ]
    assert [entry for entry in entries if entry.get("preferred")] == entries[:1]
    assert skuq.__version__ not in options["RELEASED"]


def test_an_entry_of_the_changelog_occurs_once_in_its_section():
    sections = re.split(r"^##+ ", text("CHANGELOG.md"), flags=re.MULTILINE)
    titles = [re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE) for section in sections]
    assert [title for found in titles for title in set(found) if found.count(title) > 1] == []
