"""
Predict counts, zeros and bounded targets
=========================================

If the target is a count, an amount of rain or a share, some real numbers are
impossible. A forecast that ignores this has intervals with impossible values. This page
shows a method for each kind of target and compares its score with the score of the true
distribution. The true distribution is known, because the data are simulated.

================================  ========================================================
target                            method
================================  ========================================================
real numbers                      no option
counts                            ``support="count"``
positive, few zeros               ``support="positive"``, or a regressor of the logarithm
bounded, such as shares           ``support=(0, 1)``
ratings and other integer scales  ``support=range(1, 6)``
many exact zeros                  :class:`~skuq.regressors.HurdleRegressor`
measurements with a limit         ``support=(None, limit)``
================================  ========================================================
"""

import numpy as np
import pandas as pd
from scipy import special, stats
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from skuq.distributions import Hurdle, Normal, ScipyDistribution
from skuq.regressors import HurdleRegressor, UncertaintyRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(1600, 4))
train, test = slice(None, 800), slice(800, None)
signal = 0.6 * np.sin(2 * X[:, 0]) + 0.4 * X[:, 1]
boosting = HistGradientBoostingRegressor(
    max_iter=40, max_leaf_nodes=8, random_state=0
)

# %%
# 1. Five targets
# ---------------
#
# The true distribution of each target differs between rows. Two targets are zero in 75
# % of the rows. For the first of these targets, the probability of zero is a smooth
# function of the columns. For the second, it changes sharply:

amount = ScipyDistribution(stats.gamma(2.0, scale=np.exp(0.5 + signal)))
truth = {
    "counts": ScipyDistribution(stats.poisson(np.exp(0.8 + signal))),
    "shares": ScipyDistribution(
        stats.beta(4 * special.expit(signal), 4 * special.expit(-signal))
    ),
    "meter up to 2": Normal(1.2 + signal, 0.6).clip(0.0, 2.0),
    "smooth zeros": Hurdle(special.expit(1.4 + X[:, 2]), amount),
    "sharp zeros": Hurdle(special.expit(2.0 + 5 * signal), amount),
}
target = {
    name: dist.sample(1, random_state=1)[:, 0] for name, dist in truth.items()
}
support = {
    "counts": "count",
    "shares": (0, 1),
    "meter up to 2": (0, 2),
    "smooth zeros": "positive",
    "sharp zeros": "positive",
}

# %%
# 2. A score for each method
# --------------------------
#
# The table has three columns: the CRPS of each method divided by the CRPS of the true
# distribution, the coverage of 90 % intervals, and the share of rows whose interval has
# an impossible bound. In the code, ``support=(None, None)`` gives the same forecasts as
# the default, but without the warning about negative forecasts of counts.


def evaluate(model, name):
    y, possible = target[name], truth[name]
    model.fit(X[train], y[train])
    dist = model.predict_dist(X[test])
    bounds = dist.interval(0.9)
    low, high = bounds.T
    impossible = (low < possible[test].ppf(0.0)) | (high > possible[test].ppf(1.0))
    if possible.has_mass:
        impossible |= (bounds != bounds.round()).any(axis=1)
    return {
        "CRPS / truth": dist.crps(y[test]).mean()
        / possible[test].crps(y[test]).mean(),
        "coverage": np.mean((low <= y[test]) & (y[test] <= high)),
        "impossible": np.mean(impossible),
    }


rows = {}
for name, values in support.items():
    for label, each in (("default", (None, None)), ("support", values)):
        model = UncertaintyRegressor(boosting, support=each, random_state=0)
        rows[name, label] = evaluate(model, name)
classifier = HistGradientBoostingClassifier(
    max_iter=40, max_leaf_nodes=8, random_state=0
)
hurdle = HurdleRegressor(
    classifier, UncertaintyRegressor(boosting, random_state=0), random_state=0
)
for name in ("smooth zeros", "sharp zeros"):
    rows[name, "hurdle"] = evaluate(hurdle, name)
table = pd.DataFrame(rows).T
table.round(3)

# %%
# Without a support, 30 % of the intervals of shares and nearly all intervals of counts
# have an impossible bound. The support removes these bounds and improves the CRPS.
# Clipping never increases the CRPS of a row. Intervals for counts cover more than 90 %
# of the targets, because their bounds are integers.
#
# If many targets are exactly zero, the hurdle model is better than ``support``. In a
# hurdle model, a classifier predicts the probability of zero, and the regressor is
# fitted only to the other rows. The CRPS of the hurdle model is 1.03 times the CRPS of
# the true distribution for the smooth probability of zero, and 1.05 times for the
# probability that changes sharply.
#
# Plots of intervals show the probability of zero as the thickness of the line at 0:

from skuq.displays import PredictionBandDisplay

_ = PredictionBandDisplay.from_estimator(
    hurdle, X[test], target["sharp zeros"][test], feature=0
)

# %%
# 3. Scores and plots of counts
# -----------------------------
#
# A count has probabilities instead of a density. ``logpmf`` returns the logarithms of
# these probabilities, and :func:`~skuq.metrics.nll_loss` uses them. The rootogram
# compares observed and predicted frequencies:

from skuq.displays import RootogramDisplay
from skuq.metrics import nll_loss

counts = UncertaintyRegressor(boosting, support="count", random_state=0)
dist = counts.fit(X[train], target["counts"][train]).predict_dist(X[test])
log_score = nll_loss(target["counts"][test], dist)
_ = RootogramDisplay.from_predictions(target["counts"][test], dist)

# %%
# 4. Exposure
# -----------
#
# A count is often observed over a time or an area that differs between rows. This time
# or area is called the *exposure*. A policy of two years has more claims than a policy
# of one year with the same risk. Pass the exposure as a column of X. A tree model then
# learns the effect of the exposure from the data:

exposure = rng.uniform(0.2, 3.0, size=1600)
claims = rng.poisson(exposure * np.exp(signal))
table_of_policies = pd.DataFrame(X, columns=list("abcd")).assign(exposure=exposure)
policies = UncertaintyRegressor(boosting, support="count", random_state=0)
policies.fit(table_of_policies[train], claims[train])

# %%
# For a forecast of the claims in one year, set the exposure to 1:

one_year = table_of_policies[test].assign(exposure=1.0)
yearly = policies.predict_dist(one_year)
per_year = yearly.mean()

# %%
# Do not divide the count by the exposure. The resulting rate is not an integer, and its
# noise depends on the exposure: the noise of the rate is smaller if the exposure is
# longer.
