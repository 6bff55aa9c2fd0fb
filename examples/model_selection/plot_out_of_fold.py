"""
Calibration without held-out rows: cross_val_predict_dist
=========================================================

:func:`~skuq.model_selection.cross_val_predict_dist` predicts each row with a model that was fitted without
that row. The calibration curve can then use all rows, which helps if there are few of them. In-sample
predictions are too optimistic.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import prediction_interval_coverage
from skuq.model_selection import cross_val_predict_dist
from skuq.regressors import BootstrapRegressor

X, y = load_diabetes(return_X_y=True)
forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
model = BootstrapRegressor(forest, noise=None, random_state=0)
forecasts = {
    "training rows": model.fit(X, y).predict_dist(X),
    "out of fold": cross_val_predict_dist(model, X, y, cv=5),
}
ax = None
for name, dist in forecasts.items():
    print(f"{name:13s} coverage of 90 % intervals {prediction_interval_coverage(y, dist):.0%}")
    ax = CalibrationCurveDisplay.from_predictions(y, dist, kind="interval", name=name, ax=ax).ax_
plt.show()

# %%
# On its training rows, the forest seems underconfident: 90 % intervals contain 93 % of the targets. Out of
# fold, the forest is overconfident: 90 % intervals contain 78 % of the targets. Only the out-of-fold coverage
# is a valid estimate of the coverage on new rows.
