"""
Forecast a sequence
===================

The errors of a sequence change over time, and the targets of a forecast arrive late.
This page adapts intervals and distributions to the observed targets, first for one
horizon and then for several horizons. Lagged values are columns of X, so any regressor
can forecast a sequence.

The data are hourly loads. At hour 1200, the noise doubles:
"""

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n = 1600
noise = np.where(np.arange(n) < 1200, 1.0, 2.0) * rng.normal(size=n)
error = np.zeros(n)
for t in range(1, n):
    error[t] = 0.7 * error[t - 1] + noise[t]
load = pd.Series(50 + 5 * np.sin(2 * np.pi * np.arange(n) / 24) + error)

lags = pd.DataFrame({f"lag_{k}": load.shift(k) for k in (0, 1, 2, 23)})
X, y = lags[23:-1].to_numpy(), load.shift(-1)[23:-1].to_numpy()
first = 800  # the model is fitted to the rows before this row

# %%
# Keep the order of time
# ----------------------
#
# Do not draw calibration rows at random, because such rows lie between training rows.
# If neighboring rows are similar, their errors are smaller than the errors of later
# rows. Use one of these options instead:
#
# * ``ConformalRegressor(cv="last")`` calibrates on the last rows.
# * ``cv=TimeSeriesSplit()`` of :class:`~skuq.regressors.RecalibratedRegressor` and
#   :class:`~skuq.regressors.UncertaintyRegressor` trains the model of each fold on
#   earlier rows only.
# * ``cross_val_predict_dist(..., cv=TimeSeriesSplit(), return_rows=True)`` returns the
#   distributions of the tested rows and their indices.
#
# A distribution that adapts
# --------------------------
#
# :class:`~skuq.recalibration.OnlineRecalibrator` applies a map to the levels of a
# distribution. ``partial_fit`` of :class:`~skuq.regressors.RecalibratedRegressor`
# updates the map with the observed targets. The model itself is not refitted:

from sklearn.model_selection import TimeSeriesSplit

from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.prediction import predict_dist
from skuq.recalibration import OnlineRecalibrator
from skuq.regressors import LeastSquaresRegressor, RecalibratedRegressor

online = OnlineRecalibrator(window=300)
model = RecalibratedRegressor(
    LeastSquaresRegressor(), online, cv=TimeSeriesSplit(4)
)
model.fit(X[:first], y[:first])
fixed = predict_dist(model, X[first:])

# %%
# The loop predicts one hour and then observes its target:

bounds, crps = [], []
for t in range(first, len(y)):
    dist = model.predict_dist(X[[t]])
    bounds.append(dist.interval(0.9)[0])
    crps.append(crps_loss(y[[t]], dist))
    model.partial_fit(X[[t]], y[[t]])
bounds = np.array(bounds)

changed = 1200 - 23  # row of the first hour with more noise
after = slice(changed - first, None)
table = pd.DataFrame(
    {
        "coverage": [
            prediction_interval_coverage(y[changed:], fixed.interval(0.9)[after]),
            prediction_interval_coverage(y[changed:], bounds[after]),
        ],
        "CRPS": [crps_loss(y[changed:], fixed[after]), np.mean(crps[after])],
    },
    index=["fixed", "online"],
).round(2)
table

# %%
# After the change, the fixed intervals are too narrow. The adapted intervals recover:

import matplotlib.pyplot as plt

inside = {
    "fixed": (fixed.interval(0.9) - y[first:, np.newaxis]).prod(axis=1) <= 0,
    "online": (bounds - y[first:, np.newaxis]).prod(axis=1) <= 0,
}
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for name, hits in inside.items():
    recent = pd.Series(hits, index=np.arange(first, len(y))).rolling(100).mean()
    ax.plot(recent, label=name)
ax.axhline(0.9, color="0.3", linestyle="--", label="nominal")
ax.set(xlabel="hour", ylabel="coverage of the last 100 hours")
legend = ax.legend(frameon=False)

# %%
# All quantiles and intervals adapt together, so scorers and decisions use the
# adapted forecast. If you need only a few intervals, use the parameter ``adapt`` of
# :class:`~skuq.regressors.ConformalRegressor`. The adapted intervals have a guarantee
# (:doc:`/how-to/conformal`).
#
# Several horizons
# ----------------
#
# The horizons of a forecast are several targets: the load in one hour, in two hours,
# and so on. :class:`~skuq.regressors.MultiOutputUncertaintyRegressor` fits one
# regressor per horizon. Each horizon has its own calibration. A common calibration
# would give intervals that are too wide at the first horizon and too narrow at the last
# one.

from skuq.regressors import MultiOutputUncertaintyRegressor

horizons = np.arange(1, 5)
names = [f"in {h} h" for h in horizons]
ahead = pd.DataFrame(
    {name: load.shift(-h) for h, name in zip(horizons, names, strict=True)}
)
paths = MultiOutputUncertaintyRegressor(model, random_state=0)
paths.fit(X[:first], ahead[23 : 23 + first])

# %%
# The targets of one forecast arrive over the next four hours.
# :class:`~skuq.monitoring.PendingForecasts` stores the rows of all forecasts until
# then. When a load is observed, ``observe`` returns the rows of all forecasts of this
# load, and the targets of these rows. The targets at the other horizons are NaN.
# ``partial_fit`` passes each target to the regressor of its horizon:

from skuq.monitoring import PendingForecasts

pending = PendingForecasts()
covered, sums = [], []
for t in range(first, changed - 4):
    hour = t + 23
    rows, targets = pending.observe(load[hour], time=hour)
    if rows is not None:
        paths.partial_fit(rows, targets)
    pending.add(X[[t]], due=[hour + horizons])
    future = ahead.loc[[hour]].to_numpy()
    each = paths.predict_interval(X[[t]], 0.9)[0]
    covered.append((each[:, 0] <= future[0]) & (future[0] <= each[:, 1]))
    if t % 10 == 0:
        sums.append(
            prediction_interval_coverage(
                future.sum(axis=1),
                paths.predict_dist(X[[t]]).linear(np.ones(4)).interval(0.9),
            )
        )
by_horizon = pd.Series(np.mean(covered, axis=0), index=names).round(2)
by_horizon

# %%
# The result of ``predict_dist`` is a joint distribution of the path. The dependence
# between the horizons is estimated from the training rows. It matters for the
# distribution of a sum, because the errors of neighboring hours are similar:

print(f"coverage of the sum over four hours: {np.mean(sums):.2f}")
joint = paths.predict_dist(X[[first]])
joint.corr()[0].round(2)

# %%
# Several series, gaps and state
# ------------------------------
#
# Pass the names of the series to ``add`` and ``observe``. A row belongs to one series,
# and one model can forecast all series:

two = PendingForecasts()
two.add(X[:2], due=[[24, 25], [24, 25]], series=["north", "south"])
rows, targets = two.observe(
    [51.0, np.nan], time=[24, 24], series=["north", "south"]
)
targets

# %%
# If a target will never be observed, pass NaN, and its forecast is discarded. To
# discard all old forecasts whose targets did not arrive, call ``discard(before=time)``.
# The calibration uses a late target as soon as it arrives. The order of arrival has
# little effect, because each target changes the calibration only a little.
#
# The state of a forecast consists of the model and the queue. Save both, and continue
# later:

import pickle

state = pickle.dumps((paths, pending))
paths, pending = pickle.loads(state)
len(pending)

# %%
# ``PendingForecasts`` also stores distributions. Pass the result of ``observe`` to a
# monitor (:doc:`/how-to/monitor`) to get an alarm when the forecast is no longer
# calibrated.
#
# skuq does not compute lags or differences, and does not run back-tests. Use pandas,
# sktime or skforecast (:doc:`/explanation/forecasting-packages`).
