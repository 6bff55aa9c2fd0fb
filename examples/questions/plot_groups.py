"""
Rows that belong together: grouped data
=======================================

The data are 1030 measurements of the strength of concrete, from 428 mixes that were tested at several ages.
If new rows belong to new mixes, folds must not split a mix. Otherwise, the out-of-fold errors are too small,
and the intervals are too narrow. To keep mixes together, pass ``groups`` and ``GroupKFold`` to
:class:`~skuq.regressors.UncertaintyRegressor`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold

from skuq import UncertaintyRegressor
from skuq.datasets import load_concrete
from skuq.metrics import prediction_interval_coverage

X, y = load_concrete(return_X_y=True)
mix = np.unique(X[:, :7], axis=0, return_inverse=True)[1]  # all columns but the age
forest = RandomForestRegressor(20, random_state=0)
splitters = {"rows": KFold(3, shuffle=True, random_state=0), "mixes": GroupKFold(3)}
coverages = [50, 70, 80, 90, 95]

observed = {name: [] for name in splitters}
for train, test in GroupShuffleSplit(3, test_size=0.4, random_state=0).split(X, y, mix):
    for name, cv in splitters.items():
        groups = {"groups": mix[train]} if name == "mixes" else {}
        model = UncertaintyRegressor(forest, cv=cv, random_state=0).fit(
            X[train], y[train], **groups
        )
        dist = model.predict_dist(X[test])
        observed[name].append(
            [prediction_interval_coverage(y[test], dist, coverage=c / 100) for c in coverages]
        )

_, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.plot([50, 95], [50, 95], "--", color="0.5")
for name, shares in observed.items():
    print(f"folds of {name}: coverage of 90 % intervals {np.mean(shares, axis=0)[3]:.1%}")
    ax.plot(coverages, 100 * np.mean(shares, axis=0), "o-", label=f"folds of {name}")
ax.set(xlabel="nominal coverage (%)", ylabel="coverage of new mixes (%)")
ax.legend()
plt.show()

# %%
# If the folds consist of rows, a test row often belongs to the same mix as some training rows, so the
# out-of-fold errors are too small. The 90 % intervals then cover only 80.5 % of the rows of new mixes. If the
# folds consist of mixes, the intervals cover 91.7 % of these rows.
