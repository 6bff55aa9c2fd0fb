"""Measure `MetricAccumulator`: differences from all rows at once, time, and memory.

Differences: heteroscedastic normal forecasts of heavy-tailed targets. Cost: normal forecasts are generated in
blocks, and each block is discarded after its update. Times are those of the updates, without the generation.
They are compared with one pass of ``ndtr`` over the same rows, which is the smallest cost of a metric that
needs probabilities. Memory is the peak memory of the process minus its memory before the first block. Columns
of quantiles are updated with all metrics, and with the metrics that need only their levels.
"""

from __future__ import annotations

import pickle
import resource
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from measuring import arguments, seconds, show, significant
from scipy.special import ndtr

from skuq.distributions import Distribution, Normal, Quantiles
from skuq.metrics import expected_normalized_calibration_error, miscalibration_area
from skuq.metrics import uncertainty_characteristics_curve as characteristics_curve
from skuq.monitoring import MetricAccumulator

BLOCK = 100_000
LEVELS = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.975, 0.99])
OWN = ("pinball", "mace", "rmsce", "picp", "mpiw", "interval_score")


def blocks(rows: int) -> Iterator[tuple[np.ndarray, Normal]]:
    """Yield targets and forecasts of blocks; the standard deviations are too small."""
    for seed in range(-(-rows // BLOCK)):
        rng = np.random.default_rng(seed)
        n = min(BLOCK, rows - seed * BLOCK)
        loc, scale = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
        yield loc + scale * rng.standard_t(5, size=n), Normal(loc, scale)


def differences(rows: int) -> dict[str, str]:
    """Return the differences between a sum of blocks and all rows at once."""
    total, parts = MetricAccumulator(), list(blocks(rows))
    for y, dist in parts:
        total.update(y, dist)
    y = np.concatenate([part for part, _ in parts])
    loc, scale = (np.concatenate([getattr(dist, name) for _, dist in parts]) for name in ("loc", "scale"))
    dist, found = Normal(loc, scale), total.result()
    area, exact = (curve.area() for curve in (total.characteristics_curve(), characteristics_curve(y, dist)))
    levels = np.arange(1, 100) / 100
    quantiles = total.std_quantile(levels) / np.quantile(scale, levels, method="inverted_cdf")
    values = {
        "ENCE, relative": found["ence"] / expected_normalized_calibration_error(y, dist) - 1,
        "area of the characteristics curve, relative": area / exact - 1,
        "miscalibration area, absolute": found["miscal_area"] - miscalibration_area(y, dist),
        "quantiles of the standard deviation, 1 % to 99 %, relative": np.abs(quantiles - 1).max(),
    }
    return {name: f"{abs(value):.0e}".replace("e-0", "e-") for name, value in values.items()}


def peak() -> float:
    """Return the peak memory of the process in megabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def rate(parts: Iterator[tuple[np.ndarray, Distribution]], update: Callable[..., object]) -> str:
    """Return how many million rows per second an update processes."""
    n, spent = 0, 0.0
    for y, dist in parts:
        n, spent = n + len(y), spent + seconds(lambda y=y, dist=dist: update(y, dist))
    return significant(n / spent / 1e6, 2)


def costs(rows: int) -> pd.DataFrame:
    """Return the rates, and the memory for normal forecasts."""

    def columns() -> Iterator[tuple[np.ndarray, Quantiles]]:
        return ((y, Quantiles(LEVELS, dist.quantile(LEVELS))) for y, dist in blocks(rows // 20))

    every, of_columns = MetricAccumulator(), MetricAccumulator()
    some = MetricAccumulator(*OWN, levels=LEVELS, curves=["calibration"])
    before = peak()
    rates = {"normal forecasts": rate(blocks(rows), every.update)}
    memory = {"peak, MB": peak() - before, "pickle, MB": len(pickle.dumps(every)) / 1e6}
    rates |= {
        "one pass of ``ndtr``": rate(blocks(rows), lambda y, dist: ndtr((y - dist.loc) / dist.scale)),
        "13 quantile columns": rate(columns(), of_columns.update),
        "13 quantile columns, six metrics of these levels": rate(columns(), some.update),
    }
    table = pd.DataFrame({"million rows per second": rates})
    for name, value in memory.items():
        table.loc["normal forecasts", name] = significant(value, 2)
    return table.rename_axis("what").fillna("")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="use a hundredth of the rows")
    quick = parser.parse_args().quick
    show("scale-costs", costs(200_000 if quick else 20_000_000))
    sizes = ("1e4", "1e5") if quick else ("1e6", "1e7")
    table = pd.DataFrame({f"{rows} rows": differences(int(float(rows))) for rows in sizes})
    show("scale-differences", table.rename_axis("difference from all rows at once"))


if __name__ == "__main__":
    main()
