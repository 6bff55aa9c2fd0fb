"""Coverage and width of intervals of six packages around the same models, drawn when the documentation is built.

conf.py calls `write_pictures`; docs/replications/real-data.rst includes the file.
"""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from measured import rows_of
from recalibration_pictures import AFTER, BEFORE, TRUTH, write_figures

PANELS = {
    "linear": "linear model",
    "boosting": "boosting",
    "network": "network",
    "own": "models of their own",
}
"""Rows of the table by model, and the titles of the panels."""


def draw() -> Figure:
    """Return one panel per model with one labeled point per package."""
    figure = Figure(figsize=(8.0, 3.3), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharex=True, sharey=True)
    rows = rows_of("same_base")
    for ax, (model, title) in zip(axes, PANELS.items(), strict=True):
        ax.axvline(0.9, **TRUTH)
        for row in rows:
            if row["model"] != model:
                continue
            own = row["package"] == "skuq"
            point = float(row["coverage"]), float(row["width"])
            ax.plot(*point, "o", color=(AFTER if own else BEFORE)["color"], markersize=7 if own else 5)
            right = point[0] < 0.8
            ax.annotate(
                row["package"],
                point,
                (6 if right else -6, 0),
                textcoords="offset points",
                ha="left" if right else "right",
                va="center",
                weight="bold" if own else "normal",
            )
        ax.set(title=title)
    axes[0].set(ylabel="width, relative to skuq")
    axes[0].xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    figure.supxlabel("coverage of 90 % intervals: left of the line, intervals contain too few targets")
    return figure


def write_pictures(app: Any) -> None:
    """Write the plot."""
    write_figures(app, {"same-base": draw})
