"""
Intervals with guaranteed coverage
==================================

:class:`~skuq.conformal.ConformalRegressor` adds prediction intervals with
guaranteed coverage to any regressor, including fitted ones (`Fitted models`_). The
guarantee holds for any noise distribution under one condition: the calibration rows and
the new rows must be exchangeable. For example, rows in random order are exchangeable.
The guarantee is *marginal*: it is an average over rows and over calibration sets. The
coverage may be lower for some rows, or with a particular calibration set.
:doc:`/explanation/conformal` explains the guarantee, and
:doc:`/explanation/conformal-methods` compares the methods.

The data on this page have two features, ``size`` and ``shop``. The noise grows with
``size``. For rows with ``shop``, the noise is twice as large.
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor

rng = np.random.default_rng(0)


def draw(size):
    X = pd.DataFrame({"size": size, "shop": rng.random(len(size)) < 0.3})
    noise = (0.2 + 0.3 * size) * np.where(X["shop"], 2.0, 1.0)
    return X, size**2 + noise * rng.standard_normal(len(size))


X, y = draw(rng.uniform(0, 3, size=2000))
X_new, y_new = draw(rng.uniform(0, 3, size=2000))
boosting = GradientBoostingRegressor(n_estimators=40, max_depth=2, random_state=0)
X.head(3).round(2)

# %%
# Basic usage
# -----------
#
# The default method, ``"split"``, holds out a quarter of the rows for calibration
# (``held_out_size``). ``predict_interval`` returns a lower and an upper bound
# per row, and ``predict`` returns the predictions of the wrapped regressor.

from skuq.conformal import ConformalRegressor

model = ConformalRegressor(boosting, random_state=0).fit(X, y)
bounds = model.predict_interval(X_new, coverage=0.9)
bounds[:3].round(2)

# %%
# The coverage on new rows:

from skuq.metrics import prediction_interval_coverage

overall = prediction_interval_coverage(y_new, bounds)
round(overall, 3)

# %%
# The coverage is an argument of ``predict_interval``. With several coverages, the
# result has the shape (rows, 2, coverages).

several = model.predict_interval(X_new, [0.5, 0.9, 0.95])
several.shape

# %%
# With few rows, :class:`~skuq.conformal.CrossConformalRegressor` calibrates on the
# out-of-fold errors of all rows. Its guarantee is weaker: for a nominal coverage of 1 -
# α, the guaranteed coverage is about 1 - 2α. For example, it is about 80 % for a
# nominal coverage of 90 %. In practice, the coverage is close to nominal.
#
# Heteroscedastic noise
# ---------------------
#
# ``"split"`` gives intervals of constant width. ``"normalized"`` divides the errors
# by the predicted standard deviation of any estimator with a predictive
# distribution. ``"cqr"``, conformalized quantile regression, shifts two predicted
# quantiles:

from skuq.regressors import MultiQuantileRegressor, ResidualRegressor

normalized = ConformalRegressor(
    ResidualRegressor(boosting), "normalized", random_state=0
)
quantiles = GradientBoostingRegressor(
    loss="quantile", n_estimators=150, max_depth=2, random_state=0
)
cqr = ConformalRegressor(
    MultiQuantileRegressor(quantiles, levels=[0.05, 0.5, 0.95]),
    "cqr",
    random_state=0,
)
intervals = {
    each.method: each.fit(X, y).predict_interval(X_new)
    for each in (model, normalized, cqr)
}

# %%
# The intervals of ``"split"`` are too wide for small sizes and too narrow for large
# sizes. The widths of ``"normalized"`` depend on the predicted standard deviation,
# and the widths of ``"cqr"`` depend on the predicted quantiles.

import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 3, figsize=(9, 3.4), sharey=True, layout="constrained")
shown = X_new[~X_new["shop"]].sort_values("size").index[::5]
for ax, (method, each) in zip(axes, intervals.items(), strict=True):
    ax.fill_between(X_new["size"][shown], *each[shown].T, alpha=0.3)
    ax.scatter(X_new["size"][shown], y_new[shown], s=4, color="0.3")
    ax.set(title=method, xlabel="size, without shops")
label = axes[0].set_ylabel("y")

# %%
# Coverage in three bins of size, from small to large:

from skuq.metrics import conditional_coverage

by_size = {}
for method, each in intervals.items():
    table = conditional_coverage(y_new, each, feature=X_new["size"], n_bins=3)
    by_size[method] = table["coverage"].round(2).tolist()
by_size

# %%
# A guarantee for each group
# --------------------------
#
# ``group_by`` is the name of a column of the DataFrame, or a function of X that
# returns labels. Each group is calibrated separately.

grouped = ConformalRegressor(boosting, group_by="shop", random_state=0).fit(X, y)

label = X_new["shop"].map({False: "others", True: "shops"})
by_shop = {}
for name, each in {"together": model, "by group": grouped}.items():
    interval = each.predict_interval(X_new)
    table = conditional_coverage(y_new, interval, groups=label)
    by_shop[name] = table["coverage"]
by_shop["standard error"] = table["standard_error"]
pd.DataFrame(by_shop).round(2)

# %%
# If all rows are calibrated together, the coverage is too low for shops and too high
# for all other rows. With calibration by group, both coverages are close to 90 %. They
# are not exactly 90 %, because the guarantee is an average over calibration sets. This
# calibration set contains about 150 shops, and with sets of this size the coverage for
# shops has a standard deviation of 0.02. The new rows add sampling error to the
# coverage in the table.
#
# If a group has fewer than ``min_group_size`` calibration rows, or if a new row
# belongs to an unknown group, skuq raises an error. With ``rare_groups="pool"``, such a
# group uses the scores of all groups instead, and its coverage is not guaranteed.

fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for name, marker in {"together": "o", "by group": "s"}.items():
    ax.plot(by_shop[name], marker, label=name)
ax.axhline(0.9, color="0.3", linestyle="--", label="nominal")
ax.set(xlim=(-0.5, 1.5), ylabel="coverage of 90 % intervals")
legend = ax.legend(frameon=False)

# %%
# Groups that overlap
# -------------------
#
# A row may belong to several groups, for example to the shops and to the large
# buildings. ``basis`` is a list of columns, or a function of X that returns one
# column per group. The coverage is then guaranteed in every group. The columns may also
# contain numbers: the coverage is then also guaranteed on average over rows that are
# weighted by these numbers. Use at least 100 calibration rows per column.


def groups(rows):
    return pd.DataFrame({"shop": rows["shop"], "large": rows["size"] > 0.8})


overlapping = ConformalRegressor(boosting, basis=groups, random_state=0).fit(X, y)

by_group = {}
for name, each in {"together": model, "by basis": overlapping}.items():
    interval = each.predict_interval(X_new)
    inside = pd.Series((interval[:, 0] <= y_new) & (y_new <= interval[:, 1]))
    by_group[name] = {
        "shops": inside[X_new["shop"].to_numpy()].mean(),
        "large": inside[(X_new["size"] > 0.8).to_numpy()].mean(),
        "neither": inside[
            ~(X_new["shop"] | (X_new["size"] > 0.8)).to_numpy()
        ].mean(),
    }
pd.DataFrame(by_group).round(2)

# %%
# Fitted models
# -------------
#
# Wrap a fitted model in scikit-learn's ``FrozenEstimator``, which is never refitted.
# All rows passed to ``fit`` are then calibration rows, so the model must not have been
# trained on them.

from sklearn.frozen import FrozenEstimator

finished = boosting.fit(X[:1500], y[:1500])
calibrated = ConformalRegressor(FrozenEstimator(finished)).fit(X[1500:], y[1500:])
calibrated.predict_interval(X_new)[:3].round(2)

# %%
# :class:`~skuq.conformal.ConformalRecalibrator` calibrates a fitted model with a
# predictive distribution. Its ``group_by`` uses the distributions, not X: with
# ``group_by=4``, the coverage is guaranteed in each of four bins of predicted
# standard deviation.

from skuq import RecalibratedRegressor
from skuq.conformal import ConformalRecalibrator

finished = ResidualRegressor(boosting, random_state=0).fit(X[:1500], y[:1500])
recalibrator = ConformalRecalibrator(group_by=4)
calibrated = RecalibratedRegressor(FrozenEstimator(finished), recalibrator)
calibrated.fit(X[1500:], y[1500:])
calibrated.predict_dist(X_new).interval(0.9)[:3].round(2)

# %%
# Dependent rows
# --------------
#
# Rows of one patient or machine are dependent. If new rows come from new machines,
# hold out whole machines: pass a splitter with one split to ``ConformalRegressor``,
# or a splitter with several folds to ``CrossConformalRegressor``. ``fit`` passes its
# argument ``groups`` to the splitter. This argument has nothing to do with the
# parameter ``group_by``.

from sklearn.model_selection import GroupKFold, GroupShuffleSplit

from skuq.conformal import CrossConformalRegressor

machine = np.repeat(np.arange(100), 20)
one_split = GroupShuffleSplit(1, test_size=0.25, random_state=0)
split = ConformalRegressor(boosting, cv=one_split).fit(X, y, groups=machine)
folds = CrossConformalRegressor(boosting, cv=GroupKFold(5))
folds.fit(X, y, groups=machine)
print(f"calibration rows {split.n_calibration_:.0f}, {folds.n_calibration_:.0f}")

# %%
# The effective sample size is then the number of machines. The coverage therefore
# varies more between calibration sets of 25 machines than between calibration sets of
# 500 independent rows.
#
# Covariate shift
# ---------------
#
# If new rows have a different distribution of X but the same distribution of y given X,
# weight the calibration rows by the ratio of the densities. Pass the ratio as
# ``density_ratio``, a function of X. A classifier that separates old from new rows can
# estimate the ratio without the targets of the new rows. In this example, most new rows
# have a large ``size``:

from sklearn.linear_model import LogisticRegression

X_large, y_large = draw(3 * rng.beta(4, 1, size=2000))
is_new = np.repeat([0, 1], [len(X), len(X_large)])
classifier = LogisticRegression().fit(pd.concat([X, X_large])[["size"]], is_new)


def density_ratio(X):
    probability = classifier.predict_proba(X[["size"]])[:, 1]
    return probability / (1 - probability)


shifted = ConformalRegressor(boosting, density_ratio=density_ratio, random_state=0)
shifted.fit(X, y)
ignored, weighted = (
    prediction_interval_coverage(y_large, each.predict_interval(X_large))
    for each in (model, shifted)
)
print(f"coverage without weights {ignored:.2f}, with weights {weighted:.2f}")

# %%
# Time series and drift
# ---------------------
#
# Calibrate on rows that are later than the training rows: ``cv`` accepts one pair of
# index arrays. Then pass new observations to ``partial_fit``. ``partial_fit`` increases
# the target coverage after a miss and decreases the target coverage after a covered
# target. It also adds the new errors to the calibration set. In this example, the noise
# increases by 80 % at row 900.

X_time, y_time = draw(rng.uniform(0, 3, size=1500))
later = np.arange(1500) >= 900
y_time[later] += 0.8 * (y_time - X_time["size"] ** 2)[later]

# %%
# The model is trained on the first 500 rows and calibrated on the next 300. This code
# predicts intervals without updates:

past, recent = np.arange(0, 500), np.arange(500, 800)
sequence = ConformalRegressor(
    boosting, cv=[(past, recent)], window=300, random_state=0
)
sequence.fit(X_time[:800], y_time[:800])
fixed = sequence.predict_interval(X_time[800:])

# %%
# With updates, the model predicts 20 rows, ``partial_fit`` receives their targets, and
# so on:

adaptive = []
for start in range(800, 1500, 20):
    rows = slice(start, start + 20)
    adaptive.append(sequence.predict_interval(X_time[rows]))
    sequence.partial_fit(X_time[rows], y_time[rows])
adaptive = np.concatenate(adaptive)

without, with_feedback = (
    prediction_interval_coverage(y_time[900:], each[100:])
    for each in (fixed, adaptive)
)
print(f"coverage without updates {without:.2f}, with updates {with_feedback:.2f}")

# %%
# After the change, the coverage drops. Without updates, the coverage stays low. With
# updates, it recovers within two hundred rows.

observed = y_time[800:]
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for name, each in {"without updates": fixed, "with updates": adaptive}.items():
    inside = (each[:, 0] <= observed) & (observed <= each[:, 1])
    recent_share = pd.Series(inside, index=np.arange(800, 1500)).rolling(100).mean()
    ax.plot(recent_share, label=name)
ax.axhline(0.9, color="0.3", linestyle="--", label="nominal")
ax.axvline(900, color="0.3", linestyle=":", label="change of the noise")
ax.set(xlabel="row", ylabel="coverage of the last 100 rows")
legend = ax.legend(frameon=False)

# %%
# ``partial_fit`` does not refit the wrapped model. The parameter ``gamma`` is the
# step size of the target coverage. Under any drift, the miss rate over T rows
# differs from the nominal miss rate by at most about 1 / (``gamma`` T). ``window``
# limits the calibration set to recent errors. To keep the bound on the miss rate,
# an interval must sometimes be infinite or a single point. A larger ``gamma`` makes
# such intervals more frequent.
#
# The parameter ``adapt`` selects the method. ``"aci"`` has the fixed step ``gamma``.
# ``"dtaci"`` weights eight steps by their recent loss, so you do not have to choose a
# step. In this example, the noise goes through six levels, and the intervals of both
# methods follow it:

X_long, y_long = draw(rng.uniform(0, 3, size=2300))
level = np.repeat([1, 2, 0.5, 1.5, 1, 3], 250)
y_long[800:] += (level - 1) * (y_long - X_long["size"] ** 2)[800:]
adapted = {}
for adapt in ("aci", "dtaci"):
    sequence.set_params(adapt=adapt).fit(X_long[:800], y_long[:800])
    bounds = []
    for start in range(800, 2300, 20):
        rows = slice(start, start + 20)
        bounds.append(sequence.predict_interval(X_long[rows]))
        sequence.partial_fit(X_long[rows], y_long[rows])
    bounds = np.concatenate(bounds)
    covered = prediction_interval_coverage(y_long[800:], bounds)
    adapted[adapt] = (covered, np.isinf(bounds).mean())
    print(f"{adapt:8s} coverage {covered:.2f}, infinite {adapted[adapt][1]:.1%}")

# %%
# The distributions of ``predict_dist`` use the new errors, but not the adapted target
# coverage. Scorers evaluate these distributions. To evaluate adapted intervals, pass
# the bounds to a metric. :class:`~skuq.recalibration.OnlineRecalibrator` adapts the
# whole distribution, and :doc:`/how-to/sequences` shows several horizons and late
# targets.
