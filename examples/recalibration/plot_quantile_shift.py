"""
A shift for each quantile: QuantileShiftRecalibrator
====================================================

On new rows, the quantiles of boosting are too close together.
:class:`~skuq.recalibration.QuantileShiftRecalibrator` shifts each quantile based on the out-of-fold errors at
its level, and estimates the tails beyond the outermost quantiles.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from skuq.datasets import load_abalone
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.recalibration import IsotonicRecalibrator, QuantileShiftRecalibrator
from skuq.regressors import MultiQuantileRegressor, RecalibratedRegressor

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=700, random_state=0)
boosting = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, max_iter=60, random_state=0)
quantiles = MultiQuantileRegressor(boosting, [0.05, 0.25, 0.5, 0.75, 0.95])
models = {
    "as fitted": quantiles,
    "shifted": RecalibratedRegressor(quantiles, QuantileShiftRecalibrator(), random_state=0),
    "levels mapped": RecalibratedRegressor(quantiles, IsotonicRecalibrator(), random_state=0),
}

nominal = np.array([0.5, 0.8, 0.9, 0.95, 0.99])
_, (left, right) = plt.subplots(ncols=2, figsize=(8.4, 3.8), layout="constrained")
for name, model in models.items():
    dist = model.fit(X_train, y_train).predict_dist(X_test)
    covered = [prediction_interval_coverage(y_test, dist, coverage=c) for c in nominal]
    width = [np.diff(dist.interval(c)).mean() for c in nominal]
    left.plot(nominal, covered, "o-", label=name)
    right.plot(nominal, width, "o-", label=name)
    print(f"{name:14s} CRPS {crps_loss(y_test, dist):.2f} rings", end="")
    print(
        f", coverage {covered[2]:.2f} and {covered[4]:.2f}, width {width[2]:.0f} and {width[4]:.0f}"
    )
left.plot([0.5, 1], [0.5, 1], "k--", linewidth=0.9)
left.set(xlabel="nominal coverage", ylabel="observed coverage")
right.set(xlabel="nominal coverage", ylabel="mean width (rings)", yscale="log")
left.legend()
plt.show()

# %%
# Before recalibration, 90 % intervals cover 76 % of the test rows, and 99 % intervals cover 87 %. The bounds
# of the 99 % intervals are extrapolated. Shifting the quantiles and mapping the probability levels both
# correct the coverage. With the map, 99 % intervals are four times as wide as with the shifts. The reason is
# that the map replaces the level of a bound with a more extreme level. The predicted quantiles are too close
# together, so the more extreme level is far out in the extrapolated tail.
