"""
Waiting times with censored rows: CensoredBoostingRegressor
===========================================================

Half of the rows are censored: we know only that their waiting time is longer than the time of observation.
:class:`~skuq.survival.CensoredBoostingRegressor` uses the probability of such times in its likelihood.
:class:`~skuq.survival.CensoringWeightedRegressor` fits any regressor to the observed rows, with weights
that represent the censored rows. The plot compares the mean predicted survival curves of two groups with the
Kaplan-Meier estimates.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from skuq.metrics import crps_loss
from skuq.regressors import UncertaintyRegressor
from skuq.survival import (
    CensoredBoostingRegressor,
    CensoringWeightedRegressor,
    SurvivalCurveDisplay,
    ipcw_crps_loss,
)

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(1600, 3))
time = np.exp(1 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.5 * rng.normal(size=1600))
end = rng.exponential(4.0, size=1600)
y, event = np.minimum(time, end), time <= end
train, test = slice(None, 800), slice(800, None)

forest = RandomForestRegressor(50, min_samples_leaf=10, random_state=0)
known = event[:800]
observed_only = UncertaintyRegressor(forest, random_state=0).fit(X[:800][known], y[:800][known])
weighted = CensoringWeightedRegressor(UncertaintyRegressor(forest, random_state=0))
boosting = CensoredBoostingRegressor(random_state=0)
models = {
    "observed rows only": observed_only,
    "weighted rows": weighted.fit(X[train], y[train], event=event[train]),
    "boosting": boosting.fit(X[train], y[train], event=event[train]),
}
for name, model in models.items():
    dist = model.predict_dist(X[test])
    loss = ipcw_crps_loss(y[test], dist, event=event[test], upper=6.0)
    print(
        f"{name:18s} CRPS up to 6 {loss:.2f}, of the true times {crps_loss(time[test], dist):.2f}"
    )

dist = boosting.predict_dist(X[test])
ax = plt.figure(figsize=(6.4, 4.0), layout="constrained").subplots()
for name, rows in {"x0 > 0": X[test, 0] > 0, "x0 < 0": X[test, 0] < 0}.items():
    SurvivalCurveDisplay.from_predictions(
        y[test][rows], dist[rows], event=event[test][rows], name=name, ax=ax
    )
plt.show()

# %%
# A forest that is fitted only to the observed rows predicts times that are too short, because long times are
# often censored. The weighted rows represent the censored rows up to the largest observed time, but not
# beyond. Boosting has the smallest CRPS, and its mean curves stay near the confidence bands of the
# Kaplan-Meier estimates.
