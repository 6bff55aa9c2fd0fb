"""
An ensemble from one training: SWARegressor
===========================================

:class:`~skuq.neural.SWARegressor` trains one network, continues the training at a constant learning rate, and
keeps snapshots of the weights. Training this ensemble takes only slightly longer than training one network.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.datasets import load_auto_mpg
from skuq.metrics import prediction_interval_coverage
from skuq.neural import SWARegressor

X, y = load_auto_mpg(return_X_y=True)
X = X[:, [2]] / 1000  # weight in 1000 pounds, miles per gallon
model = SWARegressor(max_epochs=100, random_state=0).fit(X[:300], y[:300])
coverage = prediction_interval_coverage(y[300:], model.predict_dist(X[300:]))
members = model.predict_members(X)
print(f"{members.shape[1]} snapshots, coverage of 90 % intervals {coverage:.0%}")

grid = np.linspace(1.5, 6, 200)[:, np.newaxis]
_, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
ax.fill_between(grid[:, 0], *model.predict_interval(grid).T, alpha=0.2, label="90 % of new cars")
ax.plot(grid, model.predict_members(grid), color="C3", linewidth=0.7)
ax.plot([], [], color="C3", label="snapshots")
ax.plot(X[:, 0], y, ".", color="0.3", markersize=3)
ax.set(xlabel="weight (1000 lb)", ylabel="miles per gallon")
ax.legend()
plt.show()

# %%
# The 20 snapshots differ most at both ends of the range, and nearly agree in the middle. The snapshots differ
# less than independently trained networks. The band covers 90 % of the test rows. Most of the width of the
# band is due to the noise.
