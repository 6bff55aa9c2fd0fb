"""Deep ensembles for regression and classification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.utils import Tags

from skuq._fitting.training_data import TrainingData, has_several_columns
from skuq._typing import ArrayLike, FloatArray, SupportLike
from skuq._validation import check_integer, check_option
from skuq.distributions import Distribution
from skuq.multivariate._base_regressor import check_complete, check_targets
from skuq.neural._classifier import BaseNeuralClassifier
from skuq.neural._losses import CRPSLoss, JointLoss, Loss, TrainingLoss, read_loss, resolve_selection_score
from skuq.neural._plan import TrainingSpec, plan_folds
from skuq.neural._predictive import EnsembleClassPosterior, EnsemblePosterior, JointPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._training import TrainedFit

_OUTPUTS = ("moments", "mixture", "members")


class DeepEnsembleRegressor(BaseNeuralRegressor):
    r"""Calibrated ensemble of networks that each predict a mean and a variance.

    The regressor estimates the uncertainty of a prediction and its epistemic part. The epistemic part
    decreases with more data. The noise may vary with x, and the mean may be nonlinear. For several targets,
    each network predicts their means and their covariance matrix, which may also vary with x. Prefer
    `PNNRegressor` if you can afford only one network. Use `BootstrapRegressor` for regressors other than
    networks.

    Parameters
    ----------
    n_estimators : int, default=20
        Number of members M.
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers.
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the mean and the raw variance of the standardized
        target. For d targets, the outputs are d means, d raw variances and d (d - 1) / 2 coefficients.
        `module` replaces `hidden_layer_sizes`.
    n_frequencies : int or "auto", default="auto"
        Number of learned frequencies per column. For each column, the cosines with these frequencies are
        computed. Up to three linear combinations of the cosines are additional inputs. 0 adds no inputs.
        "auto" means min(8, 256 // n_features). Not used with `module`.
    input_scale : bool, default=True
        Whether each network multiplies its inputs by learned factors. Not used with `module`.
    activation : {"relu", "silu"}, default="silu"
        Activation function. "relu" is max(x, 0), and "silu" is x / (1 + exp(-x)). Not used with `module`.
    loss : {"beta_nll", "nll", "crps", "check", "interval", "squared_error"} or Loss, default="beta_nll"
        Training loss of the networks. With "squared_error", the members do not predict a noise variance. For
        several targets, the loss is the sum of the losses of each target given the targets before it, and
        "squared_error" raises an error.
    bootstrap : bool or "folds", default=True
        Rows on which each member is trained. With True, n rows are drawn with replacement for each member.
        With "folds", the members are divided into groups of four. For each group, the rows are divided into
        four random folds, and each of the four members is trained without one of these folds. With False, all
        members are trained on all rows.
    keep_best : str, Loss or False, default="auto"
        Score that selects the epoch whose weights are kept. False keeps the last epoch. Every second epoch is
        scored. With `bootstrap`, it is scored on out-of-bag rows, and otherwise on held-out rows. Valid
        scores are "nll", "beta_nll", "crps", "check", "interval", "squared_error" and instances of `Loss`.
        "auto" means "crps", or "squared_error" if the members do not predict a noise variance.
    calibration : {"oob", "split", None}, default="oob"
        Rows that calibrate the scale and the tails of the distribution. "oob" uses the out-of-bag rows of the
        members. "split" uses rows that are held out of training. None returns the uncalibrated distribution.
        Its intervals are too short on small data sets.
    coverage : float, default=0.9
        Coverage of the central intervals whose width is calibrated by conformal prediction. The width of
        intervals with other coverages also depends on the estimated tails. If there are fewer calibration
        rows than the coverage requires (9 rows for 90 %), a `SmallSampleWarning` is issued.
    output : {"moments", "mixture", "members"}, default="moments"
        Form of the distribution. "moments" is a Student t distribution with the mean and the variance of the
        ensemble. Without calibration, it is a normal distribution. "mixture" is the mixture of the members'
        normal distributions. "members" is the sample of the members' means. Its intervals do not include the
        noise. For "mixture" and "members", calibration multiplies the distances from the mean by one factor,
        so that intervals have the nominal coverage. For several targets, only "moments" is possible. It is
        then a multivariate normal distribution.
    held_out_size : float, int, splitter or iterable, default=0.2
        Rows that are held out of training if calibration, the noise estimate or `keep_best` requires held-out
        rows. A float is the share of held-out rows, and an int is the number of held-out rows. The rows are
        drawn at random. With a splitter, such as PredefinedSplit, the test rows of its first split are held
        out.
    learning_rate : float, default=0.008
        Initial learning rate of Adam. The defaults of single networks are a learning rate of 0.003 and
        batches of 32 rows.
    batch_size : int or "auto", default="auto"
        Number of rows per batch. The number is adjusted so that all batches of an epoch have the same size.
        "auto" is 64, or 32 if a member has fewer than 600 training rows.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" means 8000 training steps in total, but at least 40 and at most 200 epochs.
        The training ends earlier if it has run for twice as many epochs as the best epoch so far, but not
        before epoch 40. The score of `keep_best` determines the best epoch. If this score is still improving
        after 200 epochs, for example because there is little noise, a second training with 8000 steps and at
        most 1000 epochs replaces the first training. With ``batch_size="auto"``, the second training has 64
        rows per batch.
    cv : int, splitter or iterable, default=5
        Folds of `fit_transform`. Not used with `bootstrap`.
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
        predictions are the means of the clipped forecasts. Must be None for several targets.
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
    factor_ : float or ndarray of shape (d,)
        Factor by which calibration multiplies the standard deviations. It is above 1 if the model is
        overconfident, and 1 without calibration. For several targets, there is one factor per target.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100. Infinite for other distributions.
    n_outputs_ : int
        Number of targets d.
    target_names_ : ndarray of str of shape (d,), or None
        Names of the columns of y. None for one target, or if y is not a DataFrame.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    PNNRegressor : A single network that predicts a mean and a variance.
    skuq.multivariate.MultiOutputUncertaintyRegressor : Several targets, with one regressor per target.
    BootstrapRegressor : Bootstrap ensemble of any regressor.

    Notes
    -----
    Let :math:`\mu_m` and :math:`\sigma_m^2` be the mean and the variance that member m predicts. The ensemble
    has the mean :math:`\bar\mu`, the noise variance :math:`\overline{\sigma^2}` and the epistemic variance
    :math:`\overline{(\mu_m - \bar\mu)^2}` [1]_. For a row that is out of bag for k of M members, the
    epistemic variance is multiplied by 1 + 1/k - 1/M, because a mean of k members is less certain than a mean
    of M members. Calibration has two steps. Conformal prediction determines the width of the central interval
    with the coverage `coverage`. Of all Student t distributions whose interval has this width,
    the distribution with the largest likelihood is used.

    With ``calibration=None``, the intervals are too short if there are fewer than a few thousand rows, or
    after many epochs with ``keep_best=False``. With ``output="members"`` and ``calibration=None``, the
    intervals do not include the noise and are always too short. Far from the training rows, all intervals are
    too short, because the differences between the members are smaller than the errors of the members there.
    With "oob", the coverage is close to nominal in practice. It is not guaranteed, because the same rows
    select the epoch and calibrate the distribution. With "split", `bootstrap` and ``output="moments"``, the
    coverage is guaranteed if rows are exchangeable.

    Several targets: y has the shape (n, d). The d (d + 3) / 2 outputs of a network are the means, and for
    each target its variance and its regression coefficients given the targets before it [5]_. Together they
    are a mean vector and a Cholesky factor of the covariance matrix. With ``loss="nll"``, the loss is the
    negative log-likelihood of the multivariate normal distribution. `predict_dist` returns a `NormalJoint`
    with the mean and the covariance matrix of the ensemble, by the law of total covariance. Calibration
    multiplies the standard deviations of each target by a factor, and does not change the correlations.
    `predict` returns an array of shape (n, d), and all other arrays have an axis of targets after the axis of
    rows. Missing targets raise an error.

    Settings from the literature: Wibbeke et al. [2]_ use ``n_estimators=5``, ``loss="nll"``,
    ``keep_best=False``, ``calibration=None``, ``max_epochs=50``, and ``learning_rate=1e-3``. Kompa et
    al. [3]_ use ``n_estimators=40``, ``loss="squared_error"``, ``bootstrap=False``, ``keep_best=False``,
    ``calibration=None``, ``output="members"`` and ``max_epochs=50``, and choose `learning_rate` with a random
    search. The distribution of Kompa et al. is the sample of the predictions of 40 networks. Both papers use
    ``batch_size=32``, ``net_params={"lr_schedule": "constant"}`` and plain layers: ``n_frequencies=0``,
    ``input_scale=False`` and ``activation="relu"``.

    The learned frequencies and the learned scales of the inputs follow Holzmüller et al. [4]_, with three
    differences. There are at most 8 frequencies per column instead of 16. The initial weights of the
    combinations of cosines are a tenth of the usual size. Frequencies, phases and combinations have the same
    learning rate as the other weights. In [4]_, their learning rate is a tenth of the learning rate of the
    other weights.

    X may be a data frame with strings, categories, dates and missing values. A column with more than three
    categories is converted to an embedding, which each member learns. A column with up to three categories is
    converted to indicators. Categories that do not occur in the training rows are treated as missing. A
    missing number is replaced by the mean of its column. If the column has missing numbers in the training
    rows, an additional indicator marks the missing numbers.

    ``sample_weight`` counts repetitions. Weights are used in the losses, in the scores of the epochs and in
    the ranks of the calibration. Weights do not change the bootstrap samples. Therefore, rows with large
    weights are also out of bag for some members.

    Cost: all members are trained in one pass. With `bootstrap`, `fit_transform` costs one fit more than
    `fit`. The additional fit predicts the few rows that are out of bag for fewer than two members. The
    default layers take longer than plain layers. With 257 or more columns, ``n_frequencies="auto"`` means 0
    frequencies.

    References
    ----------
    .. [1] B. Lakshminarayanan, A. Pritzel, C. Blundell, "Simple and scalable predictive uncertainty
       estimation using deep ensembles", NeurIPS 2017, arXiv:1612.01474.
    .. [2] J. Wibbeke, N. Schönfisch, S. Rohjans, A. Rauh, "Evaluating the quality of the quantified
       uncertainty for (re)calibration of data-driven regression models", 2025, arXiv:2508.17761.
    .. [3] B. Kompa, J. Snoek, A. L. Beam, "Empirical frequentist coverage of deep learning uncertainty
       quantification procedures", Entropy 23(12), 2021, doi:10.3390/e23121608.
    .. [4] D. Holzmüller, L. Grinsztajn, I. Steinwart, "Better by default: strong pre-tuned MLPs and boosted
       trees on tabular data", NeurIPS 2024, arXiv:2407.04491.
    .. [5] M. Pourahmadi, "Joint mean-covariance models with applications to longitudinal data: unconstrained
       parameterisation", Biometrika 86(3), 1999, doi:10.1093/biomet/86.3.677.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import DeepEnsembleRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = DeepEnsembleRegressor(5, max_epochs=30, random_state=0).fit(X, y)
    >>> dist = model.predict_dist([[0.0]])
    >>> bool(dist.epistemic().std() < dist.std())
    True

    Two targets, whose correlation depends on x:

    >>> first, second = rng.normal(size=(2, 200))
    >>> Y = np.column_stack([first, np.sign(X[:, 0]) * first + 0.3 * second])
    >>> model.fit(X, Y).predict_dist([[-0.8], [0.8]]).corr()[:, 0, 1].round(1)
    array([-0.9,  0.9])
    """

    _calibrations = ("oob", "split", None)

    def __init__(
        self,
        n_estimators: int = 20,
        *,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        module: Callable[[int, int], Any] | None = None,
        n_frequencies: int | str = "auto",
        input_scale: bool = True,
        activation: str = "silu",
        loss: str | Loss = "beta_nll",
        bootstrap: bool | str = True,
        keep_best: str | Loss | bool = "auto",
        calibration: str | None = "oob",
        coverage: float = 0.9,
        output: str = "moments",
        held_out_size: Any = 0.2,
        learning_rate: float = 8e-3,
        batch_size: int | str = "auto",
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
        self.n_estimators = n_estimators
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.n_frequencies = n_frequencies
        self.input_scale = input_scale
        self.activation = activation
        self.loss = loss
        self.bootstrap = bootstrap
        self.keep_best = keep_best
        self.calibration = calibration
        self.coverage = coverage
        self.output = output
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
        n_members = check_integer(self.n_estimators, "n_estimators")
        loss = read_loss(self.loss)
        check_option(self.output, "output", _OUTPUTS)
        calibration = check_option(self.calibration, "calibration", self._calibrations)
        bootstrap = check_option(self.bootstrap, "bootstrap", (True, False, "folds"))
        if calibration == "oob" and not bootstrap:
            raise ValueError(
                "`calibration` must be 'split' or None with bootstrap=False, got 'oob'. Without bootstrap, "
                "there are no out-of-bag rows. Use calibration='split', or calibration=None for the "
                "uncalibrated ensemble."
            )
        if self.output == "mixture" and loss.n_outputs == 1:
            raise ValueError(
                f"`output` must be 'moments' or 'members' with the loss {self.loss!r}, got 'mixture'. This "
                "loss does not learn a variance. Change `output`, or use a loss with a variance."
            )
        if calibration is not None and self._min_oob_members() > n_members:
            raise ValueError(
                f"`n_estimators` must be at least 2 to calibrate with the spread of the members, got "
                f"{n_members}. Use a loss with a variance and output='moments', or calibration=None."
            )
        keep_best = self.keep_best
        if isinstance(keep_best, str) and keep_best == "auto":
            keep_best = loss if loss.n_outputs == 1 else CRPSLoss()
        return TrainingSpec(
            loss,
            self.learning_rate,
            selection_score=resolve_selection_score(keep_best, also=("auto",)),
            n_members=n_members,
            bootstrap=bool(bootstrap),
            draw_rows=plan_folds if bootstrap == "folds" else None,
        )

    def _spec_for(self, data: TrainingData) -> TrainingSpec:
        spec = self._training_spec()
        if data.y.ndim == 1:
            return spec
        d, score = data.y.shape[1], spec.selection_score
        loss = self._joint_loss("loss", spec.loss, d)
        joint_score = None if score is None else self._joint_loss("keep_best", score, d)
        return replace(spec, loss=loss, selection_score=joint_score)

    def _joint_loss(self, name: str, loss: TrainingLoss, d: int) -> JointLoss:
        if loss.n_outputs == 1:
            raise ValueError(
                f"`{name}` must use a variance with several targets, got {getattr(self, name)!r}. This loss "
                "scores only means. Use, for example, 'nll'."
            )
        return JointLoss(cast(Loss, loss), d)

    def _read_target(self, y: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
        if not has_several_columns(y):
            return super()._read_target(y)
        for name, value in (("output", "moments"), ("support", None)):
            if getattr(self, name) != value:
                raise ValueError(
                    f"`{name}` must be {value!r} with several targets, got {getattr(self, name)!r}. For "
                    "other values, use MultiOutputUncertaintyRegressor(estimator)."
                )
        targets = check_targets(y, self)
        check_complete(targets.values, targets.labels)
        return targets.values, targets.names

    def _min_oob_members(self) -> int:
        """Return the number of out-of-bag members that a calibration row needs."""
        return 2 if self.output == "members" or read_loss(self.loss).n_outputs == 1 else 1

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> Any:
        if data.y.ndim == 2:
            return JointPosterior(self.scaler_, fit.net.module_, self.device, data.target_names)
        return EnsemblePosterior(
            self.scaler_,
            fit.net.module_,
            self.device,
            n_outputs=fit.plan.loss.n_outputs,
            output=self.output,
            coverage=self.coverage,
        )

    def _finish_fit(self, fit: TrainedFit, data: TrainingData) -> str | None:
        message = super()._finish_fit(fit, data)
        self.n_outputs_ = 1 if data.y.ndim == 1 else data.y.shape[1]
        names = data.target_names
        self.target_names_ = None if names is None else np.array(names, dtype=object)
        return message

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> FloatArray:
        """Return quantiles of the predictive distribution.

        Parameters
        ----------
        X : array-like or DataFrame of n rows
            Features, with the columns of the training data.
        levels : float or array-like of shape (k,)
            Levels in [0, 1].

        Returns
        -------
        quantiles : ndarray of shape (n,), or (n, k) for k levels
            Quantiles in the units of y. For d targets, the shape is (n, d) or (n, d, k).
        """
        dist: Any = self.predict_dist(X)
        if isinstance(dist, Distribution):
            return dist.quantile(levels)
        return np.stack([marginal.quantile(levels) for marginal in dist.marginals()], axis=1)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class DeepEnsembleClassifier(BaseNeuralClassifier):
    """Ensemble of networks that predict class probabilities. All networks are trained in one pass.

    The classifier predicts class probabilities and the epistemic part of their entropy. The epistemic part
    measures the disagreement between the members and decreases with more data. Prefer `MCDropoutClassifier`
    if you can afford only one network. Pass this classifier to `skuq.conformal.ConformalClassifier` to
    predict sets of classes with guaranteed coverage.

    Parameters
    ----------
    n_estimators : int, default=10
        Number of members M. With one member, the classifier is a plain network.
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. The hidden units are rectified linear units (ReLU).
    module : callable or None, default=None
        Class or function. ``module(n_features, n_outputs)`` must return a torch module that maps (n,
        n_features) to (n, n_outputs). Its outputs are the logits of the K classes. `module` replaces
        `hidden_layer_sizes`.
    bootstrap : bool or "folds", default=False
        Rows on which each member is trained. With True, n rows are drawn with replacement for each member.
        With "folds", the members are divided into groups of four. For each group, the rows are divided into
        four random folds, and each of the four members is trained without one of these folds. With False, all
        members are trained on all rows.
    keep_best : {"log_loss", False}, default=False
        Score that selects the epoch whose weights are kept. False keeps the last epoch. "log_loss" is the log
        loss of the averaged forecast. With `bootstrap`, it is computed on out-of-bag rows, and otherwise on
        held-out rows.
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
        Number of epochs. "auto" means 8000 training steps in total, but at least 40 and at most 200 epochs.
        The training ends earlier if it has run for twice as many epochs as the best epoch so far, but not
        before epoch 40. The score of `keep_best` determines the best epoch. If this score still improves at
        the end of 200 epochs, for example because there is little noise, a second training with 8000 steps
        and at most 1000 epochs replaces the first training.
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
    DeepEnsembleRegressor : The same method for regression.
    VariationalClassifier : One network with uncertain weights. It is less confident far from the training
        rows.
    skuq.conformal.ConformalClassifier : Prediction sets with guaranteed coverage.

    Notes
    -----
    The members minimize the cross-entropy. They differ in their initial weights and in the order of rows
    [1]_. The forecast is the mean of their probabilities, not of their logits. `predict_entropy` separates
    the epistemic from the aleatoric part.

    Without `keep_best`, the forecast is overconfident after long training, because the cross-entropy of the
    training rows keeps decreasing. To correct this, use
    ``sklearn.calibration.CalibratedClassifierCV(FrozenEstimator(model), method="temperature")`` with other
    rows. The forecast is also overconfident far from the training rows, because the members often agree on a
    wrong class there.

    ``sample_weight`` counts repetitions. Sample weights and class weights multiply the losses.

    Cost: M networks are trained in one pass. The memory contains one copy of the standardized rows.

    References
    ----------
    .. [1] B. Lakshminarayanan, A. Pritzel, C. Blundell, "Simple and scalable predictive uncertainty
       estimation using deep ensembles", NeurIPS 2017, arXiv:1612.01474.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skuq.neural import DeepEnsembleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DeepEnsembleClassifier(5, max_epochs=10, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (150, 3)
    >>> total, aleatoric, epistemic = model.predict_entropy(X)
    >>> bool((epistemic <= total).all())
    True
    """

    def __init__(
        self,
        n_estimators: int = 10,
        *,
        hidden_layer_sizes: tuple[int, ...] = (64, 64),
        module: Callable[[int, int], Any] | None = None,
        bootstrap: bool | str = False,
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
        self.n_estimators = n_estimators
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.bootstrap = bootstrap
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

    def _spec_for(self, data: TrainingData) -> TrainingSpec:
        n_members = check_integer(self.n_estimators, "n_estimators")
        bootstrap = check_option(self.bootstrap, "bootstrap", (True, False, "folds"))
        draw_rows = plan_folds if bootstrap == "folds" else None
        return self._spec(
            data, self.learning_rate, n_members=n_members, bootstrap=bool(bootstrap), draw_rows=draw_rows
        )

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> EnsembleClassPosterior:
        return EnsembleClassPosterior(self.scaler_, fit.net.module_, self.device)
