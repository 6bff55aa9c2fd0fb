"""Isotonic distributional regression on one ordered predictor."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from skuq._rounding import distinct
from skuq._typing import FloatArray, IntArray
from skuq.distributions._step_table import StepTable


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


def isotonic_cdfs(x: FloatArray, y: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, StepTable]:
    """Return the increasing values of x that differ by more than rounding, and the fitted cdfs of y there."""
    weight = np.ones(len(y)) if weight is None else weight
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
    return knots, StepTable._from_owned(thresholds, first, level, len(knots))
