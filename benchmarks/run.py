"""Compare skuq with other packages or with plain numpy expressions, by ratios of times: `make bench`.

Each line of the table times both sides in alternating calls on the same values. It uses the best of several
rounds, because other processes then slow down both sides equally. A ratio below 1 means that skuq is faster.
Packages that are not installed are omitted.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from measuring import times_in_turns
from scipy import stats
from scipy.special import ndtr, ndtri

from skuq.distributions import Empirical, Normal
from skuq.metrics import crps_loss, interval_score_loss, mean_absolute_calibration_error, nll_loss

ROUNDS, SECONDS_A_LINE = 7, 6.0


@dataclass(frozen=True)
class Line:
    """Comparison of skuq with a peer that returns the same numbers, or with its most expensive part."""

    what: str
    rows: int
    skuq: Callable[[], object]
    peer_name: str
    peer: Callable[[], object]
    same: bool = True


def measure(line: Line) -> tuple[float, float]:
    """Return the best times of skuq and of the peer, measured in alternating calls."""
    own, peer = times_in_turns(line.skuq, line.peer, budget=SECONDS_A_LINE, most=ROUNDS)
    return min(own), min(peer)


def distribution_lines(n: int, rng: np.random.Generator) -> Iterator[Line]:
    """Compare the methods of Normal with one pass over the rows, which they need at least."""
    loc, scale, y, p = (
        rng.standard_normal(n),
        rng.uniform(0.5, 2, n),
        rng.standard_normal(n),
        rng.uniform(size=n),
    )
    dist, frozen = Normal(loc, scale), stats.norm(loc, scale)
    z, constant, width = (y - loc) / scale, 0.5 * math.log(2 * math.pi), ndtri(0.95)

    yield Line("Normal.cdf", n, lambda: dist.cdf(y), "ndtr alone", lambda: ndtr(z))
    yield Line("Normal.ppf", n, lambda: dist.ppf(p), "ndtri alone", lambda: ndtri(p), same=False)
    yield Line(
        "Normal.logpdf",
        n,
        lambda: dist.logpdf(y),
        "numpy by hand",
        lambda: -0.5 * ((y - loc) / scale) ** 2 - np.log(scale) - constant,
    )
    yield Line(
        "Normal.interval",
        n,
        lambda: dist.interval(0.9),
        "numpy by hand",
        lambda: np.column_stack([loc - width * scale, loc + width * scale]),
    )
    yield Line("Normal.cdf", n, lambda: dist.cdf(y), "scipy.stats.norm", lambda: frozen.cdf(y))
    yield Line("Normal.logpdf", n, lambda: dist.logpdf(y), "scipy.stats.norm", lambda: frozen.logpdf(y))


def calibration_by_levels(y: np.ndarray, loc: np.ndarray, scale: np.ndarray) -> float:
    """Compute the calibration error by its definition, with one pass over the rows for each of 99 levels."""
    levels = np.arange(1, 100) / 100
    observed = [np.mean(y <= loc + scale * ndtri(level)) for level in levels]
    return float(np.abs(observed - levels).mean())


def metric_lines(n: int, rng: np.random.Generator) -> Iterator[Line]:
    """Compare metrics with scoringrules, and with their definitions."""
    loc, scale = rng.standard_normal(n), rng.uniform(0.5, 2, n)
    y = loc + scale * rng.standard_normal(n)
    dist, bounds = Normal(loc, scale), Normal(loc, scale).interval(0.9)
    yield Line(
        "mean_absolute_calibration_error",
        n,
        lambda: mean_absolute_calibration_error(y, dist),
        "a pass per level",
        lambda: calibration_by_levels(y, loc, scale),
    )
    if importlib.util.find_spec("scoringrules") is None:
        return
    import scoringrules as sr

    members = rng.standard_normal((n // 100, 100))
    few = y[: len(members)]
    lower, upper = bounds.T
    name = "scoringrules"
    yield Line("crps_loss", n, lambda: crps_loss(y, dist), name, lambda: sr.crps_normal(y, loc, scale).mean())
    yield Line("nll_loss", n, lambda: nll_loss(y, dist), name, lambda: sr.logs_normal(y, loc, scale).mean())
    yield Line(
        "interval_score_loss",
        n,
        lambda: interval_score_loss(y, bounds, coverage=0.9),
        name,
        lambda: sr.interval_score(y, lower, upper, 0.1).mean(),
    )
    yield Line(
        "crps_loss, 100 members",
        len(members),
        lambda: crps_loss(few, Empirical(members)),
        name,
        lambda: sr.crps_ensemble(few, members).mean(),
    )


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{'what':34}{'rows':>9}  {'peer':18}{'skuq ms':>10}{'peer ms':>10}{'ratio':>8}")
    for n in (1_000, 1_000_000):
        for line in [*distribution_lines(n, rng), *metric_lines(n, rng)]:
            own, peer = measure(line)
            numbers = f"{1e3 * own:10.3f}{1e3 * peer:10.3f}{own / peer:8.2f}"
            print(f"{line.what:34}{line.rows:9d}  {line.peer_name:18}{numbers}", flush=True)


if __name__ == "__main__":
    main()
