"""Displays of a report as SVG, drawn with fixed settings so that equal data give equal bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skuq.displays._calibration_curve import CalibrationCurveDisplay
from skuq.displays._calibration_drift import CalibrationDriftDisplay
from skuq.displays._class_reliability import ClassReliabilityDisplay
from skuq.displays._drawing import check_matplotlib
from skuq.displays._html_report.measure import Forecasts
from skuq.displays._interval import IntervalDisplay
from skuq.displays._pit_histogram import PITHistogramDisplay
from skuq.displays._reliability import ReliabilityDisplay
from skuq.displays._sharpness import SharpnessDisplay
from skuq.distributions import Distribution
from skuq.monitoring import MetricAccumulator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CURVES = 6
"""Number of models in one figure. The colors of the displays distinguish this number of curves."""

WIDE, SQUARE = (6.4, 4.0), (5.2, 5.2)

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
    size : (float, float)
        Width and height in inches.
    """

    title: str
    caption: str
    alt: str = ""
    svg: str = ""
    size: tuple[float, float] = WIDE

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

    fixed: Any = {"svg.hashsalt": "skuq", "svg.fonttype": "path", "savefig.transparent": True}
    with matplotlib.style.context("default"), mpl.rc_context(fixed):
        yield


def draw(title: str, caption: str, size: tuple[float, float], plot: Draw) -> Figure:
    """Draw one figure. If the data do not allow the plot, the caption states the reason."""
    with _fixed_settings():
        from matplotlib.figure import Figure as MplFigure

        figure = MplFigure(figsize=size, layout="constrained")
        try:
            alt = plot(figure.subplots())
        except ValueError as error:
            reason = str(error).split(". ")[0].rstrip(".")
            return Figure(title, f"Not drawn: {reason}.")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        svg = buffer.getvalue()
    return Figure(title, caption, f"{title}. {alt}", svg[svg.index("<svg") :], size)


CALIBRATION = (
    "Calibration curve",
    "The curve of a calibrated model follows the diagonal and stays in the gray band.",
)
PIT = (
    "PIT histogram",
    "All bars of a calibrated model have the same height. High bars at both ends mean intervals that are too "
    "narrow; high bars in the middle mean intervals that are too wide.",
)
RELIABILITY = (
    "Reliability diagram",
    "Points above the diagonal mean that errors are larger than predicted; points below the diagonal mean "
    "that errors are smaller.",
)
SHARPNESS = (
    "Sharpness",
    "Predicted standard deviations. Of two calibrated models, prefer the model with smaller ones.",
)
INTERVALS = ("Intervals of single rows", "Red intervals do not contain their observed value.")
CLASSES = (
    "Reliability diagram of the most probable class",
    "Points below the diagonal mean that the class is observed less often than predicted.",
)


def figures_of(forecasts: Forecasts) -> list[Figure]:
    """Return the figures of the forecasts of one or several models."""
    shown = dict(list(forecasts.models.items())[:MOST_CURVES])
    y, weight = forecasts.y, forecasts.weight
    if forecasts.of_classes:
        proba = {name: each for name, each in shown.items() if each.dtype != np.bool_}
        options: dict[str, Any] = {"labels": forecasts.labels}
        return _curves(CLASSES, SQUARE, ClassReliabilityDisplay, _alt_classes, y, proba, weight, options)
    dists = {name: each for name, each in shown.items() if isinstance(each, Distribution)}
    found = []
    for kind, size, display, alt in (
        (CALIBRATION, SQUARE, CalibrationCurveDisplay, _alt_calibration),
        (PIT, WIDE, PITHistogramDisplay, _alt_pit),
        (RELIABILITY, SQUARE, ReliabilityDisplay, _alt_reliability),
        (SHARPNESS, WIDE, SharpnessDisplay, _alt_sharpness),
    ):
        found += _curves(kind, size, display, alt, y, dists, weight, {})
    return found + [_intervals(forecasts, name) for name in shown]


def figures_of_accumulators(models: Mapping[str, MetricAccumulator]) -> list[Figure]:
    """Return the figures of accumulated rows."""
    shown, found = dict(list(models.items())[:MOST_CURVES]), []
    for kind, size, display, alt, curve in (
        (CALIBRATION, SQUARE, CalibrationCurveDisplay, _alt_calibration, "calibration"),
        (PIT, WIDE, PITHistogramDisplay, _alt_pit, "calibration"),
        (RELIABILITY, SQUARE, ReliabilityDisplay, _alt_reliability, "reliability"),
    ):
        with_curve = {name: each for name, each in shown.items() if curve in each.curves}
        if with_curve:
            found.append(draw(*kind, size, _accumulated(display, alt, with_curve)))
    return found


def _accumulated(display: Any, alt: Callable[[Any], str], models: Mapping[str, MetricAccumulator]) -> Draw:
    def plot(ax: Axes) -> str:
        drawn = {
            name: display.from_accumulator(each, name=name, ax=ax, **_styles(display))
            for name, each in models.items()
        }
        return _texts(drawn, alt)

    return plot


def _curves(
    kind: tuple[str, str],
    size: tuple[float, float],
    display: Any,
    alt: Callable[[Any], str],
    y: np.ndarray,
    models: Mapping[str, Any],
    weight: Any,
    options: Mapping[str, Any],
) -> list[Figure]:
    def plot(ax: Axes) -> str:
        drawn = {
            name: display.from_predictions(
                y, each, sample_weight=weight, name=name, ax=ax, **options, **_styles(display)
            )
            for name, each in models.items()
        }
        return _texts(drawn, alt)

    return [draw(*kind, size, plot)] if models else []


def _styles(display: Any) -> dict[str, Any]:
    return {"bin_width": None} if display is SharpnessDisplay else {}


def _texts(drawn: Mapping[str, Any], alt: Callable[[Any], str]) -> str:
    if len(drawn) == 1:
        return "".join(alt(each) for each in drawn.values())
    return " ".join(f"{name}: {alt(each)}" for name, each in drawn.items())


def _intervals(forecasts: Forecasts, name: str) -> Figure:
    def plot(ax: Axes) -> str:
        display = IntervalDisplay.from_predictions(
            forecasts.y,
            forecasts.models[name],
            coverage=forecasts.coverage,
            sample_weight=forecasts.weight,
            ax=ax,
        )
        share = 100 * display.observed_coverage_
        return (
            f"{share:.1f} % of {len(forecasts.y)} rows lie in their interval; {len(display.rows_)} are drawn."
        )

    title, caption = INTERVALS
    return draw(title if len(forecasts.models) == 1 else f"{title} of {name}", caption, WIDE, plot)


def figure_of_parts(by: str, tables: Mapping[str, pd.DataFrame], coverage: float) -> Figure:
    """Return the figure of the coverage of each part of the rows."""

    def plot(ax: Axes) -> str:
        words = {}
        for name, table in list(tables.items())[:MOST_CURVES]:
            # A line between groups would suggest an order.
            style = {"linestyle": "none"} if table.index.dtype == object else None
            CalibrationDriftDisplay(table=table, coverage=coverage).plot(
                ax, name=name if len(tables) > 1 else None, line_kwargs=style
            )
            low, high = 100 * table["coverage"].min(), 100 * table["coverage"].max()
            words[name] = f"The coverage is {low:.1f} % to {high:.1f} % in {len(table)} parts."
        ax.set_xlabel(by)
        return _texts(words, str)

    caption = "Coverage with intervals that are valid for all parts together. Red points are wrong."
    return draw(f"Coverage by {by}", caption, WIDE, plot)


def _alt_calibration(display: CalibrationCurveDisplay) -> str:
    gaps = np.asarray(display.proportions) - display.levels
    gap = gaps[np.argmax(np.abs(gaps))]
    side = "above" if gap > 0 else "below"
    return f"The curve is up to {100 * abs(gap):.1f} percentage points {side} the diagonal."


def _alt_pit(display: PITHistogramDisplay) -> str:
    low, high = 100 * display.proportions.min(), 100 * display.proportions.max()
    flat = 100 / len(display.proportions)
    return f"The bars are {low:.1f} % to {high:.1f} % of the rows high; calibrated bars have {flat:.1f} %."


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
