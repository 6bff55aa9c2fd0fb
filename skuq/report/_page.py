"""The page: its template, its files and its figures."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from skuq.evaluation._report_table import RowFormat, UncertaintyReport, percent, standard_error, won_by
from skuq.monitoring import ClassMetricAccumulator
from skuq.report._advice import Finding
from skuq.report._measure import Accumulator, Forecasts, has_few_quantiles
from skuq.report._wording import (
    is_of_periods,
    legend_names,
    of_all_models,
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
    rounded,
    sides,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_together(texts: Mapping[Path, str]) -> None:
    """Write files under other names, and rename them after all of them are complete."""
    written: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            written[path] = Path(name)
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            mask = os.umask(0)
            os.umask(mask)
            written[path].chmod(0o666 & ~mask)
        for path, partial in written.items():
            partial.replace(path)
    finally:
        for partial in written.values():
            partial.unlink(missing_ok=True)


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

    def of_predictions(
        self, forecasts: Forecasts, models: Mapping[str, Any], options: Mapping[str, Any]
    ) -> list[Figure]:
        rows = {"sample_weight": forecasts.weight, **options}
        calls = {
            name: partial(self.display.from_predictions, forecasts.y, each, **rows)
            for name, each in models.items()
        }
        few = {name: read_few_quantiles(each) for name, each in models.items() if has_few_quantiles(each)}
        return self._draw(calls, few if self.curve else {})

    def of_accumulators(self, models: Mapping[str, Accumulator]) -> list[Figure]:
        return self._draw(
            {
                name: partial(self.display.from_accumulator, each)
                for name, each in models.items()
                if isinstance(each, ClassMetricAccumulator) or self.curve in each.curves
            },
            {},
        )

    def _draw(self, calls: Mapping[str, Callable[..., Any]], texts: Mapping[str, str]) -> list[Figure]:
        """Draw the models. Models without a text get the reading of their display."""
        names = legend_names(calls)

        def plot(ax: Axes) -> str:
            displays = {name: call(name=names[name], ax=ax) for name, call in calls.items()}
            return of_all_models(
                {name: texts.get(name) or self.read(display) for name, display in displays.items()}
            )

        return [draw(self.title, plot)] if calls else []


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
        return read_intervals(
            display.observed_coverage_,
            forecasts.coverage,
            forecasts.total,
            may_cover_more=forecasts.may_cover_more(name),
            drawn=len(display.rows_),
            rows=len(forecasts.y),
        )

    of_model = f" of {name}" if len(forecasts.models) > 1 else ""
    return draw(f"Intervals of individual rows{of_model}", plot)


def figure_of_parts(by: str, tables: Mapping[str, pd.DataFrame], of_classes: bool) -> Figure:
    """Return the figure of the coverage of each part of the rows."""
    # The expected coverage of class probabilities differs from nominal, and between models.
    coverage = float(np.mean([np.average(each["nominal"], weights=each["n"]) for each in tables.values()]))

    shown = dict(list(tables.items())[:MOST_CURVES])
    names = legend_names(shown)

    def plot(ax: Axes) -> str:
        words = {}
        for name, table in shown.items():
            # A line between groups would suggest an order.
            style = {"linestyle": "none"} if table.index.dtype == object else None
            CalibrationDriftDisplay(table=table, coverage=coverage).plot(
                ax, name=names[name] if len(tables) > 1 else None, line_kwargs=style
            )
            words[name] = read_parts(table, of_classes)
        ax.set(xlabel=by, ylabel="Coverage (%)")
        return of_all_models(words)

    return draw(f"Coverage by {by}", plot)


PLOTS = (
    Plot("Calibration curve", CalibrationCurveDisplay, read_calibration, "calibration"),
    Plot("PIT histogram", PITHistogramDisplay, read_pit, "calibration"),
    Plot("Reliability diagram", ReliabilityDisplay, read_reliability, "reliability"),
    Plot("Sharpness", SharpnessDisplay, read_sharpness),
)
CLASSES = Plot("Reliability diagram of the most probable class", ClassReliabilityDisplay, read_classes)


MARKS = {"wrong": "Wrong", "note": "Note", "good": "Good"}
NUMBERS = ("value", "low", "high", "calibrated", "calibrated_low", "calibrated_high")
HEADLINES = ("picp", "mpiw", "mace", "crps", "interval_score", "auucc_gain")
CLASS_HEADLINES = ("ece", "set_coverage", "set_size", "set_coverage_error", "class_log_loss", "class_brier")
REST = "The findings above are based on this table. You do not need to read it."
SLICES = (
    "The coverage is the share of observed values inside their interval, or of classes inside their set. The "
    "99 % intervals are valid for all parts together: with a probability of 99 %, they contain the coverage "
    "of the model in every part. The column Result names a fault if this interval excludes the expected "
    "coverage. For classes, the expected coverage is the mean predicted probability of the sets."
)


def check_jinja2(caller: str) -> None:
    """Raise an ImportError with the command for an installation if Jinja2 is missing."""
    try:
        import jinja2  # noqa: F401 - only its presence is checked
    except ImportError as error:
        raise ImportError(f'{caller} needs Jinja2: run `pip install "skuq[report]"`.') from error


def models_of(report: UncertaintyReport) -> dict[str, pd.DataFrame]:
    """Return the table of each model, indexed by metric."""
    if report.index.nlevels == 1:
        return {next(iter(report.attrs["summary"])): pd.DataFrame(report)}
    return {name: pd.DataFrame(report.xs(name, level="model")) for name in report.attrs["summary"]}


def render(
    *,
    title: str,
    created: str,
    report: UncertaintyReport,
    findings: Mapping[str, Sequence[Finding]],
    summaries: Mapping[str, str],
    slices: Mapping[str, Mapping[str, pd.DataFrame]],
    figures: Sequence[Figure],
    facts: Mapping[str, str],
    trace: Mapping[str, str],
) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    models = models_of(report)
    named = len(models) > 1
    script = _resource("sort.js")
    return environment.from_string(_resource("page.html.jinja")).render(
        title=title,
        subtitle=f"{report.attrs['rows']:.12g} rows, evaluated on {created} with skuq {__version__}",
        version=__version__,
        named=named,
        marks=MARKS,
        models=[{"name": name, "summary": summaries[name], "findings": findings[name]} for name in models],
        facts=facts,
        explanation=_explanation(report),
        tables=_metric_tables(report, models),
        rest_explanation=REST,
        slices=_slice_tables(slices, named, report.attrs["of_classes"]),
        slices_explanation=SLICES,
        figures=figures,
        figure_size=[round(96 * side) for side in SIZE],
        trace=trace,
        script=script,
        # The content security policy of the page allows only this script.
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


@cache
def _resource(name: str) -> str:
    return files("skuq.report").joinpath(name).read_text(encoding="utf-8")


def _explanation(report: UncertaintyReport) -> str:
    confidence = f"{100 * report.attrs['confidence']:g} %"
    words = (
        f"Each value has a {confidence} confidence interval. The column Calibrated shows the value that this "
        "metric would have if the forecasts were correct. "
    )
    if report["calibrated_low"].notna().any():
        words += (
            "A value outside the range next to it indicates a fault. By chance, "
            f"{100 * (1 - report.attrs['confidence']):.2g} % of the values of correct forecasts are "
            "outside. "
        )
    words += "An empty cell means that the number is unknown. Select a column name to sort the table."
    if len(report.attrs["summary"]) > 1:
        words += " An asterisk marks the best value of a row. Its advantage may be due to chance."
    return words


Row = Mapping[str, Any]


def _metric_tables(report: UncertaintyReport, models: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Row]] = {}
    for name, table in models.items():
        records: Any = table.to_dict("records")
        rows[name] = dict(zip(map(str, table.index), records, strict=True))
    formats = {metric: _format(report, metric, rows) for each in rows.values() for metric in each}
    tables = [_one_model(report, name, each) for name, each in rows.items()]
    return [_side_by_side(report, rows, formats), *tables] if len(models) > 1 else tables


def _format(report: UncertaintyReport, metric: str, rows: Mapping[str, Mapping[str, Row]]) -> RowFormat:
    """Return the number format of a metric, which all models share."""
    present = [each[metric] for each in rows.values() if metric in each]
    values = [float(row[column]) for row in present for column in ("value", "calibrated")]
    error = standard_error(*([row[bound] for row in present] for bound in ("low", "high")))
    return RowFormat.of(values, percent=present[0]["title"] in report.attrs["in_percent"], error=error)


def _one_model(report: UncertaintyReport, name: str, rows: Mapping[str, Row]) -> dict[str, Any]:
    confidence = f"{100 * report.attrs['confidence']:g} %"
    has_range = bool(report["calibrated_low"].notna().any())
    columns = [
        "Metric",
        "Value",
        f"{confidence} interval",
        "Calibrated",
        *[f"{confidence} range"] * has_range,
    ]
    cells = []
    for metric, row in rows.items():
        form = _format(report, metric, {name: rows})
        simulated = row["calibrated_low"], row["calibrated_high"]
        cells.append(
            [
                _text(row["title"], plain_words(report.attrs["definitions"][metric])),
                _number(row["value"], form(row["value"])),
                _number(row["low"], form.span(row["low"], row["high"])),
                _number(row["calibrated"], form(row["calibrated"])),
                *[_number(simulated[0], form.span(*simulated))] * has_range,
                _text(_better(row, form)),
                _text(plain_words(row["reading"])),
            ]
        )
    caption = "Metrics" if len(report.attrs["summary"]) == 1 else f"Metrics of {name}"
    return _split(caption, [*columns, "Better", "Reading"], dict(zip(rows, cells, strict=True)))


def _split(caption: str, columns: Sequence[str], cells: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Divide a table into the rows of the most important metrics and all other rows."""
    chosen = HEADLINES + CLASS_HEADLINES
    rows = [cells[metric] for metric in chosen if metric in cells]
    rest = [row for metric, row in cells.items() if metric not in chosen]
    if not rows:
        rows, rest = rest, []
    return {"caption": caption, "columns": columns, "rows": rows, "rest": rest}


def _side_by_side(
    report: UncertaintyReport, rows: Mapping[str, Mapping[str, Row]], formats: Mapping[str, RowFormat]
) -> dict[str, Any]:
    won = {name: won_by(report, name) for name in rows}
    cells = {}
    for metric, form in formats.items():
        first = next(each[metric] for each in rows.values() if metric in each)
        line = [_text(first["title"], plain_words(report.attrs["definitions"][metric]))]
        for name, each in rows.items():
            value = each[metric]["value"] if metric in each else math.nan
            line.append(_number(value, form(value) + ("*" if metric in won[name] else "")))
        cells[metric] = [*line, _text(_better(first, form))]
    return _split("Models side by side", ["Metric", *rows, "Better"], cells)


def _better(row: Row, form: RowFormat) -> str:
    optimum = float(row["optimum"])
    best = percent(optimum) if form.percent else f"{optimum:g}"
    parts = [str(row["direction"]), f"best {best}" if math.isfinite(optimum) else ""]
    return ", ".join(part for part in parts if part) or "neither"


def _slice_tables(
    slices: Mapping[str, Mapping[str, pd.DataFrame]], named: bool, of_classes: bool
) -> list[dict[str, Any]]:
    tables = []
    for by, models in slices.items():
        for name, table in models.items():
            error = 100 * float((table["high"] - table["low"]).min()) / 8
            rows = [
                [
                    _text(part_label(label, table)),
                    _number(row["n"], f"{row['n']:.12g}"),
                    _number(row["coverage"], f"{rounded(100 * row['coverage'], error)} %"),
                    _number(
                        row["low"],
                        " to ".join(rounded(100 * row[end], error) for end in ("low", "high")) + " %",
                    ),
                    _number(row["nominal"], f"{100 * row['nominal']:.1f} %"),
                    _text(_result(row, of_classes)),
                ]
                for label, row in table.iterrows()
            ]
            caption = f"Coverage by {by}" + (f", {name}" if named else "")
            first = f"{by}, from" if is_of_periods(table) else by
            columns = [first, "Rows", "Coverage", "99 % interval", "Expected", "Result"]
            tables.append({"caption": caption, "columns": columns, "rows": rows})
    return tables


def _result(row: Any, of_classes: bool) -> str:
    low, high = sides(of_classes)
    return (low if row["coverage"] < row["nominal"] else high) if row["flag"] else "no fault found"


def _text(text: object, note: str = "") -> dict[str, Any]:
    return {"text": str(text), "note": note, "value": None}


def _number(value: float, text: str) -> dict[str, Any]:
    value = float(value)
    return {"text": text, "note": "", "value": "" if math.isnan(value) else repr(value)}


def values_of(
    *,
    title: str,
    created: str,
    report: UncertaintyReport,
    findings: Mapping[str, Sequence[Finding]],
    summaries: Mapping[str, str],
    slices: Mapping[str, Mapping[str, pd.DataFrame]],
    facts: Mapping[str, str],
    trace: Mapping[str, str],
) -> dict[str, Any]:
    """Return all values of the page as plain Python objects. NaN becomes None, and infinity a text."""
    models = {}
    for name, table in models_of(report).items():
        metrics = table.assign(reading=table["reading"].map(plain_words)).rename_axis("metric").reset_index()
        models[name] = {
            "summary": summaries[name],
            "shares": report.attrs["headlines"][name],
            "findings": [asdict(finding) for finding in findings[name]],
            "metrics": metrics.to_dict("records"),
            "parts": {
                by: tables[name].rename_axis("part").reset_index().to_dict("records")
                for by, tables in slices.items()
            },
        }
    values = {"title": title, "created": created, "rows": report.attrs["rows"], "facts": dict(facts)}
    plain: dict[str, Any] = _plain(values | {"models": models, "trace": dict(trace)})
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
