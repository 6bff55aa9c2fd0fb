"""The parameter ``support`` of every regressor that has it: values, points, errors, the warning."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline

from skuq import conformal, regressors
from skuq._fitting.cross_fit import point_and_dist
from skuq._fitting.support import Support, read_support
from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.distributions import Normal
from skuq.exceptions import SupportWarning
from skuq.metrics import get_scorer
from skuq.prediction import predict_dist
from skuq.recalibration import SupportMap
from skuq.regressors import (
    BootstrapRegressor,
    ForestDistributionRegressor,
    MixtureRegressor,
    MultiQuantileRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = RNG.poisson(np.exp(0.4 + 0.6 * X[:, 0])).astype(float)
LEVELS = [0.05, 0.2, 0.5, 0.9, 0.95]
LINEAR = LinearRegression()
REGRESSORS = [
    UncertaintyRegressor(LINEAR, random_state=0),
    UncertaintyRegressor(LINEAR, "conformal", random_state=0),
    RecalibratedRegressor(BayesianRidge(), random_state=0),
    MixtureRegressor([("a", BayesianRidge()), ("b", RecalibratedRegressor(BayesianRidge()))], random_state=0),
    MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.1, 0.5, 0.9]),
    ForestDistributionRegressor(RandomForestRegressor(20), random_state=0),
    ResidualRegressor(LINEAR, random_state=0),
    BootstrapRegressor(LINEAR, 10, random_state=0),
    BootstrapRegressor(LINEAR, 10, noise=None, random_state=0),
    ConformalRegressor(LINEAR, random_state=0),
    CrossConformalRegressor(LINEAR, random_state=0),
]
every = pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda each: type(each).__name__)
CASES = [("count", 0.0, np.inf, True), (range(16), 0.0, 15.0, True), ("positive", 0.0, np.inf, False)]
CASES += [((0, None), 0.0, np.inf, False), ((-1.0, 15.5), -1.0, 15.5, False)]
CASES += [((None, None), -np.inf, np.inf, False)]


def with_support(regressor, support):
    return clone(regressor).set_params(support=support)


@every
@pytest.mark.parametrize(("support", "lower", "upper", "integer"), CASES[:3])
def test_no_forecast_is_impossible(regressor, support, lower, upper, integer):
    model = with_support(regressor, support).fit(X, np.minimum(Y, 15))
    dist = model.predict_dist(X)
    values = np.column_stack([dist.quantile(LEVELS), model.predict_interval(X), dist.sample(9, 0)])
    assert values.min() >= lower
    assert values.max() <= upper
    if integer:
        assert_array_equal(values, np.round(values))


@every
def test_the_map_follows_the_calibration(regressor):
    model, plain = with_support(regressor, "count").fit(X, Y), clone(regressor)
    if isinstance(plain, UncertaintyRegressor):
        with pytest.warns(SupportWarning):
            plain.fit(X, Y)
    else:
        plain.fit(X, Y)
    mapped = plain.predict_dist(X).clip(0.0, integer=True)
    assert_array_equal(model.predict_dist(X).quantile(LEVELS), mapped.quantile(LEVELS))
    wide = plain.predict_interval(X, 0.8)
    bounds = model.predict_interval(X, 0.8)
    inside = np.round(np.maximum(wide, 0.0))
    assert np.abs(bounds - inside).max() <= 1.0


@every
def test_points_are_clipped_and_not_rounded(regressor):
    model = with_support(regressor, "count")
    bounds = model.fit_transform(X, Y).interval(0.9)
    assert_array_equal(bounds, np.maximum(np.round(bounds), 0.0))
    points, std = model.predict(X, return_std=True)
    assert_allclose(points, model.predict(X))
    assert points.min() >= 0.0
    assert (points != np.round(points)).any()
    assert_allclose(std, model.predict_dist(X).std())
    both = point_and_dist(model, X)
    assert_allclose(both[0], points)
    assert_array_equal(both[1].interval(), model.predict_dist(X).interval())


@every
def test_a_target_outside_is_an_error_that_names_the_row(regressor):
    for support, wrong in (("count", 2.5), ("count", -1.0), ("positive", -0.1), ((0, 30), 31.0)):
        y = Y.copy()
        y[7] = wrong
        message = rf"`y` must hold .* with support={support!r}, got {wrong:g} at row 7".replace("(", r"\(")
        with pytest.raises(ValueError, match=message.replace("30)", r"30\)")):
            with_support(regressor, support).fit(X, y)


def test_every_wrapper_has_the_parameter():
    without = {"BaseUncertaintyRegressor", "FunctionalRegressor", "LeastSquaresRegressor"}
    without |= {"SparseGaussianProcessRegressor"}
    classes = vars(regressors) | vars(conformal)
    wrappers = {*regressors.__all__, "ConformalRegressor", "CrossConformalRegressor"}
    for name in wrappers - without - {"default_estimators"}:
        parameters = inspect.signature(classes[name]).parameters
        assert parameters["support"].default is None, name


@pytest.mark.parametrize(("support", "lower", "upper", "integer"), CASES)
def test_values_of_the_parameter(support, lower, upper, integer):
    assert read_support(support) == Support(lower, upper, integer)
    assert read_support(None) is None


@pytest.mark.parametrize(
    ("support", "error", "message"),
    [
        ("counts", ValueError, "`support` must be 'count', 'positive', a pair"),
        ((3, 1), ValueError, r"`support` must have lower < upper, got \(3, 1\)"),
        ((1, 1), ValueError, "`support` must have lower < upper"),
        ((0, 1, 2), ValueError, "`support` must be 'count', 'positive', a pair"),
        ((0, np.nan), ValueError, "`support` must be finite, got nan. Use None for no bound"),
        ((np.inf, None), ValueError, "`support` must be finite, got inf"),
        (("a", 1), TypeError, "`support` must be a number, got 'a'"),
        (range(0, 9, 2), ValueError, "if `support` is a range, it must have step 1"),
        (range(1), ValueError, "if `support` is a range, it must have step 1 and at least two values"),
        (3, ValueError, "`support` must be 'count'"),
    ],
)
def test_bad_supports_are_named(support, error, message):
    for model in (
        UncertaintyRegressor(LINEAR, support=support),
        RecalibratedRegressor(BayesianRidge(), support=support),
    ):
        with pytest.raises(error, match=message):
            model.fit(X, Y)
    with pytest.raises(error, match=message):
        SupportMap(support).fit(Normal(np.zeros(120), 1.0), Y)


def test_counts_whose_forecasts_have_probability_below_0_give_a_warning():
    with pytest.warns(SupportWarning, match=r"`y` holds integers from 0, but .* % .* support='count'"):
        UncertaintyRegressor(LINEAR, random_state=0).fit(X, Y)
    with pytest.warns(SupportWarning):
        UncertaintyRegressor(LINEAR, random_state=0).fit_transform(X, Y)


@pytest.mark.parametrize(
    "y", [Y + 0.5, Y - 1, Y + 2, np.sqrt(Y)], ids=["halves", "from -1", "from 2", "roots"]
)
def test_other_targets_give_no_warning(y):
    """A warning is an error in tests, here and below."""
    UncertaintyRegressor(LINEAR, random_state=0).fit(X, y)


@pytest.mark.parametrize("support", ["count", "positive", (-3, None)])
def test_counts_with_a_support_give_no_warning(support):
    UncertaintyRegressor(LINEAR, random_state=0, support=support).fit(X, Y)


def test_searches_and_cross_validation():
    model = UncertaintyRegressor(BayesianRidge(), "native", random_state=0, support="count")
    grid = {"support": ["positive", "count"]}
    search = GridSearchCV(model, grid, scoring=get_scorer("neg_crps"), cv=3, error_score="raise")
    assert predict_dist(search.fit(X, Y), X).interval().min() >= 0.0
    assert cross_val_predict(model, X, Y, cv=3).min() >= 0.0


def test_the_step_of_a_pipeline_equals_the_parameter():
    pipeline = make_pipeline(
        UncertaintyRegressor(LINEAR, random_state=0, support=(None, None)), SupportMap("count")
    )
    model = UncertaintyRegressor(LINEAR, random_state=0, support="count")
    assert_array_equal(
        predict_dist(pipeline.fit(X, Y), X).quantile(LEVELS),
        model.fit(X, Y).predict_dist(X).quantile(LEVELS),
    )


def test_partial_fit_checks_its_rows():
    model = ConformalRegressor(LINEAR, random_state=0, support="count").fit(X, Y)
    with pytest.raises(ValueError, match=r"got 0\.5 at row 1"):
        model.partial_fit(X[:2], [1.0, 0.5])
    assert model.partial_fit(X[:2], [1.0, 0.0]).predict_interval(X).min() >= 0.0
    model.set_params(support=range(40)).fit(X[:16], Y[:16])
    with pytest.warns(UserWarning, match="rows"):
        bounds = model.predict_interval(X[:3], 0.99)
    assert_array_equal(bounds, [[0.0, 39.0]] * 3)
