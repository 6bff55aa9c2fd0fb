"""Every script of examples/ runs and shows a plot; every public estimator and display has an example."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "examples"
QUICKSTART = GALLERY / "plot_01_quickstart.py"
SECTIONS = sorted(path.parent for path in GALLERY.glob("*/GALLERY_HEADER.rst"))
SCRIPTS = [QUICKSTART, *(script for section in SECTIONS for script in sorted(section.glob("*.py")))]
MAX_CODE_LINES = 40
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Packages that an example may need and that the oldest supported set goes without.
EXTRAS = ("matplotlib",)
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}

every_script = pytest.mark.parametrize(
    "script", SCRIPTS, ids=lambda script: f"{script.parent.name}/{script.stem}"
)


def skip_without_extras(script: Path) -> None:
    """Skip the test if an optional package is missing that a script imports, itself or by way of skuq."""
    text = script.read_text(encoding="utf-8")
    imported = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    needed = [package for package in EXTRAS if package in imported]
    needed += ["torch", "skorch"] if "from skuq.neural import" in text else []
    needed += ["torch", "gpytorch"] if "SparseGaussianProcessRegressor" in text else []
    for package in needed:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the example needs {package}")


def code_lines(script: Path) -> int:
    """Return the number of lines with code: those without a token of it, and the docstring, do not count."""
    text = script.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line
        for token in tokens
        if token.type not in LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    docstring = ast.parse(text).body[0]
    return len(lines - set(range(docstring.lineno, (docstring.end_lineno or 0) + 1)))


def public_names(module: str) -> list[str]:
    """Return the public estimators of a module of skuq, without base classes; of displays all names."""
    names = vars(importlib.import_module(f"skuq.{module}"))
    return [
        name
        for name in names["__all__"]
        if name.endswith("Display")
        or (isinstance(names[name], type) and issubclass(names[name], BaseEstimator))
        if not name.startswith("Base")
    ]


def imported_names(script: Path) -> set[str]:
    """Return the names that a script imports from skuq."""
    return {
        alias.name
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "skuq"
        for alias in node.names
    }


def test_every_folder_but_the_studies_is_a_section():
    folders = {path.parent for path in GALLERY.rglob("plot_*.py")} - {GALLERY}
    assert set(SECTIONS) == folders
    assert len(SCRIPTS) > 50


def test_text_of_a_cell_begins_on_the_line_after_its_marker():
    # The page does not show text that follows the marker on the same line.
    scripts = [*GALLERY.rglob("*.py"), *(ROOT / "docs" / "guides").rglob("*.py")]
    pattern = re.compile(r"^# %%[ \t]+\S", re.MULTILINE)
    assert [script.name for script in scripts if pattern.search(script.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "module", ["regressors", "conformal", "neural", "recalibration", "displays", "survival", "multivariate"]
)
def test_every_public_name_has_an_example(module):
    if module == "neural":
        pytest.importorskip("skorch")
    used = set().union(*map(imported_names, SCRIPTS))
    assert public_names(module)
    assert set(public_names(module)) - used == set()


@every_script
def test_example_has_a_title_and_at_most_forty_lines_of_code(script):
    assert re.fullmatch(r"plot_\w+\.py", script.name)
    title, underline = (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split("\n")[
        :2
    ]
    assert title
    assert underline == "=" * len(title)
    assert code_lines(script) <= MAX_CODE_LINES


@pytest.mark.skipif("SKUQ_GALLERY_BUILT" in os.environ, reason="the build of the documentation ran them")
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
@pytest.mark.parametrize("script", SCRIPTS[1:], ids=lambda script: f"{script.parent.name}/{script.stem}")
def test_example_runs_and_shows_a_plot(script, capsys, tmp_path, monkeypatch):
    skip_without_extras(script)
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    plt.close("all")
    runpy.run_path(str(script), run_name="__main__")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert capsys.readouterr().out.strip(), "the example prints nothing"
    assert len(figures) in {1, 2}
    for figure in figures:
        labels = [axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes]
        assert any(labels), "the axes have no labels"
        with io.BytesIO() as picture:
            figure.savefig(picture, dpi=50)
            assert len(picture.getvalue()) > 3000, "the plot is nearly empty"
    plt.close("all")


NUMBER = re.compile(r"(?<![\w.])\d+(?:_\d+)*(?:\.\d+)?")
# Numbers in sentences that are neither printed nor in the code: sizes of data, defaults, years, and results
# of arithmetic.
DERIVED = {
    "plot_01_quickstart": {"1.5", "412"},
    "conformal/plot_split": {"258"},
    "displays/plot_class_reliability": {"0.6"},
    "displays/plot_pit_histogram": {"95"},
    "displays/plot_prediction_set": {"98"},
    "displays/plot_reliability": {"47"},
    "model_selection/plot_cross_validation": {"206"},
    "model_selection/plot_search_by_crps": {"17"},
    "neural/plot_mc_dropout": {"3"},
    "neural/plot_pnn": {"90", "92"},
    "neural/plot_probabilistic_net": {"142"},
    "neural/plot_training_curve": {"2021"},
    "questions/plot_groups": {"1030", "428"},
    "questions/plot_time_order": {"1970", "1973", "80"},
    "questions/plot_too_narrow": {"90"},
    "recalibration/plot_comparison": {"12"},
    "recalibration/plot_frozen": {"400"},
    "recalibration/plot_isotonic_distributional": {"3", "50"},
    "recalibration/plot_std_scaling": {"111"},
    "regressors/plot_forest_distribution": {"1.5", "412"},
    "regressors/plot_residual": {"90"},
    "regressors/plot_uncertainty_regressor": {"392"},
}


def is_one_of(number: str, text: str, tolerance: float) -> bool:
    """Return whether a number is in a text, rounded, and perhaps as a share or in thousands.

    The tolerance is in units of the last digit.
    """
    error = tolerance / 10.0 ** len(number.partition(".")[2]) + 1e-9
    values = [float(value) for value in NUMBER.findall(text)]
    return any(abs(scale * value - float(number)) <= error for value in values for scale in (1, 100, 1000))


@every_script
def test_numbers_in_sentences_are_printed_or_in_the_code(script):
    """In a page of an earlier build, outputs are old; continuous integration builds all pages."""
    parser = pytest.importorskip("sphinx_gallery.py_source_parser")
    name = script.relative_to(GALLERY).with_suffix("").as_posix()
    page = ROOT / "docs" / "auto_examples" / f"{name}.rst"
    built = page.with_suffix(".py")
    if not built.is_file() or built.read_text(encoding="utf-8") != script.read_text(encoding="utf-8"):
        pytest.skip("the page of this example is not built: run `make docs` first")
    blocks = parser.split_code_and_text_blocks(script)[1]
    text = " ".join(block.content for block in blocks if block.type == "text")
    numbers = set(NUMBER.findall(re.sub(r":\w+:`[^`]*`|``[^`]*``", "", text)))
    code = " ".join(block.content for block in blocks if block.type == "code")
    output = re.findall(r"code-block:: none\n((?:\n| .*\n)+)", page.read_text(encoding="utf-8"))
    # Outputs may depend on the processor.
    printed = {number for number in numbers if is_one_of(number, " ".join(output), tolerance=1)}
    written = {number for number in numbers if is_one_of(number, code, tolerance=0.5)}
    assert numbers - printed - written <= DERIVED.get(name, set())


def test_the_demo_runs_the_quick_start_and_saves_its_plots(tmp_path):
    skip_without_extras(QUICKSTART)
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",  # two threads beside other tests on as many cores take ten times as long
        "PYTHONWARNINGS": "error::FutureWarning",
    }
    result = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "demo.py")],  # what `make demo` runs
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Best candidate" in result.stdout
    assert "Warning" not in result.stderr, result.stderr
    pictures = sorted((tmp_path / "plots").glob("*.png"))
    assert [picture.name for picture in pictures] == [f"quick-start-{number}.png" for number in (1, 2, 3)]
    assert str(tmp_path) not in result.stdout, "a page shows a path of the machine that built it"
    for picture in pictures:
        content = picture.read_bytes()
        assert content.startswith(PNG_SIGNATURE)
        assert len(content) > 5000, f"{picture.name} is nearly empty"


def test_the_first_lines_of_the_quick_start_wrap_and_fit_a_model():
    first_block = QUICKSTART.read_text(encoding="utf-8").split("# %%")[0]
    code = [line for line in first_block.split('"""')[2].splitlines() if line and "import" not in line]
    assert any("UncertaintyRegressor(" in line and ".fit(" in line for line in code[:5])
