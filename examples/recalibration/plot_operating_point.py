"""
One interval with a given miss rate: OperatingPointRecalibrator
===============================================================

If you use only one interval per row, you can scale the intervals to an acceptable miss rate, or to the
minimum cost of width and misses. :class:`~skuq.recalibration.OperatingPointRecalibrator` uses the uncertainty
characteristics curve of the calibration rows to compute the factor.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.datasets import load_concrete
from skuq.displays import UncertaintyCharacteristicsDisplay
from skuq.metrics import interval_miss_rate, mean_interval_half_width
from skuq.recalibration import OperatingPointRecalibrator
from skuq.regressors import BootstrapRegressor

X, y = load_concrete(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
X_train, X_calibrate, y_train, y_calibrate = train_test_split(X, y, test_size=0.4, random_state=0)
forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
model = BootstrapRegressor(forest, noise=None, random_state=0).fit(X_train, y_train)
calibrate, test = model.predict_dist(X_calibrate), model.predict_dist(X_test)

for name, options in {"miss rate": {"miss_rate": 0.05}, "cost": {"cost": (1.0, 50.0)}}.items():
    recalibrator = OperatingPointRecalibrator(**options).fit(calibrate, y_calibrate)
    bounds = recalibrator.transform(test).interval(recalibrator.coverage_)
    width, missed = mean_interval_half_width(y_test, bounds), interval_miss_rate(y_test, bounds)
    print(
        f"{name} factor {recalibrator.operating_point_.parameter:.2f}, ± {width:.1f} MPa, {missed:.1%} out"
    )

UncertaintyCharacteristicsDisplay.from_predictions(
    y_calibrate,
    calibrate,
    unit="MPa",
    name="random forest",
    miss_rate=0.05,
    cost=(1.0, 50.0),
    ref_line=False,
)
plt.show()

# %%
# The ring shows the bands from the spread of the trees. The diamond shows the narrowest bands that miss at
# most 5 % of the rows. The square shows the bands with the minimum cost, if one missed row costs the same as
# a half width of 50 MPa. On new rows, the miss rates of the diamond and the square are 7 % and 17 %. If you
# need a guarantee, use :class:`~skuq.conformal.ConformalRecalibrator`.
