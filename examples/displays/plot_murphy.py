"""
Is a model better for every score? MurphyDisplay
================================================

:class:`~skuq.displays.MurphyDisplay` plots the elementary scores of point forecasts. Every score that is
consistent for the mean, such as the squared error, is a weighted sum of these elementary scores. In this
example, the models predict the strength of concrete. The first plot shows the scores of their means. The
second plot shows the scores of their 90 % quantiles, minus the scores of the quantiles of least squares, with
a pointwise 95 % band.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_concrete
from skuq.displays import MurphyDisplay
from skuq.metrics import pinball_loss, threshold_weighted_crps_loss
from skuq.regressors import LeastSquaresRegressor

X, y = load_concrete(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
shallow = RandomForestRegressor(50, max_depth=4, random_state=0)
deep = RandomForestRegressor(50, random_state=0)
models = {
    "least squares": LeastSquaresRegressor(),
    "shallow forest": UncertaintyRegressor(shallow, random_state=0),
    "deep forest": UncertaintyRegressor(deep, random_state=0),
}
dists = {name: model.fit(X, y).predict_dist(X_test) for name, model in models.items()}

_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, dist in dists.items():
    MurphyDisplay.from_predictions(y_test, dist, name=name, ax=left)
    if name != "least squares":
        options = {"functional": "quantile", "levels": 0.9, "reference": dists["least squares"]}
        MurphyDisplay.from_predictions(y_test, dist, name=name, ax=right, **options)
    pinball = pinball_loss(y_test, dist, levels=[0.9])
    strong = threshold_weighted_crps_loss(y_test, dist, lower=60.0)
    print(f"{name:14s} pinball loss {pinball:.2f}, CRPS above 60 MPa {strong:.3f}")
left.set_xlabel("Threshold θ (MPa)")
right.set_xlabel("Threshold θ (MPa)")
plt.show()

# %%
# The curve of the deep forest is lowest at most thresholds, so the deep forest is best by most scores of the
# mean. At high thresholds, the forests differ in only a few rows. The 90 % quantiles of the deep forest are
# significantly better than the quantiles of least squares at many thresholds, and not significantly worse at
# any threshold.
