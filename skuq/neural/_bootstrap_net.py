"""Bootstrap ensemble of networks with a constant noise variance (Heskes, 1996)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._fitting.training_data import TrainingData
from skuq._typing import SupportLike
from skuq._validation import check_integer, check_option
from skuq.neural._losses import Loss, SquaredErrorLoss, resolve_selection_score
from skuq.neural._plan import TrainingSpec, plan_pairs
from skuq.neural._predictive import BootstrapPosterior, Calibration, FixedTails
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._training import TrainedFit


class BootstrapNetRegressor(BaseNeuralRegressor):
    r"""Bootstrap ensemble of networks that minimize squared errors, with a constant noise variance.

    The regressor estimates the uncertainty of the mean and, if the noise is the same for all x, the
    uncertainty of a prediction. Prefer `DeepEnsembleRegressor` if the noise varies with x. Use
    `BootstrapRegressor` for regressors other than networks.

    Parameters
    ----------
    n_estimators : int, default=50
        Number of members M. At least 2. With ``ci_scale="mean"``, M must be even and at least 4.
    hidden_layer_sizes : tuple of int, default=(40, 30, 20)
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
    ci_scale : {"member", "mean"}, default="member"
        Variance that the epistemic part estimates. "member" is the variance of one member (Heskes, 1996). It
        is larger than the variance of the mean of the members. "mean" is the variance of the mean. To
        estimate this variance, members are trained in pairs. Both members of a pair are trained on the same
        rows, so they differ only by the randomness of the training. Members of different pairs also differ by
        the randomness of the data.
    noise_estimation : {"oob", "split"}, default="oob"
        Rows from which the noise variance is estimated. "oob" uses the out-of-bag rows of the members.
        "split" uses rows that are held out of training.
    keep_best : str, Loss or False, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. All epochs are
        trained. Every second epoch is scored on out-of-bag rows. Valid scores are "squared_error" and a
        `Loss` with ``n_outputs = 1``.
    calibration : {"oob", "split", None}, default="oob"
        Rows that calibrate the scale and the tails of the distribution. "oob" uses the out-of-bag rows of the
        members. "split" uses rows that are held out of training. None returns the Student t distribution of
        Heskes (1996), with M degrees of freedom.
    coverage : float, default=0.9
        Coverage of the central intervals whose width is calibrated by conformal prediction. The width of
        intervals with other coverages also depends on the estimated tails. If there are fewer calibration
        rows than the coverage requires (9 rows for 90 %), a `SmallSampleWarning` is issued.
    held_out_size : float, int, splitter or iterable, default=0.2
        Rows that are held out of training if calibration, the noise estimate or `keep_best` requires held-out
        rows. A float is the share of held-out rows, and an int is the number of held-out rows. The rows are
        drawn at random. With a splitter, such as PredefinedSplit, the test rows of its first split are held
        out.
    learning_rate : float, default=0.001
        Initial learning rate of Adam. The default is the learning rate of [2]_. The default of the other
        networks is 0.003.
    batch_size : int, default=32
        Number of rows per batch. The number is adjusted so that all batches of an epoch have the same size.
    max_epochs : int or "auto", default=80
        Number of epochs. "auto" means 8000 training steps in total, but at least 40 and at most 200 epochs.
        With "auto" and `keep_best`, training ends early when the number of epochs is twice the number of the
        best epoch so far. At least 40 epochs are trained.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of training and prediction. "auto" uses a GPU if a GPU is available and at least 32 networks
        are trained or drawn.
    dtype : {"float32", "float64"}, default="float32"
        Floating-point type of the networks in training. X and y are standardized in float64.
    net_params : dict or None, default=None
        Further parameters of the skorch net, such as ``optimizer`` and a list of ``callbacks``. Scoring
        callbacks, such as EpochScoring, are not supported. ``lr_schedule`` is "constant" (the default), or
        "cosine", which decreases the learning rate to 0 by the last epoch. ``clip_norm`` is the upper limit
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
        Standard deviation of the noise before calibration, in the units of y. See equation 9 of [2]_.
    factor_ : float
        Factor by which calibration multiplies the standard deviations. It is above 1 if the model is
        overconfident, and 1 without calibration.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100. Infinite for other distributions.
        With ``calibration=None``, the value is M.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    DeepEnsembleRegressor : Ensemble whose members predict a noise variance for each x.
    BootstrapRegressor : The same method for any regressor.

    Notes
    -----
    Let :math:`f_m(x)` be the predictions of the members and :math:`\hat f(x)` their mean. The epistemic
    variance is :math:`\sigma_\omega^2(x) = \sum_m (f_m - \hat f)^2 / (M - 1)`. The noise variance (equation 9
    of [2]_; see also [1]_) is

    .. math:: \hat\sigma^2 = \frac{1}{N} \sum_j
       \max\left((y_j - \hat f(x_j))^2 - \sigma_\omega^2(x_j), 0\right)

    where j runs over rows that the members are not trained on. Intervals of the regression function
    (`epistemic`) are :math:`\hat f \pm t_M \sigma_\omega`. Intervals of y use
    :math:`\sqrt{\sigma_\omega^2 + \hat\sigma^2}` instead of :math:`\sigma_\omega`.

    With ``ci_scale="mean"``, let :math:`V_w` be the variance within pairs, and :math:`V_p` the variance
    between the means of the pairs. :math:`V_w` is the variance due to the randomness of training. :math:`V_p
    - V_w / 2` is the variance due to the resampling of rows. It is an estimate of the variance between data
    sets. The variance of the mean of P pairs is :math:`\max(V_p - V_w / 2, 0) + V_p / P`. The simpler formula
    :math:`\sigma_\omega^2 / M` would assume that the members are independent, but all members are trained on
    the same data.

    With "member", confidence intervals are usually too wide, because the variance of one member is larger
    than the variance of the mean of the members. They are too short if the bias of the networks is large. The
    replication of [2]_ has examples of both (:doc:`/replications/sluijterman-2024`).

    If the noise varies with x, the intervals are too short where the noise is large, with and without
    calibration. The intervals are also too short far from the training rows, because the differences between
    the members are smaller than the errors of the members there. Confidence intervals with
    ``ci_scale="mean"`` are too short, because they ignore the bias of the networks. With
    ``calibration=None``, prediction intervals have the right coverage on average only if the noise is normal.
    With "oob", the coverage is close to nominal in practice, but it is not guaranteed. With "split", the
    coverage is guaranteed if rows are exchangeable and ``noise_estimation`` is not "split". Otherwise, the
    noise is estimated from the calibration rows.

    ``sample_weight`` counts repetitions. Weights are used in the losses, in the noise estimate and in the
    quantiles of the calibration scores. Weights do not change the bootstrap samples. Therefore, rows with
    large weights are also out of bag for some members.

    Cost: all members are trained in one pass. `fit_transform` costs one fit more than `fit`. The additional
    fit predicts the few rows that are out of bag for fewer than two members.

    References
    ----------
    .. [1] T. Heskes, "Practical confidence and prediction intervals", NeurIPS 1996.
    .. [2] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203, algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import BootstrapNetRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = BootstrapNetRegressor(10, random_state=0).fit(X, y)
    >>> dist = model.predict_dist([[0.0]])
    >>> bool(dist.epistemic().std() < dist.std())
    True
    """

    _calibrations = ("oob", "split", None)
    _lr_schedule = "constant"

    def __init__(
        self,
        n_estimators: int = 50,
        *,
        hidden_layer_sizes: tuple[int, ...] = (40, 30, 20),
        module: Callable[[int, int], Any] | None = None,
        n_frequencies: int | str = 0,
        input_scale: bool = False,
        activation: str = "relu",
        ci_scale: str = "member",
        noise_estimation: str = "oob",
        keep_best: str | Loss | bool = False,
        calibration: str | None = "oob",
        coverage: float = 0.9,
        held_out_size: Any = 0.2,
        learning_rate: float = 1e-3,
        batch_size: int = 32,
        max_epochs: int | str = 80,
        device: str = "auto",
        dtype: str = "float32",
        net_params: dict[str, Any] | None = None,
        support: SupportLike = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.n_frequencies = n_frequencies
        self.input_scale = input_scale
        self.activation = activation
        self.ci_scale = ci_scale
        self.noise_estimation = noise_estimation
        self.keep_best = keep_best
        self.calibration = calibration
        self.coverage = coverage
        self.held_out_size = held_out_size
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.device = device
        self.dtype = dtype
        self.net_params = net_params
        self.support = support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _training_spec(self) -> TrainingSpec:
        n_members = check_integer(self.n_estimators, "n_estimators")
        check_option(self.ci_scale, "ci_scale", ("member", "mean"))
        check_option(self.noise_estimation, "noise_estimation", ("oob", "split"))
        if n_members < 2:
            raise ValueError(f"`n_estimators` must be at least 2, got {n_members}. One member has no spread.")
        if self.ci_scale == "mean" and (n_members < 4 or n_members % 2):
            raise ValueError(
                f"`n_estimators` must be even and at least 4 with ci_scale='mean', got {n_members}. With "
                "this option, each bootstrap sample trains two members."
            )
        return TrainingSpec(
            SquaredErrorLoss(),
            self.learning_rate,
            selection_score=resolve_selection_score(self.keep_best, of_mean=True),
            n_members=n_members,
            bootstrap=True,
            draw_rows=plan_pairs if self.ci_scale == "mean" else None,
        )

    def _holds_out(self, spec: TrainingSpec) -> bool:
        return bool(self.noise_estimation == "split") or super()._holds_out(spec)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> BootstrapPosterior:
        posterior = BootstrapPosterior(
            self.scaler_, fit.net.module_, self.device, n_outputs=1, ci_scale=self.ci_scale
        )
        if self.scaler_.y_scale > 0:
            rows, oob_mask = self._oob_rows("noise_estimation", fit, data)
            posterior = posterior.with_noise_of(data.take(rows), oob_mask)
        self.noise_std_ = posterior.noise_std
        return posterior

    def _uncalibrated(self) -> Calibration:
        return Calibration() if self.calibration is not None else FixedTails(df=float(self.n_estimators))
