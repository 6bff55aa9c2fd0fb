"""
Quantiles at several levels: MultiQuantileRegressor
===================================================

The age of abalone, measured by the number of rings in the shell, is skewed: a few abalone are much older than
most others of the same weight. :class:`~skuq.regressors.MultiQuantileRegressor` fits one quantile model per
level. The quantiles define a distribution without assuming a shape.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

from skuq.datasets import load_abalone
from skuq.regressors import MultiQuantileRegressor

X, y = load_abalone(return_X_y=True)
X = 200 * X[:, [7]]  # weight of the shell in grams

boosting = GradientBoostingRegressor(loss="quantile", n_estimators=30, max_depth=2, random_state=0)
model = MultiQuantileRegressor(boosting, levels=[0.05, 0.25, 0.5, 0.75, 0.95]).fit(X, y)

grid = np.linspace(0, 120, 200)
quantiles = model.predict_dist(grid[:, np.newaxis]).quantile([0.05, 0.25, 0.5, 0.75, 0.95])
print("quantiles at 20 g:", quantiles[np.argmin(abs(grid - 20))].round(1))
print("quantiles at 80 g:", quantiles[np.argmin(abs(grid - 80))].round(1))

_, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
ax.fill_between(grid, quantiles[:, 0], quantiles[:, 4], alpha=0.2, label="5 % to 95 %")
ax.fill_between(
    grid, quantiles[:, 1], quantiles[:, 3], color="C0", alpha=0.35, label="25 % to 75 %"
)
ax.plot(grid, quantiles[:, 2], label="median")
ax.plot(X[:, 0], y, ".", color="0.3", markersize=3)
ax.set(xlabel="weight of the shell (g)", ylabel="rings", xlim=(0, 120))
ax.legend(loc="upper left")
plt.show()

# %%
# The quantiles spread out as the weight increases: from 20 g to 80 g, the median increases from 7.7 to 10.9
# rings, and the 95 % quantile increases from 11.5 to 18.0 rings. The distribution is skewed: the upper tail,
# from the median to the 95 % quantile, is two to three times as long as the lower tail.
