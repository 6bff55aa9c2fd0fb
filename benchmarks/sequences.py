"""Compare adaptive intervals and distributions on the electricity prices of Zaffran et al. (2022).

Run as `python benchmarks/sequences.py [--hours 24]`. There is one series per hour of the day, and one
forecast per day of 2019. All methods calibrate the same forecasts. "forest" is fitted until mid 2017. "ridge"
is fitted again every 7 days. MAPIE is compared at hour 0. Times are processor times per step. A step is a
predicted interval and an update.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, data_folder, show
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from skuq.conformal import ConformalRegressor
from skuq.distributions import Empirical, Normal
from skuq.metrics import interval_score_loss
from skuq.recalibration import OnlineRecalibrator

COVERAGE, N_TREES, STEP = 0.9, 50, 0.04
LEVELS = np.array([0.01, *np.arange(1, 40) / 40, 0.99])
METHODS: dict[str, dict[str, Any]] = {
    "gamma=0": {"gamma": 0.0},
    "gamma=0.01": {"gamma": 0.01},
    "gamma=0.04": {"gamma": 0.04},
    "dtaci": {"adapt": "dtaci"},
    "dtaci, two-sided": {"adapt": "dtaci", "symmetric": False},
}
DECIMALS = {"median width": 1, "interval score": 1, "infinite, %": 2, "step, ms": 2}

Series = tuple[np.ndarray, np.ndarray, int]
"""Point forecasts, targets and the number of days before 2019, which are the calibration rows."""


class Points(RegressorMixin, BaseEstimator):
    """Regressor whose first column is the forecast."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Points:
        """Count the columns."""
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the first column."""
        return X[:, 0]


def hours(n_hours: int) -> Iterator[tuple[np.ndarray, np.ndarray, int, int]]:
    """Yield X and y of each hour, with the first rows of mid 2017 and of 2019."""
    file = data_folder() / "other" / "zaffran2022_prices.csv.gz"
    for _, hour in itertools.islice(pd.read_csv(file).groupby("hour"), n_hours):
        dates = (int((hour["Date"] < date).sum()) for date in ("2017-07-01", "2019-01-01"))
        X = hour.drop(columns=["Date", "Spot", "hour"]).to_numpy(np.float32)
        yield X, hour["Spot"].to_numpy(), *dates


def fixed_forest(X: np.ndarray, y: np.ndarray, first: int) -> np.ndarray:
    model = RandomForestRegressor(N_TREES, random_state=0, max_features=0.33)
    return model.fit(X[:first], y[:first]).predict(X[first:])


def weekly_ridge(X: np.ndarray, y: np.ndarray, first: int) -> np.ndarray:
    Z = (X - X[:first].mean(axis=0)) / X[:first].std(axis=0)
    parts = [Ridge(10).fit(Z[:t], y[:t]).predict(Z[t : t + 7]) for t in range(first, len(y), 7)]
    return np.concatenate(parts)


FORECASTS = {"forest": fixed_forest, "ridge": weekly_ridge}


def by_skuq(series: Series, **params: Any) -> np.ndarray:
    """Return the bounds of each day of 2019."""
    points, y, n = series
    X = points[:, np.newaxis]
    model = ConformalRegressor(FrozenEstimator(Points().fit(X, y)), **params).fit(X[:n], y[:n])
    bounds = []
    for t in range(n, len(y)):
        bounds.append(model.predict_interval(X[[t]], COVERAGE)[0])
        model.partial_fit(X[[t]], y[[t]])
    return np.array(bounds)


def by_mapie(series: Series, gamma: float) -> np.ndarray:
    """Return the bounds of MAPIE's adaptive conformal inference."""
    from mapie.regression import TimeSeriesRegressor

    points, y, n = series
    X = points[:, np.newaxis]
    model = TimeSeriesRegressor(Points().fit(X, y), method="aci", cv="prefit").fit(X[:n], y[:n])
    bounds = []
    for t in range(n, len(y)):
        _, both = model.predict(X[[t]], confidence_level=COVERAGE, allow_infinite_bounds=True)
        bounds.append(both[0, :, 0])
        model.update(X[[t]], y[[t]])
        model.adapt_conformal_inference(X[[t]], y[[t]], gamma=gamma, confidence_level=COVERAGE)
    return np.array(bounds)


def measure(all_series: list[Series], bounds_of: Callable[[Series], np.ndarray]) -> dict[str, float]:
    """Return coverage, width, interval score and time of one method over all series."""
    start = time.process_time()
    bounds = np.array([bounds_of(series) for series in all_series])
    milliseconds = 1e3 * (time.process_time() - start) / bounds[..., 0].size
    y = np.array([y[n:] for _, y, n in all_series])
    inside = (bounds[..., 0] <= y) & (y <= bounds[..., 1])
    finite = np.isfinite(bounds).all(axis=-1)
    return {
        "coverage": inside.mean(),
        "median width": np.median(np.diff(bounds)),
        "interval score": interval_score_loss(y[finite], bounds[finite], coverage=COVERAGE),
        "infinite, %": 100 * (1 - finite.mean()),
        "step, ms": milliseconds,
    }


def distribution_row(all_series: list[Series]) -> dict[str, float]:
    """Return the CRPS relative to the distribution of all earlier residuals, and the coverage of levels."""
    crps, growing, below, seconds = 0.0, 0.0, [], 0.0
    for points, y, n in all_series:
        residuals = y - points
        dist = Normal(points, residuals[:n].std())
        recalibrator = OnlineRecalibrator().fit(dist[:n], y[:n])
        for t in range(n, len(y)):
            row = slice(t, t + 1)
            start = time.process_time()
            after = recalibrator.transform(dist[row])
            below.append(y[t] <= after.quantile(LEVELS)[0])
            seconds += time.process_time() - start
            crps += after.crps(y[row])[0]
            growing += Empirical(points[t] + residuals[np.newaxis, :t]).crps(y[row])[0]
            start = time.process_time()
            recalibrator.partial_fit(dist[row], y[row])
            seconds += time.process_time() - start
    error = np.mean(below, axis=0) - LEVELS
    inside = error[LEVELS.searchsorted(0.95)] - error[LEVELS.searchsorted(0.05)]
    return {
        "CRPS ratio": crps / growing,
        "largest level error": np.abs(error).max(),
        "coverage of 90 %": 0.9 + inside,
        "step, ms": 1e3 * seconds / len(below),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--hours", type=int, default=24, help="number of series")
    n_hours = parser.parse_args().hours
    warnings.simplefilter("ignore")
    import mapie.regression  # noqa: F401 - the time of the import does not count

    series = {
        name: [(forecast(X, y, first), y[first:], last - first) for X, y, first, last in hours(n_hours)]
        for name, forecast in FORECASTS.items()
    }
    intervals = {
        (name, method): measure(of_name, partial(by_skuq, **params))
        for name, of_name in series.items()
        for method, params in METHODS.items()
    }
    sides = {"skuq": partial(by_skuq, gamma=STEP), "MAPIE": partial(by_mapie, gamma=STEP)}
    packages = {name: measure(series["forest"][:1], side) for name, side in sides.items()}
    distributions = {name: distribution_row(of_name) for name, of_name in series.items()}
    for name, rows, keys in (
        ("sequences", packages, ["package"]),
        ("sequences-intervals", intervals, ["forecast", "method"]),
        ("sequences-distributions", distributions, ["forecast"]),
    ):
        show(name, pd.DataFrame(rows).T.rename_axis(keys), DECIMALS)


if __name__ == "__main__":
    main()
