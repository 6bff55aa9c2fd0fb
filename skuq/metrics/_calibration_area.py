"""Area between the calibration curve and the diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from skuq._typing import ArrayLike, FloatArray
from skuq._validation import check_increasing, check_option
from skuq.distributions import Distribution
from skuq.metrics._inputs import check_forecast
from skuq.metrics._kernels import BLOCK, level_grid
from skuq.metrics._levels import KINDS, Entry, covered_weight, entries, observed_uniform, one_bin
from skuq.metrics._spec import FastPath, Merging, OrderedWeights, WeightFunction, metric

_NO_RAMP = 1e-9
"""A ramp that is shorter than this counts as a jump, because rounding errors would dominate its slope."""


def check_area(*, kind: str = "quantile", levels: int | ArrayLike | None = None) -> FloatArray | None:
    check_option(kind, "kind", KINDS)
    return None if levels is None else _increasing_grid(levels)


def area_of_weights(
    y: FloatArray, dist: Distribution, *, kind: str = "quantile", levels: int | ArrayLike | None = None
) -> WeightFunction:
    grid = check_area(kind=kind, levels=levels)
    if grid is not None:
        covered = covered_weight(y, dist, grid, kind)

        def of_lines(weight: FloatArray | None) -> float:
            bins = one_bin(y.size, weight)
            return area_of_lines(grid, covered(bins)[0] / bins.totals()[0])

        return of_lines
    parts = entries(y, dist, kind)
    return area_of_steps(parts[0].start) if dist.has_density else area_of_ramps(parts)


def area_of_uniform(
    entry: FloatArray, *, kind: str = "quantile", levels: int | ArrayLike | None = None
) -> float:
    if levels is None:
        return _area_below_steps(entry, np.asarray(1 / entry.size), np.arange(entry.size) / entry.size)
    grid = _increasing_grid(levels)
    return area_of_lines(grid, observed_uniform(entry, grid))


def area_of_steps(entry: FloatArray) -> WeightFunction:
    """Return the area between the diagonal and a curve with steps at ``entry``, as a function of weights."""
    order = np.argsort(entry)
    rising = entry[order]

    def of_ordered(weight: FloatArray | None) -> float:
        if weight is None:
            return area_of_uniform(rising)
        area, before, total = 0.0, 0.0, weight.sum()
        for start in range(0, rising.size, BLOCK):  # A block of rows fits into the processor's cache.
            rows = slice(start, start + BLOCK)
            step = weight[rows] / total
            with_it = before + np.cumsum(step)
            area += _area_below_steps(rising[rows], step, with_it - step)
            before = with_it[-1]
        return area

    return OrderedWeights(order, of_ordered)


def _area_below_steps(rising: FloatArray, step: FloatArray, before: FloatArray) -> float:
    gap = rising - before
    area = float(gap @ np.abs(gap))
    gap -= step
    return (area - float(gap @ np.abs(gap))) / 2


def area_of_ramps(parts: list[Entry]) -> WeightFunction:
    """Return the area for covered shares that rise linearly, as a function of weights."""
    starts, stops, share = (np.concatenate(numbers) for numbers in zip(*parts, strict=True))
    ramp = stops - starts > _NO_RAMP
    levels = np.unique(np.concatenate([[0.0, 1.0], starts, stops]))
    start, stop = np.searchsorted(levels, starts), np.searchsorted(levels, stops)
    ends = np.concatenate([start[ramp], stop[ramp]])

    def of_weights(weight: FloatArray | None) -> float:
        part = share if weight is None else share * np.tile(weight, len(parts))
        part = part / part.sum()
        slope = part[ramp] / (stops - starts)[ramp]
        turns = np.bincount(ends, np.concatenate([slope, -slope]), levels.size)
        jumps = np.bincount(start[~ramp], part[~ramp], levels.size)
        rises = np.concatenate([[0.0], np.cumsum(turns)[:-1] * np.diff(levels)])
        above = np.cumsum(rises + jumps)
        return area_of_lines(np.repeat(levels, 2), np.column_stack([above - jumps, above]).ravel())

    return of_weights


def _increasing_grid(levels: int | ArrayLike) -> FloatArray:
    grid = check_increasing(level_grid(levels, closed=True), "levels")
    if grid.size < 2:
        raise ValueError("`levels` must contain at least two levels, got one.")
    return grid


def area_of_lines(levels: FloatArray, observed: FloatArray) -> float:
    gap, width = observed - levels, np.diff(levels)
    left, right = gap[:-1], gap[1:]
    size = np.abs(left) + np.abs(right)
    crossing = left * right < 0
    height = np.where(crossing, (left**2 + right**2) / np.where(size == 0, 1.0, size), size)
    return float((height * width).sum() / 2)


@metric(
    "miscal_area",
    title="Miscalibration area",
    units=0,
    direction="lower",
    optimum=0.0,
    bounds=(0.0, 1.0),
    needs="distribution",
    proper=False,
    small_sample=True,
    source="Tran et al. 2020; Chung et al. 2021",
    meaning="the distance of the calibration curve from the diagonal is {value} on average",
    fast=FastPath(of_weights=area_of_weights, of_uniform=area_of_uniform),
    merging=Merging(
        needs=("calibration",),
        value=lambda curve, **_: area_of_lines(curve.levels, curve.observed),
        exact=lambda *, levels, **_: levels is not None,
    ),
    check=check_area,
)
def miscalibration_area(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    kind: str = "quantile",
    levels: int | ArrayLike | None = None,
) -> float:
    r"""Return the exact area between the calibration curve and the diagonal.

    The smaller the better, minimum is zero. The area is the limit of `mean_absolute_calibration_error` for
    many equally spaced levels, so no levels have to be chosen. With ``kind="quantile"``, the area is the
    Wasserstein-1 distance between the PIT values and the uniform distribution. The metric is not proper: a
    forecast that ignores X can have a better value than a useful, slightly miscalibrated model (see the
    example). Select models by `crps_loss`.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    kind : {"quantile", "interval"}, default="quantile"
        Definition of the observed share at level p. "quantile" is the share of targets that are at most the
        quantile at level p. "interval" is the share of targets inside the central interval of coverage p.
        With "interval", a bias may remain undetected.
    levels : int or array-like of shape (k,), default=None
        None computes the exact area between the diagonal and the calibration curve, which is a step function.
        If levels are given, the curve is computed at these levels and is linear between them. Pass at least
        two increasing levels in [0, 1]. Uncertainty Toolbox uses ``np.linspace(0, 1, 100)`` and
        ``kind="interval"``.

    Returns
    -------
    area : float
        In [0, 0.5]. For a calibrated forecast, the expected area is about ``0.31 / sqrt(n)``.

    Warns
    -----
    SmallSampleWarning
        If there are fewer than 500 rows.

    See Also
    --------
    mean_absolute_calibration_error : Mean over levels. This is the usual definition in the literature.

    Notes
    -----
    .. math:: \int_0^1 |\hat p(p) - p| dp, \quad \hat p(p) = \frac1n \sum_i 1\{F_i(y_i) \le p\}

    The curve jumps at the PIT of each row, so the integral is a sum over the sorted PIT values. The cost is
    one evaluation of the cdf per row and one sort.

    References
    ----------
    .. [1] Tran et al. (2020), Methods for comparing uncertainty quantifications for material property
       predictions. https://doi.org/10.1088/2632-2153/ab7e1a
    .. [2] Chung et al. (2021), Uncertainty Toolbox. https://doi.org/10.48550/arXiv.2109.10254

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import crps_loss, miscalibration_area
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = x + rng.normal(scale=0.3, size=2000)
    >>> useful = Normal(x, np.full(2000, 0.4))  # depends on x, slightly too wide
    >>> climatology = Normal(np.zeros(2000), np.full(2000, np.std(y)))  # the same for every row
    >>> [round(miscalibration_area(y, dist), 2) for dist in (useful, climatology)]
    [0.04, 0.01]
    >>> [round(crps_loss(y, dist), 2) for dist in (useful, climatology)]
    [0.17, 0.59]
    """
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    return area_of_weights(y, dist, kind=kind, levels=levels)(weight)
