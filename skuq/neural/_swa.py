"""Stochastic weight averaging: snapshots of one network at the end of its training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from skorch.callbacks import Callback
from torch import Tensor

from skuq._fitting.training_data import TrainingData
from skuq._typing import SupportLike
from skuq._validation import check_integer, check_number
from skuq.neural._losses import SquaredErrorLoss
from skuq.neural._plan import LONG_TRAINING, TrainingOptions, TrainingSpec, rows_with_weight
from skuq.neural._predictive import SampledPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._stacked import StackedModule
from skuq.neural._training import TrainedFit


class SnapshotModule(StackedModule):
    """Networks with memory for snapshots of the weights."""

    def __init__(self, *args: Any, n_snapshots: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register_buffer(
            "snapshots", self.flat.new_zeros(len(self.flat), n_snapshots, self.flat.shape[1])
        )

    def values_of_draws(self, n_draws: int) -> int:
        return n_draws * self.values_a_row

    def networks(self, n_draws: int, rng: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Return a function from rows (B, d) to the outputs (S, k, B) of the first member's snapshots."""
        network = self.take(slice(0, 1))
        weights = network.get_buffer("snapshots")[0]
        del network.snapshots
        snapshots = network.with_weights(weights)
        return lambda x: snapshots.forward_members(x.T.expand(len(weights), *x.T.shape))


class TakeSnapshots(Callback):
    """Callback that stores the weights after each of the last epochs and keeps the learning rate constant."""

    def __init__(self, n_snapshots: int, learning_rate: float, lr_schedule: str) -> None:
        self.n_snapshots, self.learning_rate, self.lr_schedule = n_snapshots, learning_rate, lr_schedule

    def __eq__(self, other: object) -> bool:
        """Return whether the settings are equal. Fits with equal settings are trained together."""
        return isinstance(other, TakeSnapshots) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        epoch, n_before = len(net.history) - 1, net.max_epochs - self.n_snapshots
        if epoch == n_before:  # Adam divides by averages of past gradients, which are too small
            net.optimizer_.state.clear()
        for group, base_lr in zip(net.optimizer_.param_groups, net.base_lrs_, strict=True):
            if epoch >= n_before:
                group["lr"] = self.learning_rate
            elif self.lr_schedule == "cosine":
                group["lr"] = 0.5 * (1 + np.cos(np.pi * epoch / n_before)) * base_lr
            else:
                group["lr"] = base_lr

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        number = len(net.history) - 1 - (net.max_epochs - self.n_snapshots)
        if number >= 0:
            net.module_.get_buffer("snapshots")[:, number] = net.module_.flat.detach()


class SWARegressor(BaseNeuralRegressor):
    """Ensemble of snapshots of one network. The snapshots are taken at the end of the training.

    The regressor estimates the uncertainty of a prediction at slightly more than the cost of one plain
    network. It is based on stochastic weight averaging (SWA). With a constant learning rate at the end of the
    training, the weights move between values that fit the data about equally well. The noise is the same for
    all x. Prefer `DeepEnsembleRegressor` if the noise varies with x, or if you can afford several networks,
    because snapshots of one network differ less than independent networks.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers.
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its output is the mean of the standardized target. `module` replaces
        `hidden_layer_sizes`.
    n_frequencies : int or "auto", default=0
        Number of learned frequencies per column. For each column, the cosines with these frequencies are
        computed. Up to three linear combinations of the cosines are additional inputs. 0 adds no inputs.
        "auto" means min(8, 256 // n_features). Not used with `module`.
    input_scale : bool, default=False
        Whether each network multiplies its inputs by learned factors. Not used with `module`.
    activation : {"relu", "silu"}, default="relu"
        Activation function. "relu" is max(x, 0), and "silu" is x / (1 + exp(-x)). Not used with `module`.
    n_snapshots : int, default=20
        Number of additional epochs, at least 2. After each additional epoch, the weights are stored as a
        snapshot.
    snapshot_learning_rate : float, default=0.006
        Constant learning rate of the additional epochs. With a larger rate, the snapshots differ more.
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
        The epochs of the snapshots are not included.
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
        decreases the learning rate to 0 by the last epoch before the snapshots, or "constant". ``clip_norm``
        is the upper limit for the Euclidean norm of the gradient of each network (5.0 by default), or None.
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
        Trained skorch net. ``net_.module_`` contains the networks, and its buffer ``snapshots`` contains the
        snapshots.
    history_ : skorch.history.History
        Mean training loss of each epoch.
    best_epoch_ : int
        Number of the epoch whose weights were kept, counted from 1. This is always the last epoch.
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
    DeepEnsembleRegressor : Ensemble of independent networks.
    LastLayerLaplaceRegressor : Posterior of the last layer in closed form.

    Notes
    -----
    The mean and the epistemic variance of a row are the mean and the variance of the snapshots' predictions.
    The noise variance maximizes the likelihood of the held-out rows, given the epistemic variance. With
    ``calibration=None``, the noise variance maximizes the likelihood of the training rows and is too small.

    SWA-Gaussian [2]_ fits a normal distribution to the snapshots and draws samples from it. This class uses
    the snapshots themselves.

    The class has no `keep_best`. The snapshots represent the weights that are reached at a constant learning
    rate. Selecting snapshots by their scores would make the epistemic variance too small. The training before
    the snapshots ends with a learning rate of 0, so no rows are needed to select an epoch.

    With ``calibration=None``, the intervals are too short. Far from the training rows, intervals are too
    short with and without calibration, because the differences between the snapshots are smaller than the
    errors of the snapshots there. The coverage is not exactly guaranteed, because the noise, the scale and
    the tails are estimated from the same held-out rows.

    ``sample_weight`` counts repetitions. Weights are used in the losses.

    Cost: one network is trained, with `n_snapshots` additional epochs. A prediction runs `n_snapshots`
    networks in one pass.

    References
    ----------
    .. [1] P. Izmailov, D. Podoprikhin, T. Garipov, D. Vetrov, A. G. Wilson, "Averaging weights leads to
       wider optima and better generalization", UAI 2018, arXiv:1803.05407.
    .. [2] W. J. Maddox et al., "A simple baseline for Bayesian uncertainty in deep learning", NeurIPS
       2019, arXiv:1902.02476.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import SWARegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = SWARegressor(max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict_members([[0.0]]).shape
    (1, 20)
    """

    _auto_epochs = LONG_TRAINING

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        *,
        module: Callable[[int, int], Any] | None = None,
        n_frequencies: int | str = 0,
        input_scale: bool = False,
        activation: str = "relu",
        n_snapshots: int = 20,
        snapshot_learning_rate: float = 6e-3,
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
        self.n_frequencies = n_frequencies
        self.input_scale = input_scale
        self.activation = activation
        self.n_snapshots = n_snapshots
        self.snapshot_learning_rate = snapshot_learning_rate
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

    def _options(self) -> TrainingOptions:
        n_snapshots = check_integer(self.n_snapshots, "n_snapshots", minimum=2)
        rate = check_number(self.snapshot_learning_rate, "snapshot_learning_rate", positive=True)
        options = super()._options()
        return replace(
            options,
            architecture=replace(
                options.architecture, kind=SnapshotModule, options={"n_snapshots": n_snapshots}
            ),
            lr_schedule="constant",
            callbacks=[TakeSnapshots(n_snapshots, rate, options.lr_schedule), *(options.callbacks or ())],
            further_epochs=n_snapshots,
        )

    def _training_spec(self) -> TrainingSpec:
        return TrainingSpec(SquaredErrorLoss(), self.learning_rate)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> SampledPosterior:
        module: StackedModule = fit.net.module_
        if not module.get_buffer("snapshots").any(dim=2).all():
            raise ValueError(
                "`net_params['callbacks']` must not stop the training early, but the training stopped after "
                f"{len(fit.net.history)} epochs. The snapshots are taken at the end of the training. Lower "
                "`max_epochs` instead."
            )
        posterior = SampledPosterior(self.scaler_, module, self.device, 0.0, self.n_snapshots, fit.plan.seed)
        rows = fit.plan.held_out if self.calibration is not None else ~fit.plan.held_out
        posterior = posterior.with_likely_noise(data.take(rows_with_weight(rows, data)))
        self.noise_std_ = posterior.noise_std
        return posterior
