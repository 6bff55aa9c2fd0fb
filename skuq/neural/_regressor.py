"""Base class of the neural regressors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import clone

from skuq._fitting.base_regressor import BaseUncertaintyRegressor
from skuq._fitting.cross_fit import rows_outside
from skuq._fitting.seeds import MAX_SEED, NO_PROGRESS, Progress
from skuq._fitting.training_data import TrainingData, check_y
from skuq._numeric import rows_needed
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import (
    check_option,
    check_sample_weight,
    check_single_coverage,
    check_unmasked,
    effective_rows,
)
from skuq.distributions import Distribution
from skuq.neural._base import BaseNeuralEstimator, fit_together
from skuq.neural._plan import FEW_CATEGORIES, Standardizer, TrainingSpec, rows_with_weight
from skuq.neural._predictive import Calibration, EnsemblePosterior, Posterior
from skuq.neural._training import TrainedFit


class BaseNeuralRegressor(BaseNeuralEstimator, BaseUncertaintyRegressor):
    """Base class of the neural regressors.

    The class implements the calibration and the predictions in the units of y.
    """

    factor_: float | FloatArray
    df_: float
    _calibration: Calibration
    _calibrations: ClassVar[tuple[str | None, ...]] = ("split", None)

    # ---------------------------------------------------------------------- for subclasses

    @abstractmethod
    def _training_spec(self) -> TrainingSpec:
        """Check the parameters and return the training specification."""

    def _spec_for(self, data: TrainingData) -> TrainingSpec:
        return self._training_spec()

    @abstractmethod
    def _posterior(self, fit: TrainedFit, data: TrainingData) -> Posterior:
        """Return the posterior of the trained networks. The attribute ``scaler_`` must be set before."""

    def _uncalibrated(self) -> Calibration:
        return Calibration()

    def _min_oob_members(self) -> int:
        return 1

    def _holds_out(self, spec: TrainingSpec) -> bool:
        return super()._holds_out(spec) or self.calibration == "split"

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        if fit_params:
            raise TypeError(
                f"{type(self).__name__}.{caller} does not accept the parameters {sorted(fit_params)}."
            )
        check_unmasked(X, "X")
        target, names = self._read_target(y)
        features = self._check_features(X, target)
        weight = check_sample_weight(sample_weight, len(target))
        metadata = {} if weight is None else {"sample_weight": weight}
        return TrainingData(features, target, weight, metadata=metadata, target_names=names)

    def _read_target(self, y: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
        """Return y with shape (n,) or (n, d). If there are several targets, also return their names."""
        return check_y(y, self), None

    def _check_data(self, spec: TrainingSpec, data: TrainingData) -> None:
        check_option(self.calibration, "calibration", self._calibrations)
        check_single_coverage(self.coverage)
        if spec.counts_rows or self.calibration is not None:
            effective_rows(data.sample_weight, len(data))  # raises for relative weights

    def _learn_scaler(self, data: TrainingData, held_out: BoolArray) -> Standardizer:
        most = FEW_CATEGORIES if hasattr(self, "n_frequencies") and self.module is None else np.inf
        scaler = Standardizer.fit(data.take(rows_with_weight(~held_out, data)), most)
        if np.all(scaler.y_scale > 0) or not held_out.any():
            return scaler
        return Standardizer.fit(data.take(rows_with_weight(np.ones_like(held_out), data)), most)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        if not self._training_spec().bootstrap:
            return super()._fit_transform(data, progress)
        fit = fit_together([(self, data)], progress)[0]
        return self._out_of_bag_dist(fit, data)

    def _finish_fit(self, fit: TrainedFit, data: TrainingData) -> str | None:
        posterior = self._posterior(fit, data)
        calibration, n_rows = self._uncalibrated(), np.inf
        # a constant y has no residuals
        if self.calibration is not None and np.any(self.scaler_.y_scale > 0):
            calibration, n_rows = self._calibrate(posterior, fit, data)
        self._keep(fit, posterior)
        self._calibration = calibration
        self.factor_, self.df_ = calibration.factor, calibration.df
        return _too_few_rows(self.coverage, n_rows)

    # --------------------------------------------------------------------------- calibration

    def _tests_own_rows(self) -> bool:
        return self._training_spec().bootstrap

    def _is_calibrated(self) -> bool:
        return self.calibration is not None

    def _calibrate(
        self, posterior: Posterior, fit: TrainedFit, data: TrainingData
    ) -> tuple[Calibration, float]:
        rows, oob_mask = self._oob_rows("calibration", fit, data, self._min_oob_members())
        left_out = data.take(rows)
        z = posterior.standardized_residuals(left_out.X, left_out.y, oob_mask)
        weight = left_out.sample_weight
        n_rows = float(len(z) if weight is None else weight.sum())
        return posterior.calibrate(z, self.coverage, weight), n_rows

    def _oob_rows(
        self, parameter: str, fit: TrainedFit, data: TrainingData, at_least: int = 1
    ) -> tuple[IntArray, BoolArray]:
        """Return the rows that ``parameter`` selects, and the mask (n_rows, M) of out-of-bag members."""
        split = getattr(self, parameter) == "split"
        oob_mask = fit.plan.out_of_bag() & (fit.plan.held_out == split)[:, np.newaxis]
        rows = rows_with_weight(np.asarray(oob_mask.sum(axis=1) >= at_least), data)
        if not len(rows):
            which, n_members = "any" if at_least == 1 else "two", oob_mask.shape[1]
            raise ValueError(
                f"`{parameter}` is 'oob', but no row is out of bag for {which} of the {n_members} members. "
                f"Use more members or more rows, or {parameter}='split'."
            )
        return rows, oob_mask[rows]

    # ------------------------------------------------------------------------ out-of-bag rows

    def _out_of_bag_dist(self, fit: TrainedFit, data: TrainingData) -> Distribution:
        posterior = cast(EnsemblePosterior, self._fitted_posterior)
        members = posterior.predictions(data.X, fit.plan.out_of_bag())
        for rows, other in self._refit_without_rows(data, members.used, fit.plan.seed):
            part = other.predictions(data.take(rows).X)
            members.loc[rows], members.scale[rows] = part.loc, part.scale
            members.used[rows] = True  # no member of the other ensemble is trained on these rows
        return posterior.distribution_of(members, self._calibration)

    def _refit_without_rows(
        self, data: TrainingData, oob_mask: BoolArray, seed: int
    ) -> Iterator[tuple[IntArray, EnsemblePosterior]]:
        """Refit without rows that have too few out-of-bag members, at most a tenth of all rows at a time."""
        too_few_oob = np.flatnonzero(oob_mask.sum(axis=1) < min(2, oob_mask.shape[1]))
        n_parts = -(-10 * len(too_few_oob) // len(data))
        rng = np.random.RandomState(seed)
        parts = np.array_split(rng.permutation(too_few_oob), n_parts) if n_parts else []
        pairs = []
        for rows in parts:
            other = clone(self).set_params(calibration=None, random_state=int(rng.randint(MAX_SEED)))
            pairs.append((other, data.take(rows_outside(rows, len(data)))))
        fit_together(pairs, NO_PROGRESS)
        posteriors = (cast(EnsemblePosterior, other._fitted_posterior) for other, _ in pairs)
        return zip(parts, posteriors, strict=True)

    def _predict_dist(self, X: Any) -> Distribution:
        dist: Distribution = self._current_posterior().distribution(self._features(X), self._calibration)
        return dist

    def predict_members(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the predictions of the members, before calibration.

        Members are the networks of an ensemble, the snapshots of a training, or `n_draws` networks or
        functions that are drawn from the posterior. The draws are the same for all rows and all calls.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.
        return_std : bool, default=False
            Whether to also return the standard deviations of the noise that the members predict.

        Returns
        -------
        members : ndarray of shape (n, M), or (n, M, d) for d targets
            Predicted means of the M members, in the units of y.
        members_std : ndarray of shape (n, M), or (n, M, d)
            Standard deviations of the noise, in the units of y. Only returned if `return_std` is True. If the
            noise is constant, all values are equal. If the members do not predict noise, all values are 0.
        """
        self._check_new(X)
        loc, scale = self._current_posterior().draw(self._features(X))
        return (loc, scale) if return_std else loc


def _too_few_rows(coverage: float, n_rows: float) -> str | None:
    needed = rows_needed(coverage)
    if n_rows >= needed:
        return None
    return (
        f"intervals of {100 * coverage:g} % need at least {needed} rows for calibration, got {n_rows:g}. The "
        "intervals may be too short. Use more rows, a larger `held_out_size` if rows are held out, or a "
        "lower `coverage`."
    )
