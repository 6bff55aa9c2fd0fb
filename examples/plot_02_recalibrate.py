"""
A finished model whose 90 % intervals cover 78 %
================================================

A model is in use and cannot be trained again, and its intervals do not hold what they promise. Rows
it has not seen are enough to mend it: ``FrozenEstimator`` keeps the model as it is, and
``RecalibratedRegressor`` learns only the recalibration.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from skuq import RecalibratedRegressor, predict_dist
from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import crps_loss, mean_interval_width, prediction_interval_coverage
from skuq.recalibration import EmpiricalRecalibrator, StdScalingRecalibrator
from skuq.regressors import BootstrapRegressor

# %%
# The model takes the spread of a forest's trees for its uncertainty, without the noise around them.
X, y = make_friedman1(n_samples=2400, noise=2.0, random_state=0)
train, held_out, test = np.split(np.arange(2400), [1000, 1400])
forest = RandomForestRegressor(60, min_samples_leaf=10, random_state=0)
finished = BootstrapRegressor(forest, noise=None, random_state=0).fit(X[train], y[train])

# %%
# Two recalibrators are fitted to 400 rows and evaluated on 1000 others.
models = {"the model itself": finished}
for recalibrator in (StdScalingRecalibrator(), EmpiricalRecalibrator()):
    mended = RecalibratedRegressor(FrozenEstimator(finished), recalibrator).fit(X[held_out], y[held_out])
    models[f"+ {type(recalibrator).__name__}"] = mended

_, axes = plt.subplots(figsize=(5.6, 5.6), layout="constrained")
print("90 % intervals on 1000 new rows       coverage   width    CRPS")
for name, model in models.items():
    dist = predict_dist(model, X[test])
    covered = prediction_interval_coverage(y[test], dist)
    print(
        f"{name:36s} {covered:9.1%} {mean_interval_width(y[test], dist):7.2f} {crps_loss(y[test], dist):7.3f}"
    )
    CalibrationCurveDisplay.from_predictions(y[test], dist, kind="interval", name=name, ax=axes)

# %%
# One factor widens all distributions about their means; the shape of the residuals corrects bias and
# skewness too. ``IsotonicRecalibrator`` would raise an error: beyond the smallest and largest prediction of
# the trees there is no probability that a map of levels could move.
os.makedirs("plots", exist_ok=True)
axes.figure.savefig("plots/recalibrate.png", dpi=120)
