"""Warnings are given where the user is, whatever lies between."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

from skuq._compat import warn_user
from skuq.distributions import Normal
from skuq.exceptions import SmallSampleWarning
from skuq.metrics import expected_normalized_calibration_error
from skuq.regressors import LeastSquaresRegressor, UncertaintyRegressor

X, Y = np.arange(12.0).reshape(-1, 1), np.arange(12.0) ** 2


@pytest.mark.parametrize(
    ("category", "work"),
    [
        (DataConversionWarning, lambda: LeastSquaresRegressor().fit(X, Y[:, None])),
        (DataConversionWarning, lambda: UncertaintyRegressor(LinearRegression(), cv=2).fit(X, Y[:, None])),
        (
            DataConversionWarning,
            lambda: GridSearchCV(LeastSquaresRegressor(), {"fit_intercept": [True]}, cv=2).fit(X, Y[:, None]),
        ),
        (SmallSampleWarning, lambda: expected_normalized_calibration_error(Y, Normal(Y + 1, X[:, 0] + 1))),
    ],
)
def test_a_warning_points_at_the_line_of_the_user(category, work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    caught = [one for one in caught if one.category is category]
    assert caught
    assert {one.filename for one in caught} == {__file__}


def test_called_from_outside_it_points_at_the_caller():
    with pytest.warns(SmallSampleWarning, match="few") as caught:
        warn_user("few", SmallSampleWarning)
    assert caught[0].filename == __file__
