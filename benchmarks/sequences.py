"""Compare adaptive intervals and distributions on the electricity prices of Zaffran et al. (2022).

There is one series per hour of the day, and one forecast per day of 2019. All methods calibrate the same
forecasts. "forest" is fitted until mid 2017. "ridge" is fitted again every 7 days. With ``--full``, "daily"
is a forest that is fitted again every day of 2019. Its 8760 fits of 50 trees take about half an hour. MAPIE
is compared at hour 0, if it is installed. Times are processor times per step. A step is a predicted interval
and an update.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from measuring import arguments, data_folder
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from skuq.conformal import ConformalRegressor
from skuq.distributions import Empirical, Normal
from skuq.metrics import interval_score_loss
from skuq.recalibration import OnlineRecalibrator

COVERAGE, N_TREES = 0.9, 50
HAS_MAPIE = importlib.util.find_spec("mapie") is not None
LEVELS = np.array([0.01, *np.arange(1, 40) / 40, 0.99])
METHODS: dict[str, dict[str, Any]] = {
    "no step": {"gamma": 0.0},
    "aci .005": {"gamma": 0.005},
    "aci .01": {"gamma": 0.01},
    "aci .02": {"gamma": 0.02},
    "aci .04": {"gamma": 0.04},
    "dtaci": {"adapt": "dtaci"},
    "dtaci, two-sided": {"adapt": "dtaci", "symmetric": False},
}

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


def hours() -> Iterator[tuple[np.ndarray, np.ndarray, int, int, int]]:
    """Yield X and y of each hour, with the first rows of mid 2017, mid 2018 and 2019."""
    file = data_folder() / "other" / "zaffran2022_prices.csv.gz"
    for _, hour in pd.read_csv(file).groupby("hour"):
        dates = (int((hour["Date"] < date).sum()) for date in ("2017-07-01", "2018-07-01", "2019-01-01"))
        X = hour.drop(columns=["Date", "Spot", "hour"]).to_numpy(np.float32)
        yield X, hour["Spot"].to_numpy(), *dates


def forest(X: np.ndarray, y: np.ndarray, **params: Any) -> RandomForestRegressor:
    return RandomForestRegressor(N_TREES, random_state=0, **params).fit(X, y)


def fixed_forest() -> list[Series]:
    """Return the forecasts of one forest per hour."""
    return [
        (forest(X[:first], y[:first], max_features=0.33).predict(X[first:]), y[first:], last - first)
        for X, y, first, _, last in hours()
    ]


def weekly_ridge() -> list[Series]:
    """Return the forecasts of ridge regressions that are fitted again every 7 days."""
    found = []
    for X, y, first, _, last in hours():
        Z = (X - X[:first].mean(axis=0)) / X[:first].std(axis=0)
        parts = [Ridge(10).fit(Z[:t], y[:t]).predict(Z[t : t + 7]) for t in range(first, len(y), 7)]
        found.append((np.concatenate(parts), y[first:], last - first))
    return found


def daily_forest() -> list[Series]:
    """Return the forecasts of forests on the last three years, every day of 2019 and every week before."""
    found = []
    for X, y, _, first, last in hours():
        starts = [*range(first, last, 7), *range(last, len(y))]
        parts = [
            forest(X[max(0, t - last) : t], y[max(0, t - last) : t], max_features=6).predict(X[t:end])
            for t, end in zip(starts, [*starts[1:], len(y)], strict=True)
        ]
        found.append((np.concatenate(parts), y[first:], last - first))
    return found


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
    recent = pd.DataFrame(inside.T).rolling(60).mean().to_numpy()
    return {
        "coverage": inside.mean(),
        "mean width": np.diff(bounds[finite]).mean(),
        "median width": np.median(np.diff(bounds)),
        "interval score": interval_score_loss(y[finite], bounds[finite], coverage=COVERAGE),
        "uneven (60 days)": np.nanmean(np.abs(recent - COVERAGE)),
        "infinite, %": 100 * (1 - finite.mean()),
        "ms per step": milliseconds,
    }


def interval_table(all_series: list[Series]) -> pd.DataFrame:
    """Return the measures of all methods of skuq."""
    rows = {
        name: measure(all_series, lambda series, params=params: by_skuq(series, **params))
        for name, params in METHODS.items()
    }
    return pd.DataFrame(rows).T


def compare_with_mapie(series: Series, gamma: float = 0.04) -> pd.DataFrame:
    """Return the measures of both packages at one hour, with the step of the published intervals."""
    rows = {"skuq": measure([series], lambda series: by_skuq(series, gamma=gamma))}
    if HAS_MAPIE:
        import mapie.regression  # noqa: F401 - the time of the import does not count

        rows["MAPIE"] = measure([series], lambda series: by_mapie(series, gamma))
    return pd.DataFrame(rows).T


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
        "ms per step": 1e3 * seconds / len(below),
    }


def main() -> None:
    """Print the intervals of each forecast, the comparison with MAPIE, and the distributions."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="add forests that are fitted every day")
    forecasts = {"forest": fixed_forest, "ridge": weekly_ridge}
    if parser.parse_args().full:
        forecasts["daily"] = daily_forest
    warnings.simplefilter("ignore")
    distributions = {}
    for name, forecast in forecasts.items():
        all_series = forecast()
        print(f"\n{name}: intervals of {sum(len(y) - n for _, y, n in all_series)} hours")
        print(interval_table(all_series).round(3).to_string(), flush=True)
        if name == "forest":
            print("\nhour 0, step .04")
            print(compare_with_mapie(all_series[0]).round(3).to_string(), flush=True)
        distributions[name] = distribution_row(all_series)
    print("\ndistributions")
    print(pd.DataFrame(distributions).T.round(4).to_string())


if __name__ == "__main__":
    main()
