"""
Are the probabilities right on average? CalibrationCurveDisplay
===============================================================

:class:`~skuq.displays.CalibrationCurveDisplay` plots the share of targets below each predicted quantile
against the level of the quantile. A calibrated model stays within the gray sampling band around the diagonal.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_abalone
from skuq.displays import CalibrationCurveDisplay

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
models = {
    "Gaussian errors": BayesianRidge(),
    "empirical errors": UncertaintyRegressor(BayesianRidge(), "residual", random_state=0),
}
ax = None
for name, model in models.items():
    model.fit(X_train, y_train)
    display = CalibrationCurveDisplay.from_estimator(model, X_test, y_test, name=name, ax=ax)
    ax = display.ax_
    print(f"{name:20s}", display.proportions[[9, 49, 89]].round(2))
plt.show()

# %%
# With Gaussian errors, the curve leaves the band: 4 % of the abalone are below the predicted 10 % quantile,
# and 58 % are below the predicted median, because the errors are skewed. With the empirical distribution of
# the errors, the curve follows the diagonal: 9 % are below the 10 % quantile, and 49 % are below the median.
