"""Deep ensembles for classification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._fitting.training_data import TrainingData
from skuq._validation import check_integer, check_option
from skuq.neural._classifier import BaseNeuralClassifier
from skuq.neural._predictive.class_probabilities import EnsembleClassPosterior
from skuq.neural._training.plan import TrainingSpec, plan_folds
from skuq.neural._training.trainer import TrainedFit


class DeepEnsembleClassifier(BaseNeuralClassifier):
    """Ensemble of networks that predict class probabilities. All networks are trained in one pass.

    The classifier predicts class probabilities and the epistemic part of their entropy. The epistemic part
    measures the disagreement between the members and decreases with more data. Prefer `MCDropoutClassifier`
    if you can afford only one network. Pass this classifier to `skuq.conformal.ConformalClassifier` to
    predict sets of classes with guaranteed coverage.

    Parameters
    ----------
    n_estimators : int, default=10
        Number of members M. With one member, the classifier is a plain network.
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. The hidden units are rectified linear units (ReLU).
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the logits of the K classes. `module` replaces
        `hidden_layer_sizes`.
    bootstrap : bool or "folds", default=False
        Rows on which each member is trained. With True, n rows are drawn with replacement for each member.
        With "folds", the members are divided into groups of four. For each group, the rows are divided into
        four random folds, and each of the four members is trained without one of these folds. With False, all
        members are trained on all rows.
    keep_best : {"log_loss", False}, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. "log_loss" is the log
        loss of the averaged forecast. With `bootstrap`, it is computed on out-of-bag rows, and otherwise on
        held-out rows.
    class_weight : dict, "balanced" or None, default=None
        Class weights. The losses and scores of the rows of a class are multiplied by the weight of the class.
        "balanced" uses weights that are inversely proportional to the class frequencies.
    standardize : {"columns", "all", False}, default="columns"
        Standardization of the features by the training rows. "columns" uses a separate mean and scale for
        each column. "all" uses one mean and one scale for all columns. Prefer "all" for images: a pixel that
        is nearly always 0 would have a separate scale that is too small. False leaves X unchanged.
    held_out_size : float, int, splitter or iterable, default=0.2
        Rows that are held out of training if `keep_best` requires held-out rows. A float is the share of
        held-out rows, and an int is the number of held-out rows. The rows are drawn at random, stratified by
        class. With a splitter, such as PredefinedSplit, the test rows of its first split are held out.
    learning_rate : float, default=0.003
        Initial learning rate of Adam.
    lr_schedule : {"cosine", "constant"}, default="cosine"
        Schedule of the learning rate. "cosine" decreases the learning rate to 0 by the last epoch.
    batch_size : int, default=32
        Number of rows per batch. The number is adjusted so that all batches of an epoch have the same size.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" means 8000 training steps in total, but at least 40 and at most 200 epochs.
        The training ends earlier if it has run for twice as many epochs as the best epoch so far, but not
        before epoch 40. The score of `keep_best` determines the best epoch. If this score still improves at
        the end of 200 epochs, for example because there is little noise, a second training with 8000 steps
        and at most 1000 epochs replaces the first training.
    clip_norm : float or None, default=5.0
        Upper limit for the Euclidean norm of the gradient of each network. None means that gradients are not
        clipped.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of training and prediction. "auto" uses a GPU if a GPU is available and at least 32 networks
        are trained or drawn.
    dtype : {"float32", "float64"}, default="float32"
        Floating-point type of the networks in training. X is standardized in float64.
    callbacks : list or None, default=None
        Additional skorch callbacks. Scoring callbacks, such as EpochScoring, are not supported.
    net_params : dict or None, default=None
        Additional parameters of the skorch net, such as ``optimizer``.
    n_jobs : int or None, default=None
        Number of jobs that run in parallel. Each job trains a block of networks. The results do not depend on
        ``n_jobs``.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, of the choice and order of rows, and of random draws. An integer makes
        results reproducible.
    verbose : int, default=0
        Whether skorch prints a line for each epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels, in the order of the columns of `predict_proba`.
    net_ : skorch.NeuralNet
        Trained skorch net. ``net_.module_`` contains the networks.
    history_ : skorch.history.History
        Mean training loss of each epoch. With `keep_best`, also the score of every second epoch.
    best_epoch_ : int
        Number of the epoch whose weights were kept, counted from 1.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    DeepEnsembleRegressor : The same method for regression.
    VariationalClassifier : One network with uncertain weights. It is less confident far from the training
        rows.
    skuq.conformal.ConformalClassifier : Prediction sets with guaranteed coverage.

    Notes
    -----
    The members minimize the cross-entropy. They differ in their initial weights and in the order of rows
    [1]_. The forecast is the mean of their probabilities, not of their logits. `predict_entropy` separates
    the epistemic from the aleatoric part.

    Without `keep_best`, the forecast is overconfident after long training, because the cross-entropy of the
    training rows keeps decreasing. To correct this, use
    ``sklearn.calibration.CalibratedClassifierCV(FrozenEstimator(model), method="temperature")`` with other
    rows. The forecast is also overconfident far from the training rows, because the members often agree on a
    wrong class there.

    ``sample_weight`` counts repetitions. Sample weights and class weights multiply the losses.

    Cost: M networks are trained in one pass. The memory contains one copy of the standardized rows.

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
        bootstrap: bool | str = False,
        keep_best: str | bool = False,
        class_weight: dict[Any, float] | str | None = None,
        standardize: str | bool = "columns",
        held_out_size: Any = 0.2,
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
        self.held_out_size = held_out_size
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

    def _spec_for(self, data: TrainingData) -> TrainingSpec:
        n_members = check_integer(self.n_estimators, "n_estimators")
        bootstrap = check_option(self.bootstrap, "bootstrap", (True, False, "folds"))
        draw_rows = plan_folds if bootstrap == "folds" else None
        return self._spec(
            data, self.learning_rate, n_members=n_members, bootstrap=bool(bootstrap), draw_rows=draw_rows
        )

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> EnsembleClassPosterior:
        return EnsembleClassPosterior(self.scaler_, fit.net.module_, self.device)
