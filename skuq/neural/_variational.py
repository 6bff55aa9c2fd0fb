"""Variational networks for regression and classification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skuq._compat import warn_user
from skuq._fitting.training_data import TrainingData
from skuq._typing import FloatArray, SupportLike
from skuq._validation import check_integer, check_number, check_option
from skuq.neural._architecture import Architecture, check_module
from skuq.neural._classifier import BaseNeuralClassifier
from skuq.neural._last_layer import LastLinearPosterior
from skuq.neural._losses import Loss, NLLLoss, resolve_selection_score
from skuq.neural._plan import LONG_TRAINING, TrainingSpec, resolve_learning_rate, rows_with_weight
from skuq.neural._predictive import ConstantNoisePosterior, DrawnClassPosterior, SampledPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._stacked import StackedModule, member_moments, noise_variance, read_device
from skuq.neural._training import TrainedFit
from skuq.neural._variational_module import Divergence, VariationalModule

_CONSTANT = 0.05
"""A prediction is treated as constant if its standard deviation is at most this multiple of the standard
deviation of y."""
_RATES = {False: 1e-2, True: 3e-3}
"""Learning rate for each value of `last_layer`. With True, the initial standard deviations are near their
optimum."""


def variational_architecture(estimator: Any, prior_variance: float | None, *, noise: bool) -> Architecture:
    """Check the parameters of the network, and return its settings."""
    last_layer = check_option(estimator.last_layer, "last_layer", (True, False))
    module, hidden = check_module(estimator.module), estimator._hidden_sizes()
    if module is not None and not last_layer:
        raise ValueError(
            "`module` must be None with last_layer=False, because only layers that skuq builds can have "
            "random weights. Use `hidden_layer_sizes`, or last_layer=True with `module`."
        )
    warm_up = check_number(estimator.warm_up, "warm_up")
    if not 0 <= warm_up <= 1:
        raise ValueError(f"`warm_up` must lie between 0 and 1, got {warm_up}.")
    kl_weight = check_number(estimator.kl_weight, "kl_weight", positive=True)
    options = {"last_layer": last_layer, "divergence": Divergence(kl_weight, warm_up, prior_variance)}
    return Architecture(VariationalModule, hidden, module, headed=True, noise=noise, options=options)


class VariationalRegressor(BaseNeuralRegressor):
    """Network with normally distributed weights and a constant noise variance (variational inference).

    The regressor estimates the uncertainty of a prediction and its epistemic part. The epistemic part
    decreases with more data. With few rows, its prediction intervals are rarely too short. The noise is the
    same for all x. Prefer `DeepEnsembleRegressor` if the noise varies with x, or if there are many rows. With
    many rows, the intervals of `DeepEnsembleRegressor` are shorter.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. The hidden units are rectified linear units (ReLU).
    last_layer : bool, default=False
        Whether only the weights of the last layer are uncertain. With True, the training is faster, but the
        model is overconfident.
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the inputs of the last layer, which skuq adds.
        ``n_outputs`` is the last entry of `hidden_layer_sizes`. Requires `last_layer`.
    kl_weight : float, default=1.0
        Factor of the divergence from the prior. With 1, the posterior follows Bayes' rule. The divergence is
        also divided by the number of rows.
    warm_up : float, default=0.3
        Share of the epochs in which the factor of the divergence grows from 0 to `kl_weight`. Without this
        warm-up, the prior often dominates before the mean is learned, and the prediction is constant.
    keep_best : str, Loss or False, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. All epochs are
        trained. Every second epoch is scored on rows that are held out of training. Valid scores are "nll",
        "beta_nll", "crps", "check", "interval", "squared_error" and instances of `Loss`. On small data sets,
        "crps" lowers the CRPS of the forecasts. However, it selects epochs of the warm-up, in which the
        weights do not yet have their posterior distribution.
    inference : {"auto", "analytic", "sampled"}, default="auto"
        Method that computes the mean and the epistemic variance. "analytic" is a closed form and requires
        `last_layer`. "sampled" uses `n_draws` networks that are drawn from the posterior. "auto" means
        "analytic" with `last_layer`, and otherwise "sampled".
    n_draws : int, default=200
        Number of networks or functions that are drawn from the posterior. At least 2. With 200 draws, the
        epistemic standard deviation has a relative error of 5 %.
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
    learning_rate : float or "auto", default="auto"
        Initial learning rate of Adam. "auto" means 0.01, or 0.003 with `last_layer`.
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
    LastLayerLaplaceRegressor : Posterior of the last layer in closed form.
    DeepEnsembleRegressor : Several networks. Their noise varies with x.

    Notes
    -----
    The posterior of the weights is a normal distribution without correlations (mean field). The training
    minimizes the mean negative log-likelihood of the rows plus 1/n times the divergence from the prior. In
    training, each row of a batch has its own random weights, by local reparameterization [1]_. The prior of
    the weights of a layer is normal with mean 0. At each step, the variance of the prior is the value that
    maximizes the evidence: the mean square of the weights. Biases have a standard normal prior. The standard
    deviations of the weights start at 0.05 divided by the square root of the number of inputs of the layer.
    The noise variance is learned together with the weights. Calibration replaces the noise variance with the
    value that maximizes the likelihood of the held-out rows, given the epistemic variance. Errors due to
    overfitting are then part of the noise. The score of `keep_best` is the score of the network with the mean
    weights.

    With ``calibration=None`` and ``last_layer=True``, the intervals are too short, because the other layers
    and the noise are fitted to the training rows. Intervals are also too short if `kl_weight` is less than 1.
    Far from the training rows, intervals are too short with and without calibration, because the posterior
    ignores correlations between weights.

    Confidence intervals (`epistemic`) are too short on about 100 rows or fewer, because the prior dominates
    in spite of the warm-up. The prediction is then nearly constant.
    Prediction intervals still have at least the nominal coverage. They are usually too long, because the part
    of the function that is not learned is part of the noise. If the prediction is nearly constant, a
    ``ConvergenceWarning`` is issued. The coverage is not exactly guaranteed, because the noise, the scale and
    the tails are estimated from the same held-out rows.

    ``sample_weight`` counts repetitions. Weights are used in the losses, and n is the sum of the weights.

    Cost: an epoch takes longer than an epoch of a plain network, most of all without `last_layer`. A
    prediction runs `n_draws` networks in one pass. `fit_transform` trains the networks of all folds in one
    pass.

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
        inference: str = "auto",
        n_draws: int = 200,
        calibration: str | None = "split",
        coverage: float = 0.9,
        held_out_size: Any = 0.2,
        learning_rate: float | str = "auto",
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
        self.last_layer = last_layer
        self.module = module
        self.kl_weight = kl_weight
        self.warm_up = warm_up
        self.keep_best = keep_best
        self.inference = inference
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
        return variational_architecture(self, None, noise=True)

    def _training_spec(self) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        check_option(self.inference, "inference", ("auto", "analytic", "sampled"))
        if self.inference == "analytic" and not self.last_layer:
            raise ValueError(
                "`inference` must be 'auto' or 'sampled' with last_layer=False, got 'analytic'. A "
                "closed form exists only if all layers except the last have fixed weights. Use "
                "inference='sampled' or last_layer=True."
            )
        rate = resolve_learning_rate(self.learning_rate, _RATES[self.last_layer])
        score = resolve_selection_score(self.keep_best)
        return TrainingSpec(NLLLoss(), rate, score, counts_rows=True)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> ConstantNoisePosterior:
        module: VariationalModule = fit.net.module_
        posterior = self._with_learned_noise(module, fit.plan.seed)
        if self.calibration is not None:
            unseen = data.take(rows_with_weight(fit.plan.held_out, data))
            posterior = posterior.with_likely_noise(unseen)
        self.noise_std_ = posterior.noise_std
        if self.scaler_.y_scale > 0 and fit.plan.X.any():
            self._warn_of_a_constant(module, fit.plan.X)
        return posterior

    def _with_learned_noise(self, module: VariationalModule, seed: int) -> ConstantNoisePosterior:
        common = self.scaler_, module, self.device, noise_variance(module)
        if self.last_layer:
            weights, closed_form = module.last_layer_weights(), bool(self.inference != "sampled")
            return LastLinearPosterior(*common, weights, self.n_draws, seed, closed_form)
        return SampledPosterior(*common, self.n_draws, seed)

    def _warn_of_a_constant(self, module: StackedModule, X: FloatArray) -> None:
        """Warn if the prediction with the mean weights is nearly constant."""
        loc, _ = member_moments(module, X, read_device(self.device, 1))
        share = float(loc.std())
        if share < _CONSTANT:
            warn_user(
                "the prediction is nearly constant: its standard deviation is "
                f"{share:.2g} times the standard deviation of y. If y depends on X, the prior dominates the "
                f"data. Use more rows, fewer or smaller hidden layers, `kl_weight` below 1, or "
                "more epochs.",
                ConvergenceWarning,
            )


"""Learning rate for each value of `last_layer`. With True, the initial standard deviations are near their
optimum."""


class VariationalClassifier(BaseNeuralClassifier):
    """Network with normally distributed weights that predicts class probabilities (variational inference).

    The classifier predicts class probabilities and the epistemic part of their entropy. Its probabilities are
    less extreme than the probabilities of ensembles and of dropout. On new rows that are similar to the
    training rows, the probabilities are less accurate. On other rows, they are far less overconfident. Prefer
    `DeepEnsembleClassifier` if new rows are similar to the training rows.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. The hidden units are rectified linear units (ReLU).
    last_layer : bool, default=False
        Whether only the weights of the last layer are uncertain. With True, the training is faster, but the
        model is overconfident.
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the inputs of the last layer, which skuq adds.
        ``n_outputs`` is the last entry of `hidden_layer_sizes`. Requires `last_layer`.
    prior : float or "empirical", default=1.0
        Standard deviation of the normal prior of the weights. The mean of the prior is 0. "empirical" means
        the value that maximizes the evidence, for each layer. This value shrinks the weights strongly if
        there are more weights than the rows can determine. Biases have a standard normal prior.
    kl_weight : float, default=1.0
        Factor of the divergence from the prior. With 1, the posterior follows Bayes' rule. The divergence is
        also divided by the number of rows.
    warm_up : float, default=0.3
        Share of the epochs in which the factor of the divergence grows from 0 to `kl_weight`. Without this
        warm-up, the prior often dominates before the mean is learned, and the prediction is constant.
    n_draws : int, default=100
        Number of networks or functions that are drawn from the posterior. At least 2. The default of the
        regressors is 200.
    keep_best : {"log_loss", False}, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. "log_loss" is the log
        loss of the network with the mean weights on held-out rows. It is not the log loss of the averaged
        forecast.
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
    learning_rate : float or "auto", default="auto"
        Initial learning rate of Adam. "auto" means 0.01, or 0.003 with `last_layer`. These values are as
        measured for `VariationalRegressor`.
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
    VariationalRegressor : The same method for regression.
    DeepEnsembleClassifier : Ensemble of independent networks.

    Notes
    -----
    The posterior of the weights is a normal distribution without correlations (mean field). The training
    minimizes the mean cross-entropy of the rows plus 1/n times the divergence from the prior. In training,
    each row of a batch has its own random weights, by local reparameterization [1]_. The standard deviations
    of the weights start at 0.05 divided by the square root of the number of inputs of the layer.

    ``sample_weight`` counts repetitions. Weights are used in the losses, and n is the sum of the weights.
    Class weights do not change n.

    Cost: an epoch takes longer than an epoch of a plain network, most of all without `last_layer`. A
    prediction runs `n_draws` networks at the same time, or `n_draws` last layers with `last_layer`.

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
        held_out_size: Any = 0.2,
        learning_rate: float | str = "auto",
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
        self.last_layer = last_layer
        self.module = module
        self.prior = prior
        self.kl_weight = kl_weight
        self.warm_up = warm_up
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
        return variational_architecture(self, self._prior_variance(), noise=False)

    def _prior_variance(self) -> float | None:
        if isinstance(self.prior, str):
            if self.prior != "empirical":
                raise ValueError(f"`prior` must be a positive number or 'empirical', got {self.prior!r}.")
            return None
        return check_number(self.prior, "prior", positive=True) ** 2

    def _spec_for(self, data: TrainingData) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        rate = resolve_learning_rate(self.learning_rate, _RATES[self.last_layer])
        return self._spec(data, rate, counts_rows=True)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> DrawnClassPosterior:
        return DrawnClassPosterior(self.scaler_, fit.net.module_, self.device, self.n_draws, fit.plan.seed)
