"""
The total of several targets
============================

The loads of three districts have correlated errors, because the same unobserved weather affects all
districts. :class:`~skuq.multivariate.MultiOutputUncertaintyRegressor` predicts their joint distribution. With
independent targets, the distribution of the total would be too narrow.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skuq.metrics import prediction_interval_coverage
from skuq.multivariate import MultiOutputUncertaintyRegressor
from skuq.regressors import LeastSquaresRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-5, 25, size=(1000, 1))
weather, own = rng.standard_normal((1000, 1)), rng.standard_normal((1000, 3))
loads = 60 - X * [1.0, 0.8, 0.5] + 4 * (np.sqrt(0.8) * weather + np.sqrt(0.2) * own)
y = pd.DataFrame(loads, columns=["north", "center", "south"])
train, test = slice(0, 500), slice(500, None)
total = y[test].sum(axis=1)

joint = {}
for dependence in ("empirical", "independent"):
    model = MultiOutputUncertaintyRegressor(LeastSquaresRegressor(), dependence=dependence)
    joint[dependence] = model.fit(X[train], y[train]).predict_dist(X[test])

# %%
# Both forecasts have the same distribution for each district. The 90 % intervals for the total have this
# coverage:
sums = {name: dist.linear([1, 1, 1]) for name, dist in joint.items()}
for name, dist in sums.items():
    print(name, round(prediction_interval_coverage(total, dist.interval(0.9)), 3))

# %%
# The points of the joint distribution of one row, and the forecasts of its total:
figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.2), layout="constrained")
for (name, dist), color in zip(joint.items(), ["C0", "C1"], strict=True):
    points = dist[[0]].sample(500, random_state=0)[0]
    axes[0].scatter(points[:, 0], points[:, 1], s=4, color=color, alpha=0.6, label=name)
    grid = np.linspace(80, 230, 300)
    axes[1].plot(grid, [sums[name][[0]].cdf([value])[0] for value in grid], color, label=name)
axes[0].set(xlabel="Load in the north", ylabel="Load in the center")
axes[1].set(xlabel="Total load", ylabel="Probability of at most this load")
axes[0].legend()
