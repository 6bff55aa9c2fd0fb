"""
Aleatoric and epistemic uncertainty of neural networks
======================================================

The power of a wind turbine as a function of wind speed. Gusts make the power uncertain where its curve is
steep: noise, which is irreducible (aleatoric). Storms are rare, so that the curve is uncertain there, which
more rows would reduce (epistemic). Two of the four models separate the two.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from skuq.exceptions import NoDecompositionError
from skuq.metrics import crps_loss
from skuq.metrics import prediction_interval_coverage as coverage
from skuq.neural import DeepEnsembleRegressor, MCDropoutRegressor, PNNRegressor
from skuq.regressors import ResidualRegressor


def turbine(speed):
    """Return mean and standard deviation of the power in MW; in storms the turbine is switched off."""
    mean = 3.0 / (1 + np.exp(8 - speed)) - 1.2 / (1 + np.exp(1.5 * (16 - speed)))
    return mean, 0.03 + 0.3 * np.exp(-(((speed - 8) / 2.5) ** 2)) + 0.1 / (1 + np.exp(15 - speed))


rng = np.random.default_rng(0)
speed = 7.5 * rng.weibull(2, 8400)  # two hours in a hundred above 15 m/s
output = rng.normal(*turbine(speed))
X, y, X_test, y_test = speed[:400, None], output[:400], speed[400:, None], output[400:]
storm = speed[400:] > 15

# %%
# All with default parameters; the 20 networks of the ensemble are trained in one pass.
less = {"max_epochs": 20} if "SKUQ_QUICK" in os.environ else {}  # for the tests of skuq
forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0)
models = {
    "ensemble of 20 networks": DeepEnsembleRegressor(random_state=0, **less),
    "one network": PNNRegressor(random_state=0, **less),
    "Monte Carlo dropout": MCDropoutRegressor(random_state=0, **less),
    "forest and its residuals": ResidualRegressor(forest, random_state=0),
}

# %%
# All are close to nominal coverage on average. In storms the epistemic part of the ensemble is larger than
# elsewhere, though still too small, as calibration is dominated by other rows. A single network attributes
# all uncertainty to noise, and dropout has homoscedastic noise. The residual model of the forest is fitted to
# its errors in storms.
grid, blue, red = np.linspace(0, 20, 401), "#3b6fb6", "#d1495b"
figure, axes = plt.subplots(2, 4, figsize=(13, 6.2), sharex=True, sharey="row", layout="constrained")
print("                           CRPS   coverage of 90 %:         all rows   storms")
for (name, model), (top, bottom) in zip(models.items(), axes.T, strict=True):
    dist = model.fit(X, y).predict_dist(X_test)
    in_storms = coverage(y_test[storm], dist[storm])
    print(f"{name:25s}{crps_loss(y_test, dist):6.3f}{coverage(y_test, dist):38.0%}{in_storms:10.0%}")
    dist = model.predict_dist(grid[:, np.newaxis])
    top.fill_between(grid, *dist.interval(0.9).T, color=blue, alpha=0.25, lw=0, label="90 % of new rows")
    try:
        bounds = dist.epistemic().interval(0.9).T
        top.fill_between(grid, *bounds, color=red, alpha=0.45, lw=0, label="90 % for the mean")
        bottom.plot(grid, dist.aleatoric().std(), color=blue, label="aleatoric")
        bottom.plot(grid, dist.epistemic().std(), color=red, label="epistemic")
    except NoDecompositionError:
        bottom.plot(grid, dist.std(), color="#8a5aa8", label="total")
    top.plot(grid, turbine(grid)[0], "--", color="0.3", lw=1, label="mean, the truth")
    top.plot(X[:, 0], y, ".", color="0.2", ms=2, alpha=0.5)
    top.set(title=name, xlim=(0, 20), ylim=(-0.6, 4.6))
    bottom.plot(grid, turbine(grid)[1], "--", color="0.3", lw=1, label="noise, the truth")
    bottom.set(xlabel="wind, m/s", ylim=(0, 0.75))
    bottom.axvspan(15, 20, color="0.95", zorder=-1, label="storms")
    top.axvspan(15, 20, color="0.95", zorder=-1)
for ax in (*axes[:, 0], axes[1, 1]):
    ax.legend(loc="upper left", frameon=False)
axes[0, 0].set_ylabel("power, MW")
axes[1, 0].set_ylabel("standard deviation, MW")
os.makedirs("plots", exist_ok=True)
figure.savefig("plots/networks.png", dpi=120)
