"""
Groups, time, weights, missing values
=====================================
"""

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n = 400
X = pd.DataFrame(
    {
        "size": rng.uniform(0, 3, n),
        "kind": pd.Categorical(rng.choice(["a", "b"], n)),
    }
)
y = (
    X["size"]
    + (X["kind"] == "b")
    + (0.1 + 0.3 * X["size"]) * rng.standard_normal(n)
)
X.loc[rng.random(n) < 0.1, "size"] = np.nan
patient = np.repeat(np.arange(40), 10)

# %%
# Missing values and categories
# -----------------------------
#
# X is passed unchanged to the wrapped estimator, so its input types are supported.
# Preprocessing of X, such as a ``ColumnTransformer``, may be inside the wrapper or
# in front of it; steps that use y belong inside.

from sklearn.ensemble import HistGradientBoostingRegressor

from skuq import RecalibratedRegressor, UncertaintyRegressor

boosting = HistGradientBoostingRegressor(
    categorical_features="from_dtype", max_iter=30
)
model = UncertaintyRegressor(boosting, random_state=0).fit(X, y)

# %%
# An estimator that requires numeric input raises its own error for categorical
# columns. Add an encoder,
# ``make_pipeline(make_column_transformer((OrdinalEncoder(), ["kind"]),
# remainder="passthrough"), estimator)``.
#
# If a model predicts NaN or infinity, as ``RadiusNeighborsRegressor`` does far from
# all training rows, a ``NonFinitePredictionError`` is raised, which names the
# model, the fold or member, and the number of rows.
#
# CatBoost's ``cat_features`` must be a tuple,
# ``CatBoostRegressor(cat_features=("kind",))``: scikit-learn cannot clone it with a
# list.
#
# Groups
# ------
#
# Rows of one patient, machine or house are dependent. If new rows come from new
# groups, folds must not split groups, or the intervals are too narrow. Pass
# ``groups`` to every wrapper that uses cross-fitting.

from sklearn.model_selection import GroupKFold

model = UncertaintyRegressor(boosting, cv=GroupKFold(5), random_state=0).fit(
    X, y, groups=patient
)

# %%
# Through a pipeline, a search or nested wrappers, groups are passed by
# scikit-learn's metadata routing:

import sklearn
from sklearn.model_selection import cross_validate

from skuq.metrics import scorers

with sklearn.config_context(enable_metadata_routing=True):
    result = cross_validate(
        model,
        X,
        y,
        params={"groups": patient},
        cv=GroupKFold(4),
        scoring=scorers("neg_crps", "picp"),
    )

# %%
# Time
# ----
#
# Time series require a splitter whose test rows come after the training rows. The
# first rows are then in no test fold, which a pipeline does not support;
# ``RecalibratedRegressor`` and ``ResidualRegressor`` do.

from sklearn.model_selection import TimeSeriesSplit

from skuq.recalibration import IsotonicRecalibrator

ordered = UncertaintyRegressor(boosting, cv=TimeSeriesSplit(3), random_state=0)
model = RecalibratedRegressor(
    ordered, IsotonicRecalibrator(), cv=TimeSeriesSplit(3)
).fit(X, y)

# %%
# For drifting data, ``ConformalRegressor`` can be updated with each observed row:
# see :doc:`/how-to/conformal`.
#
# Weights
# -------
#
# ``sample_weight`` contains frequency weights. It is passed to the wrapped
# estimator and the recalibrator, and in scoring to the metrics:

from skuq import get_scorer

weight = rng.integers(1, 4, n)
model = UncertaintyRegressor(boosting, random_state=0).fit(
    X, y, sample_weight=weight
)
score = get_scorer("neg_crps")(model, X, y, sample_weight=weight)
