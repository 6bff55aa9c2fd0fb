"""Compare conformal intervals with MAPIE, and prediction sets with MAPIE, crepes and np.sort.

Each time contains a fit and a prediction. All packages use the same folds or resamples, and calibrate the
same probabilities, so that bounds and LAC sets are equal. There are as many new rows as training rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from crepes import ConformalClassifier as CrepesClassifier
from crepes.extras import hinge
from mapie.classification import SplitConformalClassifier
from mapie.regression import CrossConformalRegressor as MapieCrossConformal
from mapie.regression import JackknifeAfterBootstrapRegressor
from mapie.subsample import Subsample
from measuring import Line, arguments, compared, show
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, LeaveOneOut

from skuq.conformal import ConformalClassifier, CrossConformalRegressor, prediction_set

COVERAGE = 0.9


def interval_line(what: str, n: int, peer: Callable[[], Any], **options: Any) -> Line:
    """Compare a method for n training rows and n new rows."""
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(2, n, 10))
    y = X.sum(axis=1) + rng.normal(size=n)
    own = CrossConformalRegressor(LinearRegression(), **options)
    return Line(
        what,
        n,
        "MAPIE",
        lambda: own.fit(X, y).predict_interval(X_new, COVERAGE),
        lambda: peer().fit_conformalize(X, y).predict_interval(X_new)[1][:, :, 0],
        same=True,
    )


def interval_lines(part: int) -> Iterator[Line]:
    folds, resamples = KFold(5, shuffle=True, random_state=0), Subsample(30, random_state=0)
    mapie = partial(MapieCrossConformal, LinearRegression(), confidence_level=COVERAGE)
    bagged = partial(JackknifeAfterBootstrapRegressor, LinearRegression(), confidence_level=COVERAGE)
    yield interval_line("CV+, 5 folds", 10_000 // part, partial(mapie, cv=folds), cv=folds)
    yield interval_line("jackknife+", 1000 // part, partial(mapie, cv=LeaveOneOut()), method="jackknife+")
    for aggregate in ("mean", "median"):
        peer = partial(bagged, resampling=resamples, aggregation_method=aggregate)
        options = {"method": "jackknife+ab", "cv": resamples, "aggregate": aggregate}
        yield interval_line(f"jackknife+-after-bootstrap, {aggregate}", 2000 // part, peer, **options)


class GivenProba(ClassifierMixin, BaseEstimator):
    """Classifier that returns X as class probabilities, so that only the sets are timed."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> GivenProba:
        """Set the classes 0 to K - 1."""
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return X."""
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the most probable class."""
        return X.argmax(axis=1)


def probabilities(n: int, n_classes: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.full(n_classes, 0.3), size=n)


def set_line(what: str, n: int, n_classes: int, package: str, method: str = "lac") -> Line:
    """Compare a method for n calibration rows and n new rows."""
    X, X_new = np.split(probabilities(2 * n, n_classes), 2)
    y = (X.cumsum(axis=1) < np.random.default_rng(1).random((n, 1))).sum(axis=1).clip(max=n_classes - 1)
    model, randomized = GivenProba().fit(X, y), method == "aps"
    own = ConformalClassifier(
        FrozenEstimator(model), method, randomized=randomized, allow_empty=True, random_state=0
    )

    def mapie() -> object:
        options = {"confidence_level": COVERAGE, "conformity_score": method, "random_state": 0}
        peer = SplitConformalClassifier(model, prefit=True, **options).conformalize(X, y)
        params = {"include_last_label": "randomized"} if randomized else {}
        return peer.predict_set(X_new, params)[1][:, :, 0]

    def crepes() -> object:
        peer = CrepesClassifier().fit(hinge(X, model.classes_, y))
        return peer.predict_set(hinge(X_new), confidence=COVERAGE, smoothing=False)

    ref = {"MAPIE": mapie, "crepes": crepes}[package]
    return Line(
        what, n, package, lambda: own.fit(X, y).predict_set(X_new, COVERAGE), ref, same=not randomized
    )


def set_lines(part: int) -> Iterator[Line]:
    n = 1_000_000 // part
    proba, equal = probabilities(n, 10), np.full((n, 10), 0.1)
    for what, rows, coverage in (
        ("sets of 10 classes", proba, COVERAGE),
        ("the same, five coverages", proba, [0.5, 0.6, 0.7, 0.8, 0.9]),
        ("the same, equal probabilities", equal, COVERAGE),
    ):
        own = partial(prediction_set, rows, coverage)
        yield Line(f"``prediction_set``: {what}", n, "one ``np.sort``", own, partial(np.sort, rows))
    yield set_line("LAC, 10 classes", n // 10, 10, "MAPIE")
    yield set_line("LAC, 100 classes", n // 100, 100, "MAPIE")
    yield set_line("APS, randomized, 10 classes", n // 10, 10, "MAPIE", "aps")
    yield set_line("LAC, 1000 classes", n // 1000, 1000, "crepes")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="use a tenth of the rows")
    quick = parser.parse_args().quick
    part = 10 if quick else 1
    warnings.simplefilter("ignore")  # few rows of many classes
    show("conformal", compared(interval_lines(part), quick, memory=True))
    show("conformal-sets", compared(set_lines(part), quick, memory=True))


if __name__ == "__main__":
    main()
