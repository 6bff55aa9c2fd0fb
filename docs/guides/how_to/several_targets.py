"""
Predict several targets together
================================

:class:`~skuq.multivariate.MultiOutputUncertaintyRegressor` fits one regressor per target,
and estimates the dependence between their errors. The dependence matters for every
question about more than one target: the sum of several loads, the probability that two
thresholds are exceeded, or the forecast of one target when another is already known.

The data on this page are the loads of three districts. The errors of the districts are
positively correlated, because the same unobserved weather affects all districts.
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

rng = np.random.default_rng(0)


def draw(n):
    X = pd.DataFrame(
        {"temperature": rng.uniform(-5, 25, n), "workday": rng.random(n) < 0.7}
    )
    mean = (
        60
        - X[["temperature"]].to_numpy() * [1.0, 0.8, 0.5]
        + 10 * X[["workday"]].to_numpy()
    )
    weather = rng.standard_normal((n, 1))
    own = rng.standard_normal((n, 3))
    loads = mean + 4 * (np.sqrt(0.7) * weather + np.sqrt(0.3) * own)
    return X, pd.DataFrame(loads, columns=["north", "center", "south"])


X, y = draw(500)
X_new, y_new = draw(500)

# %%
# Fit and predict
# ---------------
#
# The estimator is any regressor, or a list with one regressor per target. Regressors
# that are not from skuq are wrapped in :class:`~skuq.regressors.UncertaintyRegressor`.
# The names of the targets come from the DataFrame.
# ``set_callbacks(ProgressBar())`` shows the progress of the fit
# (:ref:`progress-of-a-fit`).

from skuq.multivariate import MultiOutputUncertaintyRegressor

model = MultiOutputUncertaintyRegressor(LinearRegression(), random_state=0).fit(
    X, y
)
dist = model.predict_dist(X_new)
dist.marginal("north").interval(0.9)[:2].round(1)

# %%
# The result is a :class:`~skuq.distributions.JointDistribution`. Its marginals are
# exactly the distributions that the regressors predict. Metrics, recalibrators and
# displays for one target raise an error for a joint distribution. Pass a marginal
# instead, or the distribution of a function of the targets.

dist.corr()[0].round(2)

# %%
# The distribution of a sum
# -------------------------
#
# ``linear`` returns the distribution of a weighted sum of the targets. With independent
# targets, the intervals of the total load would be too narrow:

from skuq.metrics import prediction_interval_coverage

total = y_new.sum(axis=1)
independent = MultiOutputUncertaintyRegressor(
    LinearRegression(), dependence="independent", random_state=0
).fit(X, y)
coverages = {
    name: prediction_interval_coverage(total, joint.linear([1, 1, 1]).interval(0.9))
    for name, joint in {
        "joint": dist,
        "independent": independent.predict_dist(X_new),
    }.items()
}
coverages

# %%
# The distribution of the sum is univariate, so all metrics, displays and reports accept
# it. ``apply`` returns the distribution of any other function of the targets, such as
# the largest load:

largest = dist.apply(lambda loads: loads.max(axis=-1))
largest.quantile(0.95)[:3].round(1)

# %%
# The probability of an event
# ---------------------------
#
# An event is a function of the targets that returns booleans. This code computes the
# probability that the loads of two districts exceed 70 at the same time:

both = dist.probability(lambda loads: (loads[..., 0] > 70) & (loads[..., 1] > 70))
separate = independent.predict_dist(X_new).probability(
    lambda loads: (loads[..., 0] > 70) & (loads[..., 1] > 70)
)
observed = ((y_new["north"] > 70) & (y_new["center"] > 70)).mean()
{
    "joint": both.mean().round(3),
    "independent": separate.mean().round(3),
    "observed": observed,
}

# %%
# A target that is known later
# ----------------------------
#
# If the load of one district is known before the other loads, ``condition`` updates the
# forecasts of the other loads. Pass NaN for the unknown targets. If the target is
# always known in advance, use it as a feature instead: a regressor then learns its
# effect, and is often more accurate.

from skuq.metrics import crps_loss

known = y_new.copy()
known[["center", "south"]] = np.nan
updated = dist.condition(known)
crps = {
    "before": crps_loss(y_new["south"], dist.marginal("south")),
    "after": crps_loss(y_new["south"], updated.marginal("south")),
}
pd.Series(crps).round(2)

# %%
# Intervals for all targets at once
# ---------------------------------
#
# If each target has its own 90 % interval, all three targets are inside their intervals
# in less than 90 % of the rows. ``simultaneous=True`` widens the intervals, so that all
# three targets are inside with a probability of 90 %. The estimated dependence
# determines the widths:

bounds = model.predict_interval(X_new, 0.9, simultaneous=True)
inside = (bounds[:, 0] <= y_new) & (y_new <= bounds[:, 1])
float(inside.all(axis=1).mean())

# %%
# :class:`~skuq.multivariate.ConformalRegionRegressor` guarantees this coverage. It
# predicts boxes or ellipsoids. Ellipsoids have a smaller volume. The calibration uses
# one score per row, which is computed from all targets. For a finite region with a
# coverage of 90 %, at least 9 calibration rows are necessary.

from skuq.multivariate import ConformalRegionRegressor

volumes = {}
for shape in ("box", "ellipsoid"):
    conformal = ConformalRegionRegressor(
        LinearRegression(), shape, random_state=0
    ).fit(X, y)
    region = conformal.predict_region(X_new, coverage=0.9)
    volumes[shape] = {
        "coverage": region.contains(y_new).mean(),
        "volume": region.volume().mean(),
    }
pd.DataFrame(volumes).round(2)

# %%
# Choose the dependence
# ---------------------
#
# * ``"empirical"``, the default, reuses the joint ranks of the training rows. It makes
#   no assumption about the form of the dependence.
# * ``"gaussian"`` is a normal copula. Use it with fewer than 200 rows, or if you need
#   ``logpdf``.
# * With ``"conditional"``, the dependence may vary with x. If there is no evidence that
#   it varies, the result is the same as with ``"empirical"``. This option requires 300
#   rows.
# * ``"independent"`` is a reference for comparisons.
#
# :class:`~skuq.neural.DeepEnsembleRegressor` accepts several targets too. It trains one
# ensemble, whose networks predict the means and a covariance matrix that depends on x.
# :doc:`/how-to/networks` has an example, and :doc:`/explanation/several-targets`
# compares both estimators.
#
# :func:`~skuq.multivariate.joint_report` compares a forecast with a forecast that has the
# same marginals but independent targets:

from skuq.multivariate import joint_report

joint_report(y_new, dist)

# %%
# The dependence has a small effect on the energy score, and a large effect on the
# variogram score. Searches use the scorers ``"neg_energy_score"`` and
# ``"neg_variogram_score"``, or the CRPS of a sum:

from sklearn.model_selection import GridSearchCV

from skuq import get_scorer

search = GridSearchCV(
    MultiOutputUncertaintyRegressor(LinearRegression(), random_state=0),
    {"dependence": ["empirical", "independent"]},
    scoring=get_scorer("neg_variogram_score"),
    cv=2,
    error_score="raise",
).fit(X, y)
search.best_params_

# %%
# Missing targets
# ---------------
#
# NaN in y is a missing target. Each regressor is fitted to the rows in which its target
# is not missing. The dependence is estimated from complete rows, or from all pairs of
# targets if fewer than 200 rows are complete.

incomplete = y.copy()
incomplete.loc[:99, "south"] = np.nan
incomplete.loc[80:149, "center"] = np.nan
partial = MultiOutputUncertaintyRegressor(LinearRegression(), random_state=0).fit(
    X, incomplete
)
partial.correlation_.round(2)
