"""
Compare two models
==================

Is the difference between two models significant, and how large is it? This page goes
through the complete procedure, from the split to the reported result.

The two models are a spline with a Bayesian linear model, and bagged trees. The
target is a function of the first feature. The noise increases with the absolute
value of the second feature:
"""

import numpy as np
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from sklearn.tree import DecisionTreeRegressor

from skuq import predict_dist
from skuq.regressors import BootstrapRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(2000, 2))
y = np.sin(2 * X[:, 0]) + (0.2 + 0.2 * np.abs(X[:, 1])) * rng.standard_normal(2000)

# %%
# 1. Hold out test rows
# ---------------------
#
# Do not use the test rows for fitting, for model selection or for recalibration.
# Evaluate both models on the *same* rows.

X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0
)

trees = BaggingRegressor(
    DecisionTreeRegressor(min_samples_leaf=5), n_estimators=50, random_state=0
)
models = {
    "spline": make_pipeline(SplineTransformer(), BayesianRidge()),
    "trees": BootstrapRegressor(trees, random_state=0),
}
forecasts = {
    name: predict_dist(model.fit(X_train, y_train), X_test)
    for name, model in models.items()
}
forecasts

# %%
# Use cross-validation on small data sets:
# :func:`~skuq.model_selection.cross_val_predict_dist` returns one out-of-fold
# forecast per row.
#
# 2. Choose the metric in advance
# -------------------------------
#
# Base the decision on one proper score. Use the CRPS unless you have a reason for
# another score (:doc:`/how-to/choose_a_metric`). Report other metrics, but do not base
# the decision on them.
#
# 3. Test the paired difference
# -----------------------------

from skuq.evaluation import paired_permutation_test

test = paired_permutation_test(
    y_test, forecasts["spline"], forecasts["trees"], "crps", random_state=0
)
print("CRPS", [round(value, 3) for value in test.values])
print("difference", round(test.difference, 3), "p-value", round(test.p_value, 3))

# %%
# The test swaps the two forecasts of randomly chosen rows. It therefore uses only the
# difference between the two scores of a row, which varies less than the scores
# themselves. Do not compare the confidence intervals of the two models instead: in the
# report of step 5, the intervals of the CRPS overlap, although the difference is
# significant (:doc:`/explanation/significance`).
#
# For a one-sided test, choose the direction in advance: ``alternative="less"`` tests
# whether the first model has the smaller value.
#
# 4. Report the size of the difference
# ------------------------------------
#
# A p-value is not an effect size. The skill score is the relative reduction of the CRPS
# compared with :term:`climatology`. The following code computes the skill score with a
# 95 % interval:

from skuq.evaluation import bootstrap_interval

skill = {
    name: bootstrap_interval(
        y_test, dist, "crpss", options={"y_train": y_train}, random_state=0
    )
    for name, dist in forecasts.items()
}
for name, s in skill.items():
    print(f"{name}: {s.value:.2f}, {s.low:.2f} to {s.high:.2f}")

# %%
# 5. Check the calibration of both models
# ---------------------------------------

from skuq.evaluation import uncertainty_report

report = uncertainty_report(
    y_test,
    forecasts,
    metrics=["crps", "nll", "mace", "ence", "picp", "sharpness"],
    random_state=0,
)
report

# %%
# The trees have the better ENCE, but worse values of both proper scores. The decision
# in step 2 is based on the CRPS, so the ENCE does not change it. But the ENCE indicates
# a weakness of the spline model, which the reliability diagram shows. The spline model
# predicts almost the same standard deviation for all rows, although its errors are much
# larger in some bins than in others.

from skuq.displays import ReliabilityDisplay

ax = None
for name, dist in forecasts.items():
    display = ReliabilityDisplay.from_predictions(y_test, dist, name=name, ax=ax)
    ax = display.ax_

# %%
# Before you conclude that a model is miscalibrated, compare its ENCE with the range
# of values of a calibrated model:

report.loc["ence", ["value", "calibrated_low", "calibrated_high"]].round(3)

# %%
# Before you conclude that a model is calibrated, check
# :func:`~skuq.metrics.conditional_coverage`, here in four bins of the absolute
# value of the second feature:

from skuq.metrics import conditional_coverage

second = np.abs(X_test[:, 1])
by_second = {}
for name, dist in forecasts.items():
    table = conditional_coverage(y_test, dist, feature=second, n_bins=4)
    by_second[name] = table["coverage"].round(2).tolist()
by_second

# %%
# Where the noise is small, the coverage of both models is too high. Where the noise is
# large, their coverage is too low. Marginal coverage does not show this.
#
# If the model with the better CRPS is miscalibrated, you can :doc:`recalibrate
# </how-to/recalibrate>` it. Use out-of-fold forecasts of the training rows, and
# compare the models again on the test rows.
#
# 6. Report the result
# --------------------

sentence = (
    f"CRPS {test.values[0]:.3f} (spline) against {test.values[1]:.3f} (trees)\n"
    f"on {len(y_test)} held-out rows, difference {test.difference:.3f},\n"
    f"paired permutation test p = {test.p_value:.3f}."
)
print(sentence)

# %%
# Common mistakes
# ---------------
#
# * **Choosing the metric after seeing the results.** Among thirty metrics, some favor
#   one model and some favor the other.
# * **Tuning only one of the models.** The difference may then come from the tuning.
# * **Recalibrating on the test rows.** All calibration metrics then look too good.
# * **Dependent rows.** In time series and repeated measurements, the p-value is far too
#   small. :doc:`/explanation/significance` quantifies the effect, and describes a test
#   of block means.
# * **Reporting the best of many models.** Test the selected model on rows that were
#   not used for the selection.
# * **Different rows.** The test checks that two forecasts have the same number of
#   rows, but cannot check that they are the same rows.
