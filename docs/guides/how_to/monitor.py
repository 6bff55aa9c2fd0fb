"""
Monitor a model over time
=========================

Intervals are calibrated on the data that a model was fitted to. If new data have a
different distribution, the intervals are no longer calibrated. The targets of new rows,
which often arrive later, show whether the intervals are still calibrated. skuq has
three kinds of tools for this task. :class:`~skuq.monitoring.CoverageMonitor` and
:class:`~skuq.monitoring.PITMonitor` can raise an alarm after each update with new
targets. :func:`~skuq.monitoring.calibration_drift` compares periods that have ended.
Each tool bounds the probability of a false alarm over the whole monitoring period.

In the example, a model is fitted once and predicts each week of a year. The noise
increases after September:
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
# The monitor compares each target with its 90 % interval. The *e-value* of the
# monitor measures the evidence that the coverage is below 90 %. The monitor raises
# an alarm if the e-value exceeds 100. If the coverage is at least 90 %, this ever
# happens with a probability of at most 1 %, no matter how often you check. This
# probability is the parameter ``false_alarm``, and 1 % is its default. The loop below
# also updates an accumulator for the month, which a later section uses.

from skuq.monitoring import CoverageMonitor, MetricAccumulator

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
# Pickle the monitor and the accumulator with the model between calls; both are
# small. ``alternative="two-sided"`` also detects intervals that have become too
# wide.
#
# An alarm for the whole distribution
# -----------------------------------
#
# Many errors in a forecast hardly change the coverage of a single interval.
# :class:`~skuq.monitoring.PITMonitor` tests the whole distribution. It computes the PIT
# of each target: the predicted probability of a value at or below the target. The PIT
# of a calibrated forecast is uniform. In the next stream, a sensor drifts after 20
# weeks: from then on, all targets are too large by 0.3 standard deviations of the
# noise.

from skuq.monitoring import PITMonitor

by_coverage, by_pit = CoverageMonitor(0.9), PITMonitor(false_alarm=0.01)
biased = MetricAccumulator()
for number in range(40):
    X, y = make_rows(350)
    y = y if number < 20 else y + 0.3
    dist = predict_dist(model, X)
    by_pit.update(y, dist)
    if not by_coverage.alarm_:
        by_coverage.update(y, dist)
    if number >= 20:
        biased.update(y, dist)
print(f"rows from the drift to the alarm of the PIT: {by_pit.alarm_row_ - 7000}")
print(
    f"rows from the drift to the alarm of the coverage: {by_coverage.n_rows_ - 7000}"
)

# %%
# The PIT monitor raises the alarm earlier, because the coverage decreases only from
# 90 % to 88.5 %. Both monitors update their evidence after each row, so the size of the
# blocks does not matter. They assume a possible change at every 256th row, so they also
# detect changes late in a stream.
#
# The alarm does not show what is wrong. The PIT histogram does:

from skuq.displays import PITHistogramDisplay

display = PITHistogramDisplay.from_accumulator(biased)

# %%
# The bins on the right are too high: the targets are larger than predicted. High
# bins at both ends mean that distributions are too narrow. High bins in the middle
# mean that distributions are too wide. For a calibrated forecast, all bins are inside
# the gray band with a probability of 95 %.
#
# The PIT monitor also raises an alarm for intervals that are too wide. Use the
# coverage monitor for conformal intervals, which may cover more than nominal. For
# counts and other forecasts with atoms, the distribution function jumps at the
# target. The PIT monitor then draws the PIT at random between the two ends of the
# jump. Pass ``random_state`` to reproduce the draws. Two monitors cannot be merged,
# because the evidence depends on the order of the rows.
#
# An alarm for conformal intervals
# --------------------------------
#
# Conformal prediction assumes that new rows are exchangeable with the calibration rows.
# :class:`~skuq.monitoring.ExchangeabilityMonitor` tests this assumption. It needs the
# conformal p-values: the rank of the error of each row among the calibration rows and
# all earlier rows. After 1000 rows of the next stream, the noise increases by a third:

from sklearn.linear_model import LinearRegression

from skuq.conformal import ConformalRegressor
from skuq.monitoring import ExchangeabilityMonitor

conformal = ConformalRegressor(LinearRegression(), random_state=0)
conformal.fit(*make_rows(4000))
exchangeability = ExchangeabilityMonitor()
for noise in (1.0, 4 / 3):
    X, y = make_rows(1000, noise)
    exchangeability.update(conformal.predict_p(X, y, random_state=0))
    conformal.partial_fit(X, y)  # later rows are ranked among these rows too
print(f"rows from the change to the alarm: {exchangeability.alarm_row_ - 1000}")

# %%
# Changes by period
# -----------------
#
# The function :func:`~skuq.monitoring.calibration_drift` returns a table with one
# row per month. It flags a month if a test rejects the nominal coverage or the
# uniformity of the PIT. The tests are adjusted for the number of months, so the
# probability of flagging any month of a calibrated model is at most 1 %.

from skuq.monitoring import calibration_drift

table = calibration_drift(months)
table[["coverage", "low", "high", "crps", "width", "rmse_to_rmv", "flag"]].round(2)

# %%
# Starting in October, the errors are larger than predicted: ``rmse_to_rmv``, the ratio
# of the errors to the predicted standard deviations, is above 1. The width has not
# changed. The noise has increased, and the model does not predict the increase.
#
# No model is perfectly calibrated, and with enough rows the tests detect any deviation.
# Two results show whether the deviation is relevant: the interval from ``low`` to
# ``high``, and ``pit_distance``, the largest error of a predicted probability.

from skuq.displays import CalibrationDriftDisplay

display = CalibrationDriftDisplay.from_periods(months)

# %%
# The sum of the accumulators of three months is the accumulator of the quarter. The
# rows are not needed again:

quarters = {}
for month, accumulator in months.items():
    quarter = month.asfreq("Q")
    merged = quarters.get(quarter)
    quarters[quarter] = accumulator if merged is None else merged + accumulator
by_quarter = calibration_drift(quarters)
by_quarter[["n", "coverage", "flag"]].round(2)

# %%
# After an alarm, fit a new model to recent rows, or recalibrate the old model on them
# (:doc:`/how-to/recalibrate`). ``partial_fit`` of
# :class:`~skuq.conformal.ConformalRegressor` adapts the intervals continuously. Start
# a new monitor after each new fit.
#
# Before labels arrive, :func:`~skuq.evaluation.expected_loss` estimates the error from
# the forecast alone. :doc:`/how-to/decide` shows two cases in which this estimate
# fails.
#
# Dependent rows
# --------------
#
# The false alarm rates are valid for independent rows. Errors of neighboring hours are
# correlated. A hundred hours therefore contain less information than a hundred
# independent rows, and false alarms are more frequent than stated. Test only every k-th
# row. Choose k so that the errors of the tested rows are hardly correlated. Still
# compute the scores from all rows.
#
# On real data
# ------------
#
# ``examples/studies/metro_traffic.py`` predicts the hourly traffic of a highway
# (Hogue 2019, UCI, 41 000 hours). The model is gradient boosting with the features
# hour, date and weather. It is fitted to four out of every five weeks of 2013. The
# calibration folds consist of whole weeks, because the hours of a day are similar and
# must not be in different folds. The tests use every 25th hour:
#
# .. image:: /_static/metro-drift.svg
#     :alt: Coverage of 90 % intervals by quarter from 2013 to 2018, with three
#         flagged quarters: the third quarters of 2015, 2016 and 2018.
#
# In the held-out weeks of 2013 and in 2014, no quarter is flagged. In these quarters,
# the coverage is 92 to 95 % over all hours. Three later quarters are flagged. The
# coverage is 80 % in the third quarter of 2015, 53 % in the third quarter of 2016 and
# 80 % in the third quarter of 2018. In the third quarter of 2016, the CRPS is 1.8 times
# the largest CRPS in the summers of the other years, although the intervals have the
# same width. The coverage monitor raises an alarm on July 6, 2016.
