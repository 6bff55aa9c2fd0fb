"""
Select models by CRPS
=====================

:func:`~skuq.metrics.get_scorer` returns a scikit-learn scorer for a metric. It
obtains the predictive distribution from :func:`~skuq.prediction.predict_dist`, so
it supports a bare estimator, a pipeline, a search within a search, or a
``TransformedTargetRegressor``. This page searches over a model, with one metric,
several, and constraints, and over its recalibrator.

Data for this page: 60 features, of which two are relevant, and heteroscedastic
noise.
"""

import numpy as np

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 60))
y = 2 * X[:, 0] + X[:, 1] + np.exp(0.5 * X[:, 0]) * rng.standard_normal(300)
X.shape

# %%
# A search with one metric
# ------------------------
#
# ``scoring`` is the only argument that differs from a search by the squared error:

from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skuq import get_scorer
from skuq.regressors import UncertaintyRegressor

inner = make_pipeline(SelectKBest(f_regression, k=5), LinearRegression())
search = GridSearchCV(
    UncertaintyRegressor(inner, random_state=0),
    {
        "estimator__selectkbest__k": [1, 2, 10, 30, 60],
        "estimator__linearregression": [LinearRegression(), BayesianRidge()],
    },
    scoring=get_scorer("neg_crps"),
    cv=3,
    error_score="raise",
)
search.fit(X, y)
print(f"CRPS {-search.best_score_:.3f}", search.best_params_, sep="\n")

# %%
# The CRPS of all candidates. It is smallest with the two relevant features.
# ``LinearRegression`` is better there, since ``UncertaintyRegressor`` models its
# noise as a function of X; ``BayesianRidge`` has a distribution of its own, of
# constant noise.

import matplotlib.pyplot as plt
import pandas as pd

results = pd.DataFrame(search.cv_results_)
k = results["param_estimator__selectkbest__k"].astype(str)
name = results["param_estimator__linearregression"].astype(str)

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for each in name.unique():
    rows = name == each
    ax.plot(k[rows], -results["mean_test_score"][rows], "o-", label=each)
ax.set(xlabel="number of selected features", ylabel="CRPS, mean of 3 folds")
legend = ax.legend(frameon=False)

# %%
# :func:`~skuq.prediction.predict_dist` returns the distributions of the selected
# model:

from skuq import predict_dist

dist = predict_dist(search, X)
dist.interval(0.9)[:3].round(2)

# %%
# Two details are important.
#
# **Set** ``error_score="raise"``. By default a search turns an exception in the
# scorer into NaN and a warning, and may then select the first candidate. A
# candidate without a predictive distribution should raise an error.
# :func:`~skuq.prediction.supports_dist` checks this in advance:

from skuq import supports_dist

print("LinearRegression", supports_dist(LinearRegression()))
print("BayesianRidge", supports_dist(BayesianRidge()))

# %%
# **Put supervised preprocessing inside the wrapper.** A feature selector that uses
# y belongs inside the wrapped estimator, as ``inner`` above, not in front of it.
# See :doc:`/explanation/out-of-sample-calibration` for the effect on coverage.
#
# Several metrics
# ---------------
#
# :func:`~skuq.metrics.scorers` returns a dictionary for ``cross_validate`` and
# multi-metric searches. All metrics of a candidate share one call of
# ``predict_dist`` per fold.

from sklearn.model_selection import cross_validate

from skuq.metrics import scorers

result = cross_validate(
    search.best_estimator_,
    X,
    y,
    cv=3,
    scoring=scorers("neg_crps", "neg_nll"),
    error_score="raise",
)
for name in ("test_neg_crps", "test_neg_nll"):
    print(name, result[name].round(3))

# %%
# Losses carry the prefix ``neg_``, as in scikit-learn, so that larger is better.
#
# Selection under constraints
# ---------------------------
#
# Some metrics are not suitable for selection alone: the calibration error ENCE
# ranks a model that ignores X above an informative one, and coverage and width have
# no optimum. Use them as constraints, in their own units:

from skuq.model_selection import refit_best

constrained = GridSearchCV(
    search.estimator,
    search.param_grid,
    scoring=scorers("neg_crps", "neg_ence"),
    refit=refit_best("neg_crps", subject_to={"ence": ("<=", 0.5)}),
    cv=3,
    error_score="raise",
)
constrained.fit(X, y)

columns = ["params", "mean_test_neg_crps", "mean_test_neg_ence"]
chosen = pd.DataFrame(constrained.cv_results_).loc[constrained.best_index_, columns]
print(chosen["params"])
print(chosen[columns[1:]].astype(float).round(3).to_string())

# %%
# If no candidate satisfies all constraints, the one with the smallest relative
# violation is refitted, with a ``ConstraintWarning``.
#
# Selection of the recalibrator
# -----------------------------
#
# A recalibrator is a step of a pipeline, and
# :class:`~skuq.recalibration.IdentityRecalibrator` means no recalibration:

from skuq.recalibration import (
    IdentityRecalibrator,
    IsotonicRecalibrator,
    StdScalingRecalibrator,
)

pipeline = make_pipeline(search.best_estimator_, IdentityRecalibrator())
last = GridSearchCV(
    pipeline,
    {
        "identityrecalibrator": [
            IdentityRecalibrator(),
            StdScalingRecalibrator(),
            IsotonicRecalibrator(),
        ]
    },
    scoring=get_scorer("neg_crps"),
    cv=3,
    error_score="raise",
)
last.fit(X, y)
for candidate, score in zip(
    last.cv_results_["params"], last.cv_results_["mean_test_score"], strict=True
):
    print(f"{-score:.4f}", candidate["identityrecalibrator"])

# %%
# Do not use ``"passthrough"``: with it as the last step a pipeline has no
# ``predict``.
