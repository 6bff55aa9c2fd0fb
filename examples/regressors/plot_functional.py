"""
Which columns determine the noise? FunctionalRegressor
======================================================

Permutation importance and partial dependence explain the prediction of a regressor. To explain the
uncertainty, :class:`~skuq.regressors.FunctionalRegressor` returns the standard deviation as the prediction.
In this simulation, the mean of the demand depends on the price, and the noise depends on the distance:
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import PartialDependenceDisplay, permutation_importance

from skuq import get_scorer
from skuq.regressors import FunctionalRegressor, ResidualRegressor

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(-1, 1, size=(1500, 3)), columns=["price", "distance", "age"])
y = -3 * X["price"] + np.exp(1.5 * X["distance"] - 1) * rng.standard_normal(1500)
train, test = X.index < 1000, X.index >= 1000
boosting = HistGradientBoostingRegressor(max_iter=40, random_state=0)
model = ResidualRegressor(boosting, random_state=0).fit(X[train], y[train])

# %%
# For the CRPS, the price is the most important column, because a wrong location increases the CRPS more than
# a wrong width. For the standard deviation, the distance is the most important column. This importance is the
# decrease in R² after the values of a column are permuted. The targets of R² are the predictions before the
# permutation, so no observed targets are needed:
std = FunctionalRegressor(FrozenEstimator(model), "std")
options = {"n_repeats": 3, "random_state": 0}
by_crps = permutation_importance(model, X[test], y[test], scoring=get_scorer("neg_crps"), **options)
by_std = permutation_importance(std, X[test], std.predict(X[test]), **options)
table = {"CRPS": by_crps.importances_mean, "std": by_std.importances_mean}
print(pd.DataFrame(table, index=X.columns).round(2))

# %%
# Partial dependence shows the form of this dependence: the standard deviation grows exponentially with the
# distance, and hardly depends on the other columns.
figure, axes = plt.subplots(1, 3, figsize=(8.0, 2.8), sharey=True, layout="constrained")
display = PartialDependenceDisplay.from_estimator(
    std, X[test], [0, 1, 2], grid_resolution=15, ax=axes
)
grid = np.linspace(-0.9, 0.9)
axes[1].plot(grid, np.exp(1.5 * grid - 1), "k--", label="true standard deviation")
axes[1].legend(loc="upper left", fontsize="small")
for ax, label in zip(axes, ["Predicted standard deviation", "", ""], strict=True):
    ax.set_ylabel(label)
