"""What every neural estimator shares: reading data, planning, training together, and what remains of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

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
from skuq.distributions._numerics.ranks import rows_needed
from skuq.exceptions import SmallSampleWarning
from skuq.neural._modules.architecture import Architecture, MLPArchitecture
from skuq.neural._modules.device import read_device
from skuq.neural._modules.evaluate import member_moments
from skuq.neural._modules.user_module import own_module
from skuq.neural._predictive.calibration import Calibration
from skuq.neural._training.holdout import hold_out
from skuq.neural._training.plan import AUTO_EPOCHS, FitPlan, TrainingOptions
from skuq.neural._training.scaling import Standardiser
from skuq.neural._training.spec import Recipe
from skuq.neural._training.trainer import TrainedFit, train
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._fit_inputs import TrainingData, check_y
from skuq.regressors._progress import NO_PROGRESS, Progress
from skuq.regressors._random import MAX_SEED

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
"""What the skorch net is given in any case, or makes no use of, and the parameter of the estimators that says
it, if any."""


class BaseNeuralRegressor(BaseUncertaintyRegressor):
    """Base class of the neural estimators: members in one stacked training, folds too.

    A subclass stores the parameters named below, and writes ``_recipe()``, which says what to train,
    ``_accept(fit, data)``, which learns from what was trained, and ``_predict_dist(X)``. It may override
    ``_architecture()``, where the network is another one, and ``_holds_out(recipe)``.

    The parameters that are read here: ``hidden_layer_sizes, module, batch_size, max_epochs, lr_schedule,
    clip_norm, device, dtype, callbacks, net_params, verbose, n_jobs, random_state, calibration,
    calibration_coverage, validation_size``.
    """

    scaler_: Standardiser
    net_: Any
    factor_: float
    df_: float
    _auto_epochs: ClassVar[tuple[int, int, int]] = AUTO_EPOCHS
    _calibrations: ClassVar[tuple[str | None, ...]] = ("split", None)

    # -------------------------------------------------------------- what a subclass writes

    @abstractmethod
    def _recipe(self) -> Recipe:
        """Say what is to be trained, from checked parameters."""

    @abstractmethod
    def _accept(self, fit: TrainedFit, data: TrainingData) -> None:
        """Learn from the trained members what else is needed; ``net_`` and ``scaler_`` are kept already."""

    def _holds_out(self, recipe: Recipe) -> bool:
        """Say whether rows are kept from all members, and from the standardisation."""
        judged = recipe.judge is not None and not recipe.bootstrap
        return judged or self.calibration == "split"

    def _architecture(self) -> Architecture:
        """Return what builds the stacked module."""
        return MLPArchitecture(self._hidden_sizes(), own_module(self.module))

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
        """Raise for what skorch cannot be given, or is given by the estimator."""
        if not isinstance(self.callbacks, list | tuple | None):
            raise TypeError(
                f"`callbacks` must be a list of skorch callbacks or None, got {self.callbacks!r}."
            )
        if not isinstance(self.net_params, dict | None):
            raise TypeError(f"`net_params` must be a dict or None, got {self.net_params!r}.")
        for name in self.net_params or {}:
            known = name if name in _OWN_NET_PARAMS else name.split("__")[0]
            if known not in _OWN_NET_PARAMS or (known == "callbacks" and name != known):
                continue
            own = _OWN_NET_PARAMS[known]
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
        """Keep rows from training, standardise, and plan; as checked parameters say."""
        recipe = self._recipe()
        check_option(self.calibration, "calibration", self._calibrations)
        check_single_coverage(self.calibration_coverage, "calibration_coverage")
        if recipe.counts_rows or self.calibration is not None:
            effective_rows(data.sample_weight, len(data))  # raises where weights do not count repetitions
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        held_out = np.zeros(len(data), dtype=bool)
        if self._holds_out(recipe):
            held_out = hold_out(self.validation_size, data, seed)
        self.scaler_ = _standardiser(data, held_out)
        return recipe.plan(data, self.scaler_, held_out, seed)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        fit_together([(self, data)], progress)

    def _fit_many(self, X: Any, y: Any, rows: Sequence[IntArray], **params: Any) -> list[Any]:
        """Fit one clone for each set of rows, all in one stacked training.

        `cross_val_predict_dist`, `fit_transform` and every other cross-fitting of skuq come here.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Training features.
        y : array-like of shape (n,)
            Target.
        rows : sequence of ndarray
            The row numbers of each fit, such as the training rows of each fold.
        **params : dict
            ``sample_weight``, one a row of X, where there are weights.

        Returns
        -------
        estimators : list of estimator
            One a set of rows, as `fit` on these rows would give but for rounding.
        """
        return fit_clones([self] * len(rows), X, y, rows, **params)

    # --------------------------------------------------------------------------- calibration

    def _is_calibrated(self) -> bool:
        return self.calibration is not None

    def _calibrates(self) -> bool:
        """Say whether there is something to calibrate; a constant target is predicted for certain."""
        return self.calibration is not None and self.scaler_.y_scale > 0

    def _calibrate(
        self,
        z: FloatArray,
        weight: FloatArray | None,
        learn: Callable[..., Calibration] = Calibration.of_scale_and_tails,
    ) -> None:
        """Learn scale and tails from the residuals of unseen rows, in standard deviations."""
        self._note(learn(z, self.calibration_coverage, weight))
        self._n_calibrating = float(len(z) if weight is None else weight.sum())

    def _note(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self.factor_, self.df_ = calibration.factor, calibration.df

    # ---------------------------------------------------------------------------- prediction

    @property
    def history_(self) -> Any:
        """Skorch's history of the training: the mean loss of the members, and the score of the epochs."""
        check_is_fitted(self)
        return self.net_.history

    def _check_new(self, X: Any) -> None:
        check_is_fitted(self)
        check_unmasked(X, "X")

    def _moments(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of each member, shape (n, M), in the units of y."""
        return self._moments_of(self._features(X))

    def _features(self, X: Any) -> FloatArray:
        """Return checked new features."""
        features: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return features

    def _standardised(self, X: Any) -> FloatArray:
        """Return checked new features, standardised."""
        return self.scaler_.features(self._features(X))

    def _moments_of(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        module = self.net_.module_
        n_outputs = self.net_.criterion_.losses[0][0].n_outputs
        device = read_device(self.device, module.n_members)
        loc, variance = member_moments(module, self.scaler_.features(features), device, n_outputs)
        return self.scaler_.loc(loc), self.scaler_.scale(variance)


def fit_clones(
    estimators: Sequence[Any], X: Any, y: Any, rows: Sequence[IntArray], *, sample_weight: Any = None
) -> list[Any]:
    """Fit a clone of each estimator to its rows, all together."""
    pairs = []
    for estimator, part in zip(estimators, rows, strict=True):
        one = clone(estimator)
        weight = slice_fit_params(X, {"sample_weight": sample_weight}, part)["sample_weight"]
        pairs.append((one, one._read(safe_indexing(X, part), safe_indexing(y, part), weight, {}, "fit")))
    fit_together(pairs, NO_PROGRESS)
    return [one for one, _ in pairs]


def fit_together(pairs: Sequence[tuple[Any, TrainingData]], progress: Progress) -> list[TrainedFit]:
    """Fit neural estimators, each on its own data; those with equal options in one stacked training."""
    results: dict[int, TrainedFit] = {}
    prepared = []
    groups: list[tuple[TrainingOptions, list[int]]] = []
    for number, (one, data) in enumerate(pairs):
        options = one._options()
        prepared.append(one._prepare(data))
        group = next((members for known, members in groups if known == options), None)
        if group is None:
            groups.append((options, group := []))
        group.append(number)
    for options, group in groups:
        fits = train(
            [prepared[number] for number in group],
            options,
            n_jobs=pairs[group[0]][0].n_jobs,
            on_epoch=progress.teller("epoch"),
        )
        for number, fit in zip(group, fits, strict=True):
            one, data = pairs[number]
            one.net_, one.best_epoch_ = fit.net, fit.best_epoch
            one._note(Calibration())
            one._n_calibrating = np.inf
            one._accept(fit, data)
            results[number] = fit
    _warn_of_few_rows([one for one, _ in pairs])
    return [results[number] for number in range(len(pairs))]


def _warn_of_few_rows(models: Sequence[Any]) -> None:
    """Warn once where fewer rows calibrated than the ranks of the coverage need, at the caller of fit."""
    for model in models:
        needed = rows_needed(model.calibration_coverage)
        if model._n_calibrating < needed:
            warn_user(
                f"intervals of {100 * model.calibration_coverage:g} % need at least {needed} rows to be "
                f"calibrated by, got {model._n_calibrating:g}: they may be too narrow. Use more rows, a "
                "larger `validation_size` where rows are held out, or a lower `calibration_coverage`.",
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
