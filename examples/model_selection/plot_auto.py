"""
From data to the best distribution: AutoUncertaintyRegressor
============================================================

:class:`~skuq.model_selection.AutoUncertaintyRegressor` searches models, parameters, methods and recalibrators
for the smallest CRPS. This example predicts the strength of concrete. It runs in seconds, because the search
has only a few trials with models from scikit-learn. With the default ``time_budget=60``, the search also
includes networks and gradient boosting from other packages.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

from skuq.datasets import load_concrete
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.model_selection import AutoUncertaintyRegressor

X, y = load_concrete(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

space = AutoUncertaintyRegressor().search_space()
for name in set(space["estimators"]) - {"linear", "forest", "extra_trees", "boosting"}:
    del space["estimators"][name]
model = AutoUncertaintyRegressor(space, time_budget=None, n_trials=12, random_state=0).fit(X, y)

dist = model.predict_dist(X_test)
columns = ["base", "recalibration", "crps", "standard_error", "coverage", "width", "state"]
print(model.leaderboard_[columns].round(2).to_string())
print(f"test rows: CRPS {crps_loss(y_test, dist):.2f} MPa,", end=" ")
print(f"coverage {prediction_interval_coverage(y_test, dist):.0%}")

board = model.leaderboard_.drop_duplicates(["base", "recalibration"])[::-1]
labels = board["base"] + ", " + board["recalibration"]
_, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.errorbar(board["crps"], labels, xerr=board["standard_error"], fmt="o", capsize=3)
for row, coverage in enumerate(board["coverage"]):
    ax.annotate(f"{coverage:.1%}", (1.02, row), xycoords=("axes fraction", "data"), va="center")
ax.annotate("coverage", (1.0, 1.02), xycoords="axes fraction", ha="left")
ax.set(xlabel="out-of-fold CRPS (MPa), ± standard error", ylabel="model, recalibrator")
plt.show()

# %%
# The pool averages the distributions of several models, and has a smaller CRPS than each of them. The
# coverage of the pool is close to nominal, out of fold and on the test rows.
