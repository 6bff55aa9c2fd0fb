"""Variational classification network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._fitting.training_data import TrainingData
from skuq._validation import check_integer, check_number
from skuq.neural._classifier import BaseNeuralClassifier
from skuq.neural._modules.architecture import Architecture
from skuq.neural._modules.variational import Divergence, VariationalArchitecture
from skuq.neural._predictive.class_probabilities import DrawnClassPosterior
from skuq.neural._training.plan import LONG_TRAINING, TrainingSpec, resolve_learning_rate
from skuq.neural._training.trainer import TrainedFit

_RATES = {False: 1e-2, True: 3e-3}
"""Learning rate for each value of `last_layer`. With True, the initial standard deviations are near their
optimum."""


class VariationalClassifier(BaseNeuralClassifier):
    """Network with normally distributed weights that predicts class probabilities (variational inference).

    The classifier predicts class probabilities and the epistemic part of their entropy. Its probabilities are
    less extreme than the probabilities of ensembles and of dropout. On new rows that are similar to the
    training rows, the probabilities are less accurate. On other rows, they are far less overconfident. Prefer
    `DeepEnsembleClassifier` if new rows are similar to the training rows.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. The hidden units are rectified linear units (ReLU).
    last_layer : bool, default=False
        Whether only the weights of the last layer are uncertain. With True, the training is faster, but the
        model is overconfident.
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the inputs of the last layer, which skuq adds.
        ``n_outputs`` is the last entry of `hidden_layer_sizes`. Requires `last_layer`.
    prior : float or "empirical", default=1.0
        Standard deviation of the normal prior of the weights. The mean of the prior is 0. "empirical" means
        the value that maximizes the evidence, for each layer. This value shrinks the weights strongly if
        there are more weights than the rows can determine. Biases have a standard normal prior.
    kl_weight : float, default=1.0
        Factor of the divergence from the prior. With 1, the posterior follows Bayes' rule. The divergence is
        also divided by the number of rows.
    warm_up : float, default=0.3
        Share of the epochs in which the factor of the divergence grows from 0 to `kl_weight`. Without this
        warm-up, the prior often dominates before the mean is learned, and the prediction is constant.
    n_draws : int, default=100
        Number of networks or functions that are drawn from the posterior. At least 2. The default of the
        regressors is 200. On the digits data, the log loss with 1000 draws differs from the log loss with 100
        draws by less than 1 %.
    keep_best : {"log_loss", False}, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. "log_loss" is the log
        loss of the network with the mean weights on held-out rows. It is not the log loss of the averaged
        forecast.
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
    learning_rate : float or "auto", default="auto"
        Initial learning rate of Adam. "auto" means 0.01, or 0.003 with `last_layer`. These values are as
        measured for `VariationalRegressor`.
    lr_schedule : {"cosine", "constant"}, default="cosine"
        Schedule of the learning rate. "cosine" decreases the learning rate to 0 by the last epoch.
    batch_size : int, default=32
        Number of rows per batch. The number is adjusted so that all batches of an epoch have the same size.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" means 6000 training steps in total, but at least 40 and at most 1000 epochs.
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
    VariationalRegressor : The same method for regression.
    DeepEnsembleClassifier : Ensemble of independent networks.

    Notes
    -----
    The posterior of the weights is a normal distribution without correlations (mean field). The training
    minimizes the mean cross-entropy of the rows plus 1/n times the divergence from the prior. In training,
    each row of a batch has its own random weights, by local reparameterization [1]_. The standard deviations
    of the weights start at 0.05 divided by the square root of the number of inputs of the layer.

    ``sample_weight`` counts repetitions. Weights are used in the losses, and n is the sum of the weights.
    Class weights do not change n.

    Cost: an epoch takes four times as long as an epoch of a plain network, or twice as long with
    `last_layer`. A prediction runs `n_draws` networks at the same time, or `n_draws` last layers with
    `last_layer`.

    References
    ----------
    .. [1] D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization
       trick", NeurIPS 2015, arXiv:1506.02557.
    .. [2] C. Blundell, J. Cornebise, K. Kavukcuoglu, D. Wierstra, "Weight uncertainty in neural
       networks", ICML 2015, arXiv:1505.05424.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skuq.neural import VariationalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = VariationalClassifier(max_epochs=10, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (150, 3)
    >>> total, aleatoric, epistemic = model.predict_entropy(X)
    >>> bool((epistemic <= total).all())
    True
    """

    _auto_epochs = LONG_TRAINING

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        *,
        last_layer: bool = False,
        module: Callable[[int, int], Any] | None = None,
        prior: float | str = 1.0,
        kl_weight: float = 1.0,
        warm_up: float = 0.3,
        n_draws: int = 100,
        keep_best: str | bool = False,
        class_weight: dict[Any, float] | str | None = None,
        standardize: str | bool = "columns",
        held_out_size: Any = 0.2,
        learning_rate: float | str = "auto",
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
        self.hidden_layer_sizes = hidden_layer_sizes
        self.last_layer = last_layer
        self.module = module
        self.prior = prior
        self.kl_weight = kl_weight
        self.warm_up = warm_up
        self.n_draws = n_draws
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

    def _architecture(self) -> Architecture:
        divergence = Divergence.from_params(self.kl_weight, self.warm_up, self._prior_variance())
        sizes = self._hidden_sizes()
        return VariationalArchitecture.from_params(
            sizes, self.module, self.last_layer, divergence, noise=False
        )

    def _prior_variance(self) -> float | None:
        if isinstance(self.prior, str):
            if self.prior != "empirical":
                raise ValueError(f"`prior` must be a positive number or 'empirical', got {self.prior!r}.")
            return None
        return check_number(self.prior, "prior", positive=True) ** 2

    def _spec_for(self, data: TrainingData) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        rate = resolve_learning_rate(self.learning_rate, _RATES[self.last_layer])
        return self._spec(data, rate, counts_rows=True)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> DrawnClassPosterior:
        return DrawnClassPosterior(self.scaler_, fit.net.module_, self.device, self.n_draws, fit.plan.seed)
