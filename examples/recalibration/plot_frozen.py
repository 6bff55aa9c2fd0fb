"""
Recalibration of a model that is already fitted
===============================================

The 90 % intervals of a fitted model cover 78 % of new rows. This example recalibrates the model on held-out
rows without training it again: ``FrozenEstimator`` keeps the model unchanged, and
:class:`~skuq.regressors.RecalibratedRegressor` fits only the recalibrator.
"""

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
# The predicted uncertainty is the spread of the trees of a random forest. It does not include the noise.
X, y = make_friedman1(n_samples=2400, noise=2.0, random_state=0)
train, held_out, test = np.split(np.arange(2400), [1000, 1400])
forest = RandomForestRegressor(60, min_samples_leaf=10, random_state=0)
finished = BootstrapRegressor(forest, noise=None, random_state=0).fit(X[train], y[train])

# %%
# Two recalibrators are fitted to 400 rows and evaluated on 1000 other rows.
models = {"uncalibrated": finished}
for recalibrator in (StdScalingRecalibrator(), EmpiricalRecalibrator()):
    recalibrated = RecalibratedRegressor(FrozenEstimator(finished), recalibrator).fit(
        X[held_out], y[held_out]
    )
    models[f"+ {type(recalibrator).__name__}"] = recalibrated

_, axes = plt.subplots(figsize=(5.6, 5.6), layout="constrained")
print("90 % intervals on 1000 new rows       coverage   width    CRPS")
for name, model in models.items():
    dist = predict_dist(model, X[test])
    covered = prediction_interval_coverage(y[test], dist)
    print(
        f"{name:36s} {covered:9.1%} {mean_interval_width(y[test], dist):7.2f} {crps_loss(y[test], dist):7.3f}"
    )
    CalibrationCurveDisplay.from_predictions(y[test], dist, kind="interval", name=name, ax=axes)
plt.show()

# %%
# :class:`~skuq.recalibration.StdScalingRecalibrator` widens all distributions around their means by the same
# factor. The coverage is then 89 %. :class:`~skuq.recalibration.EmpiricalRecalibrator` uses the empirical
# distribution of the errors. It also corrects the shape and has the smallest CRPS, 1.55.
# :class:`~skuq.recalibration.IsotonicRecalibrator` would raise an error for this model, because many targets
# are outside the predictions of all trees. The predicted probability of these targets is zero, and a map of
# probability levels cannot change a probability of zero.
