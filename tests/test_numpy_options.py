"""Options given as numpy scalars, as grids of numpy arrays and other tools give them, are those options."""

import inspect
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import BaseEstimator, MultiOutputMixin, clone, is_classifier
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor

import skuq.conformal
import skuq.metrics
import skuq.multivariate
import skuq.recalibration
import skuq.regressors
import skuq.survival
from skuq._validation import check_option
from skuq.distributions import Normal
from skuq.metrics import get_scorer
from skuq.metrics._spec import all_specs
from skuq.regressors import UncertaintyRegressor
from tests.test_public_api import PUBLIC, load

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = X[:, 0] + (0.2 + 0.1 * np.abs(X[:, 1])) * RNG.normal(size=60)
DIST = Normal(X[:, 0], 0.2 + 0.1 * np.abs(X[:, 1]))

NUMPY = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
WRAPPED = {
    "BootstrapRegressor": {"estimator": DecisionTreeRegressor(max_depth=3), "n_estimators": 10},
    "CensoredBoostingRegressor": {"family": "normal", "engine": "sklearn", "n_estimators": 5},
    "CensoringWeightedRegressor": {"estimator": BayesianRidge()},
    "ConformalSurvivalRegressor": {"estimator": BayesianRidge()},
    "ConformalRegionRegressor": {"estimator": BayesianRidge()},
    "ConformalRegressor": {"estimator": BayesianRidge()},
    "CrossConformalRegressor": {"estimator": BayesianRidge()},
    "ForestDistributionRegressor": {"estimator": RandomForestRegressor(20)},
    "FunctionalRegressor": {"estimator": BayesianRidge()},
    "HurdleRegressor": {
        "classifier": LogisticRegression(),
        "regressor": BayesianRidge(),
        "at": float(Y[0]),
    },
    "MixtureRegressor": {
        "estimators": [("ridge", BayesianRidge()), ("forest", UncertaintyRegressor(Ridge()))]
    },
    "MultiOutputUncertaintyRegressor": {"estimator": BayesianRidge()},
    "MultiQuantileRegressor": {"estimator": QuantileRegressor(alpha=0)},
    "RecalibratedRegressor": {"estimator": BayesianRidge()},
    "ResidualRegressor": {"estimator": LinearRegression()},
    "UncertaintyRegressor": {"estimator": Ridge()},
    "OperatingPointRecalibrator": {"miss_rate": 0.1},
    "SparseGaussianProcessRegressor": {"n_inducing_points": 5, "max_iter": 5},
}
NETWORK = {"hidden_layer_sizes": (4,), "max_epochs": 3, "n_estimators": 4, "n_draws": 5, "n_snapshots": 3}
VARIANTS = [
    ("BootstrapRegressor", {"noise": "heteroscedastic"}),
    ("ConformalRegionRegressor", {"method": "cv+", "cv": 3}),
    ("ConformalRegressor", {"method": "split", "held_out_size": 20}),
    ("ConformalRegressor", {"method": "normalized", "symmetric": False}),
    ("CrossConformalRegressor", {"method": "cv+", "cv": 4}),
    ("CrossConformalRegressor", {"method": "jackknife+ab", "aggregate": "median", "n_estimators": 12}),
    ("RecalibratedRegressor", {"ensemble": True, "cv": 3}),
    ("ResidualRegressor", {"center": "model"}),
    ("UncertaintyRegressor", {"method": "bootstrap"}),
    ("UncertaintyRegressor", {"method": "conformal"}),
    ("BinnedScalingRecalibrator", {"n_bins": 3}),
    ("VarianceIsotonicRecalibrator", {"min_rows": 10}),
    ("ConformalRecalibrator", {"symmetric": False}),
    ("EmpiricalRecalibrator", {"smooth": False}),
    ("IsotonicRecalibrator", {"smooth": True}),
    ("StdScalingRecalibrator", {"objective": "coverage", "coverage": 0.8}),
    ("StdScalingRecalibrator", {"robust": True}),
]


def public_estimators(module):
    classes = [getattr(module, name) for name in module.__all__]
    return {
        each.__name__: each
        for each in classes
        if inspect.isclass(each) and issubclass(each, BaseEstimator) and not inspect.isabstract(each)
    }


CLASSES = public_estimators(skuq.regressors) | public_estimators(skuq.recalibration)
CLASSES |= public_estimators(skuq.conformal)
CLASSES |= public_estimators(skuq.multivariate) | public_estimators(skuq.survival)
CLASSES.pop("ConformalClassifier")
for unusable in ("BaseUncertaintyRegressor", "BaseRecalibrator"):
    CLASSES.pop(unusable, None)
SPARSE = {"SparseGaussianProcessRegressor"}
NETWORKS = [name for name in PUBLIC["skuq.neural"] if name.endswith(("Regressor", "Classifier"))]


CHEAP = [(name, {}) for name in sorted({*CLASSES} - SPARSE)]
DEAR = [*VARIANTS, *((name, {}) for name in (*NETWORKS, *(SPARSE if find_spec("gpytorch") else ())))]


def make(name, given=()):
    cls = CLASSES[name] if name in CLASSES else getattr(load("skuq.neural"), name)
    options = NETWORK if name in NETWORKS else WRAPPED.get(name, {})
    known = inspect.signature(cls).parameters
    options = {key: value for key, value in options.items() if key in known} | dict(given)
    if "random_state" in known:
        options["random_state"] = 0
    return cls(**options)


def with_numpy_options(estimator):
    """The same estimator with each bool, int, float and str among its parameters as numpy's."""
    options = estimator.get_params(deep=False)
    converted = {name: NUMPY[type(v)](v) for name, v in options.items() if type(v) in NUMPY}
    return clone(estimator).set_params(**converted), converted


def forecast(estimator):
    if isinstance(estimator, skuq.recalibration.BaseRecalibrator):
        return estimator.fit(DIST, Y).transform(DIST).quantile([0.2, 0.5, 0.7])
    if is_classifier(estimator):
        return estimator.fit(X, Y > 0).predict_proba(X)
    if isinstance(estimator, MultiOutputMixin):
        return estimator.fit(X, np.column_stack([Y, X[:, 1] - Y])).predict_interval(X, 0.6)
    if not hasattr(estimator, "predict_dist"):
        return estimator.fit(X, Y - Y.min()).predict(X)
    return estimator.fit(X, Y).predict_dist(X).quantile([0.2, 0.5, 0.7])


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
@pytest.mark.parametrize(
    ("name", "given"),
    CHEAP + [pytest.param(*each, marks=pytest.mark.laws) for each in DEAR],
    ids=str,
)
def test_estimators_take_numpy_options(name, given):
    estimator = make(name, given)
    changed, converted = with_numpy_options(estimator)
    assert set(converted) >= set(given) - {"hidden_layer_sizes"}
    expected, found = forecast(estimator), forecast(changed)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_metrics_take_numpy_options(subtests):
    labels, proba = np.arange(60) % 3, np.random.default_rng(0).dirichlet(np.ones(3), size=60)
    for name, spec in all_specs().items():
        if spec.of_targets:
            continue
        pair = (labels, proba) if spec.of_classes else (Y, DIST)
        known = inspect.signature(spec.function).parameters
        options = {key: each.default for key, each in known.items() if type(each.default) in NUMPY}
        if spec.random:
            options["random_state"] = 0
        if spec.needs == "interval":
            pair = Y, DIST.interval(0.8)
            options.pop("coverage", None)
        needed = {"reference": Normal(np.zeros(60), 1.0)} if "reference" in known else {}
        if spec.needs_X:
            needed["X"] = X
        converted = {key: NUMPY[type(value)](value) for key, value in options.items()}
        with subtests.test(name):
            expected = spec.function(*pair, **options, **needed)
            assert spec.function(*pair, **converted, **needed) == expected


def test_a_grid_of_numpy_strings_is_searched():
    grid = {"method": np.array(["residual", "bootstrap"]), "cv": np.array([3, 4])}
    search = GridSearchCV(
        UncertaintyRegressor(Ridge(), random_state=0),
        grid,
        scoring=get_scorer("neg_crps"),
        cv=2,
        error_score="raise",
    ).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_options_come_back_as_they_are_declared():
    for value in (1, 0, np.int64(1), 1.0, "True", np.str_("False"), None):  # bools stay strict
        with pytest.raises(ValueError, match="`flag` must be one of True, False"):
            check_option(value, "flag", (True, False))
    assert check_option(np.bool_(True), "flag", (True, False)) is True
    assert type(check_option(np.str_("a"), "kind", ("a", None))) is str
    assert check_option(None, "kind", ("a", None)) is None
    with pytest.raises(ValueError, match="`kind` must be one of 'a', None"):
        check_option(np.str_("b"), "kind", ("a", None))
    with pytest.raises(ValueError, match="`kind` must be one of"):
        check_option(np.array(["a", "b"]), "kind", ("a", None))
    for value in (1, np.int64(1), np.uint8(1)):
        assert check_option(value, "number", (1, 2)) == 1
    for wrong in (True, np.True_, 1.0, "1"):
        with pytest.raises(ValueError, match="`number` must be one of 1, 2"):
            check_option(wrong, "number", (1, 2))
