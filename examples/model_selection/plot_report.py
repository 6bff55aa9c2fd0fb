"""
All metrics of a model, with their uncertainty
==============================================

:func:`~skuq.evaluation.uncertainty_report` computes many metrics at once. For each metric, it shows a
confidence interval, the value for a calibrated model with the same number of rows, and an interpretation.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_abalone
from skuq.evaluation import uncertainty_report
from skuq.regressors import BootstrapRegressor

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
models = {
    "trees": BootstrapRegressor(forest, noise=None, random_state=0),
    "errors": UncertaintyRegressor(forest, cv=3, random_state=0),
}
forecasts = {
    name: model.fit(X_train, y_train).predict_dist(X_test) for name, model in models.items()
}
report = uncertainty_report(
    y_test, forecasts, metrics=["crps", "mace", "ence", "picp"], n_resamples=200, random_state=0
)
print(report[["value", "calibrated_low", "calibrated_high"]].round(3))

# %%
# The report is a DataFrame with one row for each metric and model.
_, axes = plt.subplots(2, 2, figsize=(5.6, 4.6), layout="constrained")
for ax, (_, table) in zip(axes.flat, report.groupby(level="metric", sort=False), strict=True):
    ax.vlines(
        list(models), table["calibrated_low"], table["calibrated_high"], color="0.8", linewidth=14
    )
    ax.vlines(list(models), table["low"], table["high"])
    ax.plot(list(models), table["value"], "o")
    ax.set_title(table["title"].iloc[0])
    ax.margins(x=0.4)
axes[0, 0].set_ylabel("rings")
plt.show()

# %%
# The figure shows each value with its confidence interval. The range of a calibrated model is gray. For the
# spread of the trees, every metric is outside this range. For the model of the errors, every metric is inside
# it.
