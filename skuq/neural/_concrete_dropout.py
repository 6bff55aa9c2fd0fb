"""Concrete dropout: dropout with learned rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from skuq._fitting.training_data import TrainingData
from skuq._typing import FloatArray, SupportLike
from skuq._validation import check_integer, check_number
from skuq.neural._architecture import Architecture, check_module
from skuq.neural._losses import Loss, NLLLoss, resolve_selection_score
from skuq.neural._mc_dropout import DropoutModule
from skuq.neural._plan import LONG_TRAINING, TrainingSpec
from skuq.neural._predictive import DropoutPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._training import TrainedFit

FIRST_RATE, TEMPERATURE = 0.1, 0.1
"""Initial dropout rate, and temperature of the concrete distribution."""

LOGIT_SPEED = 10.0
"""Learning rate of the logits, relative to the learning rate of the weights. With 1, the dropout rates would
still decrease at the end of training."""


class LearnedRates(DropoutModule):
    """Networks with a learned dropout rate for each hidden layer, or for the outputs of a user's network."""

    # A unit is multiplied by (1 - z) / (1 - p). Here z is the logistic function of (logit p + logit u) /
    # temperature with u uniform. The value of z is close to 0 or 1, and differentiable with respect to p.

    def __init__(
        self, seeds: Any, n_features: int, sizes: Any, *args: Any, length_scale: float, **options: Any
    ):
        n_rates = max(1, len(sizes) - 1)
        logits = np.full((len(seeds), n_rates), math.log(FIRST_RATE / (1 - FIRST_RATE)) / LOGIT_SPEED)
        super().__init__(seeds, n_features, sizes, *args, extra={"logits": logits}, **options)
        self.length_scale, self.first_random = length_scale, len(sizes) - n_rates

    @property
    def logits(self) -> Tensor:
        """Return the logits of the rates, shape (M, L) for L layers."""
        return LOGIT_SPEED * self.weights["logits"]

    def factors(self, k: int, uniform: Tensor) -> Tensor:
        logit = self.logits[:, k - self.first_random, None, None]
        noise = torch.logit(uniform, eps=1e-7)
        return torch.sigmoid((logit + noise) / -TEMPERATURE) / torch.sigmoid(-logit)

    def penalty(self) -> Tensor:
        """Return the divergence of the dense layers from the prior, per training row, shape (M,)."""
        weights = [self.weights[f"weight_{k}"] for k in range(len(self.sizes))]
        sizes = [0.5 * self.length_scale**2 * weight.square().sum((1, 2)) for weight in weights]
        total = sum(sizes[: self.first_random], self.flat.new_zeros(()))
        for logit, size, weight in zip(
            self.logits.T, sizes[self.first_random :], weights[self.first_random :], strict=True
        ):
            log_rate, log_kept = logsigmoid(logit), logsigmoid(-logit)
            total = total + size * torch.exp(-log_kept)
            total = total + weight.shape[2] * (log_rate.exp() * log_rate + log_kept.exp() * log_kept)
        return total / self.get_buffer("n_rows")

    def rates(self) -> FloatArray:
        learned: FloatArray = torch.sigmoid(self.logits.detach()[0]).to(torch.float64).numpy()
        return learned


class ConcreteDropoutRegressor(BaseNeuralRegressor):
    r"""One network that predicts mean and variance, with learned dropout rates.

    The regressor estimates the uncertainty of a prediction and its epistemic part at the cost of one network.
    The noise may vary with x. Prefer `DeepEnsembleRegressor` if you can afford several networks, because its
    epistemic part is more accurate. Prefer `MCDropoutRegressor` if the noise is the same for all x.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. The hidden units are rectified linear units (ReLU).
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the inputs of the last layer, which skuq adds.
        ``n_outputs`` is the last entry of `hidden_layer_sizes`. Dropout with one learned rate is applied to
        the inputs of the last layer.
    length_scale : float, default=0.01
        Prior length scale of the function, in units of the standard deviations of the features. A larger
        value gives smaller weights and lower dropout rates.
    n_draws : int, default=200
        Number of networks or functions that are drawn from the posterior. At least 2.
    keep_best : str, Loss or False, default="crps"
        Score that selects the epoch whose weights are kept. False keeps the last epoch. All epochs are
        trained. Every second epoch is scored on rows that are held out of training. Valid scores are "nll",
        "beta_nll", "crps", "check", "interval", "squared_error" and instances of `Loss`.
    calibration : {"split", None}, default="split"
        Rows that calibrate the scale and the tails of the distribution. "split" uses rows that are held out
        of training. None returns the uncalibrated distribution. Its intervals are too short on small data
        sets.
    coverage : float, default=0.9
        Coverage of the central intervals whose width is calibrated by conformal prediction. The width of
        intervals with other coverages also depends on the estimated tails. If there are fewer calibration
        rows than the coverage requires (9 rows for 90 %), a `SmallSampleWarning` is issued.
    held_out_size : float, int, splitter or iterable, default=0.2
        Rows that are held out of training if calibration, the noise estimate or `keep_best` requires held-out
        rows. A float is the share of held-out rows, and an int is the number of held-out rows. The rows are
        drawn at random. With a splitter, such as PredefinedSplit, the test rows of its first split are held
        out.
    learning_rate : float, default=0.003
        Initial learning rate of Adam.
    batch_size : int, default=32
        Number of rows per batch. The number is adjusted so that all batches of an epoch have the same size.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" means 6000 training steps in total, but at least 40 and at most 1000 epochs.
    cv : int, splitter or iterable, default=5
        Folds of `fit_transform`.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of training and prediction. "auto" uses a GPU if a GPU is available and at least 32 networks
        are trained or drawn.
    dtype : {"float32", "float64"}, default="float32"
        Floating-point type of the networks in training. X and y are standardized in float64.
    net_params : dict or None, default=None
        Further parameters of the skorch net, such as ``optimizer`` and a list of ``callbacks``. Scoring
        callbacks, such as EpochScoring, are not supported. ``lr_schedule`` is "cosine" (the default), which
        decreases the learning rate to 0 by the last epoch, or "constant". ``clip_norm`` is the upper limit
        for the Euclidean norm of the gradient of each network (5.0 by default), or None.
    support : {"positive", "count"}, tuple (lower, upper), range or None, default=None
        Possible values of y. "count" means the integers from 0. "positive" means the numbers from 0. None in
        a tuple means that there is no bound. A range contains integers. Forecasts are clipped to the support
        after calibration. If the support contains only integers, forecasts are also rounded. Point
        predictions are the means of the clipped forecasts.
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
    net_ : skorch.NeuralNet
        Trained skorch net. ``net_.module_`` contains the networks.
    history_ : skorch.history.History
        Mean training loss of each epoch. With `keep_best`, also the score of every second epoch.
    best_epoch_ : int
        Number of the epoch whose weights were kept, counted from 1.
    dropout_ : ndarray of shape (n_hidden_layers,) or (1,)
        Learned dropout probability of each hidden layer. With `module`, a single value.
    factor_ : float
        Factor by which calibration multiplies the standard deviations. It is above 1 if the model is
        overconfident, and 1 without calibration.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100. Infinite for other distributions.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    MCDropoutRegressor : Dropout with a given rate and a constant noise variance.
    DeepEnsembleRegressor : Ensemble of independent networks.

    Notes
    -----
    Let N be the number of training rows. Let :math:`W_k` be the weights of the layer that follows hidden
    layer k with :math:`K_k` units and the dropout rate :math:`p_k`. The loss is the negative log-likelihood
    of a row plus

    .. math:: \frac{1}{N} \sum_k \left( \frac{l^2 \lVert W_k \rVert^2}{2 (1 - p_k)}
       - K_k H(p_k) \right),

    where l is the length scale and :math:`H(p) = -p \log p - (1 - p) \log(1 - p)`. This loss is half the loss
    of [1]_, which contains twice the log-likelihood. Because of the factor 1 / N, the rates and the epistemic
    part decrease with more rows. The rates start at 0.1, and the concrete distribution has the temperature
    0.1. The learning rate of the logits of the rates is ten times the learning rate of the weights. With
    equal learning rates, the dropout rates would still be decreasing at the end of training, and intervals
    would be too wide. Dropout is not applied to the features: if there are few features, dropping them would
    make the noise estimate too large. With `module`, the penalty applies only to the last layer, and dropout
    layers of the module are active only in training.

    A draw is one network for all rows and all calls. Each draw predicts a mean and a noise variance. The mean
    and the epistemic variance of the prediction are the mean and the variance of the draws' means. The noise
    variance is the mean of the draws' variances (algorithm 2 of [2]_).

    With ``calibration=None``, the intervals are too short if there are fewer than a few thousand rows or if
    ``keep_best=False``, because the network overfits the training rows. Confidence intervals (`epistemic`)
    are always too short. In the simulations of [2]_ (:doc:`/replications/sluijterman-2024`), their coverage
    decreases with the number of epochs, because the dropout rates continue to decrease. Far from the training
    rows, all intervals are too short. By default, coverage is not guaranteed, because the same rows select
    the epoch and calibrate the distribution. The epoch is selected by the score of the network without
    dropout. With ``keep_best=False``, coverage is guaranteed if rows are exchangeable.

    ``sample_weight`` counts repetitions. Weights are used in the losses, and N is the sum of the weights.

    Cost: one network is trained. An epoch takes longer than an epoch of a plain network. `fit_transform`
    trains the networks of all folds in one pass, which takes only slightly longer than one fit. A prediction
    runs the layers after the first dropout `n_draws` times.

    References
    ----------
    .. [1] Y. Gal, J. Hron, A. Kendall, "Concrete dropout", NeurIPS 2017, arXiv:1705.07832.
    .. [2] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import ConcreteDropoutRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = ConcreteDropoutRegressor(max_epochs=30, random_state=0).fit(X, y)
    >>> dist = model.predict_dist([[0.0]])
    >>> bool(dist.epistemic().std() < dist.std())
    True
    """

    _auto_epochs = LONG_TRAINING

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        *,
        module: Callable[[int, int], Any] | None = None,
        length_scale: float = 1e-2,
        n_draws: int = 200,
        keep_best: str | Loss | bool = "crps",
        calibration: str | None = "split",
        coverage: float = 0.9,
        held_out_size: Any = 0.2,
        learning_rate: float = 3e-3,
        batch_size: int = 32,
        max_epochs: int | str = "auto",
        cv: Any = 5,
        device: str = "auto",
        dtype: str = "float32",
        net_params: dict[str, Any] | None = None,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.length_scale = length_scale
        self.n_draws = n_draws
        self.keep_best = keep_best
        self.calibration = calibration
        self.coverage = coverage
        self.held_out_size = held_out_size
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.cv = cv
        self.device = device
        self.dtype = dtype
        self.net_params = net_params
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _architecture(self) -> Architecture:
        length_scale = check_number(self.length_scale, "length_scale", positive=True)
        hidden, module = self._hidden_sizes(at_least=1), check_module(self.module)
        options = {"length_scale": length_scale}
        return Architecture(LearnedRates, hidden, module, headed=True, options=options)

    def _training_spec(self) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        score = resolve_selection_score(self.keep_best)
        return TrainingSpec(NLLLoss(), self.learning_rate, score, counts_rows=True)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> DropoutPosterior:
        module, seed = fit.net.module_, fit.plan.seed
        self.dropout_ = module.rates()
        return DropoutPosterior(self.scaler_, module, self.device, self.n_draws, seed)
