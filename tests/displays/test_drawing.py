import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skuq.displays import CalibrationCurveDisplay, IntervalDisplay, PredictionBandDisplay
from skuq.displays._drawing import choose_rows, percent

displays = pytest.mark.parametrize(
    "display", [CalibrationCurveDisplay, IntervalDisplay, PredictionBandDisplay]
)


@displays
@pytest.mark.parametrize("method", ["from_predictions", "from_estimator"])
def test_a_missing_matplotlib_names_the_command(display, method, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ([0.0], ([0.0], [1.0])) if method == "from_predictions" else (None, [[0.0]], [0.0])
    with pytest.raises(ImportError, match=r'needs matplotlib: run `pip install "skuq\[plot\]"`'):
        getattr(display, method)(*arguments)


def test_rows_are_chosen_evenly_and_always_alike():
    rows = choose_rows(2000, 150)
    assert len(np.unique(rows)) == 150
    assert_array_equal(rows[[0, -1]], [0, 1999])
    assert np.diff(rows).max() - np.diff(rows).min() <= 1
    assert_array_equal(rows, choose_rows(2000, 150))
    assert_array_equal(choose_rows(5, 150), np.arange(5))
    assert_array_equal(choose_rows(5, None), np.arange(5))


@pytest.mark.parametrize(
    ("share", "text"), [(0.9, "90 %"), (0.8995, "90 %"), (0.123, "12.3 %"), (1.0, "100 %")]
)
def test_percentages_read_well(share, text):
    assert percent(share) == text
