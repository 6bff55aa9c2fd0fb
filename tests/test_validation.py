"""Checks that several packages share."""

import numpy as np
import pandas as pd
import pytest

from skuq._validation import as_labels, check_finite_moments
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
        (["mean"], [3.0, 1.0], "a finite mean in every row. Use another. Reason: a Student t distribution"),
    ],
)
def test_the_error_names_moment_row_and_remedy(moments, df, message):
    with pytest.raises(ValueError, match=r"^`dist` must have ") as raised:
        check_finite_moments(StudentT(np.zeros(2), 1.0, df), *moments, **WORDS)
    assert str(raised.value).startswith(f"`dist` must have {message}")


LABELS = np.array(["a", "b", "a", "c"], dtype=object)
NUMPY_TEXT = np.dtypes.StringDType(na_object=np.nan)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=str)
@pytest.mark.parametrize("kind", ["list", "object", "series", "string", "category", "numpy text"])
def test_missing_labels_raise(missing, kind):
    labels = LABELS.copy()
    labels[2] = missing
    values = {
        "list": labels.tolist,
        "object": lambda: labels,
        "series": lambda: pd.Series(labels),
        "string": lambda: pd.Series(labels, dtype="string"),
        "category": lambda: pd.Series(labels, dtype="category"),
        "numpy text": lambda: np.array([np.nan if pd.isna(each) else each for each in labels], NUMPY_TEXT),
    }[kind]()
    message = r"`y` must not have missing values, got 1, the first at row 2\. Leave these rows out"
    with pytest.raises(ValueError, match=message):
        as_labels(values, "y")


@pytest.mark.parametrize("missing", [pd.NA, None])
@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float64"])
def test_missing_numbers_are_missing_labels(missing, dtype):
    with pytest.raises(ValueError, match="`labels` must not have missing values, got 2, the first at row 0"):
        as_labels(pd.array([missing, 1, 0, missing], dtype=dtype), "labels")


@pytest.mark.parametrize("dtype", [object, str, NUMPY_TEXT, "S"])
def test_labels_that_are_texts(dtype):
    labels = as_labels(LABELS.astype(dtype), "y")
    expected = LABELS.astype("S") if dtype == "S" else LABELS
    np.testing.assert_array_equal(labels, expected)
    assert as_labels(LABELS.tolist(), "y").dtype == np.dtype("<U1")
    assert as_labels(pd.Series([1, 2], dtype=object), "y").dtype == np.int64


@pytest.mark.parametrize("labels", [["a", 1], [1.5, "b"], [True, "b"]])
def test_labels_of_two_kinds_raise(labels):
    for values in (labels, np.array(labels, dtype=object), pd.Series(labels)):
        with pytest.raises(TypeError, match="`y` must hold labels of one kind, either numbers or strings"):
            as_labels(values, "y")
