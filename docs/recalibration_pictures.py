"""Plots of the miscalibration that each recalibrator corrects, drawn when the documentation is built.

Each plot is from a simulation with a known true distribution, so coverage is computed and not sampled.
conf.py calls `write_pictures`; docs/explanation/recalibrator-examples.rst includes the files.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from skuq.conformal import ConformalRecalibrator
from skuq.distributions import Distribution, Normal, concat
from skuq.recalibration import (
    BinnedScalingRecalibrator,
    EmpiricalRecalibrator,
    GPBetaRecalibrator,
    GPCauchyRecalibrator,
    GPNormalRecalibrator,
    IsotonicDistributionalRecalibrator,
    IsotonicRecalibrator,
    OnlineRecalibrator,
    OperatingPointRecalibrator,
    QuantileShiftRecalibrator,
    ShrunkIsotonicRecalibrator,
    StdScalingRecalibrator,
    VarianceIsotonicRecalibrator,
)

COVERAGE = 0.9
N_ROWS = 1500
GRID = np.linspace(0.0, 1.0, 201)
# Orange and blue are distinguishable by color-blind readers; lightness and line style differ as well.
BEFORE = {"color": "#D55E00", "linestyle": (0, (1, 1)), "linewidth": 1.8}
AFTER = {"color": "#0072B2", "linestyle": "solid", "linewidth": 1.8}
OTHER = {"color": "#009E73", "linestyle": (0, (5, 1.5)), "linewidth": 1.8}
TRUTH = {"color": "black", "linestyle": "dashed", "linewidth": 0.9}
STYLE = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "skuq",
}


def flat(value: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a constant function of x."""
    return lambda x: np.full(np.shape(x), value)


ZERO = flat(0.0)


@dataclass(frozen=True)
class Simulation:
    """Simulation of one feature, a noisy target, and a miscalibrated forecast.

    ``noise`` gives the frozen scipy distribution of the noise at each x.
    """

    noise: Callable[[np.ndarray], Any]
    forecast_std: Callable[[np.ndarray], np.ndarray]
    forecast_bias: Callable[[np.ndarray], np.ndarray] = ZERO

    def mean(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x)

    def forecast(self, x: np.ndarray) -> Normal:
        return Normal(self.mean(x) + self.forecast_bias(x), self.forecast_std(x))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.uniform(size=n)
        return x, self.mean(x) + self.noise(x).rvs(random_state=rng)

    def true_cdf(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self.noise(x).cdf(y - self.mean(x))

    def true_interval(self, x: np.ndarray) -> np.ndarray:
        levels = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
        return np.array([self.mean(x) + self.noise(x).ppf(level) for level in levels])


# ------------------------------------------------------------------------------------ the panels


def draw_bands(ax: Any, simulation: Simulation, points: tuple, dists: dict) -> None:
    """Draw the intervals against x: original, recalibrated, true."""
    ax.plot(*points, ".", color="0.72", markersize=2.5, zorder=0, rasterized=True)
    for (name, dist), style in zip(dists.items(), (BEFORE, AFTER, OTHER), strict=False):
        lower, upper = dist.interval(COVERAGE).T
        if style is AFTER:
            ax.fill_between(GRID, lower, upper, color=AFTER["color"], alpha=0.15, linewidth=0)
        ax.plot(GRID, lower, label=name, **style)
        ax.plot(GRID, upper, **style)
    lower, upper = simulation.true_interval(GRID)
    ax.plot(GRID, lower, label="truth", **TRUTH)
    ax.plot(GRID, upper, **TRUTH)
    ax.set(title="90 % intervals", xlabel="x", ylabel="y", xlim=(0, 1))
    drawn = np.concatenate([line.get_ydata() for line in ax.lines[1:]])
    low, high = np.quantile(points[1], [0.005, 0.995])
    low, high = min(low, drawn.min()), max(high, drawn.max())
    ax.set_ylim(low - 0.05 * (high - low), high + 0.3 * (high - low))  # with space for the legend
    ax.legend(loc="upper left", ncols=2)


def draw_coverage(ax: Any, simulation: Simulation, dists: dict) -> None:
    """Draw the conditional coverage against x."""
    for (name, dist), style in zip(dists.items(), (BEFORE, AFTER, OTHER), strict=False):
        lower, upper = simulation.true_cdf(dist.interval(COVERAGE).T, GRID)
        average = float(np.mean(upper - lower))
        ax.plot(GRID, upper - lower, label=f"{name}, average {average:.2f}", **style)
    ax.axhline(COVERAGE, **TRUTH)
    ax.set(title="coverage by x", xlabel="x", xlim=(0, 1), ylim=(0, 1.02))
    ax.legend(loc="lower left")


def draw_misses(ax: Any, simulation: Simulation, dists: dict) -> None:
    """Draw the probability of a target above and of one below the interval, against x."""
    for (name, dist), style in zip(dists.items(), (BEFORE, AFTER), strict=False):
        lower, upper = simulation.true_cdf(dist.interval(COVERAGE).T, GRID)
        shares = f"{np.mean(1 - upper):.0%} and {np.mean(lower):.0%}".replace("%", " %")
        ax.plot(GRID, 1 - upper, label=f"{name}, average {shares}", **style)
        ax.plot(GRID, -lower, **style)
    nominal = (1 - COVERAGE) / 2
    for sign in (1, -1):
        ax.axhline(sign * nominal, **TRUTH)
    ax.axhline(0, color="0.3", linewidth=0.8)
    low, high = ax.get_ylim()
    ax.set(
        title="misses above and below the interval",
        xlabel="x",
        xlim=(0, 1),
        ylim=(low, high + 0.3 * (high - low)),
    )
    ax.set_ylabel("below          above", y=-low / (1.3 * (high - low)))  # centered at zero
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(100 * value):.0f} %")
    ax.legend(loc="upper left")


def draw_levels(ax: Any, simulation: Simulation, dists: dict) -> None:
    """Draw the coverage, on average over x, against nominal coverage."""
    nominal = np.linspace(0.02, 0.98, 49)
    for (name, dist), style in zip(dists.items(), (BEFORE, AFTER), strict=False):
        bounds = dist.interval(nominal)
        covers = [
            np.subtract(*simulation.true_cdf(bounds[:, ::-1, k].T, GRID)).mean() for k in range(len(nominal))
        ]
        ax.plot(nominal, covers, label=name, **style)
    ax.plot([0, 1], [0, 1], **TRUTH)
    ax.axvline(COVERAGE, color="0.6", linewidth=0.8)
    ax.set(title="observed against nominal coverage", xlabel="nominal", xlim=(0, 1), ylim=(0, 1.02))
    ax.legend(loc="upper left")


# ------------------------------------------------------------------------------------ the simulations


def normal_noise(std: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], Any]:
    """Return Gaussian noise whose standard deviation depends on x."""
    return lambda x: stats.norm(0.0, std(x))


def skewed_noise(std: Callable, skew: Callable) -> Callable[[np.ndarray], Any]:
    """Return noise of mean 0 with this standard deviation and skewness (Pearson's third kind)."""
    return lambda x: stats.pearson3(skew(x), 0.0, std(x))


def rises_and_falls(x: np.ndarray) -> np.ndarray:
    """Return a standard deviation that is largest at 0.7."""
    return np.where(x < 0.7, 0.1 + 0.6 * x, 0.52 - 1.2 * (x - 0.7))


def wave(x: np.ndarray) -> np.ndarray:
    """Return a standard deviation that is large around 0.35."""
    return 0.12 + 0.35 * np.exp(-(((x - 0.35) / 0.15) ** 2))


def two_arms(x: np.ndarray) -> np.ndarray:
    """Return a standard deviation that is smallest in the middle."""
    return 0.08 + 0.6 * np.abs(x - 0.5)


# name of the file: simulation, recalibrators by their name in the legend, right-hand panel
PICTURES = {
    "std-scaling": (
        Simulation(normal_noise(lambda x: 0.15 + 0.6 * x), lambda x: 0.05 + 0.5 * x),
        {"after": StdScalingRecalibrator()},
        draw_coverage,
    ),
    "binned-scaling": (
        Simulation(normal_noise(lambda x: np.where(x < 0.5, 0.7, 1.3) * (0.2 + 0.7 * two_arms(x))), two_arms),
        {"after": BinnedScalingRecalibrator()},
        draw_coverage,
    ),
    "variance-isotonic": (
        Simulation(normal_noise(rises_and_falls), lambda x: 0.12 + 0.2 * x),
        {"after": VarianceIsotonicRecalibrator()},
        draw_coverage,
    ),
    "isotonic": (
        Simulation(skewed_noise(lambda x: 0.2 + 0.2 * x, flat(1.2)), flat(0.2), flat(0.15)),
        {"after": IsotonicRecalibrator()},
        draw_misses,
    ),
    "shrunk-isotonic": (
        Simulation(
            normal_noise(lambda x: np.where(x < 0.5, 0.06, 0.4)), lambda x: np.where(x < 0.5, 0.03, 0.4)
        ),
        {"after": ShrunkIsotonicRecalibrator(), "not shrunk": IsotonicRecalibrator(smooth=True)},
        draw_coverage,
    ),
    "online": (
        Simulation(
            normal_noise(lambda x: np.select([x < 0.4, x < 0.7], [0.12, 0.36], 0.18)),
            flat(0.2),
        ),
        {"after": OnlineRecalibrator(window=300)},
        draw_coverage,
    ),
    "isotonic-distributional": (
        Simulation(
            skewed_noise(lambda x: 0.1 + 0.25 * x, lambda x: np.where(x < 0.6, 1.2, -1.2)),
            flat(0.15),
            flat(0.1),
        ),
        {"after": IsotonicDistributionalRecalibrator()},
        draw_misses,
    ),
    "empirical": (
        Simulation(
            skewed_noise(lambda x: 0.1 + 0.4 * x, lambda x: np.where(x < 0.6, 1.2, -1.2)),
            lambda x: 0.06 + 0.24 * x,
            lambda x: -0.5 * (0.1 + 0.4 * x),
        ),
        {"after": EmpiricalRecalibrator()},
        draw_misses,
    ),
    "quantile-shift": (
        Simulation(skewed_noise(lambda x: 0.2 + 0.3 * x, flat(1.2)), lambda x: 0.05 + 0.3 * x),
        {"after": QuantileShiftRecalibrator()},
        draw_misses,
    ),
    "conformal": (
        Simulation(normal_noise(lambda x: np.where(x < 0.5, 0.15, 0.45)), flat(0.15)),
        {
            "after": ConformalRecalibrator(),
            "by group": ConformalRecalibrator(group_by=lambda dist: dist.mean() < 0.5),
        },
        draw_coverage,
    ),
    "operating-point": (
        Simulation(lambda x: stats.t(2.0, 0.0, 0.1 + 0.15 * x), lambda x: 0.1 + 0.15 * x),
        {"after": OperatingPointRecalibrator(miss_rate=0.1)},
        draw_levels,
    ),
    "gp-normal": (
        Simulation(normal_noise(wave), flat(0.2), lambda x: np.where(x > 0.75, 0.2, 0.0)),
        {"after": GPNormalRecalibrator()},
        draw_misses,
    ),
    "gp-beta": (
        Simulation(skewed_noise(wave, flat(1.0)), flat(0.2), lambda x: np.where(x > 0.75, 0.2, 0.0)),
        {"after": GPBetaRecalibrator()},
        draw_misses,
    ),
    "gp-cauchy": (
        Simulation(lambda x: stats.t(np.where(x < 0.5, 1.0, 100.0), 0.0, 0.05 + 0.1 * x), flat(0.1)),
        {"after": GPCauchyRecalibrator()},
        draw_coverage,
    ),
}


def observe(
    recalibrator: OnlineRecalibrator, simulation: Simulation, x: np.ndarray, y: np.ndarray
) -> Distribution:
    """Return the forecasts on the grid, each recalibrated after the rows to its left are observed."""
    order = np.argsort(x)
    x, y = x[order], y[order]
    dist, ends = simulation.forecast(x), np.maximum(np.searchsorted(x, GRID), np.searchsorted(x, 0.1))
    recalibrator.fit(dist[: ends[0]], y[: ends[0]])
    parts, done = [], ends[0]
    for end, point in zip(ends, GRID, strict=True):
        if end > done:
            recalibrator.partial_fit(dist[done:end], y[done:end])
            done = end
        parts.append(recalibrator.transform(simulation.forecast(np.array([point]))))
    return concat(parts)


def draw(name: str) -> Figure:
    """Return one of the pictures."""
    simulation, recalibrators, draw_right = PICTURES[name]
    rng = np.random.default_rng(0)
    x, y = simulation.draw(N_ROWS, rng)
    forecast = simulation.forecast(GRID)
    dists = {"before": forecast}
    for label, recalibrator in recalibrators.items():
        if isinstance(recalibrator, OnlineRecalibrator):
            dists[label] = observe(recalibrator, simulation, x, y)
        else:
            dists[label] = recalibrator.fit(simulation.forecast(x), y).transform(forecast)
    figure = Figure(figsize=(8.6, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_bands(left, simulation, (x[:400], y[:400]), dists)
    draw_right(right, simulation, dists)
    return figure


def write_figures(app: Any, figures: dict[str, Callable[[], Figure]]) -> None:
    """Write figures for the pages of docs/explanation, by the name of the file."""
    folder = Path(app.srcdir) / "explanation" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in figures.items():
        with mpl.rc_context(STYLE):
            make().savefig(folder / f"{name}.svg", metadata={"Date": None}, facecolor="white")


def write_pictures(app: Any) -> None:
    """Write the plots of docs/explanation/recalibrator-examples.rst."""
    write_figures(app, {name: partial(draw, name) for name in PICTURES})
