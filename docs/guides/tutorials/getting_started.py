"""
Getting started
===============

A regressor predicts one number per row. On this page, you add predictive distributions
to a random forest, compute prediction intervals, evaluate and recalibrate the
distributions, and select a model. It takes about ten minutes. Install skuq with
matplotlib first: :doc:`/install`.

If you have not used scikit-learn, these are its main terms:

* A model is an *estimator*. Its method ``fit(X, y)`` fits the model to the data, and
  ``predict(X)`` predicts targets. Attributes whose names end in ``_``, such as
  ``coef_``, exist after ``fit``.
* A *pipeline* is a sequence of estimators that are fitted as one estimator.
* A *scorer* is a metric for searches and cross-validation; larger is better.
* A name with two underscores, such as ``estimator__max_depth``, is a parameter of
  an inner estimator.
* ``random_state=0`` makes random steps reproducible.

To learn more, read the `introduction to scikit-learn
<https://scikit-learn.org/stable/getting_started.html>`__. The
:doc:`/explanation/glossary` defines statistical terms.

Wrap a regressor
----------------

:class:`~skuq.regressors.UncertaintyRegressor` adds a predictive distribution to any
scikit-learn regressor. The box below the code shows the wrapper and its inner
estimator. Click on a name to show its parameters.
"""

from sklearn.ensemble import RandomForestRegressor

from skuq import UncertaintyRegressor

forest = RandomForestRegressor(n_estimators=25, min_samples_leaf=10, random_state=0)
model = UncertaintyRegressor(forest, random_state=0)
model

# %%
# The data on this page have one feature. The noise grows with the feature, so the
# uncertainty differs between rows:

import numpy as np
from sklearn.model_selection import train_test_split

rng = np.random.default_rng(0)
X = rng.uniform(0, 3, size=(900, 1))
noise = 0.1 + 0.3 * X[:, 0]
y = np.sin(2 * X[:, 0]) + noise * rng.standard_normal(900)

X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=300, random_state=0
)
print(X_train.shape, X_test.shape)

# %%
# ``fit`` and ``predict`` work as in scikit-learn:

model.fit(X_train, y_train)
model.predict(X_test[:3]).round(2)

# %%
# Predict intervals
# -----------------
#
# :meth:`~skuq.regressors.UncertaintyRegressor.predict_interval` returns a lower and
# an upper bound per row. 90 % intervals should contain 90 % of new observations.

bounds = model.predict_interval(X_test, coverage=0.9)
bounds[:3].round(2)

# %%
# Write the bounds to columns of a DataFrame:

import pandas as pd

table = pd.DataFrame({"x": X_test[:, 0], "prediction": model.predict(X_test)})
table[["lower", "upper"]] = bounds
table.head(3).round(2)

# %%
# Predict distributions
# ---------------------
#
# The intervals come from a predictive distribution for each row.
# :meth:`~skuq.regressors.UncertaintyRegressor.predict_dist` returns the
# distributions of all rows in one object. Its method ``std`` returns the standard
# deviations, in the units of y:

dist = model.predict_dist(X_test)
dist.std()[:3].round(2)

# %%
# ``quantile`` returns quantiles at any levels:

dist.quantile([0.1, 0.5, 0.9])[:3].round(2)

# %%
# ``cdf(1.0)`` returns the probability that y is at most 1:

dist.cdf(1.0)[:3].round(2)

# %%
# ``dist.interval(0.9)`` returns the same bounds as ``predict_interval``. Some
# conformal methods are an exception: their guarantee is valid only for the bounds
# of ``predict_interval``.
#
# ``UncertaintyRegressor`` selects a method for the estimator. A forest does not
# predict distributions, so the selected method learns the distribution of the forest's
# errors. Errors on training rows are too small, so the method uses
# *out-of-fold* errors: each row is predicted by a forest that was fitted without that
# row. For a forest with 50 trees or more, another method is selected, which fits the
# forest only once (:doc:`/how-to/choose_a_method`).

model.method_

# %%
# The forests of the folds also predict new rows. Their forecasts are corrected and
# averaged, and ``predict`` returns the mean of the predicted distribution. If you need
# the prediction of one forest, pass ``method_params={"center": "model"}``
# (:doc:`/explanation/out-of-sample-calibration`).

# %%
# Plot the intervals
# ------------------
#
# The width of the band depends on the noise. The band is narrow on the left, where
# the noise is small, and wide on the right, where the noise is large.

from skuq.displays import PredictionBandDisplay

display = PredictionBandDisplay.from_predictions(
    y_test, dist, coverage=[0.5, 0.9], x=X_test[:, 0], x_name="x", target_name="y"
)

# %%
# Evaluate the intervals
# ----------------------
#
# Evaluate the intervals on held-out rows.
# :func:`~skuq.metrics.prediction_interval_coverage` returns the coverage, the share of
# observations inside their 90 % intervals. The coverage should be close to 0.9. With
# 300 rows, the standard error of the coverage is 0.02.

from skuq.metrics import prediction_interval_coverage

coverage = prediction_interval_coverage(y_test, dist, coverage=0.9)
round(coverage, 3)

# %%
# Coverage alone does not show whether a model is good: intervals with the same width
# for all rows can also contain 90 % of the observations. Compare models with
# :func:`~skuq.metrics.crps_loss`, the continuous ranked probability score (CRPS). It
# evaluates the whole distribution, in the units of y; smaller is better.

from skuq.metrics import crps_loss

crps = crps_loss(y_test, dist)
round(crps, 3)

# %%
# The CRPS of a point prediction is its absolute error. You can therefore compare the
# CRPS of the model with the mean absolute error of its point predictions:

from sklearn.metrics import mean_absolute_error

absolute_error = mean_absolute_error(y_test, model.predict(X_test))
round(absolute_error, 3)

# %%
# The data are simulated, so the best possible CRPS is also known. It is the CRPS of
# the true distributions:

from skuq.distributions import Normal

truth = Normal(np.sin(2 * X_test[:, 0]), 0.1 + 0.3 * X_test[:, 0])
best_crps = crps_loss(y_test, truth)
round(best_crps, 3)

# %%
# Recalibrate a model
# -------------------
#
# Not every model is calibrated. :class:`~skuq.regressors.BootstrapRegressor` with
# ``noise=None`` uses the spread of the trees of the forest as the predictive
# distribution. The spread of the trees measures the uncertainty about the regression
# function, but not the noise of the observations. The 90 % intervals are therefore far
# too narrow:

from skuq.regressors import BootstrapRegressor

trees = BootstrapRegressor(forest, noise=None, random_state=0)
before = trees.fit(X_train, y_train).predict_dist(X_test)
round(prediction_interval_coverage(y_test, before), 3)

# %%
# :class:`~skuq.regressors.RecalibratedRegressor` estimates the distribution of the
# errors from out-of-fold predictions, and corrects new predictions. The coverage is
# then within two standard errors of 0.9:

from skuq import RecalibratedRegressor
from skuq.recalibration import EmpiricalRecalibrator

recalibrated = RecalibratedRegressor(
    trees, EmpiricalRecalibrator(), cv=5, random_state=0
)
after = recalibrated.fit(X_train, y_train).predict_dist(X_test)
round(prediction_interval_coverage(y_test, after), 3)

# %%
# The calibration curve shows all probabilities at once. The curve of a calibrated
# model follows the diagonal, up to sampling variation (the gray band). The curve of
# the trees does not follow the diagonal: more than a fifth of the observations are
# below the predictions of all trees, and more than a quarter are above the
# predictions of all trees. After recalibration, the curve is close to the diagonal,
# although parts of it are at the edge of the band.

from skuq.displays import CalibrationCurveDisplay

display = CalibrationCurveDisplay.from_predictions(
    y_test, after, name="Trees, recalibrated"
)
display = CalibrationCurveDisplay.from_predictions(
    y_test, before, name="Trees", ax=display.ax_
)

# %%
# Recalibration also decreases the CRPS of the trees. The recalibrated CRPS is close to
# the CRPS of the first model on this page:

print("before", round(crps_loss(y_test, before), 3))
print("after ", round(crps_loss(y_test, after), 3))

# %%
# The first model does not need recalibration, because ``UncertaintyRegressor``
# already uses out-of-fold errors. Recalibration does not improve a calibrated
# model. If there are few rows, a flexible recalibrator may even increase the CRPS
# slightly.
#
# Select a model
# --------------
#
# The models are scikit-learn estimators, and the metrics have scikit-learn scorers.
# Cross-validation and searches therefore work as they do for any other regressor.
# :func:`~skuq.metrics.get_scorer` returns the scorer of a metric by its name. Do not
# pass the name alone: ``scoring="neg_crps"`` raises an error, because scikit-learn
# accepts only the names of its own metrics. Searches maximize scores, so the scorer
# returns the negative CRPS.

from sklearn.model_selection import cross_val_score

from skuq import get_scorer

scores = cross_val_score(
    model, X_train, y_train, scoring=get_scorer("neg_crps"), cv=3
)
-scores.round(3)

# %%
# Search over a parameter of the inner forest. Set ``error_score="raise"``: otherwise
# the score of a candidate without a predictive distribution is NaN, and the search
# continues with a warning.

from sklearn.model_selection import GridSearchCV

search = GridSearchCV(
    model,
    {"estimator__min_samples_leaf": [1, 10, 100]},
    scoring=get_scorer("neg_crps"),
    cv=3,
    error_score="raise",
)
search.fit(X_train, y_train)
print("CRPS with 1, 10, 100:", -search.cv_results_["mean_test_score"].round(3))

# %%
# You can also search over regressors, with ``{"estimator": [BayesianRidge(),
# forest]}``. Searches and pipelines of scikit-learn have no method
# ``predict_dist``. The function :func:`~skuq.prediction.predict_dist` accepts
# searches, pipelines and all other fitted estimators, and returns the distributions
# of the inner model:

from skuq import predict_dist

best = predict_dist(search, X_test)
round(crps_loss(y_test, best), 3)

# %%
# The recommended model
# ---------------------
#
# If you do not need a particular regressor, use
# :class:`~skuq.regressors.MixtureRegressor` without arguments. It combines boosting, a
# forest, a Gaussian process and two ensembles of networks in a *pool*, the weighted
# average of their distributions. The weights of the pool minimize the CRPS of
# out-of-fold forecasts, and the pool is recalibrated. ``MixtureRegressor`` accepts a
# DataFrame with strings, dates and missing values. The networks require torch and
# skorch. If these packages are not installed, the pool has no networks, and skuq issues
# a warning. Boosting is more accurate with LightGBM. The extras ``torch`` and
# ``lightgbm`` install all of these packages. If the fit must be fast, use the members
# ``default_estimators(effort="low")``, which contain no networks.

from skuq.regressors import MixtureRegressor

pool = MixtureRegressor(random_state=0).fit(X_train, y_train)
pooled = pool.predict_dist(X_test)
print("CRPS", round(crps_loss(y_test, pooled), 3))
pool.out_of_fold_crps_.round(3)

# %%
# The table shows the out-of-fold CRPS of the members and of the pool. On most data
# sets, the pool is about as good as its best member. You therefore do not have to know
# beforehand which member is best. :doc:`/explanation/pools` explains the weights, and
# :doc:`/replications/real-data` lists the time of each member.
#
# .. _progress-of-a-fit:
#
# The progress of a long fit
# --------------------------
#
# All estimators of skuq have the method ``set_callbacks``. For example, ``fit`` of
# ``MixtureRegressor().set_callbacks(ProgressBar())`` shows progress bars. Import
# ``ProgressBar`` from ``sklearn.callback``. The bars need scikit-learn 1.9 or newer and
# the package rich. Without them, pass ``verbose=1``: the estimator then prints lines
# while ``fit`` works.
#
# Next steps
# ----------
#
# * :doc:`/auto_examples/plot_01_quickstart`: the same workflow on real data, with a
#   search over models and recalibrators.
# * :doc:`/how-to/select_by_crps`: searches in detail.
# * :doc:`/how-to/choose_a_method` and :doc:`/how-to/networks`: other models,
#   including neural networks.
# * :doc:`/how-to/recalibrate`: recalibration in a pipeline, of a fitted model, or
#   of predictions without a model.
# * :doc:`/explanation/out-of-sample-calibration`: why calibration needs held-out
#   rows.
