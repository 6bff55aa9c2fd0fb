"""Coverage and CRPS of `UncertaintyRegressor` around many regressors, with its default settings.

`python benchmarks/any_regressor.py` shows the tables of the documentation, with at most 1000 training rows.
The development sets were used to choose the method, and the confirmation sets were not used for any choice.
Results of the earlier default are in ``any_regressor_reference.csv``. The methods "split" and "MAPIE CV+" are
conformal intervals around the same regressor. The table of doors compares bootstrap and models with a
distribution of their own with `ResidualRegressor` around the same model. Each result is appended to the csv
file of ``--results``. Results in the file are not computed again, so you can stop the script and continue
later. The data are read from the folder in ``SKUQ_DATA``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, show
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
ROWS, ROWS_OF_DOORS = 1000, 600
OLD, REFERENCE = "d1a5c90c", Path(__file__).with_name("any_regressor_reference.csv")
"""Commit of the earlier default, and its results."""
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


PAGE = (
    ("skuq", tuple(BASES), "development", 3, ROWS),
    ("skuq", tuple(BASES), "confirmation", 1, ROWS),
    ("center model", ("linear", "kNN", "SVR", "tree", "boosting", "forest"), "development", 1, ROWS),
    ("split", ("linear", "kNN", "tree", "boosting"), "development", 1, ROWS),
    ("MAPIE CV+", ("linear", "kNN", "tree", "boosting"), "development", 1, ROWS),
    ("skuq", tuple(dict.fromkeys(sum(DOORS.values(), ()))), "doors", 1, ROWS_OF_DOORS),
    *((method, bases, "doors", 1, ROWS_OF_DOORS) for method, bases in DOORS.items()),
)
"""Results of the page: method, regressors, sets, number of splits, largest number of training rows."""
FULL_SPLITS = 10
"""Number of splits of the development sets with ``--full``."""


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


def cells(results: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage of each base, set and level, and whether it is too far from the level."""
    names = [f"coverage {level}" for level in LEVELS]
    groups = results.groupby(["base", "set"], sort=False)
    coverage = groups[names].mean().set_axis(LEVELS, axis=1).rename_axis("level", axis=1).stack()
    found = coverage.to_frame("coverage").join(groups["n_test"].sum().rename("n"), on=["base", "set"])
    level = found.index.get_level_values("level").to_numpy()
    allowed = 2 * np.sqrt(level * (1 - level) / found["n"]) + 0.03
    return found.assign(outside=(found["coverage"] - level).abs() > allowed)


def table_of_cells(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per set and level with cells outside: the bases and their coverages."""
    found = cells(results).query("outside").reset_index().sort_values("coverage", ascending=False)
    found["text"] = found["base"] + " " + found["coverage"].map("{:.3f}".format)
    order = pd.MultiIndex.from_product([SETS["all"], LEVELS])
    rows = found.groupby(["set", "level"])["text"].agg(", ".join)
    rows = rows.reindex(order[order.isin(rows.index)])
    names = [name.partition("/")[2] for name, _ in rows.index]
    nominal = [f"{100 * level:.0f} %" for _, level in rows.index]
    return pd.DataFrame({"data": names, "nominal": nominal, "coverage": rows.to_numpy()})


def table(results: pd.DataFrame, method: str, reference: str | None) -> pd.DataFrame:
    """Return one row per regressor, and one for all: mean coverages, and ratios to the reference.

    *CRPS* and *width* (of 90 % intervals) are geometric means over the sets. *worst* is the largest ratio of
    the CRPS on one set. *outside* is the number of sets and levels whose coverage is too far from the level.
    """
    key = ["base", "set", "seed"]
    own = results[results["method"] == method].set_index(key)
    lines = own.groupby("base", sort=False)[[f"coverage {level}" for level in LEVELS]].mean()
    lines.columns = [f"{100 * level:.0f} %" for level in LEVELS]
    whole = lines.mean()
    if reference is not None:
        scores = ["crps", "width 0.9"]
        other = results[results["method"] == reference].set_index(key)[scores]
        logs = np.log(own[scores] / other.reindex(own.index)).groupby(["base", "set"], sort=False).mean()
        means = logs.groupby("base", sort=False).agg({"crps": ["mean", "max"], "width 0.9": "mean"})
        means.columns = ["CRPS", "worst", "width"]
        lines = lines.join(np.exp(means))
        every = means.mean().mask(means.columns == "worst", means["worst"].max())
        whole = pd.concat([whole, np.exp(every)])
    lines["outside"] = cells(own)["outside"].groupby(level="base", sort=False).sum()
    whole["outside"] = lines["outside"].sum()
    return pd.concat([lines, whole.to_frame("all").T]).rename_axis("regressor")


def completed(path: Path, quick: bool, full: bool) -> pd.DataFrame:
    """Return the results in a file, after the missing results of the page were computed and appended."""
    key = ["method", "set", "base", "seed", "rows"]
    done = set(pd.read_csv(path)[key].itertuples(index=False, name=None)) if path.is_file() else set()
    for method, bases, sets, n_splits, most in PAGE:
        splits = range(FULL_SPLITS if full and n_splits > 1 else n_splits)
        # Linear regression predicts the first confirmation set up to rounding.
        parts = ([0], SETS[sets][-1:], bases[:2]) if quick else (splits, SETS[sets], bases)
        for seed, name, base in product(*parts):
            if (method, name, base, seed, most) not in done:
                line = pd.DataFrame([evaluate(method, base, name, seed, most)])
                line.to_csv(path, mode="a", header=not path.is_file(), index=False)
                done.add((method, name, base, seed, most))
    return pd.read_csv(path)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="one set and two regressors for each table")
    parser.add_argument("--full", action="store_true", help="ten splits of the development sets, not three")
    parser.add_argument("--results", type=Path, default=Path("any_regressor.csv"))
    chosen = parser.parse_args()
    results = pd.concat([pd.read_csv(REFERENCE), completed(chosen.results, chosen.quick, chosen.full)])
    of_page, of_doors = results[results["rows"] == ROWS], results[results["rows"] == ROWS_OF_DOORS]
    first = of_page[of_page["seed"] == 0]
    development, confirmation = (
        of_page[of_page["set"].isin(SETS[sets])] for sets in ("development", "confirmation")
    )
    decimals = {"outside": 0, **dict.fromkeys(("CRPS", "worst", "width"), 2)}
    coverages = [f"{100 * level:.0f} %" for level in LEVELS]
    short, with_width = [*coverages, "outside"], [*coverages, "CRPS", "width"]
    tables = {
        "development": table(development, "skuq", OLD),
        "earlier": table(development, OLD, None)[short],
        "confirmation": table(confirmation, "skuq", OLD),
        "center": table(first, "center model", "skuq")[with_width],
        "split": table(first, "split", "skuq")[[*coverages, "width"]],
        "MAPIE": table(first, "MAPIE CV+", "skuq")[[*coverages, "width"]],
    }
    for name, found in tables.items():
        bold = {"center": "all", "split": "all", "MAPIE": "all"}.get(name)
        show(f"any_regressor-{name}", found.drop(index=bold) if bold else found, decimals)
    doors = {method: table(of_doors, method, "skuq").drop(index="all") for method in DOORS}
    frame = pd.concat(doors, names=["method"])[[*with_width[:-1], "worst", "width"]]
    show("any_regressor-doors", frame, decimals)
    show("any_regressor-cells", table_of_cells(of_page[of_page["method"] == "skuq"]))


if __name__ == "__main__":
    main()
