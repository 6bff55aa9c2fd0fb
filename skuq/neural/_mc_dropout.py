"""Monte Carlo dropout: a network predicts many times, each time without some of its units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._validation import check_integer, check_option
from skuq.neural._losses import Loss, NLLLoss, resolve_selection_score
from skuq.neural._modules.architecture import Architecture
from skuq.neural._modules.dropout import DropoutArchitecture
from skuq.neural._modules.user_module import check_module
from skuq.neural._predictive.sampled import DropoutPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._training.plan import LONG_TRAINING, TrainingSpec
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["MCDropoutRegressor"]


class MCDropoutRegressor(BaseNeuralRegressor):
    """One network with dropout, also when it predicts, and one learnt variance of the noise.

    It estimates how far off a prediction may be, and how much of that is epistemic, at the cost of one
    network, where the noise is about the same everywhere. Prefer `ConcreteDropoutRegressor` where the noise
    varies with x, and `DeepEnsembleRegressor` wherever it can be afforded: its epistemic
    part is better.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. They have rectified linear units.
    module : callable or None, default=None
        Class or function that is called as ``module(n_features, n_outputs)`` and returns a torch module that
        maps (n, n_features) to (n, n_outputs). The output is the mean of the standardised target; it replaces
        ``hidden_layer_sizes``, `dropout` and `last_layer`. Its dropout layers, `torch.nn.Dropout` and its
        relatives, of any rates, leave out units in prediction too, alike for all rows; so `torch.func.vmap`
        must be able to run it.
    dropout : float, default=0.2
        Probability that a hidden unit is left out, strictly between 0 and 1; not used with `module`.
    last_layer : bool, default=False
        Whether units of the last hidden layer only are left out: faster, with far less spread; not used with
        `module`.
    n_draws : int, default=200
        Number of networks or functions that are drawn from the posterior. At least 2.
    output : {"gaussian", "samples"}, default="gaussian"
        "gaussian" has mean and variance of the draws and the noise, normal or, calibrated, Student t.
        "samples" are the means of the draws, whose quantiles hold no noise; calibrated, they are spread about
        their mean until they cover.
    keep_best : str, Loss or False, default=False
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
        Number of epochs. "auto" takes 6000 steps, but at least 40 and at most 1000 epochs.
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
    noise_std_ : float
        Standard deviation of the noise before calibration, in the units of y.
    factor_ : float
        Factor by which calibration multiplies standard deviations; above 1 the raw distribution was
        over-confident, 1 without calibration.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100; infinite for other distributions.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    ConcreteDropoutRegressor : Learns the rates, and a noise that varies with x.
    DeepEnsembleRegressor : Networks that were trained apart.

    Notes
    -----
    Units are left out after each hidden layer, never among the features. A draw is one network for all
    rows and for all calls, so that the prediction for a row does not depend on the rows beside it; the
    draws share what comes before the first dropout, and run as one batched matrix product. The variance is
    that of the draws' means plus that of the noise, which is learnt by the likelihood.

    Over-confident where: ``output="samples"`` with ``calibration=None``, always, as it holds no noise
    (the dropout of Kompa et al. [2]_ covered 36 to 92 %, and 9 to 27 % with `last_layer`, where 95 % is
    nominal); ``calibration=None`` with low rates, with `last_layer`, or on small data, as the noise is
    learnt from residuals of training rows; where the noise varies with x, there where it is large; far
    from the training rows. Its confidence intervals are no better than the rate happens to make them: they
    do not become narrower with more rows. Rows held out for calibration are not trained on, so that
    with ``keep_best=False`` coverage is guaranteed for exchangeable rows. With a score, epochs are scored by
    the network with all units.

    Settings of the literature: ``output="samples", calibration=None`` is the dropout of Kompa et
    al. [2]_, with ``last_layer=True`` their last-layer dropout.

    ``sample_weight`` counts repetitions: losses are weighted by it.

    Cost: one network, an epoch twice as slow as a plain one; `fit_transform` trains those of all folds in
    one pass, for little more. Predictions cost `n_draws` passes through the layers after the first
    dropout, and through the whole of `module`.

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
        output: str = "gaussian",
        keep_best: str | Loss | bool = False,
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
        self.dropout = dropout
        self.last_layer = last_layer
        self.n_draws = n_draws
        self.output = output
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

    def _architecture(self) -> Architecture:
        check_option(self.output, "output", ("gaussian", "samples"))
        module = check_module(self.module)
        hidden = () if module is not None else self._hidden_sizes(at_least=1)
        return DropoutArchitecture.of(hidden, self.dropout, self.last_layer, module)

    def _training_spec(self) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        score = resolve_selection_score(self.keep_best)
        return TrainingSpec(NLLLoss(), self.learning_rate, score)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> DropoutPosterior:
        module, seed = fit.net.module_, fit.plan.seed
        self.noise_std_ = float(self.scaler_.scale(np.array(module.noise_variance())))
        return DropoutPosterior(self.scaler_, module, self.device, self.n_draws, seed, self.output)
