"""
Exact intervals of a linear model: LeastSquaresRegressor
========================================================

For a linear model with Gaussian noise of constant variance, the intervals of
:class:`~skuq.regressors.LeastSquaresRegressor` are exact at every sample size. This example fits the model to
15 patients. It plots a band for new patients and a narrower band for the mean.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from skuq.metrics import prediction_interval_coverage
from skuq.regressors import LeastSquaresRegressor

X, y = load_diabetes(return_X_y=True, scaled=False)
X = X[:, [2]]  # body mass index
X_train, y_train = X[:15], y[:15]

model = LeastSquaresRegressor().fit(X_train, y_train)
print(
    f"coverage of 427 others: {prediction_interval_coverage(y[15:], model.predict_dist(X[15:])):.1%}"
)

grid = np.linspace(18, 40, 100)
dist = model.predict_dist(grid[:, np.newaxis])
_, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
ax.fill_between(grid, *dist.interval(0.9).T, color="C0", alpha=0.25, label="90 % of new patients")
ax.fill_between(
    grid, *dist.epistemic().interval(0.9).T, color="C3", alpha=0.45, label="90 % for the mean"
)
ax.plot(X[15:, 0], y[15:], ".", color="0.7", markersize=4, label="other patients", zorder=0)
ax.plot(X_train[:, 0], y_train, "o", color="0.1", label="15 training rows")
ax.set(xlabel="body mass index (kg/m²)", ylabel="disease progression", xlim=(18, 40))
ax.legend(loc="upper left", fontsize="small")
plt.show()

# %%
# The red band for the mean is narrowest near the average body mass index of the 15 rows, and wide beyond
# their range. The blue band also includes the noise. It covers 93 % of the other 427 patients.
