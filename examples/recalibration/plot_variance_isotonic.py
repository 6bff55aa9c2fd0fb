"""
Errors as an increasing function of the width: VarianceIsotonicRecalibrator
===========================================================================

:class:`~skuq.recalibration.VarianceIsotonicRecalibrator` uses isotonic regression to estimate the squared
error as an increasing function of the predicted variance. It preserves the order of the predicted widths.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.datasets import load_abalone
from skuq.metrics import reliability_table
from skuq.model_selection import cross_val_predict_dist
from skuq.recalibration import VarianceIsotonicRecalibrator
from skuq.regressors import BootstrapRegressor

X, y = load_abalone(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
model = BootstrapRegressor(forest, noise=None, random_state=0)

out_of_fold = cross_val_predict_dist(model, X_train, y_train, cv=5)
recalibrator = VarianceIsotonicRecalibrator().fit(out_of_fold, y_train)
before = model.fit(X_train, y_train).predict_dist(X_test)
after = recalibrator.transform(before)
table = reliability_table(y_test, before, n_bins=8)
print(table[["rmv", "rmse"]].round(1).to_string())

order = np.argsort(before.std())
_, ax = plt.subplots(figsize=(5.4, 4), layout="constrained")
ax.plot(before.std()[order], after.std()[order], drawstyle="steps-mid", label="recalibrated")
ax.plot(table["rmv"], table["rmse"], "o", color="C3", label="error of test rows, in 8 bins")
ax.axline((0, 0), slope=1, color="0.5", linestyle="--", label="before")
ax.set(
    xlabel="predicted standard deviation (rings)",
    ylabel="standard deviation, error (rings)",
    xlim=(0, 4),
)
ax.legend(loc="lower right")
plt.show()

# %%
# Before recalibration, the errors are about 1.4 times as large as predicted. This ratio is 1.6 in the bin
# with the smallest predicted standard deviations, and 1.1 in the bin with the largest predicted standard
# deviations. The recalibrated standard deviation is close to the errors of the test rows.
