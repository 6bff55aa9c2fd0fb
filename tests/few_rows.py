"""A mark for tests that fit on few rows to compute results by hand, or to refuse invalid input."""

import pytest

few_rows = pytest.mark.filterwarnings(
    "ignore:intervals need at least 12 rows:skuq.exceptions.SmallSampleWarning"
)
