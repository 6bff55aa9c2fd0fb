"""Scores and coverage of regressors of censored targets, and the best scale factor of each censored score.

Run as `python benchmarks/censored.py [--quick]`. In the simulation, the times are log-normal, and half of
the rows are censored. The CRPS of the logarithm on new uncensored rows is divided by the CRPS of the true
distribution. The last table has the factor between 0.5 and 2 at which each score of the scaled true
distribution is best.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from measuring import arguments, show
from sklearn.ensemble import HistGradientBoostingRegressor

from skuq.distributions import Distribution, Normal, Transformed
from skuq.metrics import nll_loss
from skuq.regressors import UncertaintyRegressor
from skuq.survival import (
    CensoredBoostingRegressor,
    CensoringWeightedRegressor,
    ipcw_brier_loss,
    ipcw_crps_loss,
    localized_crps_loss,
)

SEEDS, N_NEW = 4, 4000
"""Number of simulations with 1500 rows, and number of new rows."""
FACTORS = np.arange(0.5, 2.01, 0.05)
UPPER = 1.9
"""Largest time of the scores, in units of the logarithm."""


class World(NamedTuple):
    """Simulated rows, with their times and their censoring times."""

    X: np.ndarray
    time: np.ndarray
    ends: np.ndarray
    log_truth: Normal

    @property
    def y(self) -> np.ndarray:
        """Return the time of the event or of the censoring, whichever is earlier."""
        return np.minimum(self.time, self.ends)

    @property
    def event(self) -> np.ndarray:
        """Return whether the event was observed."""
        return self.time <= self.ends


def simulate(n: int, seed: int) -> World:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 6))
    loc = 1 + np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 5] / 3
    scale = 0.6 * np.exp(0.4 * X[:, 4])
    times = np.exp(loc + scale * rng.normal(size=n))
    return World(X, times, rng.exponential(4.2, size=n), Normal(loc, scale))


def boosted(engine: str) -> Callable[[World], Distribution]:
    def fit(world: World) -> Any:
        model = CensoredBoostingRegressor(engine=engine, random_state=0)
        return model.fit(world.X, world.y, event=world.event)

    return fit


def with_regressor(fit: Callable[[Any, World], Any]) -> Callable[[World], Any]:
    regressor = UncertaintyRegressor(HistGradientBoostingRegressor(random_state=0), random_state=0)
    return lambda world: fit(regressor, world)


MODELS = {
    "boosting, LightGBM": boosted("lightgbm"),
    "boosting, scikit-learn": boosted("sklearn"),
    "weighted rows": with_regressor(
        lambda one, world: CensoringWeightedRegressor(one).fit(world.X, np.log(world.y), event=world.event)
    ),
    "observed rows only": with_regressor(
        lambda one, world: one.fit(world.X[world.event], np.log(world.y[world.event]))
    ),
    "censored as observed": with_regressor(lambda one, world: one.fit(world.X, np.log(world.y))),
    "all times (unknown in practice)": with_regressor(
        lambda one, world: one.fit(world.X, np.log(world.time))
    ),
}


def models_table(n: int, seeds: int, models: list[str]) -> pd.DataFrame:
    rows = []
    for seed in range(seeds):
        world, new = simulate(n, seed), simulate(N_NEW, 1000 + seed)
        target = np.log(new.time)
        for name in models:
            start = time.process_time()
            model = MODELS[name](world)
            seconds = time.process_time() - start
            dist = model.predict_dist(new.X)
            if isinstance(model, CensoredBoostingRegressor):
                dist = Transformed(dist, np.log, np.exp)
            lower, upper = dist.interval(0.9).T
            rows.append(
                {
                    "model": name,
                    "CRPS / truth": dist.crps(target).mean() / new.log_truth.crps(target).mean(),
                    "coverage": np.mean((lower <= target) & (target <= upper)),
                    "seconds": seconds,
                }
            )
    groups = pd.DataFrame(rows).groupby("model", sort=False)
    return groups.mean()


def scores_table(n: int = 20_000) -> pd.Series:
    """Return the factor of the scale at which each score is best. The factor of the truth is 1."""
    world = simulate(n, 5)
    y, event, ends = np.log(world.y), world.event, np.log(world.ends)
    scores: dict[str, Callable[[Distribution], float]] = {
        "nll": lambda dist: nll_loss(y, dist, event=event),
        "IPCW CRPS": lambda dist: ipcw_crps_loss(y, dist, event=event, upper=UPPER),
        "IPCW Brier score, mean over 3 times": lambda dist: float(
            np.mean([ipcw_brier_loss(y, dist, event=event, time=t) for t in (0.0, 0.5, 1.5)])
        ),
        "localized CRPS": lambda dist: localized_crps_loss(y, dist, event=event, censoring_time=ends),
        "localized CRPS, unknown ends": lambda dist: localized_crps_loss(y, dist, event=event),
        "survival CRPS (not in skuq)": lambda dist: float(
            np.mean(np.where(event, dist.crps(y), dist.clip(upper=y).crps(y)))
        ),
    }
    loc, scale = world.log_truth.loc, world.log_truth.scale
    best = {
        name: FACTORS[np.argmin([score(Normal(loc, factor * scale)) for factor in FACTORS])]
        for name, score in scores.items()
    }
    return pd.Series(best, name="best factor")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="one simulation, without the large tables")
    chosen = parser.parse_args()
    rows, seeds = (500, 1) if chosen.quick else (1500, SEEDS)
    show("censored-models", models_table(rows, seeds, list(MODELS)))
    boosting = [name for name in MODELS if name.startswith("boosting")]
    sizes = (500,) if chosen.quick else (500, 10_000)
    tables = {n: models_table(n, 1, boosting) for n in sizes}
    show("censored-rows", pd.concat(tables, names=["rows"]))
    show("censored-scores", scores_table(2000 if chosen.quick else 20_000).to_frame().rename_axis("score"))


if __name__ == "__main__":
    main()
