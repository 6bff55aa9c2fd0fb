"""
Do my intervals cover all kinds of rows?
========================================

Intervals with an average coverage of 90 % may have a much lower coverage for some rows.
This page tests whether the coverage differs between rows, finds rows with low coverage,
and shows two remedies. The data are noise levels of airfoils in a wind tunnel, in
decibels. The model is gradient boosting with conformal intervals of constant width:
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import KFold

from skuq.conformal import ConformalRegressor
from skuq.datasets import load_airfoil

X, y = load_airfoil(return_X_y=True)
columns = ["frequency", "angle", "chord", "velocity", "thickness"]
X = pd.DataFrame(X, columns=columns)

# %%
# The metrics below require many rows on which the model was not trained. With few rows,
# they detect only large differences. Cross-validation gives an interval for each of the
# 1503 rows.


def out_of_fold_intervals(model):
    bounds = np.empty((len(y), 2))
    for train, test in KFold(4, shuffle=True, random_state=0).split(X):
        model.fit(X.iloc[train], y[train])
        bounds[test] = model.predict_interval(X.iloc[test], coverage=0.9)
    return bounds


boosting = GradientBoostingRegressor(n_estimators=50, max_depth=4, random_state=0)
one_width = out_of_fold_intervals(
    ConformalRegressor(boosting, held_out_size=0.4, random_state=0)
)

# %%
# The average coverage is close to nominal:

from skuq.metrics import prediction_interval_coverage

overall = prediction_interval_coverage(y, one_width)
round(overall, 3)

# %%
# 1. Is the coverage the same everywhere?
# ---------------------------------------
#
# :func:`~skuq.evaluation.conditional_coverage_estimate` trains a classifier that
# predicts from X whether an interval contains its target. It compares the
# classifier with a constant prediction of 90 %. If the coverage is 90 % everywhere, the
# classifier cannot be better than the constant, and the error is about zero or slightly
# negative:

from skuq.evaluation import conditional_coverage_estimate

estimate = conditional_coverage_estimate(y, one_width, X, random_state=0)
print(f"error {estimate.error:.4f} +- {estimate.standard_error:.4f}")
print(
    f"too high {estimate.over_coverage:.4f}, too low {estimate.under_coverage:.4f}"
)

# %%
# The error is several standard errors above zero, so the coverage depends on X. The
# error is a mean squared difference from the nominal coverage, so the square root of
# the error is a typical difference:

typical = np.sqrt(estimate.error)
round(typical, 2)

# %%
# :func:`~skuq.metrics.worst_slab_coverage` searches for the slab with the lowest
# coverage, and computes the coverage of the slab on other rows. A slab consists of
# the rows between two parallel planes. The result varies between seeds:

from skuq.metrics import worst_slab_coverage

slabs = [
    worst_slab_coverage(y, one_width, X, random_state=seed) for seed in range(5)
]
np.round(slabs, 2)

# %%
# 2. Which rows have low coverage?
# --------------------------------
#
# The estimate contains the estimated coverage of each row. The following table shows
# the mean of each feature over the rows with low coverage, minus its mean over all
# rows, in units of its standard deviation:

rare = estimate.conditional_coverage < 0.8
profile = (X[rare].mean() - X.mean()) / X.std()
print(f"{rare.mean():.0%} of the rows")
profile.round(1)

# %%
# These rows have a large angle, a low frequency and a short chord. Verify this result
# with the coverage in bins of a feature or in groups, which needs no classifier:

from skuq.metrics import conditional_coverage

by_angle = conditional_coverage(y, one_width, feature=X["angle"], n_bins=4)
by_angle[["lower", "upper", "n", "coverage", "standard_error"]].round(3)

# %%
# 3. A guarantee for groups
# -------------------------
#
# With ``group_by``, each group is calibrated separately (Mondrian conformal
# prediction). The coverage of each group is guaranteed for every model. The
# following example has two groups, low and high frequencies:


def frequency(X):
    return np.where(X["frequency"] < 1500, "low", "high")


by_group = out_of_fold_intervals(
    ConformalRegressor(
        boosting, group_by=frequency, held_out_size=0.4, random_state=0
    )
)
in_groups = {}
for name, bounds in {"one width": one_width, "by group": by_group}.items():
    in_groups[name] = conditional_coverage(y, bounds, groups=frequency(X))[
        "coverage"
    ]
pd.DataFrame(in_groups).round(3)

# %%
# Only the coverage of these groups is guaranteed. Within a group, the coverage
# still depends on the angle, as step 5 shows.
#
# 4. Widths that depend on the noise
# ----------------------------------
#
# Normalized conformal prediction scales the width by a predicted standard
# deviation. If the predicted standard deviation is accurate, the coverage is close
# to nominal in all groups of rows. This is not guaranteed.
# :class:`~skuq.regressors.ResidualRegressor` learns the standard deviation from the
# out-of-fold errors:

from skuq.regressors import ResidualRegressor

noise = ResidualRegressor(boosting, random_state=0)
normalized = out_of_fold_intervals(
    ConformalRegressor(noise, "normalized", held_out_size=0.4, random_state=0)
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
# All three models have nominal coverage on average. Compared with intervals of constant
# width, calibration by group removes a third of the error. Normalization by the
# predicted standard deviation removes nine tenths of the error, and its intervals are
# narrower on average.
#
# * Do not select a model by the conditional coverage error or by worst-slab coverage:
#   even random intervals with 90 % coverage have an error of 0. Use the interval score
#   or the CRPS instead (:doc:`/how-to/choose_a_metric`). In this example, the interval
#   score ranks the three models in the same order. The scorers of the two metrics are
#   ``"neg_ert"`` and ``"wsc"``. Use them only to monitor a search or a deployed model.
# * The estimated error is usually too small, because it includes only the differences
#   that the classifier finds. An error near zero on few rows does not prove that the
#   coverage is the same everywhere.
# * X must be numeric. Encode strings first, for example with a ``ColumnTransformer``.
#   These features need not be the features of the model.
# * For a guarantee within groups *and* widths that depend on the noise, pass ``group_by``
#   to the normalized method (:doc:`/how-to/conformal`).
