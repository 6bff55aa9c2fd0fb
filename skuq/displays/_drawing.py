"""What the displays share: matplotlib on demand, styles, colours, and what to draw of many rows."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_integer, check_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#3b6fb6"
RED = "#d1495b"
GREY = "#8a8f98"
INK = "#22262b"
CURVES = (BLUE, "#d9822b", "#3f8f5f", "#8a5aa8", RED, "#4aa3b5")
"""Colours of the curves on one axes, in the order they are drawn."""

Style = Mapping[str, Any] | None


def check_matplotlib(caller: str) -> None:
    """Raise an ImportError that says what to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401 - only its presence is asked for
    except ImportError as error:
        raise ImportError(f'{caller} needs matplotlib: run `pip install "skuq[plot]"`.') from error


def get_axes(ax: Axes | None, figsize: tuple[float, float]) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, new = plt.subplots(figsize=figsize, layout="constrained")
    return new


def merge_style(artist: str, default: Mapping[str, Any], style: Style, name: str) -> dict[str, Any]:
    """Return the default keywords overridden by the user's, whatever alias those are written in.

    `artist` is the class of `matplotlib` whose aliases count, as "lines.Line2D".
    """
    if style is not None and not isinstance(style, Mapping):
        raise TypeError(f"`{name}` must be a dictionary of matplotlib keywords or None, got {style!r}.")
    from matplotlib.cbook import normalize_kwargs

    module, cls = artist.split(".")
    kind = getattr(import_module(f"matplotlib.{module}"), cls)
    given = dict(style or {})
    merged = normalize_kwargs(dict(default), kind)
    if cls == "PathCollection" and "c" in given:  # for a scatter "c" is no alias of "color", it excludes it
        merged.pop("color", None)
        merged["c"] = given.pop("c")
    if "c" in given:
        given["color"] = given.pop("c")
    merged.update(normalize_kwargs(given, kind))
    return merged


def has_label(ax: Axes, label: str) -> bool:
    """Say whether something of this label is drawn on the axes already."""
    return label in ax.get_legend_handles_labels()[1]


def choose_rows(n: int, max_rows: int | None) -> IntArray:
    """Return at most `max_rows` of n row numbers, evenly spaced, the first and the last among them."""
    if max_rows is not None:
        check_integer(max_rows, "max_rows", minimum=2)
    if max_rows is None or n <= max_rows:
        return np.arange(n)
    return np.linspace(0, n - 1, max_rows).round().astype(np.intp)


def percent(share: float) -> str:
    """Write a proportion as a percentage, with one decimal where it has one."""
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def check_column(values: ArrayLike, name: str, n: int) -> FloatArray:
    """Return a float array of n rows without NaN."""
    array = check_rows(as_float_array(values, name), name, n)
    if np.isnan(array).any():
        raise ValueError(f"`{name}` must not contain NaN, got one at row {int(np.argmax(np.isnan(array)))}.")
    return array


def estimator_name(estimator: object, name: str | None) -> str:
    """Return the name given, or the class of the estimator."""
    return type(estimator).__name__ if name is None else name
