"""
One curve for each fold: from_cv_results
========================================

Every display in :mod:`skuq.displays` can plot the folds of a cross-validation. Each fold has its own model
and test rows. The plot shows how much the result depends on the split. This example uses
:class:`~skuq.displays.CalibrationCurveDisplay` with five folds.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold, cross_validate

from skuq.datasets import load_concrete
from skuq.displays import CalibrationCurveDisplay
from skuq.metrics import scorers

X, y = load_concrete(return_X_y=True)
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
# The CRPS varies between folds from 5.5 to 6.5 MPa, and the coverage from 84 % to 93 %. The gray band is the
# sampling band for 206 rows, and all curves are inside the band or close to it. If one of five curves is
# slightly outside the band, this is not evidence of miscalibration.
