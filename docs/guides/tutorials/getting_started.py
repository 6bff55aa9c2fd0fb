"""
Getting started
===============

A regressor predicts one number per row. This page adds a predictive distribution
to a random forest, reads prediction intervals from it, evaluates and recalibrates
them, and selects a model by the quality of its distributions. Every step shows its
output, and the code runs as it stands.

.. note::
    In a checkout, ``pip install ".[plot]"`` installs skuq with matplotlib: it is
    not on a package index yet. Python 3.11 or newer is required. Other extras are
    installed by name, as in ``pip install ".[torch]"``.

Wrap a regressor
----------------

:class:`~skuq.regressors.UncertaintyRegressor` adds a predictive distribution to any
scikit-learn regressor:
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
# Predict distributions
# ---------------------
#
# :meth:`~skuq.regressors.UncertaintyRegressor.predict_dist` returns one predictive
# distribution per row:

dist = model.predict_dist(X_test)
dist

# %%
# For a forest, ``UncertaintyRegressor`` fits a second model to the absolute errors
# of out-of-fold predictions. It selects the method by the estimator:

model.method_

# %%
# The standard deviation is the uncertainty of each row, in the units of y:

dist.std()[:3].round(2)

# %%
# A 90 % prediction interval has a lower and an upper bound per row:

dist.interval(0.9)[:3].round(2)

# %%
# Quantiles at any levels:

dist.quantile([0.1, 0.5, 0.9])[:3].round(2)

# %%
# The probability that y is at most 1:

dist.cdf(1.0)[:3].round(2)

# %%
# Plot them
# ---------
#
# The band follows the noise. It is narrow on the left, where observations are close
# to the prediction, and wide on the right.

from skuq.displays import PredictionBandDisplay

display = PredictionBandDisplay.from_predictions(
    y_test, dist, coverage=[0.5, 0.9], x=X_test[:, 0], x_name="x", target_name="y"
)

# %%
# Evaluate them
# -------------
#
# Evaluate on held-out rows. :func:`~skuq.metrics.prediction_interval_coverage` is
# the share of observations inside the 90 % interval, and should be close to 0.9;
# with 300 rows its standard error is 0.02.

from skuq.metrics import prediction_interval_coverage

coverage = prediction_interval_coverage(y_test, dist, coverage=0.9)
round(coverage, 3)

# %%
# Coverage alone is not sufficient: intervals of one width for all rows can have
# it too. :func:`~skuq.metrics.crps_loss` scores the whole distribution, in the
# units of y, and is the metric to compare models by; smaller is better.

from skuq.metrics import crps_loss

crps = crps_loss(y_test, dist)
round(crps, 3)

# %%
# Recalibrate a model
# -------------------
#
# Not every distribution is calibrated. The spread of the trees of a forest, for
# example, does not contain the noise, and its 90 % intervals are far too narrow:

from skuq.regressors import BootstrapRegressor

trees = BootstrapRegressor(forest, noise=None, random_state=0)
before = trees.fit(X_train, y_train).predict_dist(X_test)
round(prediction_interval_coverage(y_test, before), 3)

# %%
# :class:`~skuq.regressors.RecalibratedRegressor` learns from out-of-fold
# predictions how observations are distributed relative to the prediction, and
# corrects new predictions:

from skuq import RecalibratedRegressor
from skuq.recalibration import EmpiricalRecalibrator

recalibrated = RecalibratedRegressor(
    trees, EmpiricalRecalibrator(), cv=5, random_state=0
)
after = recalibrated.fit(X_train, y_train).predict_dist(X_test)
round(prediction_interval_coverage(y_test, after), 3)

# %%
# The calibration curve shows all probabilities at once. That of a calibrated
# model follows the diagonal, up to sampling variation, the grey band. Here more
# than a fifth of the observations are below all trees and more than a quarter
# above all of them; after recalibration the curve is close to the diagonal.

from skuq.displays import CalibrationCurveDisplay

display = CalibrationCurveDisplay.from_predictions(y_test, before, name="Trees")
display = CalibrationCurveDisplay.from_predictions(
    y_test, after, name="Trees, recalibrated", ax=display.ax_
)

# %%
# The CRPS decreases as well, here to about that of ``UncertaintyRegressor`` above.
# Compare it on held-out rows: a model that is already calibrated gains nothing, and
# on few rows a flexible recalibrator may increase it slightly.

print("before", round(crps_loss(y_test, before), 3))
print("after ", round(crps_loss(y_test, after), 3))

# %%
# Select a model
# --------------
#
# The models are scikit-learn estimators and the metrics scikit-learn scorers, so
# selection is a grid search. :func:`~skuq.metrics.get_scorer` returns the negative
# CRPS, as scikit-learn maximises scores. Set ``error_score="raise"``: otherwise a
# candidate without a predictive distribution scores NaN and the search continues
# with a warning.

from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV

from skuq import get_scorer

search = GridSearchCV(
    UncertaintyRegressor(forest, random_state=0),
    {"estimator": [BayesianRidge(), forest]},
    scoring=get_scorer("neg_crps"),
    cv=3,
    error_score="raise",
)
search.fit(X_train, y_train)
print("BayesianRidge, forest:", -search.cv_results_["mean_test_score"].round(3))

# %%
# The forest has the smaller CRPS, since the function is not linear.
# :func:`~skuq.prediction.predict_dist` returns the distributions of the selected
# model, through searches and pipelines:

from skuq import predict_dist

best = predict_dist(search, X_test)
round(crps_loss(y_test, best), 3)

# %%
# Next steps
# ----------
#
# * :doc:`/how-to/select_by_crps`: searches in detail.
# * :doc:`/how-to/choose_a_method` and :doc:`/how-to/networks`: other models,
#   including neural networks.
# * :doc:`/how-to/recalibrate`: recalibration in a pipeline, of a fitted model, or
#   of predictions without a model.
# * :doc:`/explanation/out-of-sample-calibration`: why calibration needs held-out
#   rows.
# * :doc:`/auto_examples/index`: the whole workflow on real data.
