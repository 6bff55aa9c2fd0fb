"""
The best model with sufficient coverage
=======================================

:func:`~skuq.model_selection.refit_best` selects by a proper score among the candidates that satisfy
constraints. In this example, it selects the smallest CRPS among the candidates whose 90 % intervals cover at
least 85 % of the rows.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold

from skuq.datasets import load_abalone
from skuq.metrics import scorers
from skuq.model_selection import refit_best
from skuq.regressors import BootstrapRegressor

X, y = load_abalone(return_X_y=True)
forest = RandomForestRegressor(30, random_state=0)
search = GridSearchCV(
    BootstrapRegressor(forest, noise=None, random_state=0),
    {"estimator__min_samples_leaf": [1, 2, 3, 6]},
    scoring=scorers("neg_crps", "picp"),
    refit=refit_best("neg_crps", subject_to={"picp": (">=", 0.85)}),
    cv=KFold(4, shuffle=True, random_state=0),
    error_score="raise",
).fit(X, y)

table = pd.DataFrame(search.cv_results_["params"]).rename(
    columns={"estimator__min_samples_leaf": "leaf"}
)
table["CRPS"] = -search.cv_results_["mean_test_neg_crps"]
table["coverage"] = 100 * search.cv_results_["mean_test_picp"]
print(table.round(2).to_string())
print("selected:", search.best_params_)

_, ax = plt.subplots(figsize=(5.4, 3.8), layout="constrained")
ax.plot(table["coverage"], table["CRPS"], "o", markersize=8, label="candidate")
ax.plot(
    *table.loc[search.best_index_, ["coverage", "CRPS"]],
    "o",
    color="C3",
    markersize=12,
    label="selected",
)
ax.axvspan(table["coverage"].min() - 2, 85, color="0.9", label="coverage below 85 %")
ax.set(xlabel="coverage of 90 % intervals (%)", ylabel="CRPS (rings)")
ax.legend()
plt.show()

# %%
# The candidate with the smallest CRPS, 1.12 rings, has three rows per leaf and a coverage of 81 %. Two
# candidates satisfy the constraint. The better one is refitted: it has two rows per leaf, a CRPS of 1.13
# rings and a coverage of 86 %.
