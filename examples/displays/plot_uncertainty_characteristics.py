"""
How wide for a given miss rate? UncertaintyCharacteristicsDisplay
=================================================================

:class:`~skuq.displays.UncertaintyCharacteristicsDisplay` multiplies all bands by a common factor, and plots
the miss rate against the mean width for all factors. Lower curves are better. The thin dashed curve shows
bands of constant width around the same predictions.
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
# For a miss rate of 10 %, the mean half width is 3.2 dB for the bands of the model and 3.6 dB for bands of
# constant width, so the predicted widths are informative. At high miss rates, where the bands are narrow, the
# predicted widths are not informative, and the curves cross.
