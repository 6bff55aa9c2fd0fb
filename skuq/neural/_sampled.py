"""What estimators share that train one network and draw many from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import validate_data

from skuq._typing import BoolArray, FloatArray
from skuq._validation import (
    check_integer,
    check_number,
    check_option,
    check_single_coverage,
    effective_rows,
)
from skuq.distributions import Distribution
from skuq.neural._base import BaseNeuralRegressor
from skuq.neural._calibrate import Calibration
from skuq.neural._device import read_device
from skuq.neural._dropout import StackedDropout
from skuq.neural._holdout import hold_out
from skuq.neural._judging import NUMBERS_AT_ONCE
from skuq.neural._losses import CRPSLoss, Loss, NLLLoss, read_judge, variance_of
from skuq.neural._plan import FitPlan, MemberSeed, TrainingOptions, plan_members
from skuq.neural._standardise import Standardiser
from skuq.neural._training import TrainedFit
from skuq.regressors._training import TrainingData

__all__ = ["BaseSampledRegressor"]

_AUTO_EPOCHS = (6000, 40, 1000)
"""Steps, and the fewest and most epochs. With dropout, a few rows need as many steps as many: after 200
epochs on the 277 rows of the yachts, errors were 1.4 times as large as after 6000 steps."""

_SAMPLING = 5
"""Number of the child of the member's seed that draws networks; the first five are for training."""


class BaseSampledRegressor(BaseNeuralRegressor):
    """Base class of the estimators that train one network and predict by many drawn from it.

    The parameters that it reads, besides those of `BaseNeuralRegressor`: ``n_samples, early_stopping,
    calibration, calibration_coverage, validation, learning_rate``. A subclass writes ``_architecture``,
    which builds a `StackedDropout`.
    """

    # ------------------------------------------------------------------------------- fitting

    def _options(self) -> TrainingOptions:
        return replace(super()._options(), auto_epochs=_AUTO_EPOCHS)

    def _loss(self) -> Loss:
        """Return what the network is trained by."""
        return NLLLoss()

    def _judge(self) -> Loss | None:
        return read_judge(self.early_stopping, CRPSLoss())

    def _held_out(self, data: TrainingData, seed: int) -> BoolArray:
        if self._judge() is None and self.calibration is None:
            return super()._held_out(data, seed)
        return hold_out(self.validation, data, seed)

    def _plan(self, data: TrainingData, scaler: Standardiser, held_out: BoolArray, seed: int) -> FitPlan:
        check_option(self.calibration, "calibration", ("split", None))
        check_single_coverage(self.calibration_coverage, "calibration_coverage")
        if check_integer(self.n_samples, "n_samples") < 2:
            raise ValueError(f"`n_samples` must be at least 2 to have a spread, got {self.n_samples}.")
        weight = data.sample_weight
        if self.calibration is not None:
            effective_rows(weight, len(data))  # raises where weights do not count repetitions
        rows = np.flatnonzero(~held_out if weight is None else ~held_out & (weight > 0))
        n_rows = float(len(rows) if weight is None else weight[rows].sum())
        seeds = [replace(member, n_rows=n_rows) for member in MemberSeed.spawn(seed, 1)]
        return FitPlan(
            X=scaler.features(data.X),
            y=scaler.target(data.y),
            seeds=seeds,
            rows=plan_members(seeds, rows, bootstrap=False),
            seed=seed,
            loss=self._loss(),
            learning_rate=check_number(self.learning_rate, "learning_rate", positive=True),
            weight=None if weight is None else weight / weight[rows].mean(),
            judge=self._judge(),
            judging=held_out,
            held_out=held_out,
            judge_weight=weight,
        )

    def _accept(self, fit: TrainedFit, data: TrainingData) -> None:
        self._sampling_seed = fit.plan.seed
        self._calibration = Calibration()
        self.factor_, self.df_ = 1.0, np.inf
        if self.calibration is None or self.scaler_.y_scale == 0:
            return
        held_out = fit.plan.held_out
        mean, epistemic, noise = self._sample_moments(data.X[held_out])
        weight = None if data.sample_weight is None else data.sample_weight[held_out]
        residual = data.y[held_out] - mean
        self._calibration = self._learn_calibration(residual, epistemic, noise, weight)
        self.factor_, self.df_ = self._calibration.factor, self._calibration.df

    def _learn_calibration(
        self, residual: FloatArray, epistemic: FloatArray, noise: FloatArray, weight: FloatArray | None
    ) -> Calibration:
        """Learn scale and tails from the residuals and standard deviations of unseen rows."""
        z = residual / np.hypot(epistemic, noise)
        return Calibration.of_scale_and_tails(z, self.calibration_coverage, weight)

    # ---------------------------------------------------------------------------- prediction

    def _draw(self, features: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield means and variances by the drawn networks for blocks of rows, standardised."""
        module: StackedDropout = self.net_.module_
        rng = np.random.default_rng(np.random.SeedSequence(self._sampling_seed, spawn_key=(0, _SAMPLING)))
        device = read_device(self.device, self.n_samples)
        return _sample_blocks(module, self.scaler_.features(features), self.n_samples, rng, device)

    def _moments_of(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts = list(self._draw(features))
        loc, variance = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        return self.scaler_.loc(loc), self.scaler_.scale(variance)

    def _sample_moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean, epistemic and noise standard deviation of each row, in the units of y."""
        mean, epistemic, noise = [], [], []
        for loc, variance in self._draw(features):
            mean.append(loc.mean(axis=1))
            epistemic.append(loc.var(axis=1, ddof=1))
            noise.append(variance.mean(axis=1))
        return (
            self.scaler_.loc(np.concatenate(mean)),
            self.scaler_.scale(np.concatenate(epistemic)),
            self.scaler_.scale(np.concatenate(noise)),
        )

    def _predict_dist(self, X: Any) -> Distribution:
        mean, epistemic, noise = self._sample_moments(self._read_features(X))
        return self._calibration.apply(mean, np.hypot(epistemic, noise), epistemic)

    def _read_features(self, X: Any) -> FloatArray:
        features: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return features

    def predict_members(self, X: Any, return_std: bool = False) -> Any:
        """Return what each drawn network predicts, before calibration.

        The networks are the same for all rows and all calls.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.
        return_std : bool, default=False
            Whether to return the networks' standard deviations of the noise too.

        Returns
        -------
        members : ndarray of shape (n, n_samples)
            Means, in the units of y.
        members_std : ndarray of shape (n, n_samples)
            Only with `return_std`; in the units of y.
        """
        self._check_new(X)
        loc, scale = self._moments(X)
        return (loc, scale) if return_std else loc


def _sample_blocks(
    module: StackedDropout, X: FloatArray, n_samples: int, rng: np.random.Generator, device: torch.device
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield means and variances that drawn networks predict, each (b, S), for blocks of b rows.

    In double precision, so that a row's prediction does not depend on the rows beside it.
    """
    module = module.take(slice(None)).to(device=device, dtype=torch.float64).eval()
    with torch.no_grad():
        layers = module.layers_of_samples(n_samples, rng)
        width = max(weight.shape[-2] for weight, _ in layers)
        step = max(16, NUMBERS_AT_ONCE // (width * n_samples))
        for start in range(0, len(X), step):
            block = torch.as_tensor(X[start : start + step].T, dtype=torch.float64, device=device)
            output = module.run_samples(layers, block)
            variance = variance_of(output[:, 1])
            yield output[:, 0].T.cpu().numpy(), variance.T.cpu().numpy()
