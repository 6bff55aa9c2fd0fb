"""A mean model, a scale model and the residuals' own shape."""

from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq.distributions import Normal, Recalibrated, StudentT
from skuq.exceptions import FoldMismatchWarning, SmallSampleWarning
from skuq.metrics import crps_loss
from skuq.regressors import BootstrapRegressor, MultiQuantileRegressor, ResidualRegressor
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
    refit = model.set_params(location="refit").fit(X, y)
    assert np.array_equal(refit.predict(PROBE), LinearRegression().fit(X, y).predict(PROBE))


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
    assert np.isinf(model.df_)
    dist = model.predict_dist(PROBE)  # the predictive distribution of a normal error with an estimated scale
    assert isinstance(dist, StudentT)
    assert (dist.df == 497).all()
    assert isinstance(model.fit_transform(X, y), Normal)


def test_memory_does_not_grow_with_the_calibration_rows():
    X, y = exponential_world(5000)
    dist = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y).predict_dist(X)
    assert dist.level_map.levels.size < 500


def test_the_mean_model_has_not_seen_its_residuals():
    X, y = heteroscedastic_world(200)
    tree = DecisionTreeRegressor(random_state=0)  # interpolates: its residuals on training rows are 0
    folds = KFold(4, shuffle=True, random_state=3)
    model = ResidualRegressor(tree, LinearRegression(), cv=folds, shape="empirical")
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
    assert np.allclose(target, np.log([1.0, 0.02, 2.0]))
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


def test_a_finished_model_is_not_refitted():
    X, y = exponential_world(600)
    finished = GradientBoostingRegressor(random_state=0).fit(X[:300], y[:300])
    model = ResidualRegressor(FrozenEstimator(finished), LinearRegression(), random_state=0)
    model.fit(X[300:], y[300:])
    assert np.array_equal(model.predict(X), finished.predict(X))
    by_itself = ResidualRegressor(FrozenEstimator(finished), random_state=0).fit(X[300:], y[300:])
    assert np.array_equal(by_itself.predict(X), finished.predict(X))
    assert by_itself.scale_factor_ == 1.0
    assert by_itself.location_ == "refit"


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
    model = ResidualRegressor(LinearRegression(), cv=KFold(3, shuffle=True, random_state=0), location="refit")
    weighted = model.fit(X, y, sample_weight=weight)
    assert np.allclose(weighted.predict(PROBE), LinearRegression().fit(X[:150], y[:150]).predict(PROBE))
    outliers = np.where(weight > 0, y, y + 100)
    expected = weighted.predict_interval(PROBE)
    model.fit(X, outliers, sample_weight=weight)
    assert np.allclose(model.predict_interval(PROBE), expected)
    with pytest.raises(ValueError, match="`scale_estimator` KNeighborsRegressor does not accept weights"):
        ResidualRegressor(LinearRegression(), KNeighborsRegressor()).fit(X, y, sample_weight=weight + 1)


@pytest.mark.parametrize("shape", ["empirical", "normal"])
def test_relative_weights_raise(shape):
    X, y = exponential_world(60)
    with pytest.raises(ValueError, match="counts repetitions"):
        ResidualRegressor(Ridge(), shape=shape).fit(X, y, sample_weight=np.full(60, 1 / 60))


def test_an_exact_model_is_a_point_mass():
    X = np.arange(20.0).reshape(-1, 1)
    model = ResidualRegressor(KNeighborsRegressor(1), cv=2).fit(np.zeros_like(X), np.full(20, 5.0))
    assert np.array_equal(model.predict_interval(X[:1]), [[5.0, 5.0]])
    assert np.array_equal(model.fit_transform(np.zeros_like(X), np.full(20, 5.0)).std(), np.zeros(20))


def test_bad_shape_and_cv():
    X, y = exponential_world(50)
    with pytest.raises(
        ValueError, match="`shape` must be one of 'auto', 'conditional', 'empirical', 'normal'"
    ):
        ResidualRegressor(LinearRegression(), shape="gamma").fit(X, y)
    with pytest.raises(ValueError, match="`cv` must be at least 2"):
        ResidualRegressor(LinearRegression(), cv=1).fit(X, y)
    with pytest.raises(TypeError, match="`cv` must be"):
        ResidualRegressor(LinearRegression(), cv="five").fit(X, y)


@pytest.mark.parametrize("effort", ["low", "standard", "high"])
def test_two_rows_need_two_folds(effort):
    X, y = exponential_world(2)
    model = ResidualRegressor(Ridge(), effort=effort, random_state=0)
    with pytest.raises(
        ValueError, match=r"`X` must have at least one row per fold, got 2 rows for (3|5|10) folds"
    ):
        model.fit(X, y)
    with pytest.warns(SmallSampleWarning, match="at least 12 rows for calibration, got 2"):
        dist = model.set_params(cv=2).fit_transform(X, y)
    assert np.isfinite(dist.interval()).all()


def test_a_seed_of_ones_own_is_kept():
    X, y = exponential_world(100)
    forest = RandomForestRegressor(5, random_state=11)
    model = ResidualRegressor(forest, random_state=0).fit(X, y)
    assert [one.random_state for one in model.estimators_] == [11] * 5
    seeded = ResidualRegressor(RandomForestRegressor(5), random_state=0).fit(X, y)
    assert None not in [one.random_state for one in seeded.estimators_]
    unseeded = ResidualRegressor(RandomForestRegressor(5)).fit(X, y)
    assert unseeded.estimators_[0].random_state is None


class CountedTree(DecisionTreeRegressor):
    """Notes the number of rows of every fit."""

    rows: ClassVar[list[int]] = []

    def fit(self, X, y, sample_weight=None):
        self.rows.append(len(X))
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    ("location", "effort", "cv", "fits"),
    [
        ("folds", "low", None, 3.0),
        ("folds", "standard", None, 5.8),
        ("folds", "high", None, 11.4),
        ("folds", "standard", 4, 4.5),
        ("refit", "low", None, 4.0),
        ("refit", "standard", None, 6.8),
        ("refit", "high", None, 12.4),
    ],
)
def test_fits_by_rows(location, effort, cv, fits):
    X, y = exponential_world(300)
    CountedTree.rows.clear()
    tree = CountedTree(min_samples_leaf=10)
    ResidualRegressor(tree, effort=effort, location=location, cv=cv, random_state=0).fit(X, y)
    assert sum(CountedTree.rows) == pytest.approx(fits * 300, abs=15)


def test_effort_has_three_levels():
    X, y = exponential_world(30)
    with pytest.raises(ValueError, match="`effort` must be one of 'low', 'standard', 'high', got 'most'"):
        ResidualRegressor(Ridge(), effort="most").fit(X, y)
    with pytest.raises(ValueError, match="`location` must be one of 'auto', 'folds', 'refit', got 'mean'"):
        ResidualRegressor(Ridge(), location="mean").fit(X, y)
    with pytest.raises(ValueError, match="every row exactly once with `location` 'folds'"):
        ResidualRegressor(Ridge(), location="folds", cv=TimeSeriesSplit(3)).fit(X, y)


def test_the_mean_of_models_that_vary_is_better_than_one():
    """Fully grown trees in noise."""
    X, y = linear_world(300)
    X_new, y_new = linear_world(1000, seed=1)
    tree = DecisionTreeRegressor(random_state=0)
    folds, refit = (
        ResidualRegressor(tree, location=location, shape="empirical", random_state=0).fit(X, y)
        for location in ("folds", "refit")
    )
    assert np.allclose(
        folds.predict(X_new), np.mean([one.predict(X_new) for one in folds.estimators_], axis=0)
    )
    assert np.array_equal(refit.predict(X_new), tree.fit(X, y).predict(X_new))  # the model's own prediction
    assert len(folds.estimators_) == 5
    assert folds.scale_factor_ < 0.9
    crps = [one.predict_dist(X_new).crps(y_new).mean() for one in (folds, refit)]
    assert crps[0] < 0.9 * crps[1]
    lower, upper = folds.predict_interval(X_new).T
    assert 0.86 < np.mean((lower <= y_new) & (y_new <= upper)) < 0.95


def test_the_mean_of_equal_models_has_their_errors():
    X, y = exponential_world(200)
    constant = DummyRegressor(strategy="constant", constant=1.5)
    assert ResidualRegressor(constant, random_state=0).fit(X, y).scale_factor_ == 1.0


@pytest.mark.parametrize(("child", "tolerance"), [(KNeighborsRegressor(1), 0.05), (Ridge(), 0.01)])
@pytest.mark.parametrize(
    "n_folds", [3, pytest.param(5, marks=pytest.mark.laws), pytest.param(10, marks=pytest.mark.laws)]
)
def test_the_factor_is_the_gain_by_averaging(child, tolerance, n_folds):
    """Errors of the mean of the folds' models on new rows, relative to the errors of one of them."""
    ratios, factors = [], []
    for seed in range(4):
        X, y = heteroscedastic_world(500, seed=seed)
        X_new, y_new = heteroscedastic_world(2000, seed=100 + seed)
        model = ResidualRegressor(child, cv=n_folds, random_state=seed).fit(X, y)
        errors = y_new - np.array([one.predict(X_new) for one in model.estimators_])
        ratios.append(np.sqrt(np.mean(np.mean(errors, axis=0) ** 2) / np.mean(errors**2)))
        factors.append(model.scale_factor_)
    assert np.mean(factors) == pytest.approx(np.mean(ratios), abs=tolerance)


def test_the_location_is_chosen_by_its_errors():
    """Averaging pays in noise, and more rows pay where models interpolate."""
    X, y = linear_world(300)
    tree = DecisionTreeRegressor(random_state=0)
    assert ResidualRegressor(tree, random_state=0).fit(X, y).location_ == "folds"
    X = np.random.default_rng(0).uniform(size=(2000, 2))
    steps = np.round(5 * X[:, 0])
    assert ResidualRegressor(KNeighborsRegressor(1), random_state=0).fit(X, steps).location_ == "refit"


def test_many_folds_and_frozen_models_predict_with_one_model():
    X, y = exponential_world(60)
    assert ResidualRegressor(Ridge(), cv=21, random_state=0).fit(X, y).location_ == "refit"
    folds = ResidualRegressor(Ridge(), location="folds", cv=21, random_state=0).fit(X, y)
    assert len(folds.estimators_) == 21


class StopsEarlyOnMany(Ridge):
    """Learns nothing from more rows than a fold has, as boosting that stops at once."""

    def fit(self, X, y):
        super().fit(X, y)
        if len(y) == 200:
            self.coef_ = np.zeros_like(self.coef_)
        return self


def test_a_refit_that_is_not_like_the_folds_models_is_replaced():
    X, y = exponential_world(200)
    model = ResidualRegressor(StopsEarlyOnMany(1e-6), location="refit", random_state=0)
    with pytest.warns(
        FoldMismatchWarning, match="Therefore, the location is the mean of the models of the folds"
    ):
        model.fit(X, y)
    assert model.location_ == "folds"
    assert len(model.estimators_) == 5
    X_new, y_new = exponential_world(1000, seed=1)
    lower, upper = model.predict_interval(X_new).T
    assert 0.87 < np.mean((lower <= y_new) & (y_new <= upper)) < 0.93


def test_a_refit_in_time_order_can_only_be_warned_of():
    X, y = exponential_world(200)
    model = ResidualRegressor(StopsEarlyOnMany(1e-6), cv=TimeSeriesSplit(4), random_state=0)
    with pytest.warns(
        FoldMismatchWarning, match="With location='refit', new rows are predicted by the model"
    ):
        model.fit(X, y)
    assert model.location_ == "refit"


@pytest.mark.parametrize("exponent", [-27, pytest.param(27, marks=pytest.mark.laws)])
@pytest.mark.parametrize(
    "child",
    [
        HistGradientBoostingRegressor(early_stopping=True, max_iter=20, random_state=0),
        DecisionTreeRegressor(min_samples_leaf=5, random_state=0),
        GradientBoostingRegressor(n_iter_no_change=3, n_estimators=20, random_state=0),
        make_pipeline(StandardScaler(), DecisionTreeRegressor(min_samples_leaf=5, random_state=0)),
    ],
    ids=["boosting", "tree", "gradient boosting", "tree in a pipeline"],
)
def test_tolerances_of_trees_do_not_depend_on_units(child, exponent):
    """scikit-learn's trees alone would end at the root, and its boosting after some rounds."""
    X, y = exponential_world(300)
    for location in ("folds", "refit"):
        model = ResidualRegressor(child, location=location, random_state=0)
        expected = model.fit(X, y).predict_interval(PROBE)
        scaled = model.fit(X, np.ldexp(y, exponent)).predict_interval(PROBE)
        assert np.allclose(np.ldexp(scaled, -exponent), expected, rtol=1e-9)


def test_a_threshold_in_units_of_y_is_kept():
    X, y = exponential_world(300)
    tree = DecisionTreeRegressor(min_impurity_decrease=1e3)
    model = ResidualRegressor(tree, random_state=0).fit(X, y * 2.0**20)
    assert isinstance(model.estimators_[0], DecisionTreeRegressor)


def test_errors_of_a_refit_shrink_with_the_number_of_rows():
    """The nearest neighbor of a function without noise comes closer."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 2))
    y = np.sin(20 * X[:, 0]) + np.cos(20 * X[:, 1])
    model = ResidualRegressor(KNeighborsRegressor(1), location="refit", random_state=0).fit(X, y)
    assert 0.8 < model.scale_factor_ < 0.95
    X_new = rng.uniform(size=(4000, 2))
    error = np.abs(np.sin(20 * X_new[:, 0]) + np.cos(20 * X_new[:, 1]) - model.predict(X_new))
    out_of_fold = np.abs(y - cross_val_predict(KNeighborsRegressor(1), X, y, cv=KFold(5, shuffle=True)))
    ratio = np.exp(np.mean(np.log(error)) - np.mean(np.log(out_of_fold)))
    assert model.scale_factor_ == pytest.approx(ratio, abs=0.06)


def test_the_learning_curve_of_noise_is_flat():
    X, y = linear_world(400)
    factors = [
        ResidualRegressor(LinearRegression(), location="refit", random_state=seed).fit(X, y).scale_factor_
        for seed in range(5)
    ]
    assert min(factors) > 0.98


def mixed_frame(n):
    """Words, missing values, dates and numbers; the noise depends on the word."""
    rng = np.random.default_rng(0)
    word = rng.choice(["calm", "wild"], size=n)
    frame = pd.DataFrame(
        {
            "word": word,
            "number": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(size=n)),
            "whole": pd.array(rng.integers(0, 5, size=n), dtype="Int64"),
            "day": pd.date_range("2020-01-01", periods=n),
        }
    )
    frame.loc[3, "whole"] = pd.NA
    return frame, np.where(word == "wild", 2.0, 0.2) * rng.normal(size=n)


def test_the_scale_depends_on_words_and_missing_values_are_taken():
    X, y = mixed_frame(400)
    mean = DummyRegressor()
    model = ResidualRegressor(mean, random_state=0).fit(X, y)
    std = model.predict_dist(X).std()
    wild = X["word"].to_numpy() == "wild"
    assert std[wild].min() > 2 * std[~wild].max()
    new = X.assign(word="never before")
    assert np.isfinite(model.predict_dist(new).std()).all()


@pytest.mark.parametrize("form", ["sparse", "texts", "images"])
def test_without_columns_the_scale_depends_on_the_prediction(form):
    X, y = exponential_world(500)
    mean = FunctionTransformer(first_number)
    forms = {
        "sparse": (csr_array(X), Ridge(1e-6)),
        "texts": ([f"{x:.6f}" for x in X[:, 0]], make_pipeline(mean, LinearRegression())),
        "images": (
            np.broadcast_to(X[:, :, np.newaxis], (500, 2, 2)),
            make_pipeline(mean, LinearRegression()),
        ),
    }
    inputs, child = forms[form]
    std = ResidualRegressor(child, random_state=0).fit(inputs, y).predict_dist(inputs).std()
    assert np.corrcoef(std, true_scale(X))[0, 1] > 0.9


def first_number(X):
    """Return one column: the numbers that texts spell, or the first pixel."""
    if isinstance(X, list):
        return np.array([[float(text)] for text in X])
    return np.asarray(X)[:, 0, :1]


def test_a_precomputed_kernel_has_no_columns():
    X, y = exponential_world(200)
    kernel = X @ X.T + 1
    model = ResidualRegressor(KernelRidge(kernel="precomputed", alpha=1e-3), random_state=0).fit(kernel, y)
    std = model.predict_dist(kernel).std()
    assert np.corrcoef(std, true_scale(X))[0, 1] > 0.8


def test_both_parts_of_the_default_scale_model_are_used():
    X, y = exponential_world(2000)
    steps = np.where(X[:, 0] > 0.5, 2.0, 0.5)
    rng = np.random.default_rng(1)
    trend = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y)
    jump = ResidualRegressor(LinearRegression(), random_state=0).fit(
        X, X[:, 0] + steps * rng.normal(size=2000)
    )
    shares = [model.scale_model_.model.models[0].linear_share for model in (trend, jump)]
    assert shares[0] > 0.7
    assert shares[1] < 0.3


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_of_features_and_target_do_not_matter(unit):
    X, y = exponential_world(200)
    X = np.column_stack([X, np.full(200, np.nan)])
    mean = DummyRegressor()
    std = ResidualRegressor(mean, random_state=0).fit(X, y).predict_dist(X).std()
    scaled = ResidualRegressor(mean, random_state=0).fit(unit * X, unit * y).predict_dist(unit * X).std()
    assert np.allclose(scaled / unit, std)


def test_a_zero_inflated_target_is_better_forecast_than_by_the_points():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3600, 4))
    zero = rng.uniform(size=3600) < 0.6 + 0.3 * X[:, 1]
    y = np.where(zero, 0, rng.gamma(2, 1 + 2 * X[:, 0]))
    model = ResidualRegressor(KNeighborsRegressor(), random_state=0).fit(X[:600], y[:600])
    dist = model.predict_dist(X[600:])
    assert crps_loss(y[600:], dist) < 0.8 * mean_absolute_error(y[600:], model.predict(X[600:]))


@pytest.mark.laws
def test_where_many_targets_are_zero_quantiles_by_boosting_are_better_than_one_shape():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 3))
    positive = rng.uniform(size=2500) < expit(X[:, 0] - 1.3)
    y = np.where(positive, rng.gamma(2, np.exp(0.5 * X[:, 1])), 0)
    boosting = HistGradientBoostingRegressor(max_iter=30, random_state=0)
    one_shape, conditional = (
        ResidualRegressor(boosting, shape=shape, random_state=0)
        .fit(X[:1000], y[:1000])
        .predict_dist(X[1000:])
        for shape in ("empirical", "auto")
    )
    assert crps_loss(y[1000:], conditional) < 0.95 * crps_loss(y[1000:], one_shape)
    assert conditional.std().mean() < 0.75 * one_shape.std().mean()
    quantiles = MultiQuantileRegressor(boosting.set_params(loss="quantile", quantile=0.5), random_state=0)
    quantiles = quantiles.fit(X[:1000], y[:1000]).predict_dist(X[1000:])
    assert crps_loss(y[1000:], quantiles) < 0.95 * crps_loss(y[1000:], one_shape)
    assert quantiles.std().mean() < 0.6 * one_shape.std().mean()
