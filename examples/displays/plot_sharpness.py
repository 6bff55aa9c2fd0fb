"""
How certain is the model? SharpnessDisplay
==========================================

:class:`~skuq.displays.SharpnessDisplay` plots a histogram of the predicted standard deviations. Of two
calibrated models, the model with the smaller standard deviations is better. Use other displays to check
whether the models are calibrated.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_concrete
from skuq.displays import SharpnessDisplay
from skuq.metrics import prediction_interval_coverage

X, y = load_concrete(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
models = {"linear": Ridge(), "boosting": HistGradientBoostingRegressor(max_iter=50, random_state=0)}
ax = None
for name, regressor in models.items():
    model = UncertaintyRegressor(regressor, cv=3, random_state=0).fit(X_train, y_train)
    coverage = prediction_interval_coverage(y_test, model.predict_dist(X_test))
    display = SharpnessDisplay.from_estimator(model, X_test, y_test, unit="MPa", name=name, ax=ax)
    ax = display.ax_
    print(f"{name:9s} sharpness {display.value:.1f} MPa, coverage of 90 % intervals {coverage:.0%}")
plt.show()

# %%
# The 90 % intervals of both models cover at least 90 % of the test rows. Boosting is the better model,
# because it is sharper: its mean standard deviation is 4.4 MPa, compared with 5.0 MPa for the linear model.
