"""Plot of six packages around the same models, drawn when the documentation is built.

conf.py calls `write_pictures`; docs/replications/same-model.rst includes the file.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from measured import rows_of
from recalibration_pictures import AFTER, BEFORE, TRUTH, write_figures

PANELS = {"linear": "linear model", "boosting": "boosting", "network": "network", "own": "own models"}
"""Rows of the table by model, and the titles of the panels."""
LABELS_AT, SPACING = 0.26, 0.075
"""Coverage at which labels begin, and least vertical distance of two labels in log width."""


def draw() -> Figure:
    """Return one panel per model with one labeled point per package."""
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharex=True, sharey=True)
    rows = sorted(rows_of("same_base"), key=lambda row: float(row["width"]))
    for ax, (model, title) in zip(axes, PANELS.items(), strict=True):
        ax.axvline(0.9, **TRUTH)
        height = -np.inf
        for row in (row for row in rows if row["model"] == model):
            ours = row["package"] == "skuq"
            coverage, width = float(row["coverage"]), float(row["width"])
            style = {"color": (AFTER if ours else BEFORE)["color"], "weight": "bold" if ours else "normal"}
            height = max(np.log(width), height + SPACING)
            ax.plot(coverage, width, "o", color=style["color"], markersize=8 if ours else 6)
            ax.annotate(
                row["package"],
                (coverage, width),
                (LABELS_AT, np.exp(height)),
                arrowprops={"arrowstyle": "-", "color": style["color"], "linewidth": 0.6, "shrinkB": 4},
                va="center",
                **style,
            )
        ax.set(title=title, xlim=(0.24, 1.0), xticks=[0.7, 0.9], xticklabels=["70 %", "90 %"], yscale="log")
        ax.set(yticks=[0.7, 1, 1.4, 2, 3], yticklabels=["0.7", "1", "1.4", "2", "3"])
        ax.yaxis.set_minor_formatter(NullFormatter())
    axes[0].set(ylabel="width, relative to skuq")
    figure.supxlabel("share of targets in 90 % intervals", fontsize="medium")
    return figure


def write_pictures(app: Any) -> None:
    """Write the plot."""
    write_figures(app, {"same-base": draw})
