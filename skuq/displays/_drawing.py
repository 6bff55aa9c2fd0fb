"""Functions that several displays use: import of matplotlib, styles, colors, choice of rows and atoms."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_integer, check_rows
from skuq.distributions import Distribution

if TYPE_CHECKING:
    import matplotlib.axes
    from matplotlib.lines import AxLine

BLUE = "#3b6fb6"
RED = "#d1495b"
GRAY = "#8a8f98"
INK, LIGHT_INK = "#22262b", "#e4e6ea"
CURVES = (BLUE, "#d9822b", "#3f8f5f", "#8a5aa8", RED, "#4aa3b5")
"""Colors of the curves on one axes, in the order of drawing."""

DASHES = (
    "-",
    (0, (7, 1.5)),
    (0, (7, 1.5, 1.5, 1.5)),
    (0, (3, 1)),
    (0, (1.2, 1)),
    (0, (7, 1, 1.2, 1, 1.2, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Lines and points of the curves, in the order of drawing. They distinguish the curves in gray print."""

CURVE, REFERENCE = "skuq-curve", "skuq-reference"
"""Values of matplotlib's ``gid`` that mark the first curve of a model and the reference lines."""

PERFECT = "Perfectly calibrated"

_BELOW, _OWN_FIGURE = "skuq-legend-below", "skuq-figure"

_MOST_WIDTH, _MOST_AREA = 0.95, 0.2
"""Largest size of a legend inside the axes, as a share of the axes."""

Axes: TypeAlias = "matplotlib.axes.Axes"
Style = Mapping[str, Any] | None


def check_matplotlib(caller: str) -> None:
    """Raise an ImportError with the command for an installation if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401 - only its presence is checked
    except ImportError as error:
        raise ImportError(f'{caller} needs matplotlib: run `pip install "skuq[plot]"`.') from error


def get_axes(ax: Axes | None, figsize: tuple[float, float]) -> Axes:
    """Return the given axes or new axes."""
    if ax is not None:
        import matplotlib.axes

        if not isinstance(ax, matplotlib.axes.Axes):
            hint = " Pass one of its elements." if isinstance(ax, np.ndarray) else ""
            raise TypeError(f"`ax` must be a matplotlib Axes or None, got {type(ax).__name__}.{hint}")
        return ax
    import matplotlib.pyplot as plt

    figure, new = plt.subplots(figsize=figsize, layout="constrained")
    figure.set_gid(_OWN_FIGURE)
    return new


def merge_style(artist: str, default: Mapping[str, Any], style: Style, name: str) -> dict[str, Any]:
    """Return the default keywords. Keywords of the user replace them and may be aliases."""
    if style is not None and not isinstance(style, Mapping):
        raise TypeError(f"`{name}` must be a dictionary of matplotlib keywords or None, got {style!r}.")
    from matplotlib.cbook import normalize_kwargs

    module, cls = artist.split(".")
    kind = getattr(import_module(f"matplotlib.{module}"), cls)
    given = dict(style or {})
    merged = normalize_kwargs(dict(default), kind)
    if cls == "PathCollection" and "c" in given:  # scatter accepts "c" or "color", but not both.
        merged.pop("color", None)
        merged["c"] = given.pop("c")
    if "c" in given:
        given["color"] = given.pop("c")
    merged.update(normalize_kwargs(given, kind))
    return merged


def has_label(ax: Axes, label: str | None) -> bool:
    return label in ax.get_legend_handles_labels()[1]


def ink(ax: Axes) -> str:
    """Return the color of artists that belong to no model: dark, or light on dark axes."""
    from matplotlib.colors import to_rgb

    return INK if sum(to_rgb(ax.get_facecolor())) > 1.5 else LIGHT_INK


def wrapped(text: str, width: float, size: Any) -> str:
    """Return the text with line breaks. The width and the size of the font are in points."""
    return textwrap.fill(text, max(int(width / (0.55 * size)), 20))


def width_of(ax: Axes) -> float:
    """Return the width of the axes in points."""
    return 72 * ax.bbox.width / ax.figure.dpi


def draw_endless_line(ax: Axes, point: tuple[float, float], slope: float, style: Mapping[str, Any]) -> AxLine:
    """Draw an infinite line through a point. The limits of the axes do not change."""
    from matplotlib.lines import AxLine

    line = AxLine(point, None, slope, **style)
    ax.add_artist(line)
    return line


def draw_legend(ax: Axes, *, below: bool = False, **options: Any) -> None:
    """Draw a legend. The reference lines are its last entries. A large legend is below the axes."""
    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: handles[i].get_gid() == REFERENCE)
    if not order:
        return
    earlier = _height_below(ax)
    handles, labels = [handles[i] for i in order], [labels[i] for i in order]
    options = {"loc": "best", "fontsize": "small", "edgecolor": "none", **options}
    legend = ax.legend(handles, labels, **options)
    if ax.figure.get_layout_engine() is not None:  # Without a layout, there is no room below the axes.
        share = np.divide(legend.get_window_extent().size, ax.bbox.size)
        if below or share[0] > _MOST_WIDTH or share.prod() > _MOST_AREA:
            if share[0] > 1.1:  # Labels of less than this width fit below the axes and their labels.
                size: Any = legend.get_texts()[0].get_fontsize()
                labels = [wrapped(label, width_of(ax) - 4 * size, size) for label in labels]
            columns = min(max(int(1 / share[0]), 1), len(order))
            legend = ax.legend(handles, labels, **options | _place_below(ax), ncols=columns)
            legend.set_gid(_BELOW)
            ax.set_anchor("N")  # Axes of equal units would otherwise move down, and cut off the legend.
    figure: Any = ax.figure
    if figure.get_gid() == _OWN_FIGURE:  # The axes keep their height.
        figure.set_figheight(figure.get_figheight() + _height_below(ax) - earlier)
    for handle, entry in zip(handles, legend.legend_handles, strict=True):
        if handle.get_gid() == REFERENCE:
            _make_neutral(entry, ax)
        # The points in the plot are transparent, but the points in the legend are not.
        if entry is not None and hasattr(entry, "get_offsets"):
            entry.set_alpha(1.0)


def _height_below(ax: Axes) -> float:
    """Return the height in inches of the legend below the axes."""
    legend = ax.get_legend()
    if legend is None or legend.get_gid() != _BELOW:
        return 0.0
    return float(legend.get_window_extent().height / ax.figure.dpi)


def _place_below(ax: Axes) -> dict[str, Any]:
    """Return the options of a legend below the labels of the x axis."""
    from matplotlib.transforms import ScaledTranslation

    labels = ax.xaxis.get_tightbbox()
    depth = 0.0 if labels is None else (ax.bbox.y0 - labels.y0) / ax.figure.dpi
    transform = ax.transAxes + ScaledTranslation(0.0, -depth, ax.figure.dpi_scale_trans)
    return {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": transform}


def _make_neutral(handle: Any, ax: Axes) -> None:
    """Make a legend entry gray if it describes all models."""
    from matplotlib.colors import to_rgb, to_rgba

    kind = "edgecolor" if hasattr(handle, "get_edgecolor") else "color"
    color = np.ravel(handle.get_edgecolor() if kind == "edgecolor" else to_rgba(handle.get_color()))
    models: list[Any] = [line for line in ax.get_lines() if line.get_gid() == CURVE]
    if any(np.allclose(to_rgb(line.get_color()), color[:3]) for line in models):
        handle.set(**{kind: (*to_rgb(ink(ax)), color[3])})


def with_unit(text: str, unit: str | None) -> str:
    return text if unit is None else f"{text} ({unit})"


def choose_rows(n: int, max_rows: int | None) -> IntArray:
    if max_rows is not None:
        check_integer(max_rows, "max_rows", minimum=2)
    if max_rows is None or n <= max_rows:
        return np.arange(n)
    return np.linspace(0, n - 1, max_rows).round().astype(np.intp)


def percent(share: float) -> str:
    """Format a proportion as a percentage, without a trailing zero."""
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def rows_that_count(sample_weight: FloatArray | None, n: int) -> IntArray:
    return np.arange(n) if sample_weight is None else np.flatnonzero(sample_weight > 0)


def check_column(values: ArrayLike, name: str, n: int) -> FloatArray:
    array = check_rows(as_float_array(values, name), name, n)
    if np.isnan(array).any():
        raise ValueError(f"`{name}` must not contain NaN, got one at row {int(np.argmax(np.isnan(array)))}.")
    return array


ATOM_ALPHA = 0.4

_LEAST_ATOM = 0.1
"""Smallest probability of an atom that is found. It is the distance between the levels of the search."""

_MOST_ATOMS = 3
"""If forecasts have more atoms than this number, no atoms are drawn."""

_MOST_ATOM_ROWS = 200


def shared_atoms(dist: Distribution) -> dict[float, FloatArray]:
    """Return a dict from the value of each atom to its probability in each row.

    The dict is empty for discrete forecasts and for forecasts with many different atoms.
    """
    if dist.has_density or dist.has_mass:
        return {}
    part = dist[choose_rows(len(dist), _MOST_ATOM_ROWS)]
    found: set[float] = set()
    for level in np.arange(_LEAST_ATOM / 2, 1.0, _LEAST_ATOM):
        values = part._ppf(np.asarray(level))
        found.update(values[part.logpmf(values) >= np.log(_LEAST_ATOM)].tolist())
    if len(found) > _MOST_ATOMS:
        return {}
    return {value: np.exp(dist.logpmf(value)) for value in sorted(found)}


def atom_label(values: Iterable[float], size: str) -> str:
    """Return the legend entry. The ``size`` names the property of the artist that shows the probability."""
    return f"Probability of {' and '.join(f'{value:g}' for value in values)} ({size})"
