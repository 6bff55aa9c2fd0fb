"""
For which forecasts is a quantile wrong? QuantileReliabilityDisplay
===================================================================

:class:`~skuq.displays.QuantileReliabilityDisplay` compares a forecast quantile with the quantile of the
targets that have this forecast. Isotonic regression estimates the quantile of these targets without bins. The
curve of a calibrated quantile is near the diagonal. If the curve is above the diagonal, the targets are
larger than forecast.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_abalone
from skuq.displays import QuantileReliabilityDisplay
from skuq.distributions import Normal
from skuq.evaluation import score_decomposition

X, y = load_abalone(return_X_y=True)
X = X[:, 1:].astype(float)  # without the column of the sex
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0)
varying = (
    UncertaintyRegressor(forest, cv=5, random_state=0).fit(X_train, y_train).predict_dist(X_test)
)
constant = Normal(
    varying.mean(), np.std(y_test - varying.mean())
)  # one standard deviation for all rows
forecasts = {"varying spread": varying, "constant spread": constant}

_, axes = plt.subplots(1, 2, figsize=(10.4, 5.2), layout="constrained")
for (name, dist), ax in zip(forecasts.items(), axes, strict=True):
    QuantileReliabilityDisplay.from_predictions(
        y_test, dist, levels=0.9, unit="rings", name=name, ax=ax
    )
    parts = score_decomposition(y_test, dist, score="pinball", levels=0.9, random_state=0)
    print(
        f"{name}: miscalibration {parts.miscalibration:.3f}, limit {parts.miscalibration_limit:.3f}"
    )
plt.show()

# %%
# The target is a number of rings, so the curve consists of steps. With a varying spread, the curve is inside
# the consistency band, the range of the curves of calibrated forecasts. With a constant spread, the quantile
# is too high for young abalones and too low for old ones: the curve leaves the band on both sides, and the
# miscalibration is more than twice the limit for calibrated forecasts.
