"""
Add a predictive distribution to any regressor
==============================================

:class:`~skuq.regressors.UncertaintyRegressor` wraps a scikit-learn regressor and selects a method for it: the
posterior of the regressor, its quantile loss, or a model of its errors. In this example, three regressors
predict the fuel economy of 392 cars from their weight.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neighbors import KNeighborsRegressor

from skuq import UncertaintyRegressor
from skuq.datasets import load_auto_mpg
from skuq.displays import PredictionBandDisplay

X, y = load_auto_mpg(return_X_y=True)
X = X[:, [2]] / 1000  # 1000 pounds; miles per gallon
regressors = {
    "nearest neighbors": KNeighborsRegressor(40),
    "quantile boosting": GradientBoostingRegressor(
        loss="quantile", n_estimators=20, max_depth=2, random_state=0
    ),
    "Gaussian process": GaussianProcessRegressor(
        ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True, random_state=0
    ),
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
# Nearest neighbors do not predict a distribution, so the wrapper models their errors ("residual"). The
# wrapper fits quantile boosting at several levels and recalibrates the quantiles on out-of-fold rows
# ("recalibrated"). For a Gaussian process, the wrapper uses the posterior without changes ("native"). In this
# example, the intervals of the posterior have nearly the same width for all cars.
