"""Fit of the process to rows in standard units, and the posterior for predictions in the units of y.

The inputs of the process are the predicted mean and the logarithm of the predicted standard deviation. Both
are divided by the same scale. The units and the offset of y therefore have no effect, and an input that
varies little between rows has little influence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skuq._ranks import WeightedRanks
from skuq._typing import FloatArray
from skuq._validation import check_integer, check_random_state
from skuq._warnings import warn_user
from skuq.distributions import Distribution
from skuq.recalibration._gp.engine import LatentPrior, LatentProcess, Likelihood, VariationalProcess
from skuq.recalibration._gp.kernel import place_inducing_points
from skuq.recalibration._gp.search import SearchResult, search_all_rows, search_by_batches

_LEAST = 1e-6
"""Lower limit of an absolute residual, as a share of the median absolute residual."""

_FARTHEST = 1e6
"""Largest absolute value of an input, in units of its scale. At this distance, all correlations are 0."""

_MOST_ITERATIONS = 100
"""Default of ``max_iter`` for steps that use all rows."""


def log_size(z: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Return log |z|, which is finite because |z| is raised to at least a millionth of its median."""
    size = np.abs(z)
    positive = size > 0
    usual = WeightedRanks(size[positive], None if weight is None else weight[positive]).median
    return np.log(np.maximum(size, _LEAST * usual))


@dataclass(frozen=True)
class InputScaler:
    """Center and scale of the inputs of the process."""

    center: float
    scale: float

    @classmethod
    def from_values(cls, mean: FloatArray, std: FloatArray, weight: FloatArray | None) -> InputScaler:
        center = WeightedRanks(mean, weight).median
        spread = 1.4826 * WeightedRanks(np.abs(mean - center), weight).median
        return cls(center, float(np.hypot(spread, WeightedRanks(std, weight).median)))

    def inputs(self, mean: FloatArray, std: FloatArray) -> FloatArray:
        """Return the inputs (n, 2). Point masses get the common scale as standard deviation."""
        with np.errstate(over="ignore"):
            position = np.clip((mean - self.center) / self.scale, -_FARTHEST, _FARTHEST)
            width = np.log(np.where(std > 0, std, self.scale) / self.scale)
        return np.column_stack([position, np.clip(width, -_FARTHEST, _FARTHEST)])


@dataclass(frozen=True)
class CalibrationRows:
    """Distinct rows in sorted order, with their inputs, observations and weights."""

    scaler: InputScaler
    inputs: FloatArray
    observed: FloatArray  # shape (observed numbers per row, n)
    weight: FloatArray


def read_rows(dist: Distribution, observed: FloatArray, weight: FloatArray | None) -> CalibrationRows:
    mean, std = dist.mean(), dist.std()
    scaler = InputScaler.from_values(mean, std, weight)
    table = np.vstack([np.abs(mean - scaler.center), std, mean, observed])
    order = np.lexsort(table[::-1])
    table = table[:, order]
    first = np.concatenate([[True], (np.diff(table, axis=1) != 0).any(axis=0)])
    count = np.ones(len(dist)) if weight is None else weight[order]
    _, std, mean, *rest = table[:, first]
    counts = np.add.reduceat(count, np.flatnonzero(first))
    return CalibrationRows(scaler, scaler.inputs(mean, std), np.array(rest), counts)


@dataclass(frozen=True)
class FittedProcess:
    """Fitted process as a function of predictions in the units of y."""

    scaler: InputScaler
    process: LatentProcess
    elbo: float
    n_iter: int

    def at(self, mean: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.process.predict(self.scaler.inputs(mean, std))

    def lengthscales(self) -> FloatArray:
        """Return the lengthscales.

        The first lengthscale belongs to the predicted mean and is in the units of y. The second belongs to
        the log std.
        """
        return np.asarray(self.process.basis.lengthscales * [self.scaler.scale, 1.0])

    def amplitudes(self) -> FloatArray:
        return self.process.amplitudes.copy()

    def inducing_points(self) -> FloatArray:
        points, scale = self.process.basis.points, self.scaler.scale
        return np.column_stack([self.scaler.center + scale * points[:, 0], scale * np.exp(points[:, 1])])


def fit_process(
    rows: CalibrationRows,
    likelihood: Likelihood,
    latents: LatentPrior,
    *,
    n_inducing_points: int,
    batch_size: int | None,
    max_iter: int | None,
    random_state: int | np.random.RandomState | None,
) -> FittedProcess:
    """Check the arguments of the recalibrator, and fit the process to the rows with a positive std."""
    most = check_integer(n_inducing_points, "n_inducing_points")
    size = None if batch_size is None else check_integer(batch_size, "batch_size")
    limit = None if max_iter is None else check_integer(max_iter, "max_iter")
    points = place_inducing_points(rows.inputs, rows.weight, most)
    problem = VariationalProcess(rows.inputs, rows.weight, likelihood, points, latents)
    if size is None or size >= len(rows.weight):
        found = search_all_rows(problem, limit or _MOST_ITERATIONS)
    else:
        found = search_by_batches(problem, size, limit or 500, check_random_state(random_state))
    if not found.converged:
        warn_user(_not_converged(found, limit or _MOST_ITERATIONS), ConvergenceWarning)
    return FittedProcess(rows.scaler, found.process, found.elbo, found.n_iter)


def _not_converged(found: SearchResult, limit: int) -> str:
    if found.n_iter >= limit:
        return f"the Gaussian process did not converge in {found.n_iter} iterations. Increase `max_iter`."
    return (
        f"the optimization of the Gaussian process stopped before the optimum, after {found.n_iter} "
        "iterations: no step increases the lower bound, although its gradient is not 0. More iterations "
        "have no effect. The best parameters are kept. Compare the result with IsotonicRecalibrator on new "
        "rows, and check that `y` has no outliers and has the same units as `dist`."
    )
