"""Every Python block of the README and the documentation runs, page by page, from top to bottom."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import runpy
import textwrap
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skuq import recalibration
from skuq.metrics._spec import all_specs

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
RST_BLOCK = re.compile(
    r"^\.\. code-block:: python\n(?P<code>(?:\n|[ \t]+.*\n?)+)"
    r"(?:\.\. code-block:: none\n\n(?P<output>(?: {4}.*\n)+))?",
    re.MULTILINE,
)
MARKDOWN_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)

# Written by hand: sphinx-gallery writes tutorials, how-to guides and the gallery from the scripts.
WRITTEN = ("development", "explanation", "reference", "replications")
GUIDES = sorted((ROOT / "docs" / "guides").rglob("*.py"))
PAGES = sorted(
    [
        *(ROOT / "docs").glob("*.rst"),
        *(page for folder in WRITTEN for page in (ROOT / "docs" / folder).glob("*.rst")),
        ROOT / "README.md",
    ]
)

# What a page needs beside the required packages, by the modules that it imports.
OPTIONAL = {
    r"skuq\.(displays|report)|matplotlib": ["matplotlib"],
    r"skuq\.neural": ["torch", "skorch"],
    "autogluon": ["autogluon.tabular", "flaml", "mlflow", "skore", "skrub", "tpot"],
    r"dask|skuq\.integrations\.dask": ["distributed"],
    r"pyarrow|dask\.dataframe": ["pyarrow"],
    "skops": ["skops"],
    "sksurv|lifelines": ["sksurv", "lifelines"],
    "sktime": ["sktime"],
}

OF_GUIDES = runpy.run_path(str(ROOT / "docs" / "claims.py"))
# What a page claims of its own results.
CLAIMS = {
    **OF_GUIDES["CLAIMS"],
    "README.md": [
        "len(dist) == len(y_test) and model.method_ == 'forest'",
    ],
    "docs/index.rst": [
        "len(dist) == len(y_test) and model.method_ == 'forest'",
    ],
    "docs/automl.rst": [
        # The mean of y alone has 2.8.
        "max(auto_crps, optuna_crps, flaml_crps, autogluon_crps, tpot_crps, skrub_crps) < 2.2",
        "abs(logged['crps'] - skrub_crps) < 1e-9 and abs(frame['neg_crps'] + optuna_crps) < 0.2",
    ],
    "docs/explanation/pools.rst": [
        "table == {'member': (0.9, 0.627), 'pool': (0.98, 0.52), 'recalibrated': (0.89, 0.49)}",
        "model.out_of_fold_crps_.index.tolist() == ['ridge', 'neighbors', 'pool']",
    ],
    "docs/explanation/classes.rst": [
        "(covered, size, calibrated, overconfident, useless) == (0.94, 3.53, 0.003, -0.14, 0.0)",
        "abs(ece[0] - ece[1]) < 0.03",
    ],
    "docs/explanation/calibrated-and-sharp.rst": [
        "table['the truth'] == [0.9, 0.008, 0.5, 0.284]",
        "table['one width for all'] == [0.9, 0.018, 0.53, 0.293]",
        "table['ignores x'] == [0.91, 0.016, 0.84, 0.483]",
        "table['too narrow'] == [0.59, 0.105, 0.25, 0.307]",
        "table['too wide'] == [1.0, 0.103, 1.0, 0.329]",
        "one_width['coverage'].round(2).tolist() == [1.0, 0.96, 0.86, 0.78]",
        "truth['coverage'].round(2).tolist() == [0.9, 0.9, 0.89, 0.9]",
    ],
    "docs/explanation/proper-scores.rst": [
        "(round(crps, 2), round(nll, 2), round(interval, 2)) == (1.13, 2.11, 8.27)",
        "nlls == [1.6, 1.58] and crpss == [0.569, 0.582]",
        "crps_of_two == [3.5, 3.38] and nll_of_two == [1.63, 1.76]",
    ],
    "docs/explanation/weighted-scores.rst": [
        "table['truth'] == [0.565, 0.945, 0.04, 0.438]",
        "table['too high'] == [0.836, 0.469, 0.07, 0.336]",
        "table['ignores the signal'] == [0.798, 1.891, 0.048, 0.591]",
        "list(by_signal.values()) == [0.178, 0.313, 0.225]",
        "list(parts.values()) == [[0.283, 0.243, 0.04], [0.375, 0.39, 0.07], [0.399, 0.351, 0.048]]",
        "list(curves.values()) == [[0.16, 0.04], [0.32, 0.13], [0.56, 0.05]]",
    ],
    "docs/explanation/average-calibration.rst": [
        "round(mean_null, 3) == 0.010 and round(high_null, 3) == 0.019",
        "maces == [0.04, 0.01] and crpss == [0.17, 0.59]",
        "(round(overall, 3), round(first, 2), round(second, 2)) == (0.006, 0.12, 0.13)",
        "(round(by_quantile, 2), round(by_interval, 2)) == (0.09, 0.02)",
    ],
    "docs/explanation/group-calibration.rst": [
        "(round(mace, 3), round(ence, 2)) == (0.018, 0.56)",
        "table['rmv'].round(2).tolist() == [0.63, 0.88, 1.13, 1.38]",
        "table['rmse'].round(2).tolist() == [1.38, 1.1, 0.88, 0.62]",
        "table['coverage'].round(2).tolist() == [0.52, 0.81, 0.95, 1.0]",
        "by_bins == [0.015, 0.024, 0.049, 0.096] and floor == [0.023, 0.033, 0.056, 0.103]",
        "round(ence_of_one, 4) == 0.0001",
        "by_x['coverage'].round(3).tolist() == [0.989, 0.903, 0.806]",
        "errors == [0.0038, -0.0017] and mean_square == 0.0066 and slabs == [0.81, 0.9]",
        "(round(equal_width, 2), round(equal_count, 2)) == (0.24, 0.06) and rows.min() <= 2",
    ],
    "docs/explanation/prediction-intervals.rst": [
        "abs(width - 3.29) < 0.001 and abs(short - 0.042) < 0.001 and abs(spare - 0.888) < 0.002",
        "abs(same) < 1e-12 and round(covered, 12) == 0.9",
        "spread == [0.47, 0.57, 1.73]",
        "by_range == [0.76, 0.47, 0.45, 0.36] and by_std == [3.42, 3.37, 3.3, 3.29]",
    ],
    "docs/explanation/pointwise-coverage.rst": [
        "round(on_average, 2) == 0.91 and [round(v, 2) for v in at_a_row] == [0.65, 1.0]",
        "[round(v, 2) for v in in_a_simulation] == [0.89, 0.93]",
        "[round(v, 2) for v in (mean_picp, low, high)] == [0.8, 0.63, 0.95]",
        "values_of_cicp == {0, 1} and round(mean_cicp, 2) == 0.78",
        "of_cubic == [0.003, 0.021, 0.019, 0.875] and of_quadratic == [0.129, 0.023, 0.021, 0.12]",
        "[round(v, 4) for v in (score, expected, corrected)] == [0.0011, 0.0008, 0.0004]",
    ],
    "docs/explanation/sharpness.rst": [
        "(round(mean_std, 2), round(root_mean_square, 2), round(rmse, 2)) == (1.13, 1.28, 1.26)",
        "sharp == [1.13, 0.0] and crps == [0.63, 6.97]",
    ],
    "docs/explanation/uncertainty-characteristics.rst": [
        "comparison.models['best_share'].round(2).to_dict() == {'truth': 0.15, 'constant': 0.85}",
        "comparison.front['model'].tolist() == ['constant', 'truth']",
        "comparison.front['miss_rate_low'].round(2).tolist() == [0.15, 0.0]",
        "gains == [-0.01, 0.21] and crps == [0.91, 0.97]",
        "np.round(few_misses, 2).tolist() == [0.16, 0.2, 0.49]",
        "np.round(in_distance, 2).tolist() == [0.46, 0.77, 2.26]",
    ],
    "docs/explanation/significance.rst": [
        "(round(interval_one.low, 3), round(interval_one.high, 3)) == (0.557, 0.606)",
        "(round(interval_other.low, 3), round(interval_other.high, 3)) == (0.563, 0.613)",
        "(round(test.difference, 3), round(test.p_value, 3)) == (-0.006, 0.001)",
        "rejected == {0.0: 0.048, 0.9: 0.532} and rejected_by_blocks == 0.036",
        "round(by_ence.p_value, 3) == 0.001 and [round(v, 3) for v in by_ence.values] == [0.023, 0.033]",
        "((both['calibrated_low'] < both['value']) & (both['value'] < both['calibrated_high'])).all()",
    ],
    "docs/explanation/scale.rst": [
        "values == {'crps': 1.242, 'picp': 0.866, 'mace': 0.015, 'ence': 0.098}",
        "crps_error < 1e-12 and quantile_error < 0.001",
        "set(of_columns.result()) == {'pinball', 'mace', 'picp'}",
    ],
    "docs/explanation/calibration-over-time.rst": [
        "drift['flag'].tolist() == [False, False, False, True]",
        "monitor.alarm_ and number == 6",
    ],
    "docs/explanation/recalibration.rst": [
        "(100 * loss[:-1]).round(1).tolist() == [[0.2, 0.1, 0.0], [0.4, 0.5, 0.1], [0.3, 0.4, 0.1],"
        " [2.5, 0.6, 0.1], [2.5, 0.6, 0.1], [2.5, 0.6, 0.1], [0.6, 0.1, 0.0]]",
        "(np.abs(100 * loss[-1] - [0.3, 0.2, 0.0]) < 0.1).all()",
        "round(too_narrow, 2) == 0.08",
    ],
    "docs/explanation/conformal.rst": [
        "low == {19: 0.77, 99: 0.85, 999: 0.88} == expected",
        "infinite.tolist() == [-np.inf, np.inf] and message.startswith('90 % needs at least 9 ')",
        # the nominal coverages that give 90 % with a confidence of 95 %
        "all(beta.ppf(0.05, k := np.ceil((n + 1) * c), n + 1 - k) >= 0.9"
        " for n, c in [(999, 0.915), (99, 0.95)])",
    ],
    "docs/explanation/conformal-methods.rst": [
        "average == {'split': 0.9, 'normalized': 0.89}",
        "by_noise == {'split': [1.0, 1.0, 0.92, 0.67], 'normalized': [0.9, 0.89, 0.9, 0.86]}",
        "[round(np.mean(covered[m]), 2) for m in covered] == [0.91, 0.91]",
        "[round(np.std(covered[m]), 2) for m in covered] == [0.08, 0.04]",
        "[round(np.mean(width[m]), 1) for m in width] == [4.2, 3.9]",
        "round(covered_share, 2) == 0.91 and region_size < 0.8 * interval_width",
    ],
    "docs/explanation/networks.rst": [
        "difference < 1e-8",
        "abs(crps['plain'] - 0.43) < 0.03 and abs(crps['default'] - 0.06) < 0.01",
        "abs(crps_known - 0.06) < 0.01 and abs(crps_new - 0.7) < 0.1",
        "abs(times_as_much - 12) < 3 and np.allclose(known.total, known.aleatoric + known.epistemic)",
    ],
    "docs/explanation/network-uncertainty.rst": [
        "abs(covered_raw - 0.53) < 0.05 and abs(covered - 0.94) < 0.02",
        "np.abs(np.subtract(epistemic, [0.11, 0.08])).max() < 0.02",
        "np.abs(np.subtract(error, [0.11, 0.06])).max() < 0.02",
    ],
    "docs/explanation/forecasting-packages.rst": [
        "same_points and bounds.shape == (3, 2) and total.std()[0] > 2",
        "np.abs(coverage - 0.9).max() < 0.05",
    ],
    "docs/explanation/questions.rst": [
        "len(std) == 600 and interval.shape == (600, 2) and np.ptp(ratio) < 1e-12",
        "msll < 0 and loss > 0 and search.best_score_ < 0 and len(report) == 4 and len(by_interval) == 1",
    ],
    "docs/coming-from-other-packages.rst": ["bounds.shape == (600, 2) and quantiles.shape == (600, 3)"],
    "docs/explanation/out-of-sample-calibration.rst": ["out_of_fold > 2 * in_sample"],
    "docs/explanation/meta-estimators.rst": ["(lower > 0).all()"],
}


def blocks(page: Path) -> list[tuple[int, str, str | None]]:
    """Return the Python blocks of a page: first line, code, and the printed output if the page shows it."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return [(0, text, None)]
    pattern = MARKDOWN_BLOCK if page.suffix == ".md" else RST_BLOCK
    return [
        (
            text.count("\n", 0, match.start("code")),
            textwrap.dedent(match["code"]),
            match["output"] and textwrap.dedent(match["output"]),
        )
        for match in pattern.finditer(text)
    ]


WITH_CODE = {page.relative_to(ROOT).as_posix(): page for page in [*PAGES, *GUIDES] if blocks(page)}


@pytest.mark.parametrize("name", sorted(WITH_CODE))
def test_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = WITH_CODE[name]
    if page in GUIDES and "SKUQ_GALLERY_BUILT" in os.environ:
        pytest.skip("the build of the documentation ran it and checked its claims")
    for imports, packages in OPTIONAL.items():
        if re.search(rf"^ *(from|import) ({imports})\b", page.read_text(encoding="utf-8"), re.MULTILINE):
            for package in packages:
                pytest.importorskip(package)
    namespace: dict[str, Any] = {"__name__": "page"}
    for line, code, output in blocks(page):
        # Empty lines before the code make the line numbers of an error those of the page.
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, name, "exec"), namespace)
        if output is not None:
            assert printed.getvalue() == output
    for claim in CLAIMS.get(name, []):
        assert eval(claim, namespace), claim


COMING_FROM = ROOT / "docs/coming-from-other-packages.rst"
# What both halves of a pair of tabs compute: the names of their results.
SAME_RESULTS = {
    ("MAPIE", 0): ["interval"],
    ("MAPIE", 1): ["interval"],
    ("crepes", 0): ["quantiles"],
    ("Uncertainty Toolbox", 0): ["values"],
    ("netcal", 0): ["std", "error"],
    ("skpro", 0): ["interval"],
    ("NGBoost", 0): ["interval", "nll"],
}
MODULES = {"Uncertainty Toolbox": "uncertainty_toolbox"}  # of packages whose module has another name
TAB = re.compile(r" {4}\.\. tab-item:: (.+)\n\n {8}\.\. code-block:: python\n((?:\n| {12}.*\n)+)")


def pairs_of_tabs() -> dict[tuple[str, int], tuple[str, str]]:
    """Return the code of each pair of tabs, by package and number: the package's code and skuq's."""
    tabs = [(name, textwrap.dedent(code)) for name, code in TAB.findall(COMING_FROM.read_text("utf-8"))]
    pairs: dict[tuple[str, int], tuple[str, str]] = {}
    for (package, theirs), (name, ours) in zip(tabs[::2], tabs[1::2], strict=True):
        assert name == "skuq"
        pairs[package, sum(key[0] == package for key in pairs)] = (theirs, ours)
    return pairs


@pytest.mark.parametrize(("package", "number"), SAME_RESULTS)
def test_both_halves_of_a_pair_of_tabs_give_the_same_numbers(package: str, number: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the package are not the subject
        pytest.importorskip(MODULES.get(package, package.lower()))
    data = blocks(COMING_FROM)[0][1]
    theirs, ours = pairs_of_tabs()[package, number]
    results = []
    for code, filters in ((theirs, "ignore"), (ours, "error")):
        namespace: dict[str, Any] = {"__name__": "page"}
        with warnings.catch_warnings():
            warnings.simplefilter(filters)
            exec(compile(data + code, f"{COMING_FROM.name}, {package}", "exec"), namespace)
        results.append([namespace[name] for name in SAME_RESULTS[package, number]])
    for value, expected in zip(*results, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-8)


def test_every_pair_of_tabs_is_compared():
    assert set(pairs_of_tabs()) == set(SAME_RESULTS)
    assert COMING_FROM.read_text(encoding="utf-8").count(".. tab-item::") == 2 * len(SAME_RESULTS)


def test_every_block_is_found():
    for page in PAGES:
        marker = "```python" if page.suffix == ".md" else "code-block:: python"
        text = page.read_text(encoding="utf-8")
        assert len(blocks(page)) + len(TAB.findall(text)) == text.count(marker), page.name


def test_claims_belong_to_pages():
    assert set(CLAIMS) <= set(WITH_CODE)
    assert "README.md" in WITH_CODE
    # The build runs the guides of these folders. It checks no claims after a block that defers figures.
    assert {guide.parent.name for guide in GUIDES} == {"how_to", "tutorials"}
    assert not [guide for guide in GUIDES if "defer_figures" in guide.read_text(encoding="utf-8")]


def test_the_build_checks_the_claims_of_a_guide_after_its_last_block():
    parser = pytest.importorskip("sphinx_gallery.py_source_parser")
    guide = ROOT / "docs/guides/how_to/wrap_your_own.py"
    code = [block for block in parser.split_code_and_text_blocks(guide)[1] if block.type == "code"]
    right, wrong = ({"dist": range(100), "gamma": range(n)} for n in (2, 3))
    check = OF_GUIDES["check_claims"]
    for block, names in ((code[0], {}), (code[-1], right)):
        assert not check(block, {"src_file": str(guide), "example_globals": names}, {})
    with pytest.raises(AssertionError, match=r"len\(gamma\) == 2"):
        check(code[-1], {"src_file": str(guide), "example_globals": wrong}, {})


def test_the_build_raises_an_error_for_a_warning_of_a_script():
    with warnings.catch_warnings(record=True) as shown:
        warnings.resetwarnings()  # the filters of pytest
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # as Python does
        warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
        OF_GUIDES["warnings_are_errors"]({}, "", when="before")
        for kind, module in ((UserWarning, "other"), (DeprecationWarning, "__main__")):
            with pytest.raises(kind, match="old"):
                warnings.warn_explicit("old", kind, "file.py", 1, module)
        warnings.warn_explicit("old", DeprecationWarning, "file.py", 1, "other")
        OF_GUIDES["warnings_are_errors"]({}, "", when="after")
        warnings.warn_explicit("new", UserWarning, "file.py", 1, "other")
    assert [str(warning.message) for warning in shown] == ["new"]


def test_every_recalibrator_has_a_picture_and_a_row_in_both_tables():
    folder = ROOT / "docs" / "explanation"
    text = (folder / "recalibration.rst").read_text(encoding="utf-8")
    examples = (folder / "recalibrator-examples.rst").read_text(encoding="utf-8")
    others = {"BaseRecalibrator", "IdentityRecalibrator", "SupportMap"}
    for name in {*recalibration.__all__, "ConformalRecalibrator"} - others:
        short = name.removesuffix("Recalibrator")
        assert len(re.findall(rf"    :class:`{short} <skuq\.\w+\.{name}>` \|", text)) == 2, name
        assert len(re.findall(rf": {name}\n-+\n\n.. image:: generated/", examples)) == 1, name


def test_generated_pictures_are_those_of_the_pages(tmp_path, monkeypatch):
    docs = folder = ROOT / "docs"
    if "SKUQ_GALLERY_BUILT" not in os.environ:
        pytest.importorskip("matplotlib")
        monkeypatch.syspath_prepend(str(docs))
        folder = tmp_path
        for path in docs.glob("*_pictures.py"):
            runpy.run_path(str(path))["write_pictures"](SimpleNamespace(srcdir=folder))
    written = {path.name for path in (folder / "explanation" / "generated").glob("*.svg")}
    pages = [*docs.glob("*.rst"), *docs.glob("*/*.rst")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert set(re.findall(r"image:: \S*generated/(\S+\.svg)", text)) == written


def test_reference_table_has_every_metric():
    tables = runpy.run_path(str(ROOT / "docs" / "metric_tables.py"))
    text = tables["metric_tables"]()
    for spec in all_specs(rooms=True).values():
        assert (
            f":func:`~{tables['room_of'](spec)}.{spec.function.__name__}` | {tables['scorer_of'](spec)} |"
            in text
        )
    for _, page, _ in tables["FAMILIES"]:
        assert (ROOT / "docs" / "explanation" / f"{page}.rst").is_file()


# The five papers that skuq is built on: a part of their identifier and of their title, by first author.
SOURCES = {
    "Chung": ("2109.10254", "Uncertainty Toolbox"),
    "Wibbeke": ("2508.17761", "Evaluating the quality of the quantified uncertainty"),
    "Kompa": ("e23121608", "Empirical frequentist coverage of deep learning uncertainty"),
    "Navratil": ("2310.03158", "Assessment of prediction intervals using uncertainty characteristics"),
    "Sluijterman": ("neunet.2024.106203", "How to evaluate uncertainty estimates in machine learning"),
}
REFERENCE = re.compile(r"^    \.\. \[\d\] (?P<text>.*(?:\n {7}.*)*)", re.MULTILINE)


def test_the_readme_names_every_package_and_counts():
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in (path.parent.name for path in (ROOT / "skuq").glob("[!_]*/__init__.py")):
        assert f"`skuq.{name}`" in readme
    methods = {name for name in recalibration.__all__ if not name.startswith(("Base", "Identity"))}
    assert f"{len(methods)} recalibrators" in readme
    assert f"{len(all_specs(rooms=True))} metrics" in readme
    plots = [name for name in names_in("skuq/displays/__init__.py") if name.endswith("Display")]
    assert f"{len(plots)} plots" in readme


def test_references_name_the_papers_that_exist():
    found = dict.fromkeys(SOURCES, 0)
    for path in sorted((ROOT / "skuq").rglob("*.py")):
        for match in REFERENCE.finditer(path.read_text(encoding="utf-8")):
            text = " ".join(match["text"].split())
            assert "documentation" not in text, (path.name, text)
            for author, parts in SOURCES.items():
                if re.match(rf"(\w\. )?{author}\b", text):
                    found[author] += 1
                    assert all(part in text for part in parts), (path.name, text)
    assert all(found.values())


def test_pages_have_no_break_in_percentages_and_a_lint(monkeypatch):
    core = pytest.importorskip("docutils.core")
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs")
    transform = runpy.run_path(str(ROOT / "docs" / "no_break.py"))["NoBreakTransform"]
    document = core.publish_doctree("It covers 90 % of *all 10 % parts*, in code ``90 % of``.")
    transform(document).apply()
    assert document.astext() == "It covers 90\u00a0% of all 10\u00a0% parts, in code 90 % of."
    lint = runpy.run_path(str(ROOT / "docs" / "prose.py"))
    page = core.publish_doctree(
        "Return those of the others, as it is. The colour of ``as it is`` stands for so many."
    )
    assert lint["faults"](lint["prose_of"](page)) == [
        "colour",
        "those of",
        "as it is",
        "stands for",
        "so many",
    ]
    assert lint["faults"]("The mean of those of each row, as it is, without weights.") == []


TREE = re.compile(r"^\.\. code-block:: text\n\n(?P<tree>    skuq/\n(?:     +\S.*\n)+)", re.MULTILINE)


def packages_in(text: str) -> list[str]:
    """Return the packages in an indented tree, one folder and its purpose on each line."""
    found: list[str] = []
    parents: list[str] = []
    for line in text.splitlines():
        match = re.fullmatch(r"(?P<indent> +)(?P<name>\w+)/(?: +\S.*)?", line)
        assert match, line
        depth = len(match["indent"]) // 4 - 1
        parents[depth:] = [match["name"]]
        found.append("/".join(parents))
    return found


def test_the_architecture_page_has_the_packages_of_skuq():
    page = (ROOT / "docs/development/architecture.rst").read_text(encoding="utf-8")
    shown = packages_in(TREE.search(page)["tree"])
    folders = [path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "skuq").rglob("__init__.py")]
    assert sorted(shown) == sorted(folders)
    assert len(page.splitlines()) <= 100  # two screens


def test_the_drawing_of_a_topic_has_its_modules(subtests):
    for topic in ("conformal", "multivariate", "survival", "report"):
        with subtests.test(topic):
            folder = ROOT / "skuq" / topic
            drawing = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
            shown = set(re.findall(r"(?<!\w)_\w+", drawing))
            assert shown == {path.stem for path in folder.glob("_*.py")} - {"__init__"}


def names_in(path: str) -> set[str]:
    """Return the names that a package exports, without an import, which may need an extra."""
    return set(re.findall(r'^    "(\w+)"', (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE))


def site_app(folder: Path, site: str) -> SimpleNamespace:
    (folder / "_static").mkdir()
    config = SimpleNamespace(site=site, version="0.1.0")
    return SimpleNamespace(config=config, builder=SimpleNamespace(format="html"), outdir=folder)


@pytest.mark.parametrize("site", ["", "https://example.org/docs"])
def test_file_of_the_version_switcher_is_written_where_the_site_has_an_address(site, tmp_path):
    options = runpy.run_path(str(ROOT / "docs" / "site_options.py"))
    options["write_versions"](site_app(tmp_path, site), None)
    written = tmp_path / "_static" / "switcher.json"
    assert written.exists() == bool(site)
    if site:
        assert [entry["version"] for entry in json.loads(written.read_text("utf-8"))] == ["0.1.0"]


def test_changelog_is_translated_for_its_page(tmp_path):
    translate = runpy.run_path(str(ROOT / "docs" / "changelog.py"))
    markdown = (
        "# T\n\n## [1.0] - 2026-12-01\n\n- **a** `b`s, [c](https://example.org)\n\n"
        "  | x | `y` |\n  |---|---|\n  | 1 | 2 |\n"
    )
    assert translate["to_rst"](markdown) == (
        "T\n=\n\n1.0 - 2026-12-01\n----------------\n\n- **a** ``b``\\ s, `c <https://example.org>`__\n\n"
        "  .. list-table::\n      :header-rows: 1\n\n      * - x\n        - ``y``\n      * - 1\n        - 2\n"
    )
    translate["write_changelog"](SimpleNamespace(srcdir=tmp_path))
    written = (tmp_path / "reference/generated/changelog.inc").read_text("utf-8")
    headings = re.findall(r"^#+ (.+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    titles = [re.sub(r"[\[\]]", "", heading) for heading in headings]
    assert re.findall(r"^(.+)\n[=~-]{4,}$", written, re.MULTILINE) == titles
