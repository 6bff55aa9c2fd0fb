"""
Would more data help?
=====================

More rows reduce the epistemic part of the uncertainty, but not the noise. This example estimates both parts
with :class:`~skuq.regressors.BootstrapRegressor` on increasingly large training sets of abalone.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skuq.datasets import load_abalone
from skuq.regressors import BootstrapRegressor

X, y = load_abalone(return_X_y=True)
model = BootstrapRegressor(
    make_pipeline(SplineTransformer(6), Ridge(0.1)), n_estimators=30, random_state=0
)
sizes, parts = [50, 100, 200, 400, 800, 1600], {"aleatoric": [], "epistemic": []}
for size in sizes:
    dist = model.fit(X[:size], y[:size]).predict_dist(X[2000:4000])
    parts["aleatoric"].append(dist.aleatoric().std().mean())
    parts["epistemic"].append(dist.epistemic().std().mean())
for name, std in parts.items():
    print(name, [round(float(value), 2) for value in std], "rings")

_, ax = plt.subplots(figsize=(5.4, 3.8), layout="constrained")
for name, std in parts.items():
    ax.loglog(sizes, std, "o-", label=name)
ax.set(xlabel="training rows", ylabel="mean standard deviation (rings)")
ax.legend()
plt.show()

# %%
# From 50 to 1600 rows, the epistemic part decreases from 1.6 to 0.3 rings. The noise stays between 2.1 and
# 2.6 rings, so more rows would hardly make the intervals narrower. Additional features might reduce the
# noise.
