"""Processor time of predictions for one and for 1000 rows, relative to the wrapped model; size of pickles.

Run as `python benchmarks/one_row.py [part of a name]` with OMP_NUM_THREADS=1. The model and its base are
timed in alternating calls on the same rows. Each time is a median. ``ratio`` is the time of the model divided
by the time of its base. The base of a pool is the base of its slowest member. The times of the moments, the
bounds and the CRPS of a distribution do not include its prediction.
"""

from __future__ import annotations

import pickle
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from measuring import arguments, seconds, times_in_turns
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from skuq.conformal import ConformalRegressor
from skuq.regressors import BootstrapRegressor, MixtureRegressor, UncertaintyRegressor

N_TRAIN, N_FEATURES, ROWS = 2000, 8, (1, 1000)
CALLS = 200


@dataclass(frozen=True)
class Case:
    """Model, and the fitted point regressor with which it is compared."""

    what: str
    model: Any
    base: Any


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features, and a target whose noise depends on two of them: smoothly, and by a step."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES))
    scale = np.exp(0.5 * X[:, 0]) * np.where(X[:, 1] > 0, 3.0, 1.0)
    return X, X @ np.arange(1.0, N_FEATURES + 1) + scale * rng.standard_normal(n)


def cases() -> Iterator[Case]:
    """Yield unfitted models."""
    ridge = Ridge()
    boosting = HistGradientBoostingRegressor(random_state=0)
    quantile = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0)
    forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0)
    pair = [("ridge", UncertaintyRegressor(ridge)), ("boosting", UncertaintyRegressor(boosting))]
    default = UncertaintyRegressor(ridge, random_state=0)
    yield Case("default around Ridge", default, ridge)
    yield Case("default around boosting", UncertaintyRegressor(boosting, random_state=0), boosting)
    one_model = UncertaintyRegressor(boosting, method_params={"center": "model"}, random_state=0)
    yield Case("the same with one model", one_model, boosting)
    yield Case("default around a forest", UncertaintyRegressor(forest, random_state=0), forest)
    yield Case("normalized conformal", ConformalRegressor(default, "normalized", random_state=0), ridge)
    yield Case("bootstrap of 50 Ridge", BootstrapRegressor(ridge, 50, random_state=0), ridge)
    yield Case("pool of Ridge and boosting", MixtureRegressor(pair, random_state=0), boosting)
    yield Case("quantile boosting", UncertaintyRegressor(quantile, effort="low", random_state=0), quantile)


def calls(model: Any) -> dict[str, Callable[[np.ndarray], Callable[[], object]]]:
    """Return the timed operations: functions that prepare rows and return the call that is timed."""
    return {
        "predict": lambda X: lambda: model.predict(X),
        "interval": lambda X: lambda: model.predict_interval(X),
        "distribution": lambda X: lambda: model.predict_dist(X),
    }


def measure(
    model: Callable[[], object], base: Callable[[], object], seconds_per_case: float = 3.0
) -> tuple[float, float]:
    """Return the median times of the model and of its base, measured in alternating calls."""
    own, other = times_in_turns(
        model, base, budget=seconds_per_case, most=CALLS, least=3, clock=time.process_time
    )
    return statistics.median(own), statistics.median(other)


def dist_seconds(model: Any, X: np.ndarray, what: Callable[[Any], object]) -> float:
    """Return the median time of a property of new distributions."""
    times = []
    for _ in range(20):
        dist = model.predict_dist(X)
        times.append(seconds(lambda dist=dist: what(dist), time.process_time))
    return statistics.median(times)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("part", nargs="?", default="", help="run only cases whose name contains this text")
    part = parser.parse_args().part
    X_train, y_train = table(N_TRAIN, 0)
    heads = "".join(f"{f'{n} rows, ms':>15}{'base':>9}{'ratio':>8}" for n in ROWS)
    print(f"{'model':28}{'call':14}{heads}{'pickle, kB':>12}")
    for case in cases():
        if part not in case.what:
            continue
        model, base = case.model.fit(X_train, y_train), case.base.fit(X_train, y_train)
        size = len(pickle.dumps(model)) / 1e3
        with threadpool_limits(limits=1):
            for call, prepare in calls(model).items():
                text = ""
                for n in ROWS:
                    X, _ = table(n, 1)
                    own, other = measure(prepare(X), lambda X=X, base=base: base.predict(X))
                    text += f"{1e3 * own:15.3f}{1e3 * other:9.3f}{own / other:8.1f}"
                print(f"{case.what:28}{call:14}{text}{size:12.1f}", flush=True)
            for name, what in {
                "moments": lambda dist: (dist.mean(), dist.std()),
                "bounds": lambda dist: dist.interval(),
                "CRPS": lambda dist: dist.crps(0.0),
            }.items():
                text = "".join(
                    f"{1e3 * dist_seconds(model, table(n, 1)[0], what):15.3f}{'':17}" for n in ROWS
                )
                print(f"{case.what:28}{name:14}{text}", flush=True)


if __name__ == "__main__":
    main()
