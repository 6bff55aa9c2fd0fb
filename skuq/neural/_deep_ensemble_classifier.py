"""Deep ensembles of classifiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._validation import check_integer, check_option
from skuq.neural._classifier import BaseNeuralClassifier, LabelledData
from skuq.neural._predictive.class_probabilities import EnsembleClassPosterior
from skuq.neural._training.plan import TrainingSpec
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["DeepEnsembleClassifier"]


class DeepEnsembleClassifier(BaseNeuralClassifier):
    r"""Networks that predict class probabilities, trained together, whose mean is the forecast.

    It predicts which class a row has, how certain that is, and how much of the uncertainty is epistemic, i.e.
    reducible by more data: where the members disagree. Prefer `MCDropoutClassifier` where only one network
    can be afforded, and `skuq.classifiers.ConformalClassifier` around it for sets with guaranteed coverage.

    Parameters
    ----------
    n_estimators : int, default=10
        Number of members M. One is a plain network.
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. They have rectified linear units.
    module : callable or None, default=None
        Class or function that is called as ``module(n_features, n_outputs)`` and returns a torch module that
        maps (n, n_features) to (n, n_outputs). The outputs are the logits of the K classes; it replaces
        ``hidden_layer_sizes``.
    bootstrap : bool, default=False
        Whether each member is trained on rows drawn with replacement, or on all.
    keep_best : {"log_loss", False}, default=False
        Score that selects the best epoch: all epochs are trained, and the weights are kept of the epoch with
        the best score. It is the log loss of the averaged forecast, on out-of-bag rows where there is a
        bootstrap, else on rows held out of training; False keeps the last epoch.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which losses and scores are multiplied. "balanced" weighs all classes
        alike, by the inverse of their number of rows.
    standardize : {"columns", "all", False}, default="columns"
        Standardisation of the features by the training rows. "columns" gives each column a mean and scale of
        its own; "all" gives the same to all columns, as images need, where a pixel that is hardly ever lit in
        training would be scaled to hundreds of standard deviations in other rows; False leaves X as it is.
    validation_size : float, int, splitter or iterable, default=0.2
        Rows held out of training where the best epoch needs them: a share or a number of rows, drawn
        at random with the shares of the classes, or a splitter whose first test rows are taken, such as
        PredefinedSplit.
    learning_rate : float, default=0.003
        Initial learning rate of Adam.
    lr_schedule : {"cosine", "constant"}, default="cosine"
        Schedule of the learning rate. "cosine" falls to 0 by the last epoch.
    batch_size : int, default=32
        Number of rows of a batch; the batches of an epoch are made equally large.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" takes 8000 steps, but at least 40 and at most 200 epochs.
    clip_norm : float or None, default=5.0
        Limit of the norm of each network's gradient.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of training and prediction; "auto" is a GPU where there is one and at least 32 networks are
        trained or drawn.
    dtype : {"float32", "float64"}, default="float32"
        Floating type of the networks in training; X is standardised in float64 either way.
    callbacks : list or None, default=None
        Further skorch callbacks. Scoring callbacks, such as EpochScoring, are not supported.
    net_params : dict or None, default=None
        Further parameters of the skorch net, such as ``optimizer``.
    n_jobs : int or None, default=None
        Number of processes, where there are more networks than are trained at once; results do not depend on
        it.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, rows and draws; an integer makes results reproducible.
    verbose : int, default=0
        Whether skorch prints the epochs.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels of the columns of `predict_proba`.
    net_ : skorch.NeuralNet
        Trained skorch net; ``net_.module_`` holds the networks.
    history_ : skorch.history.History
        Mean training loss of each epoch. With `keep_best`, every second epoch has its score too.
    best_epoch_ : int
        Epoch, from 1, whose weights were kept.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    DeepEnsembleRegressor : The same for numbers.
    VariationalClassifier : One network with uncertain weights, wider under shift.
    skuq.classifiers.ConformalClassifier : Prediction sets with guaranteed coverage.

    Notes
    -----
    Members are trained by the cross-entropy from other initial weights and orders of rows [1]_. The forecast
    is the mean of their probabilities, not of their logits. `predict_entropy` has its parts.

    Over-confident where: trained for long without `keep_best`, as the cross-entropy of training rows keeps
    falling (``sklearn.calibration.CalibratedClassifierCV(FrozenEstimator(model), method="temperature")`` on
    other rows corrects that); and far from the training rows, where members agree more than they are right.

    ``sample_weight`` counts repetitions: losses are weighted by it. So do weights of classes.

    Cost: M networks in one pass; memory holds the standardised rows once.

    References
    ----------
    .. [1] B. Lakshminarayanan, A. Pritzel, C. Blundell, "Simple and scalable predictive uncertainty
       estimation using deep ensembles", NeurIPS 2017, arXiv:1612.01474.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skuq.neural import DeepEnsembleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DeepEnsembleClassifier(5, max_epochs=10, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (150, 3)
    >>> total, aleatoric, epistemic = model.predict_entropy(X)
    >>> bool((epistemic <= total).all())
    True
    """

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        module: Callable[[int, int], Any] | None = None,
        bootstrap: bool = False,
        keep_best: str | bool = False,
        class_weight: dict[Any, float] | str | None = None,
        standardize: str | bool = "columns",
        validation_size: Any = 0.2,
        learning_rate: float = 3e-3,
        lr_schedule: str = "cosine",
        batch_size: int = 32,
        max_epochs: int | str = "auto",
        clip_norm: float | None = 5.0,
        device: str = "auto",
        dtype: str = "float32",
        callbacks: Any = None,
        net_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.bootstrap = bootstrap
        self.keep_best = keep_best
        self.class_weight = class_weight
        self.standardize = standardize
        self.validation_size = validation_size
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.clip_norm = clip_norm
        self.device = device
        self.dtype = dtype
        self.callbacks = callbacks
        self.net_params = net_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------- fitting

    def _spec_for(self, data: LabelledData) -> TrainingSpec:
        n_members = check_integer(self.n_estimators, "n_estimators")
        bootstrap = check_option(self.bootstrap, "bootstrap", (True, False))
        return self._spec(data, self.learning_rate, n_members=n_members, bootstrap=bootstrap)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> EnsembleClassPosterior:
        return EnsembleClassPosterior(self.scaler_, fit.net.module_, self.device)
