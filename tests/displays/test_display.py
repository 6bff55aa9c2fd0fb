"""What holds for every display of predictions, whatever it draws."""

import inspect
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import KFold, RepeatedKFold, TimeSeriesSplit, cross_validate

from skuq import displays
from skuq.displays._display import Display, Fold
from skuq.distributions import concat
from skuq.exceptions import NotProbabilisticError
from skuq.monitoring import MetricAccumulator
from skuq.prediction import predict_dist

EVERY = [getattr(displays, name) for name in displays.__all__]
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
    "AdversarialGroupCalibration",
    "CalibrationCurve",
    "Murphy",
    "QuantileReliability",
    "Reliability",
    "UncertaintyCharacteristics",
]
every = pytest.mark.parametrize("display", ALL, ids=lambda display: display.__name__)
of_curves = pytest.mark.parametrize("display", [getattr(displays, f"{name}Display") for name in OF_CURVES])
of_rows = pytest.mark.parametrize(
    "display", [display for display in ALL if display.__name__.removesuffix("Display") not in OF_CURVES]
)


@pytest.fixture
def data(rows):
    loc, _, y = rows
    return np.column_stack([loc, np.zeros(len(loc))]), y


@pytest.fixture
def cv_results(data):
    return validate(*data, KFold(3))


def validate(X, y, cv):
    return cross_validate(BayesianRidge(), X, y, cv=cv, return_estimator=True, return_indices=True)


@every
@pytest.mark.parametrize("method", ["from_predictions", "from_estimator", "from_cv_results"])
def test_a_missing_matplotlib_names_the_command(display, method, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ([0.0], ([0.0], [1.0])) if method == "from_predictions" else ({}, [[0.0]], [0.0])
    expected = rf'{display.__name__}.{method} needs matplotlib: run `pip install "skuq\[plot\]"`'
    with pytest.raises(ImportError, match=expected):
        getattr(display, method)(*arguments)


@every
def test_the_conventions_of_scikit_learn(display):
    parameters = inspect.signature(display.plot).parameters
    assert list(parameters)[:3] == ["self", "ax", "name"]
    assert all(
        parameter.default is None for name, parameter in parameters.items() if name.endswith("_kwargs")
    )
    stored = [name for name in inspect.signature(display).parameters if name != "self"]
    assert "name" in stored
    for method in ("from_predictions", "from_estimator", "from_cv_results"):
        kinds = [p.kind for p in inspect.signature(getattr(display, method)).parameters.values()]
        assert kinds[-1] is inspect.Parameter.VAR_KEYWORD


@every
def test_draws_on_the_axes_given_and_on_new_ones(display, rows):
    import matplotlib.pyplot as plt

    loc, scale, y = rows
    _, ax = plt.subplots()
    drawn = display.from_predictions(y, (loc, scale), ax=ax)
    assert drawn.ax_ is ax
    assert drawn.figure_ is ax.figure
    assert drawn.plot(name="again") is drawn
    assert drawn.ax_ is not ax
    drawn.figure_.canvas.draw()


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
@pytest.mark.parametrize("wrong", ["nan", "length", "empty", "text", "array"])
def test_bad_input(display, wrong, rows):
    loc, scale, y = (part[:600] for part in rows)
    arguments = {
        "nan": (np.where(np.arange(600) == 3, np.nan, y), (loc, scale)),
        "length": (y[:-1], (loc, scale)),
        "empty": (y[:0], (loc, scale)),
        "text": (["a"] * 600, (loc, scale)),
        "array": (y, loc),
    }[wrong]
    with pytest.raises((ValueError, TypeError), match="`y_"):
        display.from_predictions(*arguments)


@every
def test_bad_axes(display, rows):
    import matplotlib.pyplot as plt

    loc, scale, y = (part[:100] for part in rows)
    for wrong, got in ((plt.figure(), "Figure"), (plt.subplots(1, 2)[1], "ndarray. Pass one"), (3, "int")):
        with pytest.raises(TypeError, match=f"`ax` must be a matplotlib Axes or None, got {got}"):
            display.from_predictions(y, (loc, scale), ax=wrong)


@pytest.mark.parametrize("display", [displays.SharpnessDisplay, displays.UncertaintyCharacteristicsDisplay])
def test_a_note_in_the_legend_has_brackets_only_beside_a_name(display, rows):
    loc, scale, y = rows
    note = display.from_predictions(y, (loc, scale)).line_.get_label()
    assert "=" in note
    assert "(" not in note
    assert display.from_predictions(y, (loc, scale), name="model").line_.get_label() == f"model ({note})"


@every
def test_unknown_keywords_and_styles(display, rows):
    loc, scale, y = rows
    with pytest.raises(TypeError, match="color"):
        display.from_predictions(y, (loc, scale), color="red")
    with pytest.raises(TypeError, match="`line_kwargs` must be a dictionary"):
        display.from_predictions(y, (loc, scale), line_kwargs="red")


def assert_drawn(drawn):
    """The picture renders, with something on axes whose limits are numbers."""
    drawn.figure_.canvas.draw()
    assert drawn.ax_.has_data()
    assert np.isfinite([*drawn.ax_.get_xlim(), *drawn.ax_.get_ylim()]).all()


@every
def test_one_row_can_be_drawn(display):
    assert_drawn(display.from_predictions([1.0], ([0.5], [2.0])))


@every
def test_a_constant_prediction_can_be_drawn(display):
    y = np.random.default_rng(0).normal(size=600)
    assert_drawn(display.from_predictions(y, (np.zeros(600), np.ones(600))))
    assert_drawn(display.from_predictions(np.zeros(600), (np.zeros(600), np.zeros(600))))


@of_curves
def test_a_cross_validation_gives_a_curve_a_fold(display, data, cv_results):
    X, y = data
    drawn = display.from_cv_results(cv_results, X, y)
    assert len(drawn.line_) == 3
    assert len({line.get_color() for line in drawn.line_}) == 1
    for line, model, rows in zip(
        drawn.line_, cv_results["estimator"], cv_results["indices"]["test"], strict=True
    ):
        alone = display.from_estimator(model, X[rows], y[rows])
        assert_allclose(line.get_xydata(), alone.line_.get_xydata())
    labels = [text.get_text() for text in drawn.ax_.get_legend().get_texts()]
    assert sum("BayesianRidge (3 folds" in label for label in labels) == 1


@of_curves
def test_models_on_one_axes_differ_in_color_and_share_references(display, data, cv_results):
    X, y = data
    model = cv_results["estimator"][0]
    first = display.from_estimator(model, X, y, name="a")
    second = display.from_cv_results(cv_results, X, y, name="b", ax=first.ax_)
    third = display.from_predictions(y, (X[:, 0], 1 + X[:, 0]), name="c", ax=first.ax_)
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


def points_of(artist):
    if hasattr(artist, "get_offsets"):
        return artist.get_offsets()
    return artist.get_data().values if hasattr(artist.get_data(), "values") else artist.get_data()


@every
def test_weights_are_those_of_the_tested_rows(display, data):
    X, y = data[0][:900], data[1][:900]
    weight = np.arange(900) % 2 + 1.0
    splits = [(np.arange(300), np.arange(300, 600)), (np.arange(300, 600), np.arange(600, 900))]
    folds = display._folds_of_cv(validate(X, y, splits), X, y, weight, {})
    assert [fold.sample_weight.sum() for fold in folds] == [450.0, 450.0]
    drawn = display.from_cv_results(validate(X, y, splits), X, y, sample_weight=weight)
    drawn.figure_.canvas.draw()


@pytest.mark.parametrize(
    ("cv", "tested"),
    [(KFold(3), 1200), (RepeatedKFold(n_splits=3, n_repeats=2), 2400), (TimeSeriesSplit(4), 960)],
)
def test_folds_are_read_from_any_splitter(cv, tested, data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b"])
    folds = ALL[0]._folds_of_cv(validate(frame, y, cv), frame, pd.Series(y), None, {})
    assert all(isinstance(fold, Fold) for fold in folds)
    assert sum(len(fold.y_true) for fold in folds) == tested
    assert_array_equal(folds[0].y_true, y[folds[0].rows])
    assert all(fold.sample_weight is None for fold in folds)


@every
def test_bad_cv_results(display, data, cv_results):
    X, y = data
    without = {key: value for key, value in cv_results.items() if key != "indices"}
    with pytest.raises(ValueError, match="return_indices=True"):
        display.from_cv_results(without, X, y)
    with pytest.raises(TypeError, match="`cv_results` must be the dictionary from cross_validate, got KFold"):
        display.from_cv_results(KFold(3), X, y)
    with pytest.raises(
        ValueError, match="`X` must be the X that was passed to cross_validate, got 1000 rows"
    ):
        display.from_cv_results(cv_results, X[:1000], y[:1000])
    with pytest.raises(ValueError, match="`y` must have 1200 rows"):
        display.from_cv_results(cv_results, X, y[:1000])
    with pytest.raises(ValueError, match="`sample_weight`"):
        display.from_cv_results(cv_results, X, y, sample_weight=[1.0])


@pytest.mark.parametrize("name", ["CalibrationCurve", "Reliability", "UncertaintyCharacteristics"])
def test_accumulated_rows_give_the_picture_of_the_rows(name, rows):
    loc, scale, y = rows
    display = getattr(displays, f"{name}Display")
    acc = MetricAccumulator("crps").update(y[:500], (loc[:500], scale[:500]))
    acc.update(y[500:], (loc[500:], scale[500:]))
    drawn = display.from_accumulator(acc, name="model")
    expected = display.from_predictions(y, (loc, scale), name="model")
    grid = np.linspace(*expected.line_.get_xdata()[[0, -1]], 50)
    lines = [np.interp(grid, *each.line_.get_xydata().T) for each in (drawn, expected)]
    assert_allclose(*lines, atol=0.2 if name == "UncertaintyCharacteristics" else 0.02)
    assert drawn.ax_.get_xlabel() == expected.ax_.get_xlabel()
    labels = [[text.get_text() for text in each.ax_.get_legend().get_texts()] for each in (drawn, expected)]
    assert labels[0] == labels[1]
    relative = MetricAccumulator("crps").update(y, (loc, scale), np.full(y.size, 0.1))
    if name == "UncertaintyCharacteristics":
        return
    with pytest.raises(ValueError, match="`sample_weight` counts repetitions"):
        display.from_accumulator(relative)
    display.from_accumulator(
        relative, **{"CalibrationCurve": {"band": None}}.get(name, {"interval_coverage": None})
    )
