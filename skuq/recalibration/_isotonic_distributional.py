"""Recalibration by isotonic distributional regression on the predicted mean or median."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression

from skuq._numeric import distinct, rounding_error
from skuq._typing import FloatArray, IntArray
from skuq._validation import check_finite, check_option
from skuq.distributions import Distribution
from skuq.distributions._step_table import SharedSteps, StepTable
from skuq.recalibration._base import BaseRecalibrator


@dataclass
class _Fit:
    """Decreasing least-squares fit to the shares of targets up to a threshold, in blocks of equal value.

    The lists have one entry per block: the first knot, the weight of the block, and the weight of the targets
    at or below the threshold.
    """

    weight: FloatArray  # of each knot
    reached: FloatArray  # weight of the targets of each knot at or below the threshold
    starts: list[int]
    weights: list[float]
    sums: list[float]

    def update(self, knots: IntArray, weight: FloatArray) -> None:
        """Add targets of the given knots, and fit only the blocks that can change."""
        np.add.at(self.reached, knots, weight)
        places = np.searchsorted(self.starts, [knots.min(), knots.max()], side="right")
        first, after = int(places[0]) - 1, int(places[1])
        low = self.starts[first]
        high = self.starts[after] if after < len(self.starts) else len(self.weight)
        weights, sums = self.weight[low:high], self.reached[low:high]
        starts = isotonic_regression(sums / weights, weights=weights, increasing=False).blocks[:-1]
        # The blocks to the right of the last new target keep their values.
        right = self.starts[after:], self.weights[after:], self.sums[after:]
        del self.starts[first:], self.weights[first:], self.sums[first:]
        for block in zip(
            (low + starts).tolist(),
            np.add.reduceat(weights, starts).tolist(),
            np.add.reduceat(sums, starts).tolist(),
            strict=True,
        ):
            self._append(*block)
        self.starts += right[0]
        self.weights += right[1]
        self.sums += right[2]

    def _append(self, start: int, weight: float, reached: float) -> None:
        """Append a block. Pool the block with all blocks to the left whose values are not larger."""
        while self.starts and self.sums[-1] * weight <= reached * self.weights[-1]:
            start = self.starts.pop()
            weight += self.weights.pop()
            reached += self.sums.pop()
        self.starts.append(start)
        self.weights.append(weight)
        self.sums.append(reached)


def isotonic_cdfs(x: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, StepTable]:
    """Return the increasing values of x that differ by more than rounding, and the fitted cdfs of y there."""
    knots, knot = distinct(x)
    order = np.argsort(y, kind="stable")
    knot, weight = knot[order], weight[order]
    thresholds, rows = np.unique(y[order], return_index=True)
    total: FloatArray = np.bincount(knot, weights=weight).astype(np.float64)
    fit = _Fit(total, np.zeros(len(knots)), [0], [float(total.sum())], [0.0])
    starts, values = array("q"), array("d")
    for step, part in enumerate(np.split(np.arange(len(y)), rows[1:])):
        fit.update(knot[part], weight[part])
        starts.extend([step * knots.size + start for start in fit.starts])
        values.extend([reached / size for reached, size in zip(fit.sums, fit.weights, strict=True)])
    first, level = np.frombuffer(starts, dtype=np.int64), np.frombuffer(values)
    np.minimum(level, 1.0, out=level)
    # At the last threshold, the cdf is 1. A sum of weights could have a rounding error.
    level[np.searchsorted(first, (len(thresholds) - 1) * len(knots)) :] = 1.0
    return knots, StepTable(thresholds, first, level, len(knots))


class IsotonicDistributionalRecalibrator(BaseRecalibrator):
    r"""Replace every distribution with the distribution of the targets of rows with similar predictions.

    The class orders the calibration rows by their point predictions. It then estimates the whole distribution
    of the target as a function of the point prediction. The only assumption is that a larger prediction means
    a larger target, in the sense of stochastic order. The result has atoms at the observed targets, so use
    the class if the target has few values, such as grades or small counts. The class ignores the predicted
    standard deviation. If the target is continuous, prefer `IsotonicRecalibrator` or `EmpiricalRecalibrator`.
    A `Mixture` of the result and the original distribution often has a lower CRPS than either of them.

    Parameters
    ----------
    by : {"mean", "median"}, default="mean"
        Point prediction that orders the rows.

    Attributes
    ----------
    predictions_ : ndarray of shape (k,)
        Distinct point predictions of the calibration rows, increasing, in the units of y.
    table_ : StepTable
        Fitted cdf at each of these predictions, with a threshold at each distinct target.
    n_features_in_ : int
        Always 2, because ``np.asarray(dist)`` has two columns.

    See Also
    --------
    IsotonicRecalibrator : A monotone function of the probability levels. It keeps the shape of each row.
    EmpiricalRecalibrator : One shape for all rows.
    SharedSteps : The returned distribution.

    Notes
    -----
    Let :math:`x_1 < \dots < x_n` be the point predictions, :math:`y_i` the targets and :math:`w_i` the
    weights. For each threshold z, the fitted cdf is the decreasing function of x that minimizes :math:`\sum_i
    w_i (F_z(x_i) - 1\{y_i \le z\})^2` [1]_:

    .. math::
        F_z(x_k) = \min_{i \le k} \max_{j \ge k}
        \frac{\sum_{l=i}^j w_l 1\{y_l \le z\}}{\sum_{l=i}^j w_l}

    Of all forecasts whose distributions increase with the prediction, this forecast has the lowest CRPS on
    the calibration rows. Rows with equal predictions are combined into one point. Between two points, the cdf
    is interpolated linearly between the cdfs of these points. Below the smallest and above the largest
    prediction, the cdf of the nearest point is used.

    At each threshold, the regression pools rows with neighboring predictions into blocks with a common
    probability. The blocks contain few rows, so intervals are too narrow if there are fewer than about 1000
    calibration rows. No distribution extends beyond the observed targets.

    Cost: the thresholds are visited in increasing order. Only blocks that contain new targets are computed
    again. Time and memory depend on the number of blocks per threshold, which is about :math:`n^{0.4}`.

    References
    ----------
    .. [1] A. Henzi, J. F. Ziegel, T. Gneiting, "Isotonic distributional regression", J. R. Stat. Soc. B 83,
       2021. https://doi.org/10.1111/rssb.12450

    Examples
    --------
    The targets are counts from 0 to 2, and the model predicts normal distributions:

    >>> import numpy as np
    >>> from skuq.distributions import Normal
    >>> from skuq.recalibration import IsotonicDistributionalRecalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> y = rng.binomial(2, p)
    >>> recalibrator = IsotonicDistributionalRecalibrator().fit(Normal(2 * p, 0.6), y)
    >>> recalibrated = recalibrator.transform(Normal([1.0], [0.6]))
    >>> [recalibrated.cdf(count).round(1).item() for count in (0, 1, 2)]  # the true cdf is .25, .75, 1
    [0.3, 0.8, 1.0]
    """

    def __init__(self, *, by: Literal["mean", "median"] = "mean") -> None:
        self.by = by

    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray) -> None:
        self.predictions_, self.table_ = isotonic_cdfs(self._order(dist), y, weight)

    def _transform(self, dist: Distribution) -> SharedSteps:
        knots, prediction = self.predictions_, self._order(dist)
        position = np.interp(prediction, knots, np.arange(float(len(knots))))
        # A prediction that differs from a knot by rounding alone has the cdf of this knot, not a mixture.
        nearest = np.rint(position)
        at_knot = np.abs(prediction - knots[nearest.astype(np.intp)]) <= rounding_error(prediction, knots)
        return SharedSteps(self.table_, np.where(at_knot, nearest, position))

    def _order(self, dist: Distribution) -> FloatArray:
        by = check_option(self.by, "by", ("mean", "median"))
        return check_finite(dist.mean() if by == "mean" else dist.median(), f"the {by} of dist")
