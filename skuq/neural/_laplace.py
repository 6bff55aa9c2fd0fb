"""Network with a Bayesian last layer in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._fitting.training_data import TrainingData
from skuq._typing import BoolArray, FloatArray, SupportLike
from skuq._validation import check_integer
from skuq.neural._architecture import Architecture, check_module
from skuq.neural._last_layer import Evidence, LastLinearPosterior, features_of
from skuq.neural._losses import Loss, SquaredErrorLoss, resolve_selection_score
from skuq.neural._plan import LONG_TRAINING, TrainingSpec, rows_with_weight
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._stacked import StackedModule, read_device
from skuq.neural._training import TrainedFit


class LastLayerLaplaceRegressor(BaseNeuralRegressor):
    r"""Network that minimizes squared errors and has a normal posterior of the last layer's weights.

    The regressor estimates the uncertainty of a prediction at the cost of one plain network, because the
    posterior, the prior and the noise variance have closed forms. The noise is the same for all x. Prefer
    `DeepEnsembleRegressor` if the noise varies with x, or if you need the uncertainty of the hidden layers.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers.
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the inputs of the last layer, which skuq adds.
        ``n_outputs`` is the last entry of `hidden_layer_sizes`.
    n_frequencies : int or "auto", default=0
        Number of learned frequencies per column. For each column, the cosines with these frequencies are
        computed. Up to three linear combinations of the cosines are additional inputs. 0 adds no inputs.
        "auto" means min(8, 256 // n_features). Not used with `module`.
    input_scale : bool, default=False
        Whether each network multiplies its inputs by learned factors. Not used with `module`.
    activation : {"relu", "silu"}, default="relu"
        Activation function. "relu" is max(x, 0), and "silu" is x / (1 + exp(-x)). Not used with `module`.
    keep_best : str, Loss or False, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. All epochs are
        trained. Every second epoch is scored on rows that are held out of training. Valid scores are
        "squared_error" and a `Loss` with ``n_outputs = 1``.
    n_draws : int, default=200
        Number of networks or functions that are drawn from the posterior. Only `predict_members` uses the
        draws.
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
    prior_precision_ : float
        Prior precision of the weights of the last layer, for the standardized target. It maximizes the
        evidence.
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
    VariationalRegressor : Posterior of one layer or all layers, learned in training.
    SWARegressor : Ensemble of weights from the end of the training.

    Notes
    -----
    Let :math:`\Phi` be the inputs of the last layer for the n training rows, :math:`\alpha` the prior
    precision and :math:`\sigma^2` the noise variance. The weights of the last layer have the covariance
    :math:`S = (\alpha I + \Phi^T \Phi / \sigma^2)^{-1}` and the mean :math:`S \Phi^T y / \sigma^2`. This mean
    replaces the trained weights. The variance of a new row is :math:`\sigma^2 + \phi^T S \phi`. For given
    :math:`\Phi`, Laplace's approximation is exact, because the likelihood is normal and the layer is linear.
    :math:`\alpha` and :math:`\sigma^2` maximize the evidence, by MacKay's fixed-point iteration. The evidence
    ignores that :math:`\Phi` is fitted to the same rows, so the estimate of :math:`\sigma^2` is too small.
    With ``calibration="split"``, :math:`\sigma^2` is therefore increased to the value that maximizes the
    likelihood of the held-out rows, and the posterior is computed with this value.

    With ``calibration=None``, the intervals are far too short. Far from the training rows, intervals are too
    short with and without calibration, because the uncertainty of the hidden layers is ignored. `epistemic`
    includes only the uncertainty of the last layer. The coverage is not exactly guaranteed, because the
    held-out rows are also used to estimate the noise and, with `keep_best`, to select the epoch.

    ``sample_weight`` counts repetitions. Weights are used in the losses and in the evidence.

    Cost: one network plus a few milliseconds. `fit_transform` trains the networks of all folds in one pass.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian interpolation", Neural Computation 4(3), 1992,
       doi:10.1162/neco.1992.4.3.415.
    .. [2] E. Daxberger et al., "Laplace Redux: effortless Bayesian deep learning", NeurIPS 2021,
       arXiv:2106.14806.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import LastLayerLaplaceRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = LastLayerLaplaceRegressor(max_epochs=30, random_state=0).fit(X, y)
    >>> near, far = model.predict_dist([[0.0], [3.0]]).epistemic().std()
    >>> bool(near < far)
    True
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
        keep_best: str | Loss | bool = False,
        n_draws: int = 200,
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
        self.keep_best = keep_best
        self.n_draws = n_draws
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
        hidden, module = self._hidden_sizes(), check_module(self.module)
        return Architecture(StackedModule, hidden, module, self._layers(), headed=True)

    def _training_spec(self) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws")
        score = resolve_selection_score(self.keep_best, of_mean=True)
        return TrainingSpec(SquaredErrorLoss(), self.learning_rate, score, counts_rows=True)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> LastLinearPosterior:
        plan, module = fit.plan, fit.net.module_

        def rows_of(mask: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            rows = rows_with_weight(mask, data)
            features = features_of(module, plan.X[rows], read_device(self.device, 1))
            return features, plan.y[rows], data.repetitions[rows]

        evidence = Evidence.maximize(*rows_of(~plan.held_out))
        if self.calibration is not None:
            evidence = evidence.with_likely_noise(*rows_of(plan.held_out))
        posterior = LastLinearPosterior(
            self.scaler_,
            module,
            self.device,
            noise=evidence.noise,
            weights=evidence.posterior(),
            n_draws=self.n_draws,
            seed=plan.seed,
        )
        self.prior_precision_, self.noise_std_ = evidence.precision, posterior.noise_std
        return posterior
