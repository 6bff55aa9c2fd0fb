"""Settings of a conformal regressor: the methods, and the warning about too few rows."""

import warnings

import numpy as np
import pytest

from skuq.exceptions import SmallSampleWarning
from skuq.regressors._conformal.scores import AbsoluteScore, CQRScore, NormalizedScore
from skuq.regressors._conformal.settings import CROSS_METHODS, SCORES, SPLIT_METHODS, warn_of_few_rows


def test_each_method_with_one_model_has_its_score():
    assert SPLIT_METHODS == ("split", "normalized", "cqr")
    assert [SCORES[method] for method in SPLIT_METHODS] == [AbsoluteScore, NormalizedScore, CQRScore]
    assert not set(SPLIT_METHODS) & set(CROSS_METHODS)


@pytest.mark.parametrize(("symmetric", "needed"), [(True, 9), (False, 19)])
def test_one_warning_names_the_most_extreme_coverage_and_its_rows(symmetric, needed):
    message = f"90 % needs at least {needed} calibration rows, got 8"
    with pytest.warns(SmallSampleWarning, match=message) as caught:
        warn_of_few_rows(np.array([0.5, 0.9, 0.85]), symmetric, 8.0)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_few_rows(np.array([0.5, 0.9]), symmetric, float(needed))


def test_rows_are_counted_in_units_of_the_weight_of_the_new_row():
    with pytest.warns(SmallSampleWarning, match=r"at least 27 weight .* beside a new row of weight 3, got 9"):
        warn_of_few_rows(np.array([0.9]), True, 9.0, 3.0)
