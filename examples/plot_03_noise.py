"""
Heteroscedastic noise
=====================

With heteroscedastic noise, intervals of constant width are calibrated only on average. The methods of
:class:`~skuq.regressors.UncertaintyRegressor` model the noise in different ways; all use the same gradient
boosting model.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

from skuq import UncertaintyRegressor
from skuq.displays import PredictionBandDisplay
from skuq.metrics import crps_loss, interval_score_loss, prediction_interval_coverage

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 6.0, size=(2000, 1))
y = np.sin(X[:, 0]) + (0.05 + 0.15 * X[:, 0]) * rng.standard_normal(2000)
X_train, X_test, y_train, y_test = X[:1000], X[1000:], y[:1000], y[1000:]

# %%
# "bootstrap" adds noise to the spread of the members, homoscedastic by default; "residual" models the scale
# of the errors; "quantile" fits each quantile separately.
boosting = GradientBoostingRegressor(n_estimators=40, max_depth=2, random_state=0)
methods = {
    "bootstrap": {"n_estimators": 20},
    "bootstrap, heteroscedastic": {"n_estimators": 20, "noise": "heteroscedastic"},
    "residual": {},
    "quantile": {},
}

figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), sharex=True, sharey=True, layout="constrained")
low, high = X_test[:, 0] < 2, X_test[:, 0] > 4
print("method                      CRPS   interval score   coverage of 90 %:  all   x < 2   x > 4")
for (name, options), ax in zip(methods.items(), axes.flat, strict=True):
    model = UncertaintyRegressor(boosting, name.split(",")[0], method_params=options, random_state=0)
    dist = model.fit(X_train, y_train).predict_dist(X_test)
    parts = [prediction_interval_coverage(y_test[part], dist[part]) for part in (slice(None), low, high)]
    scores = crps_loss(y_test, dist), interval_score_loss(y_test, dist)
    print(f"{name:26s}{scores[0]:6.3f} {scores[1]:16.3f}", *(f"{share:8.0%}" for share in parts), sep="   ")
    PredictionBandDisplay.from_predictions(
        y_test, dist, x=X_test[:, 0], coverage=[0.5, 0.9], x_name="x", target_name="y", name=name, ax=ax
    )

os.makedirs("plots", exist_ok=True)
figure.savefig("plots/noise.png", dpi=120)
