"""
Are two models different?
=========================

Even equally good models have different scores on a test set, by chance.
:func:`~skuq.evaluation.paired_permutation_test` tests the difference, and
:func:`~skuq.evaluation.bootstrap_interval` computes a confidence interval for each score.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import UncertaintyRegressor
from skuq.datasets import load_airfoil
from skuq.evaluation import bootstrap_interval, paired_permutation_test

X, y = load_airfoil(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
regressors = {
    "forest": RandomForestRegressor(50, min_samples_leaf=3, random_state=0),
    "boosting": HistGradientBoostingRegressor(max_iter=60, random_state=0),
}
forecasts = {
    name: UncertaintyRegressor(regressor, cv=3, random_state=0)
    .fit(X_train, y_train)
    .predict_dist(X_test)
    for name, regressor in regressors.items()
}
test = paired_permutation_test(
    y_test, forecasts["forest"], forecasts["boosting"], "crps", random_state=0
)
print(f"CRPS of forest minus boosting: {test.difference:.2f} dB, p = {test.p_value:.2f}")

_, ax = plt.subplots(figsize=(5.4, 3), layout="constrained")
for name, dist in forecasts.items():
    crps = bootstrap_interval(y_test, dist, "crps", random_state=0)
    print(f"{name}: {crps.low:.2f} to {crps.high:.2f} dB")
    ax.plot([crps.low, crps.high], [name, name], "C0", linewidth=4, alpha=0.4)
    ax.plot(crps.value, name, "oC0", markersize=10)
ax.set_xlabel("CRPS with its 95 % interval (dB)")
ax.margins(y=0.4)
plt.show()

# %%
# Boosting has the smaller CRPS, by 0.03 dB, but the difference is not significant (p = 0.29). The confidence
# intervals of the two scores overlap, but this alone does not show whether a difference is significant. The
# test uses the difference between the two scores of each row, so the variation of the scores between easy and
# difficult rows does not affect the test.
