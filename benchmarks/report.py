"""Measure the time of the report and of bootstrap intervals, also for another version of skuq.

Run as `python benchmarks/report.py [checkout]`. The checkout is the folder of another version, for example
from `git worktree add`. Each line is then run with both versions, one after the other. ``--most 100000``
omits larger numbers of rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings

import numpy as np
from measuring import arguments
from sklearn.ensemble import HistGradientBoostingRegressor

from skuq.distributions import Distribution, Normal
from skuq.evaluation import bootstrap_interval, uncertainty_report
from skuq.regressors import UncertaintyRegressor

ROWS = (1000, 100_000, 1_000_000)
WHATS = ("report of Normal", "report of the default", "bootstrap_interval of CRPS")


def normal(n: int) -> tuple[np.ndarray, Normal]:
    """Return targets and calibrated normal forecasts."""
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    return loc + scale * rng.normal(size=n), Normal(loc, scale)


def default(n: int) -> tuple[np.ndarray, Distribution]:
    """Return targets, and the forecasts of the default method around gradient boosting."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000 + n, 5))
    y = X @ np.arange(1.0, 6.0) + np.exp(0.3 * X[:, 0]) * rng.normal(size=2000 + n)
    boosting = HistGradientBoostingRegressor(max_iter=50, random_state=0)
    model = UncertaintyRegressor(boosting, random_state=0).fit(X[:2000], y[:2000])
    return y[2000:], model.predict_dist(X[2000:])


def seconds(what: str, n: int) -> float:
    """Return the time of one call, after a call with few rows that runs all imports."""
    call(what, 200)
    return call(what, n)


def call(what: str, n: int) -> float:
    """Return the time of one call, without the time to generate the rows."""
    y, dist = default(n) if what == WHATS[1] else normal(n)
    start = time.perf_counter()
    if what == WHATS[2]:
        bootstrap_interval(y, dist, "crps", random_state=0)
    else:
        uncertainty_report(y, dist, random_state=0)
    return time.perf_counter() - start


def seconds_elsewhere(what: str, n: int, checkout: str) -> float:
    """Return the time of another version of skuq, in a separate process."""
    command = [sys.executable, __file__, "--one", what, str(n)]
    environment = {**os.environ, "PYTHONPATH": checkout}
    run = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(run.stdout)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("checkout", nargs="?", help="folder of another version of skuq")
    parser.add_argument("--most", type=int, default=ROWS[-1])
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "ROWS"), help="print the seconds of one call")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.one:
        print(seconds(chosen.one[0], int(chosen.one[1])))
        return
    print(f"{'':30s}{'rows':>10s}{'seconds':>9s}{'other':>9s}{'ratio':>7s}")
    for what in WHATS:
        for n in (rows for rows in ROWS if rows <= chosen.most):
            here = seconds(what, n)
            line = f"{what:30s}{n:10d}{here:9.2f}"
            if chosen.checkout:
                other = seconds_elsewhere(what, n, chosen.checkout)
                line += f"{other:9.2f}{here / other:7.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
