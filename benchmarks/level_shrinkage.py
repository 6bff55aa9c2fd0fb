"""Recalibrate forecasts that are nearly calibrated: change of the CRPS and of the PIT on new rows.

`python benchmarks/level_shrinkage.py` fits four kinds of forecasts to the development sets of
``real_data.py``: a quantile forest, quantile boosting, an ensemble of networks, and NGBoost. The two models
of quantiles are also fitted to the confirmation sets. Recalibrators are fitted to out-of-fold forecasts of at
most 1000 rows, and scored on the test rows. ``--quick`` fits quantile boosting to two sets. The data are read
from the folder in ``SKUQ_DATA``. ``--folder`` keeps the forecasts, so that you can stop the script and
continue later, and that a second run only fits the recalibrators.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, show
from real_data import SETS, ngboost, split
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import predict_dist
from skuq.distributions import Distribution
from skuq.metrics import crps_loss
from skuq.model_selection import cross_val_predict_dist
from skuq.recalibration import (
    IsotonicRecalibrator,
    ShrunkIsotonicRecalibrator,
    StdScalingRecalibrator,
)
from skuq.regressors import MultiQuantileRegressor

MOST_ROWS = 1000
SHARES = ("PIT better", "PIT worse", "not changed")


def quantile_forest(seed: int) -> Any:
    from quantile_forest import RandomForestQuantileRegressor

    return RandomForestQuantileRegressor(min_samples_leaf=5, random_state=seed)


def quantile_boosting(seed: int) -> Any:
    boosting = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, max_iter=40, random_state=seed)
    return MultiQuantileRegressor(boosting, [0.05, 0.25, 0.5, 0.75, 0.95])


def networks(seed: int) -> Any:
    from skuq.neural import DeepEnsembleRegressor

    return make_pipeline(
        StandardScaler(), DeepEnsembleRegressor(n_estimators=5, calibration=None, random_state=seed)
    )


MODELS: dict[str, Callable[[int], Any]] = {
    "quantile forest": quantile_forest,
    "quantile boosting": quantile_boosting,
    "NGBoost": ngboost,
    "networks": networks,
}
QUANTILE_MODELS = ["quantile forest", "quantile boosting"]

RECALIBRATORS: dict[str, Callable[[], Any]] = {
    "shrunk": ShrunkIsotonicRecalibrator,
    "isotonic": lambda: IsotonicRecalibrator(smooth=True),
    "std scaling": lambda: StdScalingRecalibrator(objective="coverage"),
}


def forecasts(name: str, model: str, seed: int, folder: Path | None) -> tuple[Any, ...]:
    """Return the out-of-fold forecasts with their targets, and the forecasts of the test rows."""
    kept = None if folder is None else folder / f"{name.replace('/', '-')}-{model}-{seed}.pkl"
    if kept is not None and kept.exists():
        return pickle.loads(kept.read_bytes())  # type: ignore[no-any-return]  # written below
    X, y, X_test, y_test = split(name, seed, MOST_ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out_of_fold = cross_val_predict_dist(MODELS[model](seed), X, y)
        result = out_of_fold, y, predict_dist(MODELS[model](seed).fit(X, y), X_test), y_test
    if kept is not None:
        kept.write_bytes(pickle.dumps(result))
    return result


def pit_distance(y: np.ndarray, dist: Distribution) -> float:
    """Return the Kolmogorov-Smirnov distance of the PIT values from the uniform distribution."""
    lower = dist.cdf(np.nextafter(y, -np.inf))
    share = np.random.default_rng(0).uniform(size=len(y))
    return float(stats.kstest(lower + share * (dist.cdf(y) - lower), "uniform").statistic)


def evaluate(name: str, model: str, seed: int, folder: Path | None) -> list[dict[str, Any]]:
    out_of_fold, y, dist, y_test = forecasts(name, model, seed, folder)
    before = crps_loss(y_test, dist), pit_distance(y_test, dist)
    rows = []
    for label, make in RECALIBRATORS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                recalibrator = make().fit(out_of_fold, y)
            except ValueError:  # no map exists, for example if too many targets are outside of the support
                continue
            after = recalibrator.transform(dist)
        rows.append(
            {
                "set": name,
                "model": model,
                "seed": seed,
                "n": len(y),
                "recalibrator": label,
                "crps": crps_loss(y_test, after) / before[0],
                "pit_before": before[1],
                "pit": pit_distance(y_test, after),
                "map_weight": getattr(recalibrator, "map_weight_", np.nan),
            }
        )
    return rows


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per recalibrator: changes of the CRPS, and shares of the cases by change of the PIT."""
    change = results["pit"] / results["pit_before"]
    table = results.assign(better=change < 1, worse=change > 1, same=change == 1)
    found = table.groupby("recalibrator", sort=False).agg(
        cases=("crps", "size"),
        mean_crps=("crps", lambda x: np.exp(np.log(x).mean())),
        worst_crps=("crps", "max"),
        better=("better", "mean"),
        worse=("worse", "mean"),
        same=("same", "mean"),
    )
    return found.set_axis(
        ["cases", "mean CRPS", "worst CRPS", "PIT better", "PIT worse", "not changed"], axis=1
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="quantile boosting on two sets")
    parser.add_argument("--folder", type=Path, default=None, help="folder of the forecasts")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    for sets, models in (("development", list(MODELS)), ("confirmation", QUANTILE_MODELS)):
        names = SETS[sets][4:5] if options.quick else SETS[sets]
        results = [
            row
            for model in (QUANTILE_MODELS[1:] if options.quick else models)
            for name in names
            for row in evaluate(name, model, 0, options.folder)
        ]
        show(f"level_shrinkage-{sets}", summary(pd.DataFrame(results)), dict.fromkeys(SHARES, 2))


if __name__ == "__main__":
    main()
