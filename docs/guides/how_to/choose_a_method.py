"""
Choose an uncertainty method
============================

Start with :class:`~skuq.regressors.UncertaintyRegressor`. It uses the method of the first
rule that applies to the estimator. The column Fits states how many fits on all rows take
as long:

.. list-table::
    :header-rows: 1
    :widths: 40 15 10 35

    * - Estimator
      - Method
      - Fits
      - Evidence
    * - ``GaussianProcessRegressor``, and models that are calibrated on held-out rows: calibrated regressors
        of skuq, recalibrators, TabPFN with ``calibrate_temperature``
      - native
      - 1
      - the distribution is exact under the assumptions of the model, or is already calibrated
    * - with another distribution: NGBoost, CatBoost, quantile forests, TabPFN, TabICL, mixtures by bagging
        and voting. Also regressors of skuq without calibration: ``MultiQuantileRegressor``,
        ``SparseGaussianProcessRegressor``, networks with ``calibration=None``, ``BootstrapRegressor`` with
        ``noise=None``, and ``MixtureRegressor`` with ``recalibrator=None``
      - recalibrated
      - 5
      - without recalibration, 90 % intervals of CatBoost cover 64 % (mean of 21 data sets), and the coverage
        of quantile-forest differs significantly from 90 % on 8 of the 21 data sets
    * - with a quantile loss, or a Pipeline that ends in such an estimator
      - recalibrated
      - 10: 2.5 at each of 4 levels
      - recalibration increases the coverage of 90 % intervals of scikit-learn's boosting from 81.2 % to
        91.4 % (21 data sets), and multiplies the CRPS by 0.98 and the interval score by 0.86
    * - forest or BaggingRegressor with at least 50 trees on bootstrap rows, unless ``cv`` is a splitter,
        which may keep groups together or respect time order
      - forest
      - 1
      - one fit instead of :measured:`real_data; skuq, residuals of a forest; fits`, and about the same CRPS
        as ``residual`` (21 data sets)
    * - all others. Also ``BayesianRidge`` and ``ARDRegression``, whose posteriors ignore the bias of the
        linear model. Also a forest in a Pipeline, because the other steps may use the target
        (:class:`~skuq.regressors.ForestDistributionRegressor` can replace the forest), or in a search
        (``GridSearchCV(UncertaintyRegressor(forest), {"estimator__max_features": ...})`` is better).
        Also a quantile loss inside a search, BaggingRegressor or TransformedTargetRegressor
      - residual
      - :measured:`real_data; skuq, residuals of a forest; fits`
      - the method works with every regressor. The CRPS of the posteriors of ``BayesianRidge``
        and ``ARDRegression`` is :measured:`any_regressor-doors; native, BayesianRidge; CRPS` and
        :measured:`any_regressor-doors; native, ARDRegression; CRPS` times the CRPS of this method (geometric
        means over 6 data sets, see :ref:`any-regressor`)

``"recalibrated"`` corrects the distribution of a model with out-of-fold predictions. For
most distributions, one factor multiplies the width, so that 90 % intervals contain 90 % of
the out-of-fold targets. If no such factor exists,
:class:`~skuq.recalibration.IsotonicRecalibrator` corrects the probability levels. For models
that learn in context, :class:`~skuq.recalibration.ShrunkIsotonicRecalibrator` corrects the
levels only if the correction does not increase the CRPS. For quantiles,
:class:`~skuq.recalibration.QuantileShiftRecalibrator` fits a shift for each level and fits
the tails.

A quantile loss that needs one fit per level is fitted at the levels 0.05, 0.35, 0.65 and
0.95: once to all rows, and twice without a quarter of the rows (half if there are fewer
than 100 rows). On the rows that are left out, linear quantile regression derives quantiles
at eleven levels, which are then shifted. With 100 rows or more, ``fit_transform`` needs 20
fits instead of 12, because each row must be in one test fold. Models that predict all
levels with one fit (CatBoost, XGBoost, quantile-forest) have eleven levels and five folds
(3 or 10 with ``effort``). With about 100 rows, recalibration of a quantile loss can increase
the CRPS: use ``effort="high"``, which fits eleven levels in five folds, or ``"residual"``.
``predict`` ignores the level of the loss, and ``predict_quantiles(X, 0.9)`` returns the
90 % quantile.

A posterior is exact only if the assumptions of its model hold, for example linearity or a
constant noise variance. On 6 data sets with 600 rows or fewer, 90 % intervals of the
posteriors of ``BayesianRidge``, ``ARDRegression`` and ``GaussianProcessRegressor`` cover
about 90 % of the test rows, but 50 % intervals are too wide (:ref:`any-regressor`). The
posterior of the Gaussian process also depends on the distance to the training rows, so
``"auto"`` keeps it, although its CRPS is
:measured:`any_regressor-doors; native, Gaussian process; CRPS` times the CRPS of
``"residual"``.
``method="recalibrated"`` recalibrates a posterior; ``"native"`` and ``"quantile"`` do
not recalibrate. If the second column of the following table describes your case, use
the class in the first column:

.. list-table::
    :header-rows: 1
    :widths: 30 35 35

    * - class
      - use it when
      - computational cost
    * - :class:`~skuq.regressors.UncertaintyRegressor`
      - start here
      - cost of the selected method: usually as much as four fits on all rows
    * - :class:`~skuq.regressors.ResidualRegressor`
      - you want the distribution of the errors of any regressor. A forest learns
        it from the out-of-fold errors, so mean, scale and shape may depend on X
      - one fit per fold (five by default), which takes as long as four fits on all rows
    * - :class:`~skuq.regressors.MultiQuantileRegressor`
      - the estimator has a quantile loss (gradient boosting, quantile regression), and the shape of the distribution
        changes with X, for example if many targets are 0
      - one fit per level, or one for models with several quantiles
    * - :class:`~skuq.regressors.ForestDistributionRegressor`
      - the estimator is a random forest, or bagged trees, with 50 trees or more. The
        distribution has any shape, is calibrated on out-of-bag rows, and separates the
        noise from epistemic uncertainty (the uncertainty of the function, which more
        rows reduce). A row is out of bag for a tree if the tree was not trained on it
      - one fit
    * - :class:`~skuq.regressors.BootstrapRegressor`
      - you need the epistemic uncertainty separately from the noise
      - one fit per bootstrap sample; a single fit for a forest, whose trees are already fitted to bootstrap samples
    * - :class:`~skuq.conformal.ConformalRegressor`
      - a guarantee of the coverage is required, for exchangeable rows with any
        noise. For heteroscedastic noise, wrap another class of this table and use
        the method ``"normalized"``
      - held-out rows (at least 9 for 90 % intervals, preferably several hundred); see
        :doc:`/how-to/conformal`
    * - :class:`~skuq.conformal.CrossConformalRegressor`
      - you need a coverage guarantee and have few rows. No rows are held out, and the
        guarantee is weaker
      - one fit per fold, and one fit on all rows
    * - :class:`~skuq.regressors.LeastSquaresRegressor`
      - a linear model with Student t intervals is sufficient, or there are few rows
      - one least-squares fit
    * - :class:`~skuq.regressors.SparseGaussianProcessRegressor`
      - the function is smooth, there are few features, and you need epistemic
        uncertainty; requires the extra ``gp``
      - about a hundred passes over the n rows. A pass takes n m² operations for m
        inducing points, which are artificial rows that summarize the data
    * - :class:`~skuq.neural.DeepEnsembleRegressor` and other networks
      - there are many rows, and you need epistemic uncertainty separately from
        heteroscedastic noise; requires the extra ``torch``
      - 20 networks trained in one pass, seconds for a thousand rows; see :doc:`/how-to/networks`
    * - :class:`~skuq.regressors.MixtureRegressor`
      - you have several candidates, such as trees and networks. The class averages
        their distributions, and the average (the *pool*) is about as good as its best
        member (:doc:`/explanation/pools`)
      - cost of all members
    * - :class:`~skuq.model_selection.AutoUncertaintyRegressor`
      - you do not want to choose a model: the class searches over models and over
        the methods of this table; see :doc:`/automl`
      - a time budget, a minute by default
    * - the estimator itself
      - the estimator has a posterior (``BayesianRidge``, ``ARDRegression``,
        ``GaussianProcessRegressor``) and the assumptions of its model hold, for example the linearity
      - none
    * - :class:`~skuq.regressors.RecalibratedRegressor`
      - the estimator has a predictive distribution fitted to the training rows (NGBoost, CatBoost, XGBoost, quantile
        forests, skpro), which is too narrow on new rows
      - one fit per fold, and one fit on all rows
"""

import numpy as np

rng = np.random.default_rng(0)
X = rng.uniform(0, 3, size=(600, 2))
y = X[:, 0] + 0.3 * X[:, 1] * rng.standard_normal(600)
X, X_new, y, y_new = X[:300], X[300:], y[:300], y[300:]

# %%
# This example compares five methods. All of them use linear models, so only the
# methods differ. For ``Ridge``, ``UncertaintyRegressor`` uses
# :class:`~skuq.regressors.ResidualRegressor`. ``LeastSquaresRegressor`` is itself a
# linear model.

from sklearn.linear_model import QuantileRegressor, Ridge

from skuq.conformal import ConformalRegressor
from skuq.regressors import (
    BootstrapRegressor,
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
# The table evaluates the 80 % intervals of each method on new rows. The noise grows
# with the second feature, ``x2``. The two width columns show the mean width for rows
# with ``x2`` below 1 and for rows with ``x2`` above 2. The last row of the table shows
# the intervals of the true distribution.

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
# calibrates on 75 of the training rows. Across calibration sets of this size, its
# coverage has a mean of 0.8 and a standard deviation of 0.05. In the first three rows
# of the table, the intervals are wider for rows with more noise.
# ``LeastSquaresRegressor`` assumes homoscedastic noise, and so does
# ``BootstrapRegressor`` by default. The intervals of these two methods cover 80 % on
# average, but they are too wide for rows with little noise and too narrow for rows with
# much noise.
#
# Random forests
# --------------
#
# :class:`~skuq.regressors.ForestDistributionRegressor` calibrates on the rows that
# each tree was not trained on (the *out-of-bag* rows), so it needs only one fit. We
# compared this class with two other methods on 21 data sets, with forests of 100
# trees, one split per set and up to 1500 training rows.
# The CRPS of ``ForestDistributionRegressor`` is 9 % lower than the CRPS of
# quantile-forest. It is about equal to the CRPS of
# :class:`~skuq.regressors.ResidualRegressor`, which takes four times as many fits
# (geometric means over the sets). The 90 % intervals of
# ``ForestDistributionRegressor`` cover 90.2 % of the test rows. On each of the 21 sets,
# the coverage of these intervals does not differ significantly from 90 %.
#
# Bootstrap samples are drawn at random. If a row is out of bag for a tree, the tree may
# still be trained on other rows of the same group or of neighboring times. The
# out-of-bag errors are then too small, and the intervals are too narrow. For groups or
# a time series, pass a splitter as ``cv`` of ``UncertaintyRegressor``, which then
# refits the forest on the folds of the splitter.
#
# Put an encoder or a scaler before the wrapper:
# ``make_pipeline(encoder, UncertaintyRegressor(forest))``. The wrapper around the
# pipeline, ``UncertaintyRegressor(make_pipeline(encoder, forest))``, cannot use
# out-of-bag rows, because the steps of the pipeline may use the target. It refits the
# pipeline on folds, so ``fit`` and predictions take longer. Use the second form only for
# steps that use the target, such as feature selection.
#
# Measured on 21 data sets
# ------------------------
#
# :doc:`/replications/real-data` compares these methods with methods of six other
# packages. The reference is ``UncertaintyRegressor`` with gradient boosting.
# ``MixtureRegressor()`` is a *pool*: it averages the distributions of
# :func:`~skuq.regressors.default_estimators`. Its CRPS is the lowest, 58 % lower than the
# CRPS of the reference, or 33 % without two sets that dominate the mean. With the members
# ``default_estimators(effort="low")``, which contain no networks, it is 55 % or 28 % lower,
# and a fit is much faster. The forest is the best of the methods that need only one fit:
# its CRPS is 5 % lower than the CRPS of the reference. The parameter ``effort`` of
# ``UncertaintyRegressor`` sets the number of folds. ``effort="high"`` hardly changes the
# CRPS of the reference, and ``effort="low"`` increases it by 6 %. For a model with a
# quantile loss, ``UncertaintyRegressor`` lowers the CRPS by 2 % and the interval score by
# 14 %, compared with the same quantiles without calibration. The deep ensemble, the forest
# and the bootstrap separate epistemic from aleatoric uncertainty. Boosting and Gaussian
# processes, and pools that contain them, do not.
#
# Gradient boosting
# -----------------
#
# :func:`~skuq.prediction.predict_dist` supports a fitted CatBoost model with
# ``loss_function="RMSEWithUncertainty"`` or
# ``"MultiQuantile:alpha=0.05,0.5,0.95"``, and XGBoost with
# ``objective="reg:quantileerror"`` and several ``quantile_alpha``;
# ``UncertaintyRegressor`` recalibrates these models. A model of one quantile, as in
# LightGBM and scikit-learn, does not predict a distribution.
# ``UncertaintyRegressor`` fits such a model at four levels. At each level, it fits
# three models: one to all rows, and two that each leave out one fold. That makes twelve
# fits in total, which take as long as ten fits to all rows. With ``effort="high"``, it
# uses eleven levels and five folds, which takes 66 fits.
#
# Number of rows
# --------------
#
# ``UncertaintyRegressor`` needs about a dozen rows. With 12 rows or more, its 90 %
# intervals for forests and with learned errors cover 90 to 94 % of new rows, averaged
# over training sets. With fewer rows, ``fit`` issues a
# :class:`~skuq.exceptions.SmallSampleWarning` (:doc:`/explanation/few-rows`). A coverage
# guarantee for 90 % intervals requires 9 calibration rows. To measure calibration, use
# at least 500 test rows (:doc:`/how-to/choose_a_metric`).
# :doc:`/explanation/recalibration` lists the rows that each recalibrator requires.
#
# Fitted models
# -------------
#
# To keep a model that is already fitted, wrap it in scikit-learn's ``FrozenEstimator``.
# ``fit`` then only estimates the errors of the model, from the rows that you pass. The
# model must not have been trained on these rows:

from sklearn.frozen import FrozenEstimator

fitted = Ridge().fit(X[:150], y[:150])
frozen = UncertaintyRegressor(FrozenEstimator(fitted), random_state=0)
frozen.fit(X[150:], y[150:]).predict_interval(X_new[:3], 0.8).round(2)

# %%
# For a coverage guarantee, pass the frozen model to ``ConformalRegressor``
# (:doc:`/how-to/conformal`). If the fitted model predicts distributions, recalibrate them
# (:doc:`/how-to/recalibrate`).
#
# Several targets
# ---------------
#
# :class:`~skuq.multivariate.MultiOutputUncertaintyRegressor` fits one regressor per
# target, and estimates the dependence between their errors.
# :doc:`/how-to/several_targets` shows sums, events and regions. One
# :class:`~skuq.neural.DeepEnsembleRegressor` for all targets predicts a covariance
# matrix that depends on x.

from skuq.multivariate import MultiOutputUncertaintyRegressor

both = np.column_stack([y, y**2])
multi = MultiOutputUncertaintyRegressor(Ridge(), random_state=0).fit(X, both)

second = multi.predict_dist(X_new).marginal(1)
second.interval(0.8)[:3].round(2)

# %%
# Confidence and prediction intervals
# -----------------------------------
#
# ``dist.interval()`` is a prediction interval for a new observation. If a model
# separates epistemic and aleatoric uncertainty, ``dist.epistemic().interval()`` is
# the confidence interval of the regression function, and ``dist.aleatoric()`` is the
# distribution of the noise.

line = np.column_stack([np.linspace(0, 3, 50), np.full(50, 1.5)])
dist = LeastSquaresRegressor().fit(X, y).predict_dist(line)
prediction_interval = dist.interval(0.9)
confidence_interval = dist.epistemic().interval(0.9)

# %%
# Most observations lie outside the confidence interval, because it is an interval for
# the mean. With more rows, the confidence interval shrinks. The prediction interval
# includes the noise and does not shrink to zero.

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
# Models that do not separate the two parts raise
# :class:`~skuq.exceptions.NoDecompositionError`.
