"""Displays of a report as SVG, drawn with fixed settings so that equal data give equal bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skuq.displays import (
    CalibrationCurveDisplay,
    CalibrationDriftDisplay,
    ClassReliabilityDisplay,
    IntervalDisplay,
    PITHistogramDisplay,
    ReliabilityDisplay,
    SharpnessDisplay,
)
from skuq.displays._drawing import check_matplotlib
from skuq.distributions import Distribution
from skuq.monitoring import ClassMetricAccumulator
from skuq.report._advice import plain_words
from skuq.report._measure import Accumulator, Forecasts, sides

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CURVES = 6
"""Number of models in one figure. The colors of the displays distinguish this number of curves."""

SIZE = (6.4, 4.8)
"""Width and height of all figures, in inches."""

Draw = Callable[["Axes"], str]


@dataclass(frozen=True)
class Figure:
    """One figure of a report.

    Parameters
    ----------
    title : str
        Name of the plot.
    caption : str
        Explanation of the plot, or the reason why it is missing.
    alt : str
        Description of the plot for readers who do not see it.
    svg : str
        The plot as SVG; empty if it cannot be drawn.
    """

    title: str
    caption: str
    alt: str = ""
    svg: str = ""

    @property
    def source(self) -> str:
        """The SVG as a data URI, which needs no request."""
        data = base64.b64encode(self.svg.encode()).decode()
        return f"data:image/svg+xml;base64,{data}" if self.svg else ""


@contextmanager
def _fixed_settings() -> Iterator[None]:
    check_matplotlib("HTMLReport")
    import matplotlib as mpl
    import matplotlib.style

    # Names of models are text, not formulas.
    fixed: Any = {"svg.hashsalt": "skuq", "svg.fonttype": "path", "text.parse_math": False}
    fixed["savefig.transparent"] = True
    with matplotlib.style.context("default"), mpl.rc_context(fixed):
        yield


def draw(title: str, caption: str, plot: Draw) -> Figure:
    """Draw one figure. If the data do not allow the plot, the caption states the reason."""
    with _fixed_settings():
        from matplotlib.figure import Figure as MplFigure

        figure = MplFigure(figsize=SIZE, layout="constrained")
        try:
            axes = figure.subplots()
            alt = plot(axes)
            axes.set_xlabel(plain_words(axes.get_xlabel()))
        except ValueError as error:
            reason = str(error).split(". ")[0].rstrip(".")
            return Figure(title, f"Not drawn: {reason}.")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        svg = buffer.getvalue()
    return Figure(title, caption, f"{title}. {alt}", svg[svg.index("<svg") :])


@dataclass(frozen=True)
class Plot:
    """Display that draws all models on the same axes."""

    title: str
    caption: str
    display: Any
    alt: Callable[[Any], str]
    curve: str = ""

    def of_predictions(
        self, forecasts: Forecasts, models: Mapping[str, Any], options: Mapping[str, Any]
    ) -> list[Figure]:
        rows = {"sample_weight": forecasts.weight, **options}
        return self._draw(
            {
                name: partial(self.display.from_predictions, forecasts.y, each, **rows)
                for name, each in models.items()
            }
        )

    def of_accumulators(self, models: Mapping[str, Accumulator]) -> list[Figure]:
        return self._draw(
            {
                name: partial(self.display.from_accumulator, each)
                for name, each in models.items()
                if isinstance(each, ClassMetricAccumulator) or self.curve in each.curves
            }
        )

    def _draw(self, calls: Mapping[str, Callable[..., Any]]) -> list[Figure]:
        def plot(ax: Axes) -> str:
            return _texts({name: self.alt(call(name=name, ax=ax)) for name, call in calls.items()})

        return [draw(self.title, self.caption, plot)] if calls else []


def figures_of(forecasts: Forecasts) -> list[Figure]:
    """Return the figures of the forecasts of one or several models."""
    shown = dict(list(forecasts.models.items())[:MOST_CURVES])
    if forecasts.of_classes:
        proba = {name: each for name, each in shown.items() if each.dtype != np.bool_}
        return CLASSES.of_predictions(forecasts, proba, {"labels": forecasts.labels})
    dists = {name: each for name, each in shown.items() if isinstance(each, Distribution)}
    curves = [figure for plot in PLOTS for figure in plot.of_predictions(forecasts, dists, {})]
    return curves + [_intervals(forecasts, name) for name in shown]


def figures_of_accumulators(models: Mapping[str, Accumulator]) -> list[Figure]:
    """Return the figures of accumulated rows."""
    shown = dict(list(models.items())[:MOST_CURVES])
    if any(isinstance(each, ClassMetricAccumulator) for each in shown.values()):
        return CLASSES.of_accumulators(shown)
    return [figure for plot in PLOTS if plot.curve for figure in plot.of_accumulators(shown)]


def _texts(texts: Mapping[str, str]) -> str:
    """Return the descriptions of all models. The name of a single model is left out."""
    named = len(texts) > 1
    return " ".join(f"{name}: {text}" if named else text for name, text in texts.items())


def _intervals(forecasts: Forecasts, name: str) -> Figure:
    def plot(ax: Axes) -> str:
        display = IntervalDisplay.from_predictions(
            forecasts.y,
            forecasts.models[name],
            coverage=forecasts.coverage,
            sample_weight=forecasts.weight,
            ax=ax,
        )
        ax.set_ylabel("Observed value")
        share = 100 * display.observed_coverage_
        return (
            f"{share:.1f} % of {len(forecasts.y)} rows lie in their interval; {len(display.rows_)} are drawn."
        )

    of_model = f" of {name}" if len(forecasts.models) > 1 else ""
    caption = "Red intervals do not contain their observed value."
    return draw(f"Intervals of individual rows{of_model}", caption, plot)


def figure_of_parts(by: str, tables: Mapping[str, pd.DataFrame], of_classes: bool) -> Figure:
    """Return the figure of the coverage of each part of the rows."""
    # The expected coverage of class probabilities differs from nominal, and between models.
    coverage = float(np.mean([np.average(each["nominal"], weights=each["n"]) for each in tables.values()]))

    def plot(ax: Axes) -> str:
        words = {}
        for name, table in list(tables.items())[:MOST_CURVES]:
            # A line between groups would suggest an order.
            style = {"linestyle": "none"} if table.index.dtype == object else None
            CalibrationDriftDisplay(table=table, coverage=coverage).plot(
                ax, name=name if len(tables) > 1 else None, line_kwargs=style
            )
            ends = 100 * table["coverage"].min(), 100 * table["coverage"].max()
            words[name] = f"The coverage is {ends[0]:.1f} % to {ends[1]:.1f} % in {len(table)} parts."
        ax.set(xlabel=by, ylabel="Coverage (%)")
        return _texts(words)

    low, high = sides(of_classes)
    what = "probabilities" if of_classes else "intervals"
    caption = f"Red points below the line: {what} {low}; above the line: {high}."
    return draw(f"Coverage by {by}", caption, plot)


def _alt_calibration(display: CalibrationCurveDisplay) -> str:
    gaps = np.asarray(display.proportions) - display.levels
    gap = gaps[np.argmax(np.abs(gaps))]
    side = "above" if gap > 0 else "below"
    return f"The curve is up to {100 * abs(gap):.1f} percentage points {side} the diagonal."


def _alt_pit(display: PITHistogramDisplay) -> str:
    low, high = 100 * display.proportions.min(), 100 * display.proportions.max()
    flat = 100 / len(display.proportions)
    return (
        f"The bars contain {low:.1f} % to {high:.1f} % of the rows; calibrated bars would contain "
        f"{flat:.1f} %."
    )


def _alt_reliability(display: ReliabilityDisplay) -> str:
    table: Any = display.table
    ratio = table["rmse"] / table["rmv"]
    return f"Errors are {ratio.min():.2f} to {ratio.max():.2f} times the predicted standard deviation."


def _alt_sharpness(display: SharpnessDisplay) -> str:
    return f"The mean predicted standard deviation is {display.value:.3g}."


def _alt_classes(display: ClassReliabilityDisplay) -> str:
    table: Any = display.table
    gap = 100 * (table["observed"] - table["predicted"]).abs().max()
    return f"Frequencies differ from predicted probabilities by up to {gap:.1f} percentage points."


PLOTS = (
    Plot(
        "Calibration curve",
        "The curve of a calibrated model follows the diagonal and stays in the gray band.",
        CalibrationCurveDisplay,
        _alt_calibration,
        "calibration",
    ),
    Plot(
        "PIT histogram",
        "All bars of a calibrated model have the same height. High bars at both ends mean intervals that are "
        "too narrow; high bars in the middle mean intervals that are too wide.",
        PITHistogramDisplay,
        _alt_pit,
        "calibration",
    ),
    Plot(
        "Reliability diagram",
        "Points above the diagonal mean that errors are larger than predicted; points below the diagonal "
        "mean that errors are smaller.",
        ReliabilityDisplay,
        _alt_reliability,
        "reliability",
    ),
    Plot(
        "Sharpness",
        "Predicted standard deviations. Of two calibrated models, prefer the model with smaller ones.",
        SharpnessDisplay,
        _alt_sharpness,
    ),
)

CLASSES = Plot(
    "Reliability diagram of the most probable class",
    "Points below the diagonal mean that the class is observed less often than predicted.",
    ClassReliabilityDisplay,
    _alt_classes,
)
