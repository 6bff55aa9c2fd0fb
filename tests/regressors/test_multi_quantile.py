"""Quantile regression at many levels: every package, one fit where that is enough."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import Quantiles
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist
from skuq.prediction._quantile_estimators import configured_levels
from skuq.regressors import MultiQuantileRegressor, ResidualRegressor, UncertaintyRegressor
from tests.regressors.worlds import heteroscedastic_world, linear_world

LEVELS = [0.1, 0.5, 0.9]


def lightgbm(**options):
    return pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1, **options)


def catboost(**options):
    package = pytest.importorskip("catboost")
    return package.CatBoostRegressor(
        iterations=20, verbose=False, allow_writing_files=False, thread_count=1, **options
    )


def xgboost(**options):
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1, **options)


def quantile_forest(**options):
    return pytest.importorskip("quantile_forest").RandomForestQuantileRegressor(20, random_state=0, **options)


CHILDREN = {
    "sklearn linear": lambda: QuantileRegressor(alpha=0),
    "sklearn boosting": lambda: GradientBoostingRegressor(n_estimators=20, random_state=0),
    "sklearn histogram": lambda: HistGradientBoostingRegressor(max_iter=20),
    "lightgbm": lightgbm,
    "catboost": catboost,
    "xgboost": xgboost,
    "quantile forest": quantile_forest,
}
NATIVE = ("catboost", "xgboost", "quantile forest")


@pytest.mark.parametrize("name", CHILDREN)
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_every_package_with_a_quantile_loss(name, in_pipeline):
    X, y = heteroscedastic_world(300)
    child = CHILDREN[name]()
    if in_pipeline:
        child = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), child))
    model = MultiQuantileRegressor(child, LEVELS, random_state=0).fit(X, y)
    assert len(model.estimators_) == (1 if name in NATIVE else 3)
    X, y = heteroscedastic_world(1000, 1)
    dist = model.predict_dist(X)
    assert isinstance(dist, Quantiles)
    assert np.all(np.diff(dist.values, axis=1) >= 0)
    assert np.mean(y < dist.ppf(0.1)) == pytest.approx(0.1, abs=0.08)
    assert np.mean(y < dist.ppf(0.9)) == pytest.approx(0.9, abs=0.08)


def test_each_level_is_its_own_fit():
    X, y = linear_world(100)
    model = MultiQuantileRegressor(QuantileRegressor(alpha=0), LEVELS).fit(X, y)
    for level, fitted in zip(LEVELS, model.estimators_, strict=True):
        assert np.array_equal(
            fitted.predict(X), QuantileRegressor(quantile=level, alpha=0).fit(X, y).predict(X)
        )
    assert np.array_equal(model.predict(X), model.predict_dist(X).mean())


@pytest.mark.parametrize(
    ("child", "options", "predict"),
    [
        (catboost, {"loss_function": "MultiQuantile:alpha=0.1,0.5,0.9"}, {}),
        (xgboost, {"objective": "reg:quantileerror", "quantile_alpha": np.array(LEVELS)}, {}),
        (quantile_forest, {}, {"quantiles": LEVELS}),
    ],
)
def test_some_packages_learn_all_levels_at_once(child, options, predict):
    X, y = linear_world(100)
    model = MultiQuantileRegressor(child(), LEVELS).fit(X, y)
    expected = np.sort(child(**options).fit(X, y).predict(X, **predict), axis=1)
    assert np.allclose(model.predict_dist(X).values, expected)


def test_the_dummy_gives_the_marginal_quantiles():
    X, y = linear_world(50)
    model = MultiQuantileRegressor(DummyRegressor(), LEVELS).fit(X, y)
    assert np.allclose(model.predict_quantiles(X[:1], LEVELS), np.quantile(y, LEVELS))


def test_crossing_quantiles_are_sorted():
    class Crossing(DummyRegressor):
        def predict(self, X):
            return np.full(len(X), -self.quantile)

    X, y = linear_world(20)
    dist = MultiQuantileRegressor(Crossing(), LEVELS).fit(X, y).predict_dist(X[:1])
    assert np.allclose(dist.quantile(LEVELS), [[-0.9, -0.5, -0.1]])


def test_the_user_names_the_parameter():
    class Expectile(RegressorMixin, BaseEstimator):
        def __init__(self, tau=0.5):
            self.tau = tau

        def fit(self, X, y):
            self.value_ = np.quantile(y, self.tau)
            return self

        def predict(self, X):
            return np.full(len(X), self.value_)

    X, y = linear_world(50)
    pipeline = make_pipeline(StandardScaler(), Expectile())
    for estimator, name in ((Expectile(), "tau"), (pipeline, "expectile__tau")):
        model = MultiQuantileRegressor(estimator, LEVELS, quantile_param=name).fit(X, y)
        assert np.allclose(model.predict_quantiles(X[:1], LEVELS), np.quantile(y, LEVELS))
    with pytest.raises(ValueError, match="quantile loss that skuq can set, but Expectile"):
        MultiQuantileRegressor(Expectile(), LEVELS).fit(X, y)
    words = r"`quantile_param` must be a parameter of Expectile, got 'alpha'.*'tau'"
    with pytest.raises(ValueError, match=words):
        MultiQuantileRegressor(Expectile(), LEVELS, quantile_param="alpha").fit(X, y)


def test_a_transformed_target_belongs_outside():
    X, y = linear_world(200)
    y = np.exp(y / 2)
    inner = MultiQuantileRegressor(QuantileRegressor(alpha=0), LEVELS)
    model = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp).fit(X, y)
    plain = MultiQuantileRegressor(QuantileRegressor(alpha=0), LEVELS).fit(X, np.log(y))
    assert np.allclose(predict_dist(model, X).quantile(LEVELS), np.exp(plain.predict_quantiles(X, LEVELS)))


def test_sample_weights_reach_every_level():
    X, y = linear_world(60)
    weight = np.random.default_rng(0).integers(0, 3, size=60)
    repeated = np.repeat(np.arange(60), weight)
    model = MultiQuantileRegressor(QuantileRegressor(alpha=0), LEVELS)
    weighted = model.fit(X, y, sample_weight=weight).predict_quantiles(X, LEVELS)
    assert np.allclose(weighted, model.fit(X[repeated], y[repeated]).predict_quantiles(X, LEVELS), atol=1e-6)


def test_bad_levels():
    X, y = linear_world(20)
    for levels, message in (([0.5], "at least two levels"), ([0.9, 0.1], "strictly increasing")):
        with pytest.raises(ValueError, match=message):
            MultiQuantileRegressor(QuantileRegressor(), levels).fit(X, y)


def test_an_estimator_without_quantile_loss_is_named():
    X, y = linear_world(20)
    with pytest.raises(
        ValueError, match=r"skuq can set, but LinearRegression has none.*quantile_param.*ResidualRegressor"
    ):
        MultiQuantileRegressor(make_pipeline(StandardScaler(), LinearRegression())).fit(X, y)


def with_own_constructor(base, **fixed):
    """Return a subclass whose constructor has one parameter and fixes those of its base class."""

    class Own(base):
        def __init__(self, n=5):
            self.n = n
            super().__init__(**fixed)

    return Own()


@pytest.mark.parametrize(
    ("estimator", "levels"),
    [
        (with_own_constructor(GradientBoostingRegressor, loss="quantile", alpha=0.3, n_estimators=5), [0.3]),
        (
            with_own_constructor(HistGradientBoostingRegressor, loss="quantile", quantile=0.3, max_iter=5),
            [0.3],
        ),
        (with_own_constructor(DummyRegressor, strategy="quantile", quantile=0.3), [0.3]),
        (with_own_constructor(GradientBoostingRegressor, n_estimators=5), None),
    ],
)
def test_subclasses_with_a_constructor_of_their_own_have_levels(estimator, levels):
    X, y = linear_world(60)
    assert configured_levels(estimator) == levels
    assert configured_levels(make_pipeline(StandardScaler(), estimator)) == levels
    own = ResidualRegressor(estimator, cv=2, random_state=0).fit(X, y)
    assert np.isfinite(own.predict_interval(X)).all()
    if not isinstance(estimator, DummyRegressor):
        with pytest.raises(NotProbabilisticError):
            predict_dist(estimator.fit(X, y), X)


@pytest.mark.parametrize("alias", ["objective", "application", "app", "objective_type", "loss"])
@pytest.mark.filterwarnings("ignore:Found '")
def test_lightgbm_by_every_name_of_its_loss(alias):
    X, y = heteroscedastic_world(200)
    one = lightgbm(alpha=0.3, **{alias: "quantile"})
    assert configured_levels(one) == [0.3]
    assert configured_levels(lightgbm(alpha=0.3, **{alias: "l1"})) is None
    front = UncertaintyRegressor(one, cv=2, random_state=0).fit(X, y)
    assert front.method_ == "recalibrated"
    assert configured_levels(one.fit(X, y)) == [0.3]
    other = MultiQuantileRegressor(lightgbm(**{alias: "l1"}), LEVELS).fit(X, y)
    reference = MultiQuantileRegressor(lightgbm(), LEVELS).fit(X, y)
    assert np.array_equal(other.predict_quantiles(X, LEVELS), reference.predict_quantiles(X, LEVELS))
