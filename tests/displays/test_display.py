"""What holds for every display, whatever it draws."""

import inspect
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import KFold, RepeatedKFold, TimeSeriesSplit, cross_validate

from skuq import displays, survival
from skuq.displays._display import Display, Fold
from skuq.displays._drawing import CURVE, INK, REFERENCE, draw_legend, merge_style, percent
from skuq.distributions import Hurdle, Normal, Truncated, concat
from skuq.exceptions import NotProbabilisticError
from skuq.monitoring import MetricAccumulator
from skuq.multivariate import JointPairDisplay, JointRankHistogramDisplay, NormalJoint
from skuq.prediction import predict_dist
from skuq.survival import SurvivalCurveDisplay
from tests.displays.test_pointwise_coverage import study

EVERY = [getattr(displays, name) for name in displays.__all__] + [
    SurvivalCurveDisplay,
    JointPairDisplay,
    JointRankHistogramDisplay,
]
OF_TARGETS = [
    display
    for display in EVERY
    if issubclass(display, Display) and not (display._of_classes or display._of_joints)
]


def has_required_option(display):
    parameters = inspect.signature(display.from_predictions).parameters.values()
    return any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters)


# Displays with a required option and the display of counts have tests of their own.
ALL = [
    display
    for display in OF_TARGETS
    if not has_required_option(display) and display is not displays.RootogramDisplay
]
OF_CURVES = [
    displays.AdversarialGroupCalibrationDisplay,
    displays.CalibrationCurveDisplay,
    displays.MurphyDisplay,
    displays.QuantileReliabilityDisplay,
    displays.ReliabilityDisplay,
    displays.UncertaintyCharacteristicsDisplay,
]
every = pytest.mark.parametrize("display", ALL, ids=lambda display: display.__name__)
of_curves = pytest.mark.parametrize("display", OF_CURVES)
of_rows = pytest.mark.parametrize("display", [display for display in ALL if display not in OF_CURVES])


@pytest.fixture
def few(rows):
    return tuple(part[:300] for part in rows)


@pytest.fixture
def data(few):
    loc, _, y = few
    return np.column_stack([loc, np.zeros(len(loc))]), y


@pytest.fixture
def cv_results(data):
    return validate(*data, KFold(3))


def validate(X, y, cv):
    return cross_validate(BayesianRidge(), X, y, cv=cv, return_estimator=True, return_indices=True)


# ------------------------------------------------------------------------------------- all displays


def drawn_with_everything(display, **options):
    """Draw all artists of a display, with a few rows."""
    rng = np.random.default_rng(0)
    loc = rng.normal(3, 1, size=60)
    y, dist = loc + rng.normal(size=60), Normal(loc, 1.0 + loc**2 / 9)
    given = {
        displays.MurphyDisplay: {"reference": Normal(3.0, 1.0)},
        displays.RelativeEconomicValueDisplay: {"threshold": 3.0},
        survival.SurvivalCurveDisplay: {"event": rng.random(60) < 0.8},
        displays.UncertaintyCharacteristicsDisplay: {"cost": 0.5, "miss_rate": 0.1},
        displays.ClassReliabilityDisplay: {} if "fill_kwargs" not in options else {"strategy": "isotonic"},
    }.get(display, {})
    if display in {displays.IntervalDisplay, displays.PredictionBandDisplay}:
        dist = Hurdle(np.full(60, 0.3), Truncated(dist, 0.0))
    if getattr(display, "_of_classes", False):
        y, dist = (y > loc).astype(int), np.column_stack([1 / (1 + loc**2), loc**2 / (1 + loc**2)])
        given |= {"labels": [0, 1]} | ({"of_class": 1} if "strategy" in given else {})
    elif getattr(display, "_of_joints", False):
        y, dist = rng.normal(size=(60, 2)), NormalJoint(np.zeros((60, 2)), np.eye(2))
    elif display is displays.RootogramDisplay:
        y = np.round(y)
    elif display is displays.ScoreDecompositionDisplay:
        dist = {"a": dist}
    options = given | options
    if display is displays.CalibrationDriftDisplay:
        of_period = [
            MetricAccumulator("crps", "mpiw").update(k * loc, Normal(0 * loc, 1 + 0 * loc)) for k in (0, 3)
        ]
        return display.from_periods(dict(zip("ab", of_period, strict=True)), **options)
    if display is displays.MetricAgreementDisplay:
        table = pd.DataFrame(rng.random((9, 2)), columns=["crps", "nll"])
        return display.from_reports(table, **options)
    if display is displays.PointwiseCoverageDisplay:
        return display.from_result(study(), **options)
    if display is displays.ShiftCurveDisplay:
        return display.from_scores({"picp": rng.random((2, 3))}, [0.0, 1.0], ref_line=0.9, **options)
    return display.from_predictions(y, dist, **options)


@pytest.mark.parametrize("display", EVERY, ids=lambda display: display.__name__)
def test_styles_reach_an_artist_and_axes_are_those_given(display):
    _, ax = plt.subplots()
    names = [each for each in inspect.signature(display.plot).parameters if each.endswith("_kwargs")]
    styles = {name: {"alpha": 0.1 + 0.01 * i} for i, name in enumerate(names)}
    drawn = drawn_with_everything(display, ax=ax, **styles)
    if display is displays.ClassReliabilityDisplay:  # a curve without bins has no intervals
        drawn = drawn_with_everything(display, ax=ax, interval_kwargs=styles["interval_kwargs"])
    assert drawn.ax_ is ax
    assert drawn.figure_ is ax.figure
    assert {style["alpha"] for style in styles.values()} <= {each.get_alpha() for each in ax.get_children()}
    for name in names:
        with pytest.raises(TypeError, match=f"`{name}` must be a dictionary of matplotlib keywords or None"):
            drawn_with_everything(display, **{name: 3})
    with pytest.raises(TypeError, match="background"):
        drawn_with_everything(display, ax=ax, background="red")
    assert drawn.plot(name="again") is drawn
    assert drawn.ax_ is not ax
    drawn.figure_.canvas.draw()


SHARED = {
    "AdversarialGroupCalibration": ["ref_line_"],
    "CalibrationCurve": ["ref_line_", "band_"],
    "CalibrationDrift": ["ref_line_"],
    "ClassReliability": ["ref_line_"],
    "PITHistogram": ["ref_line_", "band_"],
    "PointwiseCoverage": ["ref_line_", "band_"],
    "PredictionSet": ["ref_line_"],
    "QuantileReliability": ["ref_line_"],
    "RelativeEconomicValue": ["ref_line_"],
    "Reliability": ["ref_line_"],
}


@pytest.mark.parametrize("name", SHARED)
def test_models_on_one_axes_share_references(name):
    display = getattr(displays, f"{name}Display")
    first = drawn_with_everything(display, name="a")
    second = drawn_with_everything(display, name="b", ax=first.ax_)
    for reference in SHARED[name]:
        assert getattr(first, reference) is not None
        assert getattr(second, reference) is None
    assert first.line_.get_color() != second.line_.get_color()
    labels = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert len(labels) == len(set(labels))
    assert {"a", "b"} <= {label[0] for label in labels}


def test_a_missing_matplotlib_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for display in EVERY:
        for method in (each for each in dir(display) if each.startswith("from_")):
            parameters = inspect.signature(getattr(display, method)).parameters.values()
            required = [
                one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD
            ]
            positional = [None] * sum(one.kind is not one.KEYWORD_ONLY for one in required)
            keywords = {one.name: None for one in required if one.kind is one.KEYWORD_ONLY}
            expected = rf'{display.__name__}.{method} needs matplotlib: run `pip install "skuq\[plot\]"`'
            with pytest.raises(ImportError, match=expected):
                getattr(display, method)(*positional, **keywords)


def test_aliases_of_a_style_replace_the_default_and_percentages_read_well():
    default = {"color": "red", "linewidth": 1.0}
    line = merge_style("lines.Line2D", default, {"lw": 5, "c": "green"}, "line_kwargs")
    assert line == {"color": "green", "linewidth": 5}
    points = merge_style("collections.PathCollection", {"color": "red"}, {"c": "orange"}, "scatter_kwargs")
    assert points == {"c": "orange"}
    patch = merge_style("patches.StepPatch", {"facecolor": "red"}, {"fc": "blue"}, "hist_kwargs")
    assert patch == {"facecolor": "blue"}
    assert [percent(share) for share in (0.9, 0.8995, 0.123, 1.0)] == ["90 %", "90 %", "12.3 %", "100 %"]


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


def draw_five(display, name, **options):
    rng = np.random.default_rng(0)
    y, ax = rng.normal(size=50), None
    for scale in (0.4, 0.7, 1.0, 1.5, 2.0):
        dist = Normal(np.zeros(50), np.full(50, scale))
        ax = display.from_predictions(y, dist, name=f"{name} {scale}", ax=ax, **options).ax_
    return ax


LONG = "UncertaintyRegressor(HistGradientBoostingRegressor) with scale"


def test_a_large_legend_is_below_the_axes_which_keep_their_height():
    few, many = draw_five(displays.PITHistogramDisplay, "a"), draw_five(displays.PITHistogramDisplay, LONG)
    heights = []
    for ax in (few, many):
        ax.figure.canvas.draw()
        heights.append(ax.get_window_extent().height)
    legend = many.get_legend().get_window_extent()
    assert legend.y1 <= many.xaxis.get_tightbbox().y0 + 1
    assert legend.y0 >= 0
    assert legend.x1 <= many.figure.bbox.x1
    assert many.figure.get_figheight() > few.figure.get_figheight()
    assert heights[1] == pytest.approx(heights[0], rel=0.1)


def test_a_large_legend_of_axes_with_equal_units_is_whole():
    square = draw_five(displays.CalibrationCurveDisplay, LONG)
    square.figure.canvas.draw()
    assert square.get_legend().get_window_extent().y0 >= 0


def test_a_large_legend_is_inside_axes_whose_figure_has_no_layout():
    _, given = plt.subplots()  # without a layout, there is no room below the axes
    draw_legend(given)
    for number in range(5):
        given.plot([0, 1], [0, 1], label=f"{LONG} {number}")
    draw_legend(given)
    assert given.get_legend().get_window_extent().y1 > given.bbox.y0


def test_curves_differ_in_gray_print_and_neutral_artists_are_visible_on_dark_axes():
    lines = draw_five(displays.CalibrationCurveDisplay, "a").get_lines()
    assert len({str(line._dash_pattern) for line in lines if line.get_gid() == CURVE}) == 5
    lines = draw_five(displays.ReliabilityDisplay, "a").get_lines()
    assert len({line.get_marker() for line in lines if line.get_gid() == CURVE}) == 5
    histograms = draw_five(displays.PITHistogramDisplay, "a").patches[1:]
    assert max(patch.get_facecolor()[3] for patch in histograms) < 0.1  # outlines
    with plt.style.context("dark_background"):
        for display in (displays.CalibrationCurveDisplay, displays.PredictionBandDisplay):
            drawn = drawn_with_everything(display)
            neutral = drawn.ref_line_ if hasattr(drawn, "ref_line_") else drawn.line_
            assert min(to_rgb(neutral.get_color())) > 0.8


def test_several_models_share_an_estimate_that_depends_on_the_rows_only():
    y, event = np.arange(1.0, 41.0), np.arange(40) % 3 > 0
    dist = Normal(y, np.ones(40))
    draw = SurvivalCurveDisplay.from_predictions
    first = draw(y, dist, event=event)
    assert draw(y, dist, event=event, ax=first.ax_).observed_line_ is None
    assert draw(y + 1, dist, event=event, ax=first.ax_).observed_line_ is not None


NAN, FEW = np.full(1200, np.nan), np.full(1200, 0.1)
BAD = {
    "AdversarialGroupCalibration": [
        ({"error": "ece"}, ValueError, "`error`"),
        ({"options": {"fractions": [2.0]}}, ValueError, "`fractions`"),
        ({"options": {"groups": 3}}, TypeError, "groups"),
        ({"sample_weight": FEW}, ValueError, "repetitions"),
    ],
    "CalibrationCurve": [
        ({"kind": "levels"}, ValueError, "`kind`"),
        ({"band": "wide"}, ValueError, "`band`"),
        ({"confidence": 1.0}, ValueError, "`confidence`"),
        ({"levels": [-0.1, 0.5]}, ValueError, "`levels`"),
        ({"sample_weight": FEW}, ValueError, "repetitions"),
    ],
    "Interval": [
        ({"sort_by": "y"}, ValueError, "`sort_by`"),
        ({"coverage": 90}, ValueError, "Did you mean 0.9"),
        ({"max_rows": 1}, ValueError, "`max_rows`"),
        ({"max_rows": 10.5}, TypeError, "`max_rows`"),
        ({"sample_weight": -FEW}, ValueError, "non-negative"),
    ],
    "Murphy": [
        ({"functional": "median"}, ValueError, "`functional` must be one of"),
        ({"functional": "probability"}, ValueError, "`threshold` must be given"),
        ({"confidence": 95}, ValueError, "`confidence`"),
        (
            {"reference": Normal([0.0, 1.0], 1.0)},
            ValueError,
            "`reference` must have 1200 rows or one row, got 2",
        ),
    ],
    "PITHistogram": [
        ({"n_bins": 1}, ValueError, "`n_bins` must be at least 2"),
        ({"n_bins": 2.5}, TypeError, "`n_bins` must be an integer"),
        ({"n_bins": 10**6}, ValueError, "`n_bins` must be at most"),
        ({"band": "both"}, ValueError, "`band` must be one of"),
        ({"confidence": 95}, ValueError, "Did you mean 0.95"),
        ({"randomized": 1}, ValueError, "`randomized` must be one of True, False"),
        ({"sample_weight": FEW}, ValueError, "counts repetitions"),
    ],
    "PredictionBand": [
        ({"coverage": 1.5}, ValueError, "`coverage`"),
        ({"coverage": []}, ValueError, "`coverage`"),
        ({"max_bins": 1}, ValueError, "`max_bins`"),
        ({"max_rows": 0}, ValueError, "`max_rows`"),
        ({"x": [1.0, 2.0]}, ValueError, "`x` must have 1200 rows"),
        ({"x": NAN}, ValueError, "`x` must not contain NaN"),
        ({"x": ["a"] * 1200}, TypeError, "`x` must hold real numbers"),
    ],
    "Reliability": [
        ({"n_bins": 0}, ValueError, "`n_bins`"),
        ({"strategy": "even"}, ValueError, "`strategy`"),
        ({"confidence": 90}, ValueError, "`confidence`.*Did you mean 0.9"),
        ({"sample_weight": FEW}, ValueError, "repetitions"),
    ],
    "ResidualScale": [
        ({"kind": "squared"}, ValueError, "`kind`"),
        ({"n_bins": 0}, ValueError, "`n_bins`"),
        ({"max_rows": 1}, ValueError, "`max_rows`"),
        ({"sample_weight": -FEW}, ValueError, "`sample_weight`"),
    ],
    "Sharpness": [
        ({"kind": "variance"}, ValueError, "`kind`"),
        ({"bin_width": 0.0}, ValueError, "`bin_width`"),
        ({"bin_width": "auto"}, TypeError, "`bin_width`"),
    ],
    "UncertaintyCharacteristics": [
        ({"x_axis": "miss_rate"}, ValueError, "`x_axis`"),
        ({"y_axis": "excess"}, ValueError, "`y_axis`"),
        ({"miss_rate": 1.5}, ValueError, "`miss_rate`"),
        ({"cost": 2.0}, ValueError, "`cost`"),
        ({"vary": "both"}, ValueError, "`vary`"),
        ({"bands": 2.0}, ValueError, "`bands`"),
        ({"zero_band": "drop"}, ValueError, "`zero_band`"),
        ({"sample_weight": -FEW}, ValueError, "`sample_weight`"),
    ],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options(name, loc, scale, y, subtests):
    for keywords, error, match in BAD[name]:
        with subtests.test(msg=str(keywords)[:60]), pytest.raises(error, match=match):
            getattr(displays, f"{name}Display").from_predictions(y, Normal(loc, scale), **keywords)


# ----------------------------------------------------------------------------- displays of a target


@every
def test_the_conventions_of_scikit_learn(display):
    parameters = inspect.signature(display.plot).parameters
    assert list(parameters)[:3] == ["self", "ax", "name"]
    assert all(one.default is None for name, one in parameters.items() if name.endswith("_kwargs"))
    assert "name" in inspect.signature(display).parameters
    for method in ("from_predictions", "from_estimator", "from_cv_results"):
        kinds = [p.kind for p in inspect.signature(getattr(display, method)).parameters.values()]
        assert kinds[-1] is inspect.Parameter.VAR_KEYWORD


@every
def test_from_estimator_predicts(display, data):
    X, y = data
    model = BayesianRidge().fit(X, y)
    drawn = display.from_estimator(model, X, y)
    expected = display.from_predictions(y, predict_dist(model, X))
    assert drawn.ax_.get_xlabel() == expected.ax_.get_xlabel()
    assert_allclose(drawn.ax_.get_ylim(), expected.ax_.get_ylim())
    with pytest.raises(NotProbabilisticError, match="LinearRegression"):
        display.from_estimator(LinearRegression().fit(X, y), X, y)


@every
def test_bad_rows_and_axes(display, few):
    loc, scale, y = few
    for y_true, y_pred in (
        (np.where(np.arange(300) == 3, np.nan, y), (loc, scale)),
        (y[:-1], (loc, scale)),
        (y[:0], (loc, scale)),
        (["a"] * 300, (loc, scale)),
        (y, loc),
    ):
        with pytest.raises((ValueError, TypeError), match="`y_"):
            display.from_predictions(y_true, y_pred)
    for wrong, got in ((plt.figure(), "Figure"), (plt.subplots(1, 2)[1], "ndarray. Pass one"), (3, "int")):
        with pytest.raises(TypeError, match=f"`ax` must be a matplotlib Axes or None, got {got}"):
            display.from_predictions(y, Normal(loc, scale), ax=wrong)


@pytest.mark.parametrize("display", [displays.SharpnessDisplay, displays.UncertaintyCharacteristicsDisplay])
def test_a_note_in_the_legend_has_brackets_only_beside_a_name(display, few):
    loc, scale, y = few
    note = display.from_predictions(y, Normal(loc, scale)).line_.get_label()
    assert "=" in note
    assert "(" not in note
    assert (
        display.from_predictions(y, Normal(loc, scale), name="model").line_.get_label() == f"model ({note})"
    )


@every
@pytest.mark.parametrize("kind", ["one row", "constant", "point masses"])
def test_one_row_and_constant_predictions_can_be_drawn(display, kind):
    y = np.random.default_rng(0).normal(size=60)
    cases = {
        "one row": ([1.0], [0.5], [2.0]),
        "constant": (y, 0 * y, 0 * y + 1),
        "point masses": (0 * y, 0 * y, 0 * y),
    }
    y_true, *dist = cases[kind]
    drawn = display.from_predictions(y_true, Normal(*dist))
    drawn.figure_.canvas.draw()
    assert drawn.ax_.has_data()
    assert np.isfinite([*drawn.ax_.get_xlim(), *drawn.ax_.get_ylim()]).all()


def points_of(artist):
    if hasattr(artist, "get_offsets"):
        return artist.get_offsets()
    return artist.get_data().values if hasattr(artist.get_data(), "values") else artist.get_data()


@pytest.mark.parametrize(
    "name", ["CalibrationCurve", "Murphy", "PITHistogram", "QuantileReliability", "Reliability", "Sharpness"]
)
def test_weights_count_repetitions(name, rows):
    display = getattr(displays, f"{name}Display")
    loc, scale, y = (part[:90] for part in rows)
    weight = np.arange(90) % 3
    weighted = display.from_predictions(y, Normal(loc, scale), sample_weight=weight, name="model")
    again = [np.repeat(part, weight) for part in (loc, scale, y)]
    repeated = display.from_predictions(again[2], Normal(*again[:2]), name="model")
    for artist in ("line_", "hist_"):
        if hasattr(weighted, artist):
            points = [points_of(getattr(each, artist)) for each in (weighted, repeated)]
            assert_allclose(*points, atol=1e-14)
    texts = [[text.get_text() for text in each.ax_.get_legend().get_texts()] for each in (weighted, repeated)]
    assert texts[0] == texts[1]
    without = {"Reliability": {"confidence": None}}.get(name, {"band": None})  # relative weights have no band
    if set(without) <= set(inspect.signature(display.plot).parameters):
        display.from_predictions(y, Normal(loc, scale), sample_weight=0.1 * weight, **without)


@of_curves
def test_a_cross_validation_gives_a_curve_a_fold_and_models_share_references(display, data, cv_results):
    X, y = data
    drawn = display.from_cv_results(cv_results, X, y)
    assert len(drawn.line_) == 3
    assert len({line.get_color() for line in drawn.line_}) == 1
    for line, model, rows in zip(
        drawn.line_, cv_results["estimator"], cv_results["indices"]["test"], strict=True
    ):
        alone = display.from_estimator(model, X[rows], y[rows])
        assert_allclose(line.get_xydata(), alone.line_.get_xydata())
        assert alone.line_.get_label().startswith("BayesianRidge")
    labels = [text.get_text() for text in drawn.ax_.get_legend().get_texts()]
    assert sum("BayesianRidge (3 folds" in label for label in labels) == 1

    first = display.from_estimator(cv_results["estimator"][0], X, y, name="a")
    second = display.from_cv_results(cv_results, X, y, name="b", ax=first.ax_)
    third = display.from_predictions(y, Normal(X[:, 0], 1 + X[:, 0]), name="c", ax=first.ax_)
    assert len({first.line_.get_color(), second.line_[0].get_color(), third.line_.get_color()}) == 3
    labels = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert [label[0] for label in labels[:3]] == ["a", "b", "c"]
    assert len(labels) == len(set(labels))


@of_rows
def test_a_cross_validation_gives_all_tested_rows_together(display, data, cv_results):
    X, y = data
    drawn = display.from_cv_results(cv_results, X, y, name="folds")
    predictions = [
        predict_dist(model, X[rows])
        for model, rows in zip(cv_results["estimator"], cv_results["indices"]["test"], strict=True)
    ]
    expected = display.from_predictions(y, concat(predictions), name="folds")
    for name in ("scatter_", "line_", "hist_"):
        if hasattr(drawn, name):
            assert_allclose(points_of(getattr(drawn, name)), points_of(getattr(expected, name)))


@every
def test_weights_are_those_of_the_tested_rows(display, data):
    X, y = data
    weight = np.arange(300) % 2 + 1.0
    splits = [(np.arange(100), np.arange(100, 200)), (np.arange(100, 200), np.arange(200, 300))]
    results = validate(X, y, splits)
    folds = display._folds_of_cv(results, X, y, weight, {})
    assert [fold.sample_weight.sum() for fold in folds] == [150.0, 150.0]
    drawn = display.from_cv_results(results, X, y, sample_weight=weight)
    drawn.figure_.canvas.draw()


def test_folds_are_read_from_any_splitter(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b"])
    splitters = ((KFold(3), 300), (RepeatedKFold(n_splits=3, n_repeats=2), 600), (TimeSeriesSplit(4), 240))
    for cv, tested in splitters:
        folds = ALL[0]._folds_of_cv(validate(frame, y, cv), frame, pd.Series(y), None, {})
        assert all(isinstance(fold, Fold) for fold in folds)
        assert sum(len(fold.y_true) for fold in folds) == tested
        assert_array_equal(folds[0].y_true, y[folds[0].rows])
        assert all(fold.sample_weight is None for fold in folds)


@every
def test_bad_cv_results(display, data, cv_results):
    X, y = data
    without = {key: value for key, value in cv_results.items() if key != "indices"}
    for arguments, options, error, match in (
        ((without, X, y), {}, ValueError, "return_indices=True"),
        ((KFold(3), X, y), {}, TypeError, "the dictionary from cross_validate, got KFold"),
        ((cv_results, X[:99], y[:99]), {}, ValueError, "`X` must be the X that was passed .* got 99 rows"),
        ((cv_results, X, y[:99]), {}, ValueError, "`y` must have 300 rows"),
        ((cv_results, X, y), {"sample_weight": [1.0]}, ValueError, "`sample_weight`"),
    ):
        with pytest.raises(error, match=match):
            display.from_cv_results(*arguments, **options)


@pytest.mark.parametrize("name", ["CalibrationCurve", "Reliability", "UncertaintyCharacteristics"])
def test_accumulated_rows_give_the_picture_of_the_rows(name, loc, scale, y):
    display = getattr(displays, f"{name}Display")
    acc = MetricAccumulator("crps").update(y[:500], Normal(loc[:500], scale[:500]))
    acc.update(y[500:], Normal(loc[500:], scale[500:]))
    drawn = display.from_accumulator(acc, name="model")
    expected = display.from_predictions(y, Normal(loc, scale), name="model")
    grid = np.linspace(*expected.line_.get_xdata()[[0, -1]], 50)
    lines = [np.interp(grid, *each.line_.get_xydata().T) for each in (drawn, expected)]
    assert_allclose(*lines, atol=0.2 if name == "UncertaintyCharacteristics" else 0.02)
    assert drawn.ax_.get_xlabel() == expected.ax_.get_xlabel()
    labels = [[text.get_text() for text in each.ax_.get_legend().get_texts()] for each in (drawn, expected)]
    assert labels[0] == labels[1]
    if name == "UncertaintyCharacteristics":
        return
    relative = MetricAccumulator("crps").update(y, Normal(loc, scale), np.full(y.size, 0.1))
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        display.from_accumulator(relative)
    without = {"CalibrationCurve": {"band": None}}.get(name, {"confidence": None})
    display.from_accumulator(relative, **without)
