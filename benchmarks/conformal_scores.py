"""Compare the scores of `ConformalRegressor` on real data: coverage, interval score and worst slab.

Each block is one data set and one forecast, which is fitted once. 45 % of the rows train the forecast, 20 %
calibrate it and the rest is tested. The interval score is in units of the standard deviation of y. The worst
slab is the slab of X with the lowest coverage among slabs with at least a tenth of the rows.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, show
from real_data import load
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from skuq import UncertaintyRegressor
from skuq.conformal import ConformalRegressor
from skuq.metrics import interval_score_loss, worst_slab_coverage
from skuq.prediction import predict_dist
from skuq.regressors import ForestDistributionRegressor, MultiQuantileRegressor

LEVELS = (0.005, 0.025, 0.05, *np.arange(1, 10) / 10, 0.95, 0.975, 0.995)
FORECASTS = {
    "residual": lambda: UncertaintyRegressor(HistGradientBoostingRegressor(random_state=0), random_state=0),
    "quantile": lambda: MultiQuantileRegressor(
        HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0), levels=LEVELS
    ),
    "forest": lambda: ForestDistributionRegressor(
        RandomForestRegressor(200, min_samples_leaf=5, random_state=0), random_state=0
    ),
}
BLOCKS = (
    ("simulated", "quantile", 2),
    ("simulated", "forest", 2),
    ("concrete", "residual", 3),
    ("concrete", "forest", 3),
    ("protein", "residual", 1),
    ("protein", "forest", 1),
    ("kin8nm", "residual", 1),
    ("kin8nm", "forest", 1),
    ("power", "forest", 1),
)
SCORES: dict[str, dict[str, Any]] = {
    "normalized": {"method": "normalized"},
    "cqr": {"method": "cqr"},
    "pit": {"method": "pit"},
    "normalized, basis": {"method": "normalized", "basis": lambda X: X},
}


def rows(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return at most 5000 rows of a data set, or 6000 rows whose noise varies by a factor of 10."""
    rng = np.random.default_rng(seed)
    if name == "simulated":
        X = rng.uniform(-1, 1, size=(6000, 8))
        scale = 0.15 * np.exp(1.2 * X[:, 0] + 0.8 * np.sign(X[:, 4]) * X[:, 5])
        return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] / 2 + scale * rng.normal(size=6000)
    X, y = load(f"gal/gal_{name}")
    chosen = rng.permutation(len(y))[:5000]
    return np.asarray(X)[chosen], np.asarray(y)[chosen]


def evaluate(name: str, forecast: str, seed: int) -> list[dict[str, Any]]:
    """Return coverage, interval score and worst-slab coverage of each score, and of the forecast itself."""
    X, y = rows(name, seed)
    train, calibrate = int(0.45 * len(y)), int(0.65 * len(y))
    model = FORECASTS[forecast]().fit(X[:train], y[:train])
    X_test, y_test = X[calibrate:], y[calibrate:]
    bounds = {"forecast": predict_dist(model, X_test).interval(0.9)}
    for score, options in SCORES.items():
        conformal = ConformalRegressor(FrozenEstimator(model), **options)
        conformal.fit(X[train:calibrate], y[train:calibrate])
        bounds[score] = conformal.predict_interval(X_test)
    results = []
    for score, each in bounds.items():
        finite = np.isfinite(each).all(axis=1)
        results.append(
            {
                "block": f"{name}, {forecast}",
                "score": score,
                "coverage": ((each[:, 0] <= y_test) & (y_test <= each[:, 1])).mean(),
                "interval score": interval_score_loss(y_test[finite], each[finite]) / y.std(),
                "worst slab": worst_slab_coverage(y_test, each, X_test, random_state=0),
            }
        )
    return results


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the interval score with the worst slab in parentheses; the lowest score of a block is bold."""
    means = results.groupby(["block", "score"], sort=False)[["interval score", "worst slab"]].mean()
    scores, slabs = (means[column].unstack("score", sort=False).round(3) for column in means)
    texts = {}
    for score in scores:
        lowest = scores[score] == scores[list(SCORES)].min(axis=1)
        texts[score] = [
            f"**{value:.3f}** ({slab:.2f})" if bold and score in SCORES else f"{value:.3f} ({slab:.2f})"
            for value, slab, bold in zip(scores[score], slabs[score], lowest, strict=True)
        ]
    return pd.DataFrame(texts, index=scores.index.rename("data, forecast"))


def main() -> None:
    """Show one table, with one row per block and one column per score."""
    parser = arguments(__doc__)
    parser.add_argument("--blocks", nargs="*", help="names such as concrete; all by default")
    wanted = parser.parse_args().blocks
    warnings.simplefilter("ignore")
    results = [
        result
        for name, forecast, n_splits in BLOCKS
        if not wanted or name in wanted
        for seed in range(n_splits)
        for result in evaluate(name, forecast, seed)
    ]
    show("conformal_scores", table(pd.DataFrame(results)))


if __name__ == "__main__":
    main()
