"""Plot of the coverage and the width of intervals by seven packages, drawn when the documentation is built.

conf.py calls `write_pictures`. docs/index.rst and docs/replications/same-model.rst include the files. The
second file is for narrow screens.
"""

from functools import partial
from typing import Any

import numpy as np
from landing_picture import COLORS
from landing_picture import STYLE as LARGE_LABELS
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from measured import rows_of
from recalibration_pictures import TRUTH, write_figures
from sklearn.isotonic import isotonic_regression

OURS = "skuq"
PANELS = {
    "linear": "around a linear model",
    "boosting": "around boosting",
    "network": "around a network",
    "own": "packages with own models",
}
"""Titles of the panels, by the first column of the table."""
LAYOUTS = {"same-base": (2, 2, (11, 7.4)), "same-base-narrow": (4, 1, (5.1, 14.0))}
"""Rows and columns of the panels, and the size in inches (see `landing_picture`)."""
LABELS_AT, END, SPACING = 0.98, 1.16, 0.125
"""Coverages at which labels begin and the panel ends, and least distance of two labels in log width."""


def draw(rows: int, columns: int, size: tuple[float, float]) -> Figure:
    """Return one panel per model with one labeled point per package."""
    with rc_context(LARGE_LABELS):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        rows_of_table = rows_of("same_base")
        (boosting,) = (row for row in rows_of_table if (row["model"], row["package"]) == ("boosting", OURS))
        own = {**boosting, "model": "own", "package": f"{OURS}, boosting"}
        table = sorted([*rows_of_table, own], key=lambda row: float(row["width"]))
        for ax, (model, title) in zip(axes.flat, PANELS.items(), strict=True):
            draw_panel(ax, [row for row in table if row["model"] == model])
            ax.set_title(title, loc="left")
        figure.supxlabel("targets in 90 % intervals")
        figure.supylabel("width of the intervals, relative to skuq")
    return figure


def draw_panel(ax: Any, table: list[dict[str, str]]) -> None:
    """Draw the points of one panel, from narrow to wide, and labels beside them that do not overlap."""
    ax.axvline(0.9, **TRUTH)
    widths = np.array([float(row["width"]) for row in table])
    apart = SPACING * np.arange(len(table))
    heights = np.exp(isotonic_regression(np.log(widths) - apart) + apart)
    for row, width, height in zip(table, widths, heights, strict=True):
        ours, coverage = row["package"].startswith(OURS), float(row["coverage"])
        color = COLORS[1 if ours else 0]
        ax.plot(coverage, width, "o", color=color, markersize=13 if ours else 9)
        ax.annotate(
            row["package"],
            (coverage, width),
            (LABELS_AT, height),
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkB": 6},
            va="center",
            color=color,
            weight="bold" if ours else "normal",
        )
    ax.set(xlim=(0.77, END), xticks=[0.8, 0.85, 0.9, 0.95], yscale="log", ylim=(0.72, 2.35))
    ax.set(xticklabels=["80 %", "", "90 %", ""], yticks=[1, 1.5], yticklabels=["1", "1.5"])
    ax.yaxis.set_minor_formatter(NullFormatter())


def write_pictures(app: Any) -> None:
    """Write the plots."""
    write_figures(app, {name: partial(draw, *layout) for name, layout in LAYOUTS.items()})
