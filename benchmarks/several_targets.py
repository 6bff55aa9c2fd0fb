"""Joint distributions of several targets: scores and coverage by dependence, and conformal regions.

Run as `python benchmarks/several_targets.py [--seeds 5] [--regions 200] [--networks 5]`. Scores of each
dependence are relative to independent targets with the same marginals. Real data are read from the folder in
the environment variable SKUQ_DATA and left out without it. Targets are standardized by the training rows: if
their means differed, the differences between targets would hide the dependence from the variogram score.
Networks require torch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split

from skuq.exceptions import SmallSampleWarning
from skuq.metrics import crps_loss
from skuq.multivariate import (
    ConformalRegionRegressor,
    MultiOutputUncertaintyRegressor,
    NormalJoint,
    energy_score_loss,
    variogram_score_loss,
)
from skuq.regressors import LeastSquaresRegressor, UncertaintyRegressor

DEPENDENCES = ("independent", "empirical", "gaussian", "conditional")
TEST_ROWS = 300
Data = tuple[np.ndarray, np.ndarray]


def constant(n: int, rng: np.random.Generator, rho: float = 0.8) -> Data:
    """Return three targets whose errors have one correlation."""
    X = rng.uniform(-1, 1, size=(n, 4))
    mean = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] ** 2, X[:, 0] * X[:, 2]])
    root = np.linalg.cholesky(rho + (1 - rho) * np.eye(3))
    return X, mean + 0.5 * rng.normal(size=(n, 3)) @ root.T


def independent(n: int, rng: np.random.Generator) -> Data:
    return constant(n, rng, rho=0.0)


def varying(n: int, rng: np.random.Generator) -> Data:
    """Return three targets whose errors share a factor with loadings that change sign with a feature."""
    X = rng.uniform(-1, 1, size=(n, 4))
    mean = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] ** 2, X[:, 0] * X[:, 2]])
    loading = np.sqrt(0.95) * np.column_stack([np.ones(n), np.tanh(4 * X[:, 3]), np.tanh(4 * X[:, 0])])
    factor = rng.normal(size=(n, 1))
    own = rng.normal(size=(n, 3)) * np.sqrt(1 - loading**2)
    return X, mean + 0.5 * (loading * factor + own)


WORLDS: dict[str, Callable[[int, np.random.Generator], Data]] = {
    "constant": constant,
    "varying": varying,
    "independent": independent,
}


def forest() -> Any:
    return RandomForestRegressor(100, min_samples_leaf=3)


def ridge() -> Any:
    return RidgeCV(np.logspace(-3, 3, 13))


def real_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray, int, Any]]:
    """Yield name, features, targets, number of training rows and regressor of each real data set."""
    folder = os.environ.get("SKUQ_DATA")
    if not folder:
        return
    parkinsons = pd.read_csv(Path(folder, "paper001", "parkinsons_telemonitoring.csv.gz"))
    y = parkinsons[["motor_UPDRS", "total_UPDRS"]]
    X = parkinsons.drop(columns=[*y.columns, "subject#"])
    yield "parkinsons, forest", X.to_numpy(), y.to_numpy(), 1200, forest
    yield "parkinsons, ridge", (X / X.std()).to_numpy(), y.to_numpy(), 1200, ridge
    facebook = pd.read_csv(Path(folder, "paper001", "facebook_metrics.csv.gz")).dropna()
    y = np.log1p(facebook[["comment", "like", "share"]])
    X = pd.get_dummies(facebook.iloc[:, :7], columns=["Type"])  # known before the publication of a post
    yield "facebook, forest", X.to_numpy(dtype=float), y.to_numpy(), 331, forest


def compare(name: str, X: Data, y: Data, make: Any, seed: int) -> list[dict[str, Any]]:
    """Return one row per dependence."""
    (X_train, X_test), (y_train, y_test) = X, standardize(*y)
    start = perf_counter()
    for column in y_train.T:
        UncertaintyRegressor(make(), random_state=seed).fit(X_train, column)
    seconds = perf_counter() - start
    rows = []
    for dependence in DEPENDENCES:
        model = MultiOutputUncertaintyRegressor(make(), dependence=dependence, random_state=seed)
        start = perf_counter()
        model.fit(X_train, y_train)
        fitted = perf_counter() - start
        dist = model.predict_dist(X_test)
        measures = measure(y_test, dist) | {
            "time of fit": fitted / seconds,
            "share": model.conditional_share_,
        }
        rows.append({"set": name, "dependence": dependence} | measures)
    return rows


def compare_networks(name: str, X: Data, y: Data, seed: int) -> list[dict[str, Any]]:
    """Return one row per method: an ensemble per target, and one ensemble with a covariance matrix."""
    from skuq.neural import DeepEnsembleRegressor

    (X_train, X_test), (y_train, y_test) = X, standardize(*y)
    dists, seconds = {}, {}
    for dependence in ("independent", "empirical"):
        model = MultiOutputUncertaintyRegressor(
            DeepEnsembleRegressor(), dependence=dependence, random_state=seed
        )
        start = perf_counter()
        dists[dependence] = model.fit(X_train, y_train).predict_dist(X_test)
        seconds[dependence] = perf_counter() - start
    start = perf_counter()
    joint = DeepEnsembleRegressor(random_state=seed).fit(X_train, y_train).predict_dist(X_test)
    seconds["joint"] = seconds["joint, correlation 0"] = perf_counter() - start
    variances = np.square(joint.std())[:, :, np.newaxis] * np.eye(y_test.shape[1])
    dists |= {"joint": joint, "joint, correlation 0": NormalJoint(joint.mean(), variances)}
    return [
        {"set": name, "dependence": dependence} | measure(y_test, dist) | {"seconds": seconds[dependence]}
        for dependence, dist in dists.items()
    ]


def standardize(y_train: np.ndarray, y_test: np.ndarray) -> Data:
    center, scale = y_train.mean(axis=0), y_train.std(axis=0)
    return (y_train - center) / scale, (y_test - center) / scale


def measure(y: np.ndarray, dist: Any) -> dict[str, float]:
    total = y.sum(axis=1)
    of_sum = dist.linear(np.ones(y.shape[1]))
    bounds = of_sum.interval(0.9)
    return {
        "energy": energy_score_loss(y, dist),
        "variogram": variogram_score_loss(y, dist),
        "crps of sum": crps_loss(total, of_sum),
        "coverage of sum": np.mean((bounds[:, 0] <= total) & (total <= bounds[:, 1])),
        "simultaneous": simultaneous_coverage(dist, y),
    }


def simultaneous_coverage(dist: Any, y: np.ndarray) -> float:
    bounds = dist.interval(0.9, simultaneous=True)
    return float(np.mean(((bounds[:, 0] <= y) & (y <= bounds[:, 1])).all(axis=1)))


def table_of_dependence(seeds: int) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        for name in WORLDS:
            rows += compare(name, *draw(name, seed), forest, seed)
    for name, X, y, n_train, make in real_sets():
        for seed in range(min(seeds, 2)):
            rows += compare(name, *split(X, y, n_train, seed), make, seed)
    return relative(rows)


def table_of_networks(seeds: int) -> pd.DataFrame:
    """Return the scores of one deep ensemble per target, and of one ensemble for all targets."""
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        for name in WORLDS:
            rows += compare_networks(name, *draw(name, seed), seed)
    for name, X, y, n_train, make in real_sets():
        if make is forest:
            for seed in range(min(seeds, 2)):
                rows += compare_networks(name.split(",")[0], *split(X, y, n_train, seed), seed)
    return relative(rows)


def draw(name: str, seed: int) -> tuple[Data, Data]:
    """Return features and targets of a simulation, each for training and test."""
    X, y = WORLDS[name](1200, np.random.default_rng(seed))
    X_test, y_test = WORLDS[name](TEST_ROWS, np.random.default_rng(1000 + seed))
    return (X, X_test), (y, y_test)


def split(X: np.ndarray, y: np.ndarray, n_train: int, seed: int) -> tuple[Data, Data]:
    parts = train_test_split(X, y, train_size=n_train, random_state=seed)
    return (parts[0], parts[1][:TEST_ROWS]), (parts[2], parts[3][:TEST_ROWS])


def relative(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return means over seeds, and the scores in percent of the scores without dependence."""
    table = pd.DataFrame(rows).groupby(["set", "dependence"], sort=False).mean()
    reference = table.xs("independent", level="dependence").reindex(table.index, level="set")
    for score in ("energy", "variogram", "crps of sum"):
        table[f"{score}, %"] = 100 * (table[score] / reference[score] - 1)
    return table.round(3)


def table_of_regions(repeats: int, n: int = 120) -> pd.DataFrame:
    """Return mean coverage and width of regions over training sets, with 30 calibration rows for "split"."""
    rows: list[dict[str, Any]] = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        X, y = constant(n, rng)
        X_test, y_test = constant(200, rng)
        for shape in ("box", "ellipsoid"):
            for method in ("split", "cv+"):
                estimator = MultiOutputUncertaintyRegressor(LeastSquaresRegressor())
                model = ConformalRegionRegressor(estimator, shape, method=method, random_state=seed)
                region = model.fit(X, y).predict_region(X_test)
                rows.append(
                    {
                        "shape": shape,
                        "method": method,
                        "coverage": region.contains(y_test).mean(),
                        "width": np.median(region.volume()) ** (1 / 3),
                    }
                )
                if shape == "box" and method == "split":
                    rows.append(bonferroni(model, X[model.calibration_rows_], y, X_test, y_test))
    table = pd.DataFrame(rows).groupby(["shape", "method"], sort=False)
    result = table.mean()
    result["standard error"] = table["coverage"].std() / np.sqrt(repeats)
    return result.round(4)


def bonferroni(model: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Any:
    """Return coverage and width of one conformal interval per target with a third of the miscoverage."""
    dist, new = model.predict_dist(X), model.predict_dist(X_test)
    scores = np.sort(np.abs(y[model.calibration_rows_] - dist.mean()) / dist.std(), axis=0)
    rank = int(np.ceil((1 - 0.1 / 3) * (len(scores) + 1)))
    half = scores[rank - 1] * new.std() if rank <= len(scores) else np.full(y_test.shape, np.inf)
    inside = (np.abs(y_test - new.mean()) <= half).all(axis=1)
    width = np.median((2 * half).prod(axis=1)) ** (1 / 3)
    return {"shape": "box", "method": "bonferroni", "coverage": inside.mean(), "width": width}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--regions", type=int, default=200)
    parser.add_argument("--networks", type=int, default=5)
    options = parser.parse_args()
    with warnings.catch_warnings(), pd.option_context("display.width", 250, "display.max_columns", 20):
        warnings.simplefilter("ignore", SmallSampleWarning)
        if options.regions:
            print(table_of_regions(options.regions).to_string(), flush=True)
        if options.seeds:
            print(table_of_dependence(options.seeds).to_string(), flush=True)
        if options.networks:
            print(table_of_networks(options.networks).to_string())


if __name__ == "__main__":
    main()
