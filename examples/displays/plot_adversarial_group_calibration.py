"""
Calibrated in random groups too? AdversarialGroupCalibrationDisplay
===================================================================

:class:`~skuq.displays.AdversarialGroupCalibrationDisplay` draws many random groups of rows and plots the
calibration error of the worst group against the size of the groups. The error is larger in smaller groups,
even for a perfectly calibrated model. Compare the error with the dashed line, which shows the error of a
perfectly calibrated model.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_abalone
from skuq.displays import AdversarialGroupCalibrationDisplay

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
models = {
    "Gaussian errors": BayesianRidge(),
    "empirical errors": UncertaintyRegressor(BayesianRidge(), "residual", random_state=0),
}
options = {
    "fractions": [0.02, 0.05, 0.1, 0.2, 0.5, 1.0],
    "n_groups": 10,
    "n_resamples": 5,
    "random_state": 0,
}
ax = None
for name, model in models.items():
    model.fit(X_train, y_train)
    display = AdversarialGroupCalibrationDisplay.from_estimator(
        model, X_test, y_test, options=options, name=name, ax=ax
    )
    ax = display.ax_
    print(f"{name:20s}", (100 * display.worst.mean(axis=1)).round(1))
print("perfectly calibrated", (100 * display.reference).round(1))
plt.show()

# %%
# For all rows together, at the right end of the plot, the calibration error is 4.8 percentage points with
# Gaussian errors and 1.4 percentage points with empirical errors. The error of a calibrated model is 0.8
# percentage points. In groups of 10 % of the rows or more, the model with Gaussian errors is much farther
# above the dashed line than the model with empirical errors. Groups of 2 % of the rows are too small to show
# a difference between the models.
