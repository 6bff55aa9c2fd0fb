"""
Where do the intervals miss? IntervalDisplay
============================================

:class:`~skuq.displays.IntervalDisplay` plots the intervals of individual rows in sorted order. Intervals that
miss their target are red. The plot shows whether misses occur for low or for high predictions, and whether
targets are above or below their intervals.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_concrete
from skuq.displays import IntervalDisplay

X, y = load_concrete(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=100, random_state=0)
forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
model = UncertaintyRegressor(forest, cv=3, random_state=0).fit(X_train, y_train)

display = IntervalDisplay.from_estimator(model, X_test, y_test, target_name="strength (MPa)")
below, above = display.y_true < display.bounds[:, 0], display.y_true > display.bounds[:, 1]
print(f"{below.sum()} of {len(y_test)} targets below their interval, {above.sum()} above")
plt.show()

# %%
# Nine of the 100 targets are outside their interval. Five of them are above their interval. The misses are
# spread over the whole range of predictions.
