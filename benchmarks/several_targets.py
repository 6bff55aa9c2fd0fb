"""Joint distributions of several targets: scores and coverage of the sum by dependence.

Run as `python benchmarks/several_targets.py [--seeds 5]`; ``--quick`` runs one small simulation. Scores of
each dependence are relative to independent targets with the same marginals. Real data, with at most two
splits, are read from the folder in ``SKUQ_DATA``. Targets are standardized by the training rows: if their
means differed, the differences between targets would hide the dependence from the variogram score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, data_folder, show
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split

from skuq.multivariate import MultiOutputUncertaintyRegressor, energy_score_loss, variogram_score_loss

DEPENDENCES = ("independent", "empirical", "gaussian", "conditional")
TRAINING_ROWS, QUICK_ROWS, TEST_ROWS = 1200, 200, 300
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
    folder = data_folder() / "paper001"
    parkinsons = pd.read_csv(folder / "parkinsons_telemonitoring.csv.gz")
    y = parkinsons[["motor_UPDRS", "total_UPDRS"]]
    X = parkinsons.drop(columns=[*y.columns, "subject#"])
    yield "parkinsons", X.to_numpy(), y.to_numpy(), 1200, forest
    yield "parkinsons, ridge", (X / X.std()).to_numpy(), y.to_numpy(), 1200, ridge
    facebook = pd.read_csv(folder / "facebook_metrics.csv.gz").dropna()
    y = np.log1p(facebook[["comment", "like", "share"]])
    X = pd.get_dummies(facebook.iloc[:, :7], columns=["Type"])  # known before the publication of a post
    yield "facebook", X.to_numpy(dtype=float), y.to_numpy(), 331, forest


def dependences(make: Any, seed: int) -> dict[str, Any]:
    """Return one regressor per dependence, with one model per target."""
    return {
        name: MultiOutputUncertaintyRegressor(make(), dependence=name, random_state=seed)
        for name in DEPENDENCES
    }


def networks(make: Any, seed: int) -> dict[str, Any]:
    """Return ensembles of networks per target, and one ensemble that predicts a covariance matrix."""
    from skuq.neural import DeepEnsembleRegressor

    per_target = dependences(DeepEnsembleRegressor, seed)
    joint = {"one ensemble": DeepEnsembleRegressor(random_state=seed)}
    return {name: per_target[name] for name in ("independent", "empirical")} | joint


def compare(name: str, X: Data, y: Data, models: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row per model."""
    (X_train, X_test), (y_train, y_test) = X, standardize(*y)
    rows = []
    for dependence, model in models.items():
        start = process_time()
        dist = model.fit(X_train, y_train).predict_dist(X_test)
        seconds = process_time() - start
        rows.append({"data": name, "dependence": dependence, **measure(y_test, dist), "seconds": seconds})
    return rows


def standardize(y_train: np.ndarray, y_test: np.ndarray) -> Data:
    center, scale = y_train.mean(axis=0), y_train.std(axis=0)
    return (y_train - center) / scale, (y_test - center) / scale


def measure(y: np.ndarray, dist: Any) -> dict[str, float]:
    total = y.sum(axis=1)
    lower, upper = dist.linear(np.ones(y.shape[1])).interval(0.9).T
    return {
        "energy, %": energy_score_loss(y, dist),
        "variogram, %": variogram_score_loss(y, dist),
        "coverage of sum": np.mean((lower <= total) & (total <= upper)),
    }


def table(seeds: int, models: Callable[..., dict[str, Any]], quick: bool = False) -> pd.DataFrame:
    """Return means over seeds, and the scores in percent of the scores without dependence."""
    rows: list[dict[str, Any]] = []
    for name in list(WORLDS)[: 1 if quick else None]:
        for seed in range(seeds):
            data = draw(name, seed, QUICK_ROWS if quick else TRAINING_ROWS)
            rows += compare(name, *data, models(ridge if quick else forest, seed))
    for name, X, y, n_train, make in () if quick else real_sets():
        for seed in range(min(seeds, 2) if models is dependences or make is forest else 0):
            rows += compare(name, *split(X, y, n_train, seed), models(make, seed))
    found = pd.DataFrame(rows).groupby(["data", "dependence"], sort=False).mean()
    reference = found.xs("independent", level="dependence").reindex(found.index, level="data")
    for score in ("energy, %", "variogram, %"):
        found[score] = (100 * (found[score] / reference[score] - 1)).round(1) + 0.0  # no negative zero
    return found


def draw(name: str, seed: int, n_train: int) -> tuple[Data, Data]:
    """Return features and targets of a simulation, each for training and test."""
    X, y = WORLDS[name](n_train, np.random.default_rng(seed))
    X_test, y_test = WORLDS[name](TEST_ROWS, np.random.default_rng(1000 + seed))
    return (X, X_test), (y, y_test)


def split(X: np.ndarray, y: np.ndarray, n_train: int, seed: int) -> tuple[Data, Data]:
    parts = train_test_split(X, y, train_size=n_train, random_state=seed)
    return (parts[0], parts[1][:TEST_ROWS]), (parts[2], parts[3][:TEST_ROWS])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one small simulation, ridge instead of forests")
    chosen = parser.parse_args()
    seeds = 1 if chosen.quick else chosen.seeds
    decimals = {"energy, %": 1, "variogram, %": 1, "coverage of sum": 2, "seconds": 1}
    for name, models in (("several_targets", dependences), ("several_targets-networks", networks)):
        show(name, table(seeds, models, chosen.quick), decimals)


if __name__ == "__main__":
    main()
