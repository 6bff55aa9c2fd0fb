"""Checks that several packages share."""

import numpy as np
import pytest

from skuq._validation import check_finite_moments
from skuq.distributions import Normal, StudentT

WORDS = {"subject": "`dist` must have", "remedy": "Use another."}


def test_finite_moments_are_returned_in_the_order_of_their_names():
    dist = Normal([1.0, 2.0], [3.0, 4.0])
    std, mean = check_finite_moments(dist, "std", "mean", **WORDS)
    assert std.tolist() == [3.0, 4.0]
    assert mean.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("moments", "df", "message"),
    [
        (["std"], [3.0, 1.5], "a finite standard deviation in every row, got inf at row 1. Use another."),
        (
            ["mean", "std"],
            [3.0, 1.5],
            "a finite mean and standard deviation in every row, got std inf at row 1. Use another.",
        ),
        (["mean"], [3.0, 1.0], "a finite mean in every row. Use another. Here a Student t distribution"),
    ],
)
def test_the_error_names_moment_row_and_remedy(moments, df, message):
    with pytest.raises(ValueError, match=r"^`dist` must have ") as raised:
        check_finite_moments(StudentT(np.zeros(2), 1.0, df), *moments, **WORDS)
    assert str(raised.value).startswith(f"`dist` must have {message}")
