"""
A factor for each range of widths: BinnedScalingRecalibrator
============================================================

A random forest predicts the age of abalone. It underestimates its errors most for rows with a small spread of
the trees. One factor for all rows cannot correct this difference.
:class:`~skuq.recalibration.BinnedScalingRecalibrator` estimates one factor for each bin of predicted standard
deviation.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skuq.datasets import load_abalone
from skuq.displays import ReliabilityDisplay
from skuq.recalibration import BinnedScalingRecalibrator, StdScalingRecalibrator
from skuq.regressors import BootstrapRegressor

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
spread = BootstrapRegressor(forest, noise=None, random_state=0)

ax = None
for recalibrator in (StdScalingRecalibrator(), BinnedScalingRecalibrator()):
    model = make_pipeline(spread, recalibrator).fit(X_train, y_train)
    name = type(recalibrator).__name__.removesuffix("Recalibrator")
    display = ReliabilityDisplay.from_estimator(
        model, X_test, y_test, n_bins=5, unit="rings", name=name, ax=ax
    )
    ax = display.ax_
    print(
        f"{name:14s} error / predicted:",
        (display.table["rmse"] / display.table["rmv"]).round(2).tolist(),
    )
plt.show()

# %%
# With one factor, the ratio of error to predicted standard deviation is about 1 in the first bin, but 0.71 in
# the last bin, which has the largest predicted standard deviations. With one factor per bin, the ratios are
# between 0.83 and 1.04.
