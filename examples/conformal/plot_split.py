"""
Intervals with guaranteed coverage: ConformalRegressor
======================================================

The intervals of :class:`~skuq.conformal.ConformalRegressor` cover new rows with at least the requested
probability, for any model and any noise. The coverage is an argument of ``predict_interval``. This example
predicts the strength of concrete with nominal coverages from 50 % to 95 %.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from skuq.conformal import ConformalRegressor
from skuq.datasets import load_concrete
from skuq.displays import IntervalDisplay
from skuq.metrics import mean_interval_width, prediction_interval_coverage

X, y = load_concrete(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

boosting = HistGradientBoostingRegressor(max_iter=50, random_state=0)
model = ConformalRegressor(boosting, random_state=0).fit(X_train, y_train)
for coverage in (0.5, 0.8, 0.9, 0.95):
    bounds = model.predict_interval(X_test, coverage)
    observed, width = (
        prediction_interval_coverage(y_test, bounds),
        mean_interval_width(y_test, bounds),
    )
    print(f"{coverage:.0%} requested: {observed:.0%} covered, {width:.1f} MPa wide")

IntervalDisplay.from_estimator(
    model, X_test, y_test, target_name="concrete strength (MPa)", max_rows=80
)
plt.show()

# %%
# On the 258 test rows, the intervals reach each nominal coverage. Their widths increase from 6.2 to 29.4 MPa.
# All intervals with the same nominal coverage have the same width;
# :ref:`sphx_glr_auto_examples_conformal_plot_heteroscedastic.py` shows intervals whose width depends on the
# row.
