"""Regressors of censored targets: scores and coverage, equality without censoring, routing and bad input."""

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.conformal import ConformalRegressor, CrossConformalRegressor
from skuq.distributions import Normal, Transformed
from skuq.exceptions import NotProbabilisticError, SmallSampleWarning
from skuq.metrics import crps_loss, get_scorer
from skuq.prediction import predict_dist, supports_dist
from skuq.recalibration import IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    FunctionalRegressor,
    LeastSquaresRegressor,
    RecalibratedRegressor,
    UncertaintyRegressor,
)
from skuq.survival import (
    CensoredBoostingRegressor,
    CensoringWeightedRegressor,
    ConformalSurvivalRegressor,
    censoring_weights,
    concordance_score,
    from_survival,
    interval_coverage_bounds,
    ipcw_crps_loss,
)
from tests.survival.worlds import waiting_times

SMALL = {"n_estimators": 15, "cv": 3, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def lightgbm():
    """Import the package, whose time belongs to no test."""
    return pytest.importorskip("lightgbm")


def boosting(**options):
    return CensoredBoostingRegressor(**{"random_state": 0, **options})


@pytest.fixture(scope="module")
def world():
    return waiting_times(1500, 0)


@pytest.fixture(scope="module")
def new():
    return waiting_times(1000, 99)


@pytest.fixture(scope="module")
def few():
    return waiting_times(150, 1)


def relative_crps(dist, new):
    """Return the CRPS of the logarithm relative to the true distribution."""
    log_dist = Transformed(dist, np.log, np.exp)
    return crps_loss(np.log(new.time), log_dist) / crps_loss(np.log(new.time), new.log_truth)


def covered(dist, y):
    lower, upper = dist.interval(0.9).T
    return np.mean((lower <= y) & (y <= upper))


@pytest.mark.parametrize(
    ("engine", "n", "ratio", "least", "most"),
    [
        ("lightgbm", 1500, 1.14, 0.88, 0.93),
        ("sklearn", 500, 1.3, 0.85, 0.95),
        pytest.param("sklearn", 1500, 1.14, 0.88, 0.93, marks=pytest.mark.laws),
    ],
)
def test_boosting_is_close_to_the_truth(world, new, engine, n, ratio, least, most):
    model = CensoredBoostingRegressor(engine=engine, cv=3 if n == 500 else 5, random_state=0)
    dist = model.fit(world.X[:n], world.y[:n], event=world.event[:n]).predict_dist(new.X)
    assert relative_crps(dist, new) < ratio
    assert least <= covered(dist, new.time) <= most
    assert (dist.interval(0.99) > 0).all()


@pytest.mark.parametrize("engine", ["lightgbm", "sklearn"])
def test_features_that_no_tree_can_split_are_allowed(lightgbm, few, engine):
    model = CensoredBoostingRegressor(engine=engine, **SMALL)
    for X, n in ((few.X, 30), (np.ones((150, 1)), 150)):
        intervals = model.fit(X[:n], few.y[:n], event=few.event[:n]).predict_interval(X[:5])
        np.testing.assert_allclose(intervals, np.tile(intervals[0], (5, 1)))


def test_a_limit_of_detection(new):
    """Thirty percent of the values are only known to be below a limit."""
    world = waiting_times(800, 4)
    value = np.log(world.time)
    limit = np.quantile(value, 0.3)
    low, high = np.where(value < limit, -np.inf, value), np.maximum(value, limit)
    dist = boosting(family="normal").fit(world.X, high, lower=low, upper=high).predict_dist(new.X)
    target = np.log(new.time)
    assert crps_loss(target, dist) < 1.2 * crps_loss(target, new.log_truth)
    assert 0.87 <= covered(dist, target) <= 0.94


def test_weighted_events_are_better_than_events_alone(world, new):
    X = world.X[:, :1]
    model = CensoringWeightedRegressor(LeastSquaresRegressor()).fit(X, np.log(world.y), event=world.event)
    only = LeastSquaresRegressor().fit(X[world.event], np.log(world.y[world.event]))
    bias, worse = (one.predict(new.X[:, :1]).mean() - new.loc.mean() for one in (model, only))
    assert abs(bias) < 0.12 < -worse
    expected = np.minimum(censoring_weights(world.y, world.event), 20.0)
    np.testing.assert_allclose(model.censoring_weight_, expected)


def test_weights_of_a_model_of_the_censoring(world):
    """The censoring depends on x, so that the Kaplan-Meier weights are biased."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(1000, 1))
    time, ends = np.exp(X[:, 0] + 0.3 * rng.normal(size=1000)), np.exp(1.5 * X[:, 0] + rng.normal(size=1000))
    y, event = np.minimum(time, ends), time <= ends
    censoring = CensoredBoostingRegressor(engine="sklearn", n_estimators=20, cv=3)
    marginal, conditional = (
        CensoringWeightedRegressor(LeastSquaresRegressor(), model, random_state=0).fit(X, y, event=event)
        for model in (None, censoring)
    )
    errors = [abs(one.predict(X).mean() - time.mean()) for one in (marginal, conditional)]
    assert errors[1] < errors[0]


def test_without_censored_rows_the_result_is_the_same_to_the_bit(few):
    all_observed = np.ones(150, dtype=bool)
    weight = np.arange(1.0, 151.0)
    for model in (
        CensoredBoostingRegressor(engine="sklearn", **{**SMALL, "n_estimators": 3}),
        CensoringWeightedRegressor(LeastSquaresRegressor()),
    ):
        for given in ({}, {"sample_weight": weight}):
            plain, with_event = (
                model.fit(few.X, few.time, **given, **extra).predict_interval(few.X)
                for extra in ({}, {"event": all_observed})
            )
            np.testing.assert_array_equal(plain, with_event)
    inner = LeastSquaresRegressor().fit(few.X, few.time, sample_weight=weight)
    np.testing.assert_array_equal(plain, inner.predict_interval(few.X))
    dist, y = Normal(few.loc, few.scale), np.log(few.time)
    plain, with_event = (
        IsotonicRecalibrator().fit(dist, y, event=event).transform(dist).interval(0.9)
        for event in (None, all_observed)
    )
    np.testing.assert_array_equal(plain, with_event)


@pytest.mark.parametrize("smooth", [False, True])
def test_recalibration_corrects_bias_and_scale_under_censoring(smooth):
    world = waiting_times(4000, 11)
    y, event = np.log(world.y), world.event
    wrong = Normal(world.loc + 0.3 * world.scale, 1.5 * world.scale)
    ignored = IsotonicRecalibrator(smooth=smooth).fit(wrong, y).transform(wrong)
    corrected = IsotonicRecalibrator(smooth=smooth).fit(wrong, y, event=event).transform(wrong)
    truth, target = crps_loss(np.log(world.time), world.log_truth), np.log(world.time)
    assert crps_loss(target, corrected) < 1.01 * truth < 1.2 * truth < crps_loss(target, ignored)
    assert covered(corrected, target) == pytest.approx(0.9, abs=0.02)
    # the same targets as intervals
    lower, upper = np.where(event, y, y - 0.1), np.where(event, y, np.inf)
    of_bounds = IsotonicRecalibrator(smooth=smooth).fit(wrong, y, lower=lower, upper=upper).transform(wrong)
    assert covered(of_bounds, target) == pytest.approx(0.9, abs=0.03)


def test_intervals_are_known_only_up_to_their_bounds(new):
    world = waiting_times(800, 4)
    # Each time is only known to lie between two visits, or after the last visit.
    visits = np.array([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, np.inf])
    place = np.searchsorted(visits, world.time)
    lower, upper = visits[place - 1], visits[place]
    y = np.where(np.isinf(upper), lower, upper)
    dist = boosting().fit(world.X, y, lower=lower, upper=upper).predict_dist(new.X)
    assert relative_crps(dist, new) < 1.2
    assert 0.86 <= covered(dist, new.time) <= 0.95


def test_units_of_time_and_logarithms_have_no_effect(few):
    def interval(y, family="lognormal"):
        model = CensoredBoostingRegressor(family, engine="sklearn", **SMALL)
        return model.fit(few.X, y, event=few.event).predict_interval(few.X)

    days = interval(few.y)
    np.testing.assert_allclose(interval(24 * few.y), 24 * days, rtol=1e-6)
    np.testing.assert_allclose(np.exp(interval(np.log(few.y), "normal")), days, rtol=1e-9)


def test_out_of_fold_distributions_do_not_know_their_rows(world):
    dist = boosting(cv=3, n_estimators=60).fit_transform(world.X, world.y, event=world.event)
    assert len(dist) == 1500
    low, high, estimate = interval_coverage_bounds(world.y, dist, event=world.event)
    assert low < 0.9 < high
    assert estimate == pytest.approx(0.9, abs=0.02)
    rows = np.arange(1500)
    with pytest.raises(ValueError, match="test every row exactly once"):
        boosting(cv=[(rows[:750], rows[750:])]).fit_transform(world.X, world.y, event=world.event)


def test_folds_may_test_rows_several_times(few):
    rows = np.arange(150)
    model = CensoredBoostingRegressor(engine="sklearn", **{**SMALL, "cv": [(rows[:75], rows[75:])] * 3})
    assert model.fit(few.X, few.y, few.time * 0 + 3, event=few.event).factor_ == 1.0


def test_jobs_and_missing_features(few):
    X = few.X.copy()
    X[::7, 0] = np.nan
    with joblib.parallel_config("threading"):  # starts at once
        intervals = [
            CensoredBoostingRegressor(engine="sklearn", n_jobs=n_jobs, **SMALL)
            .fit(X, few.y, event=few.event)
            .predict_interval(X)
            for n_jobs in (1, 2)
        ]
    assert np.isfinite(intervals[0]).all()
    np.testing.assert_array_equal(*intervals)


def test_events_are_routed_through_searches_and_pipelines(few):
    with sklearn.config_context(enable_metadata_routing=True):
        model = CensoredBoostingRegressor(engine="sklearn", **SMALL).set_fit_request(event=True)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), model),
            {"censoredboostingregressor__max_leaf_nodes": [2, 6]},
            scoring=get_scorer("neg_nll").set_score_request(event=True),
            cv=2,
            error_score="raise",
        ).fit(few.X, few.y, event=few.event)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        inner = LeastSquaresRegressor().set_fit_request(sample_weight=True)
        weighted = CensoringWeightedRegressor(inner).set_fit_request(event=True)
        routed = make_pipeline(StandardScaler(), weighted).fit(few.X, few.y, event=few.event)
    plain = make_pipeline(StandardScaler(), CensoringWeightedRegressor(LeastSquaresRegressor()))
    plain.fit(few.X, few.y, censoringweightedregressor__event=few.event)
    np.testing.assert_array_equal(routed.predict(few.X), plain.predict(few.X))


def test_events_and_censoring_times_are_routed_to_lower_bounds(few):
    model = ConformalSurvivalRegressor(
        CensoringWeightedRegressor(LeastSquaresRegressor()), threshold=3.0, random_state=0
    )
    given = {"event": few.event, "censoring_time": few.censoring}
    expected = clone(model).fit(few.X, few.y, **given).predict(few.X)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LeastSquaresRegressor().set_fit_request(sample_weight=True)
        weighted = CensoringWeightedRegressor(inner).set_fit_request(event=True, sample_weight=False)
        routed = clone(model).set_params(estimator=weighted)
        pipeline = make_pipeline("passthrough", routed.set_fit_request(event=True, censoring_time=True))
        np.testing.assert_array_equal(pipeline.fit(few.X, few.y, **given).predict(few.X), expected)


@pytest.mark.parametrize(
    "wrapper",
    [
        UncertaintyRegressor,
        ConformalRegressor,
        CrossConformalRegressor,
        lambda estimator: BootstrapRegressor(estimator, 8),
    ],
)
def test_wrappers_that_would_ignore_the_censoring_are_refused(few, wrapper):
    model = wrapper(CensoredBoostingRegressor(engine="sklearn", **{**SMALL, "n_estimators": 2, "cv": 2}))
    with pytest.raises(ValueError, match=r"would treat censored targets as observed.*RecalibratedRegressor"):
        model.fit(few.X, few.y, event=few.event)
    every = np.ones(150, dtype=bool)
    observed, plain = (
        clone(model).set_params(random_state=0).fit(few.X, few.time, **given).predict_interval(few.X[:9])
        for given in ({"event": every}, {})
    )
    np.testing.assert_array_equal(observed, plain)


def test_point_predictions_of_functionals_keep_the_events(few):
    base = CensoredBoostingRegressor(engine="sklearn", **SMALL)
    median = FunctionalRegressor(base, "median").fit(few.X, few.y, event=few.event).predict(few.X)
    expected = base.fit(few.X, few.y, event=few.event).predict_dist(few.X).median()
    np.testing.assert_array_equal(median, expected)


def test_recalibrated_regressors_pass_events_to_both(few):
    base = CensoredBoostingRegressor(engine="sklearn", recalibrate=False, **{**SMALL, "n_estimators": 5})
    model = RecalibratedRegressor(base, IsotonicRecalibrator(), cv=KFold(2), random_state=0)
    model.fit(few.X, few.y, event=few.event)
    ignoring = IsotonicRecalibrator().fit(base.fit_transform(few.X, few.y, event=few.event), few.y)
    assert model.recalibrators_[0].level_map_(np.array([0.5])) < ignoring.level_map_(np.array([0.5]))
    with pytest.raises(ValueError, match=r"StdScalingRecalibrator does not take it.*IsotonicRecalibrator"):
        RecalibratedRegressor(base, StdScalingRecalibrator(), cv=2).fit(few.X, few.y, event=few.event)
    scaling = RecalibratedRegressor(base, StdScalingRecalibrator(), cv=2, random_state=0)
    plain, observed = (
        scaling.fit(few.X, few.time, **given).predict_interval(few.X)
        for given in ({}, {"event": np.ones(150, dtype=bool)})
    )
    np.testing.assert_array_equal(plain, observed)


@pytest.fixture(scope="module")
def dependent():
    """Return times and censoring times that both depend on x. Noisy rows are censored early."""

    def draw(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(n, 2))
        time = np.exp(1 + X[:, 0] + (0.3 + 0.4 * X[:, 1]) * rng.normal(size=n))
        return X, time, (7 - 5 * X[:, 1]) * rng.uniform(0.3, 2.5, size=n)

    return draw


@pytest.mark.laws
def test_lower_bounds_cover(dependent):
    X, time, ends = dependent(3000, 0)
    X_new, new_time, _ = dependent(4000, 1)
    censoring = CensoredBoostingRegressor(engine="sklearn", cv=3, n_estimators=30)
    model = ConformalSurvivalRegressor(
        CensoringWeightedRegressor(LeastSquaresRegressor()), censoring, random_state=0
    )
    model.fit(X, np.minimum(time, ends), event=time <= ends, censoring_time=ends)
    bound = model.predict(X_new)
    assert np.mean(new_time >= bound) == pytest.approx(0.9, abs=0.03)
    assert bound.min() >= 0
    assert bound.max() <= model.threshold_
    assert np.quantile(ends, 0.05) < model.threshold_ < np.quantile(ends, 0.95)


def test_lower_bounds_with_independent_censoring_or_none(dependent):
    X, time, _ = dependent(1200, 2)
    ends = np.random.default_rng(0).uniform(1, 9, size=1200)
    model = ConformalSurvivalRegressor(
        CensoringWeightedRegressor(LeastSquaresRegressor()), threshold=5.0, random_state=0
    )
    model.fit(X, np.minimum(time, ends), event=time <= ends, censoring_time=ends)
    assert 0.88 < np.mean(time >= model.predict(X)) < 0.97
    free = ConformalSurvivalRegressor(LeastSquaresRegressor(), random_state=0).fit(X, time)
    assert np.mean(time >= free.predict(X)) == pytest.approx(0.9, abs=0.03)


def test_bad_input_of_lower_bounds(dependent):
    X, time, ends = dependent(60, 3)
    y, event = np.minimum(time, ends), time <= ends
    model = ConformalSurvivalRegressor(CensoringWeightedRegressor(LeastSquaresRegressor()), random_state=0)
    with pytest.raises(ValueError, match="`censoring_time` must be given"):
        model.fit(X, y, event=event)
    with pytest.raises(ValueError, match="`censoring_time` must be at least y"):
        model.fit(X, y, event=event, censoring_time=np.where(event, y - 0.1, y))
    with pytest.raises(ValueError, match="`y` must hold non-negative times"):
        model.fit(X, y - 5)
    with pytest.raises(ValueError, match=r"`coverage` of a lower bound must be above 0.5"):
        ConformalSurvivalRegressor(LeastSquaresRegressor(), coverage=0.4).fit(X, y)
    with pytest.raises(ValueError, match="`threshold` must be a time at which rows are uncensored, got 99"):
        model.set_params(threshold=99.0).fit(X, y, event=event, censoring_time=ends)
    with pytest.raises(NotProbabilisticError, match="`estimator` must give"):
        ConformalSurvivalRegressor(LinearRegression()).fit(X, y)
    partly = np.where(event & (np.arange(60) % 2 == 0), np.inf, ends)
    both = ConformalSurvivalRegressor(
        CensoringWeightedRegressor(LeastSquaresRegressor()), LeastSquaresRegressor(), random_state=0
    )
    with pytest.raises(ValueError, match="`censoring_time` must be finite if `censoring_estimator` is given"):
        both.fit(X, y, event=event, censoring_time=partly)


def test_lower_bounds_without_any_censoring_need_no_model_of_the_censoring(dependent):
    X, time, _ = dependent(200, 3)
    model = ConformalSurvivalRegressor(LeastSquaresRegressor(), LeastSquaresRegressor(), random_state=0)
    bound = model.fit(X, time, event=np.ones(200, dtype=bool)).predict(X)
    assert model.censoring_estimator_ is None
    np.testing.assert_array_equal(bound, model.set_params(censoring_estimator=None).fit(X, time).predict(X))


@pytest.fixture(scope="module")
def gbsg2():
    """Return the breast cancer data of scikit-survival as numbers, in two halves."""
    data = pytest.importorskip("sksurv.datasets")
    X, y = data.load_gbsg2()
    X = X.assign(
        tgrade=X["tgrade"].map({"I": 1, "II": 2, "III": 3}).astype(float),
        horTh=(X["horTh"] == "yes").astype(float),
        menostat=(X["menostat"] == "Pre").astype(float),
    )
    train = np.arange(len(X)) % 2 == 0
    return X[train], y[train], X[~train], y[~train]


def test_boosting_and_cox_regression_on_breast_cancer(gbsg2):
    linear = pytest.importorskip("sksurv.linear_model")
    X, y, X_new, y_new = gbsg2
    time, event = from_survival(y)
    new_time, new_event = from_survival(y_new)
    cox = linear.CoxPHSurvivalAnalysis().fit(X, y)
    assert supports_dist(cox)
    steps = predict_dist(cox, X_new)
    functions = cox.predict_survival_function(X_new)
    for t in (1000.0, functions[0].x[-1]):  # The probability of later times is not before the last time.
        np.testing.assert_allclose(steps.sf(t), [function(t) for function in functions], atol=1e-12)
    dist = boosting(cv=3).fit(X, time, event=event).predict_dist(X_new)
    scores = [ipcw_crps_loss(new_time, one, event=new_event, upper=2000.0) for one in (dist, steps)]
    assert scores[0] < 1.03 * scores[1]
    assert concordance_score(new_time, dist, event=new_event) > 0.63
    low, high, estimate = interval_coverage_bounds(new_time, dist, event=new_event)
    assert low < 0.9 < high
    assert estimate == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"event": np.zeros(150, dtype=bool)}, ValueError, "all 150 targets are censored"),
        ({"event": np.ones(150, dtype=int)}, TypeError, "`event` must be boolean.*int64"),
        ({"event": np.ones(3, dtype=bool)}, ValueError, "`event` must have 150 rows"),
        ({"event": None, "y": np.full(150, np.nan)}, ValueError, "y contains NaN"),
    ],
)
def test_bad_input_is_refused(few, change, error, message):
    boosting = CensoredBoostingRegressor(engine="sklearn", **SMALL)
    for model in (boosting, CensoringWeightedRegressor(LeastSquaresRegressor())):
        with pytest.raises(error, match=message):
            model.fit(**{"X": few.X, "y": few.y, "event": few.event, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": -1.0}, "`y` must hold non-negative times, got -1 at row 7"),
        ({"y": 0.0}, "`y` must be positive with family='lognormal', got 0 at row 7"),
        ({"upper": 0.01, "lower": 0.0}, r"`y` must lie between .* at row 7"),
        ({"upper": 0.1, "lower": 0.2}, "`lower` must not be above `upper`.*at row 7"),
        ({"upper": np.nan}, "`upper` must not contain NaN, got one at row 7"),
    ],
)
def test_bad_times_and_bounds_are_refused(few, change, message):
    columns = {"y": few.time.copy()}
    if "upper" in change:
        columns |= {"lower": few.time.copy(), "upper": few.time.copy()}
    for name, value in change.items():
        columns[name][7] = value
    with pytest.raises(ValueError, match=message):
        CensoredBoostingRegressor(engine="sklearn", **SMALL).fit(few.X, **columns)


def test_targets_without_events_are_refused(few):
    model = CensoredBoostingRegressor(engine="sklearn", **{**SMALL, "cv": KFold(3)})
    with pytest.raises(ValueError, match="in one fold, all are censored"):
        model.fit(few.X, few.y, event=np.arange(150) < 50)
    with pytest.raises(ValueError, match="`event` cannot be passed together"):
        model.fit(few.X, few.y, event=few.event, upper=few.y)
    with pytest.raises(ValueError, match="all 150 targets are censored"):
        model.fit(few.X, few.y, upper=np.full(150, np.inf))
    with pytest.raises(NotProbabilisticError, match="UncertaintyRegressor"):
        CensoringWeightedRegressor(LinearRegression()).fit(few.X, few.y, event=few.event)


def test_weights_of_the_boosting_count_repetitions(few):
    weight = np.arange(150) % 3
    rows = np.repeat(np.arange(150), weight)
    fold = np.arange(150) % 3 == np.arange(150) // 50
    splits = [
        [np.flatnonzero(~fold), np.flatnonzero(fold)],
        [np.flatnonzero(~fold[rows]), np.flatnonzero(fold[rows])],
    ]
    # Later rounds differ in a few rows, because rounding decides between equally good splits.
    settings = {**SMALL, "min_samples_leaf": 1, "n_estimators": 1}
    weighted, repeated = (
        CensoredBoostingRegressor(engine="sklearn", **{**settings, "cv": [split]})
        .fit(few.X[taken], few.y[taken], count, event=few.event[taken])
        .predict_interval(few.X)
        for split, taken, count in zip(splits, (slice(None), rows), (weight, None), strict=True)
    )
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


def test_a_missing_tail_gives_a_warning(few):
    model, event = CensoringWeightedRegressor(LeastSquaresRegressor()), few.event & (few.y < 1.5)
    with pytest.warns(SmallSampleWarning, match=r"represent only \d+% of all rows.*CensoredBoosting"):
        model.fit(few.X, few.y, event=event)


def test_rows_of_weight_zero_do_not_count(few):
    """And the rows may be data frames."""
    weight = np.r_[np.ones(140), np.zeros(10)]
    y = np.r_[few.y[:140], np.full(10, 99.0)]
    model = CensoringWeightedRegressor(LeastSquaresRegressor(), floor=0.0)
    X, event = pd.DataFrame(few.X, columns=list("abcdef")), pd.Series(few.event)
    weighted = model.fit(X, y, weight, event=event).predict(X)
    fewer = model.fit(few.X[:140], y[:140], event=few.event[:140]).predict(few.X)
    np.testing.assert_allclose(weighted, fewer)


def test_a_weight_of_infinity_is_refused(few):
    """The model of the censoring is certain that rows are censored before y."""

    class Early(LeastSquaresRegressor):
        def fit_transform(self, X, y, sample_weight=None, *, event=None):
            return Normal(y - 100.0, 1.0)

    model = CensoringWeightedRegressor(LeastSquaresRegressor(), Early(), floor=0.0, random_state=0)
    with pytest.raises(ValueError, match="the probability of being uncensored must be positive"):
        model.fit(few.X, few.y, event=few.event)
    with pytest.raises(ValueError, match=r"`floor` must lie in \[0, 1\], got 2"):
        model.set_params(floor=2).fit(few.X, few.y, event=few.event)
