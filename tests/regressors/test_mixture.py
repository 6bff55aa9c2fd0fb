"""A pool of several distributions: members, weights, recalibration and out-of-sample forecasts."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skuq._fitting.cross_fit import cross_fit
from skuq.distributions import Mixture, Normal, concat
from skuq.exceptions import NoDecompositionError, NotProbabilisticError
from skuq.metrics import crps_loss
from skuq.prediction import predict_dist
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import (
    BaseUncertaintyRegressor,
    ForestDistributionRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    UncertaintyRegressor,
)
from skuq.regressors._pool.criterion import LinearPool
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
    assert plain.out_of_fold_crps_.loc["pool", "crps"] == pytest.approx(plain_dist.crps(y).mean())


def test_the_default_recalibrates_pools_with_estimated_weights_only():
    X, y = bent_world(80)
    default = MixtureRegressor(TWO, cv=FOLDS).fit(X, y)
    named = MixtureRegressor(TWO, cv=FOLDS, recalibrator=IsotonicRecalibrator(smooth=True)).fit(X, y)
    assert default.recalibrator_.smooth
    np.testing.assert_array_equal(default.predict_interval(X), named.predict_interval(X))
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
    fits = []

    class Counting(BayesianRidge):
        def fit(self, X, y, sample_weight=None):
            fits.append(len(y))
            return super().fit(X, y, sample_weight)

    members = [("counting", Counting()), ("line", LeastSquaresRegressor())]
    equal = MixtureRegressor(members, weights="equal").fit(X, y)
    assert equal.weights_.tolist() == [0.5, 0.5]
    assert fits == [60]
    assert not hasattr(equal, "out_of_fold_crps_")
    given = MixtureRegressor(members, weights=[3, 1], recalibrator=StdScalingRecalibrator(), cv=3).fit(X, y)
    assert given.weights_.tolist() == [0.75, 0.25]
    assert fits == [60, 40, 40, 40, 60]
    assert given.out_of_fold_crps_.index.tolist() == ["counting", "line", "pool"]
    assert not hasattr(given.set_params(recalibrator=None).fit(X, y), "out_of_fold_crps_")


def test_the_table_of_scores_has_standard_errors_of_the_differences():
    X, y = bent_world(80)
    model = MixtureRegressor(TWO, recalibrator=None, cv=FOLDS)
    scores = model.fit_transform(X, y).crps(y)
    forecasts, _ = by_hand(X, y)
    difference = forecasts[0].crps(y) - scores
    found = model.out_of_fold_crps_
    assert isinstance(found, pd.DataFrame)
    expected = [forecasts[0].crps(y).mean(), difference.mean(), difference.std(ddof=1) / np.sqrt(80)]
    np.testing.assert_allclose(
        found.loc["line", ["crps", "difference", "standard_error"]], expected, rtol=1e-6
    )
    assert found.loc["pool", ["difference", "standard_error"]].tolist() == [0, 0]


def test_rows_that_are_tested_several_times_count_once():
    X, y = bent_world(100)
    model = MixtureRegressor(TWO, recalibrator=IsotonicRecalibrator(), cv=FOLDS).fit(X, y)
    weights, table, dist = model.weights_, model.out_of_fold_crps_, model.predict_dist(X)
    model.set_params(cv=list(FOLDS.split(X)) * 5).fit(X, y)
    np.testing.assert_allclose(model.weights_, weights)
    np.testing.assert_allclose(model.out_of_fold_crps_, table)
    np.testing.assert_allclose(model.predict_dist(X).quantile(0.9), dist.quantile(0.9))


@pytest.mark.parametrize("combine", ["linear", "quantiles"])
@pytest.mark.parametrize("unit", [1e-200, 1e200])
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
    model = MixtureRegressor([*TWO, ("other", BayesianRidge())], weights=[1, 1, 0]).fit(X, y)
    assert len(model.predict_dist(X).components) == 2
    single = MixtureRegressor(TWO, weights=[0, 1]).fit(X, y)
    np.testing.assert_array_equal(single.predict(X), clone(CUBIC).fit(X, y).predict(X))


def test_a_pool_is_no_worse_than_its_better_member_where_each_sees_a_part():
    X, y = bent_world(300)
    members = [("line", BayesianRidge()), ("forest", UncertaintyRegressor(RandomForestRegressor(60)))]
    X_new, y_new = bent_world(1000, seed=1)
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


@pytest.mark.parametrize(("combine", "n_jobs"), [("linear", 2), ("quantiles", 1)])
def test_jobs_and_seeds_change_no_bit(combine, n_jobs):
    X, y = bent_world(60)
    members = [
        ("forest", ForestDistributionRegressor(RandomForestRegressor(30))),
        ("ridge", UncertaintyRegressor(Ridge(), cv=3)),
        ("bayes", BayesianRidge()),
    ]
    models = [
        MixtureRegressor(members, combine=combine, cv=3, n_jobs=jobs, random_state=3).fit(X, y)
        for jobs in (None, n_jobs)
    ]
    np.testing.assert_array_equal(*(model.weights_ for model in models))
    np.testing.assert_array_equal(*(model.predict_interval(X) for model in models))
    pd.testing.assert_frame_equal(*(model.out_of_fold_crps_ for model in models))


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
        members = [
            ("with", BayesianRidge().set_fit_request(sample_weight=True)),
            ("without", BayesianRidge().set_fit_request(sample_weight=False)),
        ]
        model = MixtureRegressor(members, weights="equal").fit(X, y, sample_weight=weight)
    with_weights, without = model.estimators_
    np.testing.assert_allclose(with_weights.predict(X), BayesianRidge().fit(X, y, weight).predict(X))
    np.testing.assert_allclose(without.predict(X), BayesianRidge().fit(X, y).predict(X))
    with pytest.raises(TypeError, match=r"does not accept the parameters \['color'\]"):
        MixtureRegressor(TWO).fit(X, y, color="red")


def test_a_finished_member_is_not_refitted():
    X, y = bent_world(80)
    finished = BayesianRidge().fit(X[:40], y[:40])
    members = [("frozen", FrozenEstimator(finished)), ("line", LeastSquaresRegressor())]
    model = MixtureRegressor(members, cv=FOLDS).fit(X[40:], y[40:])
    np.testing.assert_array_equal(model.estimators_[0].predict(X), finished.predict(X))


def test_a_constant_target_is_certain():
    X = np.arange(20.0).reshape(-1, 1)
    model = MixtureRegressor([("dummy", DummyRegressor()), ("line", LeastSquaresRegressor())], random_state=0)
    dist = model.fit(X, np.full(20, 3.0)).predict_dist(X)
    np.testing.assert_allclose(dist.mean(), 3.0)
    np.testing.assert_allclose(dist.std(), 0.0, atol=1e-6)


def test_identity_is_no_recalibration():
    X, y = bent_world(60)
    plain = MixtureRegressor(TWO, recalibrator=None, cv=FOLDS).fit(X, y).predict_dist(X)
    same = MixtureRegressor(TWO, cv=FOLDS, recalibrator=IdentityRecalibrator()).fit(X, y).predict_dist(X)
    np.testing.assert_array_equal(plain.std(), same.std())
    stacked = concat([plain, same])
    assert stacked.epistemic().std().shape == (120,)


PLAIN = LeastSquaresRegressor()
BAD = [
    ({"estimators": []}, ValueError, "`estimators` must be a non-empty list"),
    ({"estimators": PLAIN}, ValueError, "`estimators` must be a non-empty list .* got LeastSquaresRegressor"),
    ({"estimators": [PLAIN, PLAIN]}, ValueError, r"must be a list of pairs \(name, estimator\)"),
    ({"estimators": [("a", PLAIN), ("a", PLAIN)]}, ValueError, "not unique"),
    ({"estimators": [("a__b", PLAIN)]}, ValueError, "must not contain __"),
    ({"estimators": [("cv", PLAIN)]}, ValueError, "conflict with constructor arguments"),
    ({"estimators": [("splitter", PLAIN)]}, ValueError, "must not contain the name 'splitter'"),
    ({"estimators": [("a", "drop")]}, ValueError, "at least one member that is not 'drop'"),
    ({"estimators": [("a", LeastSquaresRegressor)]}, TypeError, "got the class LeastSquaresRegressor as 'a'"),
    ({"estimators": [("a", "keep")]}, TypeError, "must contain only regressors or 'drop', got 'keep'"),
    ({"estimators": [("a", Ridge())]}, NotProbabilisticError, r"'a' .Ridge. gives none. Wrap it: Unc"),
    ({"weights": "best"}, ValueError, "`weights` must be one of 'crps', 'equal'"),
    ({"weights": [1.0]}, ValueError, r"`weights` must have shape \(2,\), one per member, got \(1,\)"),
    ({"weights": [1.0, -1.0]}, ValueError, "`weights` must be non-negative"),
    ({"weights": [0.0, 0.0]}, ValueError, "`weights` must have a positive sum"),
    ({"weights": [np.nan, 1.0]}, ValueError, "`weights` must"),
    ({"combine": "mean"}, ValueError, "`combine` must be one of 'linear', 'quantiles'"),
    ({"recalibrator": "isotonic"}, TypeError, "`recalibrator` must be a recalibrator"),
    ({"cv": 1}, ValueError, "`cv` must be at least 2"),
]


@pytest.mark.parametrize(("params", "error", "message"), BAD)
def test_bad_parameters_get_a_clear_error(params, error, message):
    X, y = bent_world(20)
    with pytest.raises(error, match=message):
        MixtureRegressor(**{"estimators": TWO, **params}).fit(X, y)


def test_an_error_of_a_member_names_it():
    X, y = bent_world(20)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN") as caught:
        MixtureRegressor(TWO).fit(X, y)
    assert "Raised in the member 'line'." in caught.value.__notes__


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


class FailingRegressor(BayesianRidge):
    """Fails on fits of fewer than `at_least` rows, which all fits or only fits of folds have."""

    def __init__(self, at_least=0):
        super().__init__()
        self.at_least = at_least

    def fit(self, X, y, sample_weight=None):
        if len(y) < self.at_least:
            raise ValueError("too few rows for this model.")
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("at_least", [1000, 60])
def test_a_member_that_fails_is_named(at_least):
    X, y = bent_world(60)
    members = [("line", LeastSquaresRegressor()), ("weak", FailingRegressor(at_least))]
    with pytest.raises(ValueError, match="too few rows for this model") as caught:
        MixtureRegressor(members, cv=FOLDS).fit(X, y)
    notes = " ".join(caught.value.__notes__)
    assert "in the member 'weak'" in notes
    assert "fold 1 of 4" in notes


class FailsWithoutLargestRow(BayesianRidge):
    """Fails on the training rows of the fold that tests the row with the largest first feature."""

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
    with pytest.raises(ValueError, match="the largest row is missing") as caught:
        MixtureRegressor(members, cv=FOLDS, n_jobs=n_jobs).fit(X, y)
    notes = " ".join(caught.value.__notes__)
    assert "in the member 'weak'" in notes
    assert f"fold {number} of 4" in notes


@pytest.mark.parametrize("weights", ["crps", "equal"])
@pytest.mark.parametrize("recalibrator", ["auto", None])
def test_the_first_error_is_raised_if_all_members_fail(weights, recalibrator):
    X, y = bent_world(60)
    members = [("first", FailingRegressor(1000)), ("second", FailingRegressor(1000))]
    model = MixtureRegressor(members, weights=weights, recalibrator=recalibrator, cv=FOLDS)
    with pytest.raises(ValueError, match="too few rows for this model") as caught:
        model.fit(X, y)
    assert "in the member 'first'" in " ".join(caught.value.__notes__)
    with pytest.raises(NotFittedError):
        model.predict_dist(X)
