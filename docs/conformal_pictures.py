"""Plots of the coverage of conformal prediction, drawn when the documentation is built.

conf.py calls `write_pictures`; docs/explanation/conformal.rst and conformal-methods.rst include them.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from recalibration_pictures import AFTER, BEFORE, COVERAGE, OTHER, TRUTH, write_figures
from scipy import stats
from sklearn.linear_model import LinearRegression, QuantileRegressor

from skuq.conformal import ConformalRecalibrator, ConformalRegressor
from skuq.distributions import Normal
from skuq.regressors import MultiQuantileRegressor, ResidualRegressor


def draw_sets() -> Figure:
    """Return a histogram of the coverage of many calibration sets, with its Beta distribution."""
    rng = np.random.default_rng(0)
    figure = Figure(figsize=(6.4, 2.9), layout="constrained")
    ax = figure.subplots()
    for n, style in ((99, BEFORE), (999, AFTER)):
        forecast = Normal(np.zeros(n), 1.0)
        fits = (ConformalRecalibrator().fit(forecast, rng.standard_normal(n)) for _ in range(2000))
        upper = np.array([fit.transform(forecast[:1]).interval(COVERAGE)[0, 1] for fit in fits])
        ax.hist(2 * stats.norm.cdf(upper) - 1, bins=40, density=True, color=style["color"], alpha=0.25)
        rank = np.ceil((n + 1) * COVERAGE)
        grid = np.linspace(0.78, 0.99, 400)
        ax.plot(grid, stats.beta.pdf(grid, rank, n + 1 - rank), label=f"{n} rows", **style)
    ax.axvline(COVERAGE, label="nominal", **TRUTH)
    ax.set(title="coverage of 2000 calibration sets", xlabel="coverage", xlim=(0.78, 0.99), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.legend(loc="upper left")
    return figure


def noise_at(x: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the noise."""
    return 0.1 * np.exp(2.5 * x)


def draw_methods() -> Figure:
    """Return the intervals of three methods with heteroscedastic noise, and their coverage by x."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 1))
    y = 3 * X[:, 0] + noise_at(X[:, 0]) * rng.standard_normal(4000)
    linear, levels = LinearRegression(), [0.05, 0.25, 0.5, 0.75, 0.95]
    quantiles = MultiQuantileRegressor(QuantileRegressor(alpha=0.0), levels=levels)
    models = {
        "split": (ConformalRegressor(linear, random_state=0), BEFORE),
        "normalized": (ConformalRegressor(ResidualRegressor(linear), "normalized", random_state=0), AFTER),
        "cqr": (ConformalRegressor(quantiles, "cqr", random_state=0), OTHER),
    }
    x = np.linspace(0, 1, 201)
    figure = Figure(figsize=(8.6, 5.4), layout="constrained")
    *axes, last = figure.subplots(2, 2, sharex=True).ravel()
    for ax, (name, (model, style)) in zip(axes, models.items(), strict=True):
        lower, upper = model.fit(X, y).predict_interval(x[:, np.newaxis], COVERAGE).T
        ax.plot(X[:500], y[:500], ".", color="0.72", markersize=2.5, zorder=0)
        ax.fill_between(x, lower, upper, color=style["color"], alpha=0.15, linewidth=0)
        for bound, sign in ((lower, -1), (upper, 1)):
            ax.plot(x, bound, **style)
            ax.plot(x, 3 * x + sign * 1.645 * noise_at(x), **TRUTH)
        ax.set(title=name, xlim=(0, 1), ylim=(-2, 6), ylabel="y")
        covered = np.diff(stats.norm.cdf((np.array([lower, upper]) - 3 * x) / noise_at(x)), axis=0)[0]
        last.plot(x, covered, label=f"{name}, average {covered.mean():.2f}", **style)
    last.axhline(COVERAGE, **TRUTH)
    last.set(title="coverage by x", ylim=(0, 1.02))
    last.legend(loc="lower left")
    for ax in (axes[-1], last):
        ax.set_xlabel("x")
    return figure


def write_pictures(app: Any) -> None:
    """Write the plots of the pages on conformal prediction."""
    write_figures(app, {"conformal-sets": draw_sets, "conformal-methods": draw_methods})
