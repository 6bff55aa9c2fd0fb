"""The distribution of the out-of-fold errors of any regressor."""

import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import stats
from scipy.sparse import csr_array
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import BayesianRidge, LinearRegression, PoissonRegressor, Ridge
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq.exceptions import FoldMismatchWarning, SmallSampleWarning
from skuq.metrics import crps_loss
from skuq.regressors import ForestDistributionRegressor, ResidualRegressor, UncertaintyRegressor
from skuq.regressors import _error_forest as error_forest
from skuq.regressors import _residual as residual
from tests.regressors.worlds import heteroscedastic_world, linear_world

PROBE = np.array([[0.1], [0.5], [0.9]])
LEVELS = np.array([0.5, 0.8, 0.9, 0.95])
each_center = pytest.mark.parametrize("center", ["mean", "model"])


def exponential_world(n, seed=0, noise=stats.norm):
    """Linear mean, log-linear scale of the noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(n, 1))
    return X, 3 * X[:, 0] + true_scale(X) * noise.rvs(size=n, random_state=seed)


def outlier_world(n, seed=0):
    """Linear mean, small noise and far outliers: above where the second column is positive, else below."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    outlier = rng.exponential(size=n) * (rng.random(n) < 0.4)
    return X, X[:, 0] + 0.1 * rng.normal(size=n) + np.where(X[:, 1] > 0, outlier, -outlier)


def true_scale(X):
    return 0.1 * np.exp(2 * X[:, 0])


def coverage(dist, y):
    bounds = dist.interval(LEVELS)
    return np.mean((bounds[:, 0] <= y[:, np.newaxis]) & (y[:, np.newaxis] <= bounds[:, 1]), axis=0)


# ------------------------------------------------------------------------------------------ the distribution


@each_center
def test_the_scale_of_the_errors_depends_on_x(center):
    X, y = exponential_world(1000)
    dist = ResidualRegressor(LinearRegression(), center=center, random_state=0).fit(X, y).predict_dist(PROBE)
    assert np.allclose(dist.std(), true_scale(PROBE), rtol=0.3)
    assert np.allclose(dist.mean(), 3 * PROBE[:, 0], atol=0.1)


def test_the_shape_of_the_errors_depends_on_x():
    X, y = outlier_world(800)
    model = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y)
    low, high = model.predict_dist([[0, -0.5, 0], [0, 0.5, 0]]).interval(0.9)
    assert -low[0] > 1.5 * low[1]
    assert high[1] > -1.5 * high[0]


def test_the_mean_of_a_biased_model_is_corrected():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(1500, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=1500)
    model = ResidualRegressor(LinearRegression(), random_state=0).fit(X[:500], y[:500])
    plain = LinearRegression().fit(X[:500], y[:500])
    errors = [np.std(y[500:] - one.predict(X[500:])) for one in (model, plain)]
    assert errors[0] < 0.5 * errors[1]


def test_a_target_with_many_zeros_is_forecast_better_than_by_points():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2600, 4))
    zero = rng.uniform(size=2600) < 0.6 + 0.3 * X[:, 1]
    y = np.where(zero, 0, rng.gamma(2, 1 + 2 * X[:, 0]))
    model = ResidualRegressor(KNeighborsRegressor(), random_state=0).fit(X[:600], y[:600])
    points = model.estimators_[0].predict(X[600:])
    assert crps_loss(y[600:], model.predict_dist(X[600:])) < 0.8 * mean_absolute_error(y[600:], points)


def test_heavy_tails_are_kept():
    ratios = []
    for noise in (stats.t(2.5), stats.norm):
        model = ResidualRegressor(LinearRegression(), random_state=0)
        dist = model.fit(*exponential_world(1000, noise=noise)).predict_dist(PROBE)
        ratios.append(np.ptp(dist.interval(0.995), axis=1) / np.ptp(dist.interval(0.5), axis=1))
    assert (ratios[0] > 1.3 * ratios[1]).all()


@each_center
def test_the_prediction_is_the_mean_of_the_distribution(center):
    X, y = outlier_world(200)
    tree = DecisionTreeRegressor(min_samples_leaf=5)
    model = ResidualRegressor(tree, center=center, random_state=0).fit(X, y)
    dist = model.predict_dist(X)
    assert np.allclose(model.predict(X), dist.mean(), atol=1e-12)
    points, std = model.predict(X, return_std=True)
    assert np.allclose(points, dist.mean(), atol=1e-12)
    assert np.array_equal(std, dist.std())


@pytest.mark.parametrize("support", [None, "positive"])
@pytest.mark.parametrize(
    ("method", "estimator"),
    [
        ("residual", Ridge()),
        ("forest", RandomForestRegressor(20, random_state=0)),
        ("bootstrap", Ridge()),
        ("native", BayesianRidge()),
        ("recalibrated", BayesianRidge()),
    ],
)
def test_the_front_door_predicts_the_mean(method, estimator, support):
    X, y = outlier_world(60)
    model = UncertaintyRegressor(estimator, method, support=support, random_state=0).fit(X, np.maximum(y, 0))
    mean = model.predict_dist(X).mean()
    assert np.allclose(model.predict(X), mean, atol=1e-9)
    assert np.allclose(model.predict(X, return_std=True)[0], mean, atol=1e-9)


def test_the_forest_regressor_predicts_the_mean():
    X, y = outlier_world(100)
    model = ForestDistributionRegressor(RandomForestRegressor(20, random_state=0), random_state=0).fit(X, y)
    assert np.allclose(model.predict(X), model.predict_dist(X).mean())


def test_conformal_regressors_keep_the_prediction_of_the_model():
    X, y = outlier_world(100)
    model = UncertaintyRegressor(Ridge(), "conformal", random_state=0).fit(X, y)
    assert np.array_equal(model.predict(X), model.estimator_.estimator_.predict(X))
    lower, upper = model.predict_interval(X, 0.5).T
    assert ((lower <= model.predict(X)) & (model.predict(X) <= upper)).all()


# ------------------------------------------------------------------------------------------- out-of-bag rows


def test_out_of_bag_forecasts_are_those_of_rows_that_no_step_has_seen():
    X, y = outlier_world(600)
    X_new, y_new = outlier_world(3000, seed=1)
    model = ResidualRegressor(DecisionTreeRegressor(random_state=0), random_state=0)
    out_of_bag = model.fit_transform(X, y)
    assert coverage(out_of_bag, y) == pytest.approx(LEVELS, abs=0.02)
    new = crps_loss(y_new, model.predict_dist(X_new))
    assert crps_loss(y, out_of_bag) > 0.97 * new  # the mean of five models is more accurate
    assert crps_loss(y, model.predict_dist(X)) < 0.9 * new  # the trees have seen these rows


def test_out_of_bag_forecasts_are_in_row_order(monkeypatch):
    X, y = outlier_world(300)
    X[::5, 0] += 100
    y[::5] += 100
    for most in (10_000, 100):  # rows outside the sample are forecast by all trees
        monkeypatch.setattr(residual, "MOST_ROWS", most)
        dist = ResidualRegressor(LinearRegression(), random_state=0).fit_transform(X, y)
        assert len(dist) == 300
        assert np.corrcoef(dist.median(), y)[0, 1] > 0.99
        assert coverage(dist, y)[2] == pytest.approx(0.9, abs=0.05)


# ------------------------------------------------------------------------------------------------ the models


class CountedTree(DecisionTreeRegressor):
    """Notes the number of rows of every fit."""

    rows: ClassVar[list[int]] = []

    def fit(self, X, y, sample_weight=None):
        self.rows.append(len(X))
        return super().fit(X, y, sample_weight)


def test_fits_by_rows(subtests):
    X, y = exponential_world(200)
    for options, fits in [
        ({"effort": "low"}, 1.75),
        ({}, 3.75),
        ({"effort": "high"}, 8.75),
        ({"cv": 4}, 2.75),
        ({"center": "model"}, 5.0),
        ({"cv": TimeSeriesSplit(4)}, 3.0),
    ]:
        with subtests.test(msg=str(options)):
            CountedTree.rows.clear()
            ResidualRegressor(CountedTree(min_samples_leaf=10), **options, random_state=0).fit(X, y)
            assert sum(CountedTree.rows) == pytest.approx(fits * 200, abs=10)


def test_center_model_keeps_the_model():
    X, y = outlier_world(300)
    model = ResidualRegressor(Ridge(), center="model", random_state=0).fit(X, y)
    own = Ridge().fit(X, y).predict(X)
    assert len(model.estimators_) == 1
    assert np.allclose(model.predict(X), own, atol=1e-12)
    assert np.allclose(model.predict_dist(X).quantile([0.1, 0.9]).mean(axis=1), own, atol=1e-12)
    assert model.narrowing_ == 1.0


class StopsEarlyOnMany(Ridge):
    """Learns nothing from more rows than a fold has, as boosting that stops at once."""

    def fit(self, X, y):
        super().fit(X, y)
        if len(y) == 200:
            self.coef_ = np.zeros_like(self.coef_)
        return self


def test_a_model_that_is_not_like_the_folds_models_is_replaced():
    X, y = exponential_world(200)
    model = ResidualRegressor(StopsEarlyOnMany(1e-6), center="model", random_state=0)
    with pytest.warns(FoldMismatchWarning, match="Therefore, the center is the mean of the models"):
        model.fit(X, y)
    assert len(model.estimators_) == 5
    X_new, y_new = exponential_world(1000, seed=1)
    assert 0.85 < coverage(model.predict_dist(X_new), y_new)[2] < 0.95


def test_a_refit_in_time_order_can_only_be_warned_of():
    X, y = exponential_world(200)
    model = ResidualRegressor(StopsEarlyOnMany(1e-6), cv=TimeSeriesSplit(4), random_state=0)
    with pytest.warns(FoldMismatchWarning, match="New rows are predicted by the model fitted to all rows"):
        model.fit(X, y)
    assert len(model.estimators_) == 1


@pytest.mark.parametrize(
    "cv",
    [
        TimeSeriesSplit(4),
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
        ShuffleSplit(1, test_size=0.5, random_state=0),
    ],
    ids=["time series", "repeated", "one split"],
)
def test_any_splitter_gives_the_errors(cv):
    X, y = exponential_world(600)
    model = ResidualRegressor(Ridge(1e-6), cv=cv, random_state=0).fit(X, y)
    assert len(model.estimators_) == 1
    assert model.narrowing_ == 1.0
    low, middle, high = model.predict_dist(PROBE).std()
    assert low < 1.2 * middle < 0.9 * high
    with pytest.raises(ValueError, match="exactly once"):
        ResidualRegressor(Ridge(), cv=cv, random_state=0).fit_transform(X, y)


def test_many_folds_and_frozen_models_predict_with_one_model():
    X, y = exponential_world(60)
    model = ResidualRegressor(Ridge(), cv=21, random_state=0).fit(X, y)
    assert len(model.estimators_) == 1
    finished = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(X[:30], y[:30])
    for center in ("mean", "model"):
        model = ResidualRegressor(FrozenEstimator(finished), center=center, random_state=0)
        model.fit(X[30:], y[30:])
        assert len(model.estimators_) == 1
        assert model.narrowing_ == 1.0
    assert np.allclose(model.predict(X), finished.predict(X), atol=1e-12)


def test_a_model_that_fails_on_a_fold_names_the_fold():
    class Fails(LinearRegression):
        def fit(self, X, y):
            if 0.0 not in X:
                raise RuntimeError("no row 0")
            return super().fit(X, y)

    X = np.arange(60.0).reshape(-1, 1)
    with pytest.raises(RuntimeError, match="no row 0") as caught:
        ResidualRegressor(Fails(), cv=KFold(3)).fit(X, X[:, 0])
    assert caught.value.__notes__ == ["Raised in fold 1 of 3."]


def test_a_seed_of_ones_own_is_kept():
    X, y = exponential_world(60)
    model = ResidualRegressor(RandomForestRegressor(3, random_state=11), random_state=0).fit(X, y)
    assert [one.random_state for one in model.estimators_] == [11] * 5
    seeded = ResidualRegressor(RandomForestRegressor(3), random_state=0).fit(X, y)
    assert None not in [one.random_state for one in seeded.estimators_]
    unseeded = ResidualRegressor(RandomForestRegressor(3)).fit(X, y)
    assert unseeded.estimators_[0].random_state is None


# ------------------------------------------------------------------------------------- the narrowing factor


def test_equal_models_gain_nothing_by_averaging():
    X, y = exponential_world(200)
    constant = DummyRegressor(strategy="constant", constant=1.5)
    assert ResidualRegressor(constant, random_state=0).fit(X, y)._errors.variance_share == 0.0


def test_models_that_vary_are_narrowed_but_not_below_the_limit():
    X, y = linear_world(300)
    tree = ResidualRegressor(DecisionTreeRegressor(random_state=0), random_state=0).fit(X, y)
    linear = ResidualRegressor(LinearRegression(), random_state=0).fit(X, y)
    assert 0.8 <= tree.narrowing_ < 0.95
    assert linear.narrowing_ > 0.95


def test_the_variance_share_by_hand():
    rng = np.random.default_rng(0)
    common = rng.normal(size=20_000)
    pair = [(common + 0.5 * rng.normal(size=20_000)) / 1.25**0.5 for _ in range(2)]
    share = error_forest.variance_share(*pair, np.ones(20_000), np.arange(20_000))
    assert share == pytest.approx(0.2, abs=0.01)
    few = error_forest.variance_share(*(one[:40] for one in pair), np.ones(40), np.arange(40))
    copies = [np.tile(one[:40], 9) for one in pair]
    more, grouped = (
        error_forest.variance_share(*copies, np.ones(360), group)
        for group in (np.arange(360), np.tile(np.arange(40), 9))
    )
    assert few < more
    assert grouped == pytest.approx(few)  # copies within a group are not more certain
    assert error_forest.variance_share(np.zeros(5), np.zeros(5), np.ones(5), np.arange(5)) == 0.0


def test_a_ratio_is_shrunk_by_its_standard_error():
    group = np.arange(4)
    ratio = error_forest.shrunk_ratio(np.array([1.0, 3.0, 1.0, 3.0]), np.full(4, 4.0), group)
    assert ratio == pytest.approx(0.5 - (2 / 16) ** 2 / 0.5)
    assert error_forest.shrunk_ratio(np.array([-2.0, 2.1, 0.0, 0.0]), np.ones(4), group) == 0.0


def test_whole_groups_are_left_out_twice():
    groups = np.repeat(np.arange(100), 3)
    tests = np.array_split(np.arange(300), 5)
    extra = residual.rows_left_out_twice(tests, groups, np.random.RandomState(0))
    for k, rows in enumerate(extra):
        assert np.isin(rows, tests[(k + 1) % 5]).all()
        assert (np.bincount(groups[rows])[np.unique(groups[rows])] == 3).all()
        assert len(np.unique(groups[rows])) == 5


def test_rows_of_one_group_do_not_show_the_errors_of_their_group():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(80), 8)
    X = rng.normal(size=(80, 3))[group]  # rows of one group are equal
    y = X[:, 0] + rng.normal(size=80)[group] + 0.1 * rng.normal(size=640)
    widths = []
    for cv, params in ((5, {}), (GroupKFold(5), {"groups": group})):
        dist = ResidualRegressor(LinearRegression(), cv=cv, random_state=0).fit_transform(X, y, **params)
        widths.append(np.mean(np.ptp(dist.interval(0.5), axis=1)))
    assert widths[0] < 0.5 * widths[1]


# ----------------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize("unit", [1e-6, 1e6, 1e-90, 1e90])
def test_units_of_features_and_target_do_not_matter(unit):
    X, y = exponential_world(100)
    X = np.column_stack([X, np.full(100, np.nan)])
    std, scaled = (
        ResidualRegressor(DummyRegressor(), random_state=0)
        .fit(size * X, size * y)
        .predict_dist(size * X)
        .std()
        for size in (1.0, unit)
    )
    assert np.allclose(scaled / unit, std)


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
def test_tolerances_of_models_do_not_depend_on_units(child):
    """scikit-learn's trees alone would end at the root, and its boosting after some rounds."""
    X, y = exponential_world(120)
    model = ResidualRegressor(child, random_state=0)
    expected = model.fit(X, y).predict_interval(PROBE)
    for exponent in (-27, 27):
        scaled = model.fit(X, np.ldexp(y, exponent)).predict_interval(PROBE)
        assert np.allclose(np.ldexp(scaled, -exponent), expected, rtol=1e-9)


def test_a_threshold_in_units_of_y_is_kept():
    X, y = exponential_world(50)
    tree = DecisionTreeRegressor(min_impurity_decrease=1e3)
    model = ResidualRegressor(tree, random_state=0).fit(X, y * 2.0**20)
    assert isinstance(model.estimators_[0], DecisionTreeRegressor)


# --------------------------------------------------------------------------------------------------- weights


def test_rows_of_weight_zero_never_count():
    X, y = exponential_world(200)
    weight = np.where(np.arange(200) % 2, 2.0, 0.0)
    model = ResidualRegressor(LinearRegression(), random_state=0)
    expected = model.fit(X, y, sample_weight=weight).predict_interval(PROBE)
    outliers = np.where(weight > 0, y, y + 100)
    assert np.array_equal(model.fit(X, outliers, sample_weight=weight).predict_interval(PROBE), expected)
    assert np.isfinite(model.fit_transform(X, y, sample_weight=weight).std()).all()


def test_weights_count_as_repetitions():
    """Noise with a scale of 1 in two thirds of the repeated rows, else of 3."""
    rng = np.random.default_rng(0)
    wide = rng.random(1000) < 0.5
    X, y = np.zeros((1000, 1)), np.where(wide, 3.0, 1.0) * rng.normal(size=1000)
    model = ResidualRegressor(LinearRegression(), random_state=0)
    dist = model.fit(X, y, sample_weight=np.where(wide, 1.0, 2.0)).predict_dist(X[:1])
    truth = stats.norm(0, [1, 3]).cdf(dist.interval(0.9)[0, 1]) @ [2 / 3, 1 / 3]
    assert truth == pytest.approx(0.95, abs=0.015)


def test_relative_weights_raise():
    X, y = exponential_world(60)
    with pytest.raises(ValueError, match="counts repetitions"):
        ResidualRegressor(Ridge()).fit(X, y, sample_weight=np.full(60, 1 / 60))


# --------------------------------------------------------------------------------------------- kinds of data


def test_values_that_only_new_rows_have_count_as_the_most_frequent_value():
    rng = np.random.default_rng(0)
    words = rng.choice(["a", "b", "c"], 300, p=[0.2, 0.6, 0.2])
    X = pd.DataFrame({"word": words, "number": np.where(words == "b", 1.0, rng.uniform(size=300))})
    y = rng.normal(size=300) * np.where(words == "b", 0.1, 2.0)
    model = ResidualRegressor(DummyRegressor(), random_state=0).fit(X, y)
    new = pd.DataFrame({"word": ["b", "zebra", None, "b"], "number": [1.0, 1.0, 1.0, np.nan]})
    std = model.predict_dist(new).std()
    np.testing.assert_array_equal(std, std[0])
    assert std[0] < 0.5 * model.predict_dist(X[words != "b"]).std().mean()


def test_words_missing_values_and_dates_are_features():
    rng = np.random.default_rng(0)
    word = rng.choice(["calm", "wild"], size=300)
    X = pd.DataFrame(
        {
            "word": word,
            "number": np.where(rng.uniform(size=300) < 0.1, np.nan, rng.normal(size=300)),
            "whole": pd.array(rng.integers(0, 5, size=300), dtype="Int64"),
            "day": pd.date_range("2020-01-01", periods=300),
        }
    )
    X.loc[3, "whole"] = pd.NA
    y = np.where(word == "wild", 2.0, 0.2) * rng.normal(size=300)
    model = ResidualRegressor(DummyRegressor(), random_state=0).fit(X, y)
    std = model.predict_dist(X).std()
    assert np.median(std[word == "wild"]) > 2 * np.median(std[word == "calm"])
    assert np.isfinite(model.predict_dist(X.assign(word="never before")).std()).all()


@each_center
@pytest.mark.parametrize("form", ["sparse", "texts", "images", "kernel"])
def test_without_columns_the_scale_depends_on_the_prediction(form, center):
    X, y = exponential_world(300)
    first = make_pipeline(FunctionTransformer(first_number), LinearRegression())
    inputs, child = {
        "sparse": (csr_array(X), Ridge(1e-6)),
        "texts": ([f"{x:.6f}" for x in X[:, 0]], first),
        "images": (np.broadcast_to(X[:, :, np.newaxis], (300, 2, 2)), first),
        "kernel": (X @ X.T + 1, KernelRidge(kernel="precomputed", alpha=1e-3)),
    }[form]
    std = ResidualRegressor(child, center=center, random_state=0).fit(inputs, y).predict_dist(inputs).std()
    assert np.corrcoef(std, true_scale(X))[0, 1] > 0.8


def first_number(X):
    """Return one column: the numbers that texts spell, or the first pixel."""
    if isinstance(X, list):
        return np.array([[float(text)] for text in X])
    return np.asarray(X)[:, 0, :1]


@pytest.mark.parametrize(
    "child",
    [PoissonRegressor(), TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp)],
    ids=["poisson", "log"],
)
def test_models_of_positive_targets_get_the_target(child):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 2, size=(200, 1))
    y = np.exp(X[:, 0] + 0.2 * (1 + X[:, 0]) * rng.normal(size=200))
    std = ResidualRegressor(child, random_state=0).fit(X, y).predict_dist([[0.2], [1.8]]).std()
    assert std[1] > 1.3 * std[0]


@each_center
def test_an_exact_model_is_a_point_mass(center):
    X, y = np.zeros((50, 1)), np.full(50, 5.0)
    model = ResidualRegressor(KNeighborsRegressor(1), center=center).fit(X, y)
    assert np.array_equal(model.predict_interval(X[:1]), [[5.0, 5.0]])
    assert np.array_equal(model.fit_transform(X, y).std(), np.zeros(50))


def test_duplicated_rows_give_finite_forecasts():
    X, y = exponential_world(60)
    X, y = np.tile(X, (3, 1)), np.tile(y, 3)
    for center in ("mean", "model"):
        model = ResidualRegressor(KNeighborsRegressor(1), center=center, random_state=0).fit(X, y)
        assert np.isfinite(model.predict_dist(X).std()).all()


# ---------------------------------------------------------------------------------------------- reproducible


@each_center
def test_results_are_pickled_and_the_same_for_any_number_of_jobs(center):
    X, y = outlier_world(120)
    X[::7, 2] = np.nan
    boosting = HistGradientBoostingRegressor(max_iter=5)
    with parallel_config(backend="threading"):
        one, two = (
            ResidualRegressor(boosting, center=center, n_jobs=jobs, random_state=0).fit(X, y)
            for jobs in (1, 2)
        )
    expected = one.predict_dist(X).values
    assert np.array_equal(two.predict_dist(X).values, expected)
    assert np.array_equal(pickle.loads(pickle.dumps(one)).predict_dist(X).values, expected)
    assert np.allclose(one.predict_dist(X[5:6]).values, expected[5:6], rtol=1e-12)


def test_batches_do_not_matter(monkeypatch):
    X, y = outlier_world(100)
    model = ResidualRegressor(DecisionTreeRegressor(random_state=0), random_state=0).fit(X, y)
    expected = model.predict_dist(X).values
    monkeypatch.setattr(error_forest, "_BLOCK", 7)
    assert np.array_equal(model.predict_dist(X).values, expected)


# ------------------------------------------------------------------------------------------ few rows, errors


@pytest.mark.parametrize("n", [12, 25, 39])
def test_few_rows_have_the_same_distribution_of_errors(n):
    model = ResidualRegressor(LinearRegression(), random_state=0).fit(*outlier_world(n))
    assert np.ptp(model.predict_dist(outlier_world(20)[0]).std()) < 1e-9
    assert model.narrowing_ == 1.0


@pytest.mark.parametrize(("effort", "folds"), [("low", 3), ("standard", 5), ("high", 10)])
def test_two_rows_need_two_folds(effort, folds):
    X, y = exponential_world(2)
    model = ResidualRegressor(Ridge(), effort=effort, random_state=0)
    with pytest.raises(ValueError, match=f"at least one row per fold, got 2 rows for {folds} folds"):
        model.fit(X, y)
    with pytest.warns(SmallSampleWarning, match="at least 12 rows for calibration, got 2"):
        dist = model.set_params(cv=2).fit_transform(X, y)
    assert np.isfinite(dist.interval()).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"center": "median"}, ValueError, "`center` must be one of 'mean', 'model', got 'median'"),
        ({"effort": "most"}, ValueError, "`effort` must be one of 'low', 'standard', 'high', got 'most'"),
        ({"cv": 1}, ValueError, "`cv` must be at least 2"),
        ({"cv": "five"}, TypeError, "`cv` must be"),
    ],
)
def test_bad_options(options, error, message):
    X, y = exponential_world(30)
    with pytest.raises(error, match=message):
        ResidualRegressor(LinearRegression(), **options).fit(X, y)


def test_bins_are_numbered_by_rank():
    assert np.array_equal(error_forest.bin_edges(np.array([3.0, 1.0, 1.0, 2.0])), [1.5, 2.5])
    many = error_forest.bin_edges(np.random.default_rng(0).exponential(size=5000))
    assert len(many) == 254
    assert (np.diff(many) > 0).all()
    assert len(error_forest.bin_edges(np.array([]))) == 0


# ------------------------------------------------------------------------------------------ coverage studies


@pytest.mark.laws
@each_center
@pytest.mark.parametrize(
    "child",
    [
        LinearRegression(),
        KNeighborsRegressor(),
        DecisionTreeRegressor(random_state=0),
        AdaBoostRegressor(n_estimators=20, random_state=0),
        HistGradientBoostingRegressor(max_iter=50),
    ],
    ids=["linear", "neighbors", "tree", "AdaBoost", "boosting"],
)
def test_coverage_on_new_rows(child, center):
    X_new, y_new = heteroscedastic_world(3000, seed=99)
    coverages = [
        coverage(
            ResidualRegressor(child, center=center, random_state=seed)
            .fit(*heteroscedastic_world(500, seed))
            .predict_dist(X_new),
            y_new,
        )
        for seed in range(6)
    ]
    assert np.mean(coverages, axis=0) == pytest.approx(LEVELS, abs=0.03)


@pytest.mark.laws
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "child",
    [MLPRegressor(hidden_layer_sizes=(30,), max_iter=60), DecisionTreeRegressor(), KNeighborsRegressor(1)],
    ids=["unscaled network", "tree", "nearest neighbor"],
)
def test_models_that_differ_wildly_between_folds_are_not_too_narrow(child):
    """Unscaled columns, and no noise."""
    covered = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(1500, 4)) * [1, 100, 10, 1000]
        y = np.sin(6 * X[:, 0]) * X[:, 1] / 100 + X[:, 3] / 500
        model = ResidualRegressor(child, random_state=seed).fit(X[:500], y[:500])
        covered.append(coverage(model.predict_dist(X[500:]), y[500:])[2])
    assert 0.86 < np.mean(covered) < 0.96
    assert min(covered) > 0.8


@pytest.mark.laws
@pytest.mark.parametrize("n", [10_000, 40_000])
def test_many_rows_are_covered_and_stored_in_little_memory(n):
    X_new, y_new = heteroscedastic_world(10_000, seed=99)
    model = ResidualRegressor(Ridge(), random_state=0).fit(*heteroscedastic_world(n))
    assert coverage(model.predict_dist(X_new), y_new)[2] == pytest.approx(0.9, abs=0.015)
    assert len(pickle.dumps(model)) < 10_000_000
