"""
Are large errors predicted? ReliabilityDisplay
==============================================

:class:`~skuq.displays.ReliabilityDisplay` compares the root mean squared error with the predicted standard
deviation, in bins of predicted standard deviation. The curve of a calibrated model is on the diagonal. If the
curve is above the diagonal, errors are larger than predicted.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.datasets import load_airfoil
from skuq.displays import ReliabilityDisplay
from skuq.regressors import BootstrapRegressor, ResidualRegressor

X, y = load_airfoil(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
models = {
    "spread of the trees": BootstrapRegressor(forest, noise=None, random_state=0),
    "model of the errors": ResidualRegressor(forest, cv=3, random_state=0),
}
ax = None
for name, model in models.items():
    model.fit(X_train, y_train)
    display = ReliabilityDisplay.from_estimator(
        model, X_test, y_test, n_bins=6, unit="dB", name=name, ax=ax
    )
    ax = display.ax_
    print(f"{name:20s}", (display.table["rmse"] / display.table["rmv"]).round(2).tolist())
plt.show()

# %%
# The spread of the trees is overconfident for rows with a small spread: the errors are 1.4 times as large as
# predicted in the first bin. Except in the last bin, the curve of the model of the errors is below the
# diagonal: its standard deviations are 1 to 47 % too large. In the last bin, they are 6 % too small.
