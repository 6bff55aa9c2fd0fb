"""
Forecasts of counts in a Pipeline: SupportMap
=============================================

:class:`~skuq.recalibration.SupportMap` is the last step of a Pipeline. It restricts each forecast to the
possible values of the target, here the numbers of rings of abalone. All bounds of the intervals are then
integers, and none is negative.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skuq import UncertaintyRegressor, predict_dist
from skuq.datasets import load_abalone
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.recalibration import IsotonicRecalibrator, SupportMap

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
regressor = UncertaintyRegressor(BayesianRidge(), "native", random_state=0)
models = {
    "real numbers": make_pipeline(regressor, IsotonicRecalibrator()),
    "counts": make_pipeline(regressor, IsotonicRecalibrator(), SupportMap("count")),
}
_, axes = plt.subplots(1, 2, figsize=(6.4, 3.6), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    dist = predict_dist(model.fit(X_train, y_train), X_test)
    coverage = prediction_interval_coverage(y_test, dist)
    print(f"{name:12s} CRPS {crps_loss(y_test, dist):.4f}, coverage {coverage:.1%}")
    rows = np.argsort(dist.median())[::60]
    low, high = dist[rows].interval(0.9).T
    ax.vlines(np.arange(len(rows)), low, high, alpha=0.5)
    ax.plot(y_test[rows], ".", color="0.2", markersize=4)
    ax.set(title=name, xlabel="abalone, by predicted median", ylabel="rings")
    ax.label_outer()
plt.show()

# %%
# The recalibrated forecasts of real numbers have a CRPS of 1.166. After the restriction to counts, the CRPS
# is 1.151. The 90 % intervals cover 93 % of the rows instead of 91 %, because the bounds are integers and are
# included in the intervals.
