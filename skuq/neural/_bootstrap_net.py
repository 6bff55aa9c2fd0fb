"""Heskes' bootstrap: networks on resampled rows, and the noise that their mean leaves unexplained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._validation import check_integer, check_option
from skuq.neural._losses import Loss, SquaredErrorLoss, resolve_selection_score
from skuq.neural._predictive.calibration import Calibration, FixedTails
from skuq.neural._predictive.ensemble import BootstrapPosterior
from skuq.neural._regressor import BaseNeuralRegressor, TableLayersMixin
from skuq.neural._training.plan import TrainingSpec, plan_pairs
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["BootstrapNetRegressor"]


class BootstrapNetRegressor(TableLayersMixin, BaseNeuralRegressor):
    r"""Networks trained by squared errors on bootstrap rows, and one variance of the noise.

    It estimates how certain the mean is, and how far off a prediction may be where the noise is the same
    everywhere. Prefer `DeepEnsembleRegressor` where the noise varies with x, and `BootstrapRegressor` for
    any other regressor.

    Parameters
    ----------
    n_estimators : int, default=50
        Number of members M. At least 2; with ``ci_scale="mean"`` an even number of at least 4.
    hidden_layer_sizes : tuple of int, default=(40, 30, 20)
        Sizes of the hidden layers.
    module : callable or None, default=None
        Class or function that is called as ``module(n_features, n_outputs)`` and returns a torch module that
        maps (n, n_features) to (n, n_outputs). The output is the mean of the standardised target; it replaces
        ``hidden_layer_sizes``.
    n_frequencies : int or "auto", default=0
        Number of learnt frequencies of each column. Besides the column, the networks have as inputs at
        most three learnt combinations of its cosines at these frequencies; 0 is the column alone. "auto" is
        8, and fewer from 33 columns, so that all together have at most 256. Not used with `module`.
    input_scale : bool, default=False
        Whether each network learns a factor for each of its inputs. Not used with `module`.
    activation : {"relu", "silu"}, default="relu"
        Function of the hidden units: "relu" is max(x, 0), "silu" the smooth x / (1 + exp(-x)). Not used with
        `module`.
    ci_scale : {"member", "mean"}, default="member"
        Variance that is the epistemic part. "member" is that of a single member, as by Heskes (1996): wider
        than the error of the mean of all. "mean" estimates the variance of the mean; for this, members share
        their rows two by two, which separates the randomness of training from that of the data.
    noise_estimation : {"oob", "split"}, default="oob"
        Rows from which the variance of the noise is estimated: "oob" are those that members left out, "split"
        are rows held out of training.
    keep_best : str, Loss or False, default=False
        Score that selects the best epoch: all epochs are trained, and the weights are kept of the epoch with
        the best score on out-of-bag rows where there is a bootstrap, else on rows held out of training. It is
        "squared_error" or a Loss with ``n_outputs = 1``; False keeps the last epoch.
    calibration : {"oob", "split", None}, default="oob"
        Rows that calibrate scale and tails of the distribution. "oob" are those that members left out,
        "split" are rows held out of training. None is the Student t distribution of Heskes (1996), with M
        degrees of freedom.
    calibration_coverage : float, default=0.9
        Coverage of the central intervals whose width is that of conformal prediction; at other coverages it
        follows from the tails. Fewer calibration rows than its rank needs, 9 at 90 %, give a
        `SmallSampleWarning`.
    validation_size : float, int, splitter or iterable, default=0.2
        Rows held out of training where calibration, the noise or the best epoch need them: a share or a
        number of rows, drawn at random, or a splitter whose first test rows are taken, such as
        PredefinedSplit.
    learning_rate : float, default=0.001
        Initial learning rate of Adam.
    lr_schedule : {"constant", "cosine"}, default="constant"
        Schedule of the learning rate. "cosine" falls to 0 by the last epoch.
    batch_size : int, default=32
        Number of rows of a batch; the batches of an epoch are made equally large.
    max_epochs : int or "auto", default=80
        Number of epochs. "auto" takes 8000 steps, but at least 40 and at most 200 epochs.
    clip_norm : float or None, default=5.0
        Limit of the norm of each network's gradient.
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
        Standard deviation of the noise before calibration, in the units of y. From equation 9 of [2]_.
    factor_ : float
        Factor by which calibration multiplies standard deviations; above 1 the raw distribution was
        over-confident, 1 without calibration.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100; infinite for other distributions. M
        with ``calibration=None``.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    DeepEnsembleRegressor : Members that predict the noise at each x.
    BootstrapRegressor : The same idea for regressors of any kind.

    Notes
    -----
    With predictions :math:`f_m(x)` of the members and their mean :math:`\hat f(x)`, the epistemic variance
    is :math:`\sigma_\omega^2(x) = \sum_m (f_m - \hat f)^2 / (M - 1)`, and the noise [1]_ [2]_, equation 9,

    .. math:: \hat\sigma^2 = \frac{1}{N} \sum_j
       \max\left((y_j - \hat f(x_j))^2 - \sigma_\omega^2(x_j), 0\right)

    over rows j that the members are not trained on. Intervals are :math:`\hat f \pm t_M \sigma_\omega` for
    the regression function (`epistemic`), and with :math:`\sqrt{\sigma_\omega^2 + \hat\sigma^2}` for y.

    With ``ci_scale="mean"``, let :math:`V_p` be the variance between the means of pairs with the same rows,
    and :math:`V_w` the variance within pairs. Training varies by :math:`V_w`, and resampling by
    :math:`V_p - V_w / 2`, which stands for how the data could have been otherwise; the variance of the mean
    of P pairs is :math:`\max(V_p - V_w / 2, 0) + V_p / P`. Only dividing by M, as if members were
    independent, is wrong, since all learn from the same data. In the simulation of [2]_, section 5.2, the
    mean varied by 0.0213 from one data set to the next; "member" gave 0.048 and covered the true function
    in 99.6 % where 90 % is nominal, "mean" 0.0214 and 75 % (the networks' bias is the rest), division by M
    0.007 and 37 %.

    Over-confident where: the noise varies with x, there where it is large, calibrated or not; far from
    the training rows, where members differ less than their errors; in confidence intervals with
    ``ci_scale="mean"``, which leave out the networks' bias. With ``calibration=None`` equation 9
    makes prediction intervals right on average where the noise is normal, not else. With "oob" coverage has
    no guarantee, though it holds in practice; "split" has one for exchangeable rows, unless
    ``noise_estimation="split"`` takes the noise from the same rows.

    ``sample_weight`` counts repetitions: the losses are weighted by it, and the noise and the ranks of
    calibration. Rows are drawn whatever their weight, so that heavy ones are left out as well.

    Cost: the members are trained in one pass, 50 in little more than the time of 2 trained by skorch one
    after another. `fit_transform` costs nothing beyond `fit`, but for the few rows that fewer than two
    members left out.

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
        calibration_coverage: float = 0.9,
        validation_size: Any = 0.2,
        learning_rate: float = 1e-3,
        lr_schedule: str = "constant",
        batch_size: int = 32,
        max_epochs: int | str = 80,
        clip_norm: float | None = 5.0,
        device: str = "auto",
        dtype: str = "float32",
        callbacks: Any = None,
        net_params: dict[str, Any] | None = None,
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
        self.calibration_coverage = calibration_coverage
        self.validation_size = validation_size
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.clip_norm = clip_norm
        self.device = device
        self.dtype = dtype
        self.callbacks = callbacks
        self.net_params = net_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------- fitting

    def _training_spec(self) -> TrainingSpec:
        return TrainingSpec(
            SquaredErrorLoss(),
            self.learning_rate,
            selection_score=resolve_selection_score(self.keep_best, of_mean=True),
            n_members=self._check_settings(),
            bootstrap=True,
            draw_rows=plan_pairs if self.ci_scale == "mean" else None,
        )

    def _holds_out(self, spec: TrainingSpec) -> bool:
        return bool(self.noise_estimation == "split") or super()._holds_out(spec)

    def _check_settings(self) -> int:
        """Return the number of members, all parameters of this class being checked."""
        n_members = check_integer(self.n_estimators, "n_estimators")
        check_option(self.ci_scale, "ci_scale", ("member", "mean"))
        check_option(self.noise_estimation, "noise_estimation", ("oob", "split"))
        if n_members < 2:
            raise ValueError(f"`n_estimators` must be at least 2 to have a spread, got {n_members}.")
        if self.ci_scale == "mean" and (n_members < 4 or n_members % 2):
            raise ValueError(
                "`n_estimators` must be even and at least 4 with ci_scale='mean', where members share rows "
                f"two by two, got {n_members}."
            )
        return n_members

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
