"""Steps of a release. Nothing is uploaded.

python .ci/release.py bump 0.2.0        write the version, and the news fragments into the changelog
python .ci/release.py build dist        build the sdist and the wheel twice, and require equal hashes
python .ci/release.py rehearse 0.2.0    all steps in a clean clone, and a trial of the wheel on each Python

The environment needs `build`, `twine` and `towncrier`; a rehearsal also needs `cyclonedx-bom`.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("python3.11", "python3.12", "python3.13")
VERSIONS = {
    "pyproject.toml": r'^version = "(.*)"$',
    "skuq/_compat.py": r'^__version__ = "(.*)"$',
    "CITATION.cff": r"^version: (.*)$",
    "conda/recipe.yaml": r'^  version: "(.*)"$',
}
# Tests of the core dependencies: the public names, and each family, metric, recalibrator and regressor.
TESTS = (
    "tests/test_public_api.py",
    "tests/distributions/test_families.py",
    "tests/metrics/test_laws.py",
    "tests/test_one_row.py",
)
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "psutil", "hypothesis", "mpmath")


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """Print the first line of a command, run the command, and return its output."""
    parts = list(map(str, command))
    shown = " ".join(Path(part).name if part.startswith("/") else part for part in parts)
    print("$", shown.partition("\n")[0], flush=True)
    result = subprocess.run(
        parts, cwd=cwd, env=os.environ | environment, check=False, stdout=subprocess.PIPE, text=True
    )
    if result.returncode:
        raise SystemExit(f"{result.stdout}\nThe command failed with status {result.returncode}.")
    return result.stdout


def bump(version: str, root: Path = ROOT) -> None:
    """Write a version into the files of VERSIONS, and the news fragments into the changelog."""
    for name, pattern in VERSIONS.items():
        path = root / name
        text = path.read_text(encoding="utf-8")
        old = re.search(pattern, text, re.MULTILINE)
        path.write_text(text[: old.start(1)] + version + text[old.end(1) :], encoding="utf-8")
    run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, cwd=root)
    changelog = root / "CHANGELOG.md"
    changelog.write_text(first_version(changelog.read_text(encoding="utf-8")), encoding="utf-8")


def first_version(changelog: str) -> str:
    """Join the unreleased text and the news of the first version, which begins with the unreleased text."""
    head, heading, rest = changelog.partition("<!-- news -->\n\n")
    news, unreleased, text = rest.partition("## [Unreleased]\n\n")
    if not unreleased:
        return changelog
    title, _, news = news.partition("\n")
    return f"{head}{heading}{title}\n\n{text.strip()}\n\n{news.strip()}\n"


def build(folder: Path, root: Path = ROOT) -> None:
    """Build the sdist and the wheel twice, at the time of the commit, and compare the hashes."""
    epoch = run("git", "log", "-1", "--format=%ct", cwd=root).strip()
    hashes = []
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "build", "--outdir", folder, root, cwd=root, SOURCE_DATE_EPOCH=epoch)
        files = sorted(folder.iterdir())
        hashes.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
    if hashes[0] != hashes[1]:
        raise SystemExit(f"Two builds differ: {hashes[0]} and {hashes[1]}.")
    for name, digest in hashes[0].items():
        print(f"{digest}  {name}", flush=True)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(folder.iterdir()), cwd=root)


def sbom(python: Path, file: Path) -> None:
    """Write the software bill of materials of an environment in which the wheel is installed."""
    run(sys.executable, "-m", "cyclonedx_py", "environment", "--output-file", file, python)


def try_wheel(name: str, clone: Path, wheel: Path, folder: Path) -> Path:
    """Install the wheel into an empty environment, run the quick start, and return the Python."""
    interpreter = run(clone / ".ci" / "python", name).strip()
    run(interpreter, "-m", "venv", folder / name)
    python = folder / name / "bin" / "python"
    pip = (python, "-m", "pip", "install", "-qq", "--no-compile", "--disable-pip-version-check")
    run(*pip, wheel)
    readme = (clone / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL))
    print(run(python, "-I", "-W", "error::FutureWarning", "-c", code, cwd=folder), end="", flush=True)
    return python


def test_wheel(python: Path, sdist: Path, folder: Path) -> None:
    """Run tests of the sdist on the installed wheel."""
    run(python, "-m", "pip", "install", "-qq", "--no-compile", "--disable-pip-version-check", *TOOLS)
    with tarfile.open(sdist) as content:
        content.extractall(folder / "sdist", filter="data")
    (unpacked,) = (folder / "sdist").iterdir()
    shutil.rmtree(unpacked / "skuq")  # The tests import the installed skuq.
    pytest = (python, "-m", "pytest", "-q", "-n", "logical", "-p", "no:cacheprovider")
    output = run(*pytest, *TESTS, cwd=unpacked, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    print(output.splitlines()[-1], flush=True)
    shutil.rmtree(folder / "sdist")


def rehearse(version: str) -> None:
    """Perform the steps of a release in a clean clone of the last commit."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        clone = folder / "skuq"
        run("git", "clone", "--quiet", ROOT, clone)
        bump(version, clone)
        run("git", "commit", "--quiet", "--all", "--message", f"Release {version}", cwd=clone)
        build(folder / "dist", clone)
        (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
        for name in PYTHONS:
            python = try_wheel(name, clone, wheel, folder)
            if name == PYTHONS[0]:
                sbom(python, folder / "dist" / "sbom.json")
            test_wheel(python, sdist, folder)
        print(f"{version} is ready:", *(path.name for path in sorted((folder / "dist").iterdir())))


def main() -> None:
    """Perform the step that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("bump", "build", "rehearse"))
    parser.add_argument("argument", help="a version, or the folder of the built files")
    options = parser.parse_args()
    if options.step == "build":
        build(Path(options.argument).resolve())
    else:
        {"bump": bump, "rehearse": rehearse}[options.step](options.argument)


if __name__ == "__main__":
    main()
