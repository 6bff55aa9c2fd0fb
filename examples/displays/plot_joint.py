"""
Is the predicted dependence right? Displays for several targets
===============================================================

:class:`~skuq.multivariate.JointPairDisplay` plots the observed PIT values of two targets together with PIT
values that the joint distribution predicts. :class:`~skuq.multivariate.JointRankHistogramDisplay` ranks the
observed vectors.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from skuq.distributions import Normal
from skuq.multivariate import (
    CopulaJoint,
    JointPairDisplay,
    JointRankHistogramDisplay,
    normal_template,
    rank_template,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 2))
noise = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], size=1000)
y = X + noise
model = LinearRegression().fit(X[:500], y[:500])
residuals = y[:500] - model.predict(X[:500])
loc = model.predict(X[500:])
marginals = [Normal(loc[:, j], residuals[:, j].std()) for j in range(2)]
forecasts = {
    "independent": CopulaJoint(marginals, normal_template(np.eye(2)), names=["north", "south"]),
    "ranks of residuals": CopulaJoint(
        marginals, rank_template(residuals), names=["north", "south"]
    ),
}
figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
for (name, dist), (pair, histogram) in zip(forecasts.items(), axes.T, strict=True):
    JointPairDisplay.from_predictions(y[500:], dist, name=name, ax=pair)
    display = JointRankHistogramDisplay.from_predictions(y[500:], dist, ax=histogram)
    print(f"{name:20s}", (100 * display.proportions).round().astype(int))
plt.show()

# %%
# Both forecasts have the same marginals. The observed PIT values lie along the diagonal. The independent
# forecast fills the whole square, and the first and the last bin of its histogram are above the band, with
# 21 % and 18 % of the rows. With the ranks of the residuals as a template, all bins are inside the band.
