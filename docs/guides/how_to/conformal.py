"""
Intervals with guaranteed coverage
==================================

:class:`~skuq.regressors.ConformalRegressor` adds prediction intervals with
guaranteed marginal coverage to any regressor. For the guarantee and the choice of
the method see :doc:`/explanation/conformal`.
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor

from skuq.metrics import conditional_coverage, prediction_interval_coverage

rng = np.random.default_rng(0)


def draw(size):
    X = pd.DataFrame({"size": size, "shop": rng.random(len(size)) < 0.3})
    noise = (0.2 + 0.3 * size) * np.where(X["shop"], 2.0, 1.0)
    return X, size**2 + noise * rng.standard_normal(len(size))


X, y = draw(rng.uniform(0, 3, size=2000))
X_new, y_new = draw(rng.uniform(0, 3, size=2000))
boosting = GradientBoostingRegressor(n_estimators=40, max_depth=2, random_state=0)

# %%
# Basic usage
# -----------
#
# By default a quarter of the rows is held out for calibration
# (``calibration_size``). Coverage is chosen at prediction time; several can be
# computed in one call.

from skuq.regressors import ConformalRegressor

model = ConformalRegressor(boosting, random_state=0).fit(X, y)
model.predict(X_new)  # (2000,), that of the model
bounds = model.predict_interval(X_new)  # (2000, 2), coverage 0.9
several = model.predict_interval(X_new, [0.5, 0.9, 0.95])  # (2000, 2, 3)
overall = prediction_interval_coverage(y_new, bounds)  # 0.91

# %%
# With few rows, use a method without a held-out set: ``ConformalRegressor(boosting,
# "cv+")``.
#
# Heteroscedastic noise
# ---------------------
#
# ``"split"`` gives intervals of constant width. ``"normalized"`` uses the predicted
# standard deviation of any estimator with a predictive distribution, ``"cqr"`` the
# predicted quantiles:

from skuq.regressors import MultiQuantileRegressor, ResidualRegressor

normalized = ConformalRegressor(
    ResidualRegressor(boosting), "normalized", random_state=0
)
quantiles = GradientBoostingRegressor(
    loss="quantile", n_estimators=40, max_depth=2, random_state=0
)
cqr = ConformalRegressor(
    MultiQuantileRegressor(quantiles, levels=[0.05, 0.5, 0.95]),
    "cqr",
    random_state=0,
)
by_size = {}
for each in (model, normalized.fit(X, y), cqr.fit(X, y)):
    thirds = conditional_coverage(
        y_new, each.predict_interval(X_new), feature=X_new["size"], n_bins=3
    )
    by_size[each.method] = thirds["coverage"].round(2).tolist()
by_size

# %%
# A guarantee for each group
# --------------------------
#
# ``group_by`` is the name of a column of the DataFrame, or a function of X that
# returns labels. Each group is calibrated separately.

grouped = ConformalRegressor(boosting, group_by="shop", random_state=0).fit(X, y)
by_shop = {
    name: conditional_coverage(
        y_new, each.predict_interval(X_new), groups=X_new["shop"]
    )["coverage"]
    for name, each in {"together": model, "by group": grouped}.items()
}
pd.DataFrame(by_shop).round(2)

# %%
# A label of fewer than ``min_group_size`` calibration rows, or none, raises an
# error. With ``rare_groups="pool"`` such rows use the scores of all groups, without
# a guarantee for the group.
#
# Fitted models
# -------------
#
# A frozen estimator is not refitted, and all rows passed to ``fit`` are used for
# calibration; they must not be training rows.

from sklearn.frozen import FrozenEstimator

finished = boosting.fit(X[:1500], y[:1500])
calibrated = ConformalRegressor(FrozenEstimator(finished)).fit(X[1500:], y[1500:])

# %%
# For a model with a predictive distribution, in a Pipeline or frozen, use
# :class:`~skuq.recalibration.ConformalRecalibrator` as the last step:

from skuq import RecalibratedRegressor
from skuq.recalibration import ConformalRecalibrator

finished = ResidualRegressor(boosting, random_state=0).fit(X[:1500], y[:1500])
recalibrator = ConformalRecalibrator(
    group_by=4
)  # four bins of predicted width, each with a guarantee
calibrated = RecalibratedRegressor(FrozenEstimator(finished), recalibrator).fit(
    X[1500:], y[1500:]
)

# %%
# Grouped rows
# ------------
#
# Rows of one patient or machine are dependent. If new rows come from new groups,
# hold out whole groups. The split methods use one split, ``"cv+"`` folds.
# ``groups`` is passed to the splitter only.

from sklearn.model_selection import GroupKFold, GroupShuffleSplit

machine = np.repeat(np.arange(100), 20)
one_split = GroupShuffleSplit(1, test_size=0.25, random_state=0)
split = ConformalRegressor(boosting, cv=one_split).fit(X, y, groups=machine)
folds = ConformalRegressor(boosting, "cv+", cv=GroupKFold(5)).fit(
    X, y, groups=machine
)

# %%
# The effective sample size is then the number of machines, and 25 are few: coverage
# varies more between calibration sets than with 500 independent rows.
#
# Covariate shift
# ---------------
#
# If the distribution of X differs among new rows, and that of y given X does not,
# weight the calibration rows by the ratio of the densities: ``density_ratio``, a
# function of X. It can be estimated by a classifier of old and new rows. Targets of
# the new rows are not needed.

from sklearn.linear_model import LogisticRegression

X_large, y_large = draw(3 * rng.beta(4, 1, size=2000))
is_new = np.repeat([0, 1], [len(X), len(X_large)])
classifier = LogisticRegression().fit(pd.concat([X, X_large])[["size"]], is_new)


def density_ratio(X):
    probability = classifier.predict_proba(X[["size"]])[:, 1]
    return probability / (1 - probability)


shifted = ConformalRegressor(
    boosting, density_ratio=density_ratio, random_state=0
).fit(X, y)
ignored, weighted = (
    prediction_interval_coverage(y_large, each.predict_interval(X_large))
    for each in (model, shifted)
)
ignored, weighted  # 0.83 and 0.91

# %%
# Time series and drift
# ---------------------
#
# Calibrate on rows after the training rows: ``cv`` accepts one pair of index
# arrays. Then pass observations to ``partial_fit``; it increases the target
# coverage after a miss and decreases it otherwise, and adds the new errors to the
# calibration set. Here the noise grows by 80 % after row 900:

X_time, y_time = draw(rng.uniform(0, 3, size=1500))
later = np.arange(1500) >= 900
y_time[later] += 0.8 * (y_time - X_time["size"] ** 2)[later]

past, recent = np.arange(0, 500), np.arange(500, 800)
sequence = ConformalRegressor(
    boosting, cv=[(past, recent)], window=300, random_state=0
)
sequence.fit(X_time[:800], y_time[:800])
fixed = sequence.predict_interval(X_time[900:])

adaptive = []
for start in range(800, 1500, 20):
    rows = slice(start, start + 20)  # 20 rows are predicted, then observed
    adaptive.append(sequence.predict_interval(X_time[rows]))
    sequence.partial_fit(X_time[rows], y_time[rows])
adaptive = np.concatenate(adaptive)[100:]
without, with_feedback = (
    prediction_interval_coverage(y_time[900:], b) for b in (fixed, adaptive)
)
without, with_feedback  # 0.73 and 0.91

# %%
# The model itself is not refitted. ``gamma`` is the step size of the target
# coverage; under any drift, the miss rate over T rows differs from the nominal one
# by at most about 1 / (``gamma`` T). ``window`` limits the calibration set to
# recent errors. To satisfy the guarantee under any drift, intervals are
# occasionally infinite, or a single point; the larger ``gamma``, the more often.
