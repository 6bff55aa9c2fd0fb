"""
Traffic on a highway: a model from 2013, monitored until 2018
=============================================================

The data are the hourly traffic of Interstate 94 between Minneapolis and St Paul (Hogue 2019, Metro Interstate
Traffic Volume, UCI Machine Learning Repository, https://doi.org/10.24432/C5X60B). A model with the features
hour, date and weather is fitted to four out of every five weeks of 2013. It then predicts the remaining weeks
of 2013 and all hours from 2014 on. The script tests for each quarter whether these predictions are
calibrated. No hours were recorded from August 2014 to June 2015.

Errors of neighboring hours are correlated. The tests therefore use every 25th hour, so that the hour of the
day changes each time. The scores are computed from all hours.

    python metro_traffic.py --plot metro.svg

The data are in ``other/metro_traffic.csv.gz``, in the folder given by --data or by the environment variable
SKUQ_DATA.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold

from skuq import UncertaintyRegressor
from skuq.monitoring import CoverageMonitor, MetricAccumulator, calibration_drift

FILE = Path("other") / "metro_traffic.csv.gz"
STEP = 25  # hours between tested rows


def read(folder):
    """Return time, features and thousands of vehicles of each hour with a plausible temperature."""
    data = pd.read_csv(folder / FILE, keep_default_na=False, parse_dates=["date_time"])
    data = data[data["temp"] > 0].drop_duplicates("date_time").reset_index(drop=True)
    time = data["date_time"]
    # The name of a holiday is only in its first hour.
    holiday = data.groupby(time.dt.date)["holiday"].transform(lambda names: (names != "None").any())
    features = {
        "hour": time.dt.hour,
        "weekday": time.dt.weekday,
        "day": time.dt.dayofyear,
        "holiday": holiday,
    }
    weather = data[["temp", "rain_1h", "snow_1h", "clouds_all"]]
    return time, pd.DataFrame(features).join(weather), data["traffic_volume"] / 1000


def fit(X, y, week):
    """Return a model whose intervals are calibrated on weeks that it was not fitted to."""
    trees = HistGradientBoostingRegressor(max_iter=100, random_state=0)
    return UncertaintyRegressor(trees, cv=GroupKFold(5), random_state=0).fit(X, y, groups=week)


def watch(folder):
    """Return the drift of one hour in 25 and of all hours, and the hour of the monitor's alarm."""
    time, X, y = read(folder)
    week = time.dt.dayofyear // 7
    of_2013 = time.dt.year == 2013
    fitted = of_2013 & (week % 5 != 0)
    model = fit(X[fitted], y[fitted], week[fitted])

    new = (time.dt.year >= 2013) & ~fitted
    time, y, dist = time[new], y[new].to_numpy(), model.predict_dist(X[new])
    quarter = time.dt.to_period("Q")
    tested, every = {}, {}
    for period in quarter.unique():
        rows = np.flatnonzero(quarter == period)
        every[period] = MetricAccumulator().update(y[rows], dist[rows])
        tested[period] = MetricAccumulator().update(y[rows[::STEP]], dist[rows[::STEP]])

    monitor, alarm = CoverageMonitor(0.9), None
    for row in range(0, len(y), STEP):
        monitor.update(y[[row]], dist[[row]])
        if monitor.alarm_:
            alarm = time.iloc[row]
            break
    return tested, every, alarm


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--data", type=Path, default=os.environ.get("SKUQ_DATA"))
    parser.add_argument("--plot", type=Path, help="file of the plot")
    options = parser.parse_args(arguments)
    if options.data is None or not (Path(options.data) / FILE).is_file():
        parser.error(f"no data: pass --data, or set SKUQ_DATA to a folder with {FILE}.")
    tested, every, alarm = watch(Path(options.data))
    table = calibration_drift(tested)
    scores = calibration_drift(every)[["n", "coverage", "crps", "width", "rmse_to_rmv"]]
    print(scores.join(table[["n", "coverage", "flag"]], rsuffix=" (tested)").round(2).to_string())
    print("the monitor alarms:", alarm)
    if options.plot:
        from skuq.displays import CalibrationDriftDisplay

        display = CalibrationDriftDisplay.from_periods(tested)
        display.ax_.set_xlabel("")
        display.figure_.savefig(options.plot)


if __name__ == "__main__":
    main()
