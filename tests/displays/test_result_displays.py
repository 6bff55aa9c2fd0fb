"""Displays of results of other functions, and of the economic value."""

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import Normalize
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import cross_validate

from skuq.displays import (
    CalibrationDriftDisplay,
    MetricAgreementDisplay,
    RelativeEconomicValueDisplay,
    ShiftCurveDisplay,
)
from skuq.distributions import Normal
from skuq.evaluation import Tilt, metric_agreement, relative_economic_value, shift_curve
from skuq.monitoring import MetricAccumulator, calibration_drift

# --------------------------------------------------------------------------------------- calibration drift


draw = CalibrationDriftDisplay.from_periods


@pytest.fixture(scope="module")
def accumulators():
    """Six periods of 400 rows, of which the last two have more noise than predicted."""
    rng, found = np.random.default_rng(0), []
    for noise in [1.0] * 4 + [1.3] * 2:
        forecast = Normal(np.zeros(400), np.ones(400))
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
    assert texts == ["model", "Flagged: wrong coverage or PIT", "Nominal coverage (90 %)"]
    display.figure_.canvas.draw()
    legend, plot = (each.get_window_extent() for each in (display.ax_.get_legend(), display.ax_))
    assert legend.y1 <= plot.y0 + 1  # It hides no point.


def test_other_columns_are_drawn(periods):
    for quantity in ("crps", "width", "rmse_to_rmv"):
        display = draw(periods, quantity=quantity)
        assert_allclose(display.line_.get_ydata(), display.table[quantity])
        assert (display.bars_ is None) == (quantity != "crps")
        assert (display.ref_line_ is None) == (quantity != "rmse_to_rmv")
        assert display.flagged_ is not None
        if quantity == "crps":  # the bars are two standard errors
            low, high = display.bars_.get_segments()[0][:, 1]
            error = display.table["crps_standard_error"].iloc[0]
            assert high - low == pytest.approx(2 * 1.96 * error)
    with pytest.raises(ValueError, match="`quantity` must be one of"):
        draw(periods, quantity="nll")


def test_labels_are_placed_by_their_values_and_of_many_some_are_written(accumulators):
    for labels in (
        pd.date_range("2013-01-01", periods=6, freq="MS"),
        pd.period_range("2013-01", periods=6, freq="M"),
    ):
        display = draw(dict(zip(labels, accumulators, strict=True)))
        assert_allclose(np.diff(mdates.date2num(display.line_.get_xdata())), [31, 28, 31, 30, 31])
    display = draw(dict(zip([1, 2, 4, 8, 16, 32], accumulators, strict=True)))
    assert display.line_.get_xdata().tolist() == [1, 2, 4, 8, 16, 32]
    display = draw({f"day {i}": accumulators[0] for i in range(40)})
    assert len(display.ax_.get_xticks()) == 12
    assert display.ax_.get_xticklabels()[-1].get_text() == "day 39"


# ---------------------------------------------------------------------------------------- metric agreement


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
draw_agreement = MetricAgreementDisplay.from_reports


def test_the_cells_are_the_clustered_correlations():
    display = draw_agreement(TABLE, directions=DIRECTIONS, significance=0.01)
    expected = metric_agreement(TABLE, directions=DIRECTIONS, random_state=0)
    order = display.metrics_
    values, p_value = (each.loc[order, order].to_numpy() for each in (expected.tau, expected.p_value))
    assert_allclose(display.image_.get_array().reshape(5, 5), values)
    for labels in (display.ax_.get_yticklabels(), display.ax_.get_xticklabels()):
        assert [label.get_text() for label in labels] == order
    assert display.image_.get_clim() == (-1, 1)
    assert display.colorbar_.ax.get_ylabel() == "Kendall's tau over 12 reports"
    # numbers are bold if their p-value is small, and dark or white
    assert [text.get_weight() == "bold" for text in display.text_] == list(p_value.ravel() <= 0.01)
    assert display.text_[0].get_text() == "1.00"
    assert any(text.get_text().startswith("\N{MINUS SIGN}") for text in display.text_)
    colors = ["white" if abs(value) >= 0.6 else "#22262b" for value in values.ravel()]
    assert [text.get_color() for text in display.text_] == colors


def test_metrics_that_agree_are_neighbors():
    order = draw_agreement(TABLE, directions=DIRECTIONS).metrics_
    assert abs(order.index("crps") - order.index("nll")) == 1
    assert abs(order.index("mace") - order.index("ecpe")) == 1
    assert sorted(order) == sorted(TABLE)
    assert order.index("crps") < 3  # of an order and its reverse, the one with the first metric near the top
    assert draw_agreement(TABLE, directions=DIRECTIONS, cluster=False).metrics_ == list(TABLE)
    for n in (10, 15):  # equal orders
        values = np.arange(float(n))
        table = pd.DataFrame({"crps": values, "nll": values**3, "mace": RNG.random(n)})
        place = draw_agreement(table).metrics_.index
        assert abs(place("crps") - place("nll")) == 1


def test_parts_can_be_left_out_and_a_norm_replaces_the_limits_of_the_colors():
    options = {"directions": DIRECTIONS, "numbers": False, "colorbar": False, "name": "Title"}
    display = draw_agreement(TABLE, **options)
    assert display.text_ == []
    assert display.colorbar_ is None
    assert display.ax_.get_title(loc="left") == "Title"
    for style, limits in (({"norm": Normalize(-0.5, 0.5)}, (-0.5, 0.5)), ({"vmax": 0.5}, (-1, 0.5))):
        assert draw_agreement(TABLE, image_kwargs=style, **options).image_.get_clim() == limits


@pytest.mark.parametrize("n", [2, 12])
def test_cells_have_room_beside_long_names(n):
    names = [f"a rather long name of metric {k}" for k in range(n)]
    display = draw_agreement(pd.DataFrame(RNG.random((9, n)), columns=names), directions="lower")
    display.figure_.canvas.draw()  # with too little room, matplotlib warns
    assert display.ax_.get_window_extent().width / display.figure_.dpi / n > 0.25


def test_bad_input_is_named():
    agreement = metric_agreement(TABLE, directions=DIRECTIONS)
    assert MetricAgreementDisplay.from_agreement(agreement).agreement is agreement
    with pytest.raises(TypeError, match="`agreement` must be the result of metric_agreement, got DataFrame"):
        MetricAgreementDisplay.from_agreement(TABLE)
    for options, error, match in (
        ({"directions": None}, ValueError, "`directions` must state"),
        ({"significance": 5}, ValueError, "`significance` must be between 0 and 1"),
        ({"significance": -0.1}, ValueError, "`significance` must be between 0 and 1"),
        ({"significance": "a"}, TypeError, "`significance` must be a number, got 'a'"),
    ):
        with pytest.raises(error, match=match):
            draw_agreement(TABLE, **{"directions": DIRECTIONS, **options})


# --------------------------------------------------------------------------------------------- shift curve


SEVERITIES = [0.0, 1.0, 2.0]
SCORES = {
    "picp": np.array([[0.9, 0.92], [0.8, 0.9], [0.5, 0.7]]),
    "mpiw": np.ones((3, 2)),
    "effective_rows": np.array([[100.0, 100.0], [60.0, 50.0], [20.0, 30.0]]),
}
draw_shift = ShiftCurveDisplay.from_scores


def test_the_line_is_the_mean_of_the_folds_and_the_band_their_deviation():
    display = draw_shift(SCORES, SEVERITIES, scorer="picp", name="model")
    assert_allclose(display.line_.get_xydata(), [[0, 0.91], [1, 0.85], [2, 0.6]])
    top = display.band_.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(0.92)
    assert display.line_.get_label() == "model"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("Severity of the shift", "picp")
    assert draw_shift({"picp": SCORES["picp"][:, :1]}, SEVERITIES).band_ is None


def test_points_of_few_effective_rows_are_hollow():
    display = draw_shift(SCORES, SEVERITIES, scorer="picp")
    assert display.ref_line_ is None
    assert_allclose(display.hollow_.get_xydata(), [[2, 0.6]])
    assert display.hollow_.get_label() == "fewer than 50 effective rows"
    other = draw_shift(SCORES, SEVERITIES, scorer="mpiw", ax=display.ax_)
    assert other.hollow_.get_label().startswith("_")
    options = {"ref_line": 0.9, "score_name": "Coverage"}
    without = draw_shift({"picp": SCORES["picp"]}, SEVERITIES, **options)
    assert without.hollow_ is None
    assert list(without.ref_line_.get_ydata()) == [0.9, 0.9]
    assert without.ax_.get_ylabel() == "Coverage"


def test_it_draws_what_the_function_returns():
    X, y = load_diabetes(return_X_y=True)
    scores = shift_curve(BayesianRidge(), X, y, shift=Tilt(2), severities=[0, 9], scoring="picp", cv=3)
    assert_allclose(draw_shift(scores, [0, 9]).line_.get_ydata(), scores["picp"].mean(axis=1))


def test_bad_scores_are_named():
    for scores, options, error, message in (
        (SCORES, {}, ValueError, "`scorer` must be one of 'picp', 'mpiw', got None"),
        (SCORES, {"scorer": "r2"}, ValueError, "`scorer` must be one of 'picp', 'mpiw', got 'r2'"),
        ([1.0], {}, TypeError, "`scores` must be the dictionary from shift_curve, got list"),
        ({"picp": np.ones(3)}, {}, ValueError, r"`scores` must have shape \(n_severities, n_folds\)"),
        ({"picp": np.ones((2, 3))}, {}, ValueError, "`severities` must have 2 rows"),
        ({"picp": np.ones((3, 3))}, {"ref_line": "a"}, TypeError, "`ref_line` must be a number"),
    ):
        with pytest.raises(error, match=message):
            draw_shift(scores, SEVERITIES, **options)


# --------------------------------------------------------------------------------- relative economic value


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    return X, X[:, 0] + rng.normal(size=300)


def test_the_curve_has_the_values_of_the_table_and_folds_have_one_each(data):
    X, y = data
    model = BayesianRidge().fit(X, y)
    options = {"threshold": 0.5, "above": False, "ratios": [0.6, 0.2], "sample_weight": np.arange(300) % 2}
    display = RelativeEconomicValueDisplay.from_estimator(model, X, y, **options)
    table = relative_economic_value(y, Normal(*model.predict(X, return_std=True)), **options)
    assert display.line_.get_label() == "BayesianRidge"
    assert_allclose(display.line_.get_xydata(), [[r, table.loc[r, "value"]] for r in (0.2, 0.6)])
    assert display.ax_.get_ylabel() == "Relative economic value"
    results = cross_validate(BayesianRidge(), X, y, cv=3, return_estimator=True, return_indices=True)
    display = RelativeEconomicValueDisplay.from_cv_results(results, X, y, threshold=0.5)
    assert len(display.line_) == len(display.values) == 3
    assert display.line_[0].get_label() == "BayesianRidge (3 folds)"


def test_the_limits_hold_all_models(data):
    X, y = data
    first = RelativeEconomicValueDisplay.from_predictions(
        y, Normal(X[:, 0], 1.0), threshold=0.5, name="right"
    )
    second = RelativeEconomicValueDisplay.from_predictions(
        y, Normal(X[:, 0], 0.0), threshold=0.5, ax=first.ax_
    )
    assert second.ax_.get_ylim() == (-0.25, 1.0)
    alone = RelativeEconomicValueDisplay.from_predictions(
        y, Normal(X[:, 0], 1.0), threshold=0.5, ref_line=False
    )
    assert alone.ref_line_ is None
