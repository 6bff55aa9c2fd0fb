"""Compare the uncertainty characteristics curve and the report with other packages, by ratios of times.

UQ360 can no longer be imported, because it needs names that scipy 1.14 removed. Its algorithm is therefore
implemented in this script: one pass over all rows for each critical scale. Uncertainty Toolbox is omitted if
it is not installed.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from functools import partial

import numpy as np
from measuring import peak_bytes, times_of

from skuq.distributions import Normal
from skuq.evaluation import bootstrap_interval, paired_permutation_test, uncertainty_report
from skuq.metrics import auucc_gain_score, uncertainty_characteristics_curve

SECONDS_A_LINE = 6.0


def quadratic_curve(error: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return scale, miss rate, bandwidth, excess and deficit at each critical scale, one pass for each."""
    critical = np.sort(np.where(error >= 0, error / upper, -error / lower))
    size, above = np.abs(error), error >= 0
    points = np.empty((critical.size, 5))
    for i, k in enumerate(critical):
        low, high = k * lower, k * upper
        gap = np.where(above, high, low) - size
        missed = 1.0 - np.sum((error >= -low) & (error <= high)) / error.size
        points[i] = k, missed, np.mean([high, low]), np.mean(np.maximum(gap, 0)), np.mean(np.maximum(-gap, 0))
    return points


def quadratic_area(error: np.ndarray, band: np.ndarray) -> float:
    points = quadratic_curve(error, band, band)
    return float(np.trapezoid(points[:, 1], points[:, 3]))


def median_time(function: Callable[[], object], least: int = 1) -> float:
    """Return the median time of at most seven calls."""
    return statistics.median(times_of(function, SECONDS_A_LINE, least))


def peak_arrays(function: Callable[[], object], n: int) -> float:
    """Return the peak memory of a call, including its result, in arrays of n numbers."""
    return peak_bytes(function) / (8 * n)


def forecast(n: int) -> tuple[np.ndarray, Normal]:
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=n), 0.3 + rng.random(n)
    return loc + scale * rng.normal(size=n), Normal(loc, scale)


def line(what: str, n: int, peer: str, own: float, other: float, memory: float) -> None:
    print(
        f"{what:34}{n:9d}  {peer:26}{1e3 * own:11.3f}{1e3 * other:12.3f}{other / own:10.2f}{memory:9.1f}",
        flush=True,
    )


def compare_curves() -> None:
    for n in (1_000, 10_000):
        y, dist = forecast(n)
        error, band = y - dist.loc, dist.scale
        fast = uncertainty_characteristics_curve(y, dist)
        slow = quadratic_curve(error[:200], band[:200], band[:200])
        same = uncertainty_characteristics_curve(y[:200], dist[:200])
        np.testing.assert_allclose(
            slow[:, 2:], np.column_stack([same.bandwidth, same.excess, same.deficit])[1:], atol=1e-12
        )
        curve = partial(uncertainty_characteristics_curve, y, dist)
        own = median_time(lambda curve=curve: curve().area(x_axis="excess"), 3)
        other = median_time(partial(quadratic_area, error, band))
        memory = peak_arrays(lambda curve=curve: curve().area(), n)
        line(f"UCC and area ({len(fast)} points)", n, "UQ360's algorithm", own, other, memory)
        gain = median_time(partial(auucc_gain_score, y, dist), 3)
        line("auucc_gain_score", n, "UQ360's, two curves", gain, 2 * other, 0.0)
    n = 1_000_000
    y, dist = forecast(n)
    k = np.abs(y - dist.loc) / dist.scale
    for what, options in (("UCC and area", {}), ("UCC and area, bias", {"vary": "bias"})):
        curve = partial(uncertainty_characteristics_curve, y, dist, **options)
        own, memory = median_time(lambda c=curve: c().area(), 3), peak_arrays(lambda c=curve: c().area(), n)
        line(what, n, "one np.argsort", own, median_time(lambda: np.argsort(k), 3), memory)


def compare_reports() -> None:
    for n in (1_000, 100_000):
        y, dist = forecast(n)
        values = partial(uncertainty_report, y, dist, n_resamples=0, n_draws=0)
        own, memory = median_time(values, 3), peak_arrays(values, n)
        whole = median_time(partial(uncertainty_report, y, dist, random_state=0)) if n < 10_000 else np.nan
        if importlib.util.find_spec("uncertainty_toolbox") is None:
            line("report, values only", n, "-", own, np.nan, memory)
            continue
        from uncertainty_toolbox import get_all_metrics

        other = median_time(partial(get_all_metrics, dist.loc, dist.scale, y, verbose=False))
        line("report, values only", n, "Uncertainty Toolbox", own, other, memory)
        line("report, all of it", n, "Uncertainty Toolbox", whole, other, 0.0)


def compare_resampling() -> None:
    n, resamples = 10_000, 1000
    y, dist = forecast(n)
    other = Normal(dist.loc, np.ones(n))
    rows, rows_b = dist.crps(y), other.crps(y)
    rng = np.random.default_rng(0)
    own = median_time(lambda: bootstrap_interval(y, dist, "crps", n_resamples=resamples, random_state=0))
    loop = median_time(lambda: [rng.choice(rows, n).mean() for _ in range(resamples)])
    line("bootstrap_interval, CRPS", n, "a loop over resamples", own, loop, 0.0)
    own = median_time(lambda: paired_permutation_test(y, dist, other, "crps", random_state=0))
    loop = median_time(lambda: [np.mean((rows - rows_b) * rng.choice([-1, 1], n)) for _ in range(resamples)])
    line("paired_permutation_test, CRPS", n, "a loop over permutations", own, loop, 0.0)
    own = median_time(
        lambda: paired_permutation_test(y, dist, other, "mace", n_resamples=100, random_state=0)
    )
    line("paired_permutation_test, MACE, 100", n, "-", own, np.nan, 0.0)


def main() -> None:
    print(f"{'what':34}{'rows':>9}  {'peer':26}{'skuq ms':>11}{'peer ms':>12}{'ratio':>10}{'arrays':>9}")
    compare_curves()
    compare_reports()
    compare_resampling()


if __name__ == "__main__":
    main()
