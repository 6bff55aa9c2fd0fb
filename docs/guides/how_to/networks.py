"""
Train networks
==============

This page trains networks that predict distributions, from the default ensemble to
custom modules, joint training and search. The estimators of :mod:`skuq.neural`
need the extra ``torch``: ``pip install "skuq[torch]"``. They standardise X and y
internally, keep the weights of the best epoch, and are calibrated on held-out
rows; for the methods and their limitations see :doc:`/explanation/networks`.

Data for this page: y depends on the first of four features, and its noise is three
times as large where the second is positive.
"""

import numpy as np

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(700, 4))
noise = np.where(X[:, 1] > 0, 0.3, 0.1)
y = np.sin(3 * X[:, 0]) + noise * rng.standard_normal(700)
X, X_new, y, y_new = X[:500], X[500:], y[:500], y[500:]
X.shape, X_new.shape

# %%
# Choose an estimator
# -------------------
#
# .. list-table::
#     :header-rows: 1
#     :widths: 34 36 30
#
#     * - class
#       - use it for
#       - limitations
#     * - :class:`~skuq.neural.DeepEnsembleRegressor`
#       - the default: heteroscedastic noise, epistemic apart from aleatoric uncertainty, no held-out rows
#       - 20 networks to train and to evaluate
#     * - :class:`~skuq.neural.PNNRegressor`
#       - a single network
#       - no epistemic part; a fifth of the rows is held out
#     * - :class:`~skuq.neural.BootstrapNetRegressor`
#       - confidence intervals for the regression function, homoscedastic noise
#       - 50 networks; on 100 rows these intervals are too narrow
#     * - :class:`~skuq.neural.MCDropoutRegressor`
#       - a single network with an epistemic part, homoscedastic noise
#       - the epistemic part depends on the rate more than on the rows
#     * - :class:`~skuq.neural.ConcreteDropoutRegressor`
#       - the same with heteroscedastic noise
#       - the epistemic part is too small, and decreases with the number of epochs
#     * - :class:`~skuq.neural.VariationalRegressor`
#       - a few hundred rows, homoscedastic noise, conservative intervals
#       - wider than others on many rows; below about 200 the prior may dominate, and the mean is a constant
#     * - :class:`~skuq.neural.LastLayerLaplaceRegressor`
#       - an epistemic part in closed form, homoscedastic noise
#       - the uncertainty of the last layer only
#     * - :class:`~skuq.neural.SWARegressor`
#       - an ensemble at the cost of one training, homoscedastic noise
#       - the spread of its members is too small
#     * - :class:`~skuq.neural.ProbabilisticNet`
#       - existing skorch code
#       - no standardisation, selection of the epoch or calibration
#
# For classes there are :class:`~skuq.neural.DeepEnsembleClassifier`,
# :class:`~skuq.neural.MCDropoutClassifier` and
# :class:`~skuq.neural.VariationalClassifier`: :doc:`/explanation/networks`.
#
# Compare regressors on your data by :func:`~skuq.metrics.crps_loss`. For few
# features and a smooth function also try
# :class:`~skuq.regressors.SparseGaussianProcessRegressor`, and for mixed tabular
# data tree ensembles in :class:`~skuq.regressors.UncertaintyRegressor`: networks
# are not always the better model.
#
# Train
# -----
#
# An ensemble of ten networks, and its distributions for new rows:

from skuq.neural import DeepEnsembleRegressor

model = DeepEnsembleRegressor(10, max_epochs=60, random_state=0).fit(X, y)
dist = model.predict_dist(X_new)
dist.interval(0.9)[:3].round(2)

# %%
# The share of new observations inside:

from skuq.metrics import prediction_interval_coverage

coverage = prediction_interval_coverage(y_new, dist)
round(coverage, 2)

# %%
# The uncertainty has two parts. ``dist.epistemic()`` is the distribution of the
# mean, from the disagreement of the networks; its intervals are confidence
# intervals. ``dist.aleatoric()`` is the noise.

import pandas as pd

parts = {
    "second feature": X_new[:, 1],
    "total": dist.std(),
    "epistemic": dist.epistemic().std(),
    "aleatoric": dist.aleatoric().std(),
}
pd.DataFrame(parts).head().round(2)

# %%
# Along the first feature, with the second at -0.5 and at 0.5: the prediction
# interval is wider on the right, where the noise is larger. The confidence
# interval contains the mean rather than the observations, and shrinks with more
# rows.

import matplotlib.pyplot as plt

line = np.zeros((100, 4))
line[:, 0] = np.linspace(-1, 1, 100)
fig, axes = plt.subplots(
    1, 2, figsize=(8.5, 3.6), sharey=True, layout="constrained"
)
for ax, second in zip(axes, [-0.5, 0.5], strict=True):
    line[:, 1] = second
    along = model.predict_dist(line)
    prediction, confidence = along.interval(0.9), along.epistemic().interval(0.9)
    ax.fill_between(line[:, 0], *prediction.T, alpha=0.25, label="prediction")
    ax.fill_between(line[:, 0], *confidence.T, alpha=0.7, label="confidence")
    rows = X_new[:, 1] * second > 0
    ax.scatter(X_new[rows, 0], y_new[rows], s=8, color="0.3", label="observed")
    ax.set(xlabel="first feature", title=f"second feature {second}")
legend = axes[0].legend(title="90 % interval", frameon=False)

# %%
# ``predict_members`` returns the mean of each network:

model.predict_members(X_new)[:2].round(1)

# %%
# The fitted attributes: the epoch whose weights were kept, the factor of the
# standard deviations, and the degrees of freedom of the Student t distribution.
# ``history_`` is that of skorch.

print("best epoch", model.best_epoch_)
print(f"factor {model.factor_:.2f}, degrees of freedom {model.df_:.1f}")
print(f"last training loss {model.history_[-1, 'train_loss']:.2f}")

# %%
# ``factor_`` far above 1 means that the uncalibrated networks were overconfident,
# which is usual on few rows. ``best_epoch_`` equal to the last epoch means that
# more epochs may help; it increases with a smaller ``learning_rate``. Missing
# values and categories have to be handled by earlier steps: networks require
# numeric input, including integers and booleans.
#
# If only intervals of one coverage are used, calibrate at that one:
# ``calibration_coverage=0.8``. At other levels the interval follows from the
# Student t distribution.
#
# Custom modules
# --------------
#
# ``module`` is a class or function that builds a network when it is called with the
# number of columns and of outputs. The outputs are mean and raw variance of the
# standardised target; estimators with homoscedastic noise require the mean only.
# Concrete dropout, Laplace and variational inference of the last layer append that
# layer to the module: it returns as many features as the last of
# ``hidden_layer_sizes``. MC dropout keeps dropout layers of the module active at
# prediction time.


import torch
from torch import nn


class Skip(nn.Module):
    """A hidden layer and a linear skip connection."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.linear = nn.Linear(n_features, n_outputs)
        self.hidden = nn.Sequential(
            nn.Linear(n_features, 32),
            nn.LayerNorm(32),
            nn.SiLU(),
            nn.Linear(32, n_outputs),
        )

    def forward(self, x):
        return self.linear(x) + self.hidden(x)


custom = DeepEnsembleRegressor(3, module=Skip, max_epochs=20, random_state=0)
custom.fit(X, y)
custom.predict_dist(X_new).interval(0.9)[:3].round(2)

# %%
# A new module is built for each member, so that weights differ. Members are trained
# in one pass if ``torch.func`` can vectorise them, and one after another otherwise,
# if ``if`` or ``while`` depends on values.
#
# Optimiser and callbacks are those of skorch. The net contains all members;
# ``train_loss`` is their mean loss.

from skorch.callbacks import Callback


class RecordLoss(Callback):
    def on_epoch_end(self, net, **kwargs):
        if len(net.history) % 10 == 0:
            losses.append(net.history[-1, "train_loss"])


losses = []
decay = {"optimizer": torch.optim.AdamW, "optimizer__weight_decay": 0.01}
with_callback = DeepEnsembleRegressor(
    3, callbacks=[RecordLoss()], net_params=decay, max_epochs=20, random_state=0
)
with_callback.fit(X, y)
np.round(losses, 2)

# %%
# A callback can also copy ``net.module_.state_dict()`` of an epoch. Loaded into
# ``net_.module_`` of the fitted model, the weights give the forecast of that epoch,
# which any metric evaluates on any rows: ``examples/neural/plot_training_curve.py``
# plots calibration and sharpness by epoch.
#
# skorch nets
# -----------
#
# With two outputs, mean and raw variance, :class:`~skuq.neural.ProbabilisticNet`
# makes any module a probabilistic regressor. It supports all losses of skuq
# (``criterion__loss="crps"``), float64 and one-dimensional y; all else is as in
# skorch:

from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq import RecalibratedRegressor, UncertaintyRegressor
from skuq.neural import ProbabilisticNet

torch.manual_seed(0)
net = ProbabilisticNet(
    Skip,
    module__n_features=4,
    module__n_outputs=2,
    max_epochs=20,
    lr=0.01,
    verbose=0,
)
chain = make_pipeline(StandardScaler(), net)
chain = TransformedTargetRegressor(chain, transformer=StandardScaler())
calibrated = RecalibratedRegressor(chain, cv=3, random_state=0).fit(X, y)
calibrated.predict_dist(X_new).interval(0.9)[:3].round(2)

# %%
# A net that predicts a mean can be used wherever skuq accepts a regressor. Its
# target is passed unchanged: for a module that returns a column it is a column, of
# the dtype that skorch requires.

from skorch import NeuralNetRegressor

plain = NeuralNetRegressor(
    Skip,
    module__n_features=4,
    module__n_outputs=1,
    max_epochs=20,
    lr=0.01,
    optimizer=torch.optim.Adam,
    train_split=None,
    verbose=0,
)
wrapped = UncertaintyRegressor(plain, cv=2, random_state=0)
wrapped.fit(X.astype(np.float32), y[:, np.newaxis].astype(np.float32))
wrapped.predict_interval(X_new[:3].astype(np.float32)).round(2)

# %%
# A one-dimensional y for such a module raises an error: torch would broadcast each
# output against all targets, and the net would learn their mean. skorch's nets have
# no ``random_state``; call ``torch.manual_seed`` before ``fit``.
#
# Train many estimators at once
# -----------------------------
#
# Folds of one estimator are automatically trained together, in ``fit_transform``,
# :func:`~skuq.model_selection.cross_val_predict_dist`,
# :class:`~skuq.regressors.RecalibratedRegressor` and CV+:

from skuq.model_selection import cross_val_predict_dist
from skuq.neural import PNNRegressor, fit_many

network = PNNRegressor(max_epochs=20, random_state=0)
out_of_fold = cross_val_predict_dist(network, X, y, cv=5)
round(prediction_interval_coverage(y, out_of_fold), 2)

# %%
# For a study, :func:`~skuq.neural.fit_many` accepts any pairs of estimators and
# rows. Estimators that differ in loss, seed or learning rate are trained together;
# different layers, epochs or batch sizes require separate training.

from skuq.metrics import crps_loss

seeds = [
    PNNRegressor(loss=loss, max_epochs=20, random_state=seed)
    for loss in ("nll", "crps", "beta_nll")
    for seed in range(3)
]
fitted = fit_many(seeds, X, y)
scores = [crps_loss(y_new, each.predict_dist(X_new)) for each in fitted]
pd.DataFrame(
    np.reshape(scores, (3, 3)),
    index=["nll", "crps", "beta_nll"],
    columns=["seed 0", "seed 1", "seed 2"],
).round(3)

# %%
# Hyperparameter search
# ---------------------
#
# Networks are searched like any estimator, by a proper score. Candidates are
# trained one after another, the members of each in one pass:

from sklearn.model_selection import GridSearchCV, KFold

from skuq import get_scorer

search = GridSearchCV(
    PNNRegressor(max_epochs=20, random_state=0),
    {"hidden_layer_sizes": [(16,), (32, 32)]},
    scoring=get_scorer("neg_crps"),
    cv=2,
    error_score="raise",
)
search.fit(X, y)
print(search.best_params_, f"CRPS {-search.best_score_:.3f}")

# %%
# Candidates that can be trained together are faster with ``fit_many``, all folds of
# all candidates in one call:

rates = [0.001, 0.003, 0.01]
folds = list(KFold(3, shuffle=True, random_state=0).split(X))
candidates = [
    PNNRegressor(learning_rate=rate, max_epochs=20, random_state=0)
    for rate in rates
    for _ in folds
]
fitted = fit_many(candidates, X, y, [train for train, _ in len(rates) * folds])
crps = [
    crps_loss(y[test], each.predict_dist(X[test]))
    for each, (_, test) in zip(fitted, len(rates) * folds, strict=True)
]
mean_crps = np.reshape(crps, (3, 3)).mean(axis=1)
best = rates[np.argmin(mean_crps)]
print("CRPS", mean_crps.round(3), "best learning rate", best)

# %%
# GPU
# ---
#
# ``device="auto"`` trains on a GPU if one is available and at least 32 networks are
# trained together; a single small network is faster on the CPU. ``device="cuda"``
# raises an error where there is none. Fitted attributes are stored on the CPU, so
# that a model can be pickled on one machine and loaded on another without a GPU.
#
# Reproducibility
# ---------------
#
# With an integer ``random_state`` results are bitwise reproducible on the same
# machine and versions. Member k depends neither on the number of members nor on
# ``n_jobs`` nor on other estimators trained with it, up to rounding. The state of
# torch's global generator is unchanged, also by custom layers that draw from it.
# CPU and GPU, and different processors, round differently, and training amplifies
# that: the forecasts are of equal quality, not identical. ``dtype="float64"``
# reduces the effect.
#
# Training uses one thread, regardless of ``torch.get_num_threads()``, and restores
# the setting: for small networks several threads are slower, on a busy machine by a
# factor of four.
#
# Speed
# -----
#
# * Fewer epochs. All epochs are trained, and the weights of the best one are kept.
#   "auto" means 8000 steps, on few rows at most 200 epochs; for dropout,
#   variational inference, Laplace and SWA 6000 steps and at most 1000 epochs. For
#   an ensemble ``best_epoch_`` is often below half of them.
# * Larger batches: ``batch_size=128, learning_rate=0.016``, twice the defaults of
#   the deep ensemble, take 0.76 of their time with 5 members, at 0.97 of the CRPS,
#   and 0.85 with 20, at 1.01 (airfoil_self_noise, gal_kin8nm and concrete_strength,
#   721 to 1500 training rows, one split each, CPU seconds).
# * Fewer members: 10 instead of 20 take 0.60 of the time, with 1.09 times the CRPS
#   (1.03 to 1.19; the same sets, three splits each). With 5, one row in ten is out
#   of bag for none of them; use ``keep_best="crps"``, since the likelihood of so few
#   members selects too early an epoch.
# * Joint instead of separate training: ``fit_many``; ten networks of 2000 rows take
#   about twice the time of one.
# * ``n_jobs``: more than about 40 members are trained in chunks, which are
#   distributed over processes.
# * A custom module costs 1.6 times as much as plain built-in layers with 20 members
#   or more, three times with one; one that cannot be vectorised, as much as a loop.
# * ``dtype="float32"``, the default: float64 is 1.3 to 2.7 times slower.
# * Predictions by dropout and variational inference draw 200 networks; with
#   ``n_draws=50`` the epistemic part is accurate to 10 %, with 200 to 5 %.
