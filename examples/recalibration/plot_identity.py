"""
Does recalibration help? IdentityRecalibrator
=============================================

A recalibrator is a step of a pipeline, so a grid search can select it.
:class:`~skuq.recalibration.IdentityRecalibrator` serves as the candidate without recalibration.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skuq import UncertaintyRegressor, get_scorer
from skuq.datasets import load_abalone
from skuq.recalibration import (
    EmpiricalRecalibrator,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    StdScalingRecalibrator,
)

X, y = load_abalone(return_X_y=True)
pipeline = make_pipeline(
    UncertaintyRegressor(BayesianRidge(), "native", random_state=0), IdentityRecalibrator()
)
recalibrators = [
    IdentityRecalibrator(),
    StdScalingRecalibrator(),
    IsotonicRecalibrator(),
    EmpiricalRecalibrator(),
]
search = GridSearchCV(
    pipeline,
    {"identityrecalibrator": recalibrators},
    scoring=get_scorer("neg_crps"),
    cv=5,
    error_score="raise",
).fit(X, y)

names = [type(each).__name__.removesuffix("Recalibrator") for each in recalibrators]
crps = pd.Series(-search.cv_results_["mean_test_score"], index=names)
print(crps.round(3).to_string())
_, ax = plt.subplots(figsize=(5.4, 3.4), layout="constrained")
ax.plot(crps, names, "o", markersize=10)
ax.set(xlabel="cross-validated CRPS (rings)")
ax.margins(x=0.2, y=0.2)
ax.invert_yaxis()
plt.show()

# %%
# A factor for the standard deviation does not improve the CRPS, because the standard deviations are correct
# on average. :class:`~skuq.recalibration.IsotonicRecalibrator` and
# :class:`~skuq.recalibration.EmpiricalRecalibrator` adapt the shape of the distribution to the skewed errors,
# and decrease the CRPS by 2 %.
