import sys

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skuq.displays import CalibrationDriftDisplay
from skuq.monitoring import MetricAccumulator, calibration_drift

draw = CalibrationDriftDisplay.from_periods


@pytest.fixture(scope="module")
def accumulators():
    """Six periods of 400 rows, of which the last two have more noise than predicted."""
    rng, found = np.random.default_rng(0), []
    for noise in [1.0] * 4 + [1.3] * 2:
        forecast = np.zeros(400), np.ones(400)
        found.append(MetricAccumulator("crps", "mpiw").update(noise * rng.normal(size=400), forecast))
    return found


@pytest.fixture(scope="module")
def periods(accumulators):
    return dict(zip("abcdef", accumulators, strict=True))


def test_the_periods_are_those_of_the_table(periods):
    display = draw(periods, false_alarm=0.05, name="model")
    table = calibration_drift(periods, false_alarm=0.05)
    pd.testing.assert_frame_equal(display.table, table)
    assert_allclose(display.line_.get_ydata(), 100 * table["coverage"])
    ends = np.array([segment[:, 1] for segment in display.bars_.get_segments()])
    assert_allclose(ends, 100 * table[["low", "high"]])
    assert_allclose(display.flagged_.get_xdata(), np.flatnonzero(table["flag"]))
    assert display.flagged_.get_xdata().tolist() == [4, 5]
    assert_allclose(display.ref_line_.get_ydata(), 90)
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == list("abcdef")
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["model", "Flagged", "Nominal coverage (90 %)"]


@pytest.mark.parametrize("quantity", ["crps", "width", "rmse_to_rmv"])
def test_other_columns_are_drawn(periods, quantity):
    display = draw(periods, quantity=quantity)
    assert_allclose(display.line_.get_ydata(), display.table[quantity])
    assert (display.bars_ is None) == (quantity != "crps")
    assert (display.ref_line_ is None) == (quantity != "rmse_to_rmv")
    assert display.flagged_ is not None


def test_the_bars_of_the_score_are_two_standard_errors(periods):
    display = draw(periods, quantity="crps")
    first = display.bars_.get_segments()[0][:, 1]
    assert first[1] - first[0] == pytest.approx(2 * 1.96 * display.table["crps_standard_error"].iloc[0])


@pytest.mark.parametrize(
    "labels",
    [
        pd.date_range("2013-01-01", periods=6, freq="MS"),
        pd.period_range("2013-01", periods=6, freq="M"),
    ],
)
def test_dates_are_placed_by_their_values(accumulators, labels):
    display = draw(dict(zip(labels, accumulators, strict=True)))
    place = mdates.date2num(display.line_.get_xdata())
    assert_allclose(np.diff(place), [31, 28, 31, 30, 31])


def test_numbers_are_placed_by_their_values(accumulators):
    display = draw(dict(zip([1, 2, 4, 8, 16, 32], accumulators, strict=True)))
    assert display.line_.get_xdata().tolist() == [1, 2, 4, 8, 16, 32]


def test_of_many_labels_some_are_written(accumulators):
    display = draw({f"day {i}": accumulators[0] for i in range(40)})
    assert len(display.ax_.get_xticks()) == 12
    assert display.ax_.get_xticklabels()[-1].get_text() == "day 39"


def test_two_models_on_the_same_axes(periods):
    first = draw(periods, name="first")
    second = draw(dict.fromkeys(periods, periods["a"]), name="second", ax=first.ax_)
    third = draw(periods, name="third", ax=first.ax_)
    assert second.ax_ is first.ax_
    assert second.ref_line_ is None
    assert second.flagged_ is None
    assert first.line_.get_color() != second.line_.get_color()
    texts = [text.get_text() for text in third.ax_.get_legend().get_texts()]
    assert sorted(texts) == ["Flagged", "Nominal coverage (90 %)", "first", "second", "third"]


def test_styles_reach_what_they_name(periods):
    display = draw(
        periods,
        line_kwargs={"c": "black", "lw": 3},
        bar_kwargs={"lw": 5},
        flag_kwargs={"marker": "x"},
        ref_line_kwargs={"ls": ":"},
    )
    assert display.line_.get_color() == "black"
    assert display.line_.get_linewidth() == 3
    assert display.bars_.get_linewidth()[0] == 5
    assert display.flagged_.get_marker() == "x"
    assert display.ref_line_.get_linestyle() == ":"


def test_a_table_is_drawn_again(periods):
    table = calibration_drift(periods)
    display = CalibrationDriftDisplay(table=table, coverage=0.9, quantity="width").plot(name="again")
    assert display.line_.get_label() == "again"


def test_an_unknown_quantity_raises(periods):
    with pytest.raises(ValueError, match="`quantity` must be one of"):
        draw(periods, quantity="nll")


def test_without_matplotlib_the_error_says_what_to_install(periods, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"CalibrationDriftDisplay\.from_periods needs matplotlib"):
        draw(periods)
