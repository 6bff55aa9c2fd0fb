"""Fit of the process: rows in a unit of their own, and the posterior as a function of predictions.

The inputs of the process are predicted mean and standard deviation, both divided by one scale, the latter as
a logarithm. So no unit or offset of y matters, and a prediction that hardly varies stays an input that hardly
varies: neither is divided by its own spread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skuq._typing import FloatArray
from skuq._validation import check_integer, check_random_state
from skuq._warnings import warn_user
from skuq.distributions import Distribution
from skuq.distributions._numerics.ranks import WeightedRanks
from skuq.recalibration._gp.engine import LatentPrior, LatentProcess, Likelihood, VariationalProcess
from skuq.recalibration._gp.kernel import place_inducing_points
from skuq.recalibration._gp.search import SearchResult, search_all_rows, search_by_batches

_LEAST = 1e-6
"""Residuals are held at this share of the usual one."""

_FARTHEST = 1e6
"""Inputs are held within so many scales, where all correlations are 0."""

_MOST_ITERATIONS = 100
"""On all rows, by default."""


def log_size(z: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Return log |z|, not below a millionth of what is usual: an exact prediction has no logarithm."""
    size = np.abs(z)
    positive = size > 0
    usual = WeightedRanks(size[positive], None if weight is None else weight[positive]).median
    return np.log(np.maximum(size, _LEAST * usual))


@dataclass(frozen=True)
class InputScaler:
    """The unit in which predictions enter the process."""

    centre: float
    scale: float

    @classmethod
    def of(cls, mean: FloatArray, std: FloatArray, weight: FloatArray | None) -> InputScaler:
        """Return the median of the means and, as the scale, what they and the noise spread together."""
        centre = WeightedRanks(mean, weight).median
        spread = 1.4826 * WeightedRanks(np.abs(mean - centre), weight).median
        return cls(centre, float(np.hypot(spread, WeightedRanks(std, weight).median)))

    def inputs(self, mean: FloatArray, std: FloatArray) -> FloatArray:
        """Return the inputs, shape (n, 2); a certain prediction gets those of the typical width."""
        with np.errstate(over="ignore"):
            position = np.clip((mean - self.centre) / self.scale, -_FARTHEST, _FARTHEST)
            width = np.log(np.where(std > 0, std, self.scale) / self.scale)
        return np.column_stack([position, np.clip(width, -_FARTHEST, _FARTHEST)])


@dataclass(frozen=True)
class CalibrationRows:
    """Distinct rows in an order of their own: what is observed about each, and how often."""

    scaler: InputScaler
    inputs: FloatArray  # (n, 2)
    observed: FloatArray  # (observed numbers, n)
    weight: FloatArray


def read_rows(dist: Distribution, observed: FloatArray, weight: FloatArray | None) -> CalibrationRows:
    """Sort the rows and merge equal ones, so that neither order nor repetition can change a digit.

    They are sorted by distance from the centre, which is the same for mirrored data.

    Parameters
    ----------
    dist : Distribution of n rows
        Predictions.
    observed : ndarray of shape (n,) or (k, n)
        What was observed, finite.
    weight : ndarray of shape (n,) or None
        How many observations each row stands for.
    """
    mean, std = dist.mean(), dist.std()
    scaler = InputScaler.of(mean, std, weight)
    table = np.vstack([np.abs(mean - scaler.centre), std, mean, observed])
    order = np.lexsort(table[::-1])
    table = table[:, order]
    first = np.concatenate([[True], (np.diff(table, axis=1) != 0).any(axis=0)])
    count = np.ones(len(dist)) if weight is None else weight[order]
    _, std, mean, *rest = table[:, first]
    counts = np.add.reduceat(count, np.flatnonzero(first))
    return CalibrationRows(scaler, scaler.inputs(mean, std), np.array(rest), counts)


@dataclass(frozen=True)
class FittedProcess:
    """The fitted process as a function of predictions in the units of y."""

    scaler: InputScaler
    process: LatentProcess
    elbo: float
    n_iter: int

    def at(self, mean: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means (latents, n) and covariances (latents, latents, n) of the latent values."""
        return self.process.predict(self.scaler.inputs(mean, std))

    def lengthscales(self) -> FloatArray:
        """Return the lengthscales of predicted mean, in the units of y, and log standard deviation."""
        return np.asarray(self.process.basis.lengthscales * [self.scaler.scale, 1.0])

    def amplitudes(self) -> FloatArray:
        """Return the standard deviation of each latent value, the constant left out."""
        return self.process.amplitudes.copy()

    def inducing_points(self) -> FloatArray:
        """Return mean and standard deviation of the inducing predictions, shape (m, 2)."""
        points, scale = self.process.basis.points, self.scaler.scale
        return np.column_stack([self.scaler.centre + scale * points[:, 0], scale * np.exp(points[:, 1])])


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
    """Fit the process to rows that all have a positive standard deviation.

    Parameters
    ----------
    rows : CalibrationRows
        At least one.
    likelihood : Likelihood
        Of these rows.
    latents : LatentPrior
        Of the likelihood's latent values.
    n_inducing_points, batch_size, max_iter, random_state
        The constructor arguments of a recalibrator, which are checked here.
    """
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
        return f"the Gaussian process did not converge in {found.n_iter} iterations; raise `max_iter`."
    return (
        f"the search for the Gaussian process stopped after {found.n_iter} iterations, short of the optimum: "
        "no step raises the lower bound, though its gradient is not 0, and more iterations change nothing. "
        "The best parameters found are kept; compare them on new rows with IsotonicRecalibrator, and check "
        "`y` for outliers and for units other than those of `dist`."
    )
