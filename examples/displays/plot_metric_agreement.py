"""
Which metrics agree? MetricAgreementDisplay
===========================================

:class:`~skuq.displays.MetricAgreementDisplay` plots Kendall's tau between metrics over models. Tau is 1 if
two metrics rank the models in the same order, and -1 if they rank them in opposite orders. Metrics that agree
form blocks along the diagonal.
"""

import pandas as pd
from sklearn.model_selection import train_test_split

from skuq.datasets import load_airfoil
from skuq.displays import MetricAgreementDisplay
from skuq.distributions import Normal
from skuq.evaluation import uncertainty_report
from skuq.regressors import LeastSquaresRegressor

X, y = load_airfoil(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# The models use one to five features, and their standard deviations are multiplied by 0.7, 1 or 1.5. The
# number of features changes the accuracy, and the factor changes the calibration.

metrics = ["crps", "nll", "interval_score", "mace", "ence", "picp", "sharpness"]
rows = {}
for n_features in range(1, 6):
    model = LeastSquaresRegressor().fit(X_train[:, :n_features], y_train)
    dist = model.predict_dist(X_test[:, :n_features])
    for factor in (0.7, 1.0, 1.5):
        forecast = Normal(dist.mean(), factor * dist.std())
        report = uncertainty_report(y_test, forecast, metrics=metrics, n_resamples=0, n_draws=0)
        rows[f"{n_features} features, {factor}"] = report["value"]
table = pd.DataFrame(rows).T
print(table.round(3))

# %%
# This table is the input of the heat map. For most metrics, skuq defines whether larger or smaller is better.
# The argument ``directions`` defines this for the other two metrics: a PICP close to the nominal coverage is
# better, and a smaller sharpness is better.

display = MetricAgreementDisplay.from_reports(table, directions={"picp": 0.9, "sharpness": "lower"})

# %%
# The scores (CRPS, NLL, interval score) agree with each other, and ENCE agrees with PICP. The rankings of the
# two blocks are almost unrelated. The scores depend mainly on the number of features, and the calibration
# metrics depend on the factor. :func:`~skuq.evaluation.metric_agreement` returns the numbers.
