"""
What does my forecast cost? The operating point
===============================================

A supplier states the strength of concrete with a tolerance. Each MPa of tolerance costs 1, and each sample
outside the tolerance costs 30. :func:`~skuq.metrics.uncertainty_characteristics_curve` returns the cheapest
bands of a model and their cost.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_concrete
from skuq.metrics import uncertainty_characteristics_curve

X, y = load_concrete(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
regressors = {
    "linear": LinearRegression(),
    "boosting": HistGradientBoostingRegressor(max_iter=50, random_state=0),
}
_, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
for name, regressor in regressors.items():
    dist = UncertaintyRegressor(regressor, cv=3, random_state=0).fit(X, y).predict_dist(X_test)
    curve = uncertainty_characteristics_curve(y_test, dist)
    point = curve.optimum(cost=(1.0, 30.0))
    cost = point.bandwidth + 30 * point.miss_rate
    print(
        f"{name:9s} ± {point.bandwidth:.1f} MPa, {point.miss_rate:.1%} outside, cost {cost:.1f} per sample"
    )
    (line,) = ax.plot(curve.bandwidth, curve.bandwidth + 30 * curve.miss_rate, label=name)
    ax.plot(point.bandwidth, cost, "o", color=line.get_color(), markersize=9)
ax.set(
    xlabel="tolerance: mean half width of the bands (MPa)",
    ylabel="cost per sample",
    xlim=(0, 40),
    ylim=(0, 35),
)
ax.legend()
plt.show()

# %%
# The cheapest bands of the linear model have a tolerance of ± 8.1 MPa and cost 10.6 per sample. The cheapest
# bands of boosting have a tolerance of ± 7.5 MPa and cost 10.2 per sample. Narrower bands increase the cost
# of misses, and wider bands increase the cost of the tolerance.
# :class:`~skuq.recalibration.OperatingPointRecalibrator` multiplies the intervals of a model by the factor of
# its cheapest bands.
