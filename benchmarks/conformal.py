"""Compare cross-conformal intervals with MAPIE, by ratios of times (including fits) and of peak memory.

Both packages use the same folds or resamples and return the same bounds. Memory is the memory that numpy
allocates in addition to the data, measured in a separate run. A ratio above 1 means that skuq is better.
MAPIE is omitted if it is not installed, or if it would need more than 10 gigabytes.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from measuring import sides_of, times_of
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.tree import DecisionTreeRegressor

from skuq.conformal import CrossConformalRegressor

HAS_MAPIE = importlib.util.find_spec("mapie") is not None
MAPIE_NUMBERS = 1e9
"""Largest product of test rows and training rows for MAPIE, which would otherwise need too much memory."""

COVERAGE = 0.9
SECONDS_A_SIDE = 3.0
LINEAR, TREE = LinearRegression(), DecisionTreeRegressor(min_samples_leaf=20, random_state=0)

Data = tuple[np.ndarray, np.ndarray, np.ndarray]
Predict = Callable[[], np.ndarray]


@dataclass(frozen=True)
class Case:
    """Method, number of training rows and number of rows to predict."""

    what: str
    n: int
    m: int
    method: str
    estimator: Any = LINEAR
    folds: int = 5
    resamples: int = 30
    aggregate: str = "mean"

    @property
    def data(self) -> Data:
        """Return X and y of the training rows, and X of the rows to predict."""
        rng = np.random.default_rng(0)
        X, X_new = rng.normal(size=(self.n, 10)), rng.normal(size=(self.m, 10))
        return X, X @ rng.normal(size=10) + rng.normal(size=self.n), X_new

    @property
    def cv(self) -> Any:
        """Return the splitter, which is the same for both packages."""
        if self.method == "cv+":
            return KFold(self.folds, shuffle=True, random_state=0)
        if self.method == "jackknife+ab" and HAS_MAPIE:
            from mapie.subsample import Subsample

            return Subsample(self.resamples, random_state=0)
        return None


CASES = (
    Case("CV+, 5 folds", 10_000, 10_000, "cv+"),
    Case("CV+, 5 folds, trees", 10_000, 10_000, "cv+", TREE),
    Case("CV+, 20 folds", 10_000, 10_000, "cv+", folds=20),
    Case("CV+, 5 folds", 100_000, 100_000, "cv+"),
    Case("jackknife+", 1_000, 10_000, "jackknife+"),
    Case("jackknife+ab, mean", 2_000, 10_000, "jackknife+ab"),
    Case("jackknife+ab, median", 2_000, 10_000, "jackknife+ab", aggregate="median"),
    Case("jackknife+ab, mean, trees", 2_000, 10_000, "jackknife+ab", TREE),
)


def skuq_side(case: Case, data: Data) -> tuple[Callable[[], Any], Callable[[Any], np.ndarray]]:
    X, y, X_new = data

    def fit() -> Any:
        bagged = case.method == "jackknife+ab"
        model = CrossConformalRegressor(
            case.estimator,
            case.method,
            cv=case.cv,
            n_estimators=case.resamples if bagged and case.cv is None else None,
            aggregate=case.aggregate if bagged else None,
        )
        return model.fit(X, y)

    return fit, lambda model: model.predict_interval(X_new, COVERAGE)


def mapie_side(case: Case, data: Data) -> tuple[Callable[[], Any], Callable[[Any], np.ndarray]]:
    from mapie.regression import CrossConformalRegressor, JackknifeAfterBootstrapRegressor

    X, y, X_new = data

    def fit() -> Any:
        if case.method == "jackknife+ab":
            model = JackknifeAfterBootstrapRegressor(
                case.estimator,
                confidence_level=COVERAGE,
                resampling=case.cv,
                aggregation_method=case.aggregate,
            )
        else:
            model = CrossConformalRegressor(
                case.estimator, confidence_level=COVERAGE, cv=case.cv or LeaveOneOut()
            )
        return model.fit_conformalize(X, y)

    return fit, lambda model: model.predict_interval(X_new)[1][:, :, 0]


def median_seconds(function: Callable[[], object]) -> float:
    """Return the median time of at most seven calls."""
    return statistics.median(times_of(function, SECONDS_A_SIDE))


def main() -> None:
    print(f"{'':27}{'':>8}{'':>8}{'skuq':>20}{'':9}{'MAPIE':>20}{'':9}{'ratio':>17}")
    print(
        f"{'what':27}{'n':>8}{'m':>8}"
        + 2 * f"{'fit s':>10}{'predict s':>10}{'MB':>9}"
        + f"{'all':>7}{'predict':>9}{'MB':>7}"
    )
    for case in CASES:
        data = case.data
        own = sides_of(*skuq_side(case, data), median_seconds)
        text = f"{case.what:27}{case.n:8d}{case.m:8d}{own[0]:10.3f}{own[1]:10.3f}{own[2]:9.1f}"
        if HAS_MAPIE and case.n * case.m <= MAPIE_NUMBERS:
            peer = sides_of(*mapie_side(case, data), median_seconds)
            np.testing.assert_allclose(own[3], peer[3], rtol=1e-10, atol=1e-10)
            text += f"{peer[0]:10.3f}{peer[1]:10.3f}{peer[2]:9.1f}"
            text += f"{sum(peer[:2]) / sum(own[:2]):7.1f}{peer[1] / own[1]:9.1f}{peer[2] / own[2]:7.1f}"
        print(text, flush=True)


if __name__ == "__main__":
    main()
