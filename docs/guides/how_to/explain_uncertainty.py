"""
Explain the uncertainty
=======================

Which columns make the intervals wide? The tools of scikit-learn and SHAP explain
``predict``, which is the mean. This page explains the width of the intervals. In the
data on this page, the first column determines the mean of the target, and the second
column determines the noise. The other columns have no effect:
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
# any function of the distribution. A ``FrozenEstimator`` keeps the fitted model
# unchanged:

from sklearn.frozen import FrozenEstimator

from skuq.regressors import FunctionalRegressor

std = FunctionalRegressor(FrozenEstimator(model), "std")
upper = FunctionalRegressor(FrozenEstimator(model), "quantile", levels=0.95)
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
# Do not use partial dependence for correlated columns. It changes one column and keeps
# the others, so it evaluates the model at combinations that do not occur. For
# correlated columns, compute the coverage and the width in groups of a column instead
# (:doc:`/how-to/conditional_coverage`).
#
# For SHAP, pass the prediction to a model-agnostic explainer, such as
# ``shap.PermutationExplainer(std.predict, X_test[:50])``.
#
# Importance for the width
# ------------------------
#
# The permutation importance of a column is the decrease in R² when the values of the
# column are permuted. In this example, the targets of R² are the predicted widths, so
# no observed targets are required. The code uses the logarithm of the standard
# deviation. Otherwise, a few rows with large noise would dominate the result:

from sklearn.inspection import permutation_importance


def log_std(dist):
    return np.log(dist.std())


log_width = FunctionalRegressor(FrozenEstimator(model), log_std)
options = {"n_repeats": 5, "random_state": 0}
by_width = permutation_importance(
    log_width, X_test, log_width.predict(X_test), **options
)

# %%
# Importance for the CRPS
# -----------------------
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
# For the width, the column "noise" is the most important. For the CRPS, the column
# "mean" is the most important. Both results are right, but they answer different
# questions. The CRPS depends mostly on the location: a mean that is wrong by two
# standard deviations almost triples the CRPS. A standard deviation that is too large by
# a factor of two increases the CRPS by 16 %. A standard deviation that is too small by
# a factor of two increases it by 8 %:

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
# Small errors in the width hardly change the CRPS. The CRPS is a proper score, so its
# expectation is minimal at the correct width. The importance for the CRPS answers
# "which columns does the forecast need?". The importance for the width answers "which
# columns make the forecast uncertain?".
