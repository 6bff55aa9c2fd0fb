"""One probabilistic network: mean and variance by a score of the normal distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq.neural._base import BaseNeuralRegressor
from skuq.neural._losses import Loss, read_loss, resolve_selection_score
from skuq.neural._predictive.ensemble import NetworkPosterior
from skuq.neural._training.plan import TrainingSpec
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["PNNRegressor"]


class PNNRegressor(BaseNeuralRegressor):
    """One network that predicts mean and variance, stopped early and calibrated by held-out rows.

    It answers how far off a prediction may be where the noise varies with x, at the cost of one network.
    Prefer `DeepEnsembleRegressor`, whose members make each other better and hold out no row, unless many
    are too many.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers, with rectified linear units.
    module : callable or None, default=None
        A class or function that is called as ``module(n_features, 2)`` and returns a torch module that maps
        (n, n_features) to (n, 2), mean and raw variance of the standardised target; it replaces
        ``hidden_layer_sizes``.
    loss : {"nll", "beta_nll", "crps", "check", "interval"} or Loss, default="nll"
        What the network is trained by.
    keep_best : bool, str or Loss, default=True
        The score by which the weights of the best epoch on the held-out rows are kept, as for `loss`; True
        is the CRPS, as the likelihood is best before a single network has learnt the mean. False keeps the
        last epoch.
    calibration : {"split", None}, default="split"
        "split" gives a Student t distribution whose scale and tails are those of the held-out rows. None
        is the raw normal distribution of the network, over-confident on small data.
    calibration_coverage : float, default=0.95
        Of the central intervals whose width is that of split conformal prediction; at other coverages the
        tails say how wide they are. Fewer unseen rows than its rank needs, 19 at 95 %, give a
        `SmallSampleWarning`.
    validation_size : float, splitter or iterable, default=0.2
        Rows held out for early stopping and calibration: a share of them, or a splitter whose first test
        rows are taken, such as PredefinedSplit. Not used where neither is wanted.
    learning_rate : float, default=0.003
        Of Adam, at the first epoch.
    lr_schedule : {"cosine", "constant"}, default="cosine"
        Whether the learning rate falls to 0 by the last epoch.
    batch_size : int, default=32
        Rows a batch; an epoch's batches are made equally large.
    max_epochs : int or "auto", default="auto"
        "auto" takes 8000 steps, but at least 40 and at most 200 epochs.
    clip_norm : float or None, default=5.0
        Limit of the norm of the gradient.
    cv : int, splitter or iterable, default=5
        Folds of `fit_transform`.
    device : {"auto", "cpu", "cuda"}, default="auto"
        "auto" trains on a GPU where there is one and at least 32 networks.
    dtype : {"float32", "float64"}, default="float32"
        Of the network in training; X and y are standardised in float64 either way.
    callbacks : list or None, default=None
        Further skorch callbacks, but for those that score data, as EpochScoring does.
    net_params : dict or None, default=None
        Further parameters of the skorch net, such as ``optimizer``.
    n_jobs : int or None, default=None
        Processes, where there are more networks than are trained at once; never changes a number.
    random_state : int, RandomState instance or None, default=None
        An integer makes everything reproducible.
    verbose : int, default=0
        Whether skorch prints the epochs.

    Attributes
    ----------
    net_ : ProbabilisticNet
        The trained skorch net and its history.
    history_ : skorch.history.History
        Loss on the training rows and score on the held-out ones, by epoch.
    best_epoch_ : int
        The epoch, from 1, whose weights were kept.
    factor_ : float
        What standard deviations are multiplied by; above 1 the raw network was over-confident.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100; infinite where not calibrated.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    DeepEnsembleRegressor : Many such networks in one training.
    ProbabilisticNet : For users of skorch.

    Notes
    -----
    One network cannot tell what it does not know from noise: `epistemic` raises.

    Over-confident where: ``calibration=None`` with few rows or without early stopping, when it fits its
    training rows more closely than new ones (without early stopping a coverage of 43 to 79 % where 95 % was
    asked has been measured on 300 to 1000 rows); and far from the training rows, calibrated or not. Early
    stopping has seen the rows that the factor comes from, so that coverage has no guarantee;
    ``keep_best=False`` gives one for exchangeable rows.

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
        loss: str | Loss = "nll",
        keep_best: str | Loss | bool = "crps",
        calibration: str | None = "split",
        calibration_coverage: float = 0.95,
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
