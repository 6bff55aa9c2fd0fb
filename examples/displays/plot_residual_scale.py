"""
Do errors grow with the predicted uncertainty? ResidualScaleDisplay
===================================================================

:class:`~skuq.displays.ResidualScaleDisplay` plots the error of each row against its predicted standard
deviation. The cone is one predicted standard deviation to either side. The line is the root mean squared
error of neighboring rows.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.datasets import load_airfoil
from skuq.displays import ResidualScaleDisplay
from skuq.regressors import ResidualRegressor

X, y = load_airfoil(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
forest = RandomForestRegressor(20, random_state=0)
model = ResidualRegressor(forest, cv=3, random_state=0).fit(X_train, y_train)

display = ResidualScaleDisplay.from_estimator(model, X_test, y_test, unit="dB")
print(display.table[["rmv", "rmse"]].round(2).T.to_string())
plt.show()

# %%
# Errors grow with the predicted standard deviation, from 0.9 dB in the first bin to 3.7 dB in the last bin.
# Except in the last bin, the line is inside the cone or near its edge. In the last bin, the line is outside
# the cone, because of a few large errors.
