"""Computation of all four coordinates of the uncertainty characteristics curve from sorted critical values.

Every coordinate except the miss rate is a sum of hinge functions a (t - t_i)_+ of the parameter t. If the t_i
are sorted, two running sums give all points of the curve in O(n log n) time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skuq._numeric import ROUNDING, last_of_ties, weighted_mean
from skuq._typing import FloatArray

BLOCK = 2**13
"""Number of rows per block. For blocks of this size, BLAS computes a dot product in one thread."""


class Path(NamedTuple):
    """Corners of the curve.

    Between two corners, the miss rate is constant and the other coordinates are linear.
    """

    parameter: FloatArray
    bandwidth: FloatArray
    miss_rate: FloatArray
    excess: FloatArray
    deficit: FloatArray
    end_slopes: tuple[float, float]
    """Slopes of the bandwidth and of the excess beyond the last corner."""


def critical_scales(error: FloatArray, lower_band: FloatArray, upper_band: FloatArray) -> FloatArray:
    """Return the scale at which the active band reaches the target (equation 8). The quotient 0 / 0 is 0."""
    band = _active(error, lower_band, upper_band)
    with np.errstate(over="ignore"):  # A scale that overflows becomes infinite, as for a band of 0.
        if band.min() > 0:
            scale = np.abs(error)
            scale /= band
            return scale
        k = np.where(error == 0, 0.0, np.inf)
        np.divide(np.abs(error), band, out=k, where=band > 0)
    return k


def scale_path(
    error: FloatArray, lower: FloatArray, upper: FloatArray, weight: FloatArray, side: str
) -> Path:
    """Return the curve for a factor k >= 0 that multiplies all bands.

    The coordinates at 0 and at the sorted critical scales are computed from running sums.
    """
    active, total = _active(error, lower, upper), weight.sum()
    k = critical_scales(error, lower, upper)
    order = np.argsort(k)
    # A row with an error and a band of 0 is missed at every scale. Such a row adds a constant to the
    # deficit but no corner.
    constant_deficit = 0.0
    if k[order[-1]] == np.inf:
        never_covered = k == np.inf
        constant_deficit = float(weight[never_covered] @ np.abs(error[never_covered])) / total
        order = order[: np.count_nonzero(~never_covered)]
    band = weighted_mean(lower if lower is upper else (lower + upper) / 2, weight)
    whole_band = weighted_mean(active, weight)
    whole_error = weighted_mean(np.abs(error), weight) - constant_deficit
    m = order.size
    t, bandwidth, miss_rate, excess, deficit = (np.empty(m + 1) for _ in range(5))
    # At k = 0, every row is missed, and the distance from the band is the error.
    t[0], bandwidth[0], miss_rate[0], excess[0], deficit[0] = 0.0, 0.0, 1.0, 0.0, whole_error
    sums = np.zeros(3)  # Sums of errors, of half-widths on the side of y, and of weights.
    for start in range(0, m, BLOCK):
        rows = order[start : start + BLOCK]
        here = slice(start + 1, start + 1 + rows.size)
        scale = k[rows]
        part = weight[rows]
        slope = active[rows] * part
        slope /= total
        # The error of a row is k_i z_i, because its band reaches the target at k_i (eq. 8).
        error_sum, band_sum = np.cumsum(slope * scale) + sums[0], np.cumsum(slope) + sums[1]
        # A sum of weights is divided at the end, because sums of counts are exact.
        weight_sum = np.cumsum(part) + sums[2]
        np.subtract(1.0, weight_sum / total, out=miss_rate[here])
        t[here] = scale
        np.multiply(scale, band, out=bandwidth[here])
        # Rounding may make the difference of nearly equal sums negative.
        np.maximum(scale * band_sum - error_sum, 0.0, out=excess[here])
        np.maximum((whole_error - error_sum) - scale * (whole_band - band_sum), 0.0, out=deficit[here])
        sums[:] = error_sum[-1], band_sum[-1], weight_sum[-1]
    # The last scale covers all rows with a finite scale, so the deficit there is exactly 0.
    deficit[-1] = 0.0 if m else whole_error
    deficit += constant_deficit
    if m == k.size:
        miss_rate[-1] = 0.0
    path = _without_ties(Path(t, bandwidth, miss_rate, excess, deficit, (band, whole_band)))
    if side == "active" or lower is upper or np.array_equal(lower, upper):
        return path
    return _with_nearest_excess(path, error, lower, upper, active, weight)


def _without_ties(path: Path) -> Path:
    """Return one corner per distinct scale. Of several equal scales, the last is kept (lemma 1)."""
    t = path.parameter
    last = last_of_ties(t, ROUNDING * t[1:])
    if last.all():
        return path
    t, bandwidth, miss_rate, excess, deficit = (column[last] for column in path[:5])
    return Path(t, bandwidth, miss_rate, excess, deficit, path.end_slopes)


def bias_path(error: FloatArray, lower: FloatArray, upper: FloatArray, weight: FloatArray, side: str) -> Path:
    """Return the curve for a bias b that is added to all bands. Negative bands are replaced by 0."""
    active, share = _active(error, lower, upper), weight / weight.sum()
    first = -max(float(lower.max()), float(upper.max()))
    critical = np.abs(error)
    mean_error = float(share @ critical)
    critical -= active  # This is |e| - z, the bias at which the band reaches the target, computed in place.
    ends = [-active] if lower is upper else [-lower, -upper]
    turns, other, turn_share = _turns(error, active, lower, upper, share) if side == "nearest" else _NO_TURNS
    t = np.unique(np.concatenate([[first], critical, *ends, turns]))
    t = t[last_of_ties(t, ROUNDING * max(-first, float(t[-1])))]
    del ends  # This frees the memory of an array of n numbers.
    # The excess of a covered target is (b + z) - |e|, a hinge function with its kink at the critical bias.
    excess = hinge_sum(t, critical, share)
    # This is the mean active band; the deficit is computed from it below.
    deficit = hinge_sum(t, -active, share)
    if lower is upper:
        bandwidth = deficit.copy()
    else:
        bandwidth = (hinge_sum(t, -lower, share) + hinge_sum(t, -upper, share)) / 2
    # In every row |e| - band = deficit - excess, because one of the two is 0.
    np.subtract(excess, deficit, out=deficit)
    deficit += mean_error
    # The excess of a row is |e| from its turn (see `_turns`) until its inactive band is wider than 0.
    if turns.size:
        excess += hinge_sum(t, -other, turn_share) - hinge_sum(t, turns, turn_share)
    critical[error == 0] = first  # A band of any width covers a target that equals the prediction.
    miss_rate = 1.0 - _covered(t, critical, weight)
    np.maximum(excess, 0.0, out=excess)
    np.maximum(deficit, 0.0, out=deficit)
    deficit[miss_rate <= 0] = 0.0
    return Path(t, bandwidth, miss_rate, excess, deficit, (1.0, 1.0))


_NO_TURNS = (np.empty(0), np.empty(0), np.empty(0))


def _turns(
    error: FloatArray, active: FloatArray, lower: FloatArray, upper: FloatArray, share: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the turns: the biases at which the inactive bound of a row becomes the nearer bound.

    Also return the inactive bands and the weights of these rows.
    """
    if lower is upper:
        return _NO_TURNS
    other = np.where(error >= 0, lower, upper)
    rows = np.flatnonzero(active - other > 2 * np.abs(error))
    return 2 * np.abs(error[rows]) - active[rows], other[rows], share[rows]


def hinge_sum(t: FloatArray, places: FloatArray, slopes: FloatArray) -> FloatArray:
    """Return the weighted sum of the hinge functions (t - place)_+."""
    ordered, slope = _in_order(places, slopes)
    index = np.searchsorted(ordered, t, side="right")
    ordered *= slope
    offset = np.concatenate([[0.0], np.cumsum(ordered, out=ordered)])
    rise = np.concatenate([[0.0], np.cumsum(slope, out=slope)])
    return np.asarray(t * rise[index] - offset[index])


def _with_nearest_excess(
    path: Path,
    error: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    active: FloatArray,
    weight: FloatArray,
) -> Path:
    """Add the corners at which the inactive bound becomes the nearer bound, and correct the excess."""
    surplus = active - np.where(error >= 0, lower, upper)
    rows = np.flatnonzero(surplus > 0)
    # At the turn, the target is in the middle of its interval: k z_active - |e| = k z_other + |e|.
    turn = 2 * np.abs(error[rows]) / surplus[rows]
    slopes = surplus[rows] * (weight[rows] / weight.sum())
    t = np.union1d(path.parameter, turn)
    band, slope = path.end_slopes
    beyond = np.maximum(t - path.parameter[-1], 0.0)
    # At scales above the turn, the excess of a row is smaller by (z_active - z_other) (k - turn).
    excess = np.interp(t, path.parameter, path.excess) + slope * beyond - hinge_sum(t, turn, slopes)
    with_turns = Path(
        t,
        band * t,
        path.miss_rate[np.searchsorted(path.parameter, t, side="right") - 1],
        np.maximum(excess, 0.0),
        np.interp(t, path.parameter, path.deficit),
        (band, slope - float(slopes.sum())),
    )
    return _without_ties(with_turns)


def _active(error: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    return upper if lower is upper else np.where(error >= 0, upper, lower)


def _covered(t: FloatArray, critical: FloatArray, weight: FloatArray) -> FloatArray:
    ordered, mass = _in_order(critical, weight)
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    return np.asarray(cumulative[np.searchsorted(ordered, t, side="right")] / cumulative[-1])


def _in_order(places: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return copies of the places in increasing order, and of their weights."""
    if weights.size and (weights == weights[0]).all():  # The order of the rows is not needed.
        return np.sort(places), weights.copy()
    order = np.argsort(places)
    return places[order], weights[order]
