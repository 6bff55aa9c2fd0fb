"""Measure time and memory of `MetricAccumulator` for more rows than fit into memory.

Run as `python benchmarks/scale.py [--rows 1e8] [--dask-rows 2e7]`. Normal forecasts are generated in blocks,
and each block is discarded after its update. Times are processor times of the updates, without the
generation. They are compared with one pass of ``ndtr`` over the same rows, which is the smallest cost of a
metric that needs probabilities. Memory is the peak memory of the process minus its memory before the first
block. Columns of quantiles are updated twice: with all metrics, and with the metrics that need only these
levels. With dask, rows are generated in one worker and in two workers. The times of dask are clock times,
after the workers have imported skuq.
"""

from __future__ import annotations

import pickle
import resource
import sys
import time
from collections.abc import Iterator

import numpy as np
from measuring import arguments
from scipy.special import ndtr

from skuq.distributions import Normal, Quantiles
from skuq.monitoring import MetricAccumulator

BLOCK = 100_000
LEVELS = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.975, 0.99])
OWN = ("pinball", "mace", "rmsce", "picp", "mpiw", "interval_score")


def part(seed: int, rows: int) -> np.ndarray:
    """Return the rows of one block: an array of targets, means and standard deviations."""
    rng = np.random.default_rng(seed)
    loc, scale = rng.normal(size=rows), np.exp(0.5 * rng.normal(size=rows))
    return np.column_stack([loc + 1.1 * scale * rng.normal(size=rows), loc, scale])


def blocks(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield targets, means and standard deviations; the standard deviations are too small by a tenth."""
    for seed, start in enumerate(range(0, rows, BLOCK)):
        y, loc, scale = part(seed, min(BLOCK, rows - start)).T.copy()
        yield y, loc, scale


def peak() -> float:
    """Return the peak memory of the process in megabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def normal_forecasts(rows: int) -> None:
    accumulator = MetricAccumulator()
    before, update, one_pass = peak(), 0.0, 0.0
    for y, loc, scale in blocks(rows):
        start = time.process_time()
        accumulator.update(y, Normal(loc, scale))
        middle = time.process_time()
        ndtr((y - loc) / scale)
        update, one_pass = update + middle - start, one_pass + time.process_time() - middle
    start = time.process_time()
    result = accumulator.result()
    done = time.process_time() - start
    print(f"{len(result)} metrics and three curves of {accumulator.n_rows:.3g} normal forecasts")
    print(f"  updates         {rows / update:12,.0f} rows per second, {update:8.1f} s")
    print(f"  one ndtr pass   {rows / one_pass:12,.0f} rows per second, {one_pass:8.1f} s")
    print(f"  memory          {peak() - before:12.1f} MB more than at the start")
    print(f"  state           {len(pickle.dumps(accumulator)) / 1e6:12.2f} MB")
    print(f"  result          {1e3 * done:12.1f} ms")
    few = ", ".join(f"{name} {result[name]:.4f}" for name in ("crps", "mace", "ence", "auucc"))
    print(f"  {few}", flush=True)


def quantile_columns(rows: int) -> None:
    accumulators = {
        "all metrics": MetricAccumulator(),
        "six, at 99 levels": MetricAccumulator(*OWN, curves=["calibration"]),
        "six, at their own": MetricAccumulator(*OWN, levels=LEVELS, curves=["calibration"]),
    }
    spent = dict.fromkeys(accumulators, 0.0)
    for y, loc, scale in blocks(rows):
        values = Normal(loc, scale).quantile(LEVELS)
        for name, accumulator in accumulators.items():
            start = time.process_time()
            accumulator.update(y, Quantiles(LEVELS, values))
            spent[name] += time.process_time() - start
    print(f"{rows:.3g} rows of {LEVELS.size} quantile columns")
    own = spent["six, at their own"]
    for name, seconds in spent.items():
        print(
            f"  {name:18}{rows / seconds:10,.0f} rows per second, {seconds / own:6.1f} times the own levels"
        )


def rate_on_dask(rows: int, workers: int, environment: dict[str, int]) -> float:
    """Return the rows per second for a number of workers with these environment variables."""
    import dask
    from dask import delayed
    from distributed import Client, LocalCluster

    from skuq.integrations.dask import accumulate

    dask.config.set({"distributed.nanny.pre-spawn-environ": environment})
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster):
        for n in (workers * BLOCK, rows):  # In the first call, the workers import skuq.
            start = time.perf_counter()
            parts = [delayed(part)(seed, BLOCK) for seed in range(max(n // BLOCK, 1))]
            total = accumulate(MetricAccumulator(), parts, 0, (1, 2)).compute()
            rate = total.n_rows / (time.perf_counter() - start)
    return rate


def dask_workers(rows: int) -> None:
    one_thread = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "MKL_NUM_THREADS": 1}
    # With this variable, the memory of temporary arrays is returned to the system immediately (dask's
    # default).
    trimming = {**one_thread, "MALLOC_TRIM_THRESHOLD_": 65536}
    print(f"{rows:.3g} rows on dask, all metrics and curves")
    one, two = (rate_on_dask(rows, workers, one_thread) for workers in (1, 2))
    trimmed = rate_on_dask(rows // 10, 1, trimming)
    for what, rate in {
        "1 worker": one,
        "2 workers": two,
        "1 worker, MALLOC_TRIM_THRESHOLD_": trimmed,
    }.items():
        print(f"  {what:36s}{rate:12,.0f} rows per second")
    print(f"  two workers: {two / one:.2f} times one worker; without the variable: {one / trimmed:.2f} times")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--rows", type=float, default=1e8, help="number of rows of normal forecasts; 0 skips them"
    )
    parser.add_argument("--dask-rows", type=float, default=2e7, help="number of rows on dask; 0 skips them")
    options = parser.parse_args()
    rows, dask_rows = int(options.rows), int(options.dask_rows)
    if rows:
        normal_forecasts(rows)
        quantile_columns(max(rows // 100, BLOCK))
    if dask_rows:
        dask_workers(dask_rows)


if __name__ == "__main__":
    main()
