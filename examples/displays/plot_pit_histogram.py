"""
Which part of the distribution is wrong? PITHistogramDisplay
============================================================

:class:`~skuq.displays.PITHistogramDisplay` plots the share of targets between predicted quantiles. With a
probability of 95 %, all bins of a calibrated model are inside the gray band.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_abalone
from skuq.displays import PITHistogramDisplay

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
models = {
    "Gaussian errors": BayesianRidge(),
    "empirical errors": UncertaintyRegressor(BayesianRidge(), "residual", random_state=0),
}
ax = None
for name, model in models.items():
    model.fit(X_train, y_train)
    display = PITHistogramDisplay.from_estimator(model, X_test, y_test, name=name, ax=ax)
    ax = display.ax_
    print(f"{name:20s}", (100 * display.proportions).round().astype(int))
plt.show()

# %%
# With Gaussian errors, six bins are outside the band: the first bin has 4 % of the abalone, and the fourth
# has 16 %, because the errors are skewed. With the empirical distribution of the errors, all bins are inside
# the band.
