import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skuq.displays import MetricAgreementDisplay
from skuq.evaluation import metric_agreement

RNG = np.random.default_rng(0)
SCALE, ERROR = RNG.random(12), RNG.random(12)
TABLE = pd.DataFrame(
    {
        "crps": SCALE,
        "mace": ERROR,
        "nll": SCALE + 0.1 * RNG.random(12),
        "ecpe": ERROR + 0.1 * RNG.random(12),
        "picp": RNG.random(12),
    }
)
DIRECTIONS = {"picp": 0.9}
draw = MetricAgreementDisplay.from_reports


def test_the_cells_are_the_clustered_correlations():
    display = draw(TABLE, directions=DIRECTIONS)
    expected = metric_agreement(TABLE, directions=DIRECTIONS, random_state=0)
    order = display.metrics_
    assert_allclose(display.image_.get_array().reshape(5, 5), expected.tau.loc[order, order])
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == order
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == order
    assert display.image_.get_clim() == (-1, 1)
    assert display.colorbar_.ax.get_ylabel() == "Kendall's tau over 12 reports"


def test_metrics_that_agree_are_neighbors():
    order = draw(TABLE, directions=DIRECTIONS).metrics_
    place = {name: i for i, name in enumerate(order)}
    assert abs(place["crps"] - place["nll"]) == 1
    assert abs(place["mace"] - place["ecpe"]) == 1
    assert sorted(order) == sorted(TABLE)
    assert place["crps"] < 3  # of an order and its reverse, the one with the first metric near the top


@pytest.mark.parametrize("n", [10, 15])
def test_metrics_with_equal_orders(n):
    values = np.arange(float(n))
    table = pd.DataFrame({"crps": values, "nll": values**3, "mace": RNG.random(n)})
    place = draw(table).metrics_.index
    assert abs(place("crps") - place("nll")) == 1


def test_the_order_of_the_table():
    assert draw(TABLE, directions=DIRECTIONS, cluster=False).metrics_ == list(TABLE)


def test_bold_numbers_have_small_p_values():
    display = draw(TABLE, directions=DIRECTIONS, significance=0.01)
    p_value = display.agreement.p_value.loc[display.metrics_, display.metrics_].to_numpy().ravel()
    assert [text.get_weight() == "bold" for text in display.text_] == list(p_value <= 0.01)
    assert display.text_[0].get_text() == "1.00"
    negative = [text.get_text() for text in display.text_ if text.get_text().startswith("\N{MINUS SIGN}")]
    assert negative


def test_without_numbers_and_color_scale():
    display = draw(TABLE, directions=DIRECTIONS, numbers=False, colorbar=False, name="Title")
    assert display.text_ == []
    assert display.colorbar_ is None
    assert display.ax_.get_title(loc="left") == "Title"


def test_styles_are_passed_on():
    display = draw(TABLE, directions=DIRECTIONS, image_kwargs={"cmap": "PuOr"}, text_kwargs={"fontsize": 5})
    assert display.image_.get_cmap().name == "PuOr"
    assert display.text_[0].get_fontsize() == 5


def test_a_norm_replaces_the_limits_of_the_colors():
    from matplotlib.colors import Normalize

    display = draw(TABLE, directions=DIRECTIONS, image_kwargs={"norm": Normalize(-0.5, 0.5)})
    assert display.image_.get_clim() == (-0.5, 0.5)
    assert draw(TABLE, directions=DIRECTIONS, image_kwargs={"vmax": 0.5}).image_.get_clim() == (-1, 0.5)


def test_numbers_are_dark_or_white():
    display = draw(TABLE, directions=DIRECTIONS)
    for text, value in zip(display.text_, display.image_.get_array().ravel(), strict=True):
        assert text.get_color() == ("white" if abs(value) >= 0.6 else "#22262b")


@pytest.mark.parametrize("n", [2, 12])
def test_cells_have_room_beside_long_names(n):
    names = [f"a rather long name of metric {k}" for k in range(n)]
    display = draw(pd.DataFrame(RNG.random((9, n)), columns=names), directions="lower")
    display.figure_.canvas.draw()  # with too little room, matplotlib warns
    cell = display.ax_.get_window_extent().width / display.figure_.dpi / n
    assert cell > 0.25


def test_an_agreement_is_drawn_on_given_axes():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    agreement = metric_agreement(TABLE, directions=DIRECTIONS)
    display = MetricAgreementDisplay.from_agreement(agreement, ax=ax)
    assert display.ax_ is ax
    assert display.agreement is agreement


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="`agreement` must be the result of metric_agreement, got DataFrame"):
        MetricAgreementDisplay.from_agreement(TABLE)
    with pytest.raises(ValueError, match="`directions` must state"):
        draw(TABLE)
    for significance in (5, -0.1):
        with pytest.raises(ValueError, match="`significance` must be between 0 and 1"):
            draw(TABLE, directions=DIRECTIONS, significance=significance)
    with pytest.raises(TypeError, match="`significance` must be a number, got 'a'"):
        draw(TABLE, directions=DIRECTIONS, significance="a")


@pytest.mark.parametrize("name", ["from_reports", "from_agreement"])
def test_a_missing_matplotlib_names_the_command(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=rf"MetricAgreementDisplay\.{name} needs matplotlib"):
        getattr(MetricAgreementDisplay, name)(TABLE)
