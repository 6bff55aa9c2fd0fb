"""
Select models by CRPS
=====================

:func:`~skuq.metrics.get_scorer` returns a scikit-learn scorer for a metric. The
scorer calls :func:`~skuq.prediction.predict_dist`, so it works for an estimator, a
pipeline, a search within a search, or a ``TransformedTargetRegressor``. This page
selects models with one metric, with several metrics, and under constraints. It also
selects a recalibrator.

The data on this page have 60 features and heteroscedastic noise. Two of the features
are relevant.
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
# Compared with a search for the lowest squared error, only the argument ``scoring``
# changes:

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
# ``set_callbacks(ProgressBar())`` shows the progress of the search
# (:ref:`progress-of-a-fit`).
#
# The plot shows the CRPS of all candidates. The CRPS is smallest with the two
# relevant features. The two models have about the same CRPS. For both,
# ``UncertaintyRegressor`` learns the distribution of the errors as a function of X.

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
# Follow two rules.
#
# **Set** ``error_score="raise"``. A candidate without a predictive distribution
# then raises an error. By default, the search issues a warning and gives such a
# candidate the score NaN. If all scores are NaN, the search selects the first
# candidate. :func:`~skuq.prediction.supports_dist` returns whether an estimator
# supports predictive distributions:

from skuq import supports_dist

print("LinearRegression", supports_dist(LinearRegression()))
print("BayesianRidge", supports_dist(BayesianRidge()))

# %%
# **Put supervised preprocessing inside the wrapper.** A feature selector that uses y
# belongs inside the wrapper, as in ``inner`` above, and not before it. See
# :doc:`/explanation/out-of-sample-calibration` for the effect on coverage.
#
# Several metrics
# ---------------
#
# :func:`~skuq.metrics.scorers` returns a dictionary for ``cross_validate`` and
# multi-metric searches. ``predict_dist`` is called only once per candidate and
# fold, for all metrics together.

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
# Names of losses have the prefix ``neg_``, as in scikit-learn, and larger is better.
#
# Selection under constraints
# ---------------------------
#
# Some metrics alone are not suitable for selection. The calibration error ENCE may
# rank a model that ignores X above an informative model, and coverage and width have
# no optimum. ``get_scorer("picp")`` raises an error for this reason. Use these metrics
# as constraints, in their own units:

from skuq.model_selection import refit_best

constrained = GridSearchCV(
    search.estimator,
    {"estimator__selectkbest__k": [1, 2, 10]},
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
# If no candidate satisfies all constraints, the search refits the candidate with the
# smallest relative violation, and issues a ``ConstraintWarning``.
#
# Selection of the recalibrator
# -----------------------------
#
# A recalibrator is a step of a pipeline, so a search can select it.
# :class:`~skuq.recalibration.IdentityRecalibrator` is the candidate without
# recalibration:

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
# Do not use ``"passthrough"`` as the last step: the pipeline would have no
# ``predict``.
