"""Compare searches with budgets of seconds, each in a new process, with a plain forest.

Run as `python benchmarks/short_budgets.py`. It runs budgets of 2, 5, 10 and 20 seconds on five real data sets
with at most 2000 training rows and one seed, which takes four minutes. ``--neighbors 1`` runs another busy
process at the same time. The data are read from the folder in ``SKUQ_DATA``. Set ``OMP_NUM_THREADS=1``.

Times start with ``fit``, so they do not include the import of skuq, which takes about a second. The CRPS of
the forest, `UncertaintyRegressor(RandomForestRegressor())`, is the mean over three seeds of the model.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from real_data import split
from sklearn.ensemble import RandomForestRegressor

from skuq import UncertaintyRegressor, predict_dist
from skuq.metrics import crps_loss
from skuq.model_selection import AutoUncertaintyRegressor

SETS = (
    "paper001/abalone",
    "paper001/concrete_strength",
    "gal/gal_kin8nm",
    "paper001/wine_quality",
    "gal/gal_protein",
)
BUDGETS = (2.0, 5.0, 10.0, 20.0)
MOST_ROWS = 2000
FOREST_SEEDS = 3
MOST_SECONDS = 1.3
"""Longest search that is allowed, in units of the budget."""
MOST_CRPS = 1.02
"""Largest CRPS that is allowed, in units of the CRPS of the forest."""


def search(name: str, budget: float, seed: int) -> dict[str, Any]:
    """Return the result of one search, which should run in its own process."""
    X, y, X_test, y_test = split(name, seed, MOST_ROWS)
    model = AutoUncertaintyRegressor(time_budget=budget, n_jobs=1, random_state=seed)
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.monotonic() - start
    board = model.leaderboard_
    return {
        "set": name,
        "budget": budget,
        "seconds": seconds,
        "ratio": seconds / budget,
        "crps": crps_loss(y_test, predict_dist(model, X_test)),
        "bases": ", ".join(dict.fromkeys(board.loc[board["base"] != "pool", "base"])),
        **{f"s {use}": spent for use, spent in model.time_spent_.items() if use != "total"},
        "load": os.getloadavg()[0],
    }


def forest_crps(name: str, seed: int) -> tuple[float, float]:
    """Return the CRPS of a plain forest and the seconds of its fit, as means over seeds of the model."""
    X, y, X_test, y_test = split(name, seed, MOST_ROWS)
    results = []
    for own in range(FOREST_SEEDS):
        model = UncertaintyRegressor(RandomForestRegressor(random_state=own), random_state=own)
        start = time.monotonic()
        model.fit(X, y)
        results.append((crps_loss(y_test, predict_dist(model, X_test)), time.monotonic() - start))
    crps, seconds = np.mean(results, axis=0).tolist()
    return crps, seconds


@contextmanager
def neighbors(n: int) -> Iterator[None]:
    """Run other busy processes while the block runs."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budgets", type=float, nargs="*", default=list(BUDGETS))
    parser.add_argument("--sets", nargs="*", default=list(SETS), help="data sets, such as gal/gal_kin8nm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--neighbors", type=int, default=0)
    parser.add_argument("--one", action="store_true", help="run one search, and write its result as JSON")
    chosen = parser.parse_args()
    if chosen.one:
        sys.stdout.write(json.dumps(search(chosen.sets[0], chosen.budgets[0], chosen.seed)))
        return
    rows = []
    with neighbors(chosen.neighbors):
        for name in chosen.sets:
            forest, seconds = forest_crps(name, chosen.seed)
            for budget in chosen.budgets:
                options = ["--sets", name, "--budgets", str(budget), "--seed", str(chosen.seed), "--one"]
                command = [sys.executable, __file__, *options]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                result = json.loads(done.stdout)
                relative = {"forest": result["crps"] / forest, "s of a forest": seconds}
                rows.append({**result, **relative})
                print(json.dumps(rows[-1]), flush=True)
    table = pd.DataFrame(rows)
    print(table.drop(columns="bases").to_string(float_format="{:.3f}".format))
    long = table.loc[table["budget"] >= 5, "ratio"].max()
    print(
        f"\nLongest search with a budget of at least 5 seconds: {long:.2f} budgets, limit {MOST_SECONDS}. "
        f"Largest CRPS relative to the forest: {table['forest'].max():.3f}, limit {MOST_CRPS}."
    )


if __name__ == "__main__":
    main()
