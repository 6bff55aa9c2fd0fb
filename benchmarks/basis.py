"""Compare conformal intervals over a basis with MAPIE and with one linear program per row.

All three solve the same quantile regression with one added row. The scores are the absolute residuals of a
fitted linear model, and the functions are a constant and d - 1 columns. The table has the time per predicted
row, with the solution for the calibration rows included, and the number of new rows whose half width differs
from skuq.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from measuring import arguments, show
from scipy.optimize import linprog
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skuq.conformal import ConformalRegressor

COVERAGE = 0.9
CASES = ((500, 5), (1000, 10), (2000, 20))
N_NEW = {"skuq": 500, "MAPIE": 60, "linear programs": 20}


def features(X: np.ndarray) -> np.ndarray:
    """Return the functions of x: a constant and the columns of X."""
    return np.c_[np.ones(len(X)), X]


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return calibration rows whose noise depends on x, and new rows."""
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(n, d - 1)), rng.normal(size=(max(N_NEW.values()), d - 1))
    return X, X.sum(axis=1) + np.exp(0.5 * X[:, 0]) * rng.normal(size=n), X_new


def by_skuq(model: LinearRegression, X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> np.ndarray:
    """Return the half widths of skuq's intervals."""
    conformal = ConformalRegressor(FrozenEstimator(model), basis=lambda X: X).fit(X, y)
    return np.diff(conformal.predict_interval(X_new, coverage=COVERAGE), axis=1)[:, 0] / 2


def by_mapie(model: LinearRegression, X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> np.ndarray:
    """Return the half widths of MAPIE's intervals."""
    from mapie.conditional_conformal_prediction import ConditionalSplitConformalRegressor

    conformal = ConditionalSplitConformalRegressor(features, model, COVERAGE).conformalize(X, y)
    return np.diff(conformal.predict_interval(X_new)[1][:, :, 0], axis=1)[:, 0] / 2


def by_program(model: LinearRegression, X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> np.ndarray:
    """Return the half widths from one linear program per row."""
    scores = np.abs(y - model.predict(X))
    phi = features(X)
    cutoffs = []
    for new in features(X_new):
        # the dual variable of the new row is at its upper bound, approached from below
        result = linprog(
            -scores, A_eq=phi.T, b_eq=-COVERAGE * (1 - 1e-6) * new, bounds=(COVERAGE - 1, COVERAGE)
        )
        cutoffs.append(np.inf if result.status == 2 else -new @ result.eqlin.marginals)
    return np.array(cutoffs)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="only the smallest case, without MAPIE")
    quick = parser.parse_args().quick
    methods: dict[str, Callable[..., np.ndarray]] = {"skuq": by_skuq, "linear programs": by_program}
    if not quick:
        methods["MAPIE"] = by_mapie
    table = []
    for n, d in CASES[:1] if quick else CASES:
        X, y, X_new = data(n, d)
        model = LinearRegression().fit(X, y)
        widths = {}
        for name, method in methods.items():
            rows = X_new[: N_NEW[name]]
            method(model, X, y, rows[:1])  # imports
            start = time.process_time()
            widths[name] = method(model, X, y, rows)
            milliseconds = 1e3 * (time.process_time() - start) / len(rows)
            difference = np.abs(widths[name] - widths["skuq"][: len(rows)])
            table.append(
                {
                    "method": name,
                    "rows": n,
                    "functions": d,
                    "row, ms": milliseconds,
                    "new rows": len(rows),
                    "differ": (difference > 1e-6).sum(),
                    "at most by": difference.max(),
                }
            )
    show("basis", pd.DataFrame(table), decimals={"row, ms": 2, "at most by": 2})


if __name__ == "__main__":
    main()
