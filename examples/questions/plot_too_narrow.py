"""
Why are my intervals too narrow?
================================

The 90 % intervals of a fitted model cover far less than 90 % of new rows. The mean, the spread and the
skewness of the standardized residuals distinguish errors of location, scale and shape.
:mod:`skuq.recalibration` has a recalibrator for each kind of error.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.datasets import load_abalone
from skuq.metrics import prediction_interval_coverage
from skuq.regressors import BootstrapRegressor

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
model = BootstrapRegressor(forest, noise=None, random_state=0).fit(X_train, y_train)
for name, rows, targets in (("training", X_train, y_train), ("new", X_test, y_test)):
    print(
        f"coverage on {name} rows: {prediction_interval_coverage(targets, model.predict_dist(rows)):.0%}"
    )

dist = model.predict_dist(X_test)
z = (y_test - dist.mean()) / dist.std()
print(
    f"bias {z.mean():.2f}, factor {z.std():.2f}, skewness {((z - z.mean()) ** 3).mean() / z.std() ** 3:.1f}"
)

grid = np.linspace(-6, 8, 200)
_, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
ax.hist(z, bins=np.linspace(-6, 8, 50), density=True, color="0.75", label="observed")
ax.plot(grid, norm.pdf(grid), label="if the widths were right")
ax.plot(grid, norm.pdf(grid, scale=z.std()), label="1.4 times as wide")
ax.set(xlabel="error / predicted standard deviation", ylabel="density")
ax.legend()
plt.show()

# %%
# The coverage is 94 % on the training rows and 81 % on new rows. The bias is small. The errors are 1.4 times
# as large as predicted, and skewed to the right. One factor corrects the scale. The skewness requires a
# recalibrator that corrects the shape, such as :class:`~skuq.recalibration.EmpiricalRecalibrator`.
