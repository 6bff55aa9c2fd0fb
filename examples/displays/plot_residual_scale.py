"""
Do errors grow with the predicted uncertainty? ResidualScaleDisplay
===================================================================

:class:`~skuq.displays.ResidualScaleDisplay` plots the error of each row against its predicted standard
deviation. The cone extends one predicted standard deviation to either side of zero. The line is the root mean
squared error of neighboring rows.
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
# On the whole, errors grow with the predicted standard deviation, from 0.8 dB in the first bin to 3.4 dB in
# the last bin. In the fifth and the last bin, the line is outside the cone, because of a few large errors.
