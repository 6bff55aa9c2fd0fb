"""
Bias and scale that depend on the prediction: GPBetaRecalibrator
================================================================

A straight line predicts fuel economy from weight. The prediction is too low for light and heavy cars and too
high for cars in between, and the predicted width is the same for all cars.
:class:`~skuq.recalibration.GPBetaRecalibrator` estimates a map of levels that varies smoothly with the
prediction. The map corrects the bias and the width.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge

from skuq.datasets import load_auto_mpg
from skuq.displays import PredictionBandDisplay
from skuq.metrics import crps_loss
from skuq.model_selection import cross_val_predict_dist
from skuq.recalibration import GPBetaRecalibrator

X, y = load_auto_mpg(return_X_y=True)
X = X[:, [2]] / 1000  # weight in 1000 pounds
line = cross_val_predict_dist(BayesianRidge(), X, y, cv=10)
recalibrator = GPBetaRecalibrator(random_state=0).fit(line[::2], y[::2])
forecasts = {"before": line[1::2], "after": recalibrator.transform(line[1::2])}

_, axes = plt.subplots(1, 2, figsize=(6.4, 4), sharey=True, layout="constrained")
for ax, (name, dist) in zip(axes, forecasts.items(), strict=True):
    print(f"{name:6s} CRPS {crps_loss(y[1::2], dist):.2f} mpg")
    PredictionBandDisplay.from_predictions(
        y[1::2],
        dist,
        x=X[1::2, 0],
        x_name="weight (1000 lb)",
        target_name="miles per gallon",
        ax=ax,
    )
    ax.set_title(name)
    ax.label_outer()
plt.show()

# %%
# After recalibration, the band follows the curve of the data and is narrow for heavy cars. The corrections of
# the mean and of the width depend on the prediction. The CRPS decreases from 2.24 to 2.07 mpg.
