"""A single network that predicts a mean and a variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._fitting.training_data import TrainingData
from skuq._typing import SupportLike
from skuq.neural._losses import Loss, read_loss, resolve_selection_score
from skuq.neural._plan import TrainingSpec
from skuq.neural._predictive import NetworkPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._training import TrainedFit


class PNNRegressor(BaseNeuralRegressor):
    """One network that predicts mean and variance, calibrated on held-out rows.

    The regressor estimates the uncertainty of a prediction at the cost of one network. The noise may vary
    with x. Prefer `DeepEnsembleRegressor` if you can afford several networks: its mean has a smaller error,
    and it does not hold out rows.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers.
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the mean and the raw variance of the standardized
        target. `module` replaces `hidden_layer_sizes`.
    n_frequencies : int or "auto", default=0
        Number of learned frequencies per column. For each column, the cosines with these frequencies are
        computed. Up to three linear combinations of the cosines are additional inputs. 0 adds no inputs.
        "auto" means min(8, 256 // n_features). Not used with `module`.
    input_scale : bool, default=False
        Whether each network multiplies its inputs by learned factors. Not used with `module`.
    activation : {"relu", "silu"}, default="relu"
        Activation function. "relu" is max(x, 0), and "silu" is x / (1 + exp(-x)). Not used with `module`.
    loss : {"nll", "beta_nll", "crps", "check", "interval"} or Loss, default="nll"
        Training loss of the networks.
    keep_best : str, Loss or False, default="crps"
        Score that selects the epoch whose weights are kept. False keeps the last epoch. Every second epoch is
        scored on rows held out of training. Valid scores are "nll", "beta_nll", "crps", "check", "interval",
        "squared_error" and instances of `Loss`.
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
        Number of epochs. "auto" means 8000 training steps in total, but at least 40 and at most 200 epochs.
        The training ends earlier if it has run for twice as many epochs as the best epoch so far, but not
        before epoch 40. The score of `keep_best` determines the best epoch. If this score still improves at
        the end of 200 epochs, for example because there is little noise, a second training with 8000 steps
        and at most 1000 epochs replaces the first training.
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
    factor_ : float
        Factor by which calibration multiplies the standard deviations. It is above 1 if the model is
        overconfident, and 1 without calibration.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100. Infinite for other distributions.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    DeepEnsembleRegressor : Ensemble of such networks, trained in one pass.
    ProbabilisticNet : The same forecast by a skorch net, for users of skorch.

    Notes
    -----
    A single network cannot separate epistemic uncertainty from noise, so `epistemic` raises an error.

    The epoch is selected by the CRPS, because the likelihood of a single network is often best before the
    network has learned the mean.

    With ``calibration=None``, the intervals are too short if there are few rows or if ``keep_best=False``,
    because the network overfits the training rows. Far from the training rows, intervals are too short with
    and without calibration. By default, coverage is not guaranteed, because the same rows select the epoch
    and calibrate the distribution. With ``keep_best=False``, coverage is guaranteed if rows are exchangeable.

    ``sample_weight`` counts repetitions. Weights are used in the losses.

    Cost: one network. `fit_transform` trains the networks of all folds in one pass, which takes little more
    time than one fit.

    References
    ----------
    .. [1] D. A. Nix, A. S. Weigend, "Estimating the mean and variance of the target probability
       distribution", ICNN 1994, doi:10.1109/ICNN.1994.374138.
    .. [2] Y. Chung, I. Char, H. Guo, J. Schneider, W. Neiswanger, "Uncertainty Toolbox: an
       open-source library for assessing, visualizing, and improving uncertainty quantification", 2021,
       arXiv:2109.10254, section 4 (the losses compared).

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import PNNRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = PNNRegressor(max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict_interval([[0.0]]).shape
    (1, 2)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        *,
        module: Callable[[int, int], Any] | None = None,
        n_frequencies: int | str = 0,
        input_scale: bool = False,
        activation: str = "relu",
        loss: str | Loss = "nll",
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
        self.n_frequencies = n_frequencies
        self.input_scale = input_scale
        self.activation = activation
        self.loss = loss
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

    def _training_spec(self) -> TrainingSpec:
        loss = read_loss(self.loss)
        if loss.n_outputs != 2:
            raise ValueError(
                f"`loss` must learn a variance, got {self.loss!r}. Without a variance, a single network has "
                "no distribution. Use 'nll', or wrap a plain regressor in UncertaintyRegressor."
            )
        return TrainingSpec(loss, self.learning_rate, resolve_selection_score(self.keep_best))

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> NetworkPosterior:
        return NetworkPosterior(self.scaler_, fit.net.module_, self.device, fit.plan.loss.n_outputs)
