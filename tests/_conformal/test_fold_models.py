"""Held-out rows of regression and classification, and the warning about too few of them."""

import warnings

import numpy as np
import pytest

from skuq._conformal.fold_models import warn_of_few_rows
from skuq._ranks import score_level
from skuq.exceptions import SmallSampleWarning


def warn(coverages, symmetric, *weights):
    warn_of_few_rows("coverage", coverages, score_level(coverages, symmetric), *weights)


@pytest.mark.parametrize(("symmetric", "needed"), [(True, 9), (False, 19)])
def test_one_warning_names_the_most_extreme_coverage_and_its_rows(symmetric, needed):
    message = f"90 % needs at least {needed} calibration rows, got 8"
    with pytest.warns(SmallSampleWarning, match=message) as caught:
        warn(np.array([0.5, 0.9, 0.85]), symmetric, 8.0)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn(np.array([0.5, 0.9]), symmetric, float(needed))


def test_rows_are_counted_in_units_of_the_weight_of_the_new_row():
    with pytest.warns(
        SmallSampleWarning, match=r"total weight of at least 27 for a new row of weight 3, got 9"
    ):
        warn(np.array([0.9]), True, 9.0, 3.0)
