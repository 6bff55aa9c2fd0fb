"""Compare a search within a time budget with FLAML and AutoGluon in the same time: CRPS, coverage, seconds.

`python benchmarks/automl.py` runs one split of six data sets with words, dates and missing values among them,
with at most 2000 training rows, one job and one thread. Methods of packages that are not installed are
omitted, so `make tables` runs it in the environment of the AutoML tools first, with the same file
``--results``. Results in the file are not computed again. The data are read from the folder in ``SKUQ_DATA``.
Set ``OMP_NUM_THREADS=1``. skuq was developed on these data sets.

FLAML searches for the model with the smallest CRPS among boosting and forests in an `UncertaintyRegressor`.
AutoGluon fits 13 quantiles with its default models, and `IsotonicRecalibrator` recalibrates them on the fifth
of the training rows that AutoGluon uses to select models. AutoGluon skips its networks, because the
environment has neither torch nor fastai.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, data_folder, missing, show, stored
from real_data import COVERAGE

from skuq import UncertaintyRegressor, predict_dist
from skuq.distributions import Distribution
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.model_selection import AutoUncertaintyRegressor
from skuq.recalibration import IsotonicRecalibrator

SETS = (
    "other/metro_traffic",
    "paper001/facebook_metrics",
    "paper001/abalone",
    "paper001/concrete_strength",
    "gal/gal_kin8nm",
    "gal/gal_boston",
)
DECISIVE = SETS[:2]
"""Sets whose ratios dominate the mean."""
ROWS, TRAINING_ROWS, TEST_ROWS = 10_000, 2000, 1000
"""Largest numbers of rows of a data set, and of training rows and test rows."""
SEARCH = "AutoUncertaintyRegressor"
METHODS = {SEARCH: "torch", "FLAML": "flaml", "AutoGluon": "autogluon"}
"""Package that each method needs. The environment of the peers has no torch."""
LEVELS = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]


def split(name: str, seed: int) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Return X and y of random training rows, and X and y of test rows. X has words, dates and gaps."""
    folder = data_folder()
    target = json.loads((folder / f"{name}.json").read_text())["target"]
    frame = pd.read_csv(folder / f"{name}.csv.gz").dropna(subset=[target])
    if len(frame) > ROWS:
        frame = frame.sample(ROWS, random_state=0)
    if "date_time" in frame:
        frame["date_time"] = pd.to_datetime(frame["date_time"])
    y = frame.pop(target).to_numpy(float)
    order = np.random.RandomState(seed).permutation(len(y))
    n = min(TRAINING_ROWS, int(0.8 * len(y)))
    train, test = order[:n], order[n : n + TEST_ROWS]
    return frame.iloc[train], y[train], frame.iloc[test], y[test]


def fit_flaml(X: pd.DataFrame, y: np.ndarray, seed: int, budget: float) -> Any:
    from flaml import AutoML

    from skuq.integrations.flaml import learner, metric

    automl = AutoML()
    wrap = partial(UncertaintyRegressor, effort="low", random_state=0)
    bases = ("lgbm", "rf", "extra_tree", "xgboost", "histgb")
    for base in bases:
        automl.add_learner(f"{base}_crps", learner(base, wrap))
    automl.fit(
        X,
        y,
        task="regression",
        metric=metric("crps"),
        estimator_list=[f"{base}_crps" for base in bases],
        time_budget=budget,
        n_jobs=1,
        verbose=0,
        seed=seed,
    )
    return automl


def autogluon_forecasts(
    X: pd.DataFrame, y: np.ndarray, X_test: pd.DataFrame, budget: float
) -> tuple[float, Distribution]:
    """Return the seconds of the fit, and the recalibrated forecasts of the test rows."""
    from autogluon.tabular import TabularPredictor

    held_out = np.zeros(len(y), dtype=bool)
    held_out[np.random.RandomState(0).permutation(len(y))[: len(y) // 5]] = True
    table = X.assign(target_=y)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor(
            "target_", problem_type="quantile", quantile_levels=LEVELS, path=folder, verbosity=0
        )
        predictor.fit(table[~held_out], tuning_data=table[held_out], time_limit=budget, num_cpus=1)
        recalibrator = IsotonicRecalibrator().fit(predict_dist(predictor, X[held_out]), y[held_out])
        seconds = time.monotonic() - start
        return seconds, recalibrator.transform(predict_dist(predictor, X_test))


def evaluate(method: str, name: str, seed: int, budget: float) -> dict[str, Any]:
    """Return the result of a method on one split of a data set."""
    X, y, X_test, y_test = split(name, seed)
    result: dict[str, Any] = {"set": name, "method": method, "seed": seed, "budget": budget}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.monotonic()
        if method == "AutoGluon":
            seconds, dist = autogluon_forecasts(X, y, X_test, budget)
        else:
            model: Any
            if method == SEARCH:
                model = AutoUncertaintyRegressor(time_budget=budget, n_jobs=1, random_state=seed).fit(X, y)
                board = model.leaderboard_
                complete = set(board.loc[board["state"] == "complete", "base"]) - {"pool"}
                result["tried"] = len(complete) / board["base"].drop_duplicates().ne("pool").sum()
            else:
                model = fit_flaml(X, y, seed, budget)
            seconds = time.monotonic() - start
            dist = predict_dist(model, X_test)
    return {
        **result,
        "crps": crps_loss(y_test, dist),
        "coverage": prediction_interval_coverage(y_test, dist, coverage=COVERAGE),
        "seconds": seconds,
        "load": os.getloadavg()[0],
    }


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per budget: the CRPS of the search relative to each peer, and shares of base models.

    The ratios are geometric means over all sets, and over the sets without `DECISIVE`.
    """
    rows = {}
    for budget, of_budget in results.groupby("budget"):
        crps = of_budget.pivot_table(index="set", columns="method", values="crps")
        logs = np.log(crps.rdiv(crps[SEARCH], axis=0)).drop(columns=SEARCH)
        rows[f"{budget:.0f} s"] = {
            f"{peer}, {len(part)} sets": np.exp(part[peer].mean())
            for part in (logs, logs.drop(index=list(DECISIVE), errors="ignore"))
            for peer in logs
        } | {"base models": of_budget["tried"].mean()}
    return pd.DataFrame(rows).T.rename_axis("budget")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--budgets", nargs="+", type=float, default=[20.0, 60.0, 300.0])
    parser.add_argument("--sets", nargs="*", default=list(SETS), help="data sets, such as gal/gal_kin8nm")
    parser.add_argument("--seeds", type=int, default=1, help="number of splits")
    parser.add_argument("--results", type=Path, default=Path("automl.jsonl"))
    chosen = parser.parse_args()
    methods = [name for name, package in METHODS.items() if importlib.util.find_spec(package)]
    tasks = [
        (method, name, seed) for seed in range(chosen.seeds) for name in chosen.sets for method in methods
    ]
    found = []
    for budget in chosen.budgets:
        results = [one for one in stored(chosen.results) if one["budget"] == budget]
        missing(results, tasks, partial(evaluate, budget=budget), chosen.results)
        found += results
    frame = pd.DataFrame(found)
    print(frame.drop(columns="seed").to_string(index=False, float_format="{:.4g}".format))
    if SEARCH in methods:
        show("automl", table(frame), 2)


if __name__ == "__main__":
    main()
