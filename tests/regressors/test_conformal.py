"""Conformal regressors with one model: the numbers, the laws, the errors."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.tree import DecisionTreeRegressor

from skuq.distributions import ConformalPredictive, Normal, Quantiles
from skuq.evaluation import uncertainty_report
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.metrics import get_scorer, scorers
from skuq.prediction import predict_dist
from skuq.recalibration import ConformalRecalibrator
from skuq.regressors import (
    ConformalRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    UncertaintyRegressor,
)
from tests.regressors.split_models import COVERAGES, QUANTILES, SPLIT
from tests.regressors.worlds import linear_world


def ratio(X):
    return np.exp(0.8 * X[:, 0])


def kinds(X):
    return np.where(X[:, 0] > 0, "right", "left")


# -------------------------------------------------------------------------------------------------- by hand


def kth_smallest(scores, coverage):
    rank = int(np.ceil((len(scores) + 1) * coverage - 1e-9))
    return np.sort(scores)[rank - 1] if rank <= len(scores) else np.inf


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", SPLIT)
def test_bounds_are_order_statistics_of_scores(finished, method, symmetric):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method, symmetric=symmetric).fit(X, y)
    for coverage in COVERAGES:
        scale, new_scale = np.ones(len(y)), np.ones(len(X_new))
        if method == "cqr":
            (low, high), (new_low, new_high) = (
                predict_dist(model, rows).interval(coverage).T for rows in (X, X_new)
            )
        else:
            low = high = model.predict(X) if method == "split" else predict_dist(model, X).mean()
            new_low = new_high = (
                model.predict(X_new) if method == "split" else predict_dist(model, X_new).mean()
            )
        if method == "normalized":
            scale, new_scale = predict_dist(model, X).std(), predict_dist(model, X_new).std()
        below, above = (low - y) / scale, (y - high) / scale
        if symmetric:
            reach_low = reach_high = kth_smallest(np.maximum(below, above), coverage)
        else:
            reach_low, reach_high = (kth_smallest(part, (1 + coverage) / 2) for part in (below, above))
        wanted = np.column_stack([new_low - new_scale * reach_low, new_high + new_scale * reach_high])
        assert (wanted[:, 0] <= wanted[:, 1]).all()
        assert np.allclose(regressor.predict_interval(X_new, coverage), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", SPLIT)
def test_several_coverages_at_once_are_the_single_ones(finished, method, symmetric):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method, symmetric=symmetric).fit(X, y)
    together = regressor.predict_interval(X_new, COVERAGES)
    assert together.shape == (len(X_new), 2, len(COVERAGES))
    for column, coverage in enumerate(COVERAGES):
        assert np.array_equal(together[:, :, column], regressor.predict_interval(X_new, coverage))
    assert regressor.predict_interval(X_new, [0.9]).shape == (len(X_new), 2, 1)


def test_an_unfrozen_model_sees_only_the_training_rows():
    X, y = linear_world(100)
    model = ConformalRegressor(Ridge(), calibration_size=0.3, random_state=0).fit(X, y)
    assert model.n_calibration_ == len(model.calibration_rows_) == 30
    assert (np.diff(model.calibration_rows_) > 0).all()
    trained = np.setdiff1d(np.arange(100), model.calibration_rows_)
    plain = Ridge().fit(X[trained], y[trained])
    assert np.array_equal(model.predict(X), plain.predict(X))
    held_out = ConformalRegressor(FrozenEstimator(plain)).fit(
        X[model.calibration_rows_], y[model.calibration_rows_]
    )
    assert np.array_equal(held_out.predict_interval(X), model.predict_interval(X))
    assert np.array_equal(held_out.calibration_rows_, np.arange(30))


@pytest.mark.parametrize(("size", "rows"), [(0.25, 25), (0.001, 1), (0.999, 99), (7, 7), (np.int64(7), 7)])
def test_calibration_size_is_a_share_or_a_number(size, rows):
    X, y = linear_world(100)
    model = ConformalRegressor(DummyRegressor(), calibration_size=size, random_state=0).fit(X, y)
    assert model.n_calibration_ == rows


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


# --------------------------------------------------------------------------------------------- predict_dist


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", ["split", "normalized"])
def test_the_distribution_has_the_same_intervals_to_the_bit(finished, method, symmetric):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method, symmetric=symmetric).fit(X, y)
    dist = regressor.predict_dist(X_new)
    assert isinstance(dist, ConformalPredictive)
    assert np.array_equal(dist.interval(COVERAGES), regressor.predict_interval(X_new, COVERAGES))
    assert np.array_equal(regressor.predict_quantiles(X_new, [0.2, 0.9]), dist.quantile([0.2, 0.9]))
    if symmetric:
        assert np.allclose(dist.mean(), predict_dist(regressor, X_new).median())


def test_normalized_is_the_recalibrator_behind_a_finished_model(finished):
    model, X, y, X_new = finished["normalized"]
    for symmetric in (True, False):
        recalibrator = ConformalRecalibrator(symmetric=symmetric).fit(predict_dist(model, X), y)
        wanted = recalibrator.transform(predict_dist(model, X_new)).interval(COVERAGES)
        own = ConformalRegressor(model, "normalized", symmetric=symmetric).fit(X, y)
        assert np.allclose(own.predict_interval(X_new, COVERAGES), wanted, rtol=1e-12, atol=1e-12)


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
    for rows, symmetric, highest in ((4, True, 0.9), (4, False, 0.8), (19, False, 0.95)):
        dist = (
            ConformalRegressor(model, "cqr", symmetric=symmetric).fit(X[:rows], y[:rows]).predict_dist(X_new)
        )
        assert dist.levels[[0, -1]] == pytest.approx([1 - highest, highest])
    dist = ConformalRegressor(model, "cqr").fit(X[:2], y[:2]).predict_dist(X_new)
    assert dist.levels[-1] == pytest.approx(0.83)
    one = ConformalRegressor(clone(QUANTILES), "cqr", symmetric=False, calibration_size=1, random_state=0)
    with pytest.raises(ValueError, match=r"needs more calibration rows, got .* total weight of 1"):
        one.fit(X, y).predict_dist(X_new)


@pytest.mark.parametrize("method", SPLIT)
def test_scorers_and_the_report_take_it(finished, method):
    model, X, y, _ = finished[method]
    regressor = ConformalRegressor(model, method).fit(X[:150], y[:150])
    report = uncertainty_report(y[150:], regressor.predict_dist(X[150:]), n_resamples=20, n_simulations=10)
    assert "CRPS" in str(report)
    assert get_scorer("neg_crps")(regressor, X[150:], y[150:]) < 0
    assert 0.5 < scorers("picp")["picp"](regressor, X[150:], y[150:]) <= 1


# --------------------------------------------------------------------------------------------- too few rows


@pytest.mark.parametrize(("symmetric", "needed"), [(True, 9), (False, 19)])
@pytest.mark.parametrize("method", SPLIT)
def test_too_few_rows_give_infinite_bounds_and_one_warning(finished, method, symmetric, needed):
    model, X, y, X_new = finished[method]
    few = ConformalRegressor(model, method, symmetric=symmetric).fit(X[: needed - 1], y[: needed - 1])
    with pytest.warns(
        SmallSampleWarning, match=f"90 % needs at least {needed} calibration rows, got {needed - 1}"
    ) as caught:
        bounds = few.predict_interval(X_new, [0.5, 0.9])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.isfinite(bounds[:, :, 0]).all()
    assert (bounds[:, 0, 1] == -np.inf).all()
    assert (bounds[:, 1, 1] == np.inf).all()
    enough = ConformalRegressor(model, method, symmetric=symmetric).fit(X[:needed], y[:needed])
    assert np.isfinite(enough.predict_interval(X_new, 0.9)).all()


def test_two_rows_will_do_for_a_fit():
    X, y = linear_world(2)
    model = ConformalRegressor(DummyRegressor(), random_state=0).fit(X, y)
    assert model.n_calibration_ == 1
    assert np.isfinite(model.predict_interval(X, 0.5)).all()
    with pytest.warns(SmallSampleWarning, match="at least 9 calibration rows, got 1"):
        assert np.isinf(model.predict_interval(X)).all()


# ----------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", SPLIT)
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_unit_of_y_is_that_of_the_bounds(method, symmetric, factor):
    X, y = linear_world(120)
    model = ConformalRegressor(clone(SPLIT[method]), method, symmetric=symmetric, random_state=0)
    bounds = model.fit(X, y).predict_interval(X, COVERAGES[:3])
    scaled = clone(model).fit(X, factor * y).predict_interval(X, COVERAGES[:3])
    assert np.allclose(scaled, factor * bounds, rtol=1e-5, atol=1e-6 * factor)


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
    split = [(np.arange(60), np.arange(60, 80))]
    model = ConformalRegressor(LinearRegression(), cv=split).fit(X, y, sample_weight=weight)
    assert np.allclose(model.predict(X), LinearRegression().fit(X[20:60], y[20:60]).predict(X))
    with pytest.raises(ValueError, match="counts repetitions"):
        clone(model).fit(X, y, sample_weight=np.full(80, 0.1))
    with pytest.raises(ValueError, match="must be positive for at least one"):
        ConformalRegressor(LinearRegression(), cv=[(np.arange(20, 80), np.arange(20))]).fit(
            X, y, sample_weight=weight
        )


@pytest.mark.parametrize("method", SPLIT)
def test_an_integer_random_state_says_everything(method):
    X, y = linear_world(90)
    model = ConformalRegressor(clone(SPLIT[method]), method, random_state=3)
    first, second = (clone(model).fit(X, y) for _ in range(2))
    parallel = clone(model).set_params(n_jobs=2).fit(X, y)
    assert np.array_equal(first.predict_interval(X), second.predict_interval(X))
    assert np.array_equal(first.predict_interval(X), parallel.predict_interval(X))
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert not np.array_equal(other.calibration_rows_, first.calibration_rows_)


def test_the_seed_reaches_a_model_that_has_none():
    X, y = linear_world(90)
    tree = DecisionTreeRegressor(splitter="random")
    first, second = (ConformalRegressor(tree, random_state=0).fit(X, y) for _ in range(2))
    assert np.array_equal(first.predict(X), second.predict(X))
    assert tree.random_state is None


@pytest.mark.parametrize("method", SPLIT)
def test_pickle(finished, method):
    model, X, y, X_new = finished[method]
    regressor = ConformalRegressor(model, method).fit(X, y).partial_fit(X[:3], y[:3])
    copy = pickle.loads(pickle.dumps(regressor))
    for one in (regressor, copy):
        one.partial_fit(X[3:5], y[3:5])
    assert np.array_equal(copy.predict_interval(X_new), regressor.predict_interval(X_new))


def test_a_permutation_of_the_rows_changes_nothing(finished):
    model, X, y, X_new = finished["normalized"]
    order = np.random.default_rng(0).permutation(len(y))
    one, other = (
        ConformalRegressor(model, "normalized").fit(X[rows], y[rows]) for rows in (slice(None), order)
    )
    assert np.array_equal(one.predict_interval(X_new), other.predict_interval(X_new))


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"method": "magic"}, ValueError, "`method` must be one of 'split'"),
        ({"method": None}, ValueError, "`method` must be one of"),
        ({"method": "cv+"}, ValueError, "`method` must be one of 'split', 'normalized', 'cqr', 'pit', got"),
        ({"symmetric": "yes"}, ValueError, "`symmetric` must be one of True, False"),
        ({"symmetric": 1}, ValueError, "`symmetric` must be one of"),
        ({"cv": "kfold"}, ValueError, "`cv` must be one of 'last', got 'kfold'"),
        ({"cv": 1}, ValueError, "`cv` must be at least 2"),
        ({"calibration_size": 0.0}, ValueError, "`calibration_size` must be positive"),
        ({"calibration_size": 1.0}, ValueError, "share strictly between 0 and 1"),
        ({"calibration_size": 1.5}, ValueError, "share strictly between 0 and 1"),
        ({"calibration_size": -3}, ValueError, "`calibration_size` must be positive"),
        ({"calibration_size": 80}, ValueError, "must leave rows to train on, got 80 of 80"),
        ({"calibration_size": "half"}, TypeError, "`calibration_size` must be a number"),
        ({"calibration_size": np.nan}, ValueError, "`calibration_size` must be positive and finite"),
        ({"group_by": ["a"]}, TypeError, "`group_by` must be a callable X -> labels, a column name"),
        ({"group_by": True}, TypeError, "`group_by` must be"),
        ({"rare_groups": "drop"}, ValueError, "`rare_groups` must be one of 'raise', 'pool'"),
        ({"min_group_size": 0}, ValueError, "`min_group_size` must be at least 1"),
        ({"gamma": -0.1}, ValueError, "`gamma` must be non-negative"),
        ({"gamma": "fast"}, TypeError, "`gamma` must be a number"),
        ({"gamma": np.inf}, ValueError, "`gamma` must be finite"),
        ({"window": 0}, ValueError, "`window` must be at least 1"),
        ({"window": 2.5}, TypeError, "`window` must be an integer"),
        ({"random_state": "seed"}, ValueError, "seed"),
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
            {"cv": ShuffleSplit(1), "calibration_size": 0.3},
            "`calibration_size` must be 0.25 with `cv`, got 0.3",
        ),
        ({"frozen": True, "calibration_size": 20}, "`calibration_size` must be 0.25 with a FrozenEstimator"),
        ({"frozen": True, "cv": ShuffleSplit(1)}, "`cv` must be None with a FrozenEstimator"),
        ({"rare_groups": "pool"}, "`rare_groups` must be 'raise' without `group_by`, got 'pool'"),
        ({"min_group_size": 5}, "`min_group_size` must be 10 without `group_by`, got 5"),
    ],
)
def test_an_option_without_effect_raises(params, words):
    X, y = linear_world(80)
    estimator = FrozenEstimator(Ridge().fit(X, y)) if params.pop("frozen", False) else Ridge()
    with pytest.raises(ValueError, match=words):
        ConformalRegressor(estimator, **params).fit(X, y)


def test_a_default_never_raises():
    X, y = linear_world(80)
    frozen = FrozenEstimator(Ridge().fit(X, y))
    for estimator, cv in ((frozen, None), (Ridge(), ShuffleSplit(1))):
        options = {
            "calibration_size": np.float64(0.25),
            "min_group_size": np.int64(10),
            "rare_groups": "raise",
        }
        ConformalRegressor(estimator, cv=cv, **options).fit(X, y)


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


def test_it_must_be_fitted():
    X, _ = linear_world(10)
    for method in ("predict", "predict_interval", "predict_dist", "predict_quantiles", "transform"):
        with pytest.raises(NotFittedError):
            getattr(ConformalRegressor(Ridge()), method)(
                *((X, 0.5) if method == "predict_quantiles" else (X,))
            )
    with pytest.raises(NotFittedError):
        _ = ConformalRegressor(Ridge()).n_calibration_
    assert not hasattr(ConformalRegressor(Ridge()), "n_calibration_")


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, np.nan, [], [[0.9]], "high"])
def test_bad_coverages(finished, coverage):
    model, X, y, X_new = finished["split"]
    with pytest.raises((TypeError, ValueError), match="`coverage`"):
        ConformalRegressor(model).fit(X, y).predict_interval(X_new, coverage)


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


def test_a_bayesian_model_is_normalized_by_its_own_scale():
    X, y = linear_world(200)
    model = ConformalRegressor(BayesianRidge(), "normalized", random_state=0).fit(X, y)
    dist = predict_dist(model.estimator_, X)
    half = model.predict_interval(X)[:, 1] - dist.mean()
    assert np.allclose(half / dist.std(), (half / dist.std())[0])


# ------------------------------------------------------------------------------------ chronological rows


def test_the_last_rows_calibrate():
    X, y = linear_world(100)
    last = ConformalRegressor(LinearRegression(), cv="last", calibration_size=30).fit(X, y)
    assert_array_equal(last.calibration_rows_, np.arange(70, 100))
    given = ConformalRegressor(LinearRegression(), cv=[(np.arange(70), np.arange(70, 100))]).fit(X, y)
    assert_array_equal(last.predict_interval(X), given.predict_interval(X))
    with pytest.raises(ValueError, match="`cv` must be one of 'last', got 'first'"):
        ConformalRegressor(LinearRegression(), cv="first").fit(X, y)
