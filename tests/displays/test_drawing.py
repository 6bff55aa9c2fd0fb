import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_array_equal

from skuq.displays._drawing import (
    CURVE,
    INK,
    REFERENCE,
    choose_rows,
    draw_diagonal,
    draw_legend,
    next_color,
    percent,
    rows_that_count,
    with_unit,
)


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


def test_the_next_color_counts_models_not_lines():
    _, ax = plt.subplots()
    first = next_color(ax)
    ax.plot([0, 1], [0, 1], gid=CURVE)
    ax.plot([0, 1], [0, 2])
    second = next_color(ax)
    assert first != second
    ax.axvline(0.5)
    assert next_color(ax) == second


def test_the_diagonal_is_drawn_once_and_does_not_move_the_limits():
    _, ax = plt.subplots()
    ax.plot([5, 6], [7, 8])
    before = ax.dataLim.extents.copy()
    assert draw_diagonal(ax, {"color": "red"}).get_color() == "red"
    assert draw_diagonal(ax, None) is None
    assert_array_equal(ax.dataLim.extents, before)
    assert ax.get_xlim()[0] > 4


def test_the_legend_has_models_first_and_gives_shared_entries_no_color_of_a_model():
    _, ax = plt.subplots()
    ax.scatter([0], [0], edgecolor="blue", facecolor="white", alpha=0.3, label="mark", gid=REFERENCE)
    ax.plot([0], [0], color="red", label="own", gid=REFERENCE)
    ax.plot([0], [0], color="blue", label="model", gid=CURVE)
    draw_legend(ax)
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["model", "mark", "own"]
    model, mark, own = legend.legend_handles
    assert (model.get_color(), own.get_color()) == ("blue", "red")
    assert tuple(mark.get_edgecolor()[0, :3]) == to_rgb(INK)
    assert mark.get_alpha() == 1.0


def test_without_labels_there_is_no_legend():
    _, ax = plt.subplots()
    draw_legend(ax)
    assert ax.get_legend() is None


def test_units_and_weights():
    assert (with_unit("Error", None), with_unit("Error", "MW")) == ("Error", "Error (MW)")
    assert_array_equal(rows_that_count(np.array([1.0, 0.0, 2.0]), 3), [0, 2])
    assert_array_equal(rows_that_count(None, 2), [0, 1])
