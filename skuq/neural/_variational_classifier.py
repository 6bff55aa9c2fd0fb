"""A classifier whose weights are learnt as normal variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._validation import check_integer, check_number
from skuq.neural._classifier import BaseNeuralClassifier, LabelledData
from skuq.neural._modules.architecture import Architecture
from skuq.neural._modules.variational import Divergence, VariationalArchitecture
from skuq.neural._predictive.class_probabilities import DrawnClassPosterior
from skuq.neural._training.plan import LONG_TRAINING, TrainingSpec, resolve_learning_rate
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["VariationalClassifier"]

_RATES = {False: 1e-2, True: 3e-3}
"""The standard deviations of all layers are far from where they start; those of the last layer less."""


class VariationalClassifier(BaseNeuralClassifier):
    r"""A network whose weights are normal variables, learnt by variational inference (SVI).

    It predicts which class a row has, how certain that is, and how much of the uncertainty is epistemic. Its
    probabilities are the most diffuse of the three: less accurate on rows like the training rows, and far
    less over-confident on others. Prefer `DeepEnsembleClassifier` where new rows are like the training rows.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. They have rectified linear units.
    last_layer : bool, default=False
        Whether only the weights of the last layer are uncertain; faster, and over-confident.
    module : callable or None, default=None
        Class or function that is called as ``module(n_features, n_outputs)`` and returns a torch module that
        maps (n, n_features) to (n, n_outputs). ``n_outputs`` is the last of ``hidden_layer_sizes``: the
        outputs are the features of the last layer, which is put behind them. Only with `last_layer`.
    prior : float or "empirical", default=1.0
        Standard deviation of the normal prior of the weights, about 0. "empirical" is that of most evidence
        for each layer; it shrinks the weights of a network with more of them than the rows determine. Biases
        have a standard normal prior.
    kl_weight : float, default=1.0
        Factor of the divergence from the prior; 1 is Bayes' rule. The number of rows, by which the divergence
        is divided, is not part of it.
    warm_up : float, default=0.3
        Share of the epochs over which that factor grows from 0; without, the prior often dominates before the
        mean is learnt, and the prediction is constant.
    n_draws : int, default=100
        Number of networks or functions that are drawn from the posterior. At least 2.
    keep_best : {"log_loss", False}, default=False
        Score that selects the best epoch: all epochs are trained, and the weights are kept of the epoch with
        the best score. It is the log loss of the network at the mean of the weights, not of the averaged
        forecast, on rows held out of training; False keeps the last epoch.
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
    learning_rate : float or "auto", default="auto"
        Initial learning rate of Adam. "auto" is 0.01, with `last_layer` 0.003.
    lr_schedule : {"cosine", "constant"}, default="cosine"
        Schedule of the learning rate. "cosine" falls to 0 by the last epoch.
    batch_size : int, default=32
        Number of rows of a batch; the batches of an epoch are made equally large.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" takes 6000 steps, but at least 40 and at most 1000 epochs.
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
    VariationalRegressor : The same for numbers.
    DeepEnsembleClassifier : Several networks.

    Notes
    -----
    Weights have a normal posterior without correlations (mean field), which minimises the mean cross-entropy
    of the rows plus the divergence from the prior over n. Each row of a batch has weights of its own, by
    local reparameterisation [1]_. The standard deviations start at 0.05 over the root of the number of
    inputs. With `keep_best`, epochs are scored at the mean of the weights.

    ``sample_weight`` counts repetitions: losses are weighted by it, and n is its sum. Weights of classes
    change the losses, not n.

    Cost: an epoch takes four times as long as that of a plain network, twice with `last_layer`. Predictions
    take `n_draws` networks, in memory at once; with `last_layer` as many last layers.

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
        validation_size: Any = 0.2,
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

    def _architecture(self) -> Architecture:
        divergence = Divergence.of(self.kl_weight, self.warm_up, self._prior_variance())
        sizes = self._hidden_sizes()
        return VariationalArchitecture.of(sizes, self.module, self.last_layer, divergence, noise=False)

    def _prior_variance(self) -> float | None:
        """Return the variance of the prior, None for that of most evidence."""
        if isinstance(self.prior, str):
            if self.prior != "empirical":
                raise ValueError(f"`prior` must be a positive number or 'empirical', got {self.prior!r}.")
            return None
        return check_number(self.prior, "prior", positive=True) ** 2

    def _spec_for(self, data: LabelledData) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        rate = resolve_learning_rate(self.learning_rate, _RATES[self.last_layer])
        return self._spec(data, rate, counts_rows=True)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> DrawnClassPosterior:
        return DrawnClassPosterior(self.scaler_, fit.net.module_, self.device, self.n_draws, fit.plan.seed)
