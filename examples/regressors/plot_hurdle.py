"""
Targets with many exact zeros: HurdleRegressor
==============================================

The amount of rain on a day is often exactly zero. :class:`~skuq.regressors.HurdleRegressor` combines a
classifier, which predicts the probability of zero, with a regressor of the other amounts. The plot shows the
predicted distribution functions for a dry day and a wet day. The jump at zero is the probability of no rain.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

from skuq import UncertaintyRegressor
from skuq.metrics import crps_loss
from skuq.regressors import HurdleRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 2))  # humidity and temperature, standardized
is_wet = rng.uniform(size=900) < 1 / (1 + np.exp(1.5 - 1.5 * X[:, 0]))
y = np.where(is_wet, rng.gamma(2.0, np.exp(0.8 + 0.4 * X[:, 1])), 0.0)
train, test = slice(None, 500), slice(500, None)

regressor = UncertaintyRegressor(LinearRegression(), random_state=0)
models = {
    "regressor": UncertaintyRegressor(LinearRegression(), random_state=0, support="positive"),
    "hurdle": HurdleRegressor(LogisticRegression(), regressor, random_state=0),
}
for name, model in models.items():
    dist = model.fit(X[train], y[train]).predict_dist(X[test])
    no_rain = dist.cdf(0.0).mean()
    print(
        f"{name:9s} CRPS {crps_loss(y[test], dist):.3f}, predicted share of dry days {no_rain:.0%}"
    )
print(f"observed share of dry days {np.mean(y[test] == 0):.0%}")

dist = models["hurdle"].predict_dist([[-1.0, 0.0], [1.0, 0.0]])
amounts = np.linspace(-1.0, 15.0, 400)
ax = plt.figure(figsize=(6.4, 3.8), layout="constrained").subplots()
for row, name in enumerate(["dry air", "humid air"]):
    (line,) = ax.plot(amounts, [dist[row].cdf(amount)[0] for amount in amounts], label=name)
    ax.plot(0.0, dist.p[row], "o", color=line.get_color())
ax.set(xlabel="rain (mm)", ylabel="probability of at most this amount", ylim=(0, 1.02))
ax.legend(loc="lower right")
plt.show()

# %%
# The regressor that is fitted to all days clips its forecasts at zero. It predicts that 29 % of the days are
# dry, but 73 % of the days are dry. The hurdle model predicts that 69 % are dry. Its CRPS is 0.88, compared
# with 0.95 for the regressor. On the humid day, rain is more probable, and the jump at zero is smaller.
