"""Processor time of predictions for one and for 1000 rows, relative to the wrapped model; size of pickles.

The model and its base are timed in alternating calls on the same rows. The base of a pool is the base of its
slowest member. The times of the moments and of the CRPS of a distribution do not include its prediction.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, best_times, seconds, show, significant
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from skuq.conformal import ConformalRegressor
from skuq.distributions import Distribution
from skuq.regressors import BootstrapRegressor, MixtureRegressor, UncertaintyRegressor

N_FEATURES, ROWS = 8, (1, 1000)


def simulate(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features, and a target whose noise depends on two of them: smoothly, and by a step."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES))
    scale = np.exp(0.5 * X[:, 0]) * np.where(X[:, 1] > 0, 3.0, 1.0)
    return X, X @ np.arange(1.0, N_FEATURES + 1) + scale * rng.standard_normal(n)


def cases() -> dict[str, tuple[Any, Any]]:
    """Return unfitted models, and the point regressors with which they are compared."""
    ridge = Ridge()
    boosting = HistGradientBoostingRegressor(random_state=0)
    quantile = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0)
    forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0)
    pair = [("ridge", UncertaintyRegressor(ridge)), ("boosting", UncertaintyRegressor(boosting))]
    default = UncertaintyRegressor(ridge, random_state=0)
    one_model = UncertaintyRegressor(boosting, method_params={"center": "model"}, random_state=0)
    return {
        "default around ``Ridge``": (default, ridge),
        "default around boosting": (UncertaintyRegressor(boosting, random_state=0), boosting),
        'the same, ``center="model"``': (one_model, boosting),
        "default around a forest of 50 trees": (UncertaintyRegressor(forest, random_state=0), forest),
        "conformal, normalized, around ``Ridge``": (
            ConformalRegressor(default, "normalized", random_state=0),
            ridge,
        ),
        "bootstrap of 50 ``Ridge``": (BootstrapRegressor(ridge, 50, random_state=0), ridge),
        "pool of ``Ridge`` and boosting": (MixtureRegressor(pair, random_state=0), boosting),
        "quantile boosting": (UncertaintyRegressor(quantile, effort="low", random_state=0), quantile),
    }


def of_new_dists(model: Any, X: np.ndarray, what: Callable[[Distribution], object], calls: int) -> float:
    """Return the shortest time of a property of new distributions, which have empty caches."""
    dists = [model.predict_dist(X) for _ in range(calls)]
    return min(seconds(lambda dist=dist: what(dist)) for dist in dists)


def row(model: Any, base: Any, calls: int = 20) -> dict[str, str]:
    """Return the cells of a fitted model."""
    found = {}
    for n in ROWS:
        X, _ = simulate(n, 1)
        own, other = best_times(
            lambda X=X: model.predict_dist(X), lambda X=X: base.predict(X), most=10 * calls
        )
        name = "one row" if n == 1 else f"{n} rows"
        found |= {
            f"{name}, ms": significant(1e3 * own, 2),
            f"{name}, times base": significant(own / other, 2),
        }
    (one, _), (many, _) = (simulate(n, 1) for n in ROWS)
    times = {
        "moments of one row, ms": of_new_dists(model, one, lambda dist: (dist.mean(), dist.std()), calls),
        "CRPS of 1000 rows, ms": of_new_dists(model, many, lambda dist: dist.crps(0.0), calls),
    }
    found |= {name: significant(1e3 * time, 2) for name, time in times.items()}
    return found | {"pickle, kB": f"{len(pickle.dumps(model)) / 1e3:.0f}"}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="use 200 training rows and few calls")
    quick = parser.parse_args().quick
    X, y = simulate(200 if quick else 2000, 0)
    with threadpool_limits(limits=1):
        rows = {
            what: row(model.fit(X, y), base.fit(X, y), 1 if quick else 20)
            for what, (model, base) in cases().items()
        }
    show("one_row", pd.DataFrame(rows).T.rename_axis("model"))


if __name__ == "__main__":
    main()
