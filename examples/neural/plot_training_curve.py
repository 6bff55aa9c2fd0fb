"""
Any metric per epoch
====================

This example plots calibration and sharpness of a network by epoch, as in figure 2 of Chung et al. (2021). A
skorch callback copies the weights of every tenth epoch. After training, the weights of each epoch are loaded
into the network, and ``predict_dist`` returns the forecast of that epoch, which any metric can evaluate.
"""

import copy

import matplotlib.pyplot as plt
import numpy as np
from skorch.callbacks import Callback

from skuq import metrics
from skuq.neural import PNNRegressor


class CopyWeights(Callback):
    """Copy of the weights of every tenth epoch."""

    def __init__(self):
        self.by_epoch = {}

    def on_epoch_end(self, net, **kwargs):
        """Copy the weights in every tenth epoch."""
        if len(net.history) % 10 == 0:
            self.by_epoch[len(net.history)] = copy.deepcopy(net.module_.state_dict())


rng = np.random.default_rng(0)
X = rng.uniform(-10, 10, size=(1200, 1))
noise = np.select([X[:, 0] < -5, X[:, 0] < 0, X[:, 0] < 5], [1.0, 0.01, 1.5], 0.5)
y = np.sin(X[:, 0] / 2) + X[:, 0] * np.cos(0.8 * X[:, 0]) + noise * rng.standard_normal(1200)

# %%
# With ``keep_best=False`` and ``calibration=None``, the network is trained on all 100 rows.
copies = CopyWeights()
options = {"max_epochs": 400, "batch_size": 50, "learning_rate": 0.01, "random_state": 0}
options |= {"net_params": {"callbacks": [copies], "lr_schedule": "constant"}}
model = PNNRegressor(keep_best=False, calibration=None, **options).fit(X[:100], y[:100])

scores = metrics.crps_loss, metrics.mean_absolute_calibration_error, metrics.sharpness
curves = {name: [] for name in ("CRPS", "calibration error", "mean standard deviation")}
for weights in copies.by_epoch.values():
    model.net_.module_.load_state_dict(weights)
    new = y[100:], model.predict_dist(X[100:])
    for curve, metric in zip(curves.values(), scores, strict=True):
        curve.append(metric(*new))

# %%
# The CRPS on new rows is smallest at the epoch of the dashed line, and larger at the last epoch. The
# calibration error varies greatly between epochs. With ``keep_best``, the weights of the best epoch are kept.
epochs, best = list(copies.by_epoch), np.argmin(curves["CRPS"])
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for (name, curve), ax in zip(curves.items(), axes, strict=True):
    print(f"{name:24s} epoch {epochs[best]}: {curve[best]:.3f}    last epoch: {curve[-1]:.3f}")
    ax.plot(epochs, curve, color="#0072B2")
    ax.axvline(epochs[best], color="0.4", linestyle="--", linewidth=1)
    ax.set(xlabel="epoch", ylabel=name, ylim=(0, np.quantile(curve, 0.95) * 1.3))
axes[2].axhline(noise[100:].mean(), color="0.3", linestyle=":")  # of the noise
plt.show()
