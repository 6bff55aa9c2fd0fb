"""Concrete dropout: the rates of dropout are learnt with the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skuq._validation import check_integer, check_number
from skuq.neural._losses import Loss, NLLLoss, resolve_selection_score
from skuq.neural._modules.architecture import Architecture
from skuq.neural._modules.concrete import ConcreteArchitecture
from skuq.neural._modules.user_module import check_module
from skuq.neural._predictive.sampled import DropoutPosterior
from skuq.neural._regressor import BaseNeuralRegressor
from skuq.neural._training.plan import LONG_TRAINING, TrainingSpec
from skuq.neural._training.trainer import TrainedFit
from skuq.regressors._fit_inputs import TrainingData

__all__ = ["ConcreteDropoutRegressor"]


class ConcreteDropoutRegressor(BaseNeuralRegressor):
    r"""One network that predicts mean and variance, with dropout whose rates are learnt.

    It estimates how far off a prediction may be where the noise varies with x, and how much of that is
    epistemic, at the cost of one network. Prefer `DeepEnsembleRegressor` wherever it can be afforded: its
    epistemic part is better. Where the noise is the same everywhere, `MCDropoutRegressor` has fewer weights.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Sizes of the hidden layers. They have rectified linear units.
    module : callable or None, default=None
        Class or function that is called as ``module(n_features, n_outputs)`` and returns a torch module that
        maps (n, n_features) to (n, n_outputs). ``n_outputs`` is the last of ``hidden_layer_sizes``: the
        outputs are the features of the last layer, which is put behind them. They have dropout with one
        learnt rate.
    length_scale : float, default=0.01
        Prior length scale of the function, in standard deviations of the features: weights are shrunk, and
        rates are lower, the larger it is.
    n_draws : int, default=200
        Number of networks or functions that are drawn from the posterior. At least 2.
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
    dropout_ : ndarray of shape (n_hidden_layers,) or (1,)
        Learnt probabilities that a unit of each hidden layer is left out; one with `module`.
    factor_ : float
        Factor by which calibration multiplies standard deviations; above 1 the raw distribution was
        over-confident, 1 without calibration.
    df_ : float
        Degrees of freedom of the Student t distribution, from 3 to 100; infinite for other distributions.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    See Also
    --------
    MCDropoutRegressor : A given rate, and one noise for all rows.
    DeepEnsembleRegressor : Networks that were trained apart.

    Notes
    -----
    With N training rows, weights :math:`W_k` and K units in the layer before them, of which a share p is
    left out, the loss is the negative log-likelihood of a row plus

    .. math:: \frac{1}{N} \sum_k \left( \frac{l^2 \lVert W_k \rVert^2}{2 (1 - p_k)}
       - K_k H(p_k) \right),

    where l is the length scale and :math:`H(p) = -p \log p - (1 - p) \log(1 - p)`: half of what the authors
    [1]_ minimise, whose likelihood is doubled. So the epistemic part, and the rates, fall with more rows.
    Draws have the temperature 0.1, rates begin at 0.1, their logits learn ten times as fast as weights (else
    they are still falling when training stops, and intervals are too wide), and features are never left out:
    on few of them that makes the noise look large. With `module` the penalty is that of the last layer;
    dropout layers of the module's own leave units out in training only.

    A draw is one network for all rows and for all calls. Mean and epistemic variance are those of the
    draws' means, the variance of the noise is the mean of theirs (algorithm 2 of [2]_).

    Over-confident where: ``calibration=None`` on fewer than some thousand rows or with ``keep_best=False``,
    when it follows its training rows (with the latter, 24 to 83 % have been measured on 300 to 1000 rows
    where 95 % is nominal); its confidence intervals, `epistemic`, everywhere: in the simulation of [2]_,
    section 5.3, they covered 72 % after 80 epochs and 22 % after 190 where 90 % is nominal, as the rates
    went on falling; far from the training rows. The rows that select the epoch, which are scored by the
    network with all units, also calibrate, so that coverage has no guarantee; ``keep_best=False`` gives one
    for exchangeable rows.

    ``sample_weight`` counts repetitions: losses are weighted by it, and N is its sum.

    Cost: one network, an epoch four times as slow as a plain one; `fit_transform` trains those of all folds
    in one pass, for little more. Predictions cost `n_draws` passes through the layers after the first.

    References
    ----------
    .. [1] Y. Gal, J. Hron, A. Kendall, "Concrete dropout", NeurIPS 2017, arXiv:1705.07832.
    .. [2] L. Sluijterman, E. Cator, T. Heskes, "How to evaluate uncertainty estimates in machine learning
       for regression?", Neural Networks 173, 2024, doi:10.1016/j.neunet.2024.106203.

    Examples
    --------
    >>> import numpy as np
    >>> from skuq.neural import ConcreteDropoutRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = ConcreteDropoutRegressor(max_epochs=30, random_state=0).fit(X, y)
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
        length_scale: float = 1e-2,
        n_draws: int = 200,
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
        self.length_scale = length_scale
        self.n_draws = n_draws
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
        length_scale = check_number(self.length_scale, "length_scale", positive=True)
        hidden = self._hidden_sizes(at_least=1)
        return ConcreteArchitecture(hidden, length_scale, check_module(self.module))

    def _training_spec(self) -> TrainingSpec:
        check_integer(self.n_draws, "n_draws", minimum=2)
        score = resolve_selection_score(self.keep_best)
        return TrainingSpec(NLLLoss(), self.learning_rate, score, counts_rows=True)

    def _posterior(self, fit: TrainedFit, data: TrainingData) -> DropoutPosterior:
        module, seed = fit.net.module_, fit.plan.seed
        self.dropout_ = module.rates()
        return DropoutPosterior(self.scaler_, module, self.device, self.n_draws, seed)
