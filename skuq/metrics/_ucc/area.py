"""Areas under the uncertainty characteristics curve.

The areas are exact, or they follow the rules of the paper or of UQ360.
"""

from __future__ import annotations

import numpy as np

from skuq._rounding import count_above, reaches
from skuq._typing import FloatArray
from skuq._validation import as_float_array
from skuq.metrics._ucc.kernels import BLOCK

RULES = ("exact", "rectangle", "trapezoid", "uq360")
Range = tuple[float, float]


def check_range(values: object, name: str) -> Range | None:
    if values is None:
        return None
    pair = as_float_array(values, name)  # type: ignore[arg-type]
    if pair.shape != (2,) or not (0 <= pair[0] < pair[1]):
        raise ValueError(f"`{name}` must be a pair (low, high) with 0 <= low < high, got {values!r}.")
    return float(pair[0]), float(pair[1])


def area(
    x: FloatArray, y: FloatArray, *, step: bool, rule: str, x_range: Range | None, y_range: Range | None
) -> float:
    """Return the area under the part of the curve that lies in the ranges."""
    if rule == "uq360":
        if x_range is None and y_range is None and x.size < 2:
            return 0.0  # UQ360 returns 0 too.
        return _snapped_trapezoid(x, y, x_range, y_range)
    if x_range is None and y_range is None:
        return _whole_area(x, y, step=step, rule=rule)
    x, y = _vertices(x, y, step=step, rule=rule)
    if y_range is None:
        low, high = x_range if x_range is not None else (0.0, np.inf)
    elif not reaches(y_range[1], y[-1], total=y[0]):
        return np.inf  # The whole curve lies above this y.
    else:
        low, high = _crossing(x, y, y_range[1], closed=False), _crossing(x, y, y_range[0], closed=True)
    return _area_up_to(x, y, high) - _area_up_to(x, y, low) if high > low else 0.0


def _whole_area(x: FloatArray, y: FloatArray, *, step: bool, rule: str) -> float:
    if y[-1] > 0:
        return np.inf
    total = 0.0
    for start in range(0, x.size - 1, BLOCK):  # A block of corners fits into the processor's cache.
        height = y[start : start + BLOCK + 1]
        width = np.diff(x[start : start + BLOCK + 1])
        if rule == "rectangle":
            total += float(width @ height[1:])
        elif rule == "exact" and step:
            total += float(width @ height[:-1])
        else:
            total += float(width @ (height[1:] + height[:-1])) / 2
    return total


def _vertices(x: FloatArray, y: FloatArray, *, step: bool, rule: str) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the curve that the rule integrates. A jump has two corners with the same x."""
    if rule == "trapezoid" or (rule == "exact" and not step):
        return x, y
    if rule == "exact":
        return np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    return np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]


def _crossing(x: FloatArray, y: FloatArray, level: float, *, closed: bool) -> float:
    """Return the first x at which y is at most the level.

    If ``closed``, return the last x at which y equals the level.
    """
    position = count_above(y, level, total=float(y[0]), closed=closed)
    if position == 0:
        return float(x[0])
    if position == y.size:
        return np.inf if y[-1] > 0 else float(x[-1])
    x0, x1, y0, y1 = x[position - 1], x[position], y[position - 1], y[position]
    return float(x0 + (x1 - x0) * np.clip((y0 - level) / (y0 - y1), 0.0, 1.0))


def _area_up_to(x: FloatArray, y: FloatArray, limit: float) -> float:
    """Return the area from the first corner to x = limit. Beyond the last corner, y is constant."""
    if limit <= x[0]:
        return 0.0
    position = int(np.searchsorted(x, limit, side="right"))
    whole = float(np.diff(x[:position]) @ (y[1:position] + y[: position - 1]) / 2)
    x0, y0 = float(x[position - 1]), float(y[position - 1])
    if position == x.size:
        return whole + (y0 * (limit - x0) if y0 > 0 else 0.0)
    slope = (float(y[position]) - y0) / (float(x[position]) - x0)
    return whole + (limit - x0) * (y0 + slope * (limit - x0) / 2)


def _snapped_trapezoid(x: FloatArray, y: FloatArray, x_range: Range | None, y_range: Range | None) -> float:
    """Return the area between the points that are nearest to the limits. UQ360 uses this area."""
    begin, end = 0, x.size - 1
    if x_range is not None:
        begin, end = (_nearest(x, limit, total=float(x[-1])) for limit in x_range)
    elif y_range is not None:
        end, begin = (_nearest(y, limit, total=float(y[0])) for limit in y_range)
    if end <= begin:
        raise ValueError(
            "`x_range` or `y_range` must contain two points of the curve for rule='uq360', got fewer. "
            "Use rule='exact', which has no such condition."
        )
    width = np.diff(x[begin : end + 1])
    return float(width @ (y[begin + 1 : end + 1] + y[begin:end]) / 2)


def _nearest(values: FloatArray, limit: float, *, total: float) -> int:
    nearness = -np.abs(values - limit)
    return int(np.argmax(reaches(nearness, nearness.max(), total=total)))
