"""Kernels that several families of metrics share.

The currency is the place of the target in its distribution: its PIT u = F(y) or, where all rows are
of one location-scale family, z = (y - loc) / scale, whose order statistics are compared with
standard quantiles so that no n-fold cdf is needed.
"""

from __future__ import annotations

import numpy as np

from skuq._typing import ArrayLike, FloatArray, IntArray
from skuq._validation import as_float_array, check_integer, check_option
from skuq.distributions import Distribution

KINDS = ("quantile", "interval")


def weighted_mean(values: FloatArray, weight: FloatArray | None) -> float:
    """Return the mean of a value per row, in which weights count repetitions."""
    if weight is None:
        return float(values.mean())
    return float(weight @ values / weight.sum())


def level_grid(levels: int | ArrayLike, name: str = "levels", *, closed: bool = False) -> FloatArray:
    """Return probability levels: an integer m stands for i / (m + 1), i = 1..m.

    `closed` admits 0 and 1 themselves.
    """
    if np.ndim(levels) == 0 and isinstance(levels, int | np.integer):
        m = check_integer(levels, name)
        return np.arange(1, m + 1) / (m + 1)
    grid = np.atleast_1d(as_float_array(levels, name))
    if grid.ndim != 1 or grid.size == 0:
        raise ValueError(
            f"`{name}` must be an integer, a number or a non-empty 1-D array, got shape {grid.shape}."
        )
    good = (grid >= 0) & (grid <= 1) if closed else (grid > 0) & (grid < 1)
    if not good.all():
        where = "in [0, 1]" if closed else "strictly between 0 and 1"
        raise ValueError(f"`{name}` must lie {where}, got {grid[~good][0]:g}.")
    return grid


def location_scale(dist: Distribution) -> tuple[FloatArray, FloatArray, Distribution] | None:
    """Return (loc, scale, standard distribution) where the family has one and every scale is positive."""
    form = dist._standard_form()
    return None if form is None or not np.all(form[1] > 0) else form


def observed_proportions(
    y: FloatArray, dist: Distribution, levels: FloatArray, kind: str, weight: FloatArray | None
) -> FloatArray:
    """Return for each level the share of targets that the quantile or central interval takes in.

    ``kind="quantile"`` counts y <= Q(p) and ``kind="interval"`` Q((1-p)/2) <= y <= Q((1+p)/2).
    One sort where the distributions are continuous; with atoms, a search over the levels.
    """
    check_option(kind, "kind", KINDS)
    lower, upper = (None, levels) if kind == "quantile" else ((1 - levels) / 2, (1 + levels) / 2)
    if not dist.has_density:
        shares = _share_below(y, dist, upper, weight, strict=False)
        return shares if lower is None else shares - _share_below(y, dist, lower, weight, strict=True)
    form = location_scale(dist)
    if form is None:
        return _share_between(dist.cdf(y), lower, upper, weight)
    loc, scale, standard = form
    lower = None if lower is None else standard.quantile(lower)[0]
    return _share_between((y - loc) / scale, lower, standard.quantile(upper)[0], weight)


def _share_between(
    values: FloatArray, lower: FloatArray | None, upper: FloatArray, weight: FloatArray | None
) -> FloatArray:
    """Return the weight share of values in each closed interval; ``lower=None`` leaves it open below."""
    if weight is None:
        ordered = np.sort(values)
        cumulative: FloatArray | IntArray = np.arange(values.size + 1)
    else:
        order = np.argsort(values)
        ordered = values[order]
        cumulative = np.concatenate([[0.0], np.cumsum(weight[order])])
    share = cumulative[np.searchsorted(ordered, upper, side="right")]
    if lower is not None:
        share = share - cumulative[np.searchsorted(ordered, lower, side="left")]
    return np.asarray(share / cumulative[-1], dtype=np.float64)


def _share_below(
    y: FloatArray, dist: Distribution, levels: FloatArray, weight: FloatArray | None, *, strict: bool
) -> FloatArray:
    """Return for each level the weight share of y <= Q(level), or y < Q(level), atoms included."""
    ordered, places = np.unique(levels, return_inverse=True)
    first = _first_level_above(y, dist, ordered, strict=strict)
    counts = np.bincount(first, weight, minlength=ordered.size + 1)
    share = np.cumsum(counts)[:-1] / counts.sum()
    return np.asarray(share[places.ravel()], dtype=np.float64)


def _first_level_above(y: FloatArray, dist: Distribution, levels: FloatArray, *, strict: bool) -> IntArray:
    """Return per row the first of the increasing levels whose quantile is not below y, by bisection.

    A quantile function is monotone, so log2(k) calls of ``ppf`` replace k.
    """
    low = np.zeros(y.size, dtype=np.intp)
    high = np.full(y.size, levels.size, dtype=np.intp)
    while np.any(low < high):
        middle = (low + high) // 2
        quantile = dist.ppf(levels[np.minimum(middle, levels.size - 1)])
        above = (quantile > y) if strict else (quantile >= y)
        active = low < high
        high = np.where(active & above, middle, high)
        low = np.where(active & ~above, middle + 1, low)
    return low
