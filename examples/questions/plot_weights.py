"""
A sample that does not represent the population: weights
========================================================

In this example, the sample contains all light cars, but only one in four of the other cars. The other cars
therefore have a weight of 4. The fuel economy of light cars varies more. With ``sample_weight``,
:class:`~skuq.conformal.CrossConformalRegressor` is calibrated for the population. Without weights, the
intervals are too wide.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import ShuffleSplit

from skuq.conformal import CrossConformalRegressor
from skuq.datasets import load_auto_mpg
from skuq.metrics import mean_interval_width, prediction_interval_coverage

X, y = load_auto_mpg(return_X_y=True)
light = X[:, 2] < 2600  # pounds
coverages = {"without weights": [], "with weights": []}
widths = {"without weights": [], "with weights": []}
for train, test in ShuffleSplit(20, test_size=0.3, random_state=0).split(X):
    sample = np.concatenate([train[light[train]], train[~light[train]][::4]])
    weight = np.where(light[sample], 1, 4)
    for name, each in {"without weights": None, "with weights": weight}.items():
        model = CrossConformalRegressor(LinearRegression(), random_state=0)
        bounds = model.fit(X[sample], y[sample], sample_weight=each).predict_interval(X[test])
        coverages[name].append(prediction_interval_coverage(y[test], bounds))
        widths[name].append(mean_interval_width(y[test], bounds))
print(f"light cars: {light[sample].mean():.0%} of the sample, {light.mean():.0%} of the population")
for name, width in widths.items():
    print(f"{name:16s} coverage {np.mean(coverages[name]):.1%}, width {np.mean(width):.1f} mpg")

_, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
ax.boxplot(list(widths.values()), tick_labels=list(widths))
ax.set_ylabel("mean width of 90 % intervals (mpg)")
plt.show()

# %%
# On average over 20 samples, the intervals without weights are 12.5 mpg wide and cover 92 % of the
# population. With weights, the intervals are 11.4 mpg wide and cover 91 % of the population.
