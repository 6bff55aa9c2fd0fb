"""The whole way on real data of all kinds: frames with words and gaps, few rows, rounded and skewed targets.

The data comes from the folder in SKUQ_DATA; without it these tests are skipped.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from skuq import UncertaintyRegressor, get_scorer, predict_dist
from skuq.distributions import Normal
from skuq.metrics import crps_loss, prediction_interval_coverage
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator

pytestmark = pytest.mark.laws

MAX_ROWS = 1500
NAMES = [
    "gal/gal_boston",
    "gal/gal_concrete",
    "gal/gal_kin8nm",
    "gal/gal_naval",
    "gal/gal_power",
    "gal/gal_wine",
    "paper001/abalone",
    "paper001/airfoil_self_noise",
    "paper001/auction_verification",
    "paper001/energy_efficiency",
    "paper001/grid_stability",
    "paper001/nhanes_age",
    "paper001/parkinsons_telemonitoring",
    "paper001/steel_industry",
]


def split(data: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series, pd.Series]:
    """Take at most MAX_ROWS rows and hold a third of them out; the last column is the target."""
    data = data.sample(min(MAX_ROWS, len(data)), random_state=0)
    return train_test_split(
        data.iloc[:, :-1], data.iloc[:, -1].astype(float), test_size=1 / 3, random_state=0
    )


def forest(X: pd.DataFrame):
    """Return a forest and a recalibrator behind columns of words made numbers and gaps filled."""
    words = list(X.select_dtypes(exclude="number").columns)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer((encoder, words), remainder=SimpleImputer())
    trees = RandomForestRegressor(40, min_samples_leaf=3, random_state=0)
    model = UncertaintyRegressor(trees, method="bootstrap", random_state=0)
    return make_pipeline(columns, model, IsotonicRecalibrator())


def tolerance(n: int) -> float:
    """Three points for the model, and three standard errors of a coverage of 90 % on n rows."""
    return 0.03 + 3 * np.sqrt(0.9 * 0.1 / n)


@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_and_the_distribution_improves_on_the_marginal_one(shared_data, name):
    X, X_test, y, y_test = split(shared_data(name))
    dist = predict_dist(forest(X).fit(X, y), X_test)
    assert abs(prediction_interval_coverage(y_test, dist) - 0.9) < tolerance(len(y_test))
    marginal = Normal(np.full(len(y_test), y.mean()), np.full(len(y_test), y.std()))
    assert crps_loss(y_test, dist) < crps_loss(y_test, marginal)


@pytest.mark.parametrize("name", ["gal/gal_yacht", "paper001/servo", "paper001/computer_hardware"])
def test_a_search_on_few_rows(shared_data, name):
    X, X_test, y, y_test = split(shared_data(name))
    numbers = list(X.select_dtypes(include="number").columns)
    linear = make_pipeline(SimpleImputer(), StandardScaler(), RidgeCV())
    pipeline = make_pipeline(
        UncertaintyRegressor(linear, cv=3, effort="low", random_state=0), IdentityRecalibrator()
    )
    grid = {
        "uncertaintyregressor__method": ["residual", "bootstrap"],
        "identityrecalibrator": [IdentityRecalibrator(), StdScalingRecalibrator()],
    }
    search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_crps"), cv=3, error_score="raise")
    dist = predict_dist(search.fit(X[numbers], y), X_test[numbers])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    marginal = Normal(np.full(len(y_test), y.mean()), np.full(len(y_test), y.std()))
    assert crps_loss(y_test, dist) < crps_loss(y_test, marginal)
