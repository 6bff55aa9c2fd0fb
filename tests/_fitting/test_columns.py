"""Columns of X as numbers for the default scale model."""

import numpy as np
import pandas as pd
import pytest

from skuq._fitting.columns import ScaleFeatures

HOURS = np.array([3.0, 1.0, np.nan, 7.0])
TIMES = pd.to_timedelta(HOURS, unit="h")


@pytest.mark.parametrize("column", [TIMES, pd.Timestamp("2024-01-01") + TIMES], ids=["durations", "dates"])
@pytest.mark.parametrize("trained", [[0, 1, 3], [0, 1, 2, 3]], ids=["complete", "gaps"])
def test_missing_durations_and_dates_are_missing_numbers(column, trained):
    table = pd.DataFrame({"a": column})
    features = ScaleFeatures.from_columns(table.iloc[trained])
    found = features(table, np.zeros(4))[:, 0]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(HOURS))
    assert np.argsort(found).tolist() == np.argsort(HOURS).tolist()
