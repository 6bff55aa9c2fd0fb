"""What every neural estimator shares: reading data, planning, training together, and what remains of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch.nn import Module

from skuq._sklearn_compat import count_rows, safe_indexing, slice_fit_params
from skuq._typing import BoolArray, FloatArray, IntArray
from skuq._validation import check_integer, check_number, check_option, check_sample_weight
from skuq.neural._device import read_device
from skuq.neural._judging import member_moments
from skuq.neural._plan import Architecture, FitPlan, MLPArchitecture, TrainingOptions
from skuq.neural._standardise import Standardiser
from skuq.neural._training import TrainedFit, train
from skuq.regressors._base import BaseUncertaintyRegressor
from skuq.regressors._progress import NO_PROGRESS, Progress
from skuq.regressors._random import MAX_SEED
from skuq.regressors._training import TrainingData, check_y

__all__ = ["BaseNeuralRegressor", "fit_many", "fit_together"]


class BaseNeuralRegressor(BaseUncertaintyRegressor):
    """Base class of the neural estimators: members in one stacked training, folds too.

    A subclass stores the parameters named below, and writes ``_plan(data, scaler, held_out, seed)``, which
    says what to train, ``_accept(fit, data)``, which learns from what was trained, and
    ``_predict_dist(X)``. It may override ``_architecture()``, where the network is another one, and
    ``_held_out(data, seed)``, where rows are kept from training.

    The parameters that `_options` reads: ``hidden_layer_sizes, module, batch_size, max_epochs,
    lr_schedule, clip_norm, device, dtype, callbacks, net_params, verbose``; besides them ``n_jobs`` and
    ``random_state`` are read.
    """

    scaler_: Standardiser
    net_: Any

    # -------------------------------------------------------------- what a subclass writes

    @abstractmethod
    def _plan(self, data: TrainingData, scaler: Standardiser, held_out: BoolArray, seed: int) -> FitPlan:
        """Say what is to be trained for checked data."""

    @abstractmethod
    def _accept(self, fit: TrainedFit, data: TrainingData) -> None:
        """Learn from the trained members what else is needed; ``net_`` and ``scaler_`` are kept already."""

    def _held_out(self, data: TrainingData, seed: int) -> BoolArray:
        """Say which rows are kept from all members, and from the standardisation."""
        return np.zeros(len(data), dtype=bool)

    def _architecture(self) -> Architecture:
        """Return what builds the stacked module."""
        if self.module is not None and not callable(self.module):
            raise TypeError(
                "`module` must be a class or function that builds a torch.nn.Module when called with "
                f"(n_features, n_outputs), or None, got {self.module!r}."
            )
        if isinstance(self.module, Module):
            raise TypeError(
                "`module` must be a class or function that builds the network, so that every member gets "
                f"initial weights of its own, got an instance of {type(self.module).__name__}. Pass a "
                "function: module=lambda n_features, n_outputs: ..."
            )
        return MLPArchitecture(self._hidden_sizes(), self.module)

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
        return TrainingOptions(
            architecture=self._architecture(),
            batch_size=check_integer(self.batch_size, "batch_size"),
            max_epochs=self.max_epochs,
            lr_schedule=check_option(self.lr_schedule, "lr_schedule", ("cosine", "constant")),
            clip_norm=None if clip is None else check_number(clip, "clip_norm", positive=True),
            device=self.device,
            dtype=self.dtype,
            callbacks=self.callbacks,
            net_params=self.net_params,
            verbose=self.verbose,
        )

    def _read(
        self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any], caller: str
    ) -> TrainingData:
        if fit_params:
            raise TypeError(f"{type(self).__name__}.{caller} takes no parameters {sorted(fit_params)}.")
        target = check_y(y, self)
        features, _ = validate_data(self, X, target, dtype=np.float64, ensure_min_samples=2)
        weight = check_sample_weight(sample_weight, len(target))
        metadata = {} if weight is None else {"sample_weight": weight}
        return TrainingData(features, target, weight, metadata=metadata)

    def _fit(self, data: TrainingData, progress: Progress) -> None:
        fit_together([(self, data)], progress)

    def fit_many(self, X: Any, y: Any, rows: Sequence[IntArray], **params: Any) -> list[Any]:
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
        return fit_many([self] * len(rows), X, y, rows, **params)

    # ---------------------------------------------------------------------------- prediction

    @property
    def history_(self) -> Any:
        """Skorch's history of the training: the mean loss of the members, and the score of the epochs."""
        check_is_fitted(self)
        return self.net_.history

    def _check_new(self, X: Any) -> None:
        check_is_fitted(self)

    def _moments(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of each member, shape (n, M), in the units of y."""
        features = validate_data(self, X, dtype=np.float64, reset=False)
        return self._moments_of(features)

    def _standardised(self, X: Any) -> FloatArray:
        """Return checked new features, standardised."""
        return self.scaler_.features(validate_data(self, X, dtype=np.float64, reset=False))

    def _moments_of(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        module = self.net_.module_
        n_outputs = self.net_.criterion_.losses[0][0].n_outputs
        device = read_device(self.device, module.n_members)
        loc, variance = member_moments(module, self.scaler_.features(features), device, n_outputs)
        return self.scaler_.loc(loc), self.scaler_.scale(variance)


def fit_many(
    estimators: Sequence[Any],
    X: Any,
    y: Any,
    rows: Sequence[IntArray] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> list[Any]:
    """Fit many neural estimators, each on its own rows, in as few stacked trainings as there can be.

    For studies: folds, candidates of a search, seeds, losses and simulations become one training,
    which takes a fraction of the time of one after the other. Those are trained together whose networks
    and training have the same parameters; losses, learning rates and random states may differ.

    Parameters
    ----------
    estimators : sequence of K neural estimators
        Of any classes of `skuq.neural`; they are cloned, not fitted themselves.
    X : array-like or DataFrame of n rows
        Features of all fits.
    y : array-like of shape (n,)
        Target of all fits.
    rows : sequence of K ndarrays, or None, default=None
        The row numbers that each estimator is fitted to, or boolean masks; None is all rows for each.
    sample_weight : array-like of shape (n,) or None, default=None
        How many repetitions each row counts for.

    Returns
    -------
    fitted : list of K estimators
        Each as its ``fit`` on its rows would give, but for rounding.

    Raises
    ------
    TypeError
        Where an estimator is no network of `skuq.neural`.
    ValueError
        Where there are not as many row sets as estimators.

    See Also
    --------
    skuq.model_selection.cross_val_predict_dist : Distributions for the tested rows of folds.

    Notes
    -----
    Cost: memory holds the standardised rows of all fits that are trained together. Training time grows
    with the number of networks once some 40 of them fill a core.

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
    rows = [np.arange(count_rows(X))] * len(estimators) if rows is None else list(rows)
    if len(rows) != len(estimators):
        raise ValueError(
            f"`rows` must name one set of rows for each of the {len(estimators)} estimators, got "
            f"{len(rows)}. Give each its own, or None for all rows."
        )
    pairs = []
    for estimator, part in zip(estimators, rows, strict=True):
        if not isinstance(estimator, BaseNeuralRegressor):
            raise TypeError(
                "`estimators` must hold estimators of skuq.neural that are trained together, got "
                f"{type(estimator).__name__}. Fit others one by one."
            )
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
        seed = int(check_random_state(one.random_state).randint(MAX_SEED))
        held_out = one._held_out(data, seed)
        one.scaler_ = _standardiser(data, held_out)
        prepared.append(one._plan(data, one.scaler_, held_out, seed))
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
            one._accept(fit, data)
            results[number] = fit
    return [results[number] for number in range(len(pairs))]


def _standardiser(data: TrainingData, held_out: BoolArray) -> Standardiser:
    """Learn from the rows that are trained on; from all where their target alone is constant."""
    kept = ~held_out
    weight = None if data.sample_weight is None else data.sample_weight[kept]
    scaler = Standardiser.learn(data.X[kept], data.y[kept], weight)
    if scaler.y_scale > 0 or not held_out.any():
        return scaler
    return Standardiser.learn(data.X, data.y, data.sample_weight)
