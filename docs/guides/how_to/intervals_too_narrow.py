"""
Diagnose intervals that are too narrow
======================================

Six steps for 90 % intervals that cover 70 %, in this order. The example is a
random forest with the spread of its trees as predicted uncertainty.
"""

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from skuq.metrics import prediction_interval_coverage
from skuq.regressors import BootstrapRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(4000, 3))
y = (
    np.sin(2 * X[:, 0])
    + X[:, 1]
    + (0.2 + 0.4 * np.abs(X[:, 2])) * rng.standard_normal(4000)
)
training, calibrating, test = np.split(np.arange(4000), [1000, 2000])

forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
model = BootstrapRegressor(forest, noise=None, random_state=0).fit(
    X[training], y[training]
)

# %%
# 1. Measure coverage out of sample
# ---------------------------------
#
# Coverage is only meaningful on held-out rows.

dist = model.predict_dist(X[calibrating])
in_sample = prediction_interval_coverage(
    y[training], model.predict_dist(X[training])
)  # 0.86
held_out = prediction_interval_coverage(y[calibrating], dist)  # 0.72
two_errors = 2 * np.sqrt(0.9 * 0.1 / len(calibrating))  # 0.02

# %%
# The coverage of a calibrated model is within two standard errors, 0.02, of 0.9 on
# 1000 rows, so 0.72 is significant. Without held-out rows,
# :func:`~skuq.model_selection.cross_val_predict_dist` returns an out-of-fold
# distribution for every row.
#
# 2. Measure conditional coverage
# -------------------------------
#
# By predicted width, and by every feature that may be relevant:

from skuq.metrics import conditional_coverage

by_width = conditional_coverage(y[calibrating], dist, n_bins=4)
by_feature = conditional_coverage(
    y[calibrating], dist, feature=np.abs(X[calibrating, 2]), n_bins=4
)
by_width["coverage"].round(2).tolist()  # [0.67, 0.69, 0.74, 0.79]
by_feature["coverage"].round(2).tolist()  # [0.91, 0.76, 0.63, 0.59]

# %%
# Coverage is too low throughout, somewhat lower where the predicted width is small,
# and much lower where the third feature is far from 0.
# :class:`~skuq.displays.ReliabilityDisplay` plots the first of the two.
#
# 3. Distinguish bias, scale and shape
# ------------------------------------
#
# Divide the errors by the predicted standard deviations.

z = (y[calibrating] - dist.mean()) / dist.std()
bias, factor = z.mean(), z.std()  # -0.02 and 1.62
tails = np.quantile(
    (z - bias) / factor, [0.05, 0.95]
)  # -1.63 and 1.56; 1.64 if normal

# %%
# * ``bias`` different from 0 by more than :math:`2 / \sqrt n`, 0.06 here: the
#   predictions are biased.
# * ``factor`` far from 1: the intervals are too narrow (above 1) or too wide.
# * ``tails`` of different size: the errors are skewed. Both far from 1.64 after
#   division by the factor: a non-normal shape.
#
# Here it is the scale. Whether it is one factor:

from skuq.metrics import reliability_table

table = reliability_table(y[calibrating], dist, n_bins=4)
(table["rmse"] / table["rmv"]).round(2).tolist()  # [1.88, 1.61, 1.57, 1.3]

# %%
# It is not: errors are 1.9 times as large as predicted in the bin of smallest
# predicted width, and 1.3 times in that of the largest.
#
# 4. Select a recalibrator
# ------------------------
#
# .. list-table::
#     :header-rows: 1
#     :widths: 40 35 25
#
#     * - diagnosis
#       - recalibrator
#       - rows
#     * - too narrow by one factor
#       - :class:`~skuq.recalibration.StdScalingRecalibrator`
#       - 50
#     * - too narrow by one factor, with outliers
#       - the same with ``objective="crps"`` or ``robust=True``
#       - 50
#     * - a factor that depends on the predicted width
#       - :class:`~skuq.recalibration.VarianceIsotonicRecalibrator`; if the order of widths is wrong,
#         :class:`~skuq.recalibration.BinnedScalingRecalibrator`
#       - 200
#     * - bias or another shape, the same for all rows
#       - :class:`~skuq.recalibration.EmpiricalRecalibrator`, or
#         :class:`~skuq.recalibration.IsotonicRecalibrator`, which preserves the shape
#         of each row
#       - 200
#     * - a factor that depends on the prediction
#       - :class:`~skuq.recalibration.GPNormalRecalibrator`
#       - 200
#     * - bias or shape that depend on the prediction
#       - :class:`~skuq.recalibration.GPBetaRecalibrator`
#       - 500
#     * - calibration at one coverage suffices, or width and misses have a cost
#       - :class:`~skuq.recalibration.OperatingPointRecalibrator`
#       - 100
#     * - a guarantee is required
#       - :class:`~skuq.recalibration.ConformalRecalibrator`
#       - 9, better 200
#     * - dependence on X, but not on the prediction
#       - none of them: a model of the noise (step 6)
#       -
#
# :doc:`/explanation/recalibration` has an example of each.
#
# 5. Evaluate the recalibrated model
# ----------------------------------
#
# Evaluate on rows that neither the model nor the recalibrator was fitted to; on the
# calibration rows the result is always optimistic.

from skuq.metrics import crps_loss
from skuq.recalibration import (
    BinnedScalingRecalibrator,
    EmpiricalRecalibrator,
    StdScalingRecalibrator,
)

new, y_new = model.predict_dist(X[test]), y[test]
forecasts = {"uncalibrated": new}
for recalibrator in (
    StdScalingRecalibrator(),
    BinnedScalingRecalibrator(),
    EmpiricalRecalibrator(),
):
    name = type(recalibrator).__name__.removesuffix("Recalibrator")
    forecasts[name] = recalibrator.fit(dist, y[calibrating]).transform(new)

for name, after in forecasts.items():
    covered = prediction_interval_coverage(y_new, after)
    quarters = conditional_coverage(y_new, after, n_bins=4)["coverage"]
    print(
        f"{name:14s}{covered:5.2f}{crps_loss(y_new, after):7.3f}  ",
        quarters.round(2).tolist(),
    )

# %%
# One factor is calibrated on average only. One factor per bin is close to nominal
# in all four quarters. The empirical distribution of errors has the smallest CRPS.
# ``IsotonicRecalibrator().fit`` raises an error here: on 17 % of the rows the
# target lies outside the predictions of all trees, where the predicted probability
# is zero and a map of levels has no effect. Scale first, or use
# ``EmpiricalRecalibrator``, as above.

from sklearn.pipeline import make_pipeline

from skuq.recalibration import IsotonicRecalibrator

widened = make_pipeline(StdScalingRecalibrator(), IsotonicRecalibrator()).fit(
    dist, y[calibrating]
)
crps_loss(y_new, widened.transform(new))  # 0.390

# %%
# 6. Check conditional coverage again
# -----------------------------------
#
# By the third feature, on which the spread of the forest does not depend, no
# recalibrator has an effect: it depends on the predictions only. Model the noise as
# a function of X, and recalibrate if necessary.

from skuq.regressors import ResidualRegressor

noise = (
    ResidualRegressor(forest, random_state=0)
    .fit(X[training], y[training])
    .predict_dist(X[test])
)
feature = np.abs(X[test, 2])
scaled, learned = (
    conditional_coverage(y_new, each, feature=feature, n_bins=4)["coverage"]
    .round(2)
    .tolist()
    for each in (forecasts["BinnedScaling"], noise)
)
scaled  # [0.99, 0.94, 0.85, 0.8]
learned  # [0.93, 0.91, 0.86, 0.86]

# %%
# If a guarantee is required
# --------------------------
#
# The methods above calibrate approximately. If 90 % coverage must be guaranteed,
# use :class:`~skuq.recalibration.ConformalRecalibrator` or
# :class:`~skuq.regressors.ConformalRegressor` as the last step
# (:doc:`/how-to/conformal`), with the best available model of the noise:

from skuq.recalibration import ConformalRecalibrator

conformal = (
    ConformalRecalibrator(group_by=4).fit(dist, y[calibrating]).transform(new)
)
by_group = (
    conditional_coverage(y_new, conformal, n_bins=4)["coverage"].round(2).tolist()
)
by_group  # [0.89, 0.89, 0.92, 0.93]
