"""The commands of the Makefile for systems without make, such as Windows: `nox -s test`.

`nox --list` prints all sessions. Arguments for pytest follow two hyphens: `nox -s test -- tests/metrics -x`.
"""

import shutil
from pathlib import Path

import nox

nox.options.sessions = ["lint", "test"]
nox.options.reuse_existing_virtualenvs = True

# Test tools for the environments without related packages and networks, as in the Makefile.
TOOLS = ["pytest", "pytest-timeout", "pytest-xdist", "psutil", "hypothesis", "mpmath"]
PYTEST = ["-m", "pytest", "-n", "logical", "--dist", "worksteal", "--durations=20"]
QUICK = ["tests/test_architecture.py", "tests/test_public_api.py", "skuq"]
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
NIGHTLY = "https://pypi.anaconda.org/scientific-python-nightly-wheels/simple"


@nox.session
def lint(session: nox.Session) -> None:
    """Check style (ruff) and types (mypy)."""
    session.install("-c", "constraints.txt", "-e", ".[lint]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


@nox.session
def check(session: nox.Session) -> None:
    """Run one quick test of every module."""
    session.install("-c", "constraints.txt", "-e", ".[test]")
    session.run("python", *PYTEST, *QUICK, *session.posargs, env=THREADS)


@nox.session
def test(session: nox.Session) -> None:
    """Run the tests and doctests of a commit."""
    session.install("-c", "constraints.txt", "-e", ".[test]")
    session.run("python", *PYTEST, *session.posargs, env=THREADS)


@nox.session(name="test-all")
def test_all(session: nox.Session) -> None:
    """Run all tests: also pages, examples, papers, and studies of many seeds."""
    # Without npm or its registry, only the test of the page in a browser fails.
    if shutil.which("npm"):
        install = ["npm", "install", "--no-package-lock", "--ignore-scripts", "--silent"]
        session.run(*install, external=True, success_codes=range(256))
    session.install("-c", "constraints.txt", "-e", ".[test]")
    session.run("python", *PYTEST, "-m", "not slow and not gpu", *session.posargs, env=THREADS)


@nox.session
def newest(session: nox.Session) -> None:
    """Run the tests on the newest versions, without related packages."""
    session.install("--upgrade", "--upgrade-strategy", "eager", "-e", ".[plot,progress]", *TOOLS)
    session.run("python", *PYTEST, *session.posargs, env=THREADS)


@nox.session
def nightly(session: nox.Session) -> None:
    """Run the tests on the nightly numpy, scipy, pandas and scikit-learn."""
    session.install("-e", ".[plot,progress]", *TOOLS)
    packages = ["numpy", "scipy", "pandas", "scikit-learn"]
    session.install("--pre", "--upgrade", "--no-deps", "--index-url", NIGHTLY, *packages)
    # Deprecations in a version that is not released are reported, and do not fail.
    session.run("python", *PYTEST, "-W", "default", *session.posargs, env=THREADS)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation, with warnings as errors."""
    session.install("-c", "constraints.txt", "-e", ".[docs]")
    session.run(
        "sphinx-build", "-W", "--keep-going", "-q", "-j", "auto", "docs", "docs/_build/html", env=THREADS
    )


@nox.session
def workflows(session: nox.Session) -> None:
    """Check the files of GitHub: their schemas, and the security of the workflows."""
    session.install("check-jsonschema", "zizmor")
    workflows = sorted(Path(".github/workflows").glob("*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, workflows))
    session.run("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
    session.run("zizmor", "--offline", ".github")


@nox.session
def audit(session: nox.Session) -> None:
    """Look for known vulnerabilities in the dependencies of skuq."""
    session.install("pip-audit", ".")
    session.run("pip-audit", "--local", "--skip-editable")


@nox.session
def news(session: nox.Session) -> None:
    """Fail if the branch has no news fragment in changes/."""
    session.install("towncrier")
    session.run("towncrier", "check", "--compare-with", *(session.posargs or ["origin/main"]))
