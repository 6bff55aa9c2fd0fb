"""Coverage and CRPS of `UncertaintyRegressor` around many regressors, with its default settings.

`python benchmarks/any_regressor.py` runs one split of each development set with at most 1000 training rows.
``--full`` runs 10 splits. The development sets were used to choose the method. The sets of ``--sets
confirmation`` were not used for any choice. Each result is appended to the csv file of ``--results``. Results
in the file are not computed again, so you can stop the script and continue later. ``--method`` is the name of
the results in the table. To compare two versions of skuq, run this script with the package of each version on
the path, with a different name. The methods "split" and "MAPIE CV+" are conformal intervals around the same
regressor. ``--doors`` compares bootstrap and models with a distribution of their own with
`ResidualRegressor` around the same model. The data are read from the folder in ``SKUQ_DATA``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from real_data import split
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import ARDRegression, BayesianRidge, LinearRegression, Ridge, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from skuq import UncertaintyRegressor
from skuq.metrics import crps_loss

DEVELOPMENT = (
    "paper001/abalone",
    "paper001/airfoil_self_noise",
    "paper001/auction_verification",
    "paper001/combined_cycle_power_plant",
    "paper001/computer_hardware",
    "paper001/concrete_strength",
    "paper001/energy_efficiency",
    "paper001/forest_fires",
    "paper001/grid_stability",
    "paper001/parkinsons_telemonitoring",
    "paper001/servo",
    "paper001/wine_quality",
    "gal/gal_kin8nm",
    "gal/gal_naval",
    "gal/gal_yacht",
)
CONFIRMATION = (
    "paper001/facebook_metrics",
    "paper001/nhanes_age",
    "paper001/steel_industry",
    "paper001/superconductivity_500",
    "gal/gal_boston",
    "gal/gal_protein",
)
OF_DOORS = (
    "paper001/abalone",
    "paper001/airfoil_self_noise",
    "paper001/concrete_strength",
    "paper001/energy_efficiency",
    "paper001/wine_quality",
    "gal/gal_kin8nm",
)
SETS = {
    "development": DEVELOPMENT,
    "confirmation": CONFIRMATION,
    "all": DEVELOPMENT + CONFIRMATION,
    "doors": OF_DOORS,
}
DOORS = {
    "native": ("BayesianRidge", "ARDRegression", "Gaussian process", "sparse Gaussian process", "Laplace"),
    "bootstrap": ("linear", "tree", "boosting", "forest"),
    "heteroscedastic bootstrap": ("linear", "tree", "boosting", "forest"),
}
"""Methods, and the regressors whose forecasts by the method are compared with `ResidualRegressor`."""
ROWS_OF_DOORS = 600
LEVELS = (0.5, 0.8, 0.9, 0.95)
MOST_TEST_ROWS = 1000


def lightgbm(seed: int) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(verbose=-1, n_jobs=1, random_state=seed)


def words() -> Any:
    """Return a linear model for a frame in which columns with few values are words."""
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include=object)),
        remainder=StandardScaler(),
    )
    return make_pipeline(encoder, Ridge())


def gaussian_process(seed: int) -> Any:
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)


def sparse_gaussian_process(seed: int) -> Any:
    from skuq.regressors import SparseGaussianProcessRegressor

    return SparseGaussianProcessRegressor(random_state=seed)


def laplace(seed: int) -> Any:
    from skuq.neural import LastLayerLaplaceRegressor

    return LastLayerLaplaceRegressor(random_state=seed)


def scaled(make: Callable[[int], Any]) -> Callable[[int], Any]:
    return lambda seed: make_pipeline(StandardScaler(), make(seed))


BASES = {
    "linear": lambda seed: LinearRegression(),
    "ridge": lambda seed: make_pipeline(StandardScaler(), RidgeCV()),
    "kNN": lambda seed: make_pipeline(StandardScaler(), KNeighborsRegressor()),
    "SVR": lambda seed: make_pipeline(StandardScaler(), SVR()),
    "tree": lambda seed: DecisionTreeRegressor(min_samples_leaf=5, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
    "MLP": lambda seed: make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(64,), random_state=seed)
    ),
    "forest": lambda seed: RandomForestRegressor(60, random_state=seed),
    "AdaBoost": lambda seed: AdaBoostRegressor(random_state=seed),
    "ExtraTrees": lambda seed: ExtraTreesRegressor(60, random_state=seed),
    "unscaled MLP": lambda seed: MLPRegressor(hidden_layer_sizes=(64,), random_state=seed),
    "LightGBM": lightgbm,
    "words": lambda seed: words(),
}
MODELS = {
    **BASES,
    "BayesianRidge": scaled(lambda seed: BayesianRidge()),
    "ARDRegression": scaled(lambda seed: ARDRegression()),
    "Gaussian process": scaled(gaussian_process),
    "sparse Gaussian process": scaled(sparse_gaussian_process),
    "Laplace": scaled(laplace),
}


def in_words(X: np.ndarray) -> pd.DataFrame:
    """Return a frame in which each column with at most ten values has words."""
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    few = [name for name in frame if frame[name].nunique() <= 10]
    return frame.astype(dict.fromkeys(few, object)).assign(
        **{name: "w" + frame[name].astype(str) for name in few}
    )


def by_skuq(
    base: Any, X: Any, y: np.ndarray, X_test: Any, seed: int, method: str = "residual", **params: Any
) -> tuple[np.ndarray, Any]:
    """Return intervals of shape (n, 2, 4) and the distribution of the test rows."""
    model = UncertaintyRegressor(base, method, method_params=params, random_state=seed).fit(X, y)
    dist = model.predict_dist(X_test)
    return dist.interval(LEVELS), dist


def by_split(base: Any, X: Any, y: np.ndarray, X_test: Any, seed: int) -> tuple[np.ndarray, None]:
    from skuq.conformal import ConformalRegressor

    model = ConformalRegressor(base, random_state=seed).fit(X, y)
    return model.predict_interval(X_test, LEVELS), None


def by_mapie(base: Any, X: Any, y: np.ndarray, X_test: Any, seed: int) -> tuple[np.ndarray, None]:
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(base, confidence_level=LEVELS, random_state=seed)
    return model.fit_conformalize(X, y).predict_interval(X_test)[1], None


METHODS = {
    "auto": partial(by_skuq, method="auto"),
    "native": partial(by_skuq, method="native"),
    "bootstrap": partial(by_skuq, method="bootstrap"),
    "heteroscedastic bootstrap": partial(by_skuq, method="bootstrap", noise="heteroscedastic"),
    "center model": partial(by_skuq, center="model"),
    "split": by_split,
    "MAPIE CV+": by_mapie,
}


def evaluate(method: str, base: str, name: str, seed: int, most: int) -> dict[str, Any]:
    """Return the result of one base on one split of a data set."""
    X, y, X_test, y_test = split(name, seed, most)
    if name == "paper001/steel_industry":  # without the date, which determines the target
        X, X_test = X[:, 1:], X_test[:, 1:]
    X_test, y_test = X_test[:MOST_TEST_ROWS], y_test[:MOST_TEST_ROWS]
    if base == "words":
        frame = in_words(np.concatenate([X, X_test]))
        X, X_test = frame[: len(X)], frame[len(X) :]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interval, dist = METHODS.get(method, by_skuq)(MODELS[base](seed), X, y, X_test, seed)
    seconds = time.process_time() - start
    covered = (interval[:, 0] <= y_test[:, np.newaxis]) & (y_test[:, np.newaxis] <= interval[:, 1])
    return {
        "method": method,
        "set": name,
        "base": base,
        "seed": seed,
        "rows": most,
        "n_train": len(y),
        "n_test": len(y_test),
        "crps": np.nan if dist is None else float(crps_loss(y_test, dist)),
        **{f"coverage {level}": value for level, value in zip(LEVELS, covered.mean(axis=0), strict=True)},
        "width 0.9": float(np.mean(interval[:, 1, 2] - interval[:, 0, 2])),
        "seconds": round(seconds, 3),
    }


def table(results: pd.DataFrame, method: str, reference: str | None) -> pd.DataFrame:
    """Return one row per base: mean coverages, and ratios of the CRPS to the reference (geometric means)."""
    key = ["set", "base", "seed"]
    own = results[results["method"] == method].set_index(key)
    lines = own.groupby("base", sort=False)[[f"coverage {level}" for level in LEVELS]].mean()
    for column in ("crps", "width 0.9", "seconds"):
        if reference is None:
            continue
        other = results[results["method"] == reference].set_index(key)[column]
        ratio = np.log(own[column] / other.reindex(own.index)).dropna()
        by_set = ratio.groupby(["base", "set"], sort=False).mean()
        lines[column] = np.exp(by_set.groupby("base", sort=False).mean())
        if column == "crps":
            lines["worst set"] = np.exp(by_set.groupby("base", sort=False).max())
    outside = []
    for level in LEVELS:
        cells = own.groupby(["base", "set"], sort=False)[[f"coverage {level}", "n_test"]].agg(["mean", "sum"])
        n = cells[("n_test", "sum")]
        allowed = 2 * np.sqrt(level * (1 - level) / n) + 0.03
        outside.append((cells[(f"coverage {level}", "mean")] - level).abs() > allowed)
    lines["cells outside"] = sum(outside).groupby("base", sort=False).sum()
    lines.loc["all"] = [
        np.exp(np.log(lines[name]).mean())
        if name in ("crps", "width 0.9", "seconds")
        else lines[name].sum()
        if name == "cells outside"
        else lines[name].max()
        if name == "worst set"
        else lines[name].mean()
        for name in lines
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="run 10 splits")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument(
        "--sets", default="development", help=f"one of {', '.join(SETS)}, or names with commas"
    )
    parser.add_argument("--bases", default=",".join(BASES), help="names with commas")
    parser.add_argument("--rows", type=int, default=1000, help="largest number of training rows")
    parser.add_argument(
        "--method", default="skuq", help="'split', 'MAPIE CV+', or a name for this version of skuq"
    )
    parser.add_argument("--reference", help="method of the same file with which the CRPS is compared")
    parser.add_argument("--results", type=Path, default=Path("any_regressor.csv"))
    parser.add_argument("--only-table", action="store_true")
    parser.add_argument("--doors", action="store_true", help=f"{ROWS_OF_DOORS} rows of the sets of doors")
    chosen = parser.parse_args()
    methods = {chosen.method: tuple(chosen.bases.split(","))}
    if chosen.doors:
        chosen.sets, chosen.rows, chosen.reference = "doors", ROWS_OF_DOORS, "skuq"
        methods = {"skuq": tuple(dict.fromkeys(sum(DOORS.values(), ()))), **DOORS}
    names = SETS.get(chosen.sets) or [
        f for f in SETS["all"] if any(part in f for part in chosen.sets.split(","))
    ]
    key = ["method", "set", "base", "seed", "rows"]
    done = set()
    if chosen.results.is_file():
        done = set(pd.read_csv(chosen.results)[key].itertuples(index=False, name=None))
    for seed, name in product(range(10 if chosen.full else chosen.splits), names):
        for method, base in ((method, base) for method, bases in methods.items() for base in bases):
            if not chosen.only_table and (method, name, base, seed, chosen.rows) not in done:
                line = pd.DataFrame([evaluate(method, base, name, seed, chosen.rows)])
                line.to_csv(chosen.results, mode="a", header=not chosen.results.is_file(), index=False)
    results = pd.read_csv(chosen.results)
    results = results[results["set"].isin(names) & (results["rows"] == chosen.rows)]
    for method, bases in methods.items():
        of_method = table(results[results["base"].isin(bases)], method, chosen.reference)
        print(method, of_method.to_string(float_format="{:.3f}".format), sep="\n")


if __name__ == "__main__":
    main()
