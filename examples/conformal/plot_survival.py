"""
Lower bounds of censored times: ConformalSurvivalRegressor
==========================================================

A study ends on a known date, so the censoring time of each row is known.
:class:`~skuq.survival.ConformalSurvivalRegressor` wraps any regressor and predicts a time that 90 % of the
rows exceed. The plot compares this bound with the 10 % quantiles of two models. One of them treats the
censoring times as observed.
"""

import matplotlib.pyplot as plt
import numpy as np

from skuq.regressors import LeastSquaresRegressor, UncertaintyRegressor
from skuq.survival import CensoringWeightedRegressor, ConformalSurvivalRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(4000, 1))
time = np.exp(0.5 + X[:, 0] + 0.4 * rng.normal(size=4000))
end = rng.uniform(1.0, 8.0, size=4000)
y, event = np.minimum(time, end), time <= end
train, test = slice(None, 2000), slice(2000, None)

least_squares = UncertaintyRegressor(LeastSquaresRegressor())
raw = CensoringWeightedRegressor(least_squares).fit(X[train], y[train], event=event[train])
ignoring = LeastSquaresRegressor().fit(X[train], y[train])
model = ConformalSurvivalRegressor(CensoringWeightedRegressor(least_squares), random_state=0)
model.fit(X[train], y[train], event=event[train], censoring_time=end[train])
bounds = {
    "10 % quantile, censoring ignored": ignoring.predict_quantiles(X[test], 0.1),
    "10 % quantile, weighted rows": raw.predict_quantiles(X[test], 0.1),
    "conformal bound": model.predict(X[test]),
}
ax = plt.figure(figsize=(6.4, 4.0), layout="constrained").subplots()
ax.scatter(X[test, 0], time[test], s=3, color="0.75", label="true times")
order = np.argsort(X[test, 0])
for name, bound in bounds.items():
    print(f"{name:33s} {np.mean(time[test] >= bound):.0%} of the times are longer")
    ax.plot(X[test, 0][order], bound[order], label=name)
ax.set(xlabel="x", ylabel="Time", ylim=(0, 8))
ax.legend(fontsize="small")
plt.show()

# %%
# The quantiles of both models are too low, because the models assume normal errors with the same standard
# deviation for all rows. The conformal bound corrects this: 90 % of the times are longer.
