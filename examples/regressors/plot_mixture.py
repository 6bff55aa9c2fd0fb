"""
Several models in one forecast: MixtureRegressor
================================================

The best model differs between data sets. :class:`~skuq.regressors.MixtureRegressor` averages the
distributions of several models, with weights that minimize the out-of-fold CRPS.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import predict_dist
from skuq.datasets import load_abalone
from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.regressors import MixtureRegressor, UncertaintyRegressor

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

members = [
    ("linear", BayesianRidge()),
    ("forest", UncertaintyRegressor(RandomForestRegressor(min_samples_leaf=5))),
    ("boosting", UncertaintyRegressor(HistGradientBoostingRegressor(max_iter=50))),
]
pool = MixtureRegressor(members, recalibrator=None, random_state=0).fit(X_train, y_train)
print(pool.weights_.round(2))
print(pool.out_of_fold_crps_.round(3))

# %%
# By default, a recalibrator is fitted to the same out-of-fold forecasts as the weights. The following code
# evaluates three kinds of models on new rows: the members, the mixture without a recalibrator (*pool*), and
# the mixture with the default recalibrator.

recalibrated = MixtureRegressor(members, random_state=0).fit(X_train, y_train)
ax = None
models = {**pool.named_estimators_, "pool": pool, "recalibrated": recalibrated}
for name, model in models.items():
    dist = predict_dist(model, X_test)
    coverage = prediction_interval_coverage(y_test, dist)
    print(f"{name:13s} coverage {coverage:.0%}, CRPS {crps_loss(y_test, dist):.2f}")
    if name in ("pool", "recalibrated"):
        ax = CalibrationCurveDisplay.from_predictions(
            y_test, dist, kind="interval", name=name, ax=ax
        ).ax_
plt.show()

# %%
# The pool is slightly better than the forest, its best member. The 90 % intervals of the pool cover 94 % of
# the observations. They are too wide, because disagreement between the members widens an average of
# distribution functions (:doc:`/explanation/pools`). The recalibrated intervals cover 90 %. Without
# ``estimators``, the members come from :func:`~skuq.regressors.default_estimators`: boosting, a forest, a
# Gaussian process and two ensembles of networks.
