"""The report as a DataFrame that prints as a table."""

from __future__ import annotations

import math
import re
import textwrap
from html import escape
from typing import Any

import pandas as pd

from skuq.evaluation._report.wording import RowFormat, percent

WIDTH = 120
"""Number of columns of the printed report."""

TIE = 1e-9
"""Two values are equally good if their relative difference is smaller than this, because the difference may
be due to rounding."""

STAR = "* best value of the row; test its significance with `paired_permutation_test`"


class UncertaintyReport(pd.DataFrame):
    """DataFrame that `uncertainty_report` returns. It is printed as a readable table.

    A selection of rows or columns is a plain DataFrame.

    Parameters
    ----------
    data, index, columns, dtype, copy : optional
        Arguments of `pandas.DataFrame`.

    See Also
    --------
    uncertainty_report : Makes the table and describes its columns.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.evaluation import uncertainty_report
    >>> y, dist = [-0.5, 0.5] * 27 + [-3.0, 3.0] * 3, Normal([0.0] * 60, [1.0] * 60)
    >>> report = uncertainty_report(y, dist, metrics=["picp"], n_resamples=0, n_draws=0)
    >>> print(report)
    Uncertainty report, 60 rows
    calibrated: the 90 % intervals contain 90 % of the targets
    <BLANKLINE>
    Metric   Value  Calibrated  Best
    PICP    90.0 %      90.0 %  90 %
    <BLANKLINE>
    PICP  calibrated: the 90 % intervals contain 90 % of the targets
    """

    def __repr__(self) -> str:
        return self.to_text() if self._is_whole() else super().__repr__()

    def _repr_html_(self) -> str:
        return str(self.to_html())

    def to_text(self) -> str:
        """Return the report as text, with the models side by side.

        Returns
        -------
        text : str
            A summary line per model, a table, and the readings.
        """
        lines = [self._title()]
        lines += [f"{name}: {words}" if self._names() else words for name, words in self._summary().items()]
        frame = self._side_by_side() if self._names() else self._one_model()
        lines += ["", _aligned(frame.drop(columns="Reading", errors="ignore"))]
        if self._names():
            lines.append(STAR)
        for name in self._names():
            lines += ["", name, *_readings(self._part(name), indent="  ")]
        if not self._names():
            lines += ["", *_readings(self)]
        return "\n".join(lines)

    def to_html(self, *args: Any, **kwargs: Any) -> Any:
        """Return the report as an HTML fragment, or as the HTML table of pandas if there are arguments.

        Parameters
        ----------
        *args, **kwargs
            Arguments of `pandas.DataFrame.to_html`.

        Returns
        -------
        html : str
            Headings, summary and table. They have the colors and fonts of the page in which they are shown.
        """
        if args or kwargs or not self._is_whole():
            return pd.DataFrame(self).to_html(*args, **kwargs)
        named = bool(self._names())
        items = [
            f"<li>{f'<b>{escape(name)}</b>: ' if named else ''}{escape(words)}</li>"
            for name, words in self._summary().items()
        ]
        parts = [f"<p><b>{escape(self._title())}</b></p>", f"<ul>{''.join(items)}</ul>"]
        parts.append(_html_table(self._side_by_side() if named else self._one_model()))
        if named:
            note = re.sub("`(.+?)`", r"<code>\1</code>", escape(STAR))
            parts.append(f"<p>{note}</p>")
        for name in self._names():
            readings = self._part(name)
            frame = pd.DataFrame({"Metric": readings["title"], "Reading": readings["reading"]})
            parts += [f"<p><b>{escape(name)}</b></p>", _html_table(frame)]
        return f'<div class="skuq-report">{"".join(parts)}</div>'

    def _is_whole(self) -> bool:
        numbers = {"value", "low", "high", "calibrated", "calibrated_low", "calibrated_high"}
        needed = {"title", *numbers, "direction", "optimum", "reading"}
        return "summary" in self.attrs and needed <= set(self.columns)

    def _summary(self) -> dict[str, str]:
        return dict(self.attrs["summary"])

    def _names(self) -> list[str]:
        return list(self._summary()) if self.index.nlevels > 1 else []

    def _part(self, name: str) -> pd.DataFrame:
        return pd.DataFrame(self.xs(name, level="model"))

    def _title(self) -> str:
        return f"Uncertainty report, {self.attrs['rows']:g} rows"

    def _percent(self) -> str:
        return f"{100 * self.attrs['confidence']:g} %"

    def _one_model(self) -> pd.DataFrame:
        written = [self._format(self.iloc[[i]]) for i in range(len(self))]
        frame = pd.DataFrame({"Metric": self["title"], "Value": _each(written, self["value"])})
        if self["low"].notna().any():
            frame[f"{self._percent()} interval"] = _spans(written, self["low"], self["high"])
        if self["calibrated"].notna().any():
            frame["Calibrated"] = _each(written, self["calibrated"])
        if self["calibrated_low"].notna().any():
            bounds = self["calibrated_low"], self["calibrated_high"]
            frame[f"{self._percent()} of calibrated"] = _spans(written, *bounds)
        frame["Best"] = self._best(self)
        frame["Reading"] = self["reading"]
        return frame

    def _format(self, rows: pd.DataFrame) -> RowFormat:
        values, bounds = (
            rows[names].to_numpy(dtype=float).ravel().tolist()
            for names in (["value", "calibrated"], ["low", "high", "calibrated_low", "calibrated_high"])
        )
        return RowFormat.of(values, bounds, percent=rows["title"].iloc[0] in self.attrs["in_percent"])

    def _best(self, rows: pd.DataFrame) -> list[str]:
        cells = []
        for title, direction, optimum in zip(rows["title"], rows["direction"], rows["optimum"], strict=True):
            written = percent(optimum) if title in self.attrs["in_percent"] else f"{optimum:g}"
            goal = written if math.isfinite(optimum) else ""
            cells.append(", ".join(part for part in (direction, goal) if part))
        return cells

    def _side_by_side(self) -> pd.DataFrame:
        first = self.groupby(level="metric", sort=False).first()
        written = [self._format(rows) for _, rows in self.groupby(level="metric", sort=False)]
        frame = pd.DataFrame({"Metric": first["title"]})
        for name in self._names():
            part, won = self._part(name).reindex(first.index), won_by(self, name)
            columns = (part[column] for column in ("value", "low", "high"))
            frame[name] = [
                f"{form(value)}{'*' if metric in won else ' '} {form.span(low, high)}"
                for form, metric, value, low, high in zip(written, part.index, *columns, strict=True)
            ]
        frame["Best"] = self._best(first)
        return frame


def won_by(report: pd.DataFrame, name: str) -> set[str]:
    """Return the metrics with their best value for one model, unless all models have it."""
    won = set()
    for metric, part in report.groupby(level="metric"):
        values, direction = part["value"].dropna().droplevel("metric"), part["direction"].iloc[0]
        if not direction or name not in values.index:
            continue
        best = values.min() if direction == "lower" else values.max()
        ties = (values == best) | ((values - best).abs() <= TIE * abs(best))
        if ties[name] and not ties.all():
            won.add(str(metric))
    return won


def _readings(part: pd.DataFrame, indent: str = "") -> list[str]:
    longest = max(map(len, part["title"]), default=0)
    lines: list[str] = []
    for title, reading in zip(part["title"], part["reading"], strict=True):
        first = f"{indent}{title:{longest}}  "
        lines += textwrap.wrap(reading, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
    return lines


def _each(written: list[RowFormat], values: pd.Series[float]) -> list[str]:
    return [form(value) for form, value in zip(written, values, strict=True)]


def _spans(written: list[RowFormat], low: pd.Series[float], high: pd.Series[float]) -> list[str]:
    return [form.span(*bounds) for form, *bounds in zip(written, low, high, strict=True)]


def _aligned(frame: pd.DataFrame) -> str:
    columns = [[str(name), *map(str, frame[name])] for name in frame.columns]
    widths = [max(map(len, cells)) for cells in columns]
    sides = [">" if _is_numeric(cells[1:]) else "<" for cells in columns]
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        for row in zip(*columns, strict=True)
    )
    return "\n".join(line.rstrip() for line in lines)


def _is_numeric(cells: list[str]) -> bool:
    try:
        [float(cell.removesuffix(" %")) for cell in cells if cell]
    except ValueError:
        return False
    return True


def _html_table(frame: pd.DataFrame) -> str:
    sides = ["right" if _is_numeric(list(frame[name])) else "left" for name in frame.columns]
    styles = [
        f"text-align:{side};padding:0.15em 0.6em{'' if name == 'Reading' else ';white-space:nowrap'}"
        for name, side in zip(frame.columns, sides, strict=True)
    ]
    head = "".join(_html_cell("th", name, style) for name, style in zip(frame.columns, styles, strict=True))
    rows = (
        "".join(_html_cell("td", cell, style) for cell, style in zip(row, styles, strict=True))
        for row in frame.itertuples(index=False)
    )
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html_cell(tag: str, content: object, style: str) -> str:
    return f'<{tag} style="{style}">{escape(str(content))}</{tag}>'
