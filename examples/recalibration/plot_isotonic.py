"""
A map of probability levels: IsotonicRecalibrator
=================================================

A linear model with Gaussian errors predicts the age of abalone, measured by the number of rings in the shell.
:class:`~skuq.recalibration.IsotonicRecalibrator` estimates the share of targets below the quantile at each
level, such as 10 %, 50 % or 90 %. It then replaces the level with this share.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import RecalibratedRegressor
from skuq.datasets import load_abalone
from skuq.displays import CalibrationCurveDisplay
from skuq.recalibration import IsotonicRecalibrator

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

before = BayesianRidge().fit(X_train, y_train)
after = RecalibratedRegressor(BayesianRidge(), IsotonicRecalibrator(), random_state=0).fit(
    X_train, y_train
)
ax = None
for name, model in {"before": before, "after": after}.items():
    display = CalibrationCurveDisplay.from_estimator(model, X_test, y_test, name=name, ax=ax)
    ax = display.ax_
    print(
        f"{name:6s} below the quantiles of 10, 50 and 90 %:",
        (100 * display.proportions[[9, 49, 89]]).round(1),
    )
plt.show()

# %%
# Before recalibration, 58 % of the targets are below the predicted median. After recalibration, 48 % of the
# targets are below the new median. The correction is one map of levels for all rows. The recalibrated
# forecasts are skewed, like the errors.
