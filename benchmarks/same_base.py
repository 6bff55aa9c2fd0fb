"""Compare skuq with five packages around the same models and on the same rows of 21 data sets.

`python benchmarks/same_base.py` wraps a linear model, gradient boosting and a network: by skuq, by MAPIE
(CV+, and CQR for models with quantiles), by crepes and by skpro's ``ResidualDouble``. NGBoost, CatBoost and
quantile-forest have models of their own. There is one split with at most 1000 training rows. The second table
has the six sets on which no setting of skuq was chosen. The features are standardized, and the targets of the
network. Parameters are defaults of the packages, except where other values give better scores or coverage:
skpro has a forest for the size of the errors and a Laplace distribution, CatBoost stops early, and "crepes
normalized" scales the errors by the residuals of nearest neighbors.

``--quick`` runs the linear model without skpro on two sets. Each result is appended to ``same_base.jsonl``.
Results in the file are not computed again, so you can stop the script and continue later. Results of an
earlier version of skuq are also reused, until you delete the file. The data are read from the folder in
``SKUQ_DATA``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from any_regressor import CONFIRMATION
from measuring import arguments, missing, show, stored
from real_data import (
    COVERAGE,
    SETS,
    Forecast,
    Method,
    by_distribution,
    catboost,
    crepes,
    evaluate,
    installed,
    mapie,
    ngboost,
    outside_of_the_band,
    quantile_forest,
    skpro_residual,
    wrapped,
)
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

from skuq import predict_dist

RESULTS = Path(__file__).with_suffix(".jsonl")
ROWS, OWN = 1000, "own"
BASES = {
    "linear": lambda seed: RidgeCV(),
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
    "network": lambda seed: TransformedTargetRegressor(
        MLPRegressor(hidden_layer_sizes=(64,), max_iter=1000, random_state=seed),
        transformer=StandardScaler(),
    ),
}
QUANTILE_BASES = {
    "linear": lambda level, seed: QuantileRegressor(quantile=level, alpha=0.0),
    "boosting": lambda level, seed: HistGradientBoostingRegressor(
        loss="quantile", quantile=level, random_state=seed
    ),
}


def mapie_cqr(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int, make: Callable[[float, int], Any]
) -> Forecast:
    """Return intervals by conformalized quantile regression; a quarter of the rows calibrates.

    The bounds of a row can cross, if the quantiles of the models cross. Such bounds are sorted.
    """
    from mapie.regression import ConformalizedQuantileRegressor

    X, X_calibration, y, y_calibration = train_test_split(X, y, test_size=0.25, random_state=seed)
    levels = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2, 0.5)
    models = [make(level, seed).fit(X, y) for level in levels]
    model = ConformalizedQuantileRegressor(models, confidence_level=COVERAGE, prefit=True)
    _, interval = model.conformalize(X_calibration, y_calibration).predict_interval(X_test)
    return Forecast(None, np.sort(interval[:, :, 0], axis=1))


def catboost_early(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> Forecast:
    """Return normal distributions; a tenth of the rows decides when training stops."""
    X, X_validation, y, y_validation = train_test_split(X, y, test_size=0.1, random_state=seed)
    model = catboost(seed).fit(X, y, eval_set=(X_validation, y_validation), early_stopping_rounds=50)
    dist = predict_dist(model, X_test)
    return Forecast(dist, dist.interval(COVERAGE))


def standardized(method: Method) -> Method:
    """Return the method with standardized features."""

    def forecast(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> Forecast:
        scaler = StandardScaler().fit(X)
        return method.forecast(scaler.transform(X), y, scaler.transform(X_test), seed)

    return method._replace(forecast=forecast)


def methods() -> list[Method]:
    """Return the methods of installed packages; names end with the wrapped model."""
    found = []
    for name, make in BASES.items():
        found += [
            wrapped(f"skuq, {name}", make, None),
            Method(f"MAPIE CV+, {name}", "mapie", partial(mapie, make=make)),
            Method(f"crepes, {name}", "crepes", partial(crepes, make=make, normalized=False)),
            Method(f"crepes normalized, {name}", "crepes", partial(crepes, make=make)),
            Method(f"skpro, {name}", "skpro", by_distribution(partial(skpro_residual, make=make))),
        ]
    found += [
        Method(f"MAPIE CQR, {name}", "mapie", partial(mapie_cqr, make=make))
        for name, make in QUANTILE_BASES.items()
    ]
    found += [
        Method(f"quantile-forest, {OWN}", "quantile_forest", by_distribution(quantile_forest)),
        Method(f"NGBoost, {OWN}", "ngboost", by_distribution(ngboost)),
        Method(f"CatBoost, {OWN}", "catboost", catboost_early),
    ]
    return [standardized(method) for method in installed(found, "")]


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model and package, with scores relative to skuq.

    Scores and widths are medians over the sets of ratios to skuq around the same model, or around boosting
    for packages with models of their own. A mean would depend on ``facebook_metrics``, where the linear
    quantiles of MAPIE's CQR have no error. The other columns are means over the sets, and the numbers of sets
    whose coverage is below and above the band.
    """
    by_set = results.set_index(["method", "set"])
    rows = []
    for name, of_method in results.groupby("method", sort=False):
        package, _, base = name.rpartition(", ")
        reference = by_set.loc[f"skuq, {'boosting' if base == OWN else base}"]
        own = of_method.set_index("set")
        ratios = own[["interval_score", "crps", "width"]].astype(float) / reference[
            ["interval_score", "crps", "width"]
        ].astype(float)
        score, crps, width = ratios.reindex(own.index).median()
        outside = [outside_of_the_band(rows) for _, rows in of_method.groupby("set")]
        rows.append(
            {
                "model": base,
                "package": package,
                "interval score": score,
                "CRPS": crps,
                "width": width,
                "coverage": (own["covered"] / own["n_test"]).mean(),
                "below": outside.count(-1),
                "above": outside.count(1),
                "seconds": own["seconds"].mean(),
            }
        )
    order = {base: number for number, base in enumerate((*BASES, OWN))}
    frame = pd.DataFrame(rows).set_index(["model", "package"])
    return frame.sort_values("interval score").sort_index(
        level="model", key=lambda names: names.map(order), sort_remaining=False, kind="stable"
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="the linear model without skpro, on two sets")
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    todo, names = methods(), SETS["all"]
    if chosen.quick:
        # The coverage of skpro has other digits with other instructions of the processor.
        todo = [one for one in todo if one.name.endswith("linear") and one.package != "skpro"]
        names = ("paper001/concrete_strength", "gal/gal_boston")
    results = stored(chosen.results)
    tasks = ((method, name, 0) for name in names for method in todo)
    missing(results, tasks, partial(evaluate, most=ROWS), chosen.results)
    decimals = {"interval score": 2, "CRPS": 2, "width": 2, "seconds": 1}
    frame = pd.DataFrame(results)
    show("same_base", table(frame), decimals)
    show("same_base-confirmation", table(frame[frame["set"].isin(CONFIRMATION)]), decimals)


if __name__ == "__main__":
    main()
