"""
Regions for two targets
=======================

:class:`~skuq.multivariate.ConformalRegionRegressor` predicts regions that contain both targets of a row with
a guaranteed probability. A box is easy to read. An ellipsoid follows the correlation of the errors and has a
smaller area.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skuq.multivariate import ConformalRegionRegressor
from skuq.regressors import LeastSquaresRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(1500, 1))
y = 3 * X + rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=1500)
train, test = slice(0, 500), slice(500, None)

regions, table = {}, {}
for shape in ("box", "ellipsoid"):
    model = ConformalRegionRegressor(LeastSquaresRegressor(), shape, random_state=0)
    regions[shape] = model.fit(X[train], y[train]).predict_region(X[test], coverage=0.9)
    inside, area = regions[shape].contains(y[test]), regions[shape].volume()
    table[shape] = {"coverage": inside.mean(), "area": np.median(area)}
print(pd.DataFrame(table).round(2))

# %%
# The regions of one row, and the errors of all test rows around its center:
box, ellipsoid = (region[[0]] for region in regions.values())
center = ellipsoid.center[0]
errors = y[test] - regions["ellipsoid"].center
(left, bottom), (right, top) = box.bounds()[0]
angle = np.linspace(0, 2 * np.pi, 200)
circle = ellipsoid.radius[0] * np.stack([np.cos(angle), np.sin(angle)])
curve = center[:, np.newaxis] + np.linalg.cholesky(ellipsoid.covariance[0]) @ circle
figure, ax = plt.subplots(figsize=(4.8, 4.2), layout="constrained")
ax.scatter(*(center + errors).T, s=3, color="0.6", label="Test rows")
ax.plot([left, right, right, left, left], [bottom, bottom, top, top, bottom], "C0", label="Box")
ax.plot(*curve, "C1", label="Ellipsoid")
ax.set(xlabel="First target", ylabel="Second target")
ax.legend(loc="upper left")
