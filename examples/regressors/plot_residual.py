"""
Intervals whose width depends on X
==================================

Light cars differ more in fuel economy than heavy cars. :class:`~skuq.regressors.ResidualRegressor` learns
the distribution of the out-of-fold errors, so the intervals are wider for cars with larger errors.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skuq.datasets import load_auto_mpg
from skuq.displays import PredictionBandDisplay
from skuq.metrics import conditional_coverage
from skuq.regressors import ResidualRegressor

X, y = load_auto_mpg(return_X_y=True)
X = X[:, [2]] / 1000
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

spline = make_pipeline(SplineTransformer(5), Ridge())
model = ResidualRegressor(spline, random_state=0).fit(X_train, y_train)
dist = model.predict_dist(X_test)
table = conditional_coverage(y_test, dist, feature=X_test[:, 0], n_bins=2)
print(table.round(2).to_string())

display = PredictionBandDisplay.from_estimator(model, X_test, y_test, feature=0)
display.ax_.set(xlabel="weight (1000 lb)", ylabel="miles per gallon")
plt.show()

# %%
# The mean width is 16 mpg for light cars and 12 mpg for heavy cars. The intervals cover 86 % of the 49 light
# cars and 96 % of the 49 heavy cars. The standard error of each coverage is 4 %, so the difference from 90 %
# is within two standard errors.
