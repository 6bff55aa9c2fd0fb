"""Scores of the options for counts and for targets with many zeros.

Run as `SKUQ_DATA=... python benchmarks/kinds_of_target.py [--quick]`; ``--quick`` runs one seed with few
training rows. The first table compares forecasts of counts before and after the map to the integers from 0:
simulated counts, the rings of abalone, and the comments and likes of posts. The second table compares
`HurdleRegressor` with `UncertaintyRegressor` for two processes with 75 % zeros. The probability of zero is a
smooth function of one column, or a sharp function of four columns.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, data_folder, show
from scipy import special, stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from skuq.distributions import Distribution, Hurdle, ScipyDistribution
from skuq.exceptions import SupportWarning
from skuq.regressors import HurdleRegressor, UncertaintyRegressor

SEEDS, N_TRAIN, N_TEST = 4, 1500, 4000
QUICK = 1, 200
"""Number of simulations and splits, and largest number of training rows, of ``--quick``."""
MEANS = (0.3, 1.0, 2.5, 6.0, 200.0)


def signal(X: np.ndarray) -> np.ndarray:
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * X[:, 3]


def simulated_counts(X: np.ndarray, mean: float, dispersed: bool) -> Distribution:
    center = mean * np.exp(0.5 * signal(X))
    if not dispersed:
        return ScipyDistribution(stats.poisson(center))
    size = 2 * np.exp(0.5 * X[:, 4])
    return ScipyDistribution(stats.nbinom(size, size / (size + center)))


def count_sets(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """Yield the name, X, y and the number of training rows."""
    for mean in MEANS:
        for dispersed in (False, True):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(N_TRAIN + N_TEST, 6))
            y = simulated_counts(X, mean, dispersed).sample(1, random_state=seed)[:, 0]
            yield f"{'negative binomial' if dispersed else 'Poisson'}, mean {mean:g}", X, y, N_TRAIN
    folder = data_folder() / "paper001"
    for name, target, last in (
        ("abalone", "Rings", 8),
        ("facebook_metrics", "comment", 7),
        ("facebook_metrics", "like", 7),
    ):
        frame = pd.read_csv(folder / f"{name}.csv.gz").dropna()
        frame = frame.sample(frac=1.0, random_state=seed)
        X = pd.get_dummies(frame.iloc[:, :last]).to_numpy(dtype=float)  # posts: known before the publication
        yield f"{name}, {target}", X, frame[target].to_numpy(dtype=float), int(0.7 * len(frame))


def regressor() -> Any:
    return UncertaintyRegressor(HistGradientBoostingRegressor(random_state=0), random_state=0)


def counts_table(n_seeds: int = SEEDS, most: int | None = None) -> pd.DataFrame:
    """Return the CRPS after the map relative to the CRPS before it, and the shares of impossible bounds."""
    rows = []
    for seed in range(n_seeds):
        for name, X, y, n_train in count_sets(seed):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SupportWarning)
                model = regressor().fit(X[:n_train][:most], y[:n_train][:most])
            before = model.predict_dist(X[n_train:])
            after = before.clip(0.0, integer=True)  # the same as support="count"
            test = y[n_train:]
            quantiles = after.quantile([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
            rows.append(
                {
                    "set": name,
                    "mean": y.mean(),
                    "CRPS / before": after.crps(test).mean() / before.crps(test).mean(),
                    "impossible before": (before.interval(0.9) < 0).any(axis=1).mean(),
                    "impossible": (quantiles != np.maximum(quantiles.round(), 0)).mean(),
                }
            )
    return pd.DataFrame(rows).groupby("set", sort=False).mean()


def with_zeros(X: np.ndarray, kind: str) -> Hurdle:
    if kind == "smooth":
        p, shape = special.expit(1.3 + 0.8 * X[:, 4]), 2.0
    else:
        p, shape = special.expit(2.2 + 3 * signal(X)), 8.0
    scale = np.exp(0.3 + 0.5 * signal(X)) * (1.0 if shape == 2.0 else 0.125)
    return Hurdle(p, ScipyDistribution(stats.gamma(shape, scale=scale)))


def hurdle(**params: Any) -> HurdleRegressor:
    classifier = HistGradientBoostingClassifier(random_state=0, **params)
    return HurdleRegressor(classifier, regressor(), random_state=0)


MODELS = {
    "UncertaintyRegressor": regressor,
    "hurdle, 100 rounds of 8 leaves": lambda: hurdle(max_leaf_nodes=8, learning_rate=0.05),
    "hurdle, default classifier": hurdle,
}


def zeros_table(n_seeds: int = SEEDS, most: int = N_TRAIN) -> pd.DataFrame:
    """Return the CRPS relative to the true distribution, and the seconds of the fit."""
    rows = []
    for kind in ("smooth", "sharp"):
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(N_TRAIN + N_TEST, 6))
            truth = with_zeros(X, kind)
            y = truth.sample(1, random_state=seed)[:, 0]
            test = slice(N_TRAIN, None)
            best = truth[test].crps(y[test]).mean()
            for name, make in MODELS.items():
                start = time.process_time()
                model = make().fit(X[:most], y[:most])
                seconds = time.process_time() - start
                dist = model.predict_dist(X[test])
                row = {"process": kind, "model": name, "CRPS / truth": dist.crps(y[test]).mean() / best}
                if isinstance(dist, Hurdle):
                    known = Hurdle(truth[test].p, dist.dist)
                    row["with the true P(y = 0)"] = known.crps(y[test]).mean() / best
                rows.append({**row, "seconds": seconds})
    return pd.DataFrame(rows).groupby(["process", "model"], sort=False).mean()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed and few training rows")
    size = QUICK if parser.parse_args().quick else ()
    show("kinds_of_target-counts", counts_table(*size))
    show("kinds_of_target-zeros", zeros_table(*size))


if __name__ == "__main__":
    main()
