"""
Diagnose intervals that are too narrow
======================================

Six steps for 90 % intervals that cover 70 %, in this order. The example is a
random forest with the spread of its trees as predicted uncertainty. The target
depends on the first two features, and its noise on the third.
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
# Coverage is only meaningful on held-out rows; on training rows it is higher.

from skuq.metrics import prediction_interval_coverage

in_sample = prediction_interval_coverage(
    y[training], model.predict_dist(X[training])
)
held_out = prediction_interval_coverage(y[calibrating], dist)
print(f"training rows {in_sample:.2f}, held-out rows {held_out:.2f}")

# %%
# Two standard errors of the coverage of a calibrated model:

two_errors = 2 * np.sqrt(0.9 * 0.1 / len(calibrating))
print(f"{two_errors:.3f}")

# %%
# The observed coverage is much farther from 0.9, so the deviation is significant.
# Without held-out rows,
# :func:`~skuq.model_selection.cross_val_predict_dist` returns an out-of-fold
# distribution for every row.
#
# 2. Measure conditional coverage
# -------------------------------
#
# By predicted width, in four bins from narrow to wide:

from skuq.metrics import conditional_coverage

by_width = conditional_coverage(y[calibrating], dist, n_bins=4)
by_width[["lower", "upper", "n", "coverage"]].round(2)

# %%
# By every feature that may be relevant, here the distance of the third from 0:

by_feature = conditional_coverage(
    y[calibrating], dist, feature=np.abs(X[calibrating, 2]), n_bins=4
)
by_feature[["lower", "upper", "n", "coverage"]].round(2)

# %%
# Coverage is too low in almost all bins, somewhat lower where the predicted width
# is small, and much lower where the third feature is far from 0.
#
# 3. Distinguish bias, scale and shape
# ------------------------------------
#
# Divide the errors by the predicted standard deviations. "Tails" are the
# quantiles of levels 0.05 and 0.95 after removing bias and scale, -1.64 and 1.64
# for a normal distribution.

z = (y[calibrating] - dist.mean()) / dist.std()
bias, factor = z.mean(), z.std()
tails = np.quantile((z - bias) / factor, [0.05, 0.95])
print(f"bias {bias:.2f}, factor {factor:.2f}, tails {tails.round(2)}")

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
table.assign(factor=table["rmse"] / table["rmv"]).round(2)

# %%
# It is not: errors are 1.9 times as large as predicted in the bin of smallest
# predicted width, and 1.3 times in that of the largest. The reliability diagram
# shows the same with more bins: errors are above the diagonal everywhere, and in
# proportion farthest on the left.

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
# Coverage, also from the quarter of smallest to that of largest predicted width,
# and CRPS:

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
# One factor is calibrated on average only. One factor per bin is close to nominal
# in all four quarters. The empirical distribution of errors has the smallest CRPS.
#
# The reliability diagram of the new rows shows the same: one factor moves the
# curve to the right, one per bin turns it onto the diagonal.

ax = None
for name in ("uncalibrated", "StdScaling", "BinnedScaling"):
    display = ReliabilityDisplay.from_predictions(
        y_new, forecasts[name], n_bins=8, name=name, ax=ax
    )
    ax = display.ax_

# %%
# ``IsotonicRecalibrator().fit`` raises an error here: on 17 % of the rows the
# target lies outside the predictions of all trees, where the predicted probability
# is zero and a map of levels has no effect. Scale first, or use
# ``EmpiricalRecalibrator``, as above.

from sklearn.pipeline import make_pipeline

from skuq.recalibration import IsotonicRecalibrator

widened = make_pipeline(StdScalingRecalibrator(), IsotonicRecalibrator())
widened.fit(dist, y[calibrating])
round(crps_loss(y_new, widened.transform(new)), 3)

# %%
# 6. Check conditional coverage again
# -----------------------------------
#
# By the third feature, on which the spread of the forest does not depend, no
# recalibrator has an effect: it depends on the predictions only. Model the noise as
# a function of X, and recalibrate if necessary.

from skuq.regressors import ResidualRegressor

residual = ResidualRegressor(forest, random_state=0)
noise = residual.fit(X[training], y[training]).predict_dist(X[test])

# %%
# Coverage in four bins of the third feature, from the smallest distance from 0 to
# the largest:

feature = np.abs(X[test, 2])
scaled, learned = (
    conditional_coverage(y_new, each, feature=feature, n_bins=4)["coverage"]
    .round(2)
    .tolist()
    for each in (forecasts["BinnedScaling"], noise)
)
pd.DataFrame({"BinnedScaling": scaled, "model of the noise": learned})

# %%
# The coverage of the recalibrated model decreases with that distance by nearly 20
# %; with the model of the noise it stays between 87 and 93 %:

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
# The methods above calibrate approximately. If 90 % coverage must be guaranteed,
# use :class:`~skuq.recalibration.ConformalRecalibrator` or
# :class:`~skuq.regressors.ConformalRegressor` as the last step
# (:doc:`/how-to/conformal`), with the best available model of the noise:

from skuq.recalibration import ConformalRecalibrator

recalibrator = ConformalRecalibrator(group_by=4).fit(dist, y[calibrating])
conformal = recalibrator.transform(new)
by_group = conditional_coverage(y_new, conformal, n_bins=4)["coverage"]
by_group = by_group.round(2).tolist()
by_group
