"""
An epistemic part in closed form: LastLayerLaplaceRegressor
===========================================================

:class:`~skuq.neural.LastLayerLaplaceRegressor` trains a plain network and computes the posterior of its last
layer exactly. The epistemic uncertainty increases far from the data. In this example, the data are 600 noisy
values of the arctangent, without the rows between -2 and 2.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.datasets import make_wibbeke
from skuq.neural import LastLayerLaplaceRegressor

X, y = make_wibbeke("arctan", 600, noise=0.3, random_state=0)
X, y = X[np.abs(X[:, 0]) > 2], y[np.abs(X[:, 0]) > 2]
model = LastLayerLaplaceRegressor(max_epochs=60, random_state=0).fit(X, y)

grid = np.linspace(-20, 20, 200)
dist = model.predict_dist(grid[:, np.newaxis])
epistemic = dist.epistemic().std()
print(
    "epistemic standard deviation at 4, 0 and 20:",
    np.interp([4, 0, 20], grid, epistemic).round(2),
)

_, (top, bottom) = plt.subplots(2, 1, figsize=(5.6, 4.6), sharex=True, layout="constrained")
top.plot(X[:, 0], y, ".", color="0.4", markersize=2)
top.fill_between(grid, *dist.interval(0.9).T, alpha=0.35, label="90 % of new rows")
top.set(ylabel="y")
top.legend()
bottom.plot(grid, epistemic, color="C3")
bottom.set(xlabel="x", ylabel="epistemic std", ylim=(0, None))
plt.show()

# %%
# The epistemic standard deviation is 0.04 within the data, 0.10 in the middle of the gap, and 0.61 at 20. The
# band for new rows widens accordingly.
