"""Conformal regressors with one model: the numbers, the laws, the errors, and the numbers of peers."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit, ShuffleSplit, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq.conformal import ConformalRecalibrator, ConformalRegressor, CrossConformalRegressor
from skuq.distributions import Normal, Quantiles
from skuq.distributions._conformal_predictive import ConformalPredictive
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.metrics import get_scorer
from skuq.prediction import predict_dist
from skuq.regressors import (
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from tests.conformal.split_models import COVERAGES, QUANTILES, SPLIT
from tests.regressors.worlds import linear_world


def kth_smallest(scores, coverage):
    rank = int(np.ceil((len(scores) + 1) * coverage - 1e-9))
    return np.sort(scores)[rank - 1] if rank <= len(scores) else np.inf


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", SPLIT)
def test_bounds_are_order_statistics_of_scores(finished, method, symmetric):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method, symmetric=symmetric).fit(X, y)
    together = regressor.predict_interval(X_new, COVERAGES)
    assert together.shape == (len(X_new), 2, len(COVERAGES))
    for column, coverage in enumerate(COVERAGES):
        if method == "cqr":
            bounds = [predict_dist(model, rows).interval(coverage).T for rows in (X, X_new)]
        else:
            point = model.predict if method == "split" else lambda rows: predict_dist(model, rows).mean()
            bounds = [(point(rows), point(rows)) for rows in (X, X_new)]
        scale, new_scale = (
            predict_dist(model, rows).std() if method == "normalized" else np.ones(len(rows))
            for rows in (X, X_new)
        )
        (low, high), (new_low, new_high) = bounds
        below, above = (low - y) / scale, (y - high) / scale
        if symmetric:
            reach_low = reach_high = kth_smallest(np.maximum(below, above), coverage)
        else:
            reach_low, reach_high = (kth_smallest(part, (1 + coverage) / 2) for part in (below, above))
        wanted = np.column_stack([new_low - new_scale * reach_low, new_high + new_scale * reach_high])
        assert (wanted[:, 0] <= wanted[:, 1]).all()
        assert np.allclose(regressor.predict_interval(X_new, coverage), wanted, rtol=1e-12, atol=1e-12)
        assert np.array_equal(together[:, :, column], regressor.predict_interval(X_new, coverage))


def test_an_unfrozen_model_sees_only_the_training_rows():
    X, y = linear_world(100)
    model = ConformalRegressor(Ridge(), held_out_size=0.3, random_state=0).fit(X, y)
    rows = model.calibration_rows_
    assert model.n_calibration_ == len(rows) == 30
    assert (np.diff(rows) > 0).all()
    plain = Ridge().fit(np.delete(X, rows, axis=0), np.delete(y, rows))
    assert np.array_equal(model.predict(X), plain.predict(X))
    held_out = ConformalRegressor(FrozenEstimator(plain)).fit(X[rows], y[rows])
    assert np.array_equal(held_out.predict_interval(X), model.predict_interval(X))
    assert np.array_equal(held_out.calibration_rows_, np.arange(30))
    other = ConformalRegressor(Ridge(), held_out_size=0.3, random_state=4).fit(X, y)
    assert not np.array_equal(other.calibration_rows_, rows)
    for n, size, expected in ((100, 0.001, 1), (100, 0.999, 99), (100, np.int64(7), 7), (2, 0.25, 1)):
        model.set_params(held_out_size=size).fit(X[:n], y[:n])
        assert model.n_calibration_ == expected


def test_crossing_bounds_become_a_point():
    """The calibration rows lie so well inside the predicted interval that it shrinks to nothing."""
    X = np.zeros((50, 1))
    wide = FrozenEstimator(MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.1, 0.9]))
    wide.estimator.fit(np.zeros((40, 1)), np.linspace(-10, 10, 40))
    y = 6 + 0.1 * np.random.default_rng(0).normal(size=50)
    for symmetric in (True, False):
        bounds = ConformalRegressor(wide, "cqr", symmetric=symmetric).fit(X, y).predict_interval(X[:2], 0.8)
        assert (bounds[:, 0] <= bounds[:, 1]).all()
    centered = ConformalRegressor(wide, "cqr").fit(X, np.zeros(50)).predict_interval(X[:1], 0.8)
    assert centered == pytest.approx(np.zeros((1, 2)), abs=1e-12)


def test_rounding_takes_no_ties_out_of_the_interval_where_scores_exceed_the_targets():
    """A step of one rounding of y would be lost beside a score that is larger than y and its prediction."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = np.round(rng.normal(size=4), 2)[rng.integers(0, 4, size=80)]
        model = FrozenEstimator(DummyRegressor(strategy="constant", constant=0.72).fit(y[:, np.newaxis], y))
        regressor = ConformalRegressor(model).fit(np.zeros((80, 1)), y)
        for coverage in (0.5, 0.7, 0.8, 0.9, 0.95):
            lower, upper = regressor.predict_interval(np.zeros((80, 1)), coverage).T
            assert np.mean((lower <= y) & (y <= upper)) >= np.ceil(81 * coverage - 1e-9) / 80


@pytest.mark.parametrize("unit", [1.0, 0.1, 0.01, 1 / 3, 1e6 / 7])
@pytest.mark.parametrize("method", ["split", "normalized", "cqr"])
def test_rounding_takes_no_ties_out_of_the_interval(method, unit):
    """Many rows have the very score that the interval reaches to, and all of them are in it."""
    rng = np.random.default_rng(0)
    y = unit * rng.integers(0, 40, size=400)
    X = np.zeros((400, 1))
    model = {
        "split": DummyRegressor(),
        "normalized": LeastSquaresRegressor(),
        "cqr": MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.2, 0.8]),
    }[method]
    model = FrozenEstimator(clone(model).fit(X[:100] + rng.normal(size=(100, 1)), y[:100] * 0.77))
    regressor = ConformalRegressor(model, method).fit(X, y)
    for coverage in np.arange(1, 20) / 20:
        lower, upper = regressor.predict_interval(X, coverage).T
        assert np.mean((lower <= y) & (y <= upper)) >= np.ceil(401 * coverage - 1e-9) / 400


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", ["split", "normalized"])
def test_the_distribution_has_the_same_intervals_to_the_bit(finished, method, symmetric):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method, symmetric=symmetric).fit(X, y)
    dist, bounds = regressor.predict_dist(X_new), regressor.predict_interval(X_new, COVERAGES)
    assert isinstance(dist, ConformalPredictive)
    assert np.array_equal(dist.interval(COVERAGES), bounds)
    assert np.array_equal(regressor.predict_quantiles(X_new, [0.2, 0.9]), dist.quantile([0.2, 0.9]))
    if symmetric:
        assert np.allclose(dist.mean(), dist.median())
    if method == "normalized":
        recalibrator = ConformalRecalibrator(symmetric=symmetric).fit(predict_dist(model, X), y)
        wanted = recalibrator.transform(predict_dist(model, X_new)).interval(COVERAGES)
        assert np.allclose(bounds, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_distribution_of_cqr_goes_through_its_bounds(finished, symmetric):
    model, X, y, X_new = finished["cqr"]
    regressor = ConformalRegressor(model, "cqr", symmetric=symmetric).fit(X, y)
    dist = regressor.predict_dist(X_new)
    assert isinstance(dist, Quantiles)
    assert np.isfinite(dist.values).all()
    assert (np.diff(dist.values, axis=1) >= 0).all()
    upper = dist.levels.size // 2 + 1  # above the median
    bounds = regressor.predict_interval(X_new, 2 * dist.levels[upper:] - 1)
    wanted = np.concatenate([bounds[:, 0, ::-1], bounds[:, 1]], axis=1)
    crossed = (np.diff(wanted) < 0).any(axis=1)
    assert 0 < crossed.sum() < len(X_new)
    assert np.allclose(np.delete(dist.values, upper - 1, axis=1)[~crossed], wanted[~crossed])
    distance = np.abs(dist.values[:, np.newaxis] - wanted[:, :, np.newaxis]).min(axis=2)
    assert np.allclose(distance, 0)  # sorted, but all of them are there
    assert dist.levels.size > 90
    # only levels with finite bounds: 0.995 needs 199 rows on each side, 0.999 as a symmetric pair 499
    assert dist.levels[-1] == (0.995 if symmetric else pytest.approx(0.995))


def test_few_rows_leave_few_levels(finished):
    model, X, y, X_new = finished["cqr"]
    for rows, symmetric, highest in ((2, True, 0.83), (4, True, 0.9), (4, False, 0.8), (19, False, 0.95)):
        regressor = ConformalRegressor(model, "cqr", symmetric=symmetric).fit(X[:rows], y[:rows])
        assert regressor.predict_dist(X_new).levels[[0, -1]] == pytest.approx([1 - highest, highest])
    one = ConformalRegressor(clone(QUANTILES), "cqr", symmetric=False, held_out_size=1, random_state=0)
    with pytest.raises(ValueError, match=r"needs more calibration rows, got .* total weight of 1"):
        one.fit(X, y).predict_dist(X_new)


@pytest.mark.parametrize(("symmetric", "needed"), [(True, 9), (False, 19)])
@pytest.mark.parametrize("method", SPLIT)
def test_too_few_rows_give_infinite_bounds_and_one_warning(finished, method, symmetric, needed):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method, symmetric=symmetric)
    few, words = regressor.fit(X[: needed - 1], y[: needed - 1]), f"90 % needs at least {needed} calibration"
    with pytest.warns(SmallSampleWarning, match=f"{words} rows, got {needed - 1}") as caught:
        bounds = few.predict_interval(X_new, [0.5, 0.9])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.isfinite(bounds[:, :, 0]).all()
    assert (bounds[:, 0, 1] == -np.inf).all()
    assert (bounds[:, 1, 1] == np.inf).all()
    assert np.isfinite(regressor.fit(X[:needed], y[:needed]).predict_interval(X_new, 0.9)).all()


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", SPLIT)
def test_weights_count_repetitions(finished, method, symmetric):
    model, X, y, X_new = finished[method]
    times = np.random.default_rng(0).integers(0, 4, size=len(y))
    regressor = ConformalRegressor(model, method, symmetric=symmetric)
    weighted = clone(regressor).fit(X, y, sample_weight=times)
    repeated = clone(regressor).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert np.array_equal(
        weighted.predict_interval(X_new, COVERAGES), repeated.predict_interval(X_new, COVERAGES)
    )
    assert weighted.n_calibration_ == times.sum()
    assert np.allclose(weighted.predict_dist(X_new).std(), repeated.predict_dist(X_new).std())


def test_weights_reach_the_model_and_must_not_be_relative():
    X, y = linear_world(80)
    y[:20] += 50
    weight = np.where(np.arange(80) < 20, 0.0, 1.0)
    model = ConformalRegressor(LinearRegression(), cv=[(np.arange(60), np.arange(60, 80))])
    model.fit(X, y, sample_weight=weight)
    assert np.allclose(model.predict(X), LinearRegression().fit(X[20:60], y[20:60]).predict(X))
    with pytest.raises(ValueError, match="counts repetitions"):
        model.fit(X, y, sample_weight=np.full(80, 0.1))
    with pytest.raises(ValueError, match="must be positive for at least one"):
        model.set_params(cv=[(np.arange(20, 80), np.arange(20))]).fit(X, y, sample_weight=weight)


def test_the_seed_reaches_a_model_that_has_none():
    X, y = linear_world(90)
    tree = DecisionTreeRegressor(splitter="random")
    first, second = (ConformalRegressor(tree, random_state=0).fit(X, y) for _ in range(2))
    assert np.array_equal(first.predict(X), second.predict(X))
    assert tree.random_state is None
    assert not hasattr(ConformalRegressor(tree), "n_calibration_")
    with pytest.raises(NotFittedError):
        _ = ConformalRegressor(tree).n_calibration_


@pytest.mark.parametrize("method", SPLIT)
def test_pickle(finished, method):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method).fit(X, y).partial_fit(X[:3], y[:3])
    copy = pickle.loads(pickle.dumps(regressor))
    for one in (regressor, copy):
        one.partial_fit(X[3:5], y[3:5])
    assert np.array_equal(copy.predict_interval(X_new), regressor.predict_interval(X_new))


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"method": "cv+"}, ValueError, "`method` must be one of 'split', 'normalized', 'cqr', 'pit', got"),
        ({"symmetric": 1}, ValueError, "`symmetric` must be one of True, False"),
        ({"cv": "kfold"}, ValueError, "`cv` must be one of 'last', got 'kfold'"),
        ({"cv": 1}, ValueError, "`cv` must be at least 2"),
        ({"held_out_size": 0.0}, ValueError, "`held_out_size` must be positive"),
        ({"held_out_size": 1.0}, ValueError, "share strictly between 0 and 1"),
        ({"held_out_size": 80}, ValueError, "must leave rows to train on, got 80 of 80"),
        ({"group_by": ["a"]}, TypeError, "`group_by` must be a callable X -> labels, a column name"),
        ({"group_by": True}, TypeError, "`group_by` must be"),
        ({"rare_groups": "drop"}, ValueError, "`rare_groups` must be one of 'raise', 'pool'"),
        ({"min_group_size": 0}, ValueError, "`min_group_size` must be at least 1"),
        ({"gamma": -0.1}, ValueError, "`gamma` must be non-negative"),
        ({"window": 0}, ValueError, "`window` must be at least 1"),
    ],
)
def test_bad_parameters(params, error, words):
    X, y = linear_world(80)
    with pytest.raises(error, match=words):
        ConformalRegressor(Ridge(), **params).fit(X, y)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"cv": ShuffleSplit(1), "held_out_size": 0.3},
            "`held_out_size` must be 0.25 with `cv`, got 0.3",
        ),
        ({"frozen": True, "held_out_size": 20}, "`held_out_size` must be 0.25 with a FrozenEstimator"),
        ({"frozen": True, "cv": ShuffleSplit(1)}, "`cv` must be None with a FrozenEstimator"),
        ({"rare_groups": "pool"}, "`rare_groups` must be 'raise' without `group_by`, got 'pool'"),
        ({"min_group_size": 5}, "`min_group_size` must be 10 without `group_by`, got 5"),
    ],
)
def test_an_option_without_effect_raises(params, words):
    X, y = linear_world(80)
    estimator = FrozenEstimator(Ridge().fit(X, y)) if params.pop("frozen", False) else Ridge()
    defaults = {"held_out_size": np.float64(0.25), "min_group_size": np.int64(10), "rare_groups": "raise"}
    with pytest.raises(ValueError, match=words):
        ConformalRegressor(estimator, **params).fit(X, y)
    for given in ({"estimator": FrozenEstimator(Ridge().fit(X, y))}, {"cv": ShuffleSplit(1)}):
        ConformalRegressor(**{"estimator": Ridge(), **defaults, **given}).fit(X, y)


@pytest.mark.parametrize(
    ("estimator", "method", "wrapper"),
    [
        (Ridge(), "normalized", UncertaintyRegressor),
        (QuantileRegressor(), "normalized", UncertaintyRegressor),
        (QuantileRegressor(), "cqr", MultiQuantileRegressor),
        (Ridge(), "cqr", UncertaintyRegressor),  # which has no quantile loss
    ],
)
def test_a_plain_regressor_is_told_which_wrapper_to_use(estimator, method, wrapper):
    X, y = linear_world(80)
    advice = rf"ConformalRegressor\({wrapper.__name__}\({type(estimator).__name__}\(\.\.\.\)\), '{method}'\)"
    with pytest.raises(NotProbabilisticError, match=advice):
        ConformalRegressor(estimator, method).fit(X, y)
    bounds = ConformalRegressor(wrapper(estimator), method, random_state=0).fit(X, y).predict_interval(X)
    assert np.isfinite(bounds).all()


class Broken(RegressorMixin, BaseEstimator):
    """Predicts one value that is no number, and a distribution that is certain or endless."""

    def __init__(self, kind):
        self.kind = kind

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.where(np.arange(len(X)) == 2, np.nan, 0.0)

    def predict_dist(self, X):
        if self.kind == "certain":
            return Normal(np.zeros(len(X)), 0.0)
        return ConformalPredictive(np.zeros(len(X)), 1.0, [1.0, 2.0])


@pytest.mark.filterwarnings("ignore::skuq.exceptions.SmallSampleWarning")
def test_predictions_that_cannot_be_ranked():
    X, y = linear_world(80)
    with pytest.raises(
        ValueError, match=r"Broken predicts NaN or infinity for 1 of 20 rows, the first of them row 2"
    ):
        ConformalRegressor(Broken("certain")).fit(X, y)
    with pytest.raises(ValueError, match=r"got 0 at row 0\. In this row, `y` differs"):
        ConformalRegressor(Broken("certain"), "normalized").fit(X, y)
    endless = ConformalRegressor(Broken("endless"), "cqr")
    with pytest.raises(ValueError, match=r"finite quantiles, got the interval \[-inf, inf\].*0\.9 at row 0"):
        endless.fit(X, y)


# ----------------------------------------------------------------------------------- in scikit-learn


def test_the_last_rows_calibrate():
    X, y = linear_world(100)
    last = ConformalRegressor(LinearRegression(), cv="last", held_out_size=30).fit(X, y)
    assert_array_equal(last.calibration_rows_, np.arange(70, 100))
    given = ConformalRegressor(LinearRegression(), cv=[(np.arange(70), np.arange(70, 100))]).fit(X, y)
    assert_array_equal(last.predict_interval(X), given.predict_interval(X))


def test_in_pipelines_and_searches():
    X, y = linear_world(120)
    pipeline = Pipeline([("scaler", StandardScaler()), ("model", ConformalRegressor(BayesianRidge()))])
    pipeline.set_params(model__random_state=0)
    crossed = CrossConformalRegressor(BayesianRidge(), random_state=0)
    grid = [
        {"model__method": ["split", "normalized", "cqr"], "model__estimator__max_iter": [1, 300]},
        {"model": [crossed], "model__method": ["cv+", "jackknife+ab"]},
    ]
    search = GridSearchCV(pipeline, grid, scoring=get_scorer("neg_crps"), cv=2, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert predict_dist(search, X).interval(0.8).shape == (120, 2)


def test_behind_a_transformed_target():
    X, y = linear_world(150)
    functions = {"func": np.log1p, "inverse_func": np.expm1}
    inner = ConformalRegressor(Ridge(), random_state=0)
    model = TransformedTargetRegressor(inner, **functions).fit(X, np.exp(0.3 * y))
    dist = predict_dist(model, X)
    assert np.allclose(dist.interval(0.9), np.expm1(model.regressor_.predict_interval(X)))
    assert np.isfinite(dist.crps(np.exp(0.3 * y))).all()
    outer = ConformalRegressor(TransformedTargetRegressor(Ridge(), **functions), random_state=0)
    assert np.isfinite(outer.fit(X, np.exp(0.3 * y)).predict_interval(X)).all()


@pytest.mark.parametrize("routing", [True, False])
def test_metadata_both_ways(routing):
    X, y = linear_world(120)
    groups, weight = np.repeat(np.arange(24), 5), np.arange(120) % 3 + 1.0
    cv = GroupShuffleSplit(1, test_size=0.3, random_state=0)
    with config_context(enable_metadata_routing=routing):
        child = Ridge().set_fit_request(sample_weight=True) if routing else Ridge()
        model = ConformalRegressor(child, cv=cv).fit(X, y, sample_weight=weight, groups=groups)
    train, test = next(cv.split(X, y, groups))
    plain = Ridge().fit(X[train], y[train], sample_weight=weight[train])
    assert np.array_equal(model.predict(X), plain.predict(X))
    assert model.n_calibration_ == weight[test].sum()


@pytest.mark.parametrize("method", ["split", "normalized"])
def test_the_front_door(method):
    X, y = linear_world(120)
    child = LeastSquaresRegressor()
    front = UncertaintyRegressor(child, "conformal", method_params={"method": method}, random_state=5)
    own = ConformalRegressor(child, method, random_state=5).fit(X[:80], y[:80])
    assert front.fit(X[:80], y[:80]).method_ == "conformal"
    assert np.array_equal(front.predict(X), own.predict(X))
    before = front.predict_interval(X)
    assert np.array_equal(before, own.predict_interval(X))
    front.estimator_.partial_fit(X[80:], y[80:] + 10)
    own.partial_fit(X[80:], y[80:] + 10)
    assert np.array_equal(front.predict_interval(X), own.predict_interval(X))
    assert (front.predict_interval(X)[:, 1] > before[:, 1]).all()
    one = GroupShuffleSplit(1, random_state=0)
    groups = np.repeat(np.arange(24), 5)
    grouped = UncertaintyRegressor(child, "conformal", cv=one).fit(X, y, groups=groups)
    assert np.array_equal(grouped.estimator_.calibration_rows_, next(one.split(X, y, groups))[1])


def test_without_held_out_rows_there_are_no_numbers_of_them():
    model = CrossConformalRegressor(LeastSquaresRegressor(), random_state=np.random.RandomState(0))
    model.fit(*linear_world(30))
    assert not hasattr(model, "calibration_rows_")
    assert not hasattr(model, "partial_fit")
    assert model.n_calibration_ == 30


@pytest.mark.laws
@pytest.mark.parametrize("name", ["gal/gal_concrete", "gal/gal_power", "paper001/abalone", "gal/gal_wine"])
def test_coverage_on_real_data(shared_data, name):
    data = shared_data(name).select_dtypes("number")
    data = data.sample(min(1500, len(data)), random_state=0).to_numpy(float)
    X, X_new, y, y_new = train_test_split(data[:, :-1], data[:, -1], test_size=0.4, random_state=0)
    tree = DecisionTreeRegressor(min_samples_leaf=10, random_state=0)
    models = {
        "split": tree,
        "normalized": ResidualRegressor(tree, cv=3, random_state=0),
        "cqr": MultiQuantileRegressor(QuantileRegressor(alpha=0), [0.05, 0.5, 0.95]),
    }
    for method, estimator in models.items():
        scaled = make_pipeline(StandardScaler(), estimator)
        model = ConformalRegressor(scaled, method, held_out_size=0.4, random_state=0).fit(X, y)
        n, m = model.n_calibration_, len(y_new)
        # both sets are finite: variance of a mean of m rows and of the coverage of n calibration rows
        tolerance = 3.5 * np.sqrt(0.09 / m + 0.09 / n)
        lower, upper = model.predict_interval(X_new).T
        assert abs(np.mean((lower <= y_new) & (y_new <= upper)) - 0.9) < tolerance


@pytest.fixture(scope="module")
def mapie():
    return pytest.importorskip("mapie.regression")


@pytest.mark.parametrize("symmetric", [True, False])
def test_split_has_the_bounds_of_mapie(mapie, finished, symmetric):
    from mapie.conformity_scores import AbsoluteConformityScore

    model, X, y, X_new = finished["split"]
    score = AbsoluteConformityScore(sym=symmetric)
    options = {"confidence_level": COVERAGES, "conformity_score": score, "prefit": True}
    peer = mapie.SplitConformalRegressor(model.estimator, **options).conformalize(X, y)
    point, bounds = peer.predict_interval(X_new)
    own = ConformalRegressor(model, symmetric=symmetric).fit(X, y)
    assert np.allclose(own.predict_interval(X_new, COVERAGES), bounds, rtol=0, atol=1e-10)
    assert np.array_equal(own.predict(X_new), point)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_cqr_has_the_bounds_of_mapie(mapie, coverage):
    X, y = linear_world(500)
    levels = [(1 - coverage) / 2, (1 + coverage) / 2, 0.5]
    models = [QuantileRegressor(quantile=level, alpha=0).fit(X[:200], y[:200]) for level in levels]
    own = MultiQuantileRegressor(QuantileRegressor(alpha=0), sorted(levels)).fit(X[:200], y[:200])
    ordered = np.column_stack([models[k].predict(X) for k in (0, 2, 1)])
    assert np.array_equal(own.predict_dist(X).values, ordered)  # no quantiles cross
    for n, symmetric in ((99, True), (99, False), (100, True), (100, False), (200, True), (200, False)):
        X_cal, y_cal, X_new = X[200 : 200 + n], y[200 : 200 + n], X[400:]
        peer = mapie.ConformalizedQuantileRegressor(models, confidence_level=coverage, prefit=True)
        peer.conformalize(X_cal, y_cal)
        bounds = peer.predict_interval(X_new, symmetric_correction=symmetric)[1][:, :, 0]
        regressor = ConformalRegressor(FrozenEstimator(own), "cqr", symmetric=symmetric).fit(X_cal, y_cal)
        assert np.allclose(regressor.predict_interval(X_new, coverage), bounds, rtol=0, atol=1e-10)


def test_a_rank_that_is_whole_is_not_rounded():
    """Of 9 rows, 30 % needs the third score and 90 % the ninth.

    In floating point, 1 - 0.7 is above 0.3 and (1 - 0.9) 10 is below 1: MAPIE takes the fourth score, and for
    crepes 9 rows are too few.
    """
    X, y = np.zeros((9, 1)), np.arange(1.0, 10.0)
    model = FrozenEstimator(DummyRegressor(strategy="constant", constant=0.0).fit(X, y))
    bounds = ConformalRegressor(model).fit(X, y).predict_interval(X[:1], [0.3, 0.9])
    assert bounds[0].tolist() == [[-3, -9], [3, 9]]


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("method", ["split", "normalized"])
def test_normalized_and_mondrian_have_the_bounds_of_crepes(finished, method, by_group):
    crepes = pytest.importorskip("crepes")
    model, X_all, y_all, X_new = finished[method]

    def group_by(rows):
        return np.digitize(rows[:, 1], [-1.0, 0.5])

    def given(rows):
        if method == "split":
            return model.predict(rows), {"bins": group_by(rows) if by_group else None}
        dist = predict_dist(model, rows)
        return dist.mean(), {"sigmas": dist.std(), "bins": group_by(rows) if by_group else None}

    for n in (150, 200):
        X, y = X_all[:n], y_all[:n]
        (loc, options), (new_loc, new_options) = given(X), given(X_new)
        peer = crepes.ConformalRegressor()
        peer.fit(residuals=y - loc, **options)
        own = ConformalRegressor(model, method, group_by=group_by if by_group else None).fit(X, y)
        for coverage in (0.55, 0.75, 0.91):
            bounds = peer.predict_int(new_loc, confidence=coverage, **new_options)
            assert np.allclose(own.predict_interval(X_new, coverage), bounds, rtol=0, atol=1e-10)
