"""One probabilistic network: mean and variance by a score of the normal distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq.neural._losses import Loss, read_loss, resolve_selection_score
from skuq.neural._predictive.ensemble import NetworkPosterior
from skuq.neural._regressor import BaseNeuralRegressor, TableLayersMixin
from skuq.neural._training.plan import TrainingSpec
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["PNNRegressor"]


class PNNRegressor(TableLayersMixin, BaseNeuralRegressor):
    """One network that predicts mean and variance, of the best epoch and calibrated by held-out rows.

    It estimates how far off a prediction may be where the noise varies with x, at the cost of one network.
    Prefer `DeepEnsembleRegressor`, whose mean has a smaller error than that of one network and which holds
    out no row, unless one network is all that can be afforded.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers.
    module : callable or None, default=None
        Class or function that is called as ``module(n_features, n_outputs)`` and returns a torch module that
        maps (n, n_features) to (n, n_outputs). The outputs are mean and raw variance of the standardised
        target; it replaces ``hidden_layer_sizes``.
    n_frequencies : int or "auto", default=0
        Number of learnt frequencies of each column. Besides the column, the networks have as inputs at
        most three learnt combinations of its cosines at these frequencies; 0 is the column alone. "auto" is
        8, and fewer from 33 columns, so that all together have at most 256. Not used with `module`.
    input_scale : bool, default=False
        Whether each network learns a factor for each of its inputs. Not used with `module`.
    activation : {"relu", "silu"}, default="relu"
        Function of the hidden units: "relu" is max(x, 0), "silu" the smooth x / (1 + exp(-x)). Not used with
        `module`.
    loss : {"nll", "beta_nll", "crps", "check", "interval"} or Loss, default="nll"
        Training loss of the networks.
    keep_best : str, Loss or False, default="crps"
        Score that selects the best epoch: all epochs are trained, and the weights are kept of the epoch with
        the best score on out-of-bag rows where there is a bootstrap, else on rows held out of training. It is
        "nll", "beta_nll", "crps", "check", "interval", "squared_error" or a Loss; False keeps the last epoch.
    calibration : {"split", None}, default="split"
        Rows that calibrate scale and tails of the distribution. "split" are rows held out of training. None
        is the raw distribution, over-confident on small data.
    calibration_coverage : float, default=0.9
        Coverage of the central intervals whose width is that of conformal prediction; at other coverages it
        follows from the tails. Fewer calibration rows than its rank needs, 9 at 90 %, give a
        `SmallSampleWarning`.
    validation_size : float, int, splitter or iterable, default=0.2
        Rows held out of training where calibration, the noise or the best epoch need them: a share or a
        number of rows, drawn at random, or a splitter whose first test rows are taken, such as
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
    cv : int, splitter or iterable, default=5
        Folds of `fit_transform`.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of training and prediction; "auto" is a GPU where there is one and at least 32 networks are
        trained or drawn.
    dtype : {"float32", "float64"}, default="float32"
        Floating type of the networks in training; X and y are standardised in float64 either way.
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
    net_ : skorch.NeuralNet
        Trained skorch net; ``net_.module_`` holds the networks.
    history_ : skorch.history.History
        Mean training loss of each epoch. With `keep_best`, every second epoch has its score too.
    best_epoch_ : int
        Epoch, from 1, whose weights were kept.
    factor_ : float
        Factor by which calibration multiplies standard deviations; above 1 the raw distribution was
        over-confident, 1 without calibration.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100; infinite for other distributions.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    DeepEnsembleRegressor : Many such networks in one training.
    ProbabilisticNet : For users of skorch.

    Notes
    -----
    One network cannot separate epistemic uncertainty from noise: `epistemic` raises.

    The default of `keep_best` is the CRPS, as the likelihood of a single network is best before it has learnt
    the mean.

    Over-confident where: ``calibration=None`` with few rows or with ``keep_best=False``, when it fits its
    training rows more closely than new ones (with the latter, a coverage of 43 to 79 % where 95 % is nominal
    has been measured on 300 to 1000 rows); and far from the training rows, calibrated or not. The rows that
    select the epoch also calibrate, so that coverage has no guarantee; ``keep_best=False`` gives one for
    exchangeable rows.

    ``sample_weight`` counts repetitions: losses are weighted by it.

    Cost: one network; `fit_transform` trains those of all folds in one pass, for little more.

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
        calibration_coverage: float = 0.9,
        validation_size: Any = 0.2,
        learning_rate: float = 3e-3,
        lr_schedule: str = "cosine",
        batch_size: int = 32,
        max_epochs: int | str = "auto",
        clip_norm: float | None = 5.0,
        cv: Any = 5,
        device: str = "auto",
        dtype: str = "float32",
        callbacks: Any = None,
        net_params: dict[str, Any] | None = None,
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
        self.calibration_coverage = calibration_coverage
        self.validation_size = validation_size
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.clip_norm = clip_norm
        self.cv = cv
        self.device = device
        self.dtype = dtype
        self.callbacks = callbacks
        self.net_params = net_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------- fitting

    def _training_spec(self) -> TrainingSpec:
        loss = read_loss(self.loss)
        if loss.n_outputs != 2:
            raise ValueError(
                f"`loss` must learn a variance, and {self.loss!r} learns none: one network without it has no "
                "distribution. Use 'nll', or UncertaintyRegressor around a plain regressor."
            )
        return TrainingSpec(loss, self.learning_rate, resolve_selection_score(self.keep_best))

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> NetworkPosterior:
        return NetworkPosterior(self.scaler_, fit.net.module_, self.device, fit.plan.loss.n_outputs)
