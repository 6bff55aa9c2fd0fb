"""The uncertainty characteristics curve, its operating points and the areas under it.

The areas are exact, or they follow the rules of the paper or of UQ360.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skuq._numeric import ROUNDING, count_above, reaches, standard_deviation
from skuq._typing import ArrayLike, FloatArray
from skuq._validation import (
    as_float_array,
    check_finite,
    check_non_negative,
    check_number,
    check_option,
    check_rows,
    check_single_coverage,
)
from skuq.distributions import Distribution
from skuq.metrics._inputs import Forecast, check_forecast_or_bounds, counted, finite_moment, rows_with_weight
from skuq.metrics._intervals import SIDES
from skuq.metrics._ucc_kernels import BLOCK, Path, bias_path, scale_path

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


WIDTH_AXES = ("bandwidth", "excess")
MISS_AXES = ("miss_rate", "deficit")
VARY = ("scale", "bias")
ZERO_BANDS = ("keep", "min")


@dataclass(frozen=True)
class OperatingPoint:
    """Coordinates of the curve at one scale or bias of the bands.

    Parameters
    ----------
    parameter : float
        Factor of the bands (``vary="scale"``), or number added to the bands (``vary="bias"``).
    bandwidth : float
        Mean half width of the intervals, in the units of y.
    miss_rate : float
        Share of targets outside their interval.
    excess : float
        Mean distance of covered targets from the nearer bound, in the units of y. Missed targets count as 0.
    deficit : float
        Mean distance of missed targets from the nearer bound, in the units of y. Covered targets count as 0.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import uncertainty_characteristics_curve
    >>> curve = uncertainty_characteristics_curve([1.0, -3.0], Normal([0.0, 0.0], [1.0, 2.0]))
    >>> curve.at(1.0)
    OperatingPoint(parameter=1.0, bandwidth=1.5, miss_rate=0.5, excess=0.0, deficit=0.5)
    """

    parameter: float
    bandwidth: float
    miss_rate: float
    excess: float
    deficit: float


@dataclass(frozen=True, eq=False, repr=False)
class UncertaintyCharacteristicsCurve:
    """Width and misses of the bands at every scale; returned by `uncertainty_characteristics_curve`.

    The arrays of shape (m,) contain the corners of the curve in the order of increasing bands. At the first
    corner, the bands have width 0. At every later corner, the bands of one or more rows become wide enough to
    cover their targets. Between two corners, the miss rate is constant, and the other coordinates are linear.

    Parameters
    ----------
    parameter : ndarray of shape (m,)
        Factor of the bands, or number added to the bands. The values are strictly increasing.
    bandwidth, miss_rate, excess, deficit : ndarray of shape (m,)
        Coordinates at each corner. See `OperatingPoint`.
    vary : {"scale", "bias"}
        Meaning of the parameter.
    target_std : float
        Standard deviation of the targets. It is the unit if ``normalize="std"``.
    end_slopes : tuple of float
        Slopes of bandwidth and excess beyond the last corner.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import uncertainty_characteristics_curve
    >>> curve = uncertainty_characteristics_curve([1.0, -3.0], Normal([0.0, 0.0], [1.0, 2.0]))
    >>> curve
    UncertaintyCharacteristicsCurve(vary='scale', 3 corners)
    >>> curve.bandwidth, curve.miss_rate
    (array([0.  , 1.5 , 2.25]), array([1. , 0.5, 0. ]))
    >>> curve.area()
    1.875
    """

    parameter: FloatArray
    bandwidth: FloatArray
    miss_rate: FloatArray
    excess: FloatArray
    deficit: FloatArray
    vary: str
    target_std: float
    end_slopes: tuple[float, float]

    def __len__(self) -> int:
        return self.parameter.size

    def __repr__(self) -> str:
        return f"UncertaintyCharacteristicsCurve(vary={self.vary!r}, {len(self)} corners)"

    def at(self, parameter: float) -> OperatingPoint:
        """Return the exact operating point of one scale or bias.

        Parameters
        ----------
        parameter : float
            For ``vary="scale"``, a factor of at least 0. The factor 1 gives the original bands. For
            ``vary="bias"``, any number. The number 0 gives the original bands.

        Returns
        -------
        point : OperatingPoint
            Coordinates of the curve at this parameter. A corner that differs from the parameter only by
            rounding is at the parameter, so its targets are inside.
        """
        value = check_number(parameter, "parameter")
        if self.vary == "scale" and value < 0:
            raise ValueError(f"`parameter` must be non-negative for vary='scale', got {value:g}.")
        # The miss rate is constant between corners; the other coordinates are linear.
        scale = max(abs(value), float(np.abs(self.parameter).max())) if self.vary == "bias" else value
        reached = int(np.searchsorted(self.parameter, value + ROUNDING * scale, side="right"))
        position = max(reached - 1, 0)
        # np.interp would be constant beyond the last corner.
        beyond = max(value - float(self.parameter[-1]), 0.0)
        bandwidth, excess, deficit = (
            float(np.interp(value, self.parameter, column))
            for column in (self.bandwidth, self.excess, self.deficit)
        )
        return OperatingPoint(
            value,
            bandwidth + self.end_slopes[0] * beyond,
            float(self.miss_rate[position]),
            excess + self.end_slopes[1] * beyond,
            deficit,
        )

    def operating_point(self, *, miss_rate: float) -> OperatingPoint:
        """Return the narrowest bands that miss at most a given share of the targets.

        Parameters
        ----------
        miss_rate : float
            Largest acceptable miss rate, in [0, 1]. The limit holds for the rows of the curve. To limit the
            miss rate of new rows, compute the curve on rows that the model was not trained on.

        Returns
        -------
        point : OperatingPoint
            Coordinates of the narrowest bands, and their scale or bias.
        """
        limit = check_number(miss_rate, "miss_rate")
        if not 0 <= limit <= 1:
            raise ValueError(f"`miss_rate` must lie in [0, 1], got {limit:g}.")
        position = count_above(self.miss_rate, limit)
        if position == len(self):
            raise ValueError(
                f"`miss_rate` must be at least {self.miss_rate[-1]:g}, got {limit:g}. Bands of width 0 keep "
                "the width 0 at any factor. Use vary='bias' or zero_band='min'."
            )
        return self._corner(position)

    def optimum(
        self,
        *,
        cost: float | tuple[float, float] = 0.5,
        x_axis: str = "bandwidth",
        y_axis: str = "miss_rate",
    ) -> OperatingPoint:
        r"""Return the point of minimum linear cost.

        Parameters
        ----------
        cost : float or pair of float, default=0.5
            Costs of width and misses. A number is the weight c in [0, 1] of eq. 20, :math:`C(k) = c\,x(k) +
            (1 - c)\,y(k)`. A pair contains the non-negative costs of one unit of x and of one unit of y.
        x_axis : {"bandwidth", "excess"}, default="bandwidth"
            Coordinate on the x axis. Both options measure the width of the bands.
        y_axis : {"miss_rate", "deficit"}, default="miss_rate"
            Coordinate on the y axis. Both options measure the missed targets.

        Returns
        -------
        point : OperatingPoint
            Coordinates of the cheapest bands, and their scale or bias. If several points have the smallest
            cost, the result is the point with the narrowest bands. ``at(1.0)`` returns the unscaled bands, or
            ``at(0.0)`` for ``vary="bias"``.

        Notes
        -----
        Let x be the bandwidth, y the deficit and c = alpha / (1 + alpha). Then 2 (1 + alpha) / alpha C(k) is
        the mean interval score, at coverage 1 - alpha, of the bands scaled by k. Remark 3 of Navratil et al.
        (2023) states this equality with the miss rate as y and with another c. That statement is wrong.
        """
        _check_axes(x_axis, y_axis)
        x_cost, y_cost = _check_cost(cost)
        # Between corners, the cost is linear, and at a corner the miss rate decreases. The minimum is at a
        # corner.
        costs = x_cost * getattr(self, x_axis) + y_cost * getattr(self, y_axis)
        # Several costs may equal the minimum up to rounding. The first of them has the narrowest bands.
        return self._corner(int(np.argmax(reaches(-costs, -costs.min(), total=float(costs.min())))))

    def area(
        self,
        *,
        x_axis: str = "bandwidth",
        y_axis: str = "miss_rate",
        x_range: tuple[float, float] | None = None,
        y_range: tuple[float, float] | None = None,
        rule: str = "exact",
        normalize: str | float | None = None,
        per_range: bool = False,
    ) -> float:
        """Return the area under the curve or under a part of it.

        Parameters
        ----------
        x_axis : {"bandwidth", "excess"}, default="bandwidth"
            Coordinate on the x axis. Both options measure the width of the bands.
        y_axis : {"miss_rate", "deficit"}, default="miss_rate"
            Coordinate on the y axis. Both options measure the missed targets.
        x_range, y_range : pair of float, default=None
            Closed range of x or y for a partial area. Pass at most one of the two. The result is the area
            between this part of the curve and the x axis. The curve is cut exactly at the limits.
        rule : {"exact", "rectangle", "trapezoid", "uq360"}, default="exact"
            "exact" is the integral of the curve. "rectangle" is the sum of eq. 14, which uses the value at
            the right end of each step. "trapezoid" uses straight lines between the corners. "uq360" is the
            rule of the package UQ360: it uses straight lines between the corners, starts at the first corner
            with bands wider than 0, and moves the limits to the nearest corners.
        normalize : "std", float or None, default=None
            Unit of all axes except the miss rate, and of the ranges. "std" is the standard deviation of the
            targets. None means the units of y. If all targets are equal, "std" means the units of y too.
        per_range : bool, default=False
            Whether to divide a partial area by the length of the range.

        Returns
        -------
        area : float
            The smaller the better, minimum is zero. Infinite if some targets are not covered at any
            factor.
        """
        ranges = check_part(x_axis=x_axis, y_axis=y_axis, x_range=x_range, y_range=y_range, rule=rule)
        limits = ranges[0] or ranges[1]
        if per_range and limits and np.isinf(limits[1]):
            raise ValueError("`per_range` must be False for an infinite range, got True.")
        unit = self._unit(normalize)
        columns = getattr(self, x_axis) / unit, getattr(self, y_axis) / (unit if y_axis == "deficit" else 1.0)
        if rule == "uq360":
            if limits is None and self.miss_rate[-1] > 0:
                return float(np.inf)
            # The curve of UQ360 begins at the smallest critical value, where the miss rate first decreases.
            critical = np.diff(self.miss_rate, prepend=1.0) < 0
            columns = columns[0][critical], columns[1][critical]
        part = {"x_range": ranges[0], "y_range": ranges[1]}
        value = area(columns[0], columns[1], step=y_axis == "miss_rate", rule=rule, **part)
        length = limits[1] - limits[0] if per_range and limits else 1.0
        return value / length

    def _corner(self, position: int) -> OperatingPoint:
        columns = (self.parameter, self.bandwidth, self.miss_rate, self.excess, self.deficit)
        return OperatingPoint(*(float(column[position]) for column in columns))

    def _unit(self, normalize: str | float | None) -> float:
        unit = check_unit(normalize)
        # Constant targets have a standard deviation of 0.
        return (self.target_std or 1.0) if unit is None else unit


def uncertainty_characteristics_curve(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    bands: str | float = "std",
    point: ArrayLike | None = None,
    vary: str = "scale",
    side: str = "nearest",
    zero_band: str = "keep",
) -> UncertaintyCharacteristicsCurve:
    r"""Return the uncertainty characteristics curve (UCC): the trade-off between width and miss rate.

    All bands are multiplied by a factor k that increases from 0 until the bands cover every target. The curve
    contains the mean bandwidth, miss rate, excess and deficit at each k. A lower curve is better. If two
    curves cross, the better model depends on the acceptable miss rate. A common factor of all bands does not
    change the curve, so the curve does not depend on calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution, frozen scipy distribution, or array-like of shape (n, 2)
        Forecast of every target. An array holds finite lower and upper bounds.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    bands : {"std", "constant"} or float, default="std"
        Bands of a distribution. "std" is one standard deviation on each side of the mean. "constant" is the
        same band for every row. These bands are the reference of the paper. A number is the coverage of a
        central interval. The bands then extend from the median to the bounds of this interval and may be
        asymmetric. If `y_pred` holds bounds, omit `bands` or pass "constant".
    point : array-like of shape (n,), default=None
        Point predictions from which the bands extend to both sides. They must lie inside the bounds. None
        means the mean for "std" and "constant", the median if `bands` is a number, and the middle of the
        bounds if `y_pred` holds bounds.
    vary : {"scale", "bias"}, default="scale"
        Whether the bands are multiplied by a factor ("scale"), or a number is added to the bands ("bias").
        This number may be negative, but bands are never negative.
    side : {"nearest", "active"}, default="nearest"
        Bound to which the excess is measured. "nearest" is the nearer bound (eq. 6). "active" is the bound on
        the same side of the point prediction as the target (as in the package UQ360). The two options differ
        only for asymmetric bands.
    zero_band : {"keep", "min"}, default="keep"
        Treatment of bands of width 0. "keep" leaves these bands unchanged. A target that differs from its
        point prediction is then missed at every factor. "min" replaces these bands with the smallest positive
        band on the same side, as in UQ360.

    Returns
    -------
    curve : UncertaintyCharacteristicsCurve
        Corners of the curve as arrays, with methods for areas, operating points and least cost.

    See Also
    --------
    auucc_loss : The area under the curve.
    auucc_gain_score : The area compared with constant bands.
    compare_characteristics_curves : The comparison of several models.

    Notes
    -----
    The critical scale :math:`k_i = |y_i - \hat y_i| / z_i` is the factor at which the band of row i just
    reaches the target (eq. 8). The rows are sorted by this scale. Let :math:`A_i` be the sum of the first i
    bands :math:`z`, and :math:`D_i` the sum of the first i absolute errors. For symmetric bands,

    .. math:: \rho = 1 - \tfrac in, \quad \beta = k_i \bar z, \quad \xi = \tfrac1n (k_i A_i - D_i), \quad
        \delta = \tfrac1n \bigl( (D_n - D_i) - k_i (A_n - A_i) \bigr)

    The cost is one sort, O(n log n). If several rows have the same scale, the coordinates are computed at the
    last of these rows (lemma 1).

    References
    ----------
    .. [1] Navratil et al. (2023), Assessment of prediction intervals using uncertainty characteristics
       curves, algorithm 1 and section 6.1. https://doi.org/10.48550/arXiv.2310.03158

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import uncertainty_characteristics_curve
    >>> y = [1.0, -3.0, 0.5]
    >>> curve = uncertainty_characteristics_curve(y, Normal([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]))
    >>> curve.parameter.round(3), curve.miss_rate.round(3)
    (array([0. , 0.167, 1. , 1.5 ]), array([1. , 0.667, 0.333, 0. ]))
    >>> round(curve.area(), 4), round(curve.operating_point(miss_rate=0.4).bandwidth, 4)
    (1.7778, 2.0)
    >>> best = curve.optimum(cost=0.1)  # a miss costs nine times as much as a unit of bandwidth
    >>> round(best.parameter, 3), round(0.1 * best.bandwidth + 0.9 * best.miss_rate, 3)
    (1.5, 0.3)
    """
    check_option(vary, "vary", VARY)
    check_option(side, "side", SIDES)
    check_option(zero_band, "zero_band", ZERO_BANDS)
    y, forecast, weight = check_forecast_or_bounds(y_true, y_pred, sample_weight)
    if isinstance(forecast, Distribution):
        bands = check_bands(bands)
    elif bands not in ("std", "constant"):
        raise ValueError(f"`bands` must be omitted or 'constant' if `y_pred` holds bounds, got {bands!r}.")
    center = None
    if point is not None:
        center = check_finite(as_float_array(point, "point"), "point")
        center = counted(check_rows(center, "point", np.shape(y_true)[0]), sample_weight)
    found = bands_around(y, forecast, bands, center)
    weight = np.ones(y.size) if weight is None else weight
    return curve_of_bands(found, weight, vary=vary, zero_band=zero_band, side=side)


class Bands(NamedTuple):
    """Errors and bands of rows.

    If the bands are symmetric, ``lower`` and ``upper`` are the same array.
    """

    error: FloatArray
    lower: FloatArray
    upper: FloatArray
    y: FloatArray


def check_bands(bands: str | float) -> str | float:
    if isinstance(bands, str):
        return str(check_option(bands, "bands", ("std", "constant")))
    return check_single_coverage(bands, "bands")


def bands_around(
    y: FloatArray, forecast: Forecast, bands: str | float, center: FloatArray | None = None
) -> Bands:
    """Return the bands around point predictions. None means the mean, the median or the middle of bounds."""
    bounds = None
    if not isinstance(forecast, Distribution):
        bounds = check_finite(forecast, "y_pred")
        center = bounds.mean(axis=1) if center is None else center
    elif isinstance(bands, float):
        bounds = check_finite(forecast.interval(bands), "y_pred")
        center = forecast.median() if center is None else center
    elif center is None:
        center = finite_moment(forecast, "mean")
    if bands == "constant":
        band = np.ones_like(y)
    elif bounds is None:
        band = finite_moment(forecast, "std")  # type: ignore[arg-type]  # Only a distribution has no bounds.
    else:
        return _between(y, bounds, center)
    return Bands(y - center, band, band, y)


def _between(y: FloatArray, bounds: FloatArray, center: FloatArray) -> Bands:
    lower, upper = center - bounds[:, 0], bounds[:, 1] - center
    outside = (lower < 0) | (upper < 0)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"`point` must lie inside the interval of its row, got {center[row]:g} outside "
            f"[{bounds[row, 0]:g}, {bounds[row, 1]:g}] at row {row}."
        )
    rounding = 4 * np.spacing(np.abs(bounds).max(axis=1))
    if np.all(np.abs(upper - lower) <= rounding):
        lower = upper = (bounds[:, 1] - bounds[:, 0]) / 2
    return Bands(y - center, lower, upper, y)


def curve_of_bands(
    bands: Bands, weight: FloatArray, *, vary: str, zero_band: str, side: str = "nearest"
) -> UncertaintyCharacteristicsCurve:
    error, lower, upper, y, weight = rows_with_weight(weight, *bands)
    if zero_band == "min":
        lower, upper = _without_zeros(lower), _without_zeros(upper)
    trace = scale_path if vary == "scale" else bias_path
    path: Path = trace(error, lower, lower if bands.lower is bands.upper else upper, weight, side)
    return UncertaintyCharacteristicsCurve(
        *path[:5], vary=vary, target_std=standard_deviation(y, weight), end_slopes=path.end_slopes
    )


def _without_zeros(band: FloatArray) -> FloatArray:
    positive = band > 0
    if not positive.any():
        raise ValueError("`zero_band` must be 'keep' if no band is positive, got 'min'.")
    return np.where(positive, band, band[positive].min())


def _check_axes(x_axis: str, y_axis: str) -> None:
    check_option(x_axis, "x_axis", WIDTH_AXES)
    check_option(y_axis, "y_axis", MISS_AXES)


def check_part(
    *,
    x_axis: str = "bandwidth",
    y_axis: str = "miss_rate",
    x_range: object = None,
    y_range: object = None,
    rule: str = "exact",
) -> tuple[Range | None, Range | None]:
    _check_axes(x_axis, y_axis)
    check_option(rule, "rule", RULES)
    ranges = check_range(x_range, "x_range"), check_range(y_range, "y_range")
    if ranges[0] and ranges[1]:
        raise ValueError("`x_range` and `y_range` must not both be given.")
    return ranges


def check_unit(normalize: object) -> float | None:
    if normalize is None:
        return 1.0
    if isinstance(normalize, str):
        check_option(normalize, "normalize", ("std",))
        return None
    return check_number(normalize, "normalize", positive=True)


def _check_cost(cost: float | tuple[float, float]) -> tuple[float, float]:
    if np.ndim(cost) == 0:
        c = check_number(cost, "cost")
        if not 0 <= c <= 1:
            raise ValueError(f"`cost` must lie in [0, 1], or be a pair of costs, got {c:g}.")
        return c, 1 - c
    pair = as_float_array(cost, "cost")
    check_rows(pair, "cost", 2)
    check_non_negative(check_finite(pair, "cost"), "cost")
    return float(pair[0]), float(pair[1])
