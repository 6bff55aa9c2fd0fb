"""
Diagnose intervals that are too narrow
======================================

In six steps, this page diagnoses and corrects 90 % intervals that contain only 70 % of
the observations. The model is a random forest, and its predicted uncertainty is the
spread of its trees. The target depends on the first two features, and the noise depends
on the third feature.
"""

import numpy as np
from sklearn.ensemble import RandomForestRegressor

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
model = BootstrapRegressor(forest, noise=None, random_state=0)
model.fit(X[training], y[training])

dist = model.predict_dist(X[calibrating])
dist

# %%
# 1. Measure coverage out of sample
# ---------------------------------
#
# Compute coverage on held-out rows. Coverage on training rows is higher than coverage
# on new rows.

from skuq.metrics import prediction_interval_coverage

in_sample = prediction_interval_coverage(
    y[training], model.predict_dist(X[training])
)
held_out = prediction_interval_coverage(y[calibrating], dist)
print(f"training rows {in_sample:.2f}, held-out rows {held_out:.2f}")

# %%
# For a calibrated model, two standard errors of the coverage are:

two_errors = 2 * np.sqrt(0.9 * 0.1 / len(calibrating))
print(f"{two_errors:.3f}")

# %%
# The observed coverage differs from 0.9 by much more than two standard errors, so the
# deviation is significant. If you have no held-out rows, use
# :func:`~skuq.model_selection.cross_val_predict_dist`: it returns an out-of-fold
# distribution for every row.
#
# 2. Measure conditional coverage
# -------------------------------
#
# Compute coverage by predicted width, in four bins from narrow to wide:

from skuq.metrics import conditional_coverage

by_width = conditional_coverage(y[calibrating], dist, n_bins=4)
by_width[["lower", "upper", "n", "coverage"]].round(2)

# %%
# Compute coverage by every feature that may be relevant. In this example, the
# relevant feature is the distance of the third feature from 0:

by_feature = conditional_coverage(
    y[calibrating], dist, feature=np.abs(X[calibrating, 2]), n_bins=4
)
by_feature[["lower", "upper", "n", "coverage"]].round(2)

# %%
# Coverage is too low in almost all bins. It is lowest where the predicted width is
# smallest, and where the third feature is farthest from 0.
#
# 3. Distinguish bias, scale and shape
# ------------------------------------
#
# Divide the errors by the predicted standard deviations. ``bias`` is the mean of
# these standardized errors, and ``factor`` is their standard deviation. ``tails``
# are the quantiles of the standardized errors at the levels 0.05 and 0.95, after
# ``bias`` is subtracted and the result is divided by ``factor``. The tails of a
# normal distribution are -1.64 and 1.64.

z = (y[calibrating] - dist.mean()) / dist.std()
bias, factor = z.mean(), z.std()
tails = np.quantile((z - bias) / factor, [0.05, 0.95])
print(f"bias {bias:.2f}, factor {factor:.2f}, tails {tails.round(2)}")

# %%
# * The predictions are biased if ``bias`` differs from 0 by more than
#   :math:`2 / \sqrt n`, which is 0.06 here.
# * The intervals are too narrow if ``factor`` is far above 1, and too wide if it is
#   far below 1.
# * The errors are skewed if the two ``tails`` have different absolute values. The
#   shape is not normal if both absolute values are far from 1.64.
#
# In this example, the scale is wrong. The next table shows whether the required
# factor is the same for all predicted widths:

from skuq.metrics import reliability_table

table = reliability_table(y[calibrating], dist, n_bins=4)
table.assign(factor=table["rmse"] / table["rmv"]).round(2)

# %%
# The factor depends on the predicted width. In the bin of the smallest predicted
# widths, errors are 1.9 times as large as predicted. In the bin of the largest
# predicted widths, they are 1.3 times as large as predicted. The reliability diagram
# plots the errors against the predicted standard deviations, with more bins. The curve
# is above the diagonal everywhere, and the ratio of the error to the predicted standard
# deviation is largest on the left.

from skuq.displays import ReliabilityDisplay

display = ReliabilityDisplay.from_predictions(y[calibrating], dist, name="Trees")

# %%
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
#       - :class:`~skuq.recalibration.StdScalingRecalibrator` with
#         ``objective="crps"`` or ``robust=True``
#       - 50
#     * - a factor that depends on the predicted width
#       - :class:`~skuq.recalibration.VarianceIsotonicRecalibrator`; if the order of
#         widths is wrong,
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
#     * - bias or shape that depends on the prediction
#       - :class:`~skuq.recalibration.GPBetaRecalibrator`
#       - 500
#     * - calibration at one coverage is sufficient, or width and misses have a cost
#       - :class:`~skuq.recalibration.OperatingPointRecalibrator`
#       - 100
#     * - a guarantee is required
#       - :class:`~skuq.conformal.ConformalRecalibrator`
#       - 9, better 200
#     * - dependence on X, but not on the prediction
#       - none; use a model of the noise (step 6)
#       -
#
# :doc:`/explanation/recalibrator-examples` shows the effect of each recalibrator.
#
# 5. Evaluate the recalibrated model
# ----------------------------------
#
# Evaluate on rows that neither the model nor the recalibrator was fitted to. Results on
# the calibration rows are too good.

from skuq.recalibration import (
    BinnedScalingRecalibrator,
    EmpiricalRecalibrator,
    StdScalingRecalibrator,
)

recalibrators = {
    "StdScaling": StdScalingRecalibrator(),
    "BinnedScaling": BinnedScalingRecalibrator(),
    "Empirical": EmpiricalRecalibrator(),
}
new, y_new = model.predict_dist(X[test]), y[test]
forecasts = {"uncalibrated": new}
for name, recalibrator in recalibrators.items():
    forecasts[name] = recalibrator.fit(dist, y[calibrating]).transform(new)

# %%
# Compute the CRPS, the coverage over all rows, and the coverage in each quarter of the
# rows, from the smallest to the largest predicted width:

import pandas as pd

from skuq.metrics import crps_loss

rows = {}
for name, after in forecasts.items():
    quarters = conditional_coverage(y_new, after, n_bins=4)["coverage"]
    rows[name] = {
        "coverage": prediction_interval_coverage(y_new, after),
        **{f"quarter {k + 1}": share for k, share in enumerate(quarters)},
        "CRPS": crps_loss(y_new, after),
    }
pd.DataFrame(rows).T.round(3)

# %%
# With one factor, the intervals are calibrated only on average. With one factor per
# bin, the coverage is close to nominal in all four quarters. The empirical
# distribution of errors has the smallest CRPS.
#
# The reliability diagram of the test rows shows the same result. With one factor, the
# curve moves to the right, but its slope differs from the slope of the diagonal. With
# one factor per bin, the curve is close to the diagonal.

ax = None
for name in ("uncalibrated", "StdScaling", "BinnedScaling"):
    display = ReliabilityDisplay.from_predictions(
        y_new, forecasts[name], n_bins=8, name=name, ax=ax
    )
    ax = display.ax_

# %%
# ``IsotonicRecalibrator().fit`` raises an error for these forecasts. On 17 % of the
# rows, the target is outside the predictions of all trees. The predicted probability of
# these targets is zero, so a map of probability levels has no effect. Scale the
# distributions first, as below, or use ``EmpiricalRecalibrator``, as above.

from sklearn.pipeline import make_pipeline

from skuq.recalibration import IsotonicRecalibrator

widened = make_pipeline(StdScalingRecalibrator(), IsotonicRecalibrator())
widened.fit(dist, y[calibrating])
round(crps_loss(y_new, widened.transform(new)), 3)

# %%
# 6. Check conditional coverage again
# -----------------------------------
#
# A recalibrator uses only the predictions. The spread of the trees does not depend
# on the third feature, so no recalibrator can correct the differences of coverage
# between values of this feature. Model the noise as a function of X, and
# recalibrate if necessary.

from skuq.regressors import ResidualRegressor

residual = ResidualRegressor(forest, random_state=0)
noise = residual.fit(X[training], y[training]).predict_dist(X[test])

# %%
# Compute the coverage in four bins of the third feature, from the smallest to the
# largest distance from 0:

feature = np.abs(X[test, 2])
scaled, learned = (
    conditional_coverage(y_new, each, feature=feature, n_bins=4)["coverage"]
    .round(2)
    .tolist()
    for each in (forecasts["BinnedScaling"], noise)
)
pd.DataFrame({"BinnedScaling": scaled, "model of the noise": learned})

# %%
# From the smallest to the largest distance from 0, the coverage of the recalibrated
# forest decreases by nearly 20 percentage points. With the model of the noise, the
# coverage is between 86 % and 96 % in all four bins:

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot([1, 2, 3, 4], scaled, "o-", label="BinnedScaling")
ax.plot([1, 2, 3, 4], learned, "s-", label="model of the noise")
ax.axhline(0.9, color="0.3", linestyle="--", label="nominal")
ax.set(xlabel="quarter of |third feature|", ylabel="coverage of 90 % intervals")
ax.set_xticks([1, 2, 3, 4])
legend = ax.legend(frameon=False)

# %%
# If a guarantee is required
# --------------------------
#
# The coverage of the methods above is approximate. If you need a guarantee of 90 %
# coverage, use :class:`~skuq.conformal.ConformalRecalibrator` or
# :class:`~skuq.conformal.ConformalRegressor` as the last step, after the best
# available model of the noise. See :doc:`/how-to/conformal`.

from skuq.conformal import ConformalRecalibrator

recalibrator = ConformalRecalibrator(group_by=4).fit(dist, y[calibrating])
conformal = recalibrator.transform(new)
by_group = conditional_coverage(y_new, conformal, n_bins=4)["coverage"]
by_group = by_group.round(2).tolist()
by_group
