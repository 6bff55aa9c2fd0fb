"""
Getting started
===============

A regressor predicts one number per row. This page adds a predictive distribution
to a random forest, reads prediction intervals from it, evaluates and recalibrates
them, and selects a model by the quality of its distributions. It takes about ten
minutes. Install skuq with matplotlib first: :doc:`/install`.

scikit-learn in five lines, for those who have not used it:

* A model is an *estimator*: ``fit(X, y)`` fits it, ``predict(X)`` predicts, and
  attributes whose names end in ``_``, such as ``coef_``, exist after ``fit``.
* A *pipeline* is several estimators in a row that are fitted as one.
* A *scorer* is a metric for searches and cross-validation; larger is better.
* Two underscores lead to a parameter of an inner estimator:
  ``estimator__max_depth``.
* ``random_state=0`` makes random steps reproducible.

Its own `introduction <https://scikit-learn.org/stable/getting_started.html>`__ has
more. Terms of statistics are in the :doc:`/explanation/glossary`.

Wrap a regressor
----------------

:class:`~skuq.regressors.UncertaintyRegressor` adds a predictive distribution to any
scikit-learn regressor. The box shows the wrapper and the estimator inside; a click
on a name shows its parameters.
"""

from sklearn.ensemble import RandomForestRegressor

from skuq import UncertaintyRegressor

forest = RandomForestRegressor(n_estimators=25, min_samples_leaf=10, random_state=0)
model = UncertaintyRegressor(forest, random_state=0)
model

# %%
# The data of this page have one feature, and noise that grows with it, so that the
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
# ``fit`` and ``predict`` are those of scikit-learn: the prediction is that of the
# forest.

model.fit(X_train, y_train)
model.predict(X_test[:3]).round(2)

# %%
# Predict intervals
# -----------------
#
# :meth:`~skuq.regressors.UncertaintyRegressor.predict_interval` returns a lower and
# an upper bound per row. An interval for 90 % should contain 90 % of new
# observations.

bounds = model.predict_interval(X_test, coverage=0.9)
bounds[:3].round(2)

# %%
# As columns of a DataFrame:

import pandas as pd

table = pd.DataFrame({"x": X_test[:, 0], "prediction": model.predict(X_test)})
table[["lower", "upper"]] = bounds
table.head(3).round(2)

# %%
# Predict distributions
# ---------------------
#
# The intervals come from a predictive distribution for each row.
# :meth:`~skuq.regressors.UncertaintyRegressor.predict_dist` returns all of them in
# one object, which has the standard deviations, in the units of y:

dist = model.predict_dist(X_test)
dist.std()[:3].round(2)

# %%
# Quantiles at any levels:

dist.quantile([0.1, 0.5, 0.9])[:3].round(2)

# %%
# The probability that y is at most 1:

dist.cdf(1.0)[:3].round(2)

# %%
# ``dist.interval(0.9)`` gives the same bounds as above. Only for conformal methods
# the two may differ: their guarantee belongs to ``predict_interval``.
#
# Where do the distributions come from? ``UncertaintyRegressor`` picks a method
# suited to the estimator. A forest has no distribution of its own, so a second
# model is fitted to the size of its errors. The errors are *out of fold*: each row
# is predicted by a forest that was fitted without it, since errors on training
# rows are too small.

model.method_

# %%
# Plot the intervals
# ------------------
#
# The band follows the noise. It is narrow on the left, where observations are close
# to the prediction, and wide on the right.

from skuq.displays import PredictionBandDisplay

display = PredictionBandDisplay.from_predictions(
    y_test, dist, coverage=[0.5, 0.9], x=X_test[:, 0], x_name="x", target_name="y"
)

# %%
# Evaluate the intervals
# ----------------------
#
# Evaluate on held-out rows. :func:`~skuq.metrics.prediction_interval_coverage` is
# the share of observations inside the 90 % interval, and should be close to 0.9;
# with 300 rows its standard error is 0.02.

from skuq.metrics import prediction_interval_coverage

coverage = prediction_interval_coverage(y_test, dist, coverage=0.9)
round(coverage, 3)

# %%
# Coverage alone is not sufficient: intervals of one width for all rows can have
# it too. :func:`~skuq.metrics.crps_loss`, the continuous ranked probability score
# (CRPS), scores the whole distribution, in the units of y; smaller is better. It is
# the metric to compare models by.

from skuq.metrics import crps_loss

crps = crps_loss(y_test, dist)
round(crps, 3)

# %%
# The CRPS extends the absolute error to distributions: for a prediction of one
# number the two are equal. That gives a value to compare with, the mean absolute
# error of the forest:

from sklearn.metrics import mean_absolute_error

absolute_error = mean_absolute_error(y_test, model.predict(X_test))
round(absolute_error, 3)

# %%
# Here the best possible value is known too, as the data are simulated. The true
# distributions have a CRPS of:

from skuq.distributions import Normal

truth = Normal(np.sin(2 * X_test[:, 0]), 0.1 + 0.3 * X_test[:, 0])
best_crps = crps_loss(y_test, truth)
round(best_crps, 3)

# %%
# Recalibrate a model
# -------------------
#
# Not every distribution is calibrated. Another one for the same forest is the
# spread of its trees, :class:`~skuq.regressors.BootstrapRegressor` with
# ``noise=None``. The trees differ as far as the function is uncertain; the
# noise of the observations is not in their spread, and 90 % intervals are far too
# narrow:

from skuq.regressors import BootstrapRegressor

trees = BootstrapRegressor(forest, noise=None, random_state=0)
before = trees.fit(X_train, y_train).predict_dist(X_test)
round(prediction_interval_coverage(y_test, before), 3)

# %%
# :class:`~skuq.regressors.RecalibratedRegressor` estimates from out-of-fold
# predictions how observations are distributed relative to the prediction, and
# corrects new predictions. The coverage is then within two standard errors of 0.9:

from skuq import RecalibratedRegressor
from skuq.recalibration import EmpiricalRecalibrator

recalibrated = RecalibratedRegressor(
    trees, EmpiricalRecalibrator(), cv=5, random_state=0
)
after = recalibrated.fit(X_train, y_train).predict_dist(X_test)
round(prediction_interval_coverage(y_test, after), 3)

# %%
# The calibration curve shows all probabilities at once. That of a calibrated
# model follows the diagonal, up to sampling variation, the grey band. Of the trees
# alone it does not: more than a fifth of the observations are below all trees and
# more than a quarter above all of them. After recalibration the curve is close to
# the diagonal, in parts at the edge of the band.

from skuq.displays import CalibrationCurveDisplay

display = CalibrationCurveDisplay.from_predictions(
    y_test, after, name="Trees, recalibrated"
)
display = CalibrationCurveDisplay.from_predictions(
    y_test, before, name="Trees", ax=display.ax_
)

# %%
# The CRPS decreases as well, to about that of the first model:

print("before", round(crps_loss(y_test, before), 3))
print("after ", round(crps_loss(y_test, after), 3))

# %%
# The first model needs no such step: ``UncertaintyRegressor`` calibrates by
# out-of-fold errors already. Recalibration gains nothing for a calibrated model, and
# on few rows a flexible recalibrator may increase the CRPS slightly.
#
# Select a model
# --------------
#
# The models are scikit-learn estimators and the metrics scikit-learn scorers, so
# cross-validation and searches work as for any other regressor.
# :func:`~skuq.metrics.get_scorer` returns the scorer of a metric by its name. The
# name alone, ``scoring="neg_crps"``, is an error: scikit-learn has the names of
# its own metrics only. Scorers are maximised, hence the negative CRPS.

from sklearn.model_selection import cross_val_score

from skuq import get_scorer

scores = cross_val_score(
    model, X_train, y_train, scoring=get_scorer("neg_crps"), cv=3
)
-scores.round(3)

# %%
# A grid over a parameter of the forest inside. Set ``error_score="raise"``:
# otherwise a candidate without a predictive distribution scores NaN and the search
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
# The regressor itself can be searched the same way, with
# ``{"estimator": [BayesianRidge(), forest]}``. Searches and pipelines of
# scikit-learn have no method ``predict_dist``; the function
# :func:`~skuq.prediction.predict_dist` returns the distributions of the model
# inside, for these and every other fitted estimator:

from skuq import predict_dist

best = predict_dist(search, X_test)
round(crps_loss(y_test, best), 3)

# %%
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
