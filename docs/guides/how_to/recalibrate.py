"""
Recalibrate a model
===================

A recalibrator is fitted to predictive distributions and the corresponding observations.
It then corrects new distributions. Fit the recalibrator to rows that the model was not
fitted to. This page shows four ways to do this, and how to choose a recalibrator. To
diagnose the miscalibration first, see :doc:`/how-to/intervals_too_narrow`.

The model on this page is a random forest. Its predictive distribution is the spread of
its trees, and its 90 % intervals are too narrow:
"""

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.metrics import prediction_interval_coverage
from skuq.regressors import BootstrapRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(1200, 2))
noise = 0.3 + 0.5 * np.abs(X[:, 1])
y = X[:, 0] ** 2 + X[:, 1] + noise * rng.standard_normal(1200)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.4, random_state=0
)

forest = RandomForestRegressor(n_estimators=30, min_samples_leaf=5, random_state=0)
trees = BootstrapRegressor(forest, noise=None, random_state=0)

before = trees.fit(X_train, y_train).predict_dist(X_test)
round(prediction_interval_coverage(y_test, before), 3)

# %%
# In a pipeline
# -------------
#
# Use a pipeline to search over the parameters of both steps. During ``fit``, the
# regressor passes out-of-fold distributions to the recalibrator. At prediction
# time, the regressor passes the distributions of the model that was fitted to all
# rows.

from sklearn.pipeline import make_pipeline

from skuq import predict_dist
from skuq.recalibration import EmpiricalRecalibrator

pipeline = make_pipeline(trees, EmpiricalRecalibrator())
pipeline.fit(X_train, y_train)
after = predict_dist(pipeline, X_test)
round(prediction_interval_coverage(y_test, after), 3)

# %%
# The calibration curve of a calibrated model follows the diagonal. Before
# recalibration, too many observations are below the lowest quantiles and above the
# highest quantiles. After recalibration, the curve is inside the band of sampling
# variation.

from skuq.displays import CalibrationCurveDisplay

display = CalibrationCurveDisplay.from_predictions(y_test, before, name="Before")
display = CalibrationCurveDisplay.from_predictions(
    y_test, after, name="After", ax=display.ax_
)

# %%
# With ``memory=``, the pipeline caches the first step. A search over recalibrators
# then fits the forest only once per fold.
#
# As one estimator
# ----------------
#
# Use :class:`~skuq.regressors.RecalibratedRegressor` if you need a custom splitter
# (groups, time series), or if the base model is a pipeline.

from skuq.recalibration import StdScalingRecalibrator
from skuq.regressors import RecalibratedRegressor

model = RecalibratedRegressor(trees, StdScalingRecalibrator(), cv=5)
model.fit(X_train, y_train)
after = model.predict_dist(X_test)
round(prediction_interval_coverage(y_test, after), 3)

# %%
# A fitted model
# --------------
#
# Freeze the fitted model, and fit the recalibrator to held-out rows. The fitted model
# does not change.

from sklearn.frozen import FrozenEstimator

X_fit, X_calibrate, y_fit, y_calibrate = train_test_split(
    X_train, y_train, test_size=0.3, random_state=0
)
finished = trees.fit(X_fit, y_fit)

model = RecalibratedRegressor(FrozenEstimator(finished), EmpiricalRecalibrator())
model.fit(X_calibrate, y_calibrate)
after = model.predict_dist(X_test)
round(prediction_interval_coverage(y_test, after), 3)

# %%
# .. _existing-forecasts:
#
# Existing forecasts of another tool
# ----------------------------------
#
# Use a recalibrator alone if the forecasts come from a model outside skuq. First make
# a distribution of the forecasts, because an array does not show whether its columns
# are means and standard deviations, bounds, samples or quantiles. Each of the following
# four blocks evaluates forecasts, fits a recalibrator to every second row, and stores
# the recalibrated forecasts of the other rows in a table. ``to_csv`` or ``to_parquet``
# of the table writes a file. The forecasts on this page are too narrow by the factor 2.

import pandas as pd

from skuq.distributions import Empirical, Normal, Quantiles
from skuq.evaluation import uncertainty_report
from skuq.recalibration import QuantileShiftRecalibrator

mean, std = X[:, 0] ** 2 + X[:, 1], noise / 2
bounds = np.column_stack([mean - 1.645 * std, mean + 1.645 * std])
samples = mean[:, np.newaxis] + std[:, np.newaxis] * rng.standard_normal((1200, 50))
levels = [0.05, 0.25, 0.5, 0.75, 0.95]
quantiles = np.quantile(samples, levels, axis=1).T
old, new = slice(0, None, 2), slice(1, None, 2)

# %%
# **Means and standard deviations.**

forecast = Normal(mean, std)
report = uncertainty_report(y, forecast, n_resamples=0, n_draws=0)
recalibrator = StdScalingRecalibrator().fit(forecast[old], y[old])
from_moments = recalibrator.transform(forecast[new])
pd.DataFrame({"mean": from_moments.mean(), "std": from_moments.std()})

# %%
# The report has one row per metric, with a reading of the value:

report.loc["picp", "reading"]

# %%
# **Bounds of intervals.** The levels of the bounds of 90 % intervals are 0.05 and 0.95.
# Nothing is known between and beyond the bounds, so the report has only the metrics of
# intervals, and the recalibrator shifts only the two bounds.

forecast = Quantiles([0.05, 0.95], bounds)
report = uncertainty_report(y, bounds, n_resamples=0, n_draws=0)
recalibrator = QuantileShiftRecalibrator().fit(forecast[old], y[old])
from_bounds = recalibrator.transform(forecast[new])
pd.DataFrame(from_bounds.interval(0.9), columns=["lower", "upper"])

# %%
# **Samples**, or the members of an ensemble, one column per sample.

forecast = Empirical(samples)
report = uncertainty_report(y, forecast, n_resamples=0, n_draws=0)
recalibrator = EmpiricalRecalibrator().fit(forecast[old], y[old])
from_samples = recalibrator.transform(forecast[new])
pd.DataFrame(from_samples.interval(0.9), columns=["lower", "upper"])

# %%
# **Quantiles**, one column per level.

forecast = Quantiles(levels, quantiles)
report = uncertainty_report(y, forecast, n_resamples=0, n_draws=0)
recalibrator = QuantileShiftRecalibrator().fit(forecast[old], y[old])
from_quantiles = recalibrator.transform(forecast[new])
pd.DataFrame(from_quantiles.quantile(levels), columns=levels)

# %%
# Coverage of the 90 % intervals after recalibration, for 600 new rows:

repaired = {
    "mean and std": from_moments,
    "bounds": from_bounds,
    "samples": from_samples,
    "quantiles": from_quantiles,
}
coverages = {
    name: round(prediction_interval_coverage(y[new], each, coverage=0.9), 2)
    for name, each in repaired.items()
}
coverages

# %%
# The difference from 0.90 is chance. The standard deviation of such a coverage is 0.02.
# One half of this variance comes from the 600 rows of the recalibrator, the other half
# from the 600 new rows. The four coverages on this page deviate together, because they
# share the targets.
#
# Choice of the recalibrator
# --------------------------
#
# :class:`~skuq.recalibration.StdScalingRecalibrator` multiplies every standard
# deviation by one factor. It has one parameter, so fifty rows are sufficient. It
# corrects neither shape nor bias.
#
# :class:`~skuq.recalibration.IsotonicRecalibrator` estimates a monotone map of
# probabilities. It corrects bias and shape on average over all rows, and requires
# several hundred rows.
#
# For quantile models (``MultiQuantileRegressor``, quantile forests), use
# :class:`~skuq.recalibration.QuantileShiftRecalibrator`, as
# ``UncertaintyRegressor`` does. Pass it to ``RecalibratedRegressor`` explicitly,
# because it is not the default there. A quantile model predicts nothing beyond its
# outermost levels, so skuq has to extrapolate the tails. The results of other
# recalibrators depend on these extrapolated tails:
#
# * The standard deviation depends on the tails, so ``StdScalingRecalibrator`` may narrow
#   intervals that are already too narrow.
# * If the intervals are much too narrow, a map of probabilities also depends on the
#   tails. With ``IsotonicRecalibrator``, the CRPS and the interval score are higher than
#   with ``QuantileShiftRecalibrator`` (:doc:`/development/decisions`).
#
# Use another recalibrator in the following cases:
#
# .. list-table::
#     :header-rows: 1
#     :widths: 38 62
#
#     * - recalibrator
#       - use it when
#     * - :class:`~skuq.recalibration.VarianceIsotonicRecalibrator`
#       - small predicted widths require a different factor than large widths
#     * - :class:`~skuq.recalibration.BinnedScalingRecalibrator`
#       - small predicted widths require a different factor than large widths, and
#         the order of the predicted widths may be wrong
#     * - :class:`~skuq.recalibration.ShrunkIsotonicRecalibrator`
#       - the forecasts are nearly calibrated, such as the forecasts of foundation
#         models, and the CRPS must not increase
#     * - :class:`~skuq.recalibration.EmpiricalRecalibrator`
#       - bias or skew grows with the predicted width, or targets lie outside the
#         predicted ensemble
#     * - :class:`~skuq.conformal.ConformalRecalibrator`
#       - a guarantee is required (:doc:`/how-to/conformal`)
#     * - :class:`~skuq.recalibration.OperatingPointRecalibrator`
#       - you need only one interval with a given miss rate, or you know the costs of
#         width and misses
#     * - :class:`~skuq.recalibration.GPNormalRecalibrator`
#       - the factor depends on the prediction, not only on its width
#     * - :class:`~skuq.recalibration.GPBetaRecalibrator`
#       - bias, scale and shape depend on the prediction, and you have at least five
#         hundred rows
#     * - :class:`~skuq.recalibration.GPCauchyRecalibrator`
#       - the error distribution has infinite variance
#
# :doc:`/explanation/recalibration` lists which kind of miscalibration each recalibrator
# corrects, and :doc:`/explanation/recalibrator-examples` shows its effect.
# :doc:`/auto_examples/recalibration/plot_comparison` compares all recalibrators on one
# data set.
#
# If a model predicts the same width for all rows, the recalibrated widths are also the
# same. To get widths that differ between rows, use a model of the noise: see
# :doc:`/how-to/choose_a_method`.
#
# The point prediction
# --------------------
#
# ``predict`` of a pipeline that ends in a recalibrator returns the mean of the
# distributions. ``predict`` of ``RecalibratedRegressor`` returns the point prediction
# of the model plus the shift of the mean due to recalibration. If the errors are
# skewed, the point prediction of a model differs slightly from the mean of its
# distribution. The two predictions then differ, even with ``IdentityRecalibrator``.
