"""Murphy diagrams: the mean elementary score of point forecasts at each threshold.

The elementary score of a point forecast x and a target y is 0 unless the threshold theta lies between x and
y. A row is active at the thresholds in this interval. The sum over all active rows is a difference: the sum
over the rows whose interval has begun, minus the sum over the rows whose interval has ended. Both sums are
prefix sums of sorted rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skuq._numeric import equal_step, last_of_ties
from skuq._typing import ArrayLike, BoolArray, FloatArray
from skuq._validation import as_float_array, check_finite, check_number, check_option, check_single_coverage
from skuq.distributions import Distribution
from skuq.metrics._inputs import check_forecast, finite_moment
from skuq.metrics._skill import check_reference, repeat

FUNCTIONALS = ("mean", "quantile", "probability")


@dataclass(frozen=True, eq=False)
class MurphyCurve:
    """Mean elementary score at each threshold; returned by `murphy_curve`.

    Parameters
    ----------
    theta : ndarray of shape (k,)
        Thresholds. With the default thresholds, each threshold appears twice: first for the left limit of the
        score, then for the score itself.
    scores : ndarray of shape (k,)
        Mean elementary score, or its difference from the mean elementary score of the reference.
    standard_errors : ndarray of shape (k,)
        Standard error of each score. It assumes that the rows are independent.

    Examples
    --------
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import murphy_curve
    >>> curve = murphy_curve([2.0], Normal([1.0], [0.5]))
    >>> curve.theta, curve.scores
    (array([1., 1., 2., 2.]), array([0., 1., 0., 0.]))
    """

    theta: FloatArray
    scores: FloatArray
    standard_errors: FloatArray


def murphy_curve(
    y_true: ArrayLike,
    y_pred: Any,
    *,
    sample_weight: ArrayLike | None = None,
    functional: str = "mean",
    levels: float = 0.5,
    threshold: float | None = None,
    reference: Any = None,
    theta: ArrayLike | None = None,
) -> MurphyCurve:
    r"""Return the Murphy curve: the mean elementary score of a point forecast at each threshold.

    The smaller the better, minimum is zero. The curve compares point forecasts under many scores at once. A
    score is consistent for the mean if the true mean minimizes the expected score. The squared error is an
    example. Every consistent score is a weighted integral of the curve over the threshold. If the curve of
    forecast A is below the curve of forecast B at every threshold, A is better than B in every consistent
    score. If the curves cross, some scores prefer A and other scores prefer B.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    y_pred : Distribution or frozen scipy distribution
        Forecast of every target. A scale of 0 is a point forecast.
    sample_weight : array-like of shape (n,), default=None
        Number of repetitions of each row.
    functional : {"mean", "quantile", "probability"}, default="mean"
        Point forecast that is computed from the distribution: the mean, the quantile at `levels`, or the
        probability of ``y > threshold``.
    levels : float, default=0.5
        Level of the quantile, strictly between 0 and 1.
    threshold : float, default=None
        Value that defines the event, in the units of y. Required for ``functional="probability"``.
    reference : Distribution or frozen scipy distribution, default=None
        Second forecast. It has n rows, or one row that is used for all targets. The scores are then mean
        differences from the scores of the reference. A negative score means that the forecast is better than
        the reference.
    theta : float or array-like of shape (k,), default=None
        Thresholds of the curve. In the units of y, or probabilities for ``functional="probability"``. None
        uses every point forecast and every target as a threshold, together with its left limit. Between these
        thresholds, the curve is linear for means and probabilities, and constant for quantiles.

    Returns
    -------
    curve : MurphyCurve
        Thresholds, scores and standard errors. The scores for means are in the units of y. The scores for
        quantiles and probabilities have no units.

    See Also
    --------
    skuq.displays.MurphyDisplay : A plot of the curve.

    Notes
    -----
    Let x be the point forecast. The elementary score for the mean [1]_ is

    .. math::
        S_\theta(x, y) = |y - \theta|\, 1\{\min(x, y) \le \theta < \max(x, y)\}

    The elementary score for the quantile at level p is

    .. math::
        S_\theta(x, y) = (1 - p)\, 1\{y \le \theta < x\} + p\, 1\{x \le \theta < y\}.

    All intervals are closed on the left and open on the right, as in [1]_. The integral over :math:`\theta`
    is half the squared error for means, the pinball loss for quantiles, and half the Brier score for
    probabilities. With the default thresholds, the trapezoidal rule computes this integral exactly. For a
    probability, :math:`\theta` is the cost-loss ratio of a decision, and the score is the cost of the
    decision. Some packages define the score for the mean with an additional factor of 2 or 1/2.

    The cost is O(n log n) time and O(n) memory.

    References
    ----------
    .. [1] Ehm, Gneiting, Jordan and Krueger (2016), Of quantiles and expectiles: consistent scoring
       functions, Choquet representations and forecast rankings. https://doi.org/10.1111/rssb.12154

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.metrics import murphy_curve, pinball_loss
    >>> rng = np.random.default_rng(0)
    >>> loc = rng.normal(size=200)
    >>> y, dist = rng.normal(loc), Normal(loc, np.ones(200))
    >>> curve = murphy_curve(y, dist, functional="quantile", levels=0.9)
    >>> area = np.trapezoid(curve.scores, curve.theta)
    >>> round(float(area), 4), round(pinball_loss(y, dist, levels=[0.9]), 4)
    (0.1889, 0.1889)

    The difference from a constant forecast at one threshold, and the standard error of this difference:

    >>> curve = murphy_curve(y, dist, reference=Normal(0.0, 1.0), theta=0.5)
    >>> curve.scores.round(3), curve.standard_errors.round(3)
    (array([-0.116]), array([0.047]))
    """
    point = _read_point(functional, levels, threshold)
    y, dist, weight = check_forecast(y_true, y_pred, sample_weight)
    target, forecasts = point.target(y), [point.forecast(dist)]
    if reference is not None:
        other = check_reference(reference, y_true, sample_weight)
        forecasts.append(point.forecast(repeat(other, y.size)))
    grid, after = _thresholds(theta, [target, *forecasts])
    rows = _Rows(point, target, np.ones(y.size) if weight is None else weight, grid, after)
    mean, square = rows.moments(*forecasts)
    total = float(rows.weight.sum())
    error = (
        np.sqrt(np.maximum(square - mean**2, 0.0) / (total - 1)) if total > 1 else np.full_like(mean, np.nan)
    )
    return MurphyCurve(grid, mean, error)


@dataclass(frozen=True)
class _Point:
    """Functional of a distribution, and the elementary scores of the functional.

    The functional is a mean, a quantile or the probability of an event.
    """

    functional: str
    levels: float
    threshold: float

    def forecast(self, dist: Distribution) -> FloatArray:
        if self.functional == "mean":
            return finite_moment(dist, "mean")
        if self.functional == "quantile":
            return dist.quantile(self.levels)
        return dist.sf(self.threshold)

    def target(self, y: FloatArray) -> FloatArray:
        return (y > self.threshold).astype(float) if self.functional == "probability" else y

    def line(self, below: BoolArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.functional == "quantile":
            return np.where(below, 1 - self.levels, self.levels), np.zeros(y.size)
        slope = np.where(below, 1.0, -1.0)
        return -slope * y, slope


def _read_point(functional: str, levels: float, threshold: float | None) -> _Point:
    check_option(functional, "functional", FUNCTIONALS)
    if (threshold is not None) != (functional == "probability"):
        raise ValueError(
            f"`threshold` must be given if and only if functional='probability', got threshold={threshold!r} "
            f"with functional={functional!r}."
        )
    value = np.nan if threshold is None else check_number(threshold, "threshold")
    return _Point(functional, check_single_coverage(levels, "levels"), value)


def _thresholds(theta: ArrayLike | None, values: list[FloatArray]) -> tuple[FloatArray, BoolArray]:
    if theta is None:
        points = np.sort(np.concatenate(values))
        points = points[np.isfinite(points)]
        # The curve has one jump at values that are equal up to rounding, from the smallest to the largest.
        last = last_of_ties(points, equal_step(points))
        jumps = np.column_stack([points[np.append(True, last[:-1])], points[last]])
        return jumps.ravel(), np.tile([False, True], len(jumps))
    grid = np.atleast_1d(check_finite(as_float_array(theta, "theta"), "theta"))
    if grid.ndim != 1 or not grid.size:
        raise ValueError(f"`theta` must be a number or a non-empty 1-D array, got shape {grid.shape}.")
    return grid, np.ones(grid.size, dtype=bool)


class _Rows:
    """Rows with weights, and the thresholds of their curve."""

    def __init__(
        self, point: _Point, target: FloatArray, weight: FloatArray, grid: FloatArray, after: BoolArray
    ) -> None:
        self.point, self.target, self.weight, self.grid, self.after = point, target, weight, grid, after
        # Centered values keep their precision.
        center = float(np.median(target))
        self.y, self.theta = target - center, grid - center

    def moments(self, x: FloatArray, other: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        first, second = self._moments(*self._ends(x), x)
        if other is None:
            return first, second
        other_first, other_second = self._moments(*self._ends(other), other)
        # Where both scores are positive, the scores are equal.
        (start, stop), (other_start, other_stop) = self._ends(x), self._ends(other)
        both = self._moments(np.maximum(start, other_start), np.minimum(stop, other_stop), x)[1]
        return first - other_first, second + other_second - 2 * both

    def _ends(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.minimum(x, self.target), np.maximum(x, self.target)

    def _moments(self, start: FloatArray, stop: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        constant, slope = self.point.line(self.target < x, self.y)
        products = constant, slope, constant**2, constant * slope, slope**2
        total = self._sums_of_active(start, stop)
        c, s, cc, cs, ss = (total(self.weight * each) / self.weight.sum() for each in products)
        first, second = c + s * self.theta, cc + 2 * cs * self.theta + ss * self.theta**2
        return np.maximum(first, 0.0), np.maximum(second, 0.0)

    def _sums_of_active(self, start: FloatArray, stop: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return a function that sums values over the rows that are active at each threshold."""
        rows = np.flatnonzero(start < stop)
        orders, counts = [], []
        for end in (start[rows], stop[rows]):
            order = np.argsort(end)
            left, right = (np.searchsorted(end[order], self.grid, side=side) for side in ("left", "right"))
            orders.append(rows[order])
            counts.append(np.where(self.after, right, left))

        def total(values: FloatArray) -> FloatArray:
            begun, ended = (
                np.append(0.0, np.cumsum(values[order]))[count]
                for order, count in zip(orders, counts, strict=True)
            )
            # Without active rows, the sum is exactly 0, not a rounding error.
            return np.where(counts[0] > counts[1], begun - ended, 0.0)

        return total
