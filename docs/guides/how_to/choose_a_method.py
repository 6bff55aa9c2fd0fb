"""
Choose an uncertainty method
============================

Start with :class:`~skuq.regressors.UncertaintyRegressor`. It takes the method of the
first of these rules that applies to the estimator:

.. include:: /reference/generated/method-rules.inc

A posterior is exact under the assumptions of its model only; ``method="recalibrated"``
recalibrates it as well, and ``"native"`` and ``"quantile"`` recalibrate nothing. Change
the method if one of the other rows of this table applies:

.. list-table::
    :header-rows: 1
    :widths: 30 35 35

    * - class
      - use it when
      - computational cost
    * - :class:`~skuq.regressors.UncertaintyRegressor`
      - start here
      - that of the method: mostly one fit per fold (``cv``) and one more
    * - :class:`~skuq.regressors.ResidualRegressor`
      - any regressor, as above, with a choice of the model of the errors: their scale is a function of X, their shape
        is empirical, and changes with X if that is better out of fold
      - the fits for out-of-fold residuals (``cv``), and a second model for their scale
    * - :class:`~skuq.regressors.MultiQuantileRegressor`
      - the estimator has a quantile loss (gradient boosting, quantile regression), above all where the shape of the
        distribution changes with X, as where many targets are 0
      - one fit per level, or one for models with several quantiles
    * - :class:`~skuq.regressors.ForestDistributionRegressor`
      - the estimator is a random forest, or bagged trees, of 50 trees or more: the whole distribution, of any shape,
        calibrated on out-of-bag rows, and its epistemic part
      - one fit
    * - :class:`~skuq.regressors.BootstrapRegressor`
      - the epistemic uncertainty (how uncertain the function itself is, which more rows reduce) is required apart from
        the noise
      - one fit per member; none for a forest, whose trees are the members
    * - :class:`~skuq.regressors.ConformalRegressor`
      - guaranteed coverage is required, for any noise and exchangeable rows; combined with one of the others
        (``"normalized"``) for heteroscedastic noise
      - held-out rows (at least 9 for 90 %, better several hundred), or the fits of ``"cv+"``; see
        :doc:`/how-to/conformal`
    * - :class:`~skuq.regressors.LeastSquaresRegressor`
      - a linear model with Student t intervals is sufficient, or there are few rows
      - one least-squares fit
    * - :class:`~skuq.regressors.SparseGaussianProcessRegressor`
      - the function is smooth, there are few features, and epistemic uncertainty is required; needs the extra ``gp``
      - about a hundred passes over the n rows; each takes n m² operations for m inducing points, the pseudo-rows that
        summarise the data
    * - :class:`~skuq.neural.DeepEnsembleRegressor` and other networks
      - there are enough rows, and heteroscedastic noise is to be separated from epistemic uncertainty; needs the extra
        ``torch``
      - 20 networks trained in one pass, seconds for a thousand rows; see :doc:`/how-to/networks`
    * - :class:`~skuq.regressors.MixtureRegressor`
      - several of these are candidates, such as trees and networks: their pool is about as good as the best of them;
        see :doc:`/explanation/pools`
      - that of all members
    * - :class:`~skuq.model_selection.AutoUncertaintyRegressor`
      - neither model nor parameters are given: the best of all of these that a search finds; see :doc:`/automl`
      - a time budget, a minute by default
    * - the estimator itself
      - it has a posterior whose assumptions hold (``BayesianRidge``, ``ARDRegression``,
        ``GaussianProcessRegressor``): no wrapper is needed
      - none
    * - :class:`~skuq.regressors.RecalibratedRegressor`
      - the estimator has a predictive distribution fitted to the training rows (NGBoost, CatBoost, XGBoost, quantile
        forests, skpro) and is too narrow on new ones
      - the number of folds plus one fit
"""

import numpy as np

rng = np.random.default_rng(0)
X = rng.uniform(0, 3, size=(600, 2))
y = X[:, 0] + 0.3 * X[:, 1] * rng.standard_normal(600)
X, X_new, y, y_new = X[:300], X[300:], y[:300], y[300:]

# %%
# All of them around linear models, so that only the methods differ. The first uses
# :class:`~skuq.regressors.ResidualRegressor` here; ``LeastSquaresRegressor`` is a linear
# model itself.

from sklearn.linear_model import QuantileRegressor, Ridge

from skuq.regressors import (
    BootstrapRegressor,
    ConformalRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    UncertaintyRegressor,
)

uncertainty = UncertaintyRegressor(Ridge(), random_state=0)
models = [
    uncertainty,
    MultiQuantileRegressor(QuantileRegressor(alpha=0)),
    ConformalRegressor(uncertainty, "normalized", random_state=0),
    BootstrapRegressor(Ridge(), random_state=0),
    LeastSquaresRegressor(),
]

# %%
# Their intervals on new rows, with a nominal coverage of 80 %. The noise grows with
# the second feature, ``x2``. The columns of widths are means over the rows where
# ``x2`` is below 1 and above 2; the last row has those of the true distribution.

import pandas as pd

from skuq.distributions import Normal
from skuq.metrics import prediction_interval_coverage

intervals = {
    type(model).__name__: model.fit(X, y).predict_interval(X_new, 0.8)
    for model in models
}
intervals["truth"] = Normal(X_new[:, 0], 0.3 * X_new[:, 1]).interval(0.8)
widths = {name: each[:, 1] - each[:, 0] for name, each in intervals.items()}
table = pd.DataFrame(
    {
        name: {
            "coverage": prediction_interval_coverage(y_new, each),
            "width, x2 < 1": widths[name][X_new[:, 1] < 1].mean(),
            "width, x2 > 2": widths[name][X_new[:, 1] > 2].mean(),
        }
        for name, each in intervals.items()
    }
)
table.T.round(2)

# %%
# The standard error of a coverage on 300 rows is 0.02. ``ConformalRegressor``
# calibrates on 75 of the training rows: its coverage is 0.8 on average over calibration
# sets, and with sets of this size has a standard deviation of 0.05. In the first three
# rows the width follows the noise. ``LeastSquaresRegressor`` assumes homoscedastic noise, and
# ``BootstrapRegressor`` by default: their intervals cover 80 % on average, and are too
# wide where the noise is small and too narrow where it is large.
#
# Random forests
# --------------
#
# :class:`~skuq.regressors.ForestDistributionRegressor` uses the rows that each tree
# leaves out. With forests of 100 trees on eleven data sets, two splits with up to
# 1500 training rows each, its CRPS is 0.92 of that of
# :class:`~skuq.regressors.ResidualRegressor` around the same forest (geometric mean;
# 0.81 to 1.03), which costs 5.8 fits and a model of the scale for one fit here, and
# 0.91 of that of a quantile regression forest (0.71 to 1.06). Its 90 % intervals
# cover 82 to 93 % (89 % on average), all within the 99 % band of exact coverage;
# those of the quantile regression forest cover 72 to 96 %. Out-of-bag rows are drawn
# at random: for groups or a time series pass a splitter as ``cv`` of
# ``UncertaintyRegressor``, which then refits on its folds.
#
# Measured on 21 data sets
# ------------------------
#
# ``python benchmarks/real_data.py``: two splits of each set, up to 1500 training rows,
# all models with their packages' defaults. CRPS and interval score (90 % intervals) are
# geometric means over sets of ratios to ``UncertaintyRegressor`` around
# ``HistGradientBoostingRegressor``, the row *boosting*, with the standard error over
# sets as *error*; CRPS also over the eleven sets on which the settings of skuq were
# developed (*dev.*), and over the ten others, which confirm them (*conf.*). A set is
# *below* or *above* if its coverage is outside the 99 % band of exact coverage. Fits are
# weighted by their share of the rows, and seconds are those of a processor.
#
# .. list-table::
#     :header-rows: 1
#     :class: many-columns
#
#     * - method
#       - CRPS
#       - error
#       - dev.
#       - conf.
#       - interval score
#       - coverage
#       - below, above
#       - fits
#       - seconds
#     * - pool of default estimators, recalibrated
#       - 0.46
#       - 0.11
#       - 0.43
#       - 0.49
#       - 0.48
#       - 91 %
#       - 0, 1
#       -
#       - 15.1
#     * - pool of default estimators
#       - 0.46
#       - 0.11
#       - 0.43
#       - 0.50
#       - 0.49
#       - 93 %
#       - 0, 10
#       -
#       - 15.1
#     * - deep ensemble
#       - 0.52
#       - 0.13
#       - 0.48
#       - 0.55
#       - 0.52
#       - 91 %
#       - 0, 4
#       -
#       - 7.2
#     * - forest
#       - 0.78
#       - 0.05
#       - 0.80
#       - 0.76
#       - 0.82
#       - 90 %
#       - 0, 0
#       - 1.0
#       - 0.4
#     * - quantile-forest
#       - 0.86
#       - 0.06
#       - 0.89
#       - 0.83
#       - 0.93
#       - 91 %
#       - 6, 4
#       -
#       - 0.4
#     * - forest, method residual
#       - 0.87
#       - 0.06
#       - 0.88
#       - 0.86
#       - 0.89
#       - 90 %
#       - 0, 1
#       - 5.8
#       - 2.1
#     * - CatBoost, RMSEWithUncertainty
#       - 0.96
#       - 0.06
#       - 0.90
#       - 1.03
#       - 1.35
#       - 64 %
#       - 21, 0
#       -
#       - 2.0
#     * - boosting, effort high
#       - 0.98
#       - 0.01
#       - 0.98
#       - 0.98
#       - 0.97
#       - 90 %
#       - 0, 1
#       - 11.0
#       - 1.3
#     * - boosting
#       - 1.00
#       -
#       - 1.00
#       - 1.00
#       - 1.00
#       - 90 %
#       - 1, 0
#       - 5.8
#       - 0.7
#     * - quantile boosting
#       - 1.00
#       - 0.03
#       - 1.01
#       - 1.00
#       - 1.03
#       - 92 %
#       - 1, 5
#       - 10.0
#       - 1.9
#     * - boosting, effort low
#       - 1.01
#       - 0.00
#       - 1.00
#       - 1.01
#       - 1.00
#       - 89 %
#       - 2, 0
#       - 3.7
#       - 0.5
#     * - forest, method bootstrap
#       - 1.02
#       - 0.06
#       - 1.01
#       - 1.03
#       - 1.14
#       - 97 %
#       - 0, 21
#       - 1.0
#       - 0.4
#     * - quantile boosting, method quantile
#       - 1.02
#       - 0.03
#       - 1.04
#       - 1.01
#       - 1.21
#       - 81 %
#       - 13, 1
#       - 11.0
#       - 1.8
#     * - NGBoost
#       - 1.09
#       - 0.12
#       - 1.06
#       - 1.12
#       - 1.15
#       - 87 %
#       - 13, 3
#       -
#       - 3.8
#     * - skpro, residuals of boosting
#       - 1.10
#       - 0.03
#       - 1.08
#       - 1.11
#       - 1.32
#       - 83 %
#       - 15, 0
#       - 5.0
#       - 0.4
#     * - crepes, boosting
#       - 1.18
#       - 0.03
#       - 1.17
#       - 1.19
#       - 1.50
#       - 89 %
#       - 2, 1
#       - 0.8
#       - 0.1
#     * - MAPIE, CV+ of boosting
#       -
#       -
#       -
#       -
#       - 1.26
#       - 93 %
#       - 0, 9
#       - 5.0
#       - 0.6
#
# The pool is nearly as good as its best member on every set, at most 3 % worse. Its
# intervals, and those of quantile boosting on some sets, cover more than they claim;
# *recalibrated* is with ``recalibrator=IsotonicRecalibrator(smooth=True)``, which
# corrects that (:doc:`/explanation/pools`). The forest is the best for one fit, and has no set
# outside the band. Around boosting six fits give calibrated distributions, which eleven
# (``effort="high"``) improve by 2 %. Raw quantiles, NGBoost, skpro's residuals,
# CatBoost and quantile-forest are outside the band on ten sets or more, MAPIE's CV+
# intervals are too wide on nine; those of ``BootstrapRegressor`` around a forest are
# too wide on all. ``UncertaintyRegressor`` recalibrates quantile boosting: the
# interval score is 0.85 of the raw one and the CRPS 0.98, in the same time. The
# deep ensemble, the forest and the bootstrap separate epistemic from aleatoric
# uncertainty. The pool does not where boosting has a positive weight, as boosting
# does not; a pool of the other two does.
#
# Gradient boosting
# -----------------
#
# :func:`~skuq.prediction.predict_dist` supports a fitted CatBoost model with
# ``loss_function="RMSEWithUncertainty"`` or
# ``"MultiQuantile:alpha=0.05,0.5,0.95"``, and XGBoost with
# ``objective="reg:quantileerror"`` and several ``quantile_alpha``;
# ``UncertaintyRegressor`` recalibrates them. A model of one quantile, as in
# LightGBM and scikit-learn, is not a distribution; ``UncertaintyRegressor`` fits it
# at four levels, on all rows and without each of two folds: twelve fits. With
# ``effort="high"`` these are 66 fits, at eleven levels.
#
# Several targets
# ---------------
#
# Distributions are univariate. Fit one model per target:

from sklearn.multioutput import MultiOutputRegressor

from skuq import predict_dist

both = np.column_stack([y, y**2])
multi = MultiOutputRegressor(UncertaintyRegressor(Ridge(), random_state=0))
multi.fit(X, both)

second = predict_dist(multi.estimators_[1], X_new)
second.interval(0.8)[:3].round(2)

# %%
# Confidence and prediction intervals
# -----------------------------------
#
# ``dist.interval()`` is a prediction interval, for a new observation. If a model
# separates epistemic and aleatoric uncertainty, ``dist.epistemic().interval()`` is
# the confidence interval of the regression function, and ``dist.aleatoric()`` the
# noise.

line = np.column_stack([np.linspace(0, 3, 50), np.full(50, 1.5)])
dist = LeastSquaresRegressor().fit(X, y).predict_dist(line)
prediction_interval = dist.interval(0.9)
confidence_interval = dist.epistemic().interval(0.9)

# %%
# Most observations lie outside the confidence interval: it contains the mean, and
# shrinks with more rows. The prediction interval also contains the noise, and does not
# shrink to zero.

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.scatter(X_new[:, 0], y_new, s=6, color="0.4", label="Observed")
ax.fill_between(
    line[:, 0], *prediction_interval.T, alpha=0.25, label="Prediction interval"
)
ax.fill_between(
    line[:, 0], *confidence_interval.T, alpha=0.7, label="Confidence interval"
)
ax.set(xlabel="First feature", ylabel="y")
legend = ax.legend(frameon=False)

# %%
# Models that do not separate the two raise
# :class:`~skuq.exceptions.NoDecompositionError`.
