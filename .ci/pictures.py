"""Draw every public display as users see it: ``python .ci/pictures.py FOLDER [PART]``.

FOLDER gets one sheet for each display. Its rows are 50 and 100 000 rows of data. Its columns are one
forecast, five forecasts with long names, the five in the dark style of matplotlib, and the five printed in
gray. Displays of one forecast draw two panels instead. With PART, only displays with this text in their name
are drawn. Look at the sheets before and after a change of a display.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from PIL import Image
from scipy import stats

import skuq.displays
import skuq.multivariate
import skuq.survival
from skuq.distributions import Normal, ScipyDistribution
from skuq.monitoring import MetricAccumulator
from skuq.regressors import LeastSquaresRegressor
from skuq.simulation import make_known_process, simulate_coverage

FEW, MANY = 50, 100_000
SLOW = {"AdversarialGroupCalibrationDisplay", "QuantileReliabilityDisplay", "ScoreDecompositionDisplay"}
"""Displays that resample rows. They are drawn with a tenth of the rows."""

FACTORS = (1.0, 0.5, 0.75, 1.5, 2.5)
"""Factors of the standard deviation of the five forecasts."""

NAMES = [f"UncertaintyRegressor(HistGradientBoostingRegressor), spread x {factor}" for factor in FACTORS]


def displays() -> dict[str, Any]:
    """Return all public displays by their names."""
    rooms = (skuq.displays, skuq.survival, skuq.multivariate)
    return {name: getattr(room, name) for room in rooms for name in room.__all__ if name.endswith("Display")}


def drawn(name: str, display: Any, n: int, factor: float) -> Any:
    """Return the display of n rows, drawn. A display that is not named takes numbers and normal forecasts."""
    rng = np.random.default_rng(0)
    loc = rng.uniform(0.0, 10.0, size=n)
    std = 0.2 + 0.1 * loc
    y, dist = rng.normal(loc, std), Normal(loc, factor * std)
    draw: Callable[..., Any] = getattr(display, "from_predictions", None) or display
    match name:
        case "ClassReliabilityDisplay" | "PredictionSetDisplay":
            p = 1 / (1 + np.exp((5 - loc) / factor))
            return draw(rng.random(n) < 1 / (1 + np.exp(5 - loc)), np.column_stack([1 - p, p]))
        case "RootogramDisplay":
            mean = np.exp(loc / 5)
            return draw(rng.poisson(mean), ScipyDistribution(stats.poisson(factor * mean)))
        case "RelativeEconomicValueDisplay":
            return draw(y, dist, threshold=5.0)
        case "MurphyDisplay":
            return draw(y, dist, functional="quantile", levels=0.9, reference=Normal(loc, 1.1 * std))
        case "SurvivalCurveDisplay":
            return draw(np.abs(y), dist, event=loc < 9)
        case "ScoreDecompositionDisplay":
            models = zip(NAMES, FACTORS, strict=True)
            return draw(y, {name: Normal(loc, f * std) for name, f in models if factor < 1 or f == 1})
        case "JointPairDisplay" | "JointRankHistogramDisplay":
            pairs = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=n)
            return draw(pairs, skuq.multivariate.NormalJoint(np.zeros((n, 2)), factor * np.eye(2)))
        case "CalibrationDriftDisplay":
            rows = np.array_split(np.arange(n), min(12, n // 10))
            made = [MetricAccumulator().update(y[each], dist[each]) for each in rows]
            return display.from_periods({f"Delivery {k} of 2026": each for k, each in enumerate(made)})
        case "ShiftCurveDisplay":
            mean = 0.9 / factor**0.3 - 0.05 * np.arange(6)
            folds = mean[:, np.newaxis] + rng.normal(size=(6, 5)) / np.sqrt(n)
            return display.from_scores({"picp": folds}, np.arange(6), ref_line=0.9)
        case "PointwiseCoverageDisplay":
            process = make_known_process("cubic-heteroscedastic", n_train=50, n_test=min(n, 1000))
            model, seed = LeastSquaresRegressor(), int(10 * factor)
            return display.from_result(simulate_coverage(model, process, n_simulations=20, random_state=seed))
        case "MetricAgreementDisplay":
            spread = np.linspace(0.2, 3, 8 if factor == 1 else 14)
            table = rng.normal(size=(50, 1)) + spread * rng.normal(size=(50, spread.size))
            names = [f"interval_score_{k}" for k in range(spread.size)]
            table = pd.DataFrame(table, columns=names)
            return display.from_reports(table, directions="lower", n_resamples=100)
        case _:
            return draw(y, dist)


def picture(displays: list[Any], size: tuple[float, float]) -> Image.Image:
    """Return the picture of displays on the same axes, or in two panels if they cannot share axes."""
    if "ax=display.ax_" in (type(displays[0]).__doc__ or "") or len(displays) == 1:
        ax = None
        for name, display in zip(NAMES if len(displays) > 1 else ["model"], displays, strict=True):
            ax = display.plot(ax, name=name).ax_
        figure = displays[0].figure_
    else:
        figure, axes = plt.subplots(1, 2, figsize=(1.8 * size[0], size[1]), layout="constrained")
        for name, display, ax in zip(NAMES[:2], displays[:2], axes, strict=True):
            display.plot(ax, name=name)
    file = BytesIO()
    figure.savefig(file, dpi=80)
    plt.close("all")
    return Image.open(file).convert("RGB")


def sheet(name: str, display: Any) -> Image.Image:
    """Return all pictures of the display."""
    rows = []
    for n in (FEW, MANY // 10 if name in SLOW else MANY):
        five = [drawn(name, display, n, factor) for factor in FACTORS]
        size = five[0].figure_.get_size_inches()
        row = [picture(five[:1], size), picture(five, size)]
        with plt.style.context("dark_background"):
            row.append(picture(five, size))
        rows.append([*row, row[1].convert("L").convert("RGB")])
    left = np.cumsum([0, *(max(each.width for each in column) for column in zip(*rows, strict=True))])
    top = np.cumsum([0, *(max(each.height for each in row) for row in rows)])
    whole = Image.new("RGB", (left[-1], top[-1]), "white")
    for row, y in zip(rows, top[:-1], strict=True):
        for each, x in zip(row, left[:-1], strict=True):
            whole.paste(each, (x, y))
    return whole


def chosen(cases: Mapping[str, Any], description: str) -> Iterator[tuple[Path, Any]]:
    """Yield the path without suffix and the value of each case that the command line selects."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("part", nargs="?", default="", help="text in the names of the cases")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # Few rows are one of the cases.
    for name, case in cases.items():
        if options.part in name:
            yield (options.folder / name).resolve(), case


def main() -> None:
    """Write the sheets."""
    mpl.use("Agg")
    for path, display in chosen(displays(), __doc__):
        sheet(path.name, display).save(path.with_suffix(".png"))


if __name__ == "__main__":
    main()
