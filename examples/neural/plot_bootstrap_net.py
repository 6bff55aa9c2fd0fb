"""
How certain is the mean? BootstrapNetRegressor
==============================================

:class:`~skuq.neural.BootstrapNetRegressor` trains networks on bootstrap samples of the rows, all in one pass.
The spread of the networks gives the confidence interval of the mean. The variance of the noise is the same
for all rows. It is estimated from out-of-bag rows: each row is predicted by the networks whose samples do not
contain it.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.datasets import make_wibbeke
from skuq.neural import BootstrapNetRegressor

X, y = make_wibbeke("arctan", 200, noise=0.3, random_state=0)
model = BootstrapNetRegressor(20, max_epochs=80, learning_rate=0.003, random_state=0).fit(X, y)

grid = np.linspace(-30, 30, 200)
dist = model.predict_dist(grid[:, np.newaxis])
for x in (-30, 0, 30):
    row = model.predict_dist([[x]])
    epistemic, aleatoric = row.epistemic().std()[0], row.aleatoric().std()[0]
    print(f"x = {x:3d}: epistemic {epistemic:.2f}, aleatoric {aleatoric:.2f}")

_, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
ax.fill_between(grid, *dist.interval(0.9).T, alpha=0.25, label="90 % of new rows")
ax.fill_between(
    grid, *dist.epistemic().interval(0.9).T, color="C3", alpha=0.5, label="90 % for the mean"
)
ax.plot(X[:, 0], y, ".", color="0.3", markersize=3)
ax.set(xlabel="x", ylabel="y")
ax.legend()
plt.show()

# %%
# The epistemic standard deviation is 0.07 within the data, and about 1 at -30 and 30, far from the data. The
# aleatoric standard deviation is 0.31 everywhere, and the true standard deviation of the noise is 0.32. The
# intervals for new rows include both parts.
