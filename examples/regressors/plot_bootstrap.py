"""
Epistemic uncertainty and noise: BootstrapRegressor
===================================================

:class:`~skuq.regressors.BootstrapRegressor` fits the regressor many times, each time to resampled rows. These
fits are called members. The spread of the members is the epistemic uncertainty, which more data would reduce.
The noise is estimated from out-of-bag errors: each row is predicted by the members that were not fitted to
it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skuq.datasets import load_auto_mpg
from skuq.regressors import BootstrapRegressor

X, y = load_auto_mpg(return_X_y=True)
X = X[:, [2]] / 1000  # weight in 1000 pounds, miles per gallon

spline = make_pipeline(SplineTransformer(5), Ridge(0.1))
model = BootstrapRegressor(spline, n_estimators=50, noise="heteroscedastic", random_state=0).fit(
    X, y
)
grid = np.linspace(1.6, 5.1, 100)
dist = model.predict_dist(grid[:, np.newaxis])
for part in (dist.epistemic(), dist.aleatoric()):
    print("standard deviation at 2000, 3000 and 5000 lb:", part.std()[[11, 40, 97]].round(2))

_, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
ax.plot(X[:, 0], y, ".", color="0.3", markersize=3)
ax.fill_between(grid, *dist.interval(0.9).T, color="C0", alpha=0.25, label="90 % of new cars")
ax.fill_between(
    grid, *dist.epistemic().interval(0.9).T, color="C3", alpha=0.5, label="90 % for the mean"
)
ax.set(xlabel="weight (1000 lb)", ylabel="miles per gallon")
ax.legend()
plt.show()

# %%
# The standard deviation of the mean is 0.3 to 0.5 mpg. The standard deviation of the noise is 4.6 mpg for
# cars of 2000 and 3000 lb, and 2.0 mpg for cars of 5000 lb. With more cars, the red band would be narrower,
# and the blue band would hardly change.
