"""A mean model, a scale model and the residuals' own shape."""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq.distributions import Normal, Recalibrated
from skuq.regressors import BootstrapRegressor, ResidualRegressor
from skuq.regressors._scale_model import log_residuals, shrunk_scale_model
from tests.regressors.worlds import heteroscedastic_world, linear_world


def exponential_world(n, seed=0, noise=stats.norm):
    """Linear mean, log-linear scale: both models can be right."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 1))
    return X, 3 * X[:, 0] + 0.1 * np.exp(2 * X[:, 0]) * noise.rvs(size=n, random_state=seed)


PROBE = np.array([[0.1], [0.5], [0.9]])


def true_scale(X):
    return 0.1 * np.exp(2 * X[:, 0])


def test_mean_and_scale_are_found():
    X, y = exponential_world(4000)
    model = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y)
    dist = model.predict_dist(PROBE)
    assert np.allclose(dist.std(), true_scale(PROBE), rtol=0.07)
    assert np.allclose(dist.interval(0.9)[:, 1] - dist.median(), 1.645 * true_scale(PROBE), rtol=0.1)
    assert model.scale_model_.slope == pytest.approx(1, abs=0.1)
    assert np.array_equal(model.predict(PROBE), LinearRegression().fit(X, y).predict(PROBE))


def test_the_shape_is_that_of_the_residuals():
    skewed = stats.gamma(2, loc=-2)
    X, y = exponential_world(4000, noise=skewed)
    dist = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y).predict_dist(PROBE)
    assert isinstance(dist, Recalibrated)
    assert dist.has_density
    expected = 3 * PROBE + true_scale(PROBE)[:, np.newaxis] * skewed.ppf([0.02, 0.1, 0.5, 0.9, 0.98])
    error = dist.quantile([0.02, 0.1, 0.5, 0.9, 0.98]) - expected
    # a Gaussian shape would miss by 1.1 scales at 0.02 and by 0.9 at 0.98
    assert np.all(np.abs(error) < true_scale(PROBE)[:, np.newaxis] * [0.4, 0.4, 0.4, 0.4, 0.7])
    assert np.allclose(dist.std(), true_scale(PROBE) * skewed.std(), rtol=0.1)


def test_heavy_tails_are_kept():
    X, y = exponential_world(3000, noise=stats.t(4))
    heavy = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y)
    assert heavy.df_ <= 6
    far = heavy.predict_dist(PROBE).ppf(0.9999)
    gaussian = ResidualRegressor(LinearRegression(), shape="normal", random_state=0).fit(X, y)
    assert np.all(
        far - heavy.predict(PROBE)
        > 1.3 * (gaussian.predict_dist(PROBE).ppf(0.9999) - gaussian.predict(PROBE))
    )


def test_the_normal_shape():
    X, y = exponential_world(500)
    model = ResidualRegressor(LinearRegression(), shape="normal", random_state=0).fit(X, y)
    assert isinstance(model.predict_dist(PROBE), Normal)
    assert np.isinf(model.df_)


def test_memory_does_not_grow_with_the_calibration_rows():
    X, y = exponential_world(5000)
    dist = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y).predict_dist(X)
    assert dist.level_map.levels.size < 500


def test_the_mean_model_has_not_seen_its_residuals():
    X, y = heteroscedastic_world(200)
    tree = DecisionTreeRegressor(random_state=0)  # interpolates: its residuals on training rows are 0
    folds = KFold(4, shuffle=True, random_state=3)
    model = ResidualRegressor(tree, LinearRegression(), cv=folds)
    out_of_sample = model.fit_transform(X, y)
    out_of_fold = cross_val_predict(tree, X, y, cv=folds)
    assert np.allclose(out_of_sample.base.loc, out_of_fold)
    widths = np.diff(model.predict_interval(X), axis=1)
    assert np.median(widths) > 2 * np.quantile(np.abs(y - out_of_fold), 0.8)


def test_a_model_of_pure_noise_is_shrunk_to_one_scale():
    X, y = linear_world(400)
    model = ResidualRegressor(LinearRegression(), DecisionTreeRegressor(), random_state=0).fit(X, y)
    assert model.scale_model_.slope < 0.15
    scale = model.predict_dist(X).std()
    assert scale.max() < 1.5 * scale.min()


def test_without_shrinkage_differences_stay_as_predicted():
    X, y = exponential_world(400)
    forest = RandomForestRegressor(30, random_state=0)
    shrunk, plain = (
        ResidualRegressor(LinearRegression(), forest, shrink=shrink, random_state=0).fit(X, y)
        for shrink in (True, False)
    )
    assert shrunk.scale_model_.slope < 0.8
    assert plain.scale_model_.slope == 1.0
    predicted = plain.scale_model_.model.predict(X)
    assert np.ptp(np.log(plain.scale_model_.predict(X)) - predicted) < 1e-12
    assert np.ptp(np.log(plain.predict_dist(X).std())) > np.ptp(np.log(shrunk.predict_dist(X).std()))


def test_shrink_is_a_bool():
    X, y = linear_world(20)
    with pytest.raises(ValueError, match="`shrink` must be one of True, False, got 'yes'"):
        ResidualRegressor(LinearRegression(), shrink="yes").fit(X, y)


def test_shrinkage_by_hand():
    target = np.array([0.0, 1.0, 2.0, 3.0])
    predicted = np.array([0.0, 4.0, 4.0, 8.0])
    model = shrunk_scale_model(None, target, predicted, 2.0, None)
    slope, intercept = np.polyfit(predicted, target, 1)
    assert model.slope == pytest.approx(slope)
    assert np.allclose(model.from_logarithm(np.array([4.0])), 2 * np.exp(intercept + slope * 4))
    assert model.from_logarithm(np.array([1e9])) == pytest.approx(2 * np.exp(3.0))
    assert shrunk_scale_model(None, target, -predicted, 2.0, None).slope == 0
    assert shrunk_scale_model(None, target, predicted / 100, 2.0, None).slope == 1
    assert shrunk_scale_model(None, target, np.ones(4), 2.0, None).slope == 0
    assert shrunk_scale_model(None, target, -predicted, 2.0, None, shrink=False).slope == 1


def test_logarithms_have_no_units_and_no_infinities():
    target, unit = log_residuals(np.array([-2.0, 0.0, 4.0]))
    assert unit == 2.0
    assert np.allclose(target, np.log([1.0, 1e-3, 2.0]))
    scaled, _ = log_residuals(np.array([-2e6, 0.0, 4e6]))
    assert np.allclose(scaled, target)
    positive, small_unit = log_residuals(np.array([-2.0, 0.0, 4.0]), positive=True)
    assert positive.min() == pytest.approx(1.0)
    assert np.allclose(small_unit * np.exp(positive), 2 * np.exp(target))


@pytest.mark.parametrize(
    "cv",
    [
        TimeSeriesSplit(4),
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
        ShuffleSplit(1, random_state=0),
    ],
    ids=["time series", "repeated", "one split"],
)
def test_any_splitter_gives_the_residuals(cv):
    X, y = exponential_world(600)
    model = ResidualRegressor(Ridge(1e-6), cv=cv, random_state=0).fit(X, y)
    assert np.allclose(model.predict_dist(PROBE).std(), true_scale(PROBE), rtol=0.4)
    with pytest.raises(ValueError, match="exactly once"):
        ResidualRegressor(Ridge(), cv=cv, random_state=0).fit_transform(X, y)


def test_time_order_is_kept_in_the_scale_model_too():
    seen = []

    class Spy(LinearRegression):
        def fit(self, X, y):
            seen.append(np.asarray(X)[:, 0].astype(int))
            return super().fit(X, y)

        def predict(self, X):
            if len(X) < 60:
                assert seen[-1].max() < np.asarray(X)[:, 0].min()
            return super().predict(X)

    X = np.arange(60.0).reshape(-1, 1)
    y = np.random.default_rng(0).normal(size=60)
    ResidualRegressor(LinearRegression(), Spy(), cv=TimeSeriesSplit(4)).fit(X, y)
    assert len(seen) == 4  # three folds have earlier residuals to learn from, and the final model


def test_a_finished_model_is_left_alone():
    X, y = exponential_world(600)
    finished = GradientBoostingRegressor(random_state=0).fit(X[:300], y[:300])
    model = ResidualRegressor(FrozenEstimator(finished), LinearRegression(), random_state=0)
    model.fit(X[300:], y[300:])
    assert np.array_equal(model.predict(X), finished.predict(X))
    by_itself = ResidualRegressor(FrozenEstimator(finished), random_state=0).fit(X[300:], y[300:])
    assert isinstance(by_itself.scale_model_.model, GradientBoostingRegressor)
    assert by_itself.scale_model_.model is not finished


@pytest.mark.parametrize(
    "child",
    [
        PoissonRegressor(),
        HistGradientBoostingRegressor(loss="gamma", max_iter=4, learning_rate=0.5),
        TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp),
        make_pipeline(StandardScaler(), TransformedTargetRegressor(func=np.log, inverse_func=np.exp)),
    ],
    ids=["poisson", "gamma", "log", "log in a pipeline"],
)
def test_models_that_take_no_negative_target(child):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 2, size=(200, 1))
    y = np.exp(X[:, 0] + 0.2 * (1 + X[:, 0]) * rng.normal(size=200))
    for wrap in (
        ResidualRegressor,
        partial(BootstrapRegressor, n_estimators=10, noise="heteroscedastic"),
    ):
        std = wrap(child, random_state=0).fit(X, y).predict_dist([[0.2], [1.8]]).std()
        assert std[1] > 1.3 * std[0]  # a log link on logarithms is no good fit, but it is one


def test_weights_reach_both_models():
    X, y = exponential_world(300)
    weight = np.where(np.arange(300) < 150, 1.0, 0.0)
    model = ResidualRegressor(LinearRegression(), cv=KFold(3, shuffle=True, random_state=0))
    weighted = model.fit(X, y, sample_weight=weight)
    assert np.allclose(weighted.predict(PROBE), LinearRegression().fit(X[:150], y[:150]).predict(PROBE))
    outliers = np.where(weight > 0, y, y + 100)
    expected = weighted.predict_interval(PROBE)
    model.fit(X, outliers, sample_weight=weight)
    assert np.allclose(model.predict_interval(PROBE), expected)
    with pytest.raises(ValueError, match="`scale_estimator` KNeighborsRegressor takes none"):
        ResidualRegressor(LinearRegression(), KNeighborsRegressor()).fit(X, y, sample_weight=weight + 1)


def test_an_exact_model_is_a_point_mass():
    X = np.arange(20.0).reshape(-1, 1)
    model = ResidualRegressor(KNeighborsRegressor(1), cv=2).fit(np.zeros_like(X), np.full(20, 5.0))
    assert np.array_equal(model.predict_interval(X[:1]), [[5.0, 5.0]])
    assert np.array_equal(model.fit_transform(np.zeros_like(X), np.full(20, 5.0)).std(), np.zeros(20))


def test_bad_shape_and_cv():
    X, y = exponential_world(50)
    with pytest.raises(ValueError, match="`shape` must be one of 'empirical', 'normal'"):
        ResidualRegressor(LinearRegression(), shape="gamma").fit(X, y)
    with pytest.raises(ValueError, match="`cv` must be at least 2"):
        ResidualRegressor(LinearRegression(), cv=1).fit(X, y)
    with pytest.raises(TypeError, match="`cv` must be"):
        ResidualRegressor(LinearRegression(), cv="five").fit(X, y)


def test_a_seed_of_ones_own_is_kept():
    X, y = exponential_world(100)
    forest = RandomForestRegressor(5, random_state=11)
    model = ResidualRegressor(forest, random_state=0).fit(X, y)
    assert model.estimator_.random_state == 11
    assert (
        ResidualRegressor(RandomForestRegressor(5), random_state=0).fit(X, y).estimator_.random_state
        is not None
    )
    assert ResidualRegressor(RandomForestRegressor(5)).fit(X, y).estimator_.random_state is None
