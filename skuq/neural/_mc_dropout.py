"""Monte Carlo dropout for regression and classification: dropout in training and prediction.

In training, each row has its own draw. In prediction, a draw is one network for all rows, so that the
prediction for a row does not depend on other rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from skuq._fitting.training_data import TrainingData
from skuq._typing import SupportLike
from skuq._validation import check_integer, check_number, check_option
from skuq.neural._architecture import Architecture, UserNetworks, check_module
from skuq.neural._classifier import BaseNeuralClassifier
from skuq.neural._losses import Loss, NLLLoss, resolve_selection_score
from skuq.neural._plan import LONG_TRAINING, TrainingSpec
from skuq.neural._predictive import DrawnClassPosterior, DropoutPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._stacked import RandomModule, StackedModule, noise_variance, seeded_torch
from skuq.neural._training import TrainedFit

_DROPOUT_LAYERS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)


class DropoutModule(RandomModule):
    """Networks with dropout of the inputs of the dense layers from ``first_random`` on."""

    @abstractmethod
    def factors(self, k: int, uniform: Tensor) -> Tensor:
        """Return the factors of the inputs of dense layer k, given uniform draws (M or S, H, B)."""

    def dense(self, k: int, x: Tensor) -> Tensor:
        if self.training and k >= self.first_random:
            x = x * self.factors(k, self.draws.uniform(x))
        return super().dense(k, x)

    def drawn_layer(self, k: int, n_draws: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        weight, bias = self.weights[f"weight_{k}"], self.weights[f"bias_{k}"]
        uniform = torch.from_numpy(rng.random((n_draws, weight.shape[2], 1), dtype=np.float32))
        return weight * self.factors(k, uniform.to(weight)).transpose(1, 2), bias


class GivenRate(DropoutModule):
    """Perceptrons with a given dropout rate, after each hidden layer or only after the last."""

    def __init__(self, *args: Any, rate: float, last_layer: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rate, self.first_random = rate, len(self.sizes) - 1 if last_layer else 1

    def factors(self, k: int, uniform: Tensor) -> Tensor:
        return (uniform >= self.rate).to(uniform.dtype) / (1 - self.rate)


class UserDropout(StackedModule):
    """Networks with dropout layers that the user builds."""

    inputs: UserNetworks

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if not any(layer.p > 0 for layer in self._dropout_layers()):
            raise ValueError(
                "`module` must build a network with dropout layers, got a network without dropout layers. "
                "All draws of such a network are equal. Add a layer such as torch.nn.Dropout(0.2)."
            )
        n_features = args[1]
        try:
            with torch.no_grad():
                self.networks(2, np.random.default_rng(0))(self.flat.new_zeros(2, n_features))
        except Exception as error:  # vmap raises errors of many types
            raise ValueError(
                "`module` must build a network that torch.func.vmap supports. skuq uses vmap to apply each "
                f"draw of the dropout layers to all rows. Error of vmap: {error}. Avoid `if` and `while` "
                "that depend on values of tensors."
            ) from error

    def _dropout_layers(self) -> list[Any]:
        return [layer for layer in self.inputs.pattern.modules() if isinstance(layer, _DROPOUT_LAYERS)]

    def values_of_draws(self, n_draws: int) -> int:
        return n_draws * self.values_a_row

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Draw networks. Return a function from rows (B, d) to outputs (S, k, B)."""
        seed = int(rng.integers(1 << 62))
        self.inputs.pattern.eval()
        for layer in self._dropout_layers():
            layer.train()
        state = {name: value[0] for name, value in self.inputs.state_of(self.state()).items()}

        def one_row(x: Tensor) -> Tensor:
            return self.inputs.call(state, x.unsqueeze(0))[0]

        draws = vmap(vmap(one_row, randomness="same"), randomness="different")

        def run(x: Tensor) -> Tensor:
            with seeded_torch(seed, x.device):  # the same seed gives the same draws for all blocks of rows
                return self.with_noise(draws(x.expand(n_draws, *x.shape)).transpose(1, 2))

        return run


def dropout_architecture(estimator: Any, *, noise: bool) -> Architecture:
    """Check the parameters of the network, and return its settings."""
    check_option(estimator.last_layer, "last_layer", (True, False))
    module = check_module(estimator.module)
    if module is not None:
        return Architecture(UserDropout, (), module, noise=noise)
    hidden, rate = estimator._hidden_sizes(at_least=1), check_number(estimator.dropout, "dropout")
    if not 0 < rate < 1:
        raise ValueError(f"`dropout` must lie strictly between 0 and 1, got {rate}.")
    options = {"rate": rate, "last_layer": estimator.last_layer}
    return Architecture(GivenRate, hidden, noise=noise, options=options)


class MCDropoutRegressor(BaseNeuralRegressor):
    """One network with dropout in training and prediction, and a learned constant noise variance.

    The regressor estimates the uncertainty of a prediction and its epistemic part at the cost of one network.
    The noise is the same for all x. Prefer `ConcreteDropoutRegressor` if the noise varies with x. Prefer
    `DeepEnsembleRegressor` if you can afford several networks, because its epistemic part is more accurate.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. The hidden units are rectified linear units (ReLU).
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its output is the mean of the standardized target. `module` replaces
        `hidden_layer_sizes`, `dropout` and `last_layer`. Its dropout layers may have any rates. Units are
        also dropped in prediction. Each draw drops the same units for all rows. The torch module must work
        with `torch.func.vmap`.
    dropout : float, default=0.2
        Probability of dropping a hidden unit, strictly between 0 and 1. Not used with `module`.
    last_layer : bool, default=False
        Whether dropout is applied only to the last hidden layer. With True, predictions are faster, but the
        draws differ far less. Not used with `module`.
    n_draws : int, default=200
        Number of networks or functions that are drawn from the posterior. At least 2.
    output : {"moments", "members"}, default="moments"
        Form of the distribution. "moments" is a Student t distribution with the mean of the draws, and with
        the variance of the draws plus the noise variance. Without calibration, it is a normal distribution.
        "members" is the sample of the draws' means. Its intervals do not include the noise. For "members",
        calibration multiplies the distances from the mean by one factor, so that intervals have the nominal
        coverage.
    keep_best : str, Loss or False, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. All epochs are
        trained. Every second epoch is scored on rows that are held out of training. Valid scores are "nll",
        "beta_nll", "crps", "check", "interval", "squared_error" and instances of `Loss`. Only False
        guarantees the coverage.
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
    noise_std_ : float
        Standard deviation of the noise before calibration, in the units of y.
    factor_ : float
        Factor by which calibration multiplies the standard deviations. It is above 1 if the model is
        overconfident, and 1 without calibration.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100. Infinite for other distributions.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    ConcreteDropoutRegressor : Dropout with learned rates. The noise varies with x.
    DeepEnsembleRegressor : Ensemble of independent networks.

    Notes
    -----
    Dropout is applied after each hidden layer, but not to the features. A draw is one network for all rows
    and all calls, so the prediction for a row does not depend on other rows. The layers before the first
    dropout layer are the same for all draws. All draws are computed by one batched matrix product. The
    variance is the variance of the draws' means plus the noise variance, which is learned by maximum
    likelihood.

    With ``output="members"`` and ``calibration=None``, the intervals do not include the noise and are always
    too short. For example, with the dropout settings of Kompa et al. [2]_, the coverage of 95 % intervals was
    36 to 92 %. With `last_layer`, it was 9 to 27 %. With ``calibration=None``, the noise is estimated from
    residuals of training rows. The intervals are then too short on small data sets, with a low dropout rate,
    and with `last_layer`. Intervals are also too short far from the training rows. If the noise varies with
    x, they are too short where the noise is large. The width of confidence intervals depends on the dropout
    rate and does not decrease with more rows. With ``keep_best=False``, coverage is guaranteed if rows are
    exchangeable, because calibration rows are held out of training. The score of `keep_best` is the score of
    the network without dropout.

    Settings from the literature: Kompa et al. [2]_ use ``output="members"`` and ``calibration=None``. Their
    last-layer dropout also uses ``last_layer=True``.

    ``sample_weight`` counts repetitions. Weights are used in the losses.

    Cost: one network is trained. An epoch takes longer than an epoch of a plain network. `fit_transform`
    trains the networks of all folds in one pass, which takes little more time than one fit. A prediction runs
    the layers after the first dropout layer, or the whole `module`, `n_draws` times.

    References
    ----------
    .. [1] Y. Gal, Z. Ghahramani, "Dropout as a Bayesian approximation: representing model uncertainty
       in deep learning", ICML 2016, arXiv:1506.02142.
    .. [2] B. Kompa, J. Snoek, A. L. Beam, "Empirical frequentist coverage of deep learning uncertainty
       quantification procedures", Entropy 23(12), 2021, doi:10.3390/e23121608.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import MCDropoutRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = MCDropoutRegressor(max_epochs=30, random_state=0).fit(X, y)
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
        dropout: float = 0.2,
        last_layer: bool = False,
        n_draws: int = 200,
        output: str = "moments",
        keep_best: str | Loss | bool = False,
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
        self.dropout = dropout
        self.last_layer = last_layer
        self.n_draws = n_draws
        self.output = output
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
        check_option(self.output, "output", ("moments", "members"))
        return dropout_architecture(self, noise=True)

    def _training_spec(self) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        score = resolve_selection_score(self.keep_best)
        return TrainingSpec(NLLLoss(), self.learning_rate, score)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> DropoutPosterior:
        module, seed = fit.net.module_, fit.plan.seed
        self.noise_std_ = float(self.scaler_.scale(np.array(noise_variance(module))))
        return DropoutPosterior(self.scaler_, module, self.device, self.n_draws, seed, self.output)


class MCDropoutClassifier(BaseNeuralClassifier):
    """One network that predicts class probabilities, with dropout in training and prediction.

    The classifier predicts class probabilities and the epistemic part of their entropy at the cost of one
    network. Prefer `DeepEnsembleClassifier` if you can afford several networks, because its epistemic part is
    more accurate.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. The hidden units are rectified linear units (ReLU).
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the logits of the K classes. `module` replaces
        `hidden_layer_sizes`, `dropout` and `last_layer`. Its dropout layers may have any rates. Units are
        also dropped in prediction. Each draw drops the same units for all rows. The torch module must work
        with `torch.func.vmap`.
    dropout : float, default=0.2
        Probability of dropping a hidden unit, strictly between 0 and 1. Not used with `module`.
    last_layer : bool, default=False
        Whether dropout is applied only to the last hidden layer. With True, predictions are faster, but the
        draws differ far less. Not used with `module`.
    n_draws : int, default=100
        Number of networks or functions that are drawn from the posterior. At least 2. The default of the
        regressors is 200.
    keep_best : {"log_loss", False}, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. "log_loss" is the log
        loss of the network without dropout on held-out rows. It is not the log loss of the averaged forecast.
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
    batch_size : int, default=32
        Number of rows per batch. The number is adjusted so that all batches of an epoch have the same size.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" means 6000 training steps in total, but at least 40 and at most 1000 epochs.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of training and prediction. "auto" uses a GPU if a GPU is available and at least 32 networks
        are trained or drawn.
    dtype : {"float32", "float64"}, default="float32"
        Floating-point type of the networks in training. X is standardized in float64.
    net_params : dict or None, default=None
        Further parameters of the skorch net, such as ``optimizer`` and a list of ``callbacks``. Scoring
        callbacks, such as EpochScoring, are not supported. ``lr_schedule`` is "cosine" (the default), which
        decreases the learning rate to 0 by the last epoch, or "constant". ``clip_norm`` is the upper limit
        for the Euclidean norm of the gradient of each network (5.0 by default), or None.
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
    MCDropoutRegressor : The same method for regression.
    DeepEnsembleClassifier : Ensemble of independent networks.

    Notes
    -----
    Dropout is applied after each hidden layer, but not to the features. A draw is one network for all rows
    and all calls, so the prediction for a row does not depend on other rows. The layers before the first
    dropout layer are the same for all draws. All draws are computed by one batched matrix product [1]_.

    The forecast is overconfident with a low dropout rate, with `last_layer`, and far from the training rows.
    The differences between the draws do not decrease with more rows.

    ``sample_weight`` counts repetitions. Sample weights and class weights multiply the losses.

    Cost: one network. A prediction runs the layers after the first dropout layer, or the whole `module`,
    `n_draws` times.

    References
    ----------
    .. [1] Y. Gal, Z. Ghahramani, "Dropout as a Bayesian approximation: representing model uncertainty
       in deep learning", ICML 2016, arXiv:1506.02142.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skuq.neural import MCDropoutClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MCDropoutClassifier(max_epochs=10, random_state=0).fit(X, y)
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
        module: Callable[[int, int], Any] | None = None,
        dropout: float = 0.2,
        last_layer: bool = False,
        n_draws: int = 100,
        keep_best: str | bool = False,
        class_weight: dict[Any, float] | str | None = None,
        standardize: str | bool = "columns",
        held_out_size: Any = 0.2,
        learning_rate: float = 3e-3,
        batch_size: int = 32,
        max_epochs: int | str = "auto",
        device: str = "auto",
        dtype: str = "float32",
        net_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.dropout = dropout
        self.last_layer = last_layer
        self.n_draws = n_draws
        self.keep_best = keep_best
        self.class_weight = class_weight
        self.standardize = standardize
        self.held_out_size = held_out_size
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.device = device
        self.dtype = dtype
        self.net_params = net_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _architecture(self) -> Architecture:
        return dropout_architecture(self, noise=False)

    def _spec_for(self, data: TrainingData) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        return self._spec(data, self.learning_rate)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> DrawnClassPosterior:
        return DrawnClassPosterior(self.scaler_, fit.net.module_, self.device, self.n_draws, fit.plan.seed)
