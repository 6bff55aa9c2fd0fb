"""
Train networks
==============

This page trains networks that predict distributions: the default ensemble, custom
modules, joint training and search. The estimators of :mod:`skuq.neural` require the
extra ``torch`` (:doc:`/install`). All regressors except
:class:`~skuq.neural.ProbabilisticNet` standardize X and y internally, and calibrate.
The calibration rows are held out or, in an ensemble, out of bag: a row is *out of bag*
for a network if it is not in the bootstrap sample that trains the network. The
parameter ``keep_best`` selects whether a model keeps the weights of the best epoch or
of the last epoch. :doc:`/explanation/networks` explains the methods and their
limitations.

In the data on this page, y depends on the first of four features. The noise is three
times as large for rows with a positive second feature.
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
#       - the default: heteroscedastic noise, separate epistemic and aleatoric
#         uncertainty, no held-out rows
#       - trains and evaluates 20 networks
#     * - :class:`~skuq.neural.PNNRegressor`
#       - a single network
#       - no epistemic part; a fifth of the rows is held out
#     * - :class:`~skuq.neural.BootstrapNetRegressor`
#       - confidence intervals for the regression function; homoscedastic noise
#       - 50 networks; on 100 rows these intervals are too narrow
#     * - :class:`~skuq.neural.MCDropoutRegressor`
#       - a single network with an epistemic part and homoscedastic noise
#       - the epistemic part depends more on the dropout rate than on the number of rows
#     * - :class:`~skuq.neural.ConcreteDropoutRegressor`
#       - a single network with an epistemic part and heteroscedastic noise
#       - the epistemic part is too small, and decreases with the number of epochs
#     * - :class:`~skuq.neural.VariationalRegressor`
#       - a few hundred rows, homoscedastic noise and conservative intervals
#       - wide intervals on many rows; with fewer than about 200 rows, the prior may
#         dominate and make the mean constant
#     * - :class:`~skuq.neural.LastLayerLaplaceRegressor`
#       - an epistemic part in closed form and homoscedastic noise
#       - only the uncertainty of the last layer
#     * - :class:`~skuq.neural.SWARegressor`
#       - an ensemble at the cost of one training; homoscedastic noise
#       - the spread of its members is too small
#     * - :class:`~skuq.neural.ProbabilisticNet`
#       - existing skorch code
#       - no standardization, no selection of the epoch, no calibration
#
# For classification, use :class:`~skuq.neural.DeepEnsembleClassifier`,
# :class:`~skuq.neural.MCDropoutClassifier` or
# :class:`~skuq.neural.VariationalClassifier`; see :doc:`/explanation/networks`.
#
# Compare regressors on your data with :func:`~skuq.metrics.crps_loss`. Networks are
# not always the best model. For few features and a smooth function, also try
# :class:`~skuq.regressors.SparseGaussianProcessRegressor`. For mixed tabular data,
# also try tree ensembles in :class:`~skuq.regressors.UncertaintyRegressor`.
#
# Train
# -----
#
# This code trains an ensemble of ten networks and predicts distributions for new rows.
# ``set_callbacks(ProgressBar())`` shows the progress of the fit
# (:ref:`progress-of-a-fit`):

from skuq.neural import DeepEnsembleRegressor

model = DeepEnsembleRegressor(10, max_epochs=60, random_state=0).fit(X, y)
dist = model.predict_dist(X_new)
dist.interval(0.9)[:3].round(2)

# %%
# This is the share of the new observations that the intervals contain:

from skuq.metrics import prediction_interval_coverage

coverage = prediction_interval_coverage(y_new, dist)
round(coverage, 2)

# %%
# The uncertainty has two parts. ``dist.epistemic()`` is the distribution of the mean.
# It is estimated from the disagreement of the networks, and its intervals are
# confidence intervals. ``dist.aleatoric()`` is the distribution of the noise.

import pandas as pd

parts = {
    "second feature": X_new[:, 1],
    "total": dist.std(),
    "epistemic": dist.epistemic().std(),
    "aleatoric": dist.aleatoric().std(),
}
pd.DataFrame(parts).head().round(2)

# %%
# The plots vary the first feature. The second feature is -0.5 in the left plot and
# 0.5 in the right plot. The prediction interval is wider in the right plot, where
# the noise is larger. The confidence interval is an interval for the mean, and
# shrinks with more rows.

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
# Attributes of the fitted model contain the epoch whose weights it keeps, the factor
# that multiplies the predicted standard deviations, and the degrees of freedom of the
# Student t distribution. ``history_`` is the history of skorch.

print("best epoch", model.best_epoch_)
print(f"factor {model.factor_:.2f}, degrees of freedom {model.df_:.1f}")
print(f"last training loss {model.history_[-1, 'train_loss']:.2f}")

# %%
# If ``factor_`` is far above 1, the uncalibrated networks were overconfident. This is
# common with few rows. If ``best_epoch_`` is the last epoch, try more epochs. With a
# smaller ``learning_rate``, the best epoch comes later.
#
# Networks accept data frames with strings, categories, dates and missing values. You do
# not have to encode the columns: the networks learn a vector for each category.
# Categories that first appear in prediction are treated as missing values.

table = pd.DataFrame(X, columns=list("abcd")).assign(
    group=rng.choice(["red", "green", "blue", "gray"], 500)
)
table.loc[::10, "a"] = np.nan
mixed = DeepEnsembleRegressor(3, max_epochs=20, random_state=0).fit(table, y)
mixed.predict_interval(table[:3].assign(group="violet"), 0.9).round(2)

# %%
# If you use intervals with only one coverage, calibrate at this coverage, for example
# with ``coverage=0.8``. Intervals with other coverages then depend on the fitted
# Student t distribution.
#
# Custom modules
# --------------
#
# ``module`` is a class or function that builds a network. It is called with the number
# of columns and the number of outputs. The outputs are the mean of the standardized
# target and the *raw variance*, a number that softplus converts to the variance.
# Estimators with homoscedastic noise require only the mean. Three methods append their
# own last layer to the module: concrete dropout, Laplace, and variational inference of
# the last layer. For these methods, the module must return ``hidden_layer_sizes[-1]``
# features. MC dropout keeps dropout layers of the module active at prediction time.


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
# Each member gets a new module, so the initial weights differ. The members are trained
# in one pass if ``torch.func`` can vectorize the module. ``torch.func`` cannot
# vectorize a module in which an ``if`` or a ``while`` depends on values of tensors. In
# this case, the members are trained one after another.
#
# Optimizers and callbacks work as they do in skorch. The net contains all members, and
# ``train_loss`` is their mean loss.

from skorch.callbacks import Callback


class RecordLoss(Callback):
    def on_epoch_end(self, net, **kwargs):
        if len(net.history) % 10 == 0:
            losses.append(net.history[-1, "train_loss"])


losses = []
decay = {"optimizer": torch.optim.AdamW, "optimizer__weight_decay": 0.01}
with_callback = DeepEnsembleRegressor(
    3,
    net_params={"callbacks": [RecordLoss()], **decay},
    max_epochs=20,
    random_state=0,
)
with_callback.fit(X, y)
np.round(losses, 2)

# %%
# A callback can also copy the weights of an epoch with ``net.module_.state_dict()``. To
# predict with these weights, load them into ``net_.module_`` of the fitted model.
# ``examples/neural/plot_training_curve.py`` uses this method to plot calibration and
# sharpness by epoch.
#
# skorch nets
# -----------
#
# :class:`~skuq.neural.ProbabilisticNet` is a skorch net for any module with two
# outputs, mean and raw variance. It also supports all losses of skuq
# (``criterion__loss="crps"``), float64 and one-dimensional y:

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
# A skorch net that predicts the mean can be used like any other regressor. skuq passes
# the target to the net unchanged. If the module returns a column, pass the target as a
# column, with the dtype that skorch requires.

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
# With such a module, a one-dimensional y raises an error. Otherwise, torch would
# compare each output with all targets, and the net would learn the mean of all targets.
# skorch nets have no ``random_state``, so call ``torch.manual_seed`` before ``fit``.
#
# Train many estimators at once
# -----------------------------
#
# The models of all folds are trained together automatically in ``fit_transform``,
# :func:`~skuq.model_selection.cross_val_predict_dist`,
# :class:`~skuq.regressors.RecalibratedRegressor` and
# :class:`~skuq.conformal.CrossConformalRegressor`:

from skuq.model_selection import cross_val_predict_dist
from skuq.neural import PNNRegressor, fit_many

network = PNNRegressor(max_epochs=20, random_state=0)
out_of_fold = cross_val_predict_dist(network, X, y, cv=5)
round(prediction_interval_coverage(y, out_of_fold), 2)

# %%
# :func:`~skuq.neural.fit_many` fits several estimators, each to its own rows.
# Estimators that differ in loss, seed or learning rate are trained together.
# Estimators with different layers, epochs or batch sizes are trained separately.

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
# Several targets
# ---------------
#
# With several columns in y, a deep ensemble predicts the joint distribution of the
# targets. The means, the variances and the correlations depend on x.
# :doc:`/how-to/several_targets` shows what to do with a joint distribution. Here, the
# errors of the second target have the sign of the second feature:

shared, own = rng.standard_normal((2, len(X)))
second = np.sign(X[:, 1]) * shared + 0.5 * own
targets = pd.DataFrame({"first": y + 0.5 * shared, "second": second})
several = DeepEnsembleRegressor(5, max_epochs=40, random_state=0).fit(X, targets)
joint = several.predict_dist([[0.0, -0.5, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0]])
joint.corr()[:, 0, 1].round(1), joint.linear([1, 1]).std().round(2)

# %%
# Hyperparameter search
# ---------------------
#
# Search over networks as you would over any other estimator, with a proper scoring rule
# such as the CRPS. Candidates are trained one after another. The members of each
# candidate are trained in one pass:

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
# For candidates that can be trained together, ``fit_many`` is faster. It fits all
# folds of all candidates in one call:

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
# ``device="auto"`` uses a GPU if one is available and at least 32 networks are trained
# together. ``device="cuda"`` raises an error if no GPU is available. Fitted attributes
# are stored on the CPU, so you can pickle a model and load it on a machine without a
# GPU. Training uses float32 by default, and never bfloat16.
#
# We had no machine with a GPU. Nothing was measured on a GPU, and the tests for GPUs
# were not run. ``pytest -m gpu`` runs these tests, and ``python benchmarks/gpu.py``
# compares the times of the CPU and the GPU.
#
# Reproducibility
# ---------------
#
# With an integer ``random_state``, results are bitwise reproducible on the same
# machine with the same versions. Up to rounding, a member does not depend on the
# number of members, on ``n_jobs``, or on other estimators that are trained at the
# same time. Training
# restores the state of torch's global random generator, even if custom layers draw
# from this generator.
#
# Rounding differs between CPU and GPU, and between processors. Training amplifies
# these differences. Forecasts from different machines are therefore not identical, but
# equally good. ``dtype="float64"`` reduces the differences.
#
# Training uses one thread, regardless of ``torch.get_num_threads()``. Afterwards, it
# restores the number of threads. Small networks train more slowly with several threads;
# on a busy machine, training with several threads takes four times as long.
#
# Speed
# -----
#
# * For a deep ensemble and one probabilistic network, the default ``max_epochs="auto"``
#   means 8000 steps, but at most 200 epochs. The training can end earlier, as soon as the
#   number of epochs is twice the best epoch. If the forecasts are still improving after
#   200 epochs, a second training of at most 1000 epochs replaces the first. For dropout,
#   variational inference, Laplace and SWA, "auto" means 6000 steps, but at most 1000
#   epochs.
# * Use larger batches: ``batch_size=128, learning_rate=0.016``. With 600 training rows
#   or more, both values are twice the defaults of the deep ensemble. A fit then takes
#   less time. Compare the CRPS on your data.
# * Use fewer members. A fit then takes less time, but the CRPS is higher. With only 5
#   members, one row in ten is in the bootstrap samples of all members. Such a row has
#   no out-of-bag prediction and is not used for calibration. With such a small ensemble,
#   also use ``keep_best="crps"``, because the likelihood selects an epoch that is too
#   early.
# * Train jointly with ``fit_many``. For small networks, this is much faster than training
#   them one after another (:doc:`/development/speed`).
# * Set ``n_jobs``: more than about 40 members are divided into chunks, which are
#   trained in several processes.
# * Use built-in layers: training with a custom module is slower
#   (:doc:`/explanation/networks`).
# * Keep the default ``dtype="float32"``: float64 is slower.
# * Use a smaller ``n_draws``: by default, dropout and variational inference draw 200
#   networks for a prediction. The epistemic part is accurate to 5 % with 200 networks,
#   and to 10 % with ``n_draws=50``.
