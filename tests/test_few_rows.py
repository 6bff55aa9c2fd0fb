"""The warning about too few rows."""

import warnings
from threading import Thread

import numpy as np
import pytest

from skuq._validation import FEWEST_ROWS, few_rows_reported, repeated_rows, warn_of_few_rows
from skuq.exceptions import SmallSampleWarning


@pytest.mark.parametrize("n", [1, 5, FEWEST_ROWS - 1])
def test_fewer_rows_warn_with_their_number(n):
    with pytest.warns(SmallSampleWarning, match=f"at least 12 groups for calibration, got {n}\\."):
        warn_of_few_rows(n, "groups")


def test_enough_rows_do_not_warn():
    warn_of_few_rows(FEWEST_ROWS)


def test_nested_fits_are_silent_in_their_own_thread_alone():
    def in_thread():
        with pytest.warns(SmallSampleWarning):
            warn_of_few_rows(5)
        done.append(True)

    done = []
    with few_rows_reported():
        with few_rows_reported():
            warn_of_few_rows(5)
        warn_of_few_rows(5)
    with pytest.warns(SmallSampleWarning):
        warn_of_few_rows(5)
    thread = Thread(target=in_thread)
    with warnings.catch_warnings(), few_rows_reported():
        thread.start()
        thread.join()
    assert done


@pytest.mark.parametrize(
    ("weight", "expected"), [(None, 4), ([1, 2, 0, 3], 6), ([0.1, 0.2, 0.0, 0.3], 3), ([2.5, 1, 1, 1], 5.5)]
)
def test_weights_count_repetitions(weight, expected):
    assert repeated_rows(None if weight is None else np.array(weight, dtype=float), 4) == expected
