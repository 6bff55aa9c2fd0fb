"""
Compare two models
==================

The complete procedure, from the split to the reported result.
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
# They must not be used for fitting, for model selection or for recalibration. Both
# models must be evaluated on the *same* rows.

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

# %%
# Use cross-validation on small data sets:
# :func:`~skuq.model_selection.cross_val_predict_dist` returns one out-of-fold
# forecast per row.
#
# 2. Choose the metric in advance
# -------------------------------
#
# Decide by one proper score, the CRPS unless there is a reason for another
# (:doc:`/how-to/choose_a_metric`). Other metrics are reported only.
#
# 3. Test the paired difference
# -----------------------------

from skuq.metrics import paired_permutation_test

test = paired_permutation_test(
    y_test, forecasts["spline"], forecasts["trees"], "crps", random_state=0
)
test.values, test.difference, test.p_value  # 0.227 and 0.238, -0.011, 0.001

# %%
# The test swaps the two forecasts of each row at random, so the variation between
# rows cancels. Do not compare two intervals instead: below they overlap, 0.217 to
# 0.238 and 0.229 to 0.251, and the difference is significant
# (:doc:`/explanation/significance`).
#
# For a one-sided test choose the direction in advance: ``alternative="less"`` tests
# whether the first has the smaller value.
#
# 4. Report the size of the difference
# ------------------------------------
#
# A p-value is not an effect size. The skill relative to climatology is a
# percentage, with an interval:

from skuq.metrics import bootstrap_interval

skill = {
    name: bootstrap_interval(
        y_test, dist, "crpss", options={"y_train": y_train}, random_state=0
    )
    for name, dist in forecasts.items()
}
{
    name: (round(s.low, 2), round(s.value, 2), round(s.high, 2))
    for name, s in skill.items()
}

# %%
# 5. Check the calibration of both
# --------------------------------

from skuq.metrics import uncertainty_report

report = uncertainty_report(
    y_test,
    forecasts,
    metrics=["crps", "nll", "mace", "ence", "picp", "sharpness"],
    random_state=0,
)
print(report)

# %%
# Its table, without the interpretation that follows it for each model:
#
# .. code-block:: text
#
#     Metric     spline                    trees                     Best
#     CRPS       0.227* 0.217 to 0.238     0.238  0.229 to 0.251     lower, 0
#     NLL        0.522* 0.480 to 0.574     0.571  0.539 to 0.623     lower
#     MACE       0.0203* 0.0125 to 0.0277  0.0301  0.0207 to 0.0388  lower, 0
#     ENCE       15.3 %  10.4 to 18.4 %    11.9 %* 8.1 to 14.1 %     lower, 0 %
#     PICP       91.6 %  89.8 to 93.2 %    93.9 %  92.6 to 95.3 %    90 %
#     Sharpness  0.422  0.422 to 0.422     0.480  0.478 to 0.482
#
# The trees have the better ENCE, and are worse by both proper scores. This does not
# change the decision of step 2, but indicates a deficiency: the predicted width of
# the spline model is nearly constant, while the noise depends on the second
# feature.
#
# Compare with the columns "calibrated_low" and "calibrated_high" of the DataFrame
# before concluding that a model is miscalibrated, and check
# ``conditional_coverage`` before concluding that it is calibrated:

from skuq.metrics import conditional_coverage

report.loc["ence", ["value", "calibrated_low", "calibrated_high"]]
by_second = {
    name: conditional_coverage(
        y_test, dist, feature=np.abs(X_test[:, 1]), n_bins=4
    )["coverage"]
    for name, dist in forecasts.items()
}
by_second = {
    name: coverage.round(2).tolist() for name, coverage in by_second.items()
}
by_second  # {'spline': [1.0, 0.96, 0.87, 0.84], 'trees': [1.0, 0.96, 0.92, 0.88]}

# %%
# Both overcover where the noise is small, and the spline model undercovers where it
# is large. Marginal coverage does not show this.
#
# A miscalibrated model with the better CRPS can be :doc:`recalibrated
# </how-to/recalibrate>`. Use training rows, and compare again.
#
# 6. Report the result
# --------------------

sentence = (
    f"CRPS {test.values[0]:.3f} (spline) against {test.values[1]:.3f} (trees) on {len(y_test)} held-out rows, "
    f"difference {test.difference:.3f}, paired permutation test p = {test.p_value:.3f}."
)

# %%
# Common mistakes
# ---------------
#
# * **Choosing the metric after the fact.** Of twenty-eight metrics, some favour any
#   given model.
# * **Tuning one model only.** The difference is then due to tuning.
# * **Recalibrating on the test rows.** All calibration metrics are then optimistic.
# * **Dependent rows.** In time series and repeated measurements the p-value is far
#   too small: :doc:`/explanation/significance` quantifies this, and describes the
#   test by blocks.
# * **Reporting the best of many.** Test the selected model on rows not used for the
#   selection.
# * **Different rows.** The test checks that two forecasts have the same number of
#   rows, but cannot check that they are the same rows.
