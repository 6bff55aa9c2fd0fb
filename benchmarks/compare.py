"""Compare the speed of the working tree with another commit: `make bench-compare BASE=main`.

Each commit has one process. In each round, the processes take turns for each benchmark, and the process
that starts changes from round to round. Times are processor times with one thread. A benchmark repeats its
call until it takes 0.05 seconds. The result of a benchmark is the median over the rounds of the ratio of
both times. Its noise band is the 95 % confidence interval of the median between two order statistics, which
assumes no distribution. A commit is slower or faster if the whole band is more than 5 % from 1. Sizes of
pickles have no noise.

Both commits run the benchmarks of the working tree. The verdict is "new" if the other commit cannot run them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from measuring import arguments

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, SHORTEST, TOLERANCE, CONFIDENCE = 9, 0.05, 0.05, 0.95
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
IMPORTS = {
    "import skuq": "import skuq",
    "import the quick start": "from skuq import UncertaintyRegressor, get_scorer, predict_dist",
}


def cases() -> dict[str, Callable[[], object]]:
    """Return the calls of all benchmarks, with fitted models and forecasts."""
    import numpy as np
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge

    from skuq import UncertaintyRegressor, predict_dist
    from skuq.conformal import ConformalRegressor, CrossConformalRegressor
    from skuq.displays import ReliabilityDisplay
    from skuq.distributions import Empirical, Normal, Quantiles
    from skuq.evaluation import uncertainty_report
    from skuq.metrics import crps_loss, nll_loss, uncertainty_characteristics_curve
    from skuq.monitoring import MetricAccumulator
    from skuq.recalibration import EmpiricalRecalibrator, GPNormalRecalibrator

    rng = np.random.default_rng(0)
    X, X_new = rng.standard_normal((2, 1000, 5))
    y = X @ [1.0, 2.0, 0.5, 0.0, 0.0] + rng.standard_normal(1000) * np.exp(0.3 * X[:, 0])
    ridge, forest = Ridge(), RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    residual = UncertaintyRegressor(ridge, random_state=0).fit(X, y)
    trees = UncertaintyRegressor(forest, random_state=0).fit(X, y)
    conformal = ConformalRegressor(ridge, random_state=0).fit(X, y)
    dist = predict_dist(residual, X_new)
    normal = Normal(X[:, 0], np.exp(0.1 * X[:, 1]))
    members = Empirical(rng.standard_normal((1000, 100)))
    levels = np.arange(1, 20) / 20
    quantiles = Quantiles(levels, normal.quantile(levels))
    calls: dict[str, Callable[[], object]] = {
        "fit, linear model": lambda: UncertaintyRegressor(ridge, random_state=0).fit(X, y),
        "fit, forest": lambda: UncertaintyRegressor(forest, random_state=0).fit(X, y),
        "fit, conformal": lambda: ConformalRegressor(ridge, random_state=0).fit(X, y),
        "fit, cross-conformal": lambda: CrossConformalRegressor(ridge, random_state=0).fit(X, y),
        "predict_dist, 1000 rows": lambda: predict_dist(residual, X_new).quantile(levels),
        "predict_interval, forest": lambda: trees.predict_interval(X_new),
        "predict_interval, one row": lambda: residual.predict_interval(X_new[:1]),
        "predict_interval, conformal, one row": lambda: conformal.predict_interval(X_new[:1]),
        "cdf and ppf of normals": lambda: normal.ppf(normal.cdf(y)),
        "CRPS, 100 members": lambda: crps_loss(y, members),
        "CRPS, 19 quantiles": lambda: crps_loss(y, quantiles),
        "log score, calibrated forecasts": lambda: nll_loss(y, dist),
        "recalibrate": lambda: EmpiricalRecalibrator().fit(normal, y).transform(normal).interval(0.9),
        "recalibrate, Gaussian process": lambda: GPNormalRecalibrator().fit(normal[:200], y[:200]),
        "report": lambda: uncertainty_report(y, normal, n_resamples=50, n_draws=0, random_state=0),
        "uncertainty characteristics curve": lambda: uncertainty_characteristics_curve(y, normal).area(),
        "metrics in blocks": lambda: MetricAccumulator().update(y, normal),
        "size of the pickle, linear model": lambda: len(pickle.dumps(residual)),
        "size of the pickle, forest": lambda: len(pickle.dumps(trees)),
    }
    if find_spec("matplotlib"):
        calls["reliability diagram"] = lambda: ReliabilityDisplay.from_predictions(y, normal)
    if find_spec("torch") and find_spec("skorch"):
        from skuq.neural import DeepEnsembleRegressor

        networks = DeepEnsembleRegressor(n_estimators=3, max_epochs=5, random_state=0)
        fitted = DeepEnsembleRegressor(n_estimators=3, max_epochs=5, random_state=0).fit(X, y)
        calls["fit, three networks"] = lambda: networks.fit(X, y)
        calls["predict_dist, three networks"] = lambda: fitted.predict_dist(X_new)
    return calls


def import_seconds(statement: str) -> float:
    code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    return float(
        subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    )


def measured(name: str, call: Callable[[], object], repeats: int) -> float:
    """Return the seconds of a call, or the size of a pickle."""
    if name.startswith("size"):
        return float(str(call()))
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def serve(tree: Path) -> None:
    """Answer names of benchmarks on standard input with times on standard output."""
    import skuq

    if not Path(skuq.__file__).is_relative_to(tree):
        raise SystemExit(f"{skuq.__file__} is not in {tree}")
    warnings.simplefilter("ignore")
    answers = sys.stdout
    sys.stdout = sys.stderr
    calls, repeats = cases(), {}
    print(json.dumps([*IMPORTS, *calls]), file=answers, flush=True)
    for line in sys.stdin:
        name = line.strip()
        if name in IMPORTS:
            value = import_seconds(IMPORTS[name])
        else:
            if name not in repeats:
                measured(name, calls[name], 1)  # fills the caches
                once = measured(name, calls[name], 1)
                repeats[name] = max(1, math.ceil(SHORTEST / max(once, 1e-6)))
            value = measured(name, calls[name], repeats[name])
        print(value, file=answers, flush=True)


class Commit:
    """Process that measures one tree."""

    def __init__(self, tree: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(tree)],
            env=os.environ | THREADS | {"PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = json.loads(self.process.stdout.readline() or "[]")
        if not self.names and tree == ROOT:
            raise SystemExit("The benchmarks of the working tree failed. The error is above.")

    def measure(self, name: str) -> float:
        """Return the seconds of a call, or the size of a pickle."""
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def band(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median of the ratios, and its confidence interval between two order statistics."""
    ordered, n, left, outside = sorted(ratios), len(ratios), 0, 2 / 2 ** len(ratios)
    while outside + 2 * math.comb(n, left + 1) / 2**n <= 1 - CONFIDENCE:
        left += 1
        outside += 2 * math.comb(n, left) / 2**n
    return statistics.median(ordered), ordered[left], ordered[n - 1 - left]


def verdict(low: float, high: float) -> str:
    if low > 1 + TOLERANCE:
        return "slower"
    return "faster" if high < 1 - TOLERANCE else "same"


def compare(base: Path, rounds: int) -> None:
    """Print one line per benchmark."""
    other, own = Commit(base), Commit(ROOT)
    try:
        names = [name for name in own.names if name in other.names]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names:
                if name in IMPORTS and turn % 4 > 1:
                    continue  # An import takes seconds, and varies little.
                order = (other, own) if turn % 2 else (own, other)
                values = {commit: commit.measure(name) for commit in order}
                times[name].append((values[other], values[own]))
    finally:
        other.close()
        own.close()
    print(f"{'benchmark':38} {'before':>10} {'now':>10} {'ratio':>6}  {'noise band':14} verdict")
    for name in own.names:
        if name not in names:
            print(f"{name:38} {'':>10} {'':>10} {'':>6}  {'':14} new")
            continue
        before, now = (statistics.median(values) for values in zip(*times[name], strict=True))
        ratio, low, high = band([after / first for first, after in times[name]])
        unit, factor = ("kB", 1e-3) if name.startswith("size") else ("ms", 1e3)
        print(
            f"{name:38} {before * factor:7.2f} {unit} {now * factor:7.2f} {unit} {ratio:6.3f}  "
            f"{low:.3f} to {high:.3f} {verdict(low, high)}"
        )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("base", nargs="?", default="main", help="a commit, a branch or a tag")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "base.tar"
        subprocess.run(
            ["git", "-C", str(ROOT), "archive", "-o", str(archive), options.base, "skuq"], check=True
        )
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
        compare(Path(folder).resolve(), options.rounds)


if __name__ == "__main__":
    main()
