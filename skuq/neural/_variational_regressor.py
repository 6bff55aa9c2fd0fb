"""A network whose weights are learnt as normal variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skuq._typing import FloatArray
from skuq._validation import check_integer, check_option
from skuq._warnings import warn_user
from skuq.neural._losses import Loss, NLLLoss, resolve_selection_score
from skuq.neural._modules.architecture import Architecture
from skuq.neural._modules.device import read_device
from skuq.neural._modules.evaluate import member_moments
from skuq.neural._modules.stacked import StackedModule
from skuq.neural._modules.variational import (
    Divergence,
    VariationalArchitecture,
    VariationalModule,
    drawn_networks,
)
from skuq.neural._predictive.constant_noise import ConstantNoisePosterior
from skuq.neural._predictive.last_linear import LastLinearPosterior
from skuq.neural._predictive.sampled import SampledPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._training.plan import LONG_TRAINING, TrainingSpec, resolve_learning_rate, rows_with_weight
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["VariationalRegressor"]

_CONSTANT = 0.05
"""Standard deviation of the prediction, in those of the target, below which it counts as constant."""
_RATES = {False: 1e-2, True: 3e-3}
"""The standard deviations of all layers are far from where they start; those of the last layer less."""


class VariationalRegressor(BaseNeuralRegressor):
    r"""A network whose weights are normal variables, and a learnt noise (variational inference).

    It estimates how far off a prediction may be and how much of that is epistemic, i.e. reducible by more
    data, with one network whose prediction intervals are hardly over-confident on few rows; the noise is the
    same for all x. Prefer `DeepEnsembleRegressor` where the noise varies or there are enough rows: its
    intervals are narrower.

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
    kl_weight : float, default=1.0
        Factor of the divergence from the prior; 1 is Bayes' rule. The number of rows, by which the divergence
        is divided, is not part of it.
    warm_up : float, default=0.3
        Share of the epochs over which that factor grows from 0; without, the prior often dominates before the
        mean is learnt, and the prediction is constant.
    keep_best : str, Loss or False, default=False
        Score that selects the best epoch: all epochs are trained, and the weights are kept of the epoch with
        the best score on out-of-bag rows where there is a bootstrap, else on rows held out of training. It is
        "nll", "beta_nll", "crps", "check", "interval", "squared_error" or a Loss; False keeps the last epoch.
    output : {"auto", "analytic", "sampled"}, default="auto"
        Origin of mean and epistemic variance: "analytic" is a closed form, which there is with `last_layer`
        only, "sampled" are `n_draws` networks drawn from the posterior, "auto" is the closed form where
        possible.
    n_draws : int, default=200
        Number of networks or functions that are drawn from the posterior. At least 2. With 200 the epistemic
        standard deviation is right to 5 %.
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
    LastLayerLaplaceRegressor : The posterior of the last layer in closed form.
    DeepEnsembleRegressor : Several networks, and noise that varies with x.

    Notes
    -----
    Weights have a normal posterior without correlations (mean field), which minimises the mean negative
    log-likelihood of the rows plus the divergence from the prior over n. Each row of a batch has weights
    of its own, by local reparameterisation [1]_. The prior of a layer's weights is normal about 0 with the
    variance of most evidence, the mean of their squares, found in closed form in every step; biases have a
    standard normal prior. The standard deviations start at 0.05 over the root of the number of inputs.
    A noise is learnt with the weights; calibrated, it is replaced by the one that makes the held-out rows
    most likely beside the epistemic variance, so that overfitting counts as noise. With
    `keep_best`, epochs are scored at the mean of the weights.

    Over-confident where: ``calibration=None`` with ``last_layer=True`` (a coverage of 40 to 93 % where 95 %
    is nominal has been measured on 300 to 1000 rows), because the other layers and the noise are fitted to
    the training rows; ``kl_weight`` below 1; far from the training rows, calibrated or not, as the
    mean-field posterior leaves out the correlations of the weights; and in confidence intervals,
    `epistemic`, on some 100 rows or fewer, where the prior dominates all the same: of a sine in three
    columns the prediction was constant on five data sets of five, and intervals of 90 % covered the function
    in about 10 %. Prediction intervals cover there, and are rather too wide, as what has not been learnt
    counts as noise. A ``ConvergenceWarning`` is issued. The held-out rows choose noise, scale and tails, so
    that coverage has no strict guarantee.

    ``sample_weight`` counts repetitions: losses are weighted by it, and n is its sum.

    Cost: an epoch takes four times as long as that of a plain network, twice with `last_layer`; predictions
    take `n_draws` networks, in one pass; `fit_transform` trains those of all folds in one pass.

    References
    ----------
    .. [1] D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization
       trick", NeurIPS 2015, arXiv:1506.02557.
    .. [2] C. Blundell, J. Cornebise, K. Kavukcuoglu, D. Wierstra, "Weight uncertainty in neural
       networks", ICML 2015, arXiv:1505.05424.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import VariationalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = VariationalRegressor(max_epochs=30, random_state=0).fit(X, y)
    >>> dist = model.predict_dist([[0.0]])
    >>> bool(dist.epistemic().std() < dist.std())
    True
    """

    _auto_epochs = LONG_TRAINING

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        *,
        last_layer: bool = False,
        module: Callable[[int, int], Any] | None = None,
        kl_weight: float = 1.0,
        warm_up: float = 0.3,
        keep_best: str | Loss | bool = False,
        output: str = "auto",
        n_draws: int = 200,
        calibration: str | None = "split",
        calibration_coverage: float = 0.9,
        validation_size: Any = 0.2,
        learning_rate: float | str = "auto",
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
        self.last_layer = last_layer
        self.module = module
        self.kl_weight = kl_weight
        self.warm_up = warm_up
        self.keep_best = keep_best
        self.output = output
        self.n_draws = n_draws
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
        divergence = Divergence.of(self.kl_weight, self.warm_up)
        return VariationalArchitecture.of(self._hidden_sizes(), self.module, self.last_layer, divergence)

    def _training_spec(self) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        check_option(self.output, "output", ("auto", "analytic", "sampled"))
        if self.output == "analytic" and not self.last_layer:
            raise ValueError(
                "`output` is 'analytic', but there is a closed form only where the last layer alone is "
                "uncertain. Use output='sampled' or last_layer=True."
            )
        rate = resolve_learning_rate(self.learning_rate, _RATES[self.last_layer])
        score = resolve_selection_score(self.keep_best)
        return TrainingSpec(NLLLoss(), rate, score, counts_rows=True)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> ConstantNoisePosterior:
        module: VariationalModule = fit.net.module_
        posterior = self._with_learnt_noise(module, fit.plan.seed)
        if self.calibration is not None:
            unseen = data.take(rows_with_weight(fit.plan.held_out, data))
            posterior = posterior.with_likely_noise(unseen)
        self.noise_std_ = posterior.noise_std
        if self.scaler_.y_scale > 0 and fit.plan.X.any():
            self._warn_of_a_constant(module, fit.plan.X)
        return posterior

    def _with_learnt_noise(self, module: VariationalModule, seed: int) -> ConstantNoisePosterior:
        """Return the posterior of the last layer, or of all, with the noise of the training."""
        common = self.scaler_, module, self.device, module.noise_variance()
        if self.last_layer:
            weights, closed_form = module.last_layer_weights(), bool(self.output != "sampled")
            return LastLinearPosterior(*common, weights, self.n_draws, seed, closed_form)
        return SampledPosterior(*common, partial(drawn_networks, n_draws=self.n_draws, seed=seed))

    def _warn_of_a_constant(self, module: StackedModule, X: FloatArray) -> None:
        """Warn where the prediction at the mean of the weights hardly depends on x."""
        loc, _ = member_moments(module, X, read_device(self.device, 1))
        share = float(loc.std())
        if share < _CONSTANT:
            warn_user(
                f"the prediction is nearly constant, its standard deviation {share:.2g} times that of y: if "
                "X is informative about y, the prior has outweighed the data. Use more rows, fewer or "
                "smaller hidden layers, `kl_weight` below 1, or more epochs.",
                ConvergenceWarning,
            )
