"""The page: its template, its files and its figures."""

from __future__ import annotations

import base64
import hashlib
import io
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pandas as pd

from skuq._compat import __version__
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
from skuq.evaluation._report_table import UncertaintyReport, percent
from skuq.monitoring import ClassMetricAccumulator
from skuq.report._measure import Accumulator, Diagnostics, Forecasts, Parts, is_low
from skuq.report._wording import (
    is_of_periods,
    legend_names,
    of_all_models,
    part_format,
    part_label,
    plain_words,
    read_calibration,
    read_classes,
    read_few_quantiles,
    read_intervals,
    read_parts,
    read_pit,
    read_reliability,
    read_sharpness,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_together(texts: Mapping[Path, str]) -> None:
    """Write files under other names, and rename them after all of them are complete."""
    written = {path: path.with_name(f".{path.name}.{uuid4().hex}") for path in texts}
    try:
        for path, text in texts.items():
            written[path].write_text(text, encoding="utf-8", newline="\n")
        for path, part in written.items():
            part.replace(path)
    finally:
        for part in written.values():
            part.unlink(missing_ok=True)


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
        Reading of the plot for each model, or the reason why the plot is missing.
    alt : str
        Title and axes, for readers who do not see the plot.
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


def draw(title: str, plot: Draw) -> Figure:
    """Draw one figure. If the data do not allow the plot, the caption states the reason."""
    with _fixed_settings():
        from matplotlib.figure import Figure as MplFigure

        figure = MplFigure(figsize=SIZE, layout="constrained")
        try:
            axes = figure.subplots()
            caption = plot(axes)
        except ValueError as error:
            reason = str(error).split(". ")[0].rstrip(".")
            return Figure(title, f"Not drawn: {reason}.")
        axes.set_xlabel(plain_words(axes.get_xlabel()))
        alt = f"{title}. Horizontal axis: {axes.get_xlabel()}. Vertical axis: {axes.get_ylabel()}."
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        svg = buffer.getvalue()
    return Figure(title, caption, alt, svg[svg.index("<svg") :])


@dataclass(frozen=True)
class Plot:
    """Display that draws all models on the same axes, and its reading."""

    title: str
    display: Any
    read: Callable[[Any], str]
    curve: str = ""

    def draw(
        self, calls: Mapping[str, Callable[..., Any]], diagnostics: Mapping[str, Diagnostics]
    ) -> list[Figure]:
        """Draw the models. The page does not read curves of few quantiles."""
        names = legend_names(calls)

        def plot(ax: Axes) -> str:
            texts = {}
            for name, call in calls.items():
                display, known = call(name=names[name], ax=ax), diagnostics[name]
                few = self.curve and known.kind == "few quantiles"
                texts[name] = read_few_quantiles(known.levels or ()) if few else self.read(display)
            return of_all_models(texts)

        return [draw(self.title, plot)] if calls else []


def figures_of(forecasts: Forecasts, diagnostics: Mapping[str, Diagnostics]) -> list[Figure]:
    """Return the figures of the forecasts of one or several models."""
    shown = dict(list(forecasts.models.items())[:MOST_CURVES])
    plots, options = PLOTS, {"sample_weight": forecasts.weight}
    curves = {name: each for name, each in shown.items() if isinstance(each, Distribution)}
    if forecasts.of_classes:
        plots, options["labels"] = (CLASSES,), forecasts.labels
        curves = {name: each for name, each in shown.items() if each.dtype != np.bool_}
    figures = []
    for plot in plots:
        make = plot.display.from_predictions
        calls = {name: partial(make, forecasts.y, each, **options) for name, each in curves.items()}
        figures += plot.draw(calls, diagnostics)
    given = [name for name in shown if diagnostics[name].gives_intervals(forecasts.coverage)]
    return figures + [_intervals(forecasts, name) for name in given if not forecasts.of_classes]


def figures_of_accumulators(
    models: Mapping[str, Accumulator], diagnostics: Mapping[str, Diagnostics]
) -> list[Figure]:
    """Return the figures of accumulated rows."""
    shown = dict(list(models.items())[:MOST_CURVES])
    of_classes = any(isinstance(each, ClassMetricAccumulator) for each in shown.values())
    figures = []
    for plot in (CLASSES,) if of_classes else PLOTS:
        calls = {
            name: partial(plot.display.from_accumulator, each)
            for name, each in shown.items()
            if isinstance(each, ClassMetricAccumulator) or plot.curve in each.curves
        }
        figures += plot.draw(calls, diagnostics)
    return figures


def _intervals(forecasts: Forecasts, name: str) -> Figure:
    def plot(ax: Axes) -> str:
        display = IntervalDisplay.from_predictions(
            forecasts.y,
            forecasts.models[name],
            coverage=forecasts.coverage,
            sample_weight=forecasts.weight,
            target_name="Observed value",
            ax=ax,
        )
        share, may_cover_more = display.observed_coverage_, forecasts.may_cover_more(name)
        return read_intervals(share, forecasts.coverage, forecasts.total, may_cover_more=may_cover_more)

    of_model = f" of {name}" if len(forecasts.models) > 1 else ""
    return draw(f"Intervals of individual rows{of_model}", plot)


def figures_of_parts(slices: Parts) -> list[Figure]:
    """Return the figures of the coverage of each part of the rows."""
    return [_coverage_of_parts(by, tables) for by, tables in slices.items() if tables]


def _coverage_of_parts(by: str, tables: Mapping[str, pd.DataFrame]) -> Figure:
    # The expected coverage of class probabilities differs from nominal, and between models.
    coverage = float(np.mean([np.average(each["nominal"], weights=each["n"]) for each in tables.values()]))
    shown = dict(list(tables.items())[:MOST_CURVES])
    names = legend_names(shown)

    def plot(ax: Axes) -> str:
        for name, table in shown.items():
            # A line between groups would suggest an order.
            style = {"linestyle": "none"} if table.index.dtype == object else None
            CalibrationDriftDisplay(table=table, coverage=coverage).plot(
                ax, name=names[name] if len(tables) > 1 else None, line_kwargs=style
            )
        ax.set(xlabel=by, ylabel="Coverage (%)")
        return of_all_models({name: read_parts(table) for name, table in shown.items()})

    return draw(f"Coverage by {by}", plot)


PLOTS: tuple[Plot, ...] = (
    Plot("Calibration curve", CalibrationCurveDisplay, read_calibration, "calibration"),
    Plot("PIT histogram", PITHistogramDisplay, read_pit, "calibration"),
    Plot("Reliability diagram", ReliabilityDisplay, read_reliability, "reliability"),
    Plot("Sharpness", SharpnessDisplay, read_sharpness),
)
CLASSES = Plot("Reliability diagram of the most probable class", ClassReliabilityDisplay, read_classes)


HEADLINES = ("picp", "mpiw", "mace", "crps", "interval_score", "auucc_gain")
CLASS_HEADLINES = ("ece", "set_coverage", "set_size", "set_coverage_error", "class_log_loss", "class_brier")
"""Metrics of the table that is always open."""


def check_jinja2(caller: str) -> None:
    """Raise an ImportError with the command for an installation if Jinja2 is missing."""
    try:
        import jinja2  # noqa: F401 - only its presence is checked
    except ImportError as error:
        raise ImportError(f'{caller} needs Jinja2: run `pip install "skuq[report]"`.') from error


def models_of(report: UncertaintyReport) -> dict[str, pd.DataFrame]:
    """Return the table of each model, indexed by metric, with the words of the page."""
    plain = report.assign(reading=report["reading"].map(plain_words))
    names = list(report.attrs["summary"])
    if report.index.nlevels == 1:
        return {names[0]: pd.DataFrame(plain)}
    return {name: pd.DataFrame(plain.xs(name, level="model")) for name in names}


def render(
    report: UncertaintyReport, models: Mapping[str, pd.DataFrame], slices: Parts, **content: Any
) -> str:
    """Return the page. Its template reads the other arguments."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    script = _resource("sort.js")
    return environment.from_string(_resource("page.html.jinja")).render(
        content,
        version=__version__,
        named=len(models) > 1,
        rows=f"{report.attrs['rows']:.12g}",
        confidence=percent(report.attrs["confidence"]),
        outside=percent(1 - report.attrs["confidence"]),
        has_range=bool(report["calibrated_low"].notna().any()),
        tables=_metric_tables(report, models),
        slices=_slice_tables(slices, named=len(models) > 1),
        figure_size=[round(96 * side) for side in SIZE],
        script=script,
        # The content security policy of the page allows only this script.
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


@cache
def _resource(name: str) -> str:
    return files("skuq.report").joinpath(name).read_text(encoding="utf-8")


def _metric_tables(report: UncertaintyReport, models: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    tables = []
    confidence = percent(report.attrs["confidence"])
    frames = {name: report._one_model(table) for name, table in models.items()}
    if len(models) > 1:
        values = {name: table["value"] for name, table in models.items()}
        frame = report._side_by_side(spans=False)
        tables.append(_metric_table(report, "Models side by side", frame, values))
    for name, frame in frames.items():
        numbers = {
            "Value": models[name]["value"],
            f"{confidence} interval": models[name]["low"],
            "Calibrated": models[name]["calibrated"],
            f"{confidence} of calibrated": models[name]["calibrated_low"],
        }
        caption = "Metrics" if len(models) == 1 else f"Metrics of {name}"
        tables.append(_metric_table(report, caption, frame, numbers))
    return tables


def _metric_table(
    report: UncertaintyReport, caption: str, frame: pd.DataFrame, numbers: Mapping[str, pd.Series[float]]
) -> dict[str, Any]:
    """Divide a table into the rows of the most important metrics and all other rows."""
    definitions = {name: plain_words(text) for name, text in report.attrs["definitions"].items()}
    chosen = [metric for metric in HEADLINES + CLASS_HEADLINES if metric in frame.index]
    rest = [metric for metric in frame.index if metric not in chosen]
    chosen, rest = (chosen, rest) if chosen else (rest, [])
    table = _table(caption, frame.loc[chosen], numbers, definitions)
    return table | {"rest": _table(caption, frame.loc[rest], numbers, definitions)["rows"]}


def _slice_tables(slices: Parts, *, named: bool) -> list[dict[str, Any]]:
    tables = []
    for by, models in slices.items():
        for name, table in models.items():
            form = part_format(table)
            wrong = np.where(is_low(table), "too low", "too high")
            frame = pd.DataFrame(
                {
                    f"{by}, from" if is_of_periods(table) else by: [
                        part_label(each, table) for each in table.index
                    ],
                    "Rows": [f"{n:.12g}" for n in table["n"]],
                    "Coverage": [form(share) for share in table["coverage"]],
                    "99 % interval": [
                        form.span(*ends) for ends in zip(table["low"], table["high"], strict=True)
                    ],
                    "Expected": [form(share) for share in table["nominal"]],
                    "Result": np.where(table["flag"], wrong, "no fault found"),
                },
                index=table.index,
            )
            numbers = {"Rows": table["n"], "Coverage": table["coverage"]}
            numbers |= {"99 % interval": table["low"], "Expected": table["nominal"]}
            tables.append(_table(f"Coverage by {by}" + (f", {name}" if named else ""), frame, numbers))
    return tables


def _table(
    caption: str,
    frame: pd.DataFrame,
    numbers: Mapping[str, pd.Series[float]],
    notes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the cells of a table of texts. The page sorts the columns in `numbers` by these numbers."""
    rows: list[list[dict[str, Any]]] = []
    for label, texts in zip(frame.index, frame.to_dict("records"), strict=True):
        cells = []
        for column, text in texts.items():
            value = float(numbers[str(column)].get(label, math.nan)) if column in numbers else None
            cells.append({"text": text, "note": "", "value": value})
        cells[0]["note"] = (notes or {}).get(str(label), "")
        rows.append(cells)
    return {"caption": caption, "columns": list(frame.columns), "rows": rows}


def plain_values(value: Any) -> Any:
    """Return plain Python objects. NaN becomes None, and infinity a text."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
