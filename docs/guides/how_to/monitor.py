"""
Watch a model over time
=======================

Intervals are calibrated when a model is fitted, and lose it when the world changes.
Targets that arrive later show whether it still holds. There are two tools:
:class:`~skuq.metrics.CoverageMonitor` raises an alarm as targets arrive, at any
time, and :func:`~skuq.metrics.calibration_drift` compares periods afterwards and
shows what has changed. Both bound the probability of a false alarm over the whole
time that the model is watched.

A model is fitted once and predicts each week of a year, in which the noise grows
after September:
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import BayesianRidge

from skuq import predict_dist

rng = np.random.default_rng(0)


def make_rows(n, noise=1.0):
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, X[:, 0] + noise * rng.normal(size=n)


model = BayesianRidge().fit(*make_rows(20_000))

# %%
# An alarm as targets arrive
# --------------------------
#
# The monitor compares each target with its 90 % interval. Its e-value is the evidence
# against a coverage of 90 % or more; however often one looks, it exceeds 100 with a
# probability of at most 1 %, the default of ``false_alarm``, if the coverage holds.
# The accumulator of the month takes the same rows.

from skuq.metrics import CoverageMonitor, MetricAccumulator

monitor = CoverageMonitor(0.9, false_alarm=0.01)
months, alarm = {}, None
for week in pd.date_range("2026-01-01", "2026-12-31", freq="W"):
    X, y = make_rows(350, noise=1.0 if week.month < 10 else 1.2)
    dist = predict_dist(model, X)
    monitor.update(y, dist)
    months.setdefault(week.to_period("M"), MetricAccumulator()).update(y, dist)
    if monitor.alarm_ and alarm is None:
        alarm = week
print(f"alarm on {alarm:%d %B}, e-value at the end {monitor.e_value_:.0e}")

# %%
# Between calls the state is pickled with the model: a monitor and an accumulator are
# small. ``alternative="two-sided"`` also finds intervals that have become too wide.
#
# What has changed, and when
# --------------------------
#
# The table has a row for each month. Its flags come from tests of the coverage and of
# the uniformity of the PIT, which are adjusted for the number of months, so that a
# calibrated model has a flag in any month with a probability of at most 1 %.

from skuq.metrics import calibration_drift

table = calibration_drift(months)
table[["coverage", "low", "high", "crps", "width", "rmse_to_rmv", "flag"]].round(2)

# %%
# From October the errors are larger than predicted, ``rmse_to_rmv`` is above 1, while
# the width has not changed: the noise grew and the model does not show it.
#
# No model is calibrated exactly, and with enough rows the tests find any deviation.
# Whether it matters is in the columns: the interval from ``low`` to ``high``, and
# ``pit_distance``, the largest error of a stated probability.

from skuq.displays import CalibrationDriftDisplay

display = CalibrationDriftDisplay.from_periods(months)

# %%
# Months add up to quarters without their rows:

quarters = {}
for month, accumulator in months.items():
    quarter = month.asfreq("Q")
    merged = quarters.get(quarter)
    quarters[quarter] = accumulator if merged is None else merged + accumulator
by_quarter = calibration_drift(quarters)
by_quarter[["n", "coverage", "flag"]].round(2)

# %%
# Fit a new model to recent rows, or recalibrate the old one on them
# (:doc:`/how-to/recalibrate`); ``partial_fit`` of
# :class:`~skuq.regressors.ConformalRegressor` adapts the intervals all the time. After
# a new fit a new monitor begins.
#
# Rows that depend on each other
# ------------------------------
#
# The rates hold for independent rows. Errors of neighbouring hours are alike, so that
# a hundred hours hold less evidence than the tests assume, and false alarms are more
# frequent. Test one row in k, so far apart that errors are hardly correlated, and
# keep the scores of all rows.
#
# On real data
# ------------
#
# ``examples/studies/metro_traffic.py`` predicts the hourly traffic of a motorway
# (Hogue 2019, UCI, 41 000 hours) by gradient boosting on hour, date and weather,
# fitted to four weeks in five of 2013. Its intervals are calibrated on weeks, since
# hours of one day on both sides of a fold are alike. One hour in 25 is tested:
#
# .. image:: /_static/metro-drift.svg
#     :alt: Coverage of 90 % intervals by quarter from 2013 to 2018, with four
#         flagged quarters: the third ones of 2015, 2016 and 2018, and the fourth of 2016.
#
# In the held-out weeks of 2013 and until 2014 no quarter is flagged: coverage is 89 to
# 94 % over all hours. The third quarters of 2015, 2016 and 2018 are flagged, with 77,
# 49 and 78 %, and the fourth quarter of 2016, with 69 %. The CRPS of the third quarter
# of 2016 is 1.8 times the largest of other summers, while the width is the same. The
# monitor of the coverage alarms on 29 July 2015.
