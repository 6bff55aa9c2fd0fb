"""skuq in unusual surroundings: folders, locales, homes, permissions, start methods, and no shared memory."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.laws

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "Größe und Schätzung"

# Processes of joblib start anew (loky), or by multiprocessing, which imports the script.
WORK = """
import multiprocessing
import pickle
import sys
from importlib.util import find_spec
from pathlib import Path

from joblib import parallel_config
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import skuq
from skuq.report._cli import main
from skuq.datasets import load_concrete
from skuq.regressors import BootstrapRegressor

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:60], y[:60]
    expected = BootstrapRegressor(LinearRegression(), n_estimators=3, random_state=0).fit(X, y).predict(X)
    for backend in sys.argv[1:]:
        with parallel_config(backend=backend, n_jobs=2):
            model = BootstrapRegressor(LinearRegression(), n_estimators=3, random_state=0, n_jobs=2).fit(X, y)
        if abs(model.predict(X) - expected).max() > 1e-9:
            raise SystemExit(f"{backend} predicts other numbers")
    file = Path("modell für später.pkl")
    file.write_bytes(pickle.dumps(model))
    pickle.loads(file.read_bytes()).predict_interval(X)
    load_concrete(return_X_y=True)

    mean, std = model.predict(X, return_std=True)
    rows = [f"{a},{b},{c},Köln" for a, b, c in zip(y, mean, std)]
    Path("prüfung.csv").write_text("\\n".join(["Größe,mean,std,Ort", *rows]), encoding="utf-8")
    columns = ["--y", "Größe", "--loc", "mean", "--scale", "std", "--groups", "Ort", "--draws", "0"]
    if find_spec("jinja2"):
        raise SystemExit(main(["report", "prüfung.csv", *columns, "--quiet", "--output", "bericht ä.html"]))
"""


def run_work(folder: Path, *backends: str, before: tuple[str, ...] = (), **environment: str) -> str:
    """Run the work in a folder, with the environment variables that are not empty; return the errors."""
    folder.mkdir()
    (folder / "work.py").write_text(WORK, encoding="utf-8")
    variables = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    result = subprocess.run(
        [*before, sys.executable, "work.py", *backends],
        cwd=folder,
        env={name: value for name, value in variables.items() if value},
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        umask=0o077,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stderr


def test_locale_home_umask_and_name_of_the_folder(tmp_path):
    folder = tmp_path / FOLDER
    # Nobody can write to /proc, not even root. Python uses UTF-8 with the locale C.
    run_work(folder, "loky", LC_ALL="C", HOME="/proc", SKUQ_DATA="")
    pages = list(folder.glob("*.html"))
    assert len(pages) == (find_spec("jinja2") is not None)
    for page in pages:
        assert "Köln" in page.read_text(encoding="utf-8")
        assert os.name != "posix" or stat.S_IMODE(page.stat().st_mode) == 0o600


@pytest.mark.slow
def test_no_home(tmp_path):
    run_work(
        tmp_path / "work",
        "loky",
        HOME="",
        USERPROFILE="",
        XDG_CACHE_HOME="",
        XDG_CONFIG_HOME="",
        SKUQ_DATA="",
    )


@pytest.mark.slow
def test_no_shared_memory(tmp_path):
    """A mount namespace hides /dev/shm, as in some containers."""
    unshare = shutil.which("unshare")
    hide = 'mount -t tmpfs -o ro,size=4k none /dev/shm && exec "$@"'
    before = (unshare or "unshare", "--mount", "sh", "-c", hide, "sh")
    if not unshare or subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no permission to mount a file system")
    run_work(tmp_path / "work", "loky", before=before, SKUQ_DATA="")
