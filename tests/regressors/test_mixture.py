"""A pool of several distributions: members, weights, recalibration, out-of-sample forecasts, defaults."""

import warnings
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, TargetEncoder
from sklearn.utils import get_tags

from skuq._fitting.cross_fit import cross_fit
from skuq._fitting.table import TableEncoder
from skuq.distributions import Mixture, Normal
from skuq.exceptions import NoDecompositionError, NotProbabilisticError
from skuq.metrics import crps_loss
from skuq.prediction import predict_dist, supports_dist
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import (
    BaseUncertaintyRegressor,
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    UncertaintyRegressor,
    _error_forest,
    _mixture,
    default_estimators,
)
from skuq.regressors import _default_estimators as module
from skuq.regressors import _mixture_pool as members_module
from skuq.regressors._mixture_pool import LinearPool
from tests.regressors.worlds import linear_world

FOLDS = KFold(4, shuffle=True, random_state=1)
CUBIC = make_pipeline(PolynomialFeatures(3), BayesianRidge())
TWO = [("line", LeastSquaresRegressor()), ("cubic", CUBIC)]


def bent_world(n, seed=0):
    """A target of which neither the line nor the step is the truth."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, X[:, 0] + 1.5 * (X[:, 1] > 0) + 0.3 * rng.normal(size=n)


def by_hand(X, y, members=TWO):
    """Out-of-fold forecasts of the members, in row order, and the pool of them."""
    forecasts = [cross_fit(member, X, y, cv=FOLDS).in_row_order(len(y)) for _, member in members]
    return forecasts, LinearPool.from_members(forecasts, y, np.ones(len(y)))


def test_weights_are_those_of_the_least_crps_of_out_of_fold_forecasts():
    X, y = bent_world(80)
    model = MixtureRegressor(TWO, recalibrator=None, cv=FOLDS).fit(X, y)
    _, pool = by_hand(X, y)
    np.testing.assert_allclose(model.weights_, pool.weights(np.ones(80, dtype=bool)), atol=1e-10)
    parts = [predict_dist(clone(member).fit(X, y), X) for _, member in TWO]
    pooled = Mixture(parts, model.weights_)
    np.testing.assert_allclose(model.predict_interval(X), pooled.interval(), rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), pooled.mean())


def test_fit_transform_takes_weights_and_recalibrator_from_the_other_folds():
    X, y = bent_world(80)
    forecasts, pool = by_hand(X, y)
    plain = MixtureRegressor(TWO, recalibrator=None, cv=FOLDS)
    recalibrated = MixtureRegressor(TWO, cv=FOLDS, recalibrator=StdScalingRecalibrator())
    plain_dist, recalibrated_dist = (model.fit_transform(X, y) for model in (plain, recalibrated))
    for train, test in FOLDS.split(X):
        mask = np.isin(np.arange(80), train)
        weights = pool.weights(mask)
        inside, outside = (
            Mixture([forecast[rows] for forecast in forecasts], weights) for rows in (test, train)
        )
        np.testing.assert_allclose(plain_dist[test].std(), inside.std())
        factor = StdScalingRecalibrator().fit(outside, y[train])
        np.testing.assert_allclose(recalibrated_dist[test].std(), factor.transform(inside).std())
    table, scores = plain.out_of_fold_crps_, plain_dist.crps(y)
    assert isinstance(table, pd.DataFrame)
    difference = forecasts[0].crps(y) - scores
    expected = [forecasts[0].crps(y).mean(), difference.mean(), difference.std(ddof=1) / np.sqrt(80)]
    np.testing.assert_allclose(table.loc["line"], expected, rtol=1e-6)
    np.testing.assert_allclose(table.loc["pool"], [scores.mean(), 0, 0])


def test_the_default_recalibrates_pools_with_estimated_weights_only():
    X, y = bent_world(80)

    def interval(**params):
        return MixtureRegressor(TWO, cv=FOLDS, **params).fit(X, y).predict_interval(X)

    smooth = IsotonicRecalibrator(smooth=True)
    np.testing.assert_array_equal(interval(), interval(recalibrator=smooth))
    plain = interval(recalibrator=None)
    np.testing.assert_array_equal(plain, interval(recalibrator=IdentityRecalibrator()))
    for weights in ("equal", [1, 2]):
        assert MixtureRegressor(TWO, weights=weights, cv=FOLDS).fit(X, y).recalibrator_ is None


def test_members_of_skuq_give_their_own_forecasts_unless_cv_is_a_splitter():
    X, y = bent_world(60)
    model = MixtureRegressor([("line", LeastSquaresRegressor())], recalibrator=None, random_state=0)
    np.testing.assert_allclose(
        model.fit_transform(X, y).mean(), LeastSquaresRegressor().fit_transform(X, y).mean()
    )
    model.set_params(cv=FOLDS)
    by_folds = cross_fit(LeastSquaresRegressor(), X, y, cv=FOLDS).in_row_order(60)
    np.testing.assert_allclose(model.fit_transform(X, y).mean(), by_folds.mean())


def test_given_weights_need_no_out_of_fold_forecasts():
    X, y = bent_world(60)
    equal = MixtureRegressor(TWO, weights="equal").fit(X, y)
    assert equal.weights_.tolist() == [0.5, 0.5]
    assert not hasattr(equal, "out_of_fold_crps_")
    given = MixtureRegressor(TWO, weights=[3, 1], recalibrator=StdScalingRecalibrator(), cv=3).fit(X, y)
    assert given.weights_.tolist() == [0.75, 0.25]
    assert given.out_of_fold_crps_.index.tolist() == ["line", "cubic", "pool"]
    assert not hasattr(given.set_params(recalibrator=None).fit(X, y), "out_of_fold_crps_")


def test_rows_that_are_tested_several_times_count_once():
    X, y = bent_world(100)
    model = MixtureRegressor(TWO, recalibrator=IsotonicRecalibrator(), cv=FOLDS).fit(X, y)
    weights, table, dist = model.weights_, model.out_of_fold_crps_, model.predict_dist(X)
    model.set_params(cv=list(FOLDS.split(X)) * 5).fit(X, y)
    np.testing.assert_allclose(model.weights_, weights)
    np.testing.assert_allclose(model.out_of_fold_crps_, table)
    np.testing.assert_allclose(model.predict_dist(X).quantile(0.9), dist.quantile(0.9))


@pytest.mark.parametrize("combine", ["linear", "quantiles"])
@pytest.mark.parametrize("unit", [1e-90, 1e90])
def test_units_of_the_target_do_not_matter(combine, unit):
    X, y = bent_world(80)
    members = [("dummy", _WithSpread(DummyRegressor())), ("line", _WithSpread(Ridge()))]
    model = MixtureRegressor(members, combine=combine, cv=FOLDS)
    weights, table = (fitted := model.fit(X, y)).weights_, fitted.out_of_fold_crps_
    model.fit(X, unit * y)
    np.testing.assert_allclose(model.weights_, weights, atol=1e-3)
    np.testing.assert_allclose(model.out_of_fold_crps_ / unit, table, rtol=1e-3)
    assert table["standard_error"]["dummy"] > 0


def test_members_of_weight_0_are_left_out_of_predictions():
    X, y = bent_world(60)
    finished = clone(CUBIC).fit(X, y)
    members = [*TWO, ("finished", FrozenEstimator(finished))]
    model = MixtureRegressor(members, weights=[1, 1, 0]).fit(X, y)
    assert len(model.predict_dist(X).components) == 2
    single = MixtureRegressor(members, weights=[0, 0, 1]).fit(X[:40], y[:40])
    np.testing.assert_array_equal(single.predict(X), finished.predict(X))


def test_a_pool_is_no_worse_than_its_better_member_where_each_sees_a_part():
    X, y = bent_world(300)
    members = [("line", BayesianRidge()), ("forest", ForestDistributionRegressor(RandomForestRegressor(30)))]
    X_new, y_new = bent_world(300, seed=1)
    model = MixtureRegressor(members, random_state=0).fit(X, y)
    scores = [crps_loss(y_new, predict_dist(one, X_new)) for one in model.estimators_]
    assert crps_loss(y_new, model.predict_dist(X_new)) < 1.01 * min(scores)


def test_members_are_parameters():
    model = MixtureRegressor(TWO)
    assert model.get_params()["cubic__bayesianridge__alpha_1"] == 1e-6
    assert "cubic" not in model.get_params(deep=False)
    model.set_params(cubic__bayesianridge__alpha_1=1.0, line=BayesianRidge())
    assert isinstance(model.get_params()["line"], BayesianRidge)
    assert clone(model).get_params()["cubic__bayesianridge__alpha_1"] == 1.0


def test_a_dropped_member_is_left_out():
    X, y = bent_world(60)
    model = MixtureRegressor([*TWO, ("other", BayesianRidge())], weights=[1, 5, 3])
    model.set_params(cubic="drop").fit(X, y)
    assert model.weights_.tolist() == [0.25, 0.75]
    assert len(model.estimators_) == 2
    assert model.named_estimators_["cubic"] == "drop"
    assert model.named_estimators_.line is model.estimators_[0]
    search = GridSearchCV(model, {"cubic": ["drop", CUBIC], "weights": ["crps"]}, cv=3, error_score="raise")
    assert search.fit(X, y).best_estimator_.predict(X).shape == (60,)


def test_epistemic_uncertainty_includes_the_spread_between_members():
    X, y = bent_world(80)
    model = MixtureRegressor(TWO, weights=[0.25, 0.75]).fit(X, y)
    dist = model.predict_dist(X)
    parts = [predict_dist(one, X) for one in model.estimators_]
    within = 0.25 * parts[0].epistemic().var() + 0.75 * parts[1].epistemic().var()
    between = 0.25 * 0.75 * (parts[0].mean() - parts[1].mean()) ** 2
    np.testing.assert_allclose(dist.epistemic().var(), within + between)
    np.testing.assert_allclose(dist.epistemic().var() + dist.aleatoric().var(), dist.var())
    residual = MixtureRegressor([*TWO, ("residual", UncertaintyRegressor(Ridge()))], weights="equal").fit(
        X, y
    )
    with pytest.raises(NoDecompositionError):
        residual.predict_dist(X).epistemic()


def test_a_recalibrator_narrows_a_pool_of_calibrated_members_that_disagree():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = X.sum(axis=1) + 0.3 * rng.normal(size=2000)
    members = [
        (name, make_pipeline(_Column(column), LeastSquaresRegressor()))
        for name, column in (("left", 0), ("right", 1))
    ]
    coverage = []
    for recalibrator in (None, StdScalingRecalibrator(objective="coverage")):
        model = MixtureRegressor(members, recalibrator=recalibrator, random_state=0).fit(X[:1000], y[:1000])
        low, high = model.predict_interval(X[1000:]).T
        coverage.append(np.mean((low <= y[1000:]) & (y[1000:] <= high)))
    assert coverage[0] > 0.92
    assert abs(coverage[1] - 0.9) < 0.02


class _Column(StandardScaler):
    """One column of X."""

    def __init__(self, column=0):
        super().__init__()
        self.column = column

    def fit(self, X, y=None):
        return super().fit(X[:, [self.column]])

    def transform(self, X):
        return super().transform(X[:, [self.column]])


class _WithSpread(BaseUncertaintyRegressor):
    """A point model and the mean size of its residuals."""

    def __init__(self, estimator):
        self.estimator = estimator

    def _fit(self, data, progress):
        self.estimator_ = clone(self.estimator).fit(data.X, data.y)
        self.scale_ = np.abs(data.y - self.estimator_.predict(data.X)).mean()

    def _predict_dist(self, X):
        return Normal(self.estimator_.predict(X), self.scale_)


def test_any_splitter_will_do_for_fit_and_a_partition_for_fit_transform():
    X, y = bent_world(60)
    for cv in (TimeSeriesSplit(3), [(np.arange(40), np.arange(40, 60))], None):
        model = MixtureRegressor(TWO, cv=cv, random_state=0).fit(X, y)
        assert model.weights_.sum() == pytest.approx(1)
        assert np.isfinite(model.out_of_fold_crps_).all(axis=None)
    with pytest.raises(ValueError, match="must test every row exactly once"):
        MixtureRegressor(TWO, cv=TimeSeriesSplit(3)).fit_transform(X, y)
    with pytest.raises(ValueError, match="at least 2 folds"):
        MixtureRegressor(TWO, cv=[(np.arange(60), np.arange(60))]).fit_transform(X, y)


def test_groups_go_to_the_splitter():
    X, y = bent_world(60)
    groups = np.repeat(np.arange(12), 5)
    model = MixtureRegressor(TWO, cv=GroupKFold(3)).fit(X, y, groups=groups)
    folds = list(GroupKFold(3).split(X, y, groups))
    np.testing.assert_array_equal(model.weights_, MixtureRegressor(TWO, cv=folds).fit(X, y).weights_)
    with pytest.raises(ValueError, match=r"does not use groups\. Remedy: pass cv=GroupKFold"):
        MixtureRegressor(TWO).fit(X, y, groups=groups)
    with config_context(enable_metadata_routing=True):
        routed = MixtureRegressor(TWO, cv=GroupKFold(3)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(model.weights_, routed.weights_)


def test_sample_weights_reach_members_pool_and_recalibrator():
    X, y = linear_world(60)
    y[:20] += 30
    weight = np.where(np.arange(60) < 20, 0.0, 1.0)
    members = [("line", LeastSquaresRegressor()), ("twin", LeastSquaresRegressor())]
    model = MixtureRegressor(members, cv=FOLDS, recalibrator=StdScalingRecalibrator())
    weighted = model.fit(X, y, sample_weight=weight).predict_dist(X)
    np.testing.assert_allclose(weighted.mean(), LeastSquaresRegressor().fit(X[20:], y[20:]).predict(X))
    assert weighted.std().max() < 2
    assert model.out_of_fold_crps_["crps"].max() < 2
    with pytest.raises(ValueError, match="`fit` of KNeighborsRegressor does not accept weights"):
        MixtureRegressor([("near", UncertaintyRegressor(KNeighborsRegressor()))]).fit(
            X, y, sample_weight=weight
        )
    with pytest.raises(ValueError, match="sum"):
        MixtureRegressor(members).fit(X, y, sample_weight=weight / 100)


def test_metadata_routing_gives_each_member_what_it_requests():
    X, y = linear_world(60)
    weight = np.where(np.arange(60) < 20, 0.0, 1.0)
    y[:20] += 30
    with config_context(enable_metadata_routing=True):
        ridges = [BayesianRidge().set_fit_request(sample_weight=request) for request in (True, False)]
        members = list(zip(("with", "without"), ridges, strict=True))
        model = MixtureRegressor(members, weights="equal").fit(X, y, sample_weight=weight)
    with_weights, without = model.estimators_
    np.testing.assert_allclose(with_weights.predict(X), BayesianRidge().fit(X, y, weight).predict(X))
    np.testing.assert_allclose(without.predict(X), BayesianRidge().fit(X, y).predict(X))


PLAIN = LeastSquaresRegressor()
BAD = [
    ({"estimators": []}, ValueError, "`estimators` must be a non-empty list"),
    ({"estimators": PLAIN}, ValueError, "`estimators` must be a non-empty list .* got LeastSquaresRegressor"),
    ({"estimators": [PLAIN, PLAIN]}, ValueError, r"must be a list of pairs \(name, estimator\)"),
    ({"estimators": [("a", PLAIN), ("a", PLAIN)]}, ValueError, "not unique"),
    ({"estimators": [("cv", PLAIN)]}, ValueError, "conflict with constructor arguments"),
    ({"estimators": [("splitter", PLAIN)]}, ValueError, "must not contain the name 'splitter'"),
    ({"estimators": [("a", "drop")]}, ValueError, "at least one member that is not 'drop'"),
    ({"estimators": [("a", LeastSquaresRegressor)]}, TypeError, "got the class LeastSquaresRegressor as 'a'"),
    ({"estimators": [("a", "keep")]}, TypeError, "must contain only regressors or 'drop', got 'keep'"),
    ({"estimators": [("a", Ridge())]}, NotProbabilisticError, r"'a' .Ridge. gives none. Wrap it: Unc"),
    ({"weights": "best"}, ValueError, "`weights` must be one of 'crps', 'equal'"),
    ({"weights": [1.0]}, ValueError, r"`weights` must have shape \(2,\), one per member, got \(1,\)"),
    ({"weights": [1.0, -1.0]}, ValueError, "`weights` must be non-negative"),
    ({"combine": "mean"}, ValueError, "`combine` must be one of 'linear', 'quantiles'"),
    ({"recalibrator": "isotonic"}, TypeError, "`recalibrator` must be a recalibrator"),
    ({"cv": 1}, ValueError, "`cv` must be at least 2"),
]


@pytest.mark.parametrize(("params", "error", "message"), BAD)
def test_bad_parameters_get_a_clear_error(params, error, message):
    X, y = bent_world(20)
    with pytest.raises(error, match=message):
        MixtureRegressor(**{"estimators": TWO, **params}).fit(X, y)


@pytest.mark.laws
def test_a_pool_of_real_data_is_no_worse_than_its_better_member(shared_data):
    data = shared_data("gal/gal_boston")
    data = data.sample(frac=1.0, random_state=0)
    X, y = data.iloc[:, :-1].to_numpy(float), data.iloc[:, -1].to_numpy(float)
    members = [
        ("ridge", BayesianRidge()),
        ("forest", ForestDistributionRegressor(RandomForestRegressor(60))),
        ("quadratic", make_pipeline(StandardScaler(), PolynomialFeatures(2), BayesianRidge())),
    ]
    model = MixtureRegressor(members, random_state=0).fit(X[:350], y[:350])
    scores = [crps_loss(y[350:], predict_dist(one, X[350:])) for one in model.estimators_]
    assert crps_loss(y[350:], model.predict_dist(X[350:])) < min(scores)
    low, high = model.predict_interval(X[350:]).T
    assert 0.85 < np.mean((low <= y[350:]) & (y[350:] <= high)) < 0.99


class FailsWithoutLargestRow(BayesianRidge):
    """Fails on training rows without the one whose first feature is the largest."""

    def fit(self, X, y, sample_weight=None):
        if X[:, 0].max() < 100:
            raise ValueError("the largest row is missing.")
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_member_that_fails_in_one_fold_is_named_with_the_fold(n_jobs):
    X, y = bent_world(60)
    X[7, 0] = 100.0
    number = 1 + next(k for k, (_, test) in enumerate(FOLDS.split(X)) if 7 in test)
    members = [*TWO, ("weak", FailsWithoutLargestRow())]
    with (
        pytest.raises(ValueError, match="the largest row is missing") as caught,
        parallel_config("threading"),
    ):
        MixtureRegressor(members, cv=FOLDS, n_jobs=n_jobs).fit(X, y)
    notes = " ".join(caught.value.__notes__)
    assert "in the member 'weak'" in notes
    assert f"fold {number} of 4" in notes


@pytest.mark.parametrize("weights", ["crps", "equal"])
@pytest.mark.parametrize("recalibrator", ["auto", None])
def test_the_first_error_is_raised_if_all_members_fail(weights, recalibrator):
    X, y = bent_world(60)
    members = [("first", FailsWithoutLargestRow()), ("second", FailsWithoutLargestRow())]
    model = MixtureRegressor(members, weights=weights, recalibrator=recalibrator, cv=FOLDS)
    with pytest.raises(ValueError, match="the largest row is missing") as caught:
        model.fit(X, y)
    assert "in the member 'first'" in " ".join(caught.value.__notes__)
    with pytest.raises(NotFittedError):
        model.predict_dist(X)


ROUNDS = "n_estimators" if find_spec("lightgbm") else "max_iter"
needs_networks = pytest.mark.skipif(not module.has_networks(), reason="needs torch and skorch")


@pytest.fixture(scope="module", autouse=True)
def packages():
    """Import optional packages, whose time belongs to no test."""
    for name in ("lightgbm", "torch", "skorch"):
        if find_spec(name):
            import_module(name)


@pytest.fixture
def small(monkeypatch):
    """Make the default members small; with networks if they are installed."""
    real = default_estimators
    sizes = {
        "boosting": {f"model__estimator__{ROUNDS}": 5, "model__cv": 2},
        "forest": {"model__estimator__n_estimators": 50},
        "gaussian_process": {"model__cv": 2},
        "deep_ensemble": {"n_estimators": 3, "max_epochs": 3},
        "plain_ensemble": {"n_estimators": 4, "max_epochs": 3},
    }

    def small_estimators(random_state=None):
        return [(name, one.set_params(**sizes[name])) for name, one in real(random_state)]

    monkeypatch.setattr(_mixture, "default_estimators", small_estimators)
    monkeypatch.setattr(_error_forest, "N_TREES", (20, 10))


@pytest.fixture(scope="module")
def table():
    """Return a table as it comes: words, categories, dates with a time zone, missing and constant columns."""
    rng = np.random.default_rng(0)
    n = 90
    X = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "word": rng.choice(["red", "green", "blue"], n),
            "date": pd.date_range("2026-01-01", periods=n, freq="D", tz="Europe/Berlin"),
            "category": pd.Categorical(rng.choice(["u", "v"], n)),
            "empty": np.nan,
            "constant": 1.0,
        }
    )
    y = X["number"].to_numpy() + 2 * (X["word"] == "red") + 0.3 * rng.normal(size=n)
    X.loc[::7, "number"] = np.nan
    X.loc[::9, "word"] = None
    return X, y


def test_each_kind_gives_a_distribution(monkeypatch):
    estimators = default_estimators()
    networks = ["deep_ensemble", "plain_ensemble"] if module.has_networks() else []
    assert [name for name, _ in estimators] == ["boosting", "forest", "gaussian_process", *networks]
    assert [name for name, _ in default_estimators(effort="low")] == [name for name, _ in estimators[:3]]
    assert all(supports_dist(one) for _, one in estimators)
    monkeypatch.setattr(module, "find_spec", lambda name: None)  # without LightGBM
    boosting = default_estimators()[0][1]["model"].estimator
    assert isinstance(boosting, HistGradientBoostingRegressor)


def test_seeds_are_drawn_from_a_random_state():
    def seeds_of(state):
        models = [getattr(one, "named_steps", {}).get("model", one) for _, one in default_estimators(state)]
        return [model.random_state for model in models]

    seeds = [seeds_of(state) for state in (0, 0, 1, None)]
    assert seeds[0] == seeds[1] != seeds[2]
    assert set(seeds[3]) == {None}
    with pytest.raises(ValueError, match="`random_state`"):
        default_estimators("zero")
    with pytest.raises(ValueError, match="`effort` must be one of 'low', 'standard'"):
        default_estimators(effort="high")


def test_the_default_pool_takes_a_table_as_it_comes(small, table):
    X, y = table
    model = MixtureRegressor(cv=2, random_state=0)
    assert "MixtureRegressor(cv=2, random_state=0)" in repr(model.fit(X, y))
    assert list(model.named_estimators_) == [name for name, _ in default_estimators()]
    assert model.weights_.sum() == pytest.approx(1)
    assert list(model.feature_names_in_) == list(X.columns)
    new = X[:5].copy()
    new.loc[0, ["word", "number"]] = ["never seen", np.nan]
    assert np.isfinite(model.predict_interval(new)).all()
    assert get_tags(model).input_tags.allow_nan


DAYS = pd.date_range("2026-01-01", periods=60, freq="D")
ONE_NUMBER, ONE_WORD = {"a": np.ones(60)}, {"a": ["x"] * 60}
ZONES = [day.tz_localize(("Europe/Berlin", "America/New_York")[k % 2]) for k, day in enumerate(DAYS)]


@pytest.mark.parametrize(
    ("columns", "of_new_rows"),
    [
        ({"a": np.full(60, np.nan), "b": [None] * 60}, {"a": [1.0], "b": ["x"]}),
        pytest.param(ONE_NUMBER, {"a": [2.0]}, marks=pytest.mark.laws),
        pytest.param(ONE_NUMBER, {"a": [np.nan]}, marks=pytest.mark.laws),
        (ONE_WORD, {"a": ["never seen"]}),
        pytest.param({"a": DAYS.tz_localize("Europe/Berlin")}, {"a": DAYS[:1]}, marks=pytest.mark.laws),
        pytest.param({"a": DAYS}, {"a": DAYS[:1].tz_localize("America/New_York")}, marks=pytest.mark.laws),
        ({"a": pd.Series(ZONES, dtype=object)}, {"a": [pd.NaT]}),
    ],
    ids=["all missing", "one number", "one number, missing", "one word", "zone", "no zone", "many zones"],
)
def test_columns_without_information_and_time_zones(small, columns, of_new_rows):
    X, new = pd.DataFrame(columns), pd.DataFrame(of_new_rows)
    y = np.random.default_rng(0).normal(size=60)
    model = MixtureRegressor(cv=2, random_state=0).fit(X, y)
    interval = model.predict_interval(pd.concat([X[:1].astype(object), new.astype(object)]))
    assert np.isfinite(interval).all()
    if X["a"].nunique() < 2:  # a column of one value, or without values, has no effect
        np.testing.assert_allclose(interval[0], interval[1])


def test_without_torch_the_pool_has_no_networks_and_warns(small, table, monkeypatch):
    monkeypatch.setattr(module, "has_networks", lambda: False)
    monkeypatch.setattr(_mixture, "has_networks", lambda: False)
    assert [name for name, _ in default_estimators()] == ["boosting", "forest", "gaussian_process"]
    X, y = table
    with pytest.warns(UserWarning, match="contain no networks, because torch or skorch is not installed"):
        model = MixtureRegressor(cv=2, random_state=0).fit(X, y)
    assert len(model.estimators_) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        MixtureRegressor(_mixture.default_estimators(), cv=2, random_state=0).fit(X, y)


@needs_networks
def test_both_parts_of_uncertainty_without_boosting(small, table):
    X, y = table
    model = MixtureRegressor(_mixture.default_estimators(), random_state=0, weights="equal").fit(X, y)
    with pytest.raises(NoDecompositionError):
        model.predict_dist(X).epistemic()
    dist = model.set_params(boosting="drop", gaussian_process="drop").fit(X, y).predict_dist(X)
    assert (dist.epistemic().std() < dist.std()).all()


def test_a_pipeline_keeps_the_out_of_fold_forecasts_of_its_last_step():
    forest = UncertaintyRegressor(RandomForestRegressor(50))
    assert members_module._has_own_folds(forest)
    assert members_module._has_own_folds(make_pipeline(TableEncoder("codes"), "passthrough", forest))
    assert not members_module._has_own_folds(make_pipeline(TableEncoder("numbers"), BayesianRidge()))
    for transformer in (TargetEncoder(), SelectKBest(), StandardScaler()):
        assert not members_module._has_own_folds(make_pipeline(transformer, forest))


def test_a_pipeline_as_member_equals_its_last_step_where_the_first_changes_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80)
    forest = UncertaintyRegressor(RandomForestRegressor(50, random_state=0), random_state=0)
    boosting = UncertaintyRegressor(HistGradientBoostingRegressor(max_iter=5), cv=2, random_state=0)
    plain = MixtureRegressor([("forest", forest), ("boosting", boosting)], random_state=0)
    members = [(name, make_pipeline("passthrough", one)) for name, one in plain.estimators]
    chained = MixtureRegressor(members, random_state=0)
    plain.fit(X, y)
    chained.fit(X, y)
    np.testing.assert_array_equal(plain.weights_, chained.weights_)
    np.testing.assert_array_equal(plain.predict_interval(X), chained.predict_interval(X))


def test_members_that_cannot_be_cloned_raise_with_their_name():
    class Copies(BayesianRidge):
        def __init__(self, columns=()):
            super().__init__()
            self.columns = columns

        def get_params(self, deep=True):
            return {"columns": list(self.columns)}

    with pytest.raises(TypeError, match=r"`columns` of Copies must be a tuple, got a list") as caught:
        MixtureRegressor([("first", BayesianRidge()), ("second", Copies([0]))]).fit(*linear_world(40))
    assert caught.value.__notes__ == ["Raised in member 'second'."]
