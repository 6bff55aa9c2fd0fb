"""
Does a model stay calibrated? CalibrationDriftDisplay
=====================================================

:class:`~skuq.displays.CalibrationDriftDisplay` plots the coverage, a score or the width of a deployed model
by period, and flags periods in which the model is no longer calibrated. In this example, the model is fitted
to every other car of 1970 to 1973. Over the years, the fuel economy of cars with the same weight and power
increases, which the model does not predict.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from skuq import UncertaintyRegressor
from skuq.datasets import load_auto_mpg
from skuq.displays import CalibrationDriftDisplay
from skuq.monitoring import MetricAccumulator

X, y = load_auto_mpg(return_X_y=True)
X, year = X[:, :4], 1900 + X[:, 4].astype(int)  # without the year
fitted = (year < 1974) & (np.arange(len(y)) % 2 == 0)
forest = RandomForestRegressor(100, min_samples_leaf=3, random_state=0)
model = UncertaintyRegressor(forest, random_state=0).fit(X[fitted], y[fitted])

periods = {}
for first in range(1970, 1983, 2):
    rows = ~fitted & (year >= first) & (year < first + 2)
    periods[first] = MetricAccumulator().update(y[rows], model.predict_dist(X[rows]))

_, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
display = CalibrationDriftDisplay.from_periods(periods, ax=left)
CalibrationDriftDisplay.from_periods(periods, quantity="rmse_to_rmv", ax=right)
columns = ["n", "coverage", "crps", "width", "rmse_to_rmv", "flag"]
print(display.table[columns].round(2).to_string())
plt.show()

# %%
# Until 1973, no period is flagged. From 1974 on, the coverage decreases until it is 13 % in 1982, although
# the intervals of the last years are wider. The right panel shows that the errors are up to 2.6 times as
# large as predicted. Fit the model to new data instead of widening the intervals.
