"""Compare a search within a time budget with five default models, and measure the time of FLAML.

Run as `python benchmarks/automl.py`. It runs three seeds of ten real data sets, with at most 2000 training
rows, 60 seconds per search, one job and one thread. Runs are not parallel. The searches take half an hour,
and the default models take a quarter of an hour. Each result is appended to a file. Results in the file are
not computed again, so you can stop the script and continue later. ``--most`` limits the number of new
results. The data are read from the folder in ``SKUQ_DATA``. Set ``OMP_NUM_THREADS=1``, also for the default
models.

The best default model of a data set is selected on the test rows, by the mean CRPS over the seeds.
"""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, missing, stored
from real_data import COVERAGE, boosting, deep_ensemble, forest, ngboost, split

from skuq import UncertaintyRegressor, predict_dist
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.model_selection import AutoUncertaintyRegressor

SETS = (
    "paper001/abalone",
    "paper001/airfoil_self_noise",
    "paper001/combined_cycle_power_plant",
    "paper001/concrete_strength",
    "paper001/grid_stability",
    "paper001/parkinsons_telemonitoring",
    "paper001/steel_industry",
    "paper001/wine_quality",
    "gal/gal_kin8nm",
    "gal/gal_protein",
)
SEEDS = 3
MOST_ROWS = 2000
SEARCH = "AutoUncertaintyRegressor"
MOST_SECONDS = 1.2
"""Longest run that is allowed, in units of the budget."""


def lightgbm(seed: int) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1)


DEFAULTS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "forest": ("sklearn", forest),
    "boosting": ("sklearn", boosting),
    "LightGBM": ("lightgbm", lightgbm),
    "NGBoost": ("ngboost", ngboost),
    "deep ensemble": ("torch", deep_ensemble),
}
"""The five default models by name, with the package that each of them needs."""


def evaluate(method: str, name: str, seed: int, budget: float) -> dict[str, Any]:
    """Return the result of a default model or of the search on one split of a data set."""
    X, y, X_test, y_test = split(name, seed, MOST_ROWS)
    if method == SEARCH:
        model = AutoUncertaintyRegressor(time_budget=budget, n_jobs=1, random_state=seed)
    else:
        model = UncertaintyRegressor(DEFAULTS[method][1](seed), random_state=seed)
    start, cpu = time.monotonic(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        seconds, cpu = time.monotonic() - start, time.process_time() - cpu
        dist = predict_dist(model, X_test)
    result = {
        "set": name,
        "method": method,
        "seed": seed,
        "budget": budget if method == SEARCH else None,
        "n_train": len(y),
        "n_test": len(y_test),
        "crps": crps_loss(y_test, dist),
        "coverage": prediction_interval_coverage(y_test, dist, coverage=COVERAGE),
        "seconds": seconds,
        "cpu": cpu,
        "load": os.getloadavg()[0],
    }
    if method == SEARCH:
        board = model.leaderboard_
        first = board.iloc[0]
        result["winner"] = f"{first['base']}, {first['recalibration']}"
        result["trials"] = int((board["state"] != "out of time").sum())
        result["params"] = repr(first["params"])
    return result


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per data set: CRPS of the search and of the best default model, coverage, seconds."""
    rows = {}
    for name, of_set in results.groupby("set", sort=False):
        own = of_set[of_set["method"] == SEARCH]
        same = of_set[of_set["seed"].isin(own["seed"])]
        complete = same.groupby("method")["seed"].transform("nunique") == own["seed"].nunique()
        crps = same[complete].groupby("method")["crps"].mean()
        defaults = crps.drop(SEARCH, errors="ignore")
        if SEARCH not in crps or defaults.empty:
            continue
        rows[name.split("/")[1]] = {
            "seeds": len(own),
            "defaults": len(defaults),
            "best default": defaults.idxmin(),
            "its CRPS": defaults.min(),
            "CRPS": crps[SEARCH],
            "ratio": crps[SEARCH] / defaults.min(),
            "coverage": (own["coverage"] * own["n_test"]).sum() / own["n_test"].sum(),
            "longest": own["seconds"].max(),
            "cpu": own["cpu"].mean(),
            "trials": own["trials"].mean(),
        }
    return pd.DataFrame(rows).T


def flaml_seconds(budget: float = 10.0) -> float | None:
    """Return the time of FLAML with a budget, wrapped learners and the CRPS; None if it is not installed."""
    if importlib.util.find_spec("flaml") is None:
        return None
    from flaml import AutoML

    from skuq.integrations.flaml import learner, metric

    X, y, _, _ = split("paper001/abalone", 0, MOST_ROWS)
    automl = AutoML()
    wrap = partial(UncertaintyRegressor, effort="low", random_state=0)
    for base in ("lgbm", "rf", "extra_tree"):
        automl.add_learner(f"{base}_crps", learner(base, wrap))
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        automl.fit(
            X,
            y,
            task="regression",
            metric=metric("crps"),
            estimator_list=["lgbm_crps", "rf_crps", "extra_tree_crps"],
            eval_method="holdout",
            time_budget=budget,
            n_jobs=1,
            verbose=0,
        )
    return time.monotonic() - start


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--sets", nargs="*", default=list(SETS), help="data sets, such as gal/gal_kin8nm")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds")
    parser.add_argument("--methods", default="", help="run only methods whose name contains this text")
    parser.add_argument("--most", type=int, default=10**9, help="stop after this number of new results")
    parser.add_argument("--results", type=Path, default=Path("automl.jsonl"))
    parser.add_argument("--no-flaml", action="store_true")
    chosen = parser.parse_args()
    if not chosen.no_flaml:
        seconds = flaml_seconds()
        print("FLAML is not installed" if seconds is None else f"FLAML: {seconds:.1f} s of a budget of 10 s")
    results = [one for one in stored(chosen.results) if one["budget"] in (None, chosen.budget)]
    methods = [name for name, (package, _) in DEFAULTS.items() if importlib.util.find_spec(package)]
    tasks = [
        (method, name, seed)
        for seed in range(chosen.seeds)
        for name in chosen.sets
        for method in (*methods, SEARCH)
        if chosen.methods in method
    ]
    missing(results, tasks, partial(evaluate, budget=chosen.budget), chosen.results, chosen.most)
    frame = pd.DataFrame(results)
    shown = table(frame[frame["set"].isin(chosen.sets) & (frame["seed"] < chosen.seeds)])
    if shown.empty:
        return
    print(shown.to_string(float_format="{:.3f}".format))
    ratio, longest = shown["ratio"].astype(float), float(shown["longest"].max())
    print(
        f"\nCRPS at most 1.03 times the best default on {(ratio <= 1.03).sum()} of {len(ratio)} sets, mean "
        f"ratio {ratio.mean():.3f}, geometric mean {np.exp(np.log(ratio).mean()):.3f}; coverage "
        f"{shown['coverage'].min():.3f} to {shown['coverage'].max():.3f}; longest run {longest:.1f} s, limit "
        f"{MOST_SECONDS * chosen.budget:.0f} s."
    )


if __name__ == "__main__":
    main()
