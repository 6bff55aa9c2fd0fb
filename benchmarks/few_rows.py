"""Coverage of intervals after training on few rows.

Run as a script; with ``--sets`` training sets for each number of rows. Each row of the printed table is a
method, each column a number of training rows: the mean coverage of 90 % intervals over training sets.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from skuq import UncertaintyRegressor
from skuq.regressors import BootstrapRegressor, ConformalRegressor, MixtureRegressor, ResidualRegressor

COVERAGE = 0.9
ROWS = (8, 12, 20, 30, 50)
TEST_ROWS = 500
N_FEATURES = 4


def linear(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with a linear mean and normal noise of one scale."""
    X = rng.normal(size=(n, N_FEATURES))
    return X, X @ np.array([1.0, -1.0, 0.5, 0.0]) + rng.normal(size=n)


def skewed(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose noise is skewed, and of a scale that grows eightfold with the second feature."""
    X = rng.uniform(size=(n, N_FEATURES))
    scale = 0.25 * 8 ** X[:, 1]
    return X, 3 * X[:, 0] + np.sin(6 * X[:, 2]) + scale * (rng.gamma(2.0, size=n) - 2) / np.sqrt(2)


WORLDS = {"linear": linear, "skewed": skewed}


def boosting(seed: int) -> Any:
    return HistGradientBoostingRegressor(min_samples_leaf=5, max_iter=50, random_state=seed)


def forest(seed: int) -> Any:
    return RandomForestRegressor(50, random_state=seed)


def pool(seed: int) -> Any:
    members = [
        ("ridge", UncertaintyRegressor(Ridge())),
        ("forest", UncertaintyRegressor(forest(seed))),
        ("neighbors", UncertaintyRegressor(KNeighborsRegressor(2))),
    ]
    return MixtureRegressor(members, random_state=seed)


METHODS: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: UncertaintyRegressor(forest(seed), random_state=seed),
    "residual, ridge": lambda seed: UncertaintyRegressor(Ridge(), random_state=seed),
    "residual, ridge, low": lambda seed: UncertaintyRegressor(Ridge(), effort="low", random_state=seed),
    "residual, ridge, high": lambda seed: UncertaintyRegressor(Ridge(), effort="high", random_state=seed),
    "residual, ridge, normal": lambda seed: ResidualRegressor(Ridge(), shape="normal", random_state=seed),
    "residual, boosting": lambda seed: UncertaintyRegressor(boosting(seed), random_state=seed),
    "residual, neighbors": lambda seed: UncertaintyRegressor(KNeighborsRegressor(2), random_state=seed),
    "bootstrap, ridge": lambda seed: BootstrapRegressor(Ridge(), random_state=seed),
    "bootstrap, forest": lambda seed: BootstrapRegressor(forest(seed), random_state=seed),
    "pool": pool,
    "conformal, ridge": lambda seed: ConformalRegressor(Ridge(), "cv+", random_state=seed),
}


def coverage(make: Callable[[int], Any], world: str, n: int, seed: int) -> dict[str, float]:
    """Return the coverage on new rows after training on n rows."""
    rng = np.random.default_rng([seed, n])
    X, y = WORLDS[world](n, rng)
    X_test, y_test = WORLDS[world](TEST_ROWS, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(seed).fit(X, y)
        lower, upper = model.predict_interval(X_test, COVERAGE).T
        out = {"covered": float(np.mean((lower <= y_test) & (y_test <= upper)))}
        try:
            dist = model.predict_dist(X_test)
            for c in (0.5, 0.8, 0.98):
                l, u = dist.interval(c).T
                out[f"c{c}"] = float(np.mean((l <= y_test) & (y_test <= u)))
            crps = dist.crps(y_test)
            out["crps"] = float(np.mean(crps)) if np.isfinite(crps).all() else np.nan
            sd = dist.std()
            out["std"] = float(np.median(sd))
        except Exception as e:
            pass
        out["width"] = float(np.median(upper - lower))
        out["is"] = float(np.mean(upper - lower + 20 * np.maximum(lower - y_test, 0) + 20 * np.maximum(y_test - upper, 0)))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=40, help="number of training sets")
    parser.add_argument("--methods", default="", help="only methods whose name contains one of these, comma separated")
    parser.add_argument("--worlds", default="linear,skewed")
    parser.add_argument("--rows", default="8,12,20,30,50")
    chosen = parser.parse_args()
    results = []
    for world in chosen.worlds.split(","):
        for name, make in METHODS.items():
            if not any(part in name for part in chosen.methods.split("|")):
                continue
            start = time.process_time()
            for n in map(int, chosen.rows.split(",")):
                for seed in range(chosen.sets):
                    results.append({"world": world, "method": name, "rows": n, **coverage(make, world, n, seed)})
    frame = pd.DataFrame(results)
    for what in ("covered", "c0.5", "c0.8", "c0.98", "crps", "is"):
        print(what)
        print(frame.pivot_table(what, ["world", "method"], "rows", aggfunc="mean", sort=False).round(3).to_string())


if __name__ == "__main__":
    main()
