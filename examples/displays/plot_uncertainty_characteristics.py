"""
Which width for which miss rate? UncertaintyCharacteristicsDisplay
==================================================================

:class:`~skuq.displays.UncertaintyCharacteristicsDisplay` plots the miss rate of the bands at every width they
could be given. The lower curve is better; dashed are bands of one width around the same predictions.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.datasets import load_airfoil
from skuq.displays import UncertaintyCharacteristicsDisplay
from skuq.regressors import ResidualRegressor

X, y = load_airfoil(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestRegressor(30, min_samples_leaf=5, random_state=0)
model = ResidualRegressor(forest, cv=3, random_state=0).fit(X_train, y_train)

display = UncertaintyCharacteristicsDisplay.from_estimator(
    model, X_test, y_test, unit="dB", name="random forest", miss_rate=0.1
)
point = display.curve.operating_point(miss_rate=0.1)
constant = display.reference.operating_point(miss_rate=0.1)
print(
    f"half width at a miss rate of 10 %: {point.bandwidth:.1f}, of constant bands {constant.bandwidth:.1f} dB"
)
plt.show()

# %%
# For a miss rate of 10 % the bands of the model are 4.0 dB to either side, bands of one width 4.2 dB: the
# predicted widths are informative there. At high miss rates, for narrow bands, they are not, and the curves
# cross.
