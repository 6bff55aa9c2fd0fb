"""Test rows outside of the training range: CRPS, coverage and width of models on eight data sets.

A forest is fitted to each data set. For each of the three features with the largest permutation importance
(of those whose parts have 5 to 60 % of the rows), two parts of the rows are left out of training: the rows
between the 33 and 67 % quantiles of the feature ("gap"), and the rows above its 80 % quantile ("tail"). Both
are test rows outside of the training range. A fifth of the other rows are test rows inside of the range, and
at most 600 of the rest are training rows. Each split has a control: random rows with the same three sizes.

`python benchmarks/extrapolation.py` appends each result to ``extrapolation.csv``. Results in the file are not
computed again, so you can stop the script and continue later. ``--quick`` runs the models of scikit-learn and
MAPIE on one feature of two sets. The data are read from the folder in ``SKUQ_DATA``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from any_regressor import laplace, scaled, sparse_gaussian_process
from measuring import arguments, show
from real_data import (
    COVERAGE,
    METHODS,
    Forecast,
    Method,
    boosting,
    by_distribution,
    installed,
    load,
    wrapped,
)
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.linear_model import RidgeCV

from skuq.conformal import ConformalRegressor
from skuq.metrics import crps_loss, interval_score_loss, mean_interval_width, prediction_interval_coverage

RESULTS = Path(__file__).with_suffix(".csv")
SETS = (
    "paper001/abalone",
    "paper001/airfoil_self_noise",
    "paper001/combined_cycle_power_plant",
    "paper001/concrete_strength",
    "paper001/wine_quality",
    "gal/gal_boston",
    "gal/gal_kin8nm",
    "gal/gal_protein",
)
N_FEATURES, TRAINING_ROWS, TEST_ROWS = 3, 600, 500
SHARES = (0.05, 0.6)
"""Least and largest share of left-out rows; other features have too few different values."""
KINDS = ("gap", "tail")
SIDES = ("inside", "outside")
OF_OTHER_TABLES = (
    "skuq, boosting",
    "skuq, forest",
    "MAPIE CV+, boosting",
    "quantile-forest",
    "skuq, pool",
    "skuq, deep ensemble",
    "NGBoost",
)


class Split(NamedTuple):
    """Rows to leave out: the data set, the rank of the feature by importance, the part, and control rows."""

    set: str
    rank: int
    kind: str
    control: bool


def methods() -> list[Method]:
    """Return the installed models."""
    known = {method.name: method for method in METHODS}
    own = [
        wrapped("skuq, ridge", scaled(lambda seed: RidgeCV()), RidgeCV),
        Method("skuq, conformal, density ratio", "sklearn", by_density_ratio),
        *(known[name] for name in OF_OTHER_TABLES),
        Method("skuq, sparse Gaussian process", "gpytorch", by_distribution(scaled(sparse_gaussian_process))),
        Method("skuq, Laplace network", "torch", by_distribution(scaled(laplace))),
    ]
    return installed(own, "")


def by_density_ratio(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> Forecast:
    """Return split conformal intervals; a forest that separates new from old rows estimates the weights."""
    new = np.repeat([0, 1], [len(X), len(X_test)])
    classifier = RandomForestClassifier(100, min_samples_leaf=10, random_state=seed)
    classifier.fit(np.concatenate([X, X_test]), new)

    def ratio(rows: np.ndarray) -> np.ndarray:
        share = classifier.predict_proba(rows)[:, 1].clip(0.01, 0.99)
        return share / (1 - share)

    model = ConformalRegressor(boosting(seed), density_ratio=ratio, random_state=seed).fit(X, y)
    return Forecast(None, model.predict_interval(X_test, COVERAGE))


def left_out(x: np.ndarray, kind: str) -> np.ndarray:
    """Return which rows are left out of training."""
    low, high, top = np.quantile(x, (0.33, 0.67, 0.8))
    return (low < x) & (x < high) if kind == "gap" else x > top


def features(X: np.ndarray, y: np.ndarray) -> list[int]:
    """Return the features of which enough rows can be left out, from the most to the least important."""
    order = np.random.RandomState(0).permutation(len(y))[: 2 * TRAINING_ROWS]
    forest = RandomForestRegressor(100, random_state=0).fit(X[order], y[order])
    importance = permutation_importance(forest, X[order], y[order], random_state=0).importances_mean
    return [
        j
        for j in np.argsort(-importance, kind="stable")
        if all(SHARES[0] <= left_out(X[:, j], kind).mean() <= SHARES[1] for kind in KINDS)
    ]


def rows_of(x: np.ndarray, split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the training rows, and the test rows inside and outside of the training range."""
    rng = np.random.RandomState(split.rank)
    out = left_out(x, split.kind)
    if split.control:
        out = rng.permutation(out)
    outside, rest = rng.permutation(np.flatnonzero(out)), rng.permutation(np.flatnonzero(~out))
    inside, train = rest[: len(rest) // 5], rest[len(rest) // 5 :]
    return train[:TRAINING_ROWS], inside[:TEST_ROWS], outside[:TEST_ROWS]


def evaluate(method: Method, split: Split, X: np.ndarray, y: np.ndarray, feature: int) -> dict[str, Any]:
    """Return the scores of one model on the rows inside and outside of the training range."""
    train, inside, outside = rows_of(X[:, feature], split)
    tests = np.concatenate([inside, outside])
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist, interval = method.forecast(X[train], y[train], X[tests], split.rank)
    row = {"method": method.name, **split._asdict(), "feature": feature, "n_train": len(train)}
    row["seconds"] = round(time.process_time() - start, 2)
    for side, rows in zip(SIDES, (slice(len(inside)), slice(len(inside), None)), strict=True):
        target, bounds = y[tests][rows], interval[rows]
        row |= {
            f"n {side}": len(target),
            f"crps {side}": np.nan if dist is None else crps_loss(target, dist[rows]),
            f"interval score {side}": interval_score_loss(target, bounds, coverage=COVERAGE),
            f"coverage {side}": prediction_interval_coverage(target, bounds, coverage=COVERAGE),
            f"width {side}": mean_interval_width(target, bounds, coverage=COVERAGE),
        }
    return row


def run(chosen: list[Method], names: tuple[str, ...], n_features: int, path: Path) -> Iterator[dict]:
    """Compute the missing results; append each to the file, and yield it."""
    key = ["method", *Split._fields]
    there = set(pd.read_csv(path)[key].itertuples(index=False, name=None)) if path.is_file() else set()
    data = {name: load(name) for name in names}
    columns = {name: features(X, y) for name, (X, y) in data.items()}
    for rank, control, method in product(range(n_features), (False, True), chosen):
        for name, kind in product(names, KINDS):
            split = Split(name, rank, kind, control)
            if rank < len(columns[name]) and (method.name, *split) not in there:
                row = evaluate(method, split, *data[name], columns[name][rank])
                frame = pd.DataFrame([row])
                frame.to_csv(path, mode="a", header=not path.is_file(), index=False, float_format="%.6g")
                yield row


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per kind and method: coverages, and widths and CRPS as geometric means of ratios.

    *width* and *CRPS* compare the rows outside with the rows of the control. *to boosting* compares the CRPS
    outside with that of the default around boosting. *below 0.8* is the number of splits whose coverage
    outside is below 0.8. Splits count only if all methods have results for them and for their controls.
    """
    key = ["method", *Split._fields[:-1]]
    n_results = results.groupby(key[1:])["method"].transform("size")
    results = results[n_results == 2 * results["method"].nunique()]
    of_split = results[~results["control"]].set_index(key)
    control = results[results["control"]].set_index(key)
    control = control.reindex(of_split.index)
    first = (
        of_split["crps outside"].xs("skuq, boosting").reindex(of_split.index.droplevel("method")).to_numpy()
    )
    cells = pd.DataFrame(
        {
            "inside": of_split["coverage inside"],
            "outside": of_split["coverage outside"],
            "control": control["coverage outside"],
            "below 0.8": (of_split["coverage outside"] < 0.8).astype(float),
            "width": np.log(of_split["width outside"] / of_split["width inside"]),
            "CRPS": np.log(of_split["crps outside"] / control["crps outside"]),
            "to boosting": np.log(of_split["crps outside"] / first),
            "splits": 1.0,
        }
    )
    groups = cells.groupby(["kind", "method"], sort=False)
    found = groups.mean()
    found[["below 0.8", "splits"]] = groups[["below 0.8", "splits"]].sum()
    found[["width", "CRPS", "to boosting"]] = np.exp(found[["width", "CRPS", "to boosting"]])
    return found


DECIMALS = {"below 0.8": 0, "splits": 0, **dict.fromkeys(("width", "CRPS", "to boosting"), 2)}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="few models, one feature of two sets")
    parser.add_argument("--features", type=int, default=N_FEATURES, help="number of features of each set")
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    # The coverage of quantile-forest has other digits with other instructions of the processor.
    quick = [method for method in methods() if method.package in ("sklearn", "mapie")]
    todo = (quick, SETS[3:6:2], 1) if chosen.quick else (methods(), SETS, chosen.features)
    for row in run(*todo, chosen.results):
        print(*list(row.values())[:8], flush=True)
    found = table(pd.read_csv(chosen.results))
    for kind in KINDS:
        show(f"extrapolation-{kind}", found.loc[kind], decimals=DECIMALS)


if __name__ == "__main__":
    main()
