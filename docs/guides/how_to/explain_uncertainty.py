"""
Explain the uncertainty
=======================

Which columns make the intervals wide? The tools of scikit-learn and SHAP explain
``predict``, which is the mean. This page explains the width. In the data, the first
column determines the mean, the second column the noise, and the others nothing:
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from skuq.regressors import ResidualRegressor

rng = np.random.default_rng(0)
X = pd.DataFrame(
    rng.standard_normal((2000, 4)), columns=["mean", "noise", "c", "d"]
)
y = 2 * X["mean"] + np.exp(1.2 * X["noise"] - 0.5) * rng.standard_normal(2000)
X_test, y_test = X[1000:], y[1000:]
model = ResidualRegressor(LinearRegression(), random_state=0).fit(
    X[:1000], y[:1000]
)

# %%
# The width as a prediction
# -------------------------
#
# :class:`~skuq.regressors.FunctionalRegressor` returns a functional of the distribution
# as its prediction: the standard deviation, a quantile, the width of an interval, or
# any function of the distribution. A ``FrozenEstimator`` keeps the fitted model:

from sklearn.frozen import FrozenEstimator

from skuq.regressors import FunctionalRegressor

std = FunctionalRegressor(FrozenEstimator(model), "std")
upper = FunctionalRegressor(FrozenEstimator(model), "quantile", level=0.95)
std.predict(X_test[:3]).round(2)

# %%
# Partial dependence shows how the standard deviation and the quantile depend on a
# column:

import matplotlib.pyplot as plt
from sklearn.inspection import PartialDependenceDisplay

figure, axes = plt.subplots(2, 2, figsize=(6.5, 4.5), layout="constrained")
for row, explained, name in zip(
    axes, [std, upper], ["std", "95 % quantile"], strict=True
):
    PartialDependenceDisplay.from_estimator(
        explained, X_test, ["mean", "noise"], grid_resolution=10, ax=row
    )
    for ax in row:
        ax.set_ylabel(name)

# %%
# Correlated columns are a trap: partial dependence replaces the values of one column,
# and evaluates the model where no rows are. For these, use the observed coverage and
# width in groups of a column (:doc:`/how-to/conditional_coverage`).
#
# For SHAP, pass the prediction to a model-agnostic explainer, such as
# ``shap.PermutationExplainer(std.predict, X_test[:50])``.
#
# Importance for the width
# ------------------------
#
# The importance of a column is the loss of R² if the column is permuted. The targets
# are the predictions themselves, so no observed targets are required. The logarithm
# prevents that few rows with large noise dominate:

from sklearn.inspection import permutation_importance


def log_std(dist):
    return np.log(dist.std())


log_width = FunctionalRegressor(FrozenEstimator(model), log_std)
options = {"n_repeats": 5, "random_state": 0}
by_width = permutation_importance(
    log_width, X_test, log_width.predict(X_test), **options
)

# %%
# Why the importance for the CRPS does not name the noise
# -------------------------------------------------------
#
# A scorer of skuq gives the importance of each column for the CRPS of the forecast:

from skuq import get_scorer

by_crps = permutation_importance(
    model, X_test, y_test, scoring=get_scorer("neg_crps"), **options
)
importances = pd.DataFrame(
    {"log std": by_width.importances_mean, "CRPS": by_crps.importances_mean},
    X.columns,
)
importances.round(2)

# %%
# The first column of the table names the noise, and the second one names the mean. Both
# are right, but they answer different questions. The CRPS needs the right location
# first: a mean that is wrong by two standard deviations almost triples the CRPS. A
# standard deviation that is wrong by a factor of two, too large or too small, increases
# it by 16 or 8 percent:

from skuq.distributions import Normal

targets = Normal(0.0, 1.0).quantile(np.linspace(0.0005, 0.9995, 1000))[0]


def mean_crps(bias, factor):
    return Normal(np.full(targets.size, bias), factor).crps(targets).mean()


increases = {
    "mean + 2": mean_crps(2.0, 1.0),
    "std * 2": mean_crps(0.0, 2.0),
    "std / 2": mean_crps(0.0, 0.5),
}
relative = pd.Series(increases) / mean_crps(0.0, 1.0)
relative.round(2)

# %%
# The CRPS is flat around the right width, because it is a proper score: small errors of
# the width have an effect of second order. The importance for the CRPS answers "which
# columns does the forecast need?". The importance for the width answers "which columns
# make the forecast uncertain?".
