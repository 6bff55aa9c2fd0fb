"""
Is the band as wide as the scatter? PredictionBandDisplay
=========================================================

:class:`~skuq.displays.PredictionBandDisplay` plots observed against predicted values, with prediction
intervals as a band. The plot shows whether the band is too narrow at one end and too wide at the other. An
average over rows does not show this.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skuq import UncertaintyRegressor
from skuq.datasets import load_auto_mpg
from skuq.displays import PredictionBandDisplay

X, y = load_auto_mpg(return_X_y=True)
X = X[:, [2, 4]]  # weight and year of the car
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
spline = make_pipeline(SplineTransformer(4), BayesianRidge())
models = {
    "constant width": spline,
    "modeled width": UncertaintyRegressor(spline, "residual", random_state=0),
}
_, axes = plt.subplots(1, 2, figsize=(6.4, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X_train, y_train)
    display = PredictionBandDisplay.from_estimator(
        model, X_test, y_test, coverage=[0.5, 0.9], target_name="miles per gallon", ax=ax
    )
    ax.set_title(name)
    ax.label_outer()
    width = display.bounds[:, 1, 1] - display.bounds[:, 0, 1]
    print(f"{name:15s} 90 % intervals are {width.min():.1f} to {width.max():.1f} mpg wide")
plt.show()

# %%
# With an almost constant width of 9.4 to 9.8 mpg, the band is too wide on the left, for cars with low fuel
# economy, and too narrow on the right. With a model of the errors, the width increases from 6.6 mpg for cars
# with little scatter to 12.1 mpg for cars with much scatter.
