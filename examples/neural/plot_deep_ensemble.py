"""
Aleatoric and epistemic uncertainty: DeepEnsembleRegressor
==========================================================

This example simulates the power of a wind turbine as a function of wind speed, so the true power curve and
the true noise are known. At speeds where the power curve is steep, gusts cause noise in the power. This
uncertainty is irreducible (aleatoric). Storms are rare, so the power curve itself is uncertain at high
speeds. This uncertainty is epistemic. :class:`~skuq.neural.DeepEnsembleRegressor` separates the two parts.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.metrics import prediction_interval_coverage
from skuq.neural import DeepEnsembleRegressor


def turbine(speed):
    """Return mean and standard deviation of the power in MW; in storms the turbine is switched off."""
    mean = 3.0 / (1 + np.exp(8 - speed)) - 1.2 / (1 + np.exp(1.5 * (16 - speed)))
    return mean, 0.03 + 0.3 * np.exp(-(((speed - 8) / 2.5) ** 2)) + 0.1 / (1 + np.exp(15 - speed))


rng = np.random.default_rng(0)
speed = 7.5 * rng.weibull(2, 2400)  # two hours in a hundred above 15 m/s
power = rng.normal(*turbine(speed))
X, y, X_test, y_test = speed[:400, None], power[:400], speed[400:, None], power[400:]
model = DeepEnsembleRegressor(10, max_epochs=80, random_state=0).fit(X, y)
coverage = prediction_interval_coverage(y_test, model.predict_dist(X_test))
print(f"coverage of 90 % intervals on 2000 new hours: {coverage:.1%}")

grid = np.linspace(0, 20, 201)
dist = model.predict_dist(grid[:, np.newaxis])
for name, part in {"aleatoric": dist.aleatoric(), "epistemic": dist.epistemic()}.items():
    print(
        f"{name} standard deviation at 8 and 18 m/s: {part.std()[80]:.2f} and {part.std()[180]:.2f} MW"
    )

_, (top, bottom) = plt.subplots(2, 1, figsize=(5.6, 5), sharex=True, layout="constrained")
top.plot(X[:, 0], y, ".", color="0.4", markersize=2)
top.fill_between(grid, *dist.interval(0.9).T, alpha=0.3, label="90 % of new hours")
top.fill_between(
    grid, *dist.epistemic().interval(0.9).T, color="C3", alpha=0.5, label="90 % for the mean"
)
bottom.plot(grid, dist.aleatoric().std(), label="aleatoric")
bottom.plot(grid, dist.epistemic().std(), color="C3", label="epistemic")
bottom.plot(grid, turbine(grid)[1], "--", color="0.3", label="true noise")
top.set(ylabel="power (MW)")
bottom.set(xlabel="wind speed (m/s)", ylabel="standard deviation (MW)")
top.legend(loc="upper left"), bottom.legend(loc="upper right")
plt.show()

# %%
# 90 % intervals cover 91 % of new hours. At 8 m/s, the aleatoric part is 0.38 MW and the epistemic part is
# 0.03 MW. At 18 m/s, there are hardly any training rows, so the epistemic part, 0.20 MW, is larger than the
# aleatoric part, 0.15 MW.
