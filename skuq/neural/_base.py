"""Base of every neural estimator: from data to one stacked training, and on to a distribution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch.history import History

from skuq._sklearn_compat import safe_indexing, slice_fit_params
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import (
    check_integer,
    check_number,
    check_option,
    check_random_state,
    check_sample_weight,
    check_single_coverage,
    check_unmasked,
    effective_rows,
)
from skuq._warnings import warn_user
from skuq.distributions import Distribution
from skuq.distributions._numerics.ranks import rows_needed
from skuq.exceptions import SmallSampleWarning
from skuq.neural._modules.architecture import Architecture, MLPArchitecture
from skuq.neural._modules.user_module import check_module
from skuq.neural._predictive.calibration import Calibration
from skuq.neural._predictive.ensemble import EnsemblePosterior, NetworkPredictions
from skuq.neural._predictive.posterior import Posterior
from skuq.neural._training.holdout import hold_out
from skuq.neural._training.net import StackedNet
from skuq.neural._training.plan import (
    AUTO_EPOCHS,
    FitPlan,
    TrainingOptions,
    TrainingSpec,
    rows_with_weight,
)
from skuq.neural._training.scaling import Standardiser
from skuq.neural._training.trainer import TrainedFit, train
from skuq.prediction._random import MAX_SEED
from skuq.prediction._row_sets import rows_outside
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._fit_inputs import TrainingData, check_y
from skuq.regressors._progress import NO_PROGRESS, Progress

__all__ = ["BaseNeuralRegressor", "fit_clones", "fit_together"]

_SET_BY_ITSELF = (
    *("module", "max_epochs", "batch_size", "callbacks", "device", "verbose"),
    *("lr_schedule", "clip_norm"),
)
_OWN_NET_PARAMS = {
    **{name: name for name in _SET_BY_ITSELF},
    **dict.fromkeys(("lr", "learning_rates", "optimizer__lr"), "learning_rate"),
    "criterion": "loss",
    "train_split": "validation_size",
    **dict.fromkeys(("iterator_train", "iterator_valid", "dataset", "compile"), ""),
}
"""Parameters of the skorch net that the estimators set, or that have no effect, and the estimators' own names
of them, if any."""


class BaseNeuralRegressor(BaseUncertaintyRegressor):
    """Base class of the neural estimators: members in one stacked training, folds too.

    A subclass stores the parameters named below, and writes ``_training_spec()``, what is trained, and
    ``_posterior(fit, data)``, the predictive object of the trained networks. Calibration and predictions
    follow here. It may override ``_architecture()``, where the network is another one, and
    ``_holds_out(spec)``.

    The way of a fit: `fit` reads the data; `fit_together` has each estimator make its `TrainingOptions` and
    its `FitPlan`, and gives those with equal options to `train`, where one `StackedNet` takes the steps;
    each `TrainedFit` comes back to `_finish_fit`, which keeps the posterior and calibrates it.

    The parameters that are read here: ``hidden_layer_sizes, module, batch_size, max_epochs, lr_schedule,
    clip_norm, device, dtype, callbacks, net_params, verbose, n_jobs, random_state, calibration,
    calibration_coverage, validation_size``.
    """

    scaler_: Standardiser
    net_: StackedNet
    best_epoch_: int
    factor_: float
    df_: float
    _fitted_posterior: Posterior
    _calibration: Calibration
    _auto_epochs: ClassVar[tuple[int, int, int]] = AUTO_EPOCHS
    _calibrations: ClassVar[tuple[str | None, ...]] = ("split", None)

    # -------------------------------------------------------------- what a subclass writes

    @abstractmethod
    def _training_spec(self) -> TrainingSpec:
        """Return what is trained, from checked parameters."""

    @abstractmethod
    def _posterior(self, fit: TrainedFit, data: TrainingData) -> Posterior:
        """Return the predictive object of the trained networks; ``scaler_`` is set already."""

    def _uncalibrated(self) -> Calibration:
        """Return the scale and tails of the distribution with ``calibration=None``."""
        return Calibration()

    def _min_oob_members(self) -> int:
        """Return how many members must not be trained on a row to calibrate by it."""
        return 1

    def _holds_out(self, spec: TrainingSpec) -> bool:
        """Return whether rows are held out of the training of all members, and of the standardisation."""
        scored = spec.selection_score is not None and not spec.bootstrap
        return scored or self.calibration == "split"

    def _architecture(self) -> Architecture:
        """Return what builds the stacked module."""
        return MLPArchitecture(self._hidden_sizes(), check_module(self.module))

    def _hidden_sizes(self, at_least: int = 0) -> tuple[int, ...]:
        """Return the checked sizes of the hidden layers."""
        sizes = np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)).tolist()
        if len(sizes) < at_least:
            raise ValueError(
                f"`hidden_layer_sizes` must name at least {at_least} hidden layer for "
                f"{type(self).__name__}, got {self.hidden_layer_sizes!r}."
            )
        return tuple(check_integer(size, "hidden_layer_sizes") for size in sizes)

    # ------------------------------------------------------------------------------- fitting

    def _options(self) -> TrainingOptions:
        """Return how the networks are trained, from checked parameters."""
        clip = self.clip_norm
        self._check_skorch()
        return TrainingOptions(
            architecture=self._architecture(),
            batch_size=check_integer(self.batch_size, "batch_size"),
            max_epochs=self.max_epochs,
            auto_epochs=self._auto_epochs,
            lr_schedule=check_option(self.lr_schedule, "lr_schedule", ("cosine", "constant")),
            clip_norm=None if clip is None else check_number(clip, "clip_norm", positive=True),
            device=self.device,
            dtype=self.dtype,
            callbacks=self.callbacks,
            net_params=self.net_params,
            verbose=self.verbose,
        )

    def _check_skorch(self) -> None:
        """Raise for parameters of skorch that are invalid, or that the estimator sets."""
        if not isinstance(self.callbacks, list | tuple | None):
            raise TypeError(
                f"`callbacks` must be a list of skorch callbacks or None, got {self.callbacks!r}."
            )
        if not isinstance(self.net_params, dict | None):
            raise TypeError(f"`net_params` must be a dict or None, got {self.net_params!r}.")
        for name in self.net_params or {}:
            parameter = name if name in _OWN_NET_PARAMS else name.split("__")[0]
            if parameter not in _OWN_NET_PARAMS or (parameter == "callbacks" and name != parameter):
                continue
            own = _OWN_NET_PARAMS[parameter]
            remedy = f"Use its parameter `{own}`." if hasattr(self, own) else "Leave it out."
            raise ValueError(
                f"`net_params` must not hold {name!r}, which {type(self).__name__} sets by itself. {remedy}"
            )

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        if fit_params:
            raise TypeError(f"{type(self).__name__}.{caller} takes no parameters {sorted(fit_params)}.")
        check_unmasked(X, "X")
        target = check_y(y, self)
        features, _ = validate_data(self, X, target, dtype=np.float64, ensure_min_samples=2)
        weight = check_sample_weight(sample_weight, len(target))
        metadata = {} if weight is None else {"sample_weight": weight}
        return TrainingData(features, target, weight, metadata=metadata)

    def _prepare(self, data: TrainingData) -> FitPlan:
        """Hold rows out, standardise and plan, from checked parameters."""
        spec = self._training_spec()
        check_option(self.calibration, "calibration", self._calibrations)
        check_single_coverage(self.calibration_coverage, "calibration_coverage")
        if spec.counts_rows or self.calibration is not None:
            effective_rows(data.sample_weight, len(data))  # raises where weights do not count repetitions
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        held_out = np.zeros(len(data), dtype=bool)
        if self._holds_out(spec):
            held_out = hold_out(self.validation_size, data, seed)
        self.scaler_ = _standardiser(data, held_out)
        return spec.plan(data, self.scaler_, held_out, seed)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        fit_together([(self, data)], progress)

    def _fit_many(
        self,
        X: Any,
        y: Any,
        rows: Sequence[IntArray],
        *,
        random_states: Sequence[int] | None = None,
        **params: Any,
    ) -> list[BaseNeuralRegressor]:
        """Fit one clone for each set of rows, all in one stacked training.

        `cross_val_predict_dist`, `fit_transform` and every other cross-fitting of skuq come here, and
        `simulate_coverage`, where each fit has a seed of its own.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Training features.
        y : array-like of shape (n,)
            Target.
        rows : sequence of ndarray
            The row numbers of each fit, such as the training rows of each fold.
        random_states : sequence of int or None, default=None
            The ``random_state`` of each fit, one a set of rows; None leaves that of this estimator to all.
        **params : dict
            ``sample_weight``, one a row of X, where there are weights.

        Returns
        -------
        estimators : list of estimator
            Fitted estimators, one a set of rows, each as `fit` on these rows would give but for rounding.
        """
        estimators = [self] * len(rows)
        if random_states is not None:
            estimators = [clone(self).set_params(random_state=seed) for seed in random_states]
        return fit_clones(estimators, X, y, rows, **params)

    def _fit_transform(self, data: TrainingData, progress: Progress) -> Distribution:
        if not self._training_spec().bootstrap:
            return super()._fit_transform(data, progress)
        fit = fit_together([(self, data)], progress)[0]
        return self._out_of_bag_dist(fit, data)

    def _finish_fit(self, fit: TrainedFit, data: TrainingData) -> float:
        """Set the fitted attributes, and return the number of calibration rows, infinite without."""
        posterior = self._posterior(fit, data)
        calibration, n_rows = self._uncalibrated(), np.inf
        if self.calibration is not None and self.scaler_.y_scale > 0:  # a constant target is certain
            calibration, n_rows = self._calibrate(posterior, fit, data)
        # all at the end, so that a fit that fails leaves no half of a model
        self.net_, self.best_epoch_ = fit.net, fit.best_epoch
        self._fitted_posterior, self._calibration = posterior, calibration
        self.factor_, self.df_ = calibration.factor, calibration.df
        return n_rows

    # --------------------------------------------------------------------------- calibration

    def _is_out_of_bag(self) -> bool:
        return self._training_spec().bootstrap

    def _is_calibrated(self) -> bool:
        return self.calibration is not None

    def _calibrate(
        self, posterior: Posterior, fit: TrainedFit, data: TrainingData
    ) -> tuple[Calibration, float]:
        """Return scale and tails by rows that are not trained on, and the number of these rows."""
        rows, oob_mask = self._oob_rows("calibration", fit, data, self._min_oob_members())
        left_out = data.take(rows)
        z = posterior.standardised_residuals(left_out.X, left_out.y, oob_mask)
        learn = Calibration.of_scale_and_tails if posterior.calibrates_tails else Calibration.of_scale
        weight = left_out.sample_weight
        n_rows = float(len(z) if weight is None else weight.sum())
        return learn(z, self.calibration_coverage, weight), n_rows

    def _oob_rows(
        self, parameter: str, fit: TrainedFit, data: TrainingData, at_least: int = 1
    ) -> tuple[IntArray, BoolArray]:
        """Return the rows of a parameter that is "oob" or "split", and which members count for them.

        "split" are the rows held out of training, "oob" others on which some members are not trained.
        """
        split = getattr(self, parameter) == "split"
        oob_mask = fit.plan.out_of_bag() & (fit.plan.held_out == split)[:, np.newaxis]
        rows = rows_with_weight(np.asarray(oob_mask.sum(axis=1) >= at_least), data)
        if not len(rows):
            which, n_members = "any" if at_least == 1 else "two", oob_mask.shape[1]
            raise ValueError(
                f"no row was left out by {which} of the {n_members} members, but `{parameter}` is 'oob'. "
                f"Use more members or rows, or {parameter}='split'."
            )
        return rows, oob_mask[rows]

    # ------------------------------------------------------------------------ out-of-bag rows

    def _out_of_bag_dist(self, fit: TrainedFit, data: TrainingData) -> Distribution:
        """Return the distributions of the training rows by the members that are not trained on them."""
        posterior = cast(EnsemblePosterior, self._fitted_posterior)
        oob_mask = fit.plan.out_of_bag()
        loc, scale = posterior.draw(data.X)
        for rows, other in self._refit_without_rows(data, oob_mask, fit.plan.seed):
            loc[rows], scale[rows] = other.draw(data.X[rows])
            oob_mask[rows] = True  # no member of the other ensemble is trained on these rows
        return posterior.distribution_of(NetworkPredictions(loc, scale, oob_mask), self._calibration)

    def _refit_without_rows(
        self, data: TrainingData, oob_mask: BoolArray, seed: int
    ) -> Iterator[tuple[IntArray, Posterior]]:
        """Fit other ensembles without the rows that too few members left out, a tenth of all at a time."""
        too_few_oob = np.flatnonzero(oob_mask.sum(axis=1) < min(2, oob_mask.shape[1]))
        n_parts = -(-10 * len(too_few_oob) // len(data))
        rng = np.random.RandomState(seed)
        parts = np.array_split(rng.permutation(too_few_oob), n_parts) if n_parts else []
        pairs = []
        for rows in parts:
            other = clone(self).set_params(calibration=None, random_state=int(rng.randint(MAX_SEED)))
            pairs.append((other, data.take(rows_outside(rows, len(data)))))
        fit_together(pairs, NO_PROGRESS)
        return zip(parts, (other._fitted_posterior for other, _ in pairs), strict=True)

    # ---------------------------------------------------------------------------- prediction

    @property
    def history_(self) -> History:
        """Skorch's history of the training: the mean loss of the members, and the score of the epochs."""
        check_is_fitted(self)
        return self.net_.history

    def _check_new(self, X: Any) -> None:
        check_is_fitted(self)
        check_unmasked(X, "X")

    def _features(self, X: Any) -> FloatArray:
        """Return checked new features."""
        features: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return features

    def _current_posterior(self) -> Posterior:
        """Return the posterior of the present networks and `device`, as another machine may load a model."""
        return replace(self._fitted_posterior, module=self.net_.module_, device=self.device)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted_posterior")

    def _predict_dist(self, X: Any) -> Distribution:
        return self._current_posterior().distribution(self._features(X), self._calibration)

    def predict_members(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the prediction of each member, before calibration.

        Members are the networks of an ensemble or the snapshots of a training; else `n_draws` networks or
        functions drawn from the posterior, the same for all rows and all calls.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.
        return_std : bool, default=False
            Whether to return the members' standard deviations of the noise too.

        Returns
        -------
        members : ndarray of shape (n, M)
            Means by the M members, in the units of y.
        members_std : ndarray of shape (n, M)
            Only with `return_std`; in the units of y. The same number for all where the noise is constant,
            and 0 for members that predict none.
        """
        self._check_new(X)
        loc, scale = self._current_posterior().draw(self._features(X))
        return (loc, scale) if return_std else loc


def fit_clones(
    estimators: Sequence[BaseNeuralRegressor],
    X: Any,
    y: Any,
    rows: Sequence[IntArray],
    *,
    sample_weight: Any = None,
) -> list[BaseNeuralRegressor]:
    """Fit a clone of each estimator to its rows, all together."""
    pairs: list[tuple[BaseNeuralRegressor, TrainingData]] = []
    for estimator, part in zip(estimators, rows, strict=True):
        one = clone(estimator)
        weight = slice_fit_params(X, {"sample_weight": sample_weight}, part)["sample_weight"]
        pairs.append((one, one._read(safe_indexing(X, part), safe_indexing(y, part), weight, {}, "fit")))
    fit_together(pairs, NO_PROGRESS)
    return [one for one, _ in pairs]


def fit_together(
    pairs: Sequence[tuple[BaseNeuralRegressor, TrainingData]], progress: Progress
) -> list[TrainedFit]:
    """Fit neural estimators, each on its own data; those with equal options in one stacked training."""
    plans: list[FitPlan] = []
    groups: list[tuple[TrainingOptions, list[int]]] = []
    for number, (one, data) in enumerate(pairs):
        options = one._options()
        plans.append(one._prepare(data))
        # compared one by one, as options with callbacks or functions of the user need not be hashable
        group = next((members for others, members in groups if others == options), None)
        if group is None:
            groups.append((options, group := []))
        group.append(number)
    fits: dict[int, TrainedFit] = {}
    n_calibration: dict[int, float] = {}
    for options, group in groups:
        n_jobs = pairs[group[0]][0].n_jobs
        report = progress.reporter("epoch")
        trained = train([plans[number] for number in group], options, n_jobs=n_jobs, on_epoch=report)
        for number, fit in zip(group, trained, strict=True):
            one, data = pairs[number]
            fits[number], n_calibration[number] = fit, one._finish_fit(fit, data)
    order = range(len(pairs))
    _warn_of_few_rows([(pairs[number][0].calibration_coverage, n_calibration[number]) for number in order])
    return [fits[number] for number in order]


def _warn_of_few_rows(calibrations: Sequence[tuple[float, float]]) -> None:
    """Warn once where fewer rows calibrated than the ranks of the coverage need, at the caller of fit."""
    for coverage, n_rows in calibrations:
        needed = rows_needed(coverage)
        if n_rows < needed:
            warn_user(
                f"intervals of {100 * coverage:g} % need at least {needed} rows to be calibrated by, got "
                f"{n_rows:g}: they may be too narrow. Use more rows, a larger `validation_size` where rows "
                "are held out, or a lower `calibration_coverage`.",
                SmallSampleWarning,
            )
            return


def _standardiser(data: TrainingData, held_out: BoolArray) -> Standardiser:
    """Learn from the rows that are trained on; from all where their target alone is constant."""
    kept = ~held_out
    weight = None if data.sample_weight is None else data.sample_weight[kept]
    scaler = Standardiser.learn(data.X[kept], data.y[kept], weight)
    if scaler.y_scale > 0 or not held_out.any():
        return scaler
    return Standardiser.learn(data.X, data.y, data.sample_weight)
