"""
Quick start: search and compare on real data
============================================

This page predicts the strength of concrete, in MPa, from its mix and age. It shows the complete workflow.
Read the :doc:`tutorial </tutorials/getting_started>` first; it explains each step. ``make demo`` runs this
page in a checkout.

A distribution for a random forest
----------------------------------

:class:`~skuq.regressors.UncertaintyRegressor` adds predictive distributions to the forest:
"""

from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_concrete

X, y = load_concrete(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
forest = RandomForestRegressor(20, min_samples_leaf=3, random_state=0)
model = UncertaintyRegressor(forest, cv=3, random_state=0).fit(X, y)
print("90 % intervals of the first test rows (MPa):")
print(model.predict_interval(X_test[:3], coverage=0.9).round(1))

# %%
# A search over models and recalibrators
# --------------------------------------
#
# The wrapper is a scikit-learn estimator, and a recalibrator is a step of a pipeline. One grid contains the
# parameters of both, and the search selects the candidate with the lowest CRPS. ``UncertaintyRegressor``
# already calibrates on out-of-fold errors, so a recalibrator may not improve the CRPS.
# ``IdentityRecalibrator`` is the candidate without recalibration.
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skuq import get_scorer
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator

pipeline = Pipeline([("model", model), ("recalibrator", IdentityRecalibrator())])
grid = {
    "model__estimator": [LinearRegression(), forest],
    "recalibrator": [IdentityRecalibrator(), IsotonicRecalibrator()],
}
search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_crps"), error_score="raise", cv=2)
search.fit(X, y)
print("Best candidate:", *search.best_params_.values(), sep="\n")

# %%
# Comparison on new rows
# ----------------------
#
# Compare the selected model with linear regression with normal errors, on rows that neither the models nor
# the search have used. The CRPS is in MPa; smaller is better.
from skuq import metrics, predict_dist

linear = BayesianRidge().fit(X, y)
forecasts = {"linear": predict_dist(linear, X_test), "selected": predict_dist(search, X_test)}
for name, dist in forecasts.items():
    coverage = metrics.prediction_interval_coverage(y_test, dist)
    crps, width = metrics.crps_loss(y_test, dist), metrics.mean_interval_width(y_test, dist)
    print(f"{name}: CRPS {crps:.2f} MPa, 90 % intervals {width:.1f} MPa wide cover {coverage:.1%}")

# %%
# The 90 % intervals of both models cover 92 % of the 412 rows. The standard error is 1.5 %, so both are near
# 90 %. The intervals of the selected model are half as wide. It is a linear model whose errors are corrected
# as a function of the features. A recalibrator does not improve it.
#
# Calibration curves
# ------------------
#
# The curve is the share of observations below each predicted quantile. The curve of a calibrated model
# follows the diagonal.
from skuq.displays import CalibrationCurveDisplay, IntervalDisplay, PredictionBandDisplay

ax = None
for name, dist in forecasts.items():
    ax = CalibrationCurveDisplay.from_predictions(y_test, dist, name=name, ax=ax).ax_

# %%
# Intervals of individual rows
# ----------------------------
#
# The rows are in the order of the observed value. Observations outside their interval are marked.
display = IntervalDisplay.from_predictions(
    y_test, forecasts["selected"], target_name="strength (MPa)"
)

# %%
# The band around the prediction
# ------------------------------
display = PredictionBandDisplay.from_predictions(
    y_test, forecasts["selected"], target_name="strength (MPa)"
)
# sphinx_gallery_thumbnail_number = 3
