"""
Forecast a sequence
===================

The errors of a sequence change over time, and the targets of a forecast arrive late.
This page adapts distributions and intervals to the observed targets, first for one
horizon and then for several horizons. Lags are columns of X, so any regressor can
forecast a sequence.

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
# Do not draw calibration rows at random. Such rows lie between training rows, and
# neighboring rows are similar. The errors of the calibration rows are therefore smaller
# than the errors of later rows. Use one of these options instead:
#
# * ``ConformalRegressor(cv="last")`` calibrates on the last rows.
# * ``cv=TimeSeriesSplit()`` of :class:`~skuq.regressors.RecalibratedRegressor` and
#   :class:`~skuq.regressors.UncertaintyRegressor` trains each fold on earlier rows.
# * ``cross_val_predict_dist(..., cv=TimeSeriesSplit(), return_rows=True)`` returns the
#   distributions of the tested rows and their indices.
#
# A distribution that adapts
# --------------------------
#
# :class:`~skuq.recalibration.OnlineRecalibrator` maps the levels of a distribution.
# ``partial_fit`` updates this map with each observed target. The model itself is not
# refitted. The loop predicts one hour and then observes its target:

from sklearn.model_selection import TimeSeriesSplit

from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.recalibration import OnlineRecalibrator
from skuq.regressors import LeastSquaresRegressor, RecalibratedRegressor

model = RecalibratedRegressor(
    LeastSquaresRegressor(), OnlineRecalibrator(window=300), cv=TimeSeriesSplit(4)
)
model.fit(X[:first], y[:first])
fixed = model.predict_dist(X[first:])  # without updates

bounds, crps = [], []
for t in range(first, len(y)):
    dist = model.predict_dist(X[[t]])
    bounds.append(dist.interval(0.9)[0])
    crps.append(crps_loss(y[[t]], dist))
    model.partial_fit(X[[t]], y[[t]])

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
# All quantiles and intervals adapt together. If you need only a few intervals, use
# ``partial_fit`` of :class:`~skuq.conformal.ConformalRegressor`. Its parameter
# ``adapt`` chooses the method, and the intervals have a guarantee
# (:doc:`/how-to/conformal`).
# :ref:`sphx_glr_auto_examples_conformal_plot_prices.py` plots the coverage over time.
#
# To fit the model again, for example once a week, wrap it:
# ``ConformalRegressor(FrozenEstimator(model))``. Then call ``model.fit`` with the
# latest rows. The calibration continues with the new model.
#
# Several horizons
# ----------------
#
# The horizons of a forecast are several targets: the load in one hour, in two hours,
# and so on. :class:`~skuq.multivariate.MultiOutputUncertaintyRegressor` fits and
# calibrates one regressor per horizon. One calibration for all horizons would give
# intervals that are too wide at the first horizon and too narrow at the last horizon.
# ``set_callbacks(ProgressBar())`` shows the progress of the fit
# (:ref:`progress-of-a-fit`).

from skuq.multivariate import MultiOutputUncertaintyRegressor

horizons = np.arange(1, 5)
ahead = pd.DataFrame({f"in {h} h": load.shift(-h) for h in horizons})
paths = MultiOutputUncertaintyRegressor(model, random_state=0)
paths.fit(X[:first], ahead[23 : 23 + first])

# %%
# The targets of one forecast arrive over the next four hours.
# :class:`~skuq.monitoring.PendingForecasts` stores the rows of all forecasts until
# then. When a load is observed, ``observe`` returns the rows of X from which this load
# was forecast, and the targets of these rows. In each row, only the target at the
# horizon of this load is a number. The targets at the other horizons are NaN.
# ``partial_fit`` passes each target to the regressor of its horizon:

from skuq.monitoring import PendingForecasts

pending = PendingForecasts()
hours = range(first + 23, 1196)
bounds = []
for hour in hours:
    rows, targets = pending.observe(load[hour], time=hour)
    if rows is not None:
        paths.partial_fit(rows, targets)
    row = X[[hour - 23]]
    pending.add(row, due=[hour + horizons])
    bounds.append(paths.predict_interval(row, 0.9)[0])

future = ahead.loc[hours]
low, high = np.moveaxis(bounds, 1, 0)
coverage = ((low <= future) & (future <= high)).mean().round(2)
coverage

# %%
# The result of ``predict_dist`` is a joint distribution of the path. Its dependence
# between the horizons comes from the training rows. The distribution of a sum depends
# on this dependence, because the errors of neighboring hours are similar:

joint = paths.predict_dist(X[[first]])
joint.corr()[0].round(2)

# %%
# The 90 % interval of the load over four hours is:

of_sum = joint.linear([1, 1, 1, 1]).interval(0.9)
of_sum.round(1)

# %%
# Several series, gaps and state
# ------------------------------
#
# One model can forecast several series. Pass the name of the series of each row to
# ``add`` and ``observe``. Pass NaN for a target that will never be observed:

two = PendingForecasts()
two.add(X[:2], due=[[24, 25], [24, 25]], series=["north", "south"])
rows, targets = two.observe(
    [51.0, np.nan], time=[24, 24], series=["north", "south"]
)
targets

# %%
# ``discard(before=time)`` removes all old forecasts whose targets did not arrive.
#
# The state of a forecast consists of the model and the queue. Save both, and continue
# later:

import pickle

state = pickle.dumps((paths, pending))
paths, pending = pickle.loads(state)
len(pending)

# %%
# ``PendingForecasts`` also stores distributions. Pass the result of ``observe`` to a
# monitor (:doc:`/how-to/monitor`), which raises an alarm if the forecast is no longer
# calibrated.
#
# skuq does not compute lags or differences, and does not run back-tests. Use pandas,
# sktime or skforecast (:doc:`/explanation/forecasting-packages`).
