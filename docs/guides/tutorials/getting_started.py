"""
Getting started
===============

This page goes from a regressor to calibrated prediction intervals, a score of
their quality and a plot. The code runs as it stands, from top to bottom.

Install
-------

.. code-block:: console

    $ pip install ".[plot]"

Run this in a checkout: skuq is not on a package index yet. It requires Python
3.11 or newer, numpy, scipy, pandas and scikit-learn. Plots require the extra
``plot`` (matplotlib). Other extras are installed by name, as in ``pip install
"skuq[torch]"``.

A regressor without a predictive distribution
---------------------------------------------

Heteroscedastic data, whose noise grows with the first feature, and a forest that
predicts the mean:
"""

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

rng = np.random.default_rng(0)
X = rng.uniform(0, 3, size=(900, 2))
y = np.sin(2 * X[:, 0]) + X[:, 1] + (0.1 + 0.3 * X[:, 0]) * rng.standard_normal(900)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=300, random_state=0
)

forest = RandomForestRegressor(n_estimators=50, min_samples_leaf=5, random_state=0)

# %%
# Add a predictive distribution
# -----------------------------
#
# :class:`~skuq.regressors.UncertaintyRegressor` is the default wrapper. It selects
# a method that fits the estimator; here it fits a second model to the absolute
# out-of-fold residuals of the forest.

from skuq.regressors import UncertaintyRegressor

model = UncertaintyRegressor(forest, random_state=0).fit(X_train, y_train)
dist = model.predict_dist(X_test)

# %%
# ``model`` is a scikit-learn regressor: ``model.predict(X_test)`` is the prediction
# of the forest. ``dist`` is one predictive distribution per row:

dist.mean()  # (300,)
dist.std()  # (300,), in the units of y
dist.interval(0.9)  # (300, 2), lower and upper bound
dist.quantile([0.1, 0.5, 0.9])  # (300, 3)
dist.cdf(2.0)  # (300,), the probability that y is at most 2

# %%
# Evaluate it
# -----------
#
# :func:`~skuq.metrics.prediction_interval_coverage` is the share of targets inside
# the 90 % interval; :func:`~skuq.metrics.crps_loss` scores the whole distribution,
# in the units of y, and is the metric to compare models by.

from skuq.metrics import (
    crps_loss,
    mean_interval_width,
    prediction_interval_coverage,
)

coverage = prediction_interval_coverage(y_test, dist)
width = mean_interval_width(y_test, dist)
crps = crps_loss(y_test, dist)

# %%
# The calibration curve of a calibrated model follows the diagonal:

from skuq.displays import CalibrationCurveDisplay

display = CalibrationCurveDisplay.from_predictions(y_test, dist)

# %%
# Recalibrate it
# --------------
#
# :class:`~skuq.regressors.RecalibratedRegressor` learns from out-of-fold
# predictions how predicted probabilities differ from observed frequencies, and
# corrects for it.

from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import RecalibratedRegressor

recalibrated = RecalibratedRegressor(
    model, IsotonicRecalibrator(), cv=5, random_state=0
)
recalibrated.fit(X_train, y_train)
dist_after = recalibrated.predict_dist(X_test)

# %%
# ``crps_loss(y_test, dist_after)`` shows whether that improved the forecast. A
# model that is already calibrated gains nothing, and on few rows a flexible
# recalibrator may increase the loss slightly: compare on held-out rows.
#
# Select a model
# --------------
#
# The models are scikit-learn estimators and the metrics scikit-learn scorers, so
# selection is a grid search:

from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV

from skuq import get_scorer, predict_dist

search = GridSearchCV(
    UncertaintyRegressor(forest, random_state=0),
    {"estimator": [forest, BayesianRidge()]},
    scoring=get_scorer("neg_crps"),
    cv=3,
    error_score="raise",
)
search.fit(X_train, y_train)
best = predict_dist(search, X_test)

# %%
# Set ``error_score="raise"``: otherwise a candidate without a predictive
# distribution scores NaN and the search continues with a warning.
#
# Next steps
# ----------
#
# * :doc:`/how-to/select_by_crps`: searches in detail.
# * :doc:`/how-to/choose_a_method` and :doc:`/how-to/networks`: other models,
#   including neural networks.
# * :doc:`/explanation/out-of-sample-calibration`: why calibration needs held-out
#   rows.
# * :doc:`/auto_examples/index`: the whole workflow on real data.
