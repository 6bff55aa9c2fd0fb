"""
Data that drift: partial_fit
============================

The fuel economy of cars increased by 80 % from 1970 to 1982. This example predicts ten cars at a time and
then passes their targets to ``partial_fit`` of :class:`~skuq.conformal.ConformalRegressor`. ``partial_fit``
replaces old errors with new errors and adapts the target coverage.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from skuq.conformal import ConformalRegressor
from skuq.datasets import load_auto_mpg
from skuq.metrics import prediction_interval_coverage

X, y = load_auto_mpg(return_X_y=True)
order = np.argsort(X[:, 4], kind="stable")
X, y, year = X[order, :4], y[order], 1900 + X[order, 4].astype(int)  # the year is not a feature
first, second = np.flatnonzero(year < 1972), np.flatnonzero((year >= 1972) & (year < 1974))
past = [(first, second)]  # the first rows for the model, the next for its errors
n = len(first) + len(second)
model = ConformalRegressor(Ridge(), cv=past, window=60, gamma=0.005, random_state=0).fit(
    X[:n], y[:n]
)
fixed = model.predict_interval(X[n:])

adaptive = []
for start in range(n, len(y), 10):
    rows = slice(start, start + 10)
    adaptive.append(model.predict_interval(X[rows]))
    model.partial_fit(X[rows], y[rows])
adaptive = np.concatenate(adaptive)
for name, bounds in {"fixed": fixed, "updated": adaptive}.items():
    print(
        f"{name:8s} coverage of 90 % intervals: {prediction_interval_coverage(y[n:], bounds):.0%}"
    )

cars = np.arange(n, len(y))
_, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(cars, y[n:], ".", color="0.2", markersize=4)
for bounds, label in ((fixed, "fixed"), (adaptive, "updated")):
    ax.fill_between(cars, *bounds.T, alpha=0.35, label=label)
ax.set(xlabel="car, in the order of the model years 1974 to 1982", ylabel="miles per gallon")
ax.legend(loc="upper left")
plt.show()

# %%
# Intervals that are calibrated only on cars up to 1973 cover 68 % of the later cars. With updates, the
# intervals become wider as the cars become more economical, and they cover 88 % of the later cars. The
# updates do not refit the model.
