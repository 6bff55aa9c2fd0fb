"""Coverage of 90 % intervals after training on few rows.

Run as `python benchmarks/few_rows.py [--sets 60] [--methods forest]`. The script prints one table for each
process that generates data. Each row of a table is a method, and each column is a number of training rows.
The entries are the mean coverages of new rows over training sets. With 8 rows, the intervals of conformal
prediction are infinite. Each result is appended to ``few_rows.jsonl``. Results in the file are not computed
again, so you can stop the script and continue later. Results of an earlier version of skuq are also reused,
until you delete the file.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, missing, show, stored
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from skuq.conformal import CrossConformalRegressor
from skuq.exceptions import SmallSampleWarning
from skuq.regressors import BootstrapRegressor, MixtureRegressor, UncertaintyRegressor

RESULTS = Path(__file__).with_suffix(".jsonl")
COVERAGE = 0.9
ROWS = (8, 12, 20, 30, 50)
TEST_ROWS = 500
N_FEATURES = 4


def linear(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with a linear mean and normal noise with a constant scale."""
    X = rng.normal(size=(n, N_FEATURES))
    return X, X @ np.array([1.0, -1.0, 0.5, 0.0]) + rng.normal(size=n)


def skewed(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with a curved mean and skewed noise, whose scale increases eightfold with one feature."""
    X = rng.uniform(size=(n, N_FEATURES))
    scale = 0.25 * 8 ** X[:, 1]
    return X, 3 * X[:, 0] + np.sin(6 * X[:, 2]) + scale * (rng.gamma(2.0, size=n) - 2) / np.sqrt(2)


PROCESSES = {"linear": linear, "skewed": skewed}


def forest(seed: int) -> Any:
    return UncertaintyRegressor(RandomForestRegressor(50, random_state=seed), random_state=seed)


def residual(model: Any, seed: int, **params: Any) -> Any:
    return UncertaintyRegressor(model, random_state=seed, **params)


def boosting(seed: int) -> Any:
    return HistGradientBoostingRegressor(min_samples_leaf=5, max_iter=50, random_state=seed)


def pool(seed: int) -> Any:
    members = [
        ("ridge", UncertaintyRegressor(Ridge())),
        ("forest", UncertaintyRegressor(RandomForestRegressor(50))),
        ("neighbors", UncertaintyRegressor(KNeighborsRegressor(2))),
    ]
    return MixtureRegressor(members, random_state=seed)


METHODS: dict[str, Callable[[int], Any]] = {
    "forest": forest,
    "residual, Ridge": lambda seed: residual(Ridge(), seed),
    'residual, Ridge, effort "low"': lambda seed: residual(Ridge(), seed, effort="low"),
    "residual, boosting": lambda seed: residual(boosting(seed), seed),
    "residual, nearest neighbors": lambda seed: residual(KNeighborsRegressor(2), seed),
    "bootstrap, Ridge": lambda seed: BootstrapRegressor(Ridge(), random_state=seed),
    "pool of Ridge, forest and neighbors": pool,
    "conformal, Ridge (CV+)": lambda seed: CrossConformalRegressor(Ridge(), random_state=seed),
}


def evaluate(method: str, case: str, seed: int) -> dict[str, Any]:
    """Return the coverage of new rows after training on the rows of a case, such as "linear, 20"."""
    process, rows = case.split(", ")
    n = int(rows)
    rng = np.random.default_rng([seed, n])
    X, y = PROCESSES[process](n, rng)
    X_test, y_test = PROCESSES[process](TEST_ROWS, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        lower, upper = METHODS[method](seed).fit(X, y).predict_interval(X_test, COVERAGE).T
    covered = float(np.mean((lower <= y_test) & (y_test <= upper)))
    key = {"method": method, "set": case, "seed": seed}
    return {**key, "process": process, "rows": n, "coverage": covered}


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return mean coverages over training sets: one row per method, one column per number of rows."""
    means = results.groupby(["method", "rows"], sort=False)["coverage"].mean()
    return means.unstack(sort=False)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--sets", type=int, default=60, help="number of training sets for each number of rows"
    )
    parser.add_argument("--methods", default="", help="run only methods whose name contains this text")
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    names = [name for name in METHODS if chosen.methods in name]
    tasks = [
        (name, f"{process}, {n}", seed)
        for process, name, n in itertools.product(PROCESSES, names, ROWS)
        for seed in range(chosen.sets)
    ]
    results = stored(chosen.results)
    missing(results, tasks, evaluate, chosen.results)
    there = pd.DataFrame(results).set_index(["method", "set", "seed"]).loc[tasks].reset_index()
    for process in PROCESSES:
        show(f"few_rows-{process}", table(there[there["process"] == process]), decimals=2)


if __name__ == "__main__":
    main()
