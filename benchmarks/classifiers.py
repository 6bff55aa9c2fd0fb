"""Prediction sets beside np.sort, MAPIE and crepes, in one run and as ratios: time, and peak memory.

All sides calibrate the same probabilities on the same rows, and their LAC sets are compared row by row.
Times are the best of several processor times; memory is what numpy allocates beyond the data, measured apart.
Ratios over 1 are in favour of skuq. Packages that are not installed are left out.
"""

from __future__ import annotations

import importlib.util
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from skuq.classifiers import ConformalClassifier
from skuq.prediction import prediction_set

COVERAGE = 0.9
CREPES_NUMBERS = 1e9
"""Calibration rows times rows to predict times classes beyond which crepes takes a minute and more."""

ROUNDS, SECONDS_A_SIDE = 7, 6.0


class GivenProba(ClassifierMixin, BaseEstimator):
    """Predicts its X, which are probabilities, so that only the sets are timed."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> GivenProba:
        """Take the classes 0 to K - 1."""
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return X."""
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the most probable class."""
        return X.argmax(axis=1)


@dataclass(frozen=True)
class Case:
    """n rows that calibrate and m to predict, of so many classes."""

    what: str
    n: int
    m: int
    n_classes: int
    method: str = "lac"
    randomized: bool = False
    group_by: str | None = None

    @property
    def data(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return a classifier, probabilities and labels that calibrate, and probabilities to predict."""
        rng = np.random.default_rng(0)
        proba = rng.dirichlet(np.full(self.n_classes, 0.3), size=self.n + self.m)
        labels = (proba[: self.n].cumsum(axis=1) < rng.random((self.n, 1))).sum(axis=1)
        labels = np.minimum(labels, self.n_classes - 1)
        model = GivenProba().fit(proba, labels)
        return model, proba[: self.n], labels, proba[self.n :]


CASES = (
    Case("LAC", 1_000, 10_000, 10),
    Case("LAC", 100_000, 100_000, 10),
    Case("LAC, 100 classes", 10_000, 10_000, 100),
    Case("APS, randomized", 100_000, 100_000, 10, "aps", True),
    Case("LAC of each class, alone", 20_000, 20_000, 100, group_by="class"),
)

Side = tuple[Callable[[], Any], Callable[[Any], np.ndarray]]


def skuq_side(case: Case, data: Any) -> Side:
    model, X, y, X_new = data

    def fit() -> Any:
        own = ConformalClassifier(
            FrozenEstimator(model),
            case.method,
            randomized=case.randomized,
            group_by=case.group_by,
            allow_empty=True,
            random_state=0,
        )
        return own.fit(X, y)

    return fit, lambda fitted: fitted.predict_set(X_new, COVERAGE)


def mapie_side(case: Case, data: Any) -> Side:
    from mapie.classification import SplitConformalClassifier

    model, X, y, X_new = data
    params = {"include_last_label": "randomized"} if case.randomized else {}

    def fit() -> Any:
        peer = SplitConformalClassifier(
            model,
            confidence_level=COVERAGE,
            conformity_score=case.method,
            prefit=True,
            random_state=0,
        )
        return peer.conformalize(X, y)

    return fit, lambda fitted: fitted.predict_set(X_new, params)[1][:, :, 0]


def crepes_side(case: Case, data: Any) -> Side:
    from crepes import ConformalClassifier as CrepesClassifier
    from crepes.extras import hinge

    model, X, y, X_new = data

    def fit() -> Any:
        return CrepesClassifier().fit(hinge(model.predict_proba(X), model.classes_, y))

    def predict(fitted: Any) -> np.ndarray:
        sets = fitted.predict_set(hinge(model.predict_proba(X_new)), confidence=COVERAGE, smoothing=False)
        return np.asarray(sets, dtype=bool)

    return fit, predict


def best_seconds(function: Callable[[], object]) -> float:
    """Return the best processor time of up to `ROUNDS` calls."""
    times: list[float] = []
    while not times or (len(times) < ROUNDS and sum(times) < SECONDS_A_SIDE):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return max(min(times), 1e-6)


def measure(side: Side) -> tuple[float, float, float, np.ndarray]:
    """Return the seconds of fit and prediction, the peak megabytes of both together, and the sets."""
    fit, predict = side
    model = fit()
    fit_time, predict_time = best_seconds(fit), best_seconds(lambda: predict(model))
    tracemalloc.start()
    sets = predict(fit())
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return fit_time, predict_time, peak, sets


def kernel_table() -> None:
    """Print prediction_set beside one np.sort of the same array; the aim is a ratio of at most 3."""
    rng = np.random.default_rng(0)
    print(f"{'prediction_set':27}{'rows':>9}{'K':>6}{'skuq s':>10}{'np.sort s':>11}{'skuq / sort':>13}")
    for rows, n_classes, dtype in (
        (1_000_000, 10, np.float64),
        (1_000_000, 10, np.float32),
        (10_000, 1000, np.float64),
    ):
        proba = rng.dirichlet(np.full(n_classes, 0.5), size=rows).astype(dtype)
        own = best_seconds(lambda proba=proba: prediction_set(proba, COVERAGE))
        sort = best_seconds(lambda proba=proba: np.sort(proba))
        print(
            f"{np.dtype(dtype).name:27}{rows:9d}{n_classes:6d}{own:10.3f}{sort:11.3f}{own / sort:13.1f}",
            flush=True,
        )


def main() -> None:
    """Print both tables."""
    kernel_table()
    print(f"\n{'what':27}{'n':>9}{'m':>9}{'package':>9}{'fit s':>10}{'predict s':>11}{'MB':>8}{'ratios':>22}")
    peers = {"MAPIE": ("mapie", mapie_side), "crepes": ("crepes", crepes_side)}
    for case in CASES:
        data = case.data
        own = measure(skuq_side(case, data))
        head = f"{case.what:27}{case.n:9d}{case.m:9d}"
        print(f"{head}{'skuq':>9}{own[0]:10.3f}{own[1]:11.3f}{own[2]:8.1f}", flush=True)
        for name, (package, side) in peers.items():
            if importlib.util.find_spec(package) is None or case.group_by is not None:
                continue
            if name == "crepes" and (
                case.method != "lac" or case.n * case.m * case.n_classes > CREPES_NUMBERS
            ):
                continue
            peer = measure(side(case, data))
            if case.method == "lac":
                np.testing.assert_array_equal(own[3], peer[3])
            ratios = "".join(f"{theirs / ours:7.1f}" for ours, theirs in zip(own[:3], peer[:3], strict=True))
            print(f"{head}{name:>9}{peer[0]:10.3f}{peer[1]:11.3f}{peer[2]:8.1f} {ratios}", flush=True)


if __name__ == "__main__":
    main()
