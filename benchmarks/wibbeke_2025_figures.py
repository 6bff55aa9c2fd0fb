"""Wibbeke et al. 2025: the figures.

This script draws figures 2 to 6 of Wibbeke et al. (2025), each as published and as it should be, from
``results/wibbeke_2025_metrics.csv`` and ``results/wibbeke_2025_miscalibration.csv``.

    python wibbeke_2025_figures.py --out .  # seconds
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from wibbeke_2025_metrics import KEYS, METHODS, OTHER_ROWS, PUBLISHED, SETTINGS, changes, part
from wibbeke_2025_miscalibration import DESIGNS, PERTURBED
from wibbeke_2025_miscalibration import KEYS as KEYS_OF_SHARES
from wibbeke_2025_shared import (
    DIRECTIONS,
    FULL,
    GROUPS,
    LARGE,
    METRICS,
    NUMBERS,
    THRESHOLD,
    distances,
)

from skuq.displays import MetricAgreementDisplay

RESULTS = Path(__file__).with_name("results")
READINGS = {"improved": "#3b6fb6", "within 3 %": "#d9dbde", "worse": "#d9822b"}
GROUP_COLORS = {"group 1": "#7b4fa3", "group 2": "#1b8a8f", "the rest": "#22262b"}
SCENARIOS = {
    "lower_std": "smaller standard deviations",
    "heterogeneous_std": "heterogeneous standard deviations",
    "lower_pred": "smaller means",
    "heterogeneous_both": "heterogeneous, both",
}
SMALL_FILES = {"svg.hashsalt": "skuq", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
PANELS = {
    "as published, worse by 3 %": ("as published", "worse"),
    "correct forecasts, worse by 3 %": ("as it should be", "worse"),
    "correct forecasts, test at 5 %": ("as it should be", "detected"),
}


def sets_in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in the order of the paper's table 2, with their numbers as labels."""
    names = sorted((name for name in (*FULL, *LARGE) if name in frame.index), key=NUMBERS.__getitem__)
    return frame.loc[names, list(METRICS)].set_axis([f"{NUMBERS[name]}" for name in names])


def color_labels(ax: Axes) -> None:
    """Color the names of the metrics by group."""
    group_of = {metric: name for name, names in GROUPS.items() for metric in names}
    for label in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        if label.get_text() in group_of:
            label.set_color(GROUP_COLORS[group_of[label.get_text()]])


def draw_cells(ax: Axes, frame: pd.DataFrame, **style: object) -> object:
    """Draw one cell per metric and set."""
    mesh = ax.pcolormesh(frame.T.to_numpy(), edgecolors="white", linewidth=0.8, rasterized=True, **style)
    ax.set_xticks(np.arange(len(frame)) + 0.5, frame.index, fontsize="x-small")
    ax.set_yticks(np.arange(len(METRICS)) + 0.5, METRICS, fontsize="small")
    ax.tick_params(length=0)
    ax.set_ylim(len(METRICS), 0)
    ax.spines[:].set_visible(False)
    color_labels(ax)
    return mesh


def draw_readings(panels: dict[str, dict[str, pd.DataFrame]]) -> Figure:
    """Draw the reading of each change, with one row of axes per version and one column per treatment."""
    colors = ListedColormap(list(READINGS.values()))
    n = len(next(iter(panels.values())))
    figure, axes = plt.subplots(
        len(panels), n, figsize=(13, 6.6), sharex=True, sharey=True, layout="constrained"
    )
    for (version, columns), row in zip(panels.items(), axes, strict=True):
        for (title, frame), ax in zip(columns.items(), row, strict=True):
            codes = np.sign(frame.where(frame.abs() > THRESHOLD, 0.0))
            draw_cells(ax, codes, cmap=colors, vmin=-1, vmax=1)
            ax.set_title(title, loc="left", fontsize="medium")
        row[0].set_ylabel(version, fontsize="large")
    for ax in axes[-1]:
        ax.set_xlabel("data set")
    handles = [Patch(color=color, label=name) for name, color in READINGS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def agreement(table: pd.DataFrame) -> Figure:
    """Draw the correlations of the metrics, figures 2 and 3."""
    figure, axes = plt.subplots(2, 2, figsize=(13, 12.4), layout="constrained")
    shown = {name: SETTINGS[name] for name in ("as published", "as it should be")}
    for study, row in zip(("real", "synthetic"), axes, strict=True):
        for (name, setting), ax in zip(shown.items(), row, strict=True):
            values = part(table, study, setting)
            title = f"{len(values)} {study} sets, {name}"
            display = MetricAgreementDisplay.from_reports(
                values,
                directions=DIRECTIONS,
                ax=ax,
                name=title,
                colorbar=False,
                image_kwargs={"rasterized": True},
                text_kwargs={"fontsize": 7},
            )
            color_labels(display.ax_)
    bar = figure.colorbar(display.image_, ax=axes, shrink=0.4)
    bar.set_label("Kendall's tau")
    return figure


def profiles(table: pd.DataFrame) -> Figure:
    """Draw the metrics divided by their mean over the sets, like figure 2."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 6.4), sharex=True, layout="constrained")
    for name, row in zip(("as published", "as it should be"), axes, strict=True):
        values = part(table, "real", SETTINGS[name])
        values = sets_in_order(distances(values))
        for (group, metrics), ax in zip(GROUPS.items(), row, strict=True):
            for metric in metrics:
                ax.plot(values.index, values[metric] / abs(values[metric].mean()), ".-", label=metric)
            ax.set_title(f"{name}, {group}", loc="left", fontsize="medium")
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(fontsize="x-small", frameon=False, ncols=2)
        row[0].set_ylabel("value / |mean over the sets|")
    for ax in axes[-1]:
        ax.set_xlabel("data set")
    return figure


def recalibration(table: pd.DataFrame) -> Figure:
    """Draw the changes by recalibration, figure 4."""
    panels = {}
    for version, setting in (("as published", PUBLISHED), ("as it should be", OTHER_ROWS)):
        found = changes(table, setting)
        panels[version] = {method: sets_in_order(found.loc[method]) for method in METHODS}
    return draw_readings(panels)


def miscalibration(shares: pd.DataFrame) -> Figure:
    """Draw the changes by miscalibration with seed 0, figure 5."""
    panels = {}
    for design in DESIGNS:
        found = shares.xs((design, "change"), level=("design", "reading"))
        parts = {title: found.xs(scenario, level="scenario") for scenario, title in SCENARIOS.items()}
        panels[design] = {title: sets_in_order(each) for title, each in parts.items()}
    return draw_readings(panels)


def detection(shares: pd.DataFrame) -> Figure:
    """Draw the shares of seeds that detect the fourth scenario, figure 6."""
    figure, axes = plt.subplots(1, len(PANELS), figsize=(14, 4.6), sharey=True, layout="constrained")
    for (title, (design, each)), ax in zip(PANELS.items(), axes, strict=True):
        keys = design, PERTURBED[-1], each
        found = 100 * sets_in_order(shares.xs(keys, level=("design", "scenario", "reading")))
        mesh = draw_cells(ax, found, cmap="Blues", vmin=0, vmax=100)
        for (x, y), value in np.ndenumerate(found.to_numpy()):
            color = "white" if value > 60 else "#22262b"
            ax.text(x + 0.5, y + 0.5, f"{value:.0f}", ha="center", va="center", fontsize=6.5, color=color)
        ax.set_title(title, loc="left", fontsize="medium")
        ax.set_xlabel("data set")
    figure.colorbar(mesh, ax=axes, shrink=0.7).set_label("% of 100 seeds")
    return figure


def save(figure: Figure, file: Path) -> None:
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=100)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Draw all figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the figures")
    parser.add_argument("--suffix", default="svg", help="svg or png")
    options = parser.parse_args(arguments)
    table, shares = (
        pd.read_csv(RESULTS / f"wibbeke_2025_{name}.csv", comment="#", index_col=keys)
        for name, keys in (("metrics", KEYS), ("miscalibration", KEYS_OF_SHARES))
    )
    draw = {
        "agreement": lambda: agreement(table),
        "profiles": lambda: profiles(table),
        "recalibration": lambda: recalibration(table),
        "miscalibration": lambda: miscalibration(shares),
        "detection": lambda: detection(shares),
    }
    with plt.rc_context(SMALL_FILES):
        for name, figure in draw.items():
            save(figure(), options.out / f"wibbeke-2025-{name}.{options.suffix}")


if __name__ == "__main__":
    main()
