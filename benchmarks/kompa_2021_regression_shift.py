"""Kompa et al. 2021, for regression: coverage and width of nine methods on shifted data.

Kompa, Snoek and Beam, "Empirical frequentist coverage of deep learning uncertainty quantification
procedures", Entropy 23(12), 1608, 2021, measure coverage under shift for classifiers only. This script
measures the coverage of regressors under shift: 90 % intervals of nine methods with default parameters, on
three data sets and four shifts.

    python kompa_2021_regression_shift.py                          # two methods, one split: half a minute
    python kompa_2021_regression_shift.py --methods "sparse GP" --splits 5 --out shift.json
    python kompa_2021_regression_shift.py --full --out shift.json  # all methods, five splits

The data are in folders ``paper001`` and ``other``, in the folder given by the environment variable
SKUQ_DATA.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from skuq import UncertaintyRegressor, predict_dist
from skuq.conformal import ConformalRegressor
from skuq.evaluation import Tilt, shift_curve
from skuq.metrics import conditional_coverage
from skuq.neural import DeepEnsembleRegressor, LastLayerLaplaceRegressor, MCDropoutRegressor
from skuq.regressors import (
    BootstrapRegressor,
    LeastSquaresRegressor,
    ResidualRegressor,
    SparseGaussianProcessRegressor,
)

COVERAGE, MOST_SPLITS = 0.9, 5
TILTS, NOISES, YEARS = (0.0, 1.0, 2.0), (0.3, 1.0), (2014, 2016, 2018)


# ------------------------------------------------------------------------------------------ the methods


def forest(wrapper: Callable[..., Any], seed: int) -> Any:
    """Return a method that wraps a forest."""
    return wrapper(RandomForestRegressor(50, min_samples_leaf=3, random_state=seed), random_state=seed)


METHODS: dict[str, Callable[[int], Any]] = {
    "least squares": lambda seed: LeastSquaresRegressor(),
    "forest, residuals": partial(forest, ResidualRegressor),
    "forest, bootstrap": partial(forest, BootstrapRegressor),
    "forest, conformal": partial(forest, ConformalRegressor),
    "sparse GP": lambda seed: SparseGaussianProcessRegressor(random_state=seed),
    "deep ensemble": lambda seed: DeepEnsembleRegressor(random_state=seed),
    "MC dropout": lambda seed: MCDropoutRegressor(random_state=seed),
    "last-layer Laplace": lambda seed: LastLayerLaplaceRegressor(random_state=seed),
    "forest, UncertaintyRegressor": partial(forest, UncertaintyRegressor),
}
SMALL = ("least squares", "forest, UncertaintyRegressor")


# -------------------------------------------------------------------------------- the data and the shifts


def standardized(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return values in standard deviations of the training rows."""
    return (values - values[train].mean(axis=0)) / values[train].std(axis=0)


def airfoil(folder: Path, method: str, seed: int) -> dict[str, tuple[float, float]]:
    """Train on 900 rows; tilt the test rows toward thick layers and low frequencies, or add noise to X."""
    frame = pd.read_csv(folder / "paper001" / "airfoil_self_noise.csv.gz")
    for column in ("frequency", "suction_side_displacement_thickness"):
        frame[column] = np.log(frame[column])
    train, test = np.split(np.random.default_rng(seed).permutation(len(frame)), [900])
    table = standardized(frame.to_numpy(), train)
    X, y = table[:, :-1], table[:, -1]
    model = FrozenEstimator(METHODS[method](seed).fit(X[train], y[train]))
    curve = partial(shift_curve, model, X, y, scoring=["picp", "mpiw"], cv=[(train, test)], random_state=seed)
    tilt = curve(shift=Tilt([-1.0, 0.0, 0.0, 0.0, 1.0]), severities=TILTS)
    noise = curve(shift=add_noise, severities=NOISES)
    found = {}
    for name, strengths, scores in (("tilt", TILTS, tilt), ("noise", NOISES, noise)):
        for strength, picp, mpiw in zip(strengths, scores["picp"], scores["mpiw"], strict=True):
            found[f"{name} {strength:g}"] = (float(picp[0]), float(mpiw[0]))
    return found


def add_noise(X: np.ndarray, severity: float, random_state: int) -> np.ndarray:
    """Add noise to each feature, in units of its standard deviation."""
    return X + severity * np.random.default_rng(random_state).normal(size=X.shape)


def wine(folder: Path, method: str, seed: int) -> dict[str, tuple[float, float]]:
    """Train on 1100 red wines, and test on the other red wines and as many white wines."""
    frame = pd.read_csv(folder / "paper001" / "wine_quality.csv.gz")
    color = frame.pop("color").to_numpy()
    rng = np.random.default_rng(seed)
    train, rest = np.split(rng.permutation(np.flatnonzero(color == "red")), [1100])
    white = rng.choice(np.flatnonzero(color == "white"), rest.size, replace=False)
    return by_group(frame.to_numpy(), color, train, np.concatenate([rest, white]), method, seed)


def traffic(folder: Path, method: str, seed: int) -> dict[str, tuple[float, float]]:
    """Train on 3000 hours of October 2012 to September 2013; test on other hours of that year or later."""
    frame = pd.read_csv(folder / "other" / "metro_traffic.csv.gz")
    time = pd.to_datetime(frame["date_time"])
    table = np.column_stack(
        [
            *(frame[column] for column in ("temp", "rain_1h", "snow_1h", "clouds_all")),
            *(wave(2 * np.pi * time.dt.hour / 24) for wave in (np.sin, np.cos)),
            *(wave(2 * np.pi * time.dt.dayofyear / 365.25) for wave in (np.sin, np.cos)),
            *(time.dt.dayofweek == day for day in range(6)),
            frame["traffic_volume"],
        ]
    ).astype(float)
    first = (time >= "2012-10-01") & (time < "2013-10-01")
    year = np.where(first, "2012/13", time.dt.year.astype(str))
    rng = np.random.default_rng(seed)
    train, same, _ = np.split(rng.permutation(np.flatnonzero(first)), [3000, 5000])
    later = [rng.choice(np.flatnonzero(year == str(each)), 2000, replace=False) for each in YEARS]
    return by_group(table, year, train, np.concatenate([same, *later]), method, seed)


def by_group(
    values: np.ndarray,
    group: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    method: str,
    seed: int,
) -> dict[str, tuple[float, float]]:
    """Return coverage and width of the tested rows of each group; the last column of values is the target."""
    table = standardized(np.delete(values, values[train].std(axis=0) == 0, axis=1), train)
    X, y = table[:, :-1], table[:, -1]
    bounds = predict_dist(METHODS[method](seed).fit(X[train], y[train]), X[test]).interval(COVERAGE)
    found = conditional_coverage(y[test], bounds, groups=group[test])
    return {label: (row["coverage"], row["mean_width"]) for label, row in found.iterrows()}


SETS = {"airfoil": airfoil, "wine": wine, "traffic": traffic}

# -------------------------------------------------------------------------------------------- the tables


def cell(values: list[tuple[float, float]]) -> str:
    """Return mean coverage with its standard error over splits, and mean width."""
    coverage, width = np.transpose(values)
    error = f" ± {coverage.std(ddof=1) / np.sqrt(len(coverage)):.3f}" if len(coverage) > 1 else ""
    return f"{coverage.mean():.3f}{error}, {width.mean():.2f}"


def table(results: dict[str, list[dict[str, tuple[float, float]]]], name: str) -> pd.DataFrame:
    """Return one cell per method and shift of a data set."""
    rows = {}
    for key, splits in results.items():
        of, _, method = key.partition("; ")
        if of == name:
            rows[method] = {column: cell([split[column] for split in splits]) for column in splits[0]}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def main(arguments: list[str] | None = None) -> None:
    """Run the missing runs, and show one table per data set."""
    parser = measuring.arguments(__doc__)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(SMALL))
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="all methods, five splits")
    parser.add_argument("--out", type=Path, help="JSON file of results; finished runs in it are skipped")
    options = parser.parse_args(arguments)
    if options.full:
        options.methods, options.splits = list(METHODS), MOST_SPLITS
    if options.splits < 1:
        parser.error(f"--splits must be at least 1, got {options.splits}.")
    folder = measuring.data_folder()
    results = json.loads(options.out.read_text()) if options.out and options.out.is_file() else {}
    keys = {f"{name}; {method}": (name, method) for method in options.methods for name in SETS}
    for key, (name, method) in keys.items():
        for seed in range(len(results.get(key, ())), options.splits):
            results.setdefault(key, []).append(SETS[name](folder, method, seed))
            if options.out:
                options.out.write_text(json.dumps(results, indent=1))
    for name in SETS:
        shown = table({key: results[key] for key in keys}, name)
        measuring.show(f"kompa_2021_regression_shift-{name}", shown)


if __name__ == "__main__":
    main()
