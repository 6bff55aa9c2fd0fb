"""Base class of the Gaussian process recalibrators."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from skuq._typing import FloatArray
from skuq._validation import effective_rows
from skuq.distributions import Distribution
from skuq.recalibration._base import BaseRecalibrator
from skuq.recalibration._gp.engine import LatentPrior, Likelihood
from skuq.recalibration._gp.fit import CalibrationRows, FittedProcess, fit_process
from skuq.recalibration._scaling import RowsWithUncertainty, rows_with_uncertainty


class GPRecalibrator(BaseRecalibrator):
    """Base class of three recalibrators.

    The latent values of these recalibrators are Gaussian processes of the predicted mean and std.
    """

    # A subclass sets `_prior`, the prior of its latent values. It implements the methods
    # `_calibration_rows(spread)`, `_likelihood(observed)` and `_transform(dist)`. The method `_transform`
    # uses `_process`.

    _prior: ClassVar[LatentPrior]
    _process: FittedProcess | None
    """The value is None if all rows are exact point masses, because latent values have no effect on point
    masses."""

    def __init__(
        self,
        *,
        n_inducing_points: int = 24,
        batch_size: int | None = None,
        max_iter: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_inducing_points = n_inducing_points
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state

    @abstractmethod
    def _calibration_rows(self, spread: RowsWithUncertainty) -> CalibrationRows:
        """Return the inputs and the observations of the rows with a positive standard deviation."""

    @abstractmethod
    def _likelihood(self, observed: FloatArray) -> Likelihood: ...
    def _fit(self, dist: Distribution, y: FloatArray, weight: FloatArray | None) -> None:
        effective_rows(weight, len(y))  # raises for relative weights
        spread = rows_with_uncertainty(dist, y, weight)
        if spread is None:
            self._process = None
            self.lengthscales_, self.inducing_points_ = np.full(2, np.inf), np.empty((0, 2))
            self.amplitudes_, self.elbo_, self.n_iter_ = np.zeros(len(self._prior.rates)), 0.0, 0
            return
        rows = self._calibration_rows(spread)
        process = fit_process(
            rows,
            self._likelihood(rows.observed),
            self._prior,
            n_inducing_points=self.n_inducing_points,
            batch_size=self.batch_size,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        self._process = process
        self.lengthscales_, self.inducing_points_ = process.lengthscales(), process.inducing_points()
        self.amplitudes_, self.elbo_, self.n_iter_ = process.amplitudes(), process.elbo, process.n_iter
