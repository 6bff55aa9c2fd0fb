"""
Recalibrate a model
===================

A recalibrator is fitted to pairs of predictive distribution and observation, and
corrects new distributions. The pairs must come from rows that the model was not
fitted to. There are four ways to ensure this. To diagnose the miscalibration
first, see :doc:`/how-to/intervals_too_narrow`.
"""

import numpy as np
from sklearn.model_selection import train_test_split

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(600, 3))
y = (
    X[:, 0] ** 2
    + X[:, 1]
    + (0.2 + 0.3 * np.abs(X[:, 2])) * rng.standard_normal(600)
)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# In a pipeline
# -------------
#
# Use it to search over both steps. The wrapped regressor passes out-of-fold
# distributions to the next step during ``fit``, and those of the model fitted to
# all rows afterwards.

from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline

from skuq import predict_dist
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import UncertaintyRegressor

forest = RandomForestRegressor(n_estimators=50, min_samples_leaf=3, random_state=0)
pipeline = make_pipeline(
    UncertaintyRegressor(forest, random_state=0), IsotonicRecalibrator()
)
pipeline.fit(X_train, y_train)
dist = predict_dist(pipeline, X_test)

# %%
# With ``memory=`` the pipeline caches the first step, so that a grid over
# recalibrators does not fit the forest again.
#
# As one estimator
# ----------------
#
# Use it for a custom splitter (groups, time series), or a base model that is itself
# a pipeline.

from skuq.recalibration import StdScalingRecalibrator
from skuq.regressors import RecalibratedRegressor

model = RecalibratedRegressor(
    UncertaintyRegressor(forest, random_state=0), StdScalingRecalibrator(), cv=5
)
model.fit(X_train, y_train)
dist = model.predict_dist(X_test)

# %%
# A fitted model
# --------------
#
# Freeze it, and fit the recalibrator to held-out rows. The model itself is not
# changed.

from sklearn.frozen import FrozenEstimator

X_fit, X_calibrate, y_fit, y_calibrate = train_test_split(
    X_train, y_train, test_size=0.3, random_state=0
)
finished = UncertaintyRegressor(forest, random_state=0).fit(X_fit, y_fit)

model = RecalibratedRegressor(FrozenEstimator(finished), IsotonicRecalibrator())
model.fit(X_calibrate, y_calibrate)
dist = model.predict_dist(X_test)

# %%
# Distributions without a model
# -----------------------------
#
# Use it for predictions from other sources. A tuple of mean and standard deviation
# becomes a distribution with :class:`~skuq.distributions.Normal`.

from skuq.distributions import Normal

mean, std = (
    y_calibrate + 0.1 * rng.standard_normal(len(y_calibrate)),
    np.full(len(y_calibrate), 0.05),
)
recalibrator = StdScalingRecalibrator().fit(Normal(mean, std), y_calibrate)
corrected = recalibrator.transform(Normal([1.0, 2.0], [0.05, 0.05]))

# %%
# Choice of the recalibrator
# --------------------------
#
# :class:`~skuq.recalibration.StdScalingRecalibrator` multiplies every standard
# deviation by one factor. It has one parameter, so fifty rows are sufficient, and
# it corrects neither shape nor bias.
#
# :class:`~skuq.recalibration.IsotonicRecalibrator` estimates a monotone map of
# probabilities. It corrects bias and shape on average over all rows, and needs
# several hundred of them.
#
# For quantile models (``MultiQuantileRegressor``, quantile forests) use
# ``StdScalingRecalibrator(objective="coverage")``, as ``UncertaintyRegressor``
# does, or ``IsotonicRecalibrator``; the default of ``RecalibratedRegressor`` is
# neither. The standard deviation of a quantile model depends on its assumed tails,
# so that scaling it to the errors may make the intervals worse: gradient-boosted
# quantiles that covered 86 % at 90 % nominal (900 rows of the power plant data)
# covered 82 % after ``StdScalingRecalibrator`` and 89 % after
# ``IsotonicRecalibrator``. Where intervals are much too short, the map of
# probabilities depends on those tails as well, and the CRPS may increase by a few
# percent while coverage is corrected; the factor for coverage does not change the
# shape, and the CRPS mostly decreases: compare them.
#
# The others:
#
# .. list-table::
#     :header-rows: 1
#     :widths: 38 62
#
#     * - recalibrator
#       - use it when
#     * - :class:`~skuq.recalibration.VarianceIsotonicRecalibrator`
#       - small predicted widths need a different factor than large ones
#     * - :class:`~skuq.recalibration.BinnedScalingRecalibrator`
#       - the same, and the order of the widths may be wrong too
#     * - :class:`~skuq.recalibration.EmpiricalRecalibrator`
#       - bias or skew grow with the predicted width, or targets lie outside the predicted ensemble
#     * - :class:`~skuq.recalibration.ConformalRecalibrator`
#       - a guarantee is required (:doc:`/how-to/conformal`)
#     * - :class:`~skuq.recalibration.OperatingPointRecalibrator`
#       - only one interval is used, with a given miss rate, or width and misses have a cost
#     * - :class:`~skuq.recalibration.GPNormalRecalibrator`
#       - the factor depends on the prediction, not only on its width
#     * - :class:`~skuq.recalibration.GPBetaRecalibrator`
#       - bias, scale and shape depend on the prediction, and there are five hundred rows
#     * - :class:`~skuq.recalibration.GPCauchyRecalibrator`
#       - the error distribution has infinite variance
#
# :doc:`/explanation/recalibration` shows for each which miscalibration it corrects.
# The example :doc:`/auto_examples/recalibration/plot_comparison` compares all of them on
# one data set.
#
# None of them makes a model of constant width heteroscedastic. That requires a
# model of the noise: see :doc:`/how-to/choose_a_method`.
#
# The point prediction
# --------------------
#
# ``predict`` of a pipeline that ends in a recalibrator returns the mean of the
# distributions. ``RecalibratedRegressor`` returns the point prediction of the
# model, shifted by the change of the mean due to recalibration. For skewed errors
# the two differ slightly, even with ``IdentityRecalibrator``.
