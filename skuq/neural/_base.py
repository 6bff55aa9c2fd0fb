"""Base class of the neural estimators, and several fits in one training.

Several estimators can be trained together in one stack of networks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch.history import History

from skuq._compat import check_jobs, count_rows, safe_indexing, slice_fit_params, warn_user
from skuq._fitting.seeds import MAX_SEED, NO_PROGRESS, Progress
from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import (
    check_integer,
    check_integer_or_auto,
    check_number,
    check_option,
    check_random_state,
    check_same_rows,
    check_unmasked,
)
from skuq.exceptions import SmallSampleWarning
from skuq.neural._architecture import Architecture, check_module
from skuq.neural._input_layer import PLAIN_LAYERS, Layers
from skuq.neural._plan import (
    AUTO_EPOCHS,
    PATIENCE,
    FitPlan,
    Standardizer,
    TrainingOptions,
    TrainingSpec,
    hold_out,
    table_of,
)
from skuq.neural._predictive import TrainedNetworks
from skuq.neural._stacked import StackedModule
from skuq.neural._training import StackedNet, TrainedFit, train

NetworkT = TypeVar("NetworkT", bound="BaseNeuralEstimator")

_OWN_NET_PARAMS = {
    **{name: name for name in ("module", "max_epochs", "batch_size", "device", "verbose")},
    **dict.fromkeys(("lr", "learning_rates", "optimizer__lr"), "learning_rate"),
    "criterion": "loss",
    "train_split": "held_out_size",
    **dict.fromkeys(("iterator_train", "iterator_valid", "dataset", "compile"), ""),
}
"""Skorch parameters that the user must not set. The value is the parameter of the estimator to use instead,
if there is one."""


class BaseNeuralEstimator(BaseEstimator, ABC):
    """Base class of neural regressors and classifiers."""

    # `fit_together` collects the `TrainingOptions` and the `FitPlan` of each estimator. `train` trains the
    # networks of all plans with equal options in one `StackedNet`. `_finish_fit` stores the posterior of each
    # `TrainedFit`.

    scaler_: Standardizer
    net_: StackedNet
    best_epoch_: int
    _fitted_posterior: TrainedNetworks
    _auto_epochs: ClassVar[tuple[int, int, int]] = AUTO_EPOCHS
    _lr_schedule: ClassVar[str] = "cosine"

    # ---------------------------------------------------------------------- for subclasses

    @abstractmethod
    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        """Return the checked data, and set the attributes that describe the columns."""

    @abstractmethod
    def _spec_for(self, data: Any) -> TrainingSpec:
        """Check the parameters and return the training specification."""

    @abstractmethod
    def _learn_scaler(self, data: Any, held_out: BoolArray) -> Standardizer:
        """Return the standardizer of X and y, fitted to the rows that are not held out."""

    @abstractmethod
    def _posterior(self, fit: TrainedFit, data: TrainingData) -> TrainedNetworks:
        """Return the posterior of the trained networks. The attribute ``scaler_`` must be set before."""

    def _holds_out(self, spec: TrainingSpec) -> bool:
        return spec.selection_score is not None and not spec.bootstrap

    def _check_data(self, spec: TrainingSpec, data: TrainingData) -> None:
        """Raise an error if the parameters are invalid for these data."""

    def _row_factor(self, data: Any) -> FloatArray | None:
        """Return a factor (n,) that multiplies the loss of each row, like a weight.

        Return None if there is no factor.
        """
        return None

    def _architecture(self) -> Architecture:
        return Architecture(StackedModule, self._hidden_sizes(), check_module(self.module), self._layers())

    def _layers(self) -> Layers:
        if not hasattr(self, "n_frequencies"):
            return PLAIN_LAYERS
        return Layers.from_params(self.n_frequencies, self.input_scale, self.activation)

    def _hidden_sizes(self, at_least: int = 0) -> tuple[int, ...]:
        sizes = np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)).tolist()
        if len(sizes) < at_least:
            raise ValueError(
                f"`hidden_layer_sizes` must have at least {at_least} hidden layer for "
                f"{type(self).__name__}, got {self.hidden_layer_sizes!r}."
            )
        return tuple(check_integer(size, "hidden_layer_sizes") for size in sizes)

    def _options(self) -> TrainingOptions:
        net_params, max_epochs = self._net_params(), check_integer_or_auto(self.max_epochs, "max_epochs")
        check_jobs(self.n_jobs, self.verbose)
        schedule, clip = net_params.pop("lr_schedule", self._lr_schedule), net_params.pop("clip_norm", 5.0)
        return TrainingOptions(
            architecture=self._architecture(),
            batch_size=check_integer_or_auto(self.batch_size, "batch_size"),
            max_epochs=max_epochs,
            auto_epochs=self._auto_epochs,
            patience=PATIENCE if max_epochs == "auto" and self._auto_epochs == AUTO_EPOCHS else None,
            lr_schedule=check_option(schedule, "net_params['lr_schedule']", ("cosine", "constant")),
            clip_norm=None if clip is None else check_number(clip, "net_params['clip_norm']", positive=True),
            device=self.device,
            dtype=self.dtype,
            callbacks=net_params.pop("callbacks", None),
            net_params=net_params,
            verbose=self.verbose,
        )

    def _net_params(self) -> dict[str, Any]:
        """Return the parameters of skorch. Raise an error if the estimator sets one of them."""
        if not isinstance(self.net_params, dict | None):
            raise TypeError(f"`net_params` must be a dict or None, got {self.net_params!r}.")
        params = dict(self.net_params or {})
        if not isinstance(callbacks := params.get("callbacks"), list | tuple | None):
            raise TypeError(
                f"`net_params['callbacks']` must be a list of skorch callbacks or None, got {callbacks!r}."
            )
        for name in params:
            if not isinstance(name, str):
                raise TypeError(f"`net_params` must have names of skorch parameters as keys, got {name!r}.")
            parameter = name if name in _OWN_NET_PARAMS else name.split("__")[0]
            if parameter not in _OWN_NET_PARAMS:
                continue
            own = _OWN_NET_PARAMS[parameter]
            remedy = f"Use the parameter `{own}` of the estimator." if hasattr(self, own) else "Leave it out."
            raise ValueError(
                f"`net_params` must not contain {name!r}, which {type(self).__name__} sets. {remedy}"
            )
        return params

    def _prepare(self, data: TrainingData) -> FitPlan:
        spec = self._spec_for(data)
        self._check_data(spec, data)
        seed = int(check_random_state(self.random_state).randint(MAX_SEED))
        held_out = np.zeros(len(data), dtype=bool)
        if self._holds_out(spec):
            held_out = hold_out(self.held_out_size, data, seed, by_class=spec.loss.target == "class")
        self.scaler_ = self._learn_scaler(data, held_out)
        return spec.plan(data, self.scaler_, held_out, seed, self._row_factor(data))

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
    ) -> list[Any]:
        """Fit one clone per set of rows in one stacked training. The weights are in ``params``."""
        estimators = [self] * len(rows)
        if random_states is not None:
            estimators = [clone(self).set_params(random_state=seed) for seed in random_states]
        return fit_clones(estimators, X, y, rows, **params)

    def _finish_fit(self, fit: TrainedFit, data: Any) -> str | None:
        """Set the fitted attributes. Return the message of a `SmallSampleWarning`, or None."""
        self._keep(fit, self._posterior(fit, data))
        return None

    def _keep(self, fit: TrainedFit, posterior: TrainedNetworks) -> None:
        """Set all fitted attributes at once, so that a failed fit changes none of them."""
        self.net_, self.best_epoch_ = fit.net, fit.best_epoch
        self._fitted_posterior = posterior

    @property
    def history_(self) -> History:
        """Training history of skorch. It contains the mean training loss and the scores of the epochs."""
        check_is_fitted(self)
        return self.net_.history

    def _check_new(self, X: Any) -> Any:
        check_is_fitted(self)
        check_unmasked(X, "X")
        return X

    def _check_features(self, X: Any, y: Any) -> Any:
        features = table_of(X)
        if features is None:
            features = validate_data(
                self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2
            )
        else:
            # zeros instead of the values, because only the columns and the number of rows are checked
            zeros = pd.DataFrame(np.zeros(features.shape), columns=features.columns)
            validate_data(self, zeros, ensure_min_samples=2)
        check_same_rows(features, y)
        return features

    def _features(self, X: Any) -> Any:
        if self._fitted_posterior.scaler.columns.encoder is None:
            return validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        validate_data(self, X, skip_check_array=True, reset=False)
        return X

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags

    def _current_posterior(self) -> Any:
        return replace(self._fitted_posterior, module=self.net_.module_, device=self.device)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted_posterior")


def fit_clones(
    estimators: Sequence[NetworkT],
    X: Any,
    y: Any,
    rows: Sequence[IntArray],
    *,
    sample_weight: Any = None,
) -> list[NetworkT]:
    """Fit a clone of each estimator to its rows, in as few trainings as possible."""
    pairs: list[tuple[NetworkT, TrainingData]] = []
    for estimator, part in zip(estimators, rows, strict=True):
        one = clone(estimator)
        weight = slice_fit_params(X, {"sample_weight": sample_weight}, part)["sample_weight"]
        pairs.append((one, one._read(safe_indexing(X, part), safe_indexing(y, part), weight, {}, "fit")))
    fit_together(pairs, NO_PROGRESS)
    return [one for one, _ in pairs]


def fit_together(
    pairs: Sequence[tuple[BaseNeuralEstimator, TrainingData]], progress: Progress
) -> list[TrainedFit]:
    """Fit each estimator to its data. Networks with equal options are trained together."""
    plans: list[FitPlan] = []
    groups: list[tuple[TrainingOptions, list[int]]] = []
    for number, (one, data) in enumerate(pairs):
        options = one._options()
        plans.append(one._prepare(data))
        options = options.with_codes(one.scaler_.n_codes)
        # a search instead of a dictionary, because options may contain unhashable objects
        group = next((members for others, members in groups if others == options), None)
        if group is None:
            groups.append((options, group := []))
        group.append(number)
    fits: dict[int, TrainedFit] = {}
    messages: dict[int, str | None] = {}
    for options, group in groups:
        n_jobs = pairs[group[0]][0].n_jobs
        report = progress.reporter("epoch")
        trained = train([plans[number] for number in group], options, n_jobs=n_jobs, on_epoch=report)
        for number, fit in zip(group, trained, strict=True):
            one, data = pairs[number]
            fits[number] = _trained_longer(one, fit, data, options, report)
            messages[number] = one._finish_fit(fits[number], data)
    order = range(len(pairs))
    message = next((messages[number] for number in order if messages[number]), None)
    if message is not None:  # issue one warning for all fits
        warn_user(message, SmallSampleWarning)
    return [fits[number] for number in order]


def _trained_longer(
    estimator: BaseNeuralEstimator,
    fit: TrainedFit,
    data: TrainingData,
    options: TrainingOptions,
    report: Callable[..., object] | None,
) -> TrainedFit:
    if fit.plan.selection_score is None:
        return fit
    longer = options.longer(fit.plan.batch_shape(options.batch_size)[0], fit.best_epoch)
    if longer is None:
        return fit
    # a new plan, because the first plan has used its random numbers
    return train([estimator._prepare(data)], longer, n_jobs=estimator.n_jobs, on_epoch=report)[0]


def fit_many(
    estimators: Sequence[NetworkT],
    X: Any,
    y: Any,
    rows: Sequence[IntArray] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> list[NetworkT]:
    """Fit many neural estimators, each to its own rows, with as few stacked trainings as possible.

    Use this function to fit folds, candidates of a search, seeds, losses or simulations together. This takes
    a fraction of the time of separate fits. Estimators are trained together if their layers and training
    parameters are equal. Losses, learning rates and random states may differ.

    Parameters
    ----------
    estimators : sequence of K neural estimators
        Estimators of any class of `skuq.neural` except `ProbabilisticNet`. Their clones are fitted.
    X : array-like or DataFrame of n rows
        Features of all fits.
    y : array-like of shape (n,)
        Target of all fits.
    rows : sequence of K ndarrays, or None, default=None
        Row numbers or a boolean mask for each estimator. None uses all rows for all estimators.
    sample_weight : array-like of shape (n,) or None, default=None
        Number of repetitions of each row.

    Returns
    -------
    fitted : list of K estimators
        Fitted clones. Each clone equals the result of ``fit`` on its rows, up to rounding errors. If a
        `module` draws random numbers from torch in training (for example, for dropout), the results also
        differ by chance, because estimators that are trained together share torch's random generator.

    Raises
    ------
    TypeError
        If an estimator is not from `skuq.neural`, or if it is a `ProbabilisticNet`.
    ValueError
        If the numbers of row sets and estimators differ, or if the lengths of X, y and weights differ.

    See Also
    --------
    skuq.model_selection.cross_val_predict_dist : Distributions for the tested rows of folds.

    Notes
    -----
    Cost: the memory contains the standardized rows of all fits that are trained together. About 40 networks
    use a processor core fully. With more networks, the training time is proportional to the number of
    networks.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import PNNRegressor, fit_many
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> candidates = [PNNRegressor(loss=loss, max_epochs=5, random_state=0) for loss in ("nll", "crps")]
    >>> by_likelihood, by_crps = fit_many(candidates, X, y)
    >>> by_crps.loss
    'crps'
    """
    check_consistent_length(X, y, sample_weight)
    rows = [np.arange(count_rows(X))] * len(estimators) if rows is None else list(rows)
    if len(rows) != len(estimators):
        raise ValueError(
            f"`rows` must contain one set of rows for each of the {len(estimators)} estimators, got "
            f"{len(rows)} sets. Use None to fit each estimator to all rows."
        )
    for estimator in estimators:
        if not isinstance(estimator, BaseNeuralEstimator):
            raise TypeError(
                "`estimators` must be estimators of skuq.neural other than ProbabilisticNet, got "
                f"{type(estimator).__name__}. Fit other estimators one by one."
            )
    return fit_clones(estimators, X, y, rows, sample_weight=sample_weight)
