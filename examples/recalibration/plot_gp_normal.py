"""
A factor that depends on the prediction: GPNormalRecalibrator
=============================================================

:class:`~skuq.recalibration.GPNormalRecalibrator` estimates the factor of the standard deviation as a smooth
function of the predicted mean and standard deviation. In this example, a linear model predicts fuel economy
with one width for all cars. Economical cars require a larger width.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge

from skuq.datasets import load_auto_mpg
from skuq.displays import PredictionBandDisplay
from skuq.model_selection import cross_val_predict_dist
from skuq.recalibration import GPNormalRecalibrator

X, y = load_auto_mpg(return_X_y=True)
before = cross_val_predict_dist(BayesianRidge(), X, y, cv=10)
after = GPNormalRecalibrator(random_state=0).fit(before[::2], y[::2]).transform(before[1::2])
low, high = before[1::2].mean() < 20, before[1::2].mean() > 28
factor = after.std() / before[1::2].std()
print(f"mean factor: {factor[low].mean():.2f} below 20 mpg, {factor[high].mean():.2f} above 28 mpg")

_, axes = plt.subplots(1, 2, figsize=(6.4, 4), sharey=True, layout="constrained")
for ax, (name, dist) in zip(axes, {"before": before[1::2], "after": after}.items(), strict=True):
    PredictionBandDisplay.from_predictions(y[1::2], dist, target_name="miles per gallon", ax=ax)
    ax.set_title(name)
    ax.label_outer()
plt.show()

# %%
# The mean factor is 0.74 for cars below 20 miles per gallon, so the band becomes narrower on the left. The
# mean factor is 1.41 for cars above 28 miles per gallon, so the band becomes wider on the right. The
# predicted means do not change, and the bias on the far left remains.
