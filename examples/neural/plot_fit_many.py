"""
Which loss is best? Many networks trained together: fit_many
============================================================

:func:`~skuq.neural.fit_many` trains networks that differ in loss or seed in one pass. This example trains
networks with four losses and five seeds each.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.datasets import load_auto_mpg
from skuq.metrics import crps_loss
from skuq.neural import PNNRegressor, fit_many

X, y = load_auto_mpg(return_X_y=True)
losses = ["nll", "beta_nll", "crps", "interval"]
networks = [
    PNNRegressor(loss=loss, max_epochs=60, random_state=seed)
    for loss in losses
    for seed in range(5)
]
fitted = fit_many(networks, X[:300], y[:300])
crps = np.reshape([crps_loss(y[300:], each.predict_dist(X[300:])) for each in fitted], (4, 5))
for loss, scores in zip(losses, crps, strict=True):
    print(
        f"{loss:9s} CRPS {scores.mean():.3f} mpg, {scores.min():.3f} to {scores.max():.3f} over five seeds"
    )

_, ax = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
ax.plot(crps.ravel(), np.repeat(losses, 5), "o", markersize=8, alpha=0.6)
ax.set(xlabel="CRPS on 92 test rows (mpg)", ylabel="loss")
ax.margins(y=0.2)
plt.show()

# %%
# Between seeds of the same loss, the scores differ more than the mean scores differ between losses. Use
# several seeds to compare losses. The twenty networks were trained in one pass.
