"""Compare skuq with RealMLP and TabM on real data: CRPS, coverage and time, at 20 quantiles.

`make bench-tables` creates an environment with pytabkit, and runs 1 split of each data set with at most 1500
training rows. The data, the splits and the options ``--sets``, ``--rows`` and ``--methods`` are the same as
in `real_data.py`. ``--results`` is a file with results, which are not computed again.

Each method predicts quantiles at the levels 0.025, 0.075, ..., 0.975. The CRPS is twice the mean pinball
loss. The coverage is the coverage of the interval between the outer two quantiles, nominally 95 %. RealMLP
and TabM have the tuned defaults of pytabkit. They are trained by the pinball loss, and a fifth of the rows is
held out. RealMLP is also run with five folds: the quantiles of five networks are averaged. TabM is an
ensemble of 32 networks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from measuring import arguments
from real_data import SETS, completed, deep_ensemble, installed, pool, split

from skuq import predict_dist
from skuq.distributions import Quantiles
from skuq.metrics import pinball_loss

LEVELS = np.linspace(0.025, 0.975, 20).round(3)
LOSS = "multi_pinball(" + ",".join(f"{level:g}" for level in LEVELS) + ")"


class Method(NamedTuple):
    """Name of a method, package that it needs, and function that returns quantiles of shape (n, 20)."""

    name: str
    package: str
    quantiles: Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]


def by_distribution(make: Callable[[int], Any]) -> Callable[..., np.ndarray]:
    """Return a function that fits an estimator and returns quantiles by `predict_dist`."""

    def quantiles(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
        return predict_dist(make(seed).fit(X, y), X_test).quantile(LEVELS)

    return quantiles


def by_pinball_loss(name: str, folds: int) -> Callable[..., np.ndarray]:
    """Return a function that fits a regressor of pytabkit by the pinball loss and returns quantiles."""

    def quantiles(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
        import pytabkit

        loss = {"train_metric_name": LOSS, "val_metric_name": LOSS}
        make = getattr(pytabkit, name)
        model = make(n_cv=folds, random_state=seed, device="cpu", n_threads=1, **loss)
        return np.sort(model.fit(X, y).predict(X_test), axis=1)

    return quantiles


METHODS = (
    Method("skuq, deep ensemble", "torch", by_distribution(deep_ensemble)),
    Method("skuq, pool", "torch", by_distribution(pool)),
    Method("RealMLP", "pytabkit", by_pinball_loss("RealMLP_TD_Regressor", 1)),
    Method("RealMLP, 5 folds", "pytabkit", by_pinball_loss("RealMLP_TD_Regressor", 5)),
    Method("TabM", "pytabkit", by_pinball_loss("TabM_D_Regressor", 1)),
)


def evaluate(method: Method, name: str, seed: int, most: int) -> dict[str, Any]:
    """Return the result of one method on one split of a data set."""
    X, y, X_test, y_test = split(name, seed, most)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = method.quantiles(X, y, X_test, seed)
    seconds = time.process_time() - start
    return {
        "method": method.name,
        "set": name,
        "seed": seed,
        "rows": most,
        "crps": 2 * pinball_loss(y_test, Quantiles(LEVELS, values), levels=LEVELS),
        "coverage": float(np.mean((values[:, 0] <= y_test) & (y_test <= values[:, -1]))),
        "seconds": seconds,
    }


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the CRPS relative to the first of `METHODS` with results, and the means of all columns."""
    # Ratios and means are over the splits for which both the method and the first method have results. The
    # last row is the number of these splits.
    order = {method.name: number for number, method in enumerate(METHODS)}
    names = sorted(results["method"].unique(), key=lambda name: order.get(name, len(order)))
    columns = {
        column: results.pivot_table(index=["set", "seed"], columns="method", values=column, sort=False)[names]
        for column in ("crps", "coverage", "seconds")
    }
    logs = np.log(columns["crps"].div(columns["crps"][names[0]], axis=0))
    ratios = np.exp(logs.groupby("set", sort=False).mean())
    ratios.loc["geometric mean"] = np.exp(np.log(ratios).mean())
    for column in ("coverage", "seconds"):
        ratios.loc[f"mean {column}"] = columns[column].where(logs.notna()).mean()
    ratios.loc["splits"] = logs.notna().sum()
    return ratios


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", choices=SETS, default="all")
    parser.add_argument("--rows", type=int, default=1500, help="largest number of training rows")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--methods", default="", help="run only methods whose name contains this text")
    parser.add_argument("--results", type=Path, default=Path("real_data_tables.jsonl"))
    chosen = parser.parse_args()
    methods = installed(METHODS, chosen.methods)
    if not methods:
        parser.error(f"--methods: the name of no installed method contains {chosen.methods!r}.")
    names = SETS[chosen.sets]
    results = completed(chosen.results, methods, names, chosen.splits, chosen.rows, evaluate)
    print(table(results).to_string(float_format="{:.3f}".format, na_rep="-"))


if __name__ == "__main__":
    main()
