"""The sdist runs its own tests, the wheel works with the core dependencies alone, the conda recipe agrees."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

import skuq
from tests.test_docs import GUIDES, PAGES, blocks
from tests.test_public_api import PUBLIC

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BACKEND = PYPROJECT["project"], PYPROJECT["build-system"]["requires"]

# Every module a user imports, but for skuq.neural, which needs torch to be imported at all.
EVERYTHING = (
    "import skuq, skuq.datasets, skuq.displays, skuq.distributions, skuq.exceptions, skuq.metrics, "
    "skuq.model_selection, skuq.prediction, skuq.recalibration, skuq.regressors"
)
FIT = (
    EVERYTHING
    + """
from sklearn.datasets import make_regression
from sklearn.linear_model import LinearRegression
X, y = make_regression(60, 2, noise=1.0, random_state=0)
model = skuq.UncertaintyRegressor(LinearRegression(), random_state=0).fit(X, y)
skuq.metrics.crps_loss(y, skuq.predict_dist(model, X))
skuq.datasets.load_concrete()
"""
)
BASE = ["skuq._compat", "skuq.exceptions"]
DATA = ("abalone", "airfoil_self_noise", "auto_mpg", "concrete_strength")
LOADED = """
import sys
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""
RATIO = """
import time
start = time.process_time()
import sklearn.ensemble, pandas
middle = time.process_time()
from skuq import UncertaintyRegressor, get_scorer, predict_dist
print((time.process_time() - start) / (middle - start))
"""


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """Return what a command prints; fail with all it wrote where it ends in an error."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def names(requirements: list[str]) -> set[str]:
    """Return the names of requirements such as ``numpy>=2.0``, but for skuq itself."""
    return {requirement.split(">")[0].split("[")[0] for requirement in requirements} - {"skuq"}


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the build backend, or skip where no package index answers."""
    folder = tmp_path_factory.mktemp("backend")
    command = [*PIP, "install", "--quiet", "--retries", "1", "--timeout", "15", "--target", str(folder)]
    result = subprocess.run([*command, "hatchling>=1.25"], capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"no package index answers: {(result.stderr.splitlines() or ['no output of pip'])[-1]}")
    return folder


@pytest.fixture(scope="module")
def sdist(backend: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the sdist of this tree is unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    build = f"from hatchling.build import build_sdist; build_sdist({str(folder)!r})"
    run(sys.executable, "-c", build, PYTHONPATH=str(backend))
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


def test_sdist_runs_its_own_tests(sdist):
    if (ROOT / ".git").exists():
        tracked = run("git", "ls-files").splitlines()
        assert not [name for name in tracked if not (sdist / name).exists()]
    # They read skuq and benchmarks, and use the helpers, the data and the configuration of the tests.
    tests = [
        "tests/test_architecture.py::test_skuq_keeps_the_rules",
        "tests/test_benchmarks.py::test_both_sides_of_a_line_agree",
        "tests/_fitting/test_target_units.py",
    ]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", ""]
    run(sys.executable, "-m", "pytest", *options, *tests, cwd=sdist, PYTHONPATH="")


def import_ratio(python: Path) -> float:
    """Return the time to import the quick start's names, divided by the time of scikit-learn and pandas.

    Both are processor times of one process, so that a busy machine disturbs both; the smallest ratio of
    several processes counts. All modules have been compiled before.
    """
    return min(float(run(python, "-I", "-c", RATIO)) for _ in range(2))


@pytest.mark.timeout(900)  # it downloads and installs
def test_wheel_works_with_core_dependencies_alone(backend, sdist, tmp_path):
    build = f"from hatchling.build import build_wheel; build_wheel({str(tmp_path)!r})"
    run(sys.executable, "-c", build, cwd=sdist, PYTHONPATH=str(backend))
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "empty")
    python = tmp_path / "empty" / ("Scripts" if os.name == "nt" else "bin") / "python"
    # The versions that run this test, so that nothing new is downloaded.
    pinned = [f"{name}=={version(name)}" for name in names(PROJECT["dependencies"])]
    run(*PIP, "--python", python, "install", "--quiet", "--no-compile", wheel, *pinned)

    page = ROOT / "README.md"
    run(python, "-I", "-c", "\n".join(code for _, code, _ in blocks(page)), cwd=tmp_path)
    assert "matplotlib" not in run(python, "-I", "-c", FIT + LOADED, cwd=tmp_path).split()
    assert import_ratio(python) < 1.25
    files = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in files if not name.endswith(".py")} == {
        "skuq/py.typed",
        "skuq/datasets/sets.toml",
        "skuq/report/page.html.jinja",
        "skuq/report/sort.js",
        *(f"skuq/datasets/data/{name}.csv.gz" for name in DATA),
        *(f"skuq-{skuq.__version__}.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL")),
        f"skuq-{skuq.__version__}.dist-info/licenses/LICENSE",
    }
    assert not [name for name in files if "test" in name]


ONE_PROCESS = f"""
import json
import pydoc
import sys

missing, found = set(), {{}}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())

def message(package, code):
    missing.clear()
    missing.add(package)
    try:
        exec(code, {{"skuq": skuq}})
    except ImportError as error:
        return str(error)

import skuq
found["first"] = sorted(name for name in sys.modules if name.startswith("skuq."))
skuq.metrics
found["metrics"] = "skuq.metrics" in sys.modules
exec({FIT!r})
found["loaded"] = sorted({{name.split(".")[0] for name in sys.modules}})
found["skore"] = skuq.integrations.skore.__name__
display = "skuq.displays.ReliabilityDisplay.from_predictions([0.0], skuq.distributions.Normal([0.0], [1.0]))"
found["matplotlib"] = message("matplotlib", display)
found["torch"] = message("torch", "skuq.neural")
found["help"] = pydoc.render_doc(skuq)
found["skorch"] = message("skorch", "from skuq.neural import PNNRegressor")
print(json.dumps(found))
"""


def test_packages_are_loaded_on_their_first_use_and_errors_name_missing_extras():
    found = json.loads(run(sys.executable, "-c", ONE_PROCESS))
    assert found["first"] == BASE
    assert found["metrics"]
    optional = names([name for extra in PROJECT["optional-dependencies"].values() for name in extra])
    # scikit-learn's own progress bars load rich, and pandas loads pyarrow where it is installed
    optional -= {"rich", "pyarrow", *names(PROJECT["dependencies"])}
    installed = {
        module
        for module, distributions in packages_distributions().items()
        if optional & {distribution.lower() for distribution in distributions}
    }
    assert not set(found["loaded"]) & installed
    assert found["skore"] == "skuq.integrations.skore"
    for module, extra in (("matplotlib", "plot"), ("torch", "torch"), ("skorch", "torch")):
        assert f'pip install "skuq[{extra}]"' in found[module]
    assert "UncertaintyRegressor" in found["help"]  # help needs no extra


def test_extras_are_quoted_and_exist():
    for page in [*PAGES, *GUIDES, *(ROOT / "skuq").rglob("*.py")]:
        for found in re.findall(r"pip install [^`\n]*\[.*", page.read_text(encoding="utf-8")):
            extra = re.match(r'pip install (?:-e )?"(?:skuq|\.)\[(\w+)\]"', found)
            assert extra, f"{page.name}: {found}"
            assert extra[1] in PROJECT["optional-dependencies"], f"{page.name}: {found}"


# ------------------------------------------------------------------------------------------------- conda


def lower_bounds(listed: list[str]) -> dict[str, str]:
    """Return the lower bounds of requirements by name."""
    return {name.strip(): bound for name, _, bound in (line.partition(">=") for line in listed)}


def test_the_conda_recipe_agrees_with_the_project():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text(encoding="utf-8"))
    parts = {"schema_version", "context", "package", "source", "build", "requirements", "tests", "about"}
    assert recipe.keys() == parts
    assert recipe["schema_version"] == 1
    assert recipe["build"].keys() == {"number", "noarch", "script"}
    assert recipe["build"]["noarch"] == "python"
    assert recipe["about"].keys() == {"summary", "license", "license_file"}
    assert recipe["about"]["license"] == PROJECT["license"]
    assert (ROOT / recipe["about"]["license_file"]).is_file()
    assert recipe["context"]["version"] == PROJECT["version"] == skuq.__version__
    assert recipe["package"] == {"name": "skuq", "version": "${{ version }}"}
    assert recipe["source"] == {"path": "../dist/skuq-${{ version }}.tar.gz"}
    host, run_time = (lower_bounds(recipe["requirements"][part]) for part in ("host", "run"))
    python = {"python": PROJECT["requires-python"].removeprefix(">=")}
    assert run_time == lower_bounds(PROJECT["dependencies"]) | python
    assert host == lower_bounds(BACKEND) | python | {"pip": ""}
    imported, script = recipe["tests"]
    assert imported["python"].keys() == {"imports", "pip_check"}
    with_extras = ("skuq.neural", "skuq.displays", "skuq.integrations")
    assert set(imported["python"]["imports"]) == {name for name in PUBLIC if not name.startswith(with_extras)}
    assert script["script"] == ["python -m skuq --version"]  # tests/report runs it
