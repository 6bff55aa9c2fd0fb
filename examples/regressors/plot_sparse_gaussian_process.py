"""
A Gaussian process for many rows: SparseGaussianProcessRegressor
================================================================

:class:`~skuq.regressors.SparseGaussianProcessRegressor` approximates a Gaussian process with a few inducing
points. This example draws 2000 noisy values of the arctangent, and fits the model to the rows that are not
between -1 and 1. The uncertainty of the function increases in this gap, but the noise does not.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.datasets import make_wibbeke
from skuq.regressors import SparseGaussianProcessRegressor

X, y = make_wibbeke("arctan", 2000, noise=0.3, random_state=0)
observed = np.abs(X[:, 0]) > 1

model = SparseGaussianProcessRegressor(20, kernel="matern32", random_state=0).fit(
    X[observed], y[observed]
)
grid = np.linspace(-12, 12, 200)
dist = model.predict_dist(grid[:, np.newaxis])
epistemic = dist.epistemic().std()
print(f"standard deviation of the noise {model.noise_scale_:.2f}")
print("of the function, at 3, 0 and 12:", np.interp([3, 0, 12], grid, epistemic).round(2))

_, (top, bottom) = plt.subplots(2, 1, figsize=(5.6, 4.6), sharex=True, layout="constrained")
top.plot(X[observed, 0], y[observed], ".", color="0.5", markersize=1)
top.fill_between(grid, *dist.interval(0.9).T, color="C0", alpha=0.4, label="90 % of new rows")
top.set(ylabel="y")
top.legend()
bottom.plot(grid, epistemic, color="C3")
bottom.set(xlabel="x", ylabel="epistemic std", ylim=(0, None))
plt.show()

# %%
# Within the data, the epistemic standard deviation is 0.02. It increases to 0.08 in the gap and to 0.57 at
# 12. The estimated standard deviation of the noise is 0.31 everywhere, and the true standard deviation of the
# noise is 0.32.
