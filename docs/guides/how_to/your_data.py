"""
Groups, time, weights, missing values
=====================================

This page shows how to use data with missing values, categories, groups, time order or
weights.

The data have 60 patients and 8 rows per patient. The features are a size with missing
values, a category, and the age of the patient. The targets of a patient share an effect
that the features do not explain, as repeated measurements usually do:
"""

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)


def draw(n_patients):
    patient = np.repeat(np.arange(n_patients), 8)
    n = len(patient)
    X = pd.DataFrame(
        {
            "size": rng.uniform(0, 3, n),
            "kind": pd.Categorical(rng.choice(["a", "b"], n)),
            "age": rng.uniform(20, 80, n_patients)[patient],
        }
    )
    effect = rng.standard_normal(n_patients)[patient]
    noise = (0.1 + 0.3 * X["size"]) * rng.standard_normal(n)
    y = X["size"] + (X["kind"] == "b") + effect + noise
    X.loc[rng.random(n) < 0.1, "size"] = np.nan
    return X, y, patient


X, y, patient = draw(60)
X.head().round(2)

# %%
# Missing values and categories
# -----------------------------
#
# A wrapper, such as ``UncertaintyRegressor``, passes X unchanged to the wrapped
# estimator. It therefore supports all input types that the estimator supports.
# Preprocessing of X, such as a ``ColumnTransformer``, may be inside the wrapper or
# before it. Steps that use y belong inside the wrapper.

from sklearn.ensemble import HistGradientBoostingRegressor

from skuq import UncertaintyRegressor

boosting = HistGradientBoostingRegressor(
    categorical_features="from_dtype", max_iter=30, min_samples_leaf=4
)
by_row = UncertaintyRegressor(boosting, random_state=0).fit(X, y)
by_row.predict_interval(X[:3], 0.9).round(2)

# %%
# An estimator that requires numeric input raises its own error for categorical columns.
# Put an encoder before the wrapper, in a pipeline. An example of an encoder is
# ``make_column_transformer((OrdinalEncoder(), ["kind"]), remainder="passthrough")``.
# :doc:`/how-to/choose_a_method` has the cost of an encoder inside the wrapper.
# ``MixtureRegressor()`` and the networks of :mod:`skuq.neural` need no encoder: they
# accept data frames with strings, categories, dates and missing values.
#
# If a model predicts NaN or infinity, skuq raises a ``NonFinitePredictionError``. The
# message states the model, the fold or member, and the number of rows.
# ``RadiusNeighborsRegressor``, for example, predicts NaN far from all training rows.
#
# Pass CatBoost's ``cat_features`` as a tuple, as in
# ``CatBoostRegressor(cat_features=("kind",))``. scikit-learn cannot clone a
# ``CatBoostRegressor`` with a list, and skuq raises an error.
#
# Groups
# ------
#
# Rows of one patient, machine or house are dependent. If new rows belong to new
# groups, all rows of a group must be in the same fold. Otherwise, the intervals are
# too narrow. Pass ``groups`` to ``fit`` of every wrapper that fits models on folds.

from sklearn.model_selection import GroupKFold

by_patient = UncertaintyRegressor(boosting, cv=GroupKFold(5), random_state=0)
by_patient.fit(X, y, groups=patient)
by_patient.predict_interval(X[:3], 0.9).round(2)

# %%
# In the training rows, the age identifies the patient, so boosting fits the effects of
# individual patients. If the rows of a patient are in several folds, out-of-fold errors
# are therefore smaller than errors on new patients:

from skuq.metrics import prediction_interval_coverage

X_new, y_new, _ = draw(200)
covered = {
    name: prediction_interval_coverage(y_new, model.predict_dist(X_new))
    for name, model in {"rows": by_row, "patients": by_patient}.items()
}
for name, share in covered.items():
    print(f"folds of {name}: 90 % intervals cover {share:.2f} of the new rows")

# %%
# With folds of rows, the calibration curve for new patients shows that the
# distributions are too narrow: too many observations are below the low quantiles and
# above the high quantiles. With folds of patients, the curve is close to the diagonal
# at both ends. In the middle, the curve deviates because the mean effect of the 60
# training patients is not exactly 0. The sampling band is valid for independent rows
# only.

from skuq.displays import CalibrationCurveDisplay

ax = None
for name, model in {
    "Folds of rows": by_row,
    "Folds of patients": by_patient,
}.items():
    display = CalibrationCurveDisplay.from_estimator(
        model, X_new, y_new, name=name, ax=ax
    )
    ax = display.ax_

# %%
# scikit-learn's metadata routing passes groups through pipelines, searches and nested
# wrappers:

import sklearn
from sklearn.model_selection import cross_validate

from skuq.metrics import scorers

with sklearn.config_context(enable_metadata_routing=True):
    result = cross_validate(
        by_patient,
        X,
        y,
        params={"groups": patient},
        cv=GroupKFold(2),
        scoring=scorers("neg_crps", "picp"),
    )
print("CRPS", -result["test_neg_crps"].round(2))
print("coverage", result["test_picp"].round(2))

# %%
# Time
# ----
#
# Time series require a splitter whose test rows are later than the training rows. With
# such a splitter, the first rows are never in a test fold. ``RecalibratedRegressor``
# and ``ResidualRegressor`` support such splitters. A recalibrator in a pipeline does
# not support them.

from sklearn.model_selection import TimeSeriesSplit

from skuq import RecalibratedRegressor
from skuq.recalibration import IsotonicRecalibrator

ordered = UncertaintyRegressor(boosting, cv=TimeSeriesSplit(2), random_state=0)
model = RecalibratedRegressor(
    ordered, IsotonicRecalibrator(), cv=TimeSeriesSplit(2)
)
model.fit(X, y)
model.predict_dist(X[-3:]).interval(0.9).round(2)

# %%
# If the data drift, update a ``ConformalRegressor`` with each observed row: see
# :doc:`/how-to/conformal`.
#
# Weights
# -------
#
# ``sample_weight`` contains frequency weights. ``fit`` passes them to the wrapped
# estimator and to the recalibrator, and a scorer passes them to its metric:

from skuq import get_scorer

weight = rng.integers(1, 4, len(y))
model = UncertaintyRegressor(boosting, cv=3, random_state=0)
model.fit(X, y, sample_weight=weight)

weight_new = rng.integers(1, 4, len(y_new))
score = get_scorer("neg_crps")(model, X_new, y_new, sample_weight=weight_new)
round(score, 3)
