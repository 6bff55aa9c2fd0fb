"""
Any metric by epoch
===================

How calibration and sharpness change while a network is trained, for four losses: the last row of figure 2 of
Chung et al. (2021). A callback of skorch copies the weights of every twentieth epoch; with the weights of an
epoch, ``predict_dist`` returns the forecast of that epoch, which any metric evaluates on any rows.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from skorch.callbacks import Callback

from skuq import metrics
from skuq.neural import PNNRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-10, 10, size=(1800, 1))
x = X[:, 0]
noise = np.select([x < -5, x < 0, x < 5], [1.0, 0.01, 1.5], 0.5)
y = np.sin(x / 2) + x * np.cos(0.8 * x) + noise * rng.standard_normal(len(x))
train, valid, test = slice(200), slice(200, 800), slice(800, None)

# %%
# ``keep_best=False`` and ``calibration=None`` train on all rows, and hold none out.


class CopyWeights(Callback):
    """The weights of every twentieth epoch."""

    def __init__(self):
        self.weights = {}

    def on_epoch_end(self, net, **kwargs):
        """Copy them."""
        epoch = len(net.history)
        if epoch % 20 == 0:
            state = net.module_.state_dict()
            self.weights[epoch] = {name: value.clone() for name, value in state.items()}


steps = {"max_epochs": 100 if "SKUQ_QUICK" in os.environ else 2000, "batch_size": 200}  # 100: tests of skuq
steps |= {"learning_rate": 0.001, "lr_schedule": "constant", "keep_best": False, "calibration": None}
scores = [metrics.nll_loss, metrics.crps_loss, metrics.pinball_loss, metrics.interval_score_loss]

# %%
# The dashed line is the epoch with the best value of the same score on validation rows. The score improves
# up to there, while the calibration error grows or stays, and the forecast gets about as sharp as the noise.
figure, axes = plt.subplots(2, 4, figsize=(13, 5.5), sharex=True, sharey="row", layout="constrained")
print("loss     best epoch: its calibration error, sharpness    the last: calibration error, sharpness")
for loss, score, (top, bottom) in zip(("nll", "crps", "check", "interval"), scores, axes.T, strict=True):
    copies = CopyWeights()
    model = PNNRegressor((64, 64, 64), loss=loss, callbacks=[copies], random_state=0, **steps)
    model.fit(X[train], y[train])
    rows = []
    for epoch, weights in copies.weights.items():
        model.net_.module_.load_state_dict(weights)
        dist = model.predict_dist(X)
        error = metrics.mean_absolute_calibration_error(y[test], dist[test])
        rows.append((epoch, score(y[valid], dist[valid]), error, metrics.sharpness(y[test], dist[test])))
    at, validation, error, sharp = np.array(rows).T
    best = validation.argmin()
    numbers = (f"{error[k]:18.3f}{sharp[k]:11.3f}" for k in (best, -1))
    print(f"{loss:9s}{at[best]:10.0f}", *numbers, sep="    ")
    top.plot(at, error, color="#3b6fb6")
    bottom.plot(at, sharp, color="#d1495b", label="forecast")
    bottom.axhline(noise[test].mean(), color="0.3", lw=1, ls=":", label="noise")
    for ax in (top, bottom):
        ax.axvline(at[best], color="0.4", lw=1, ls="--", label="best epoch, validation rows")
    top.set(title=f"loss: {loss}", ylim=(0, None))
    bottom.set(xlabel="epoch", ylim=(0, 2))
bottom.legend(frameon=False)
axes[0, 0].set_ylabel("calibration error")
axes[1, 0].set_ylabel("mean standard deviation")
os.makedirs("plots", exist_ok=True)
figure.savefig("plots/training_curve.png", dpi=120)
