"""
Getting started
===============

A regressor predicts one number per row. This page adds a predictive distribution
to a random forest, reads prediction intervals from it, evaluates and recalibrates
them, and selects a model by the quality of its distributions. It takes about ten
minutes. Install skuq with matplotlib first: :doc:`/install`.

If you have not used scikit-learn, these are its main terms:

* A model is an *estimator*: ``fit(X, y)`` fits it, ``predict(X)`` predicts, and
  attributes whose names end in ``_``, such as ``coef_``, exist after ``fit``.
* A *pipeline* is a sequence of estimators that are fitted as one estimator.
* A *scorer* is a metric for searches and cross-validation; larger is better.
* A name with two underscores is a parameter of an inner estimator:
  ``estimator__max_depth``.
* ``random_state=0`` makes random steps reproducible.

For more, read the `introduction to scikit-learn
<https://scikit-learn.org/stable/getting_started.html>`__. The
:doc:`/explanation/glossary` defines statistical terms.

Wrap a regressor
----------------

:class:`~skuq.regressors.UncertaintyRegressor` adds a predictive distribution to any
scikit-learn regressor. The box shows the wrapper and its inner estimator. Click on
a name to show its parameters.
"""

from sklearn.ensemble import RandomForestRegressor

from skuq import UncertaintyRegressor

forest = RandomForestRegressor(n_estimators=25, min_samples_leaf=10, random_state=0)
model = UncertaintyRegressor(forest, random_state=0)
model

# %%
# The data of this page have one feature. The noise grows with the feature, so the
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
# ``fit`` and ``predict`` work as in scikit-learn. ``predict`` returns the prediction
# of the forest.

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
# ``dist.interval(0.9)`` returns the same bounds as above. Only conformal methods may
# return different bounds. The guarantee of a conformal method is valid for the bounds
# of ``predict_interval``.
#
# ``UncertaintyRegressor`` selects a method for the estimator. A forest does not
# predict distributions, so a second model is fitted to the size of the forest's
# errors. Errors on training rows are too small. The errors are therefore *out of
# fold*: the forest that predicts a row was fitted without this row.

model.method_

# %%
# Plot the intervals
# ------------------
#
# The width of the band follows the noise: the band is narrow on the left, where the
# noise is small, and wide on the right.

from skuq.displays import PredictionBandDisplay

display = PredictionBandDisplay.from_predictions(
    y_test, dist, coverage=[0.5, 0.9], x=X_test[:, 0], x_name="x", target_name="y"
)

# %%
# Evaluate the intervals
# ----------------------
#
# Evaluate on held-out rows. :func:`~skuq.metrics.prediction_interval_coverage` is
# the share of observations inside the 90 % interval, and should be close to 0.9.
# With 300 rows, its standard error is 0.02.

from skuq.metrics import prediction_interval_coverage

coverage = prediction_interval_coverage(y_test, dist, coverage=0.9)
round(coverage, 3)

# %%
# Coverage alone is not sufficient: intervals with the same width for all rows can
# also cover 90 %. Compare models by :func:`~skuq.metrics.crps_loss`, the continuous
# ranked probability score (CRPS). It evaluates the whole distribution, in the units
# of y; smaller is better.

from skuq.metrics import crps_loss

crps = crps_loss(y_test, dist)
round(crps, 3)

# %%
# The CRPS of a point prediction is its absolute error. You can therefore compare the
# CRPS with the mean absolute error of the forest:

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
# function, and does not include the noise of the observations. The 90 % intervals
# are therefore far too narrow:

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
# the trees does not: more than a fifth of the observations are below all trees, and
# more than a quarter are above all trees. After recalibration, the curve is close to
# the diagonal, and in parts at the edge of the band.

from skuq.displays import CalibrationCurveDisplay

display = CalibrationCurveDisplay.from_predictions(
    y_test, after, name="Trees, recalibrated"
)
display = CalibrationCurveDisplay.from_predictions(
    y_test, before, name="Trees", ax=display.ax_
)

# %%
# Recalibration also decreases the CRPS. The CRPS is then close to the CRPS of the first
# model:

print("before", round(crps_loss(y_test, before), 3))
print("after ", round(crps_loss(y_test, after), 3))

# %%
# The first model does not need recalibration, because ``UncertaintyRegressor``
# already uses out-of-fold errors. Recalibration does not improve a calibrated model.
# On few rows, a flexible recalibrator may increase the CRPS slightly.
#
# Select a model
# --------------
#
# The models are scikit-learn estimators, and the metrics have scikit-learn scorers.
# Cross-validation and searches therefore work as for any other regressor.
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
# You can also search over regressors, with
# ``{"estimator": [BayesianRidge(), forest]}``.
# Searches and pipelines of scikit-learn have no method ``predict_dist``.
# For searches, pipelines and all other fitted estimators, use the function
# :func:`~skuq.prediction.predict_dist`. It returns the distributions of the inner
# model:

from skuq import predict_dist

best = predict_dist(search, X_test)
round(crps_loss(y_test, best), 3)

# %%
# The recommended model
# ---------------------
#
# If you have no favorite regressor, use
# :class:`~skuq.regressors.MixtureRegressor` without arguments. It combines boosting,
# a forest and two ensembles of networks, with weights that minimize the CRPS of
# out-of-fold forecasts, and recalibrates the result. It accepts a DataFrame with
# strings, dates and missing values. The networks need torch and skorch. Without them,
# the pool consists of boosting and the forest, with a warning.

from skuq.regressors import MixtureRegressor

pool = MixtureRegressor(random_state=0).fit(X_train, y_train)
pooled = pool.predict_dist(X_test)
print("CRPS", round(crps_loss(y_test, pooled), 3))
pool.out_of_fold_crps_.round(3)

# %%
# The table compares the members and the pool out of fold. On most data, the pool is
# as good as its best member, which nobody knows beforehand.
# :doc:`/explanation/pools` explains the weights and lists the time of each member.
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
