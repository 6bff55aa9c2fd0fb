"""Through every container of scikit-learn, and the searches that others write."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - makes the next import work
from sklearn.feature_selection import RFE, RFECV, SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
)
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skuq.distributions import Mixture, Normal, NormalMixture
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.prediction import predict_dist, supports_dist
from skuq.prediction._resolve import inner_estimators
from skuq.regressors import ResidualRegressor, UncertaintyRegressor


def assert_same(dist, expected):
    np.testing.assert_allclose(dist.mean(), expected.mean(), rtol=1e-12)
    np.testing.assert_allclose(dist.std(), expected.std(), rtol=1e-12)


GRID = {"bayesianridge__alpha_1": [1e-6, 10.0]}


def pipeline():
    return make_pipeline(StandardScaler(), BayesianRidge())


def by_hand(X, y, X_new, **options):
    scaler = StandardScaler().fit(X)
    return predict_dist(BayesianRidge(**options).fit(scaler.transform(X), y), scaler.transform(X_new))


class TestPipeline:
    def test_pushes_through_steps_nested_pipelines_and_slices(self, data):
        X, y = data
        assert_same(predict_dist(pipeline().fit(X, y), X[:5]), by_hand(X, y, X[:5]))
        nested = Pipeline(
            [("none", None), ("off", "passthrough"), ("scale", StandardScaler()), ("inner", pipeline())]
        ).fit(X, y)
        for model in (nested, nested[2:]):
            assert_same(predict_dist(model, X[:5]), by_hand(X, y, X[:5]))
        selected = make_pipeline(SelectKBest(f_regression, k=2), BayesianRidge()).fit(X, y)
        assert_same(predict_dist(selected, X), predict_dist(selected[-1], selected[0].transform(X)))

    def test_data_frame_through_a_column_transformer(self, data):
        X, y = data
        frame = pd.DataFrame(X.copy(), columns=list("abc"))
        frame.loc[3, "c"] = np.nan
        columns = ColumnTransformer([("kept", StandardScaler(), ["a", "b"])])
        model = make_pipeline(columns, BayesianRidge()).fit(frame, y)
        assert_same(predict_dist(model, frame), by_hand(X[:, :2], y, X[:, :2]))

    def test_resampling_steps_of_imbalanced_learn_act_in_fit_only(self, data):
        class Sampler(BaseEstimator):
            def fit_resample(self, X, y):
                return X, y

        X, y = data
        model = Pipeline(
            [("sample", Sampler()), ("scale", StandardScaler().fit(X)), ("last", BayesianRidge())]
        )
        model[-1].fit(model[1].transform(X), y)
        assert_same(predict_dist(model, X[:5]), by_hand(X, y, X[:5]))

    def test_without_a_final_estimator(self, data):
        X, y = data
        for last in ("passthrough", None):
            model = Pipeline([("scale", StandardScaler()), ("last", last)]).fit(X, y)
            assert not supports_dist(model)
            with pytest.raises(NotProbabilisticError, match="the last step of the Pipeline must predict"):
                predict_dist(model, X)
        with pytest.raises(NotProbabilisticError, match="StandardScaler gives no predictive distribution"):
            predict_dist(make_pipeline(StandardScaler()).fit(X, y), X)
        with pytest.raises(ValueError, match="at least one step, got none"):
            predict_dist(Pipeline([]), X)
        with pytest.raises(ValueError, match="at least one step, got none"):
            supports_dist(Pipeline([]))

    def test_a_distribution_flows_between_steps(self, data):
        class Widen(BaseEstimator):
            def fit(self, X, y=None):
                return self

            def __sklearn_is_fitted__(self):
                return True

            def predict(self, X):
                return X.mean()

            def predict_dist(self, X):
                return Normal(X.loc, 2 * X.scale)

        class AsTransformer(BayesianRidge):
            def transform(self, X):
                return predict_dist(self, X)

        X, y = data
        model = make_pipeline(AsTransformer(), Widen()).fit(X, y)
        expected = predict_dist(BayesianRidge().fit(X, y), X)
        np.testing.assert_allclose(predict_dist(model, X).std(), 2 * expected.std())
        assert_same(predict_dist(make_pipeline(Widen()), expected), Normal(expected.loc, 2 * expected.scale))


class TestSearches:
    @pytest.mark.parametrize(
        "search",
        [
            GridSearchCV(pipeline(), GRID),
            RandomizedSearchCV(pipeline(), GRID, n_iter=2, random_state=0),
            HalvingGridSearchCV(pipeline(), GRID, min_resources=20, random_state=0),
        ],
        ids=lambda search: type(search).__name__,
    )
    def test_uses_the_best_estimator(self, data, search):
        X, y = data
        assert supports_dist(search)
        search = clone(search).fit(X, y)
        assert supports_dist(search)
        chosen = search.best_params_["bayesianridge__alpha_1"]
        assert_same(predict_dist(search, X[:5]), by_hand(X, y, X[:5], alpha_1=chosen))

    def test_nested_searches_score_by_the_distribution(self, data):
        X, y = data

        def negative_crps(estimator, X, y):
            return -predict_dist(estimator, X).crps(y).mean()

        inner = GridSearchCV(BayesianRidge(), {"alpha_1": [1e-6, 10.0]}, scoring=negative_crps, cv=3)
        steps = Pipeline([("scale", StandardScaler()), ("search", inner)])
        outer = GridSearchCV(steps, {"search__cv": [3, 4]}, scoring=negative_crps, cv=3, error_score="raise")
        outer.fit(X, y)
        chosen = outer.best_estimator_["search"].best_params_["alpha_1"]
        assert_same(predict_dist(outer, X[:5]), by_hand(X, y, X[:5], alpha_1=chosen))
        assert np.all(outer.cv_results_["mean_test_score"] < 0)
        assert np.all(outer.cv_results_["mean_test_score"] > -y.std())

    def test_optuna(self, data):
        sklearn_integration = pytest.importorskip("optuna_integration.sklearn")
        optuna = pytest.importorskip("optuna")
        X, y = data
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # optuna warns that its search is experimental
            space = {"bayesianridge__alpha_1": optuna.distributions.FloatDistribution(1e-6, 10.0)}
            search, unrefitted = (
                sklearn_integration.OptunaSearchCV(pipeline(), space, n_trials=2, refit=refit, random_state=0)
                for refit in (True, False)
            )
            assert supports_dist(search)
            with pytest.raises(NotFittedError, match="OptunaSearchCV is not fitted"):
                predict_dist(search, X)
            search.fit(X, y)
            unrefitted.fit(X, y)
        chosen = search.best_params_["bayesianridge__alpha_1"]
        assert_same(predict_dist(search, X[:5]), by_hand(X, y, X[:5], alpha_1=chosen))
        with pytest.raises(NotRefittedError, match="`refit=False`"):
            predict_dist(unrefitted, X)

    @pytest.mark.parametrize("refit", [False, np.False_])
    def test_refit_false(self, data, refit):
        X, y = data
        search = GridSearchCV(pipeline(), GRID, refit=refit)
        assert not supports_dist(search)
        with pytest.raises(NotFittedError, match="GridSearchCV is not fitted yet"):
            predict_dist(search, X)
        search.fit(X, y)
        with pytest.raises(NotRefittedError, match="`refit=False`"):
            predict_dist(search, X)

    def test_a_grid_may_bring_the_probabilistic_model(self, data):
        X, y = data
        search = GridSearchCV(Pipeline([("model", LinearRegression())]), {"model": [BayesianRidge()]})
        assert not supports_dist(search)
        search.fit(X, y)
        assert supports_dist(search)
        assert_same(predict_dist(search, X), predict_dist(BayesianRidge().fit(X, y), X))


class TestOneInnerEstimator:
    @pytest.mark.parametrize("cls", [RFE, RFECV])
    def test_feature_elimination(self, data, cls):
        X, y = data
        X = np.column_stack([X, np.random.default_rng(1).normal(size=(60, 3))])
        model = cls(BayesianRidge()).fit(X, y)
        kept = X[:, model.support_]
        assert kept.shape[1] < 6
        assert supports_dist(cls(BayesianRidge()))
        assert not supports_dist(cls(Ridge()))
        assert_same(predict_dist(model, X[:5]), predict_dist(BayesianRidge().fit(kept, y), kept[:5]))

    def test_frozen(self, data):
        X, y = data
        model = FrozenEstimator(pipeline().fit(X, y))
        assert supports_dist(model)
        assert_same(predict_dist(model, X[:5]), by_hand(X, y, X[:5]))
        with pytest.raises(NotProbabilisticError, match="Ridge"):
            predict_dist(FrozenEstimator(Ridge().fit(X, y)), X)

    @pytest.mark.parametrize("passthrough", [False, True])
    def test_stacking(self, data, passthrough):
        X, y = data
        members = [("tree", DecisionTreeRegressor(max_depth=2, random_state=0)), ("ridge", Ridge())]
        model = StackingRegressor(members, BayesianRidge(), passthrough=passthrough, cv=3)
        assert supports_dist(model)
        model.fit(X, y)
        expected = predict_dist(model.final_estimator_, model.transform(X))
        assert_same(predict_dist(model, X), expected)
        np.testing.assert_allclose(expected.mean(), model.predict(X))
        default = StackingRegressor([("ridge", BayesianRidge())], cv=3)
        assert not supports_dist(default)
        with pytest.raises(NotProbabilisticError, match="RidgeCV"):
            predict_dist(default.fit(X, y), X)


class TestMixtures:
    def test_bagging_is_the_mixture_of_its_members(self, data):
        X, y = data
        frame = pd.DataFrame(X.copy(), columns=list("abc"))
        model = BaggingRegressor(BayesianRidge(), n_estimators=4, max_features=0.7, random_state=0)
        dist = predict_dist(model.fit(frame, y), frame)
        assert isinstance(dist, NormalMixture)
        members = [
            predict_dist(member, X[:, columns])
            for member, columns in zip(model.estimators_, model.estimators_features_, strict=True)
        ]
        np.testing.assert_allclose(dist.cdf(y), np.mean([member.cdf(y) for member in members], axis=0))
        np.testing.assert_allclose(dist.mean(), model.predict(frame))
        assert len({tuple(columns) for columns in model.estimators_features_}) > 1
        with pytest.raises(ValueError, match="feature names"):
            predict_dist(model, frame.rename(columns={"a": "z"}))

    def test_bagging_of_members_that_are_not_probabilistic(self, data):
        X, y = data
        assert not supports_dist(BaggingRegressor())
        model = BaggingRegressor(n_estimators=2, random_state=0).fit(X, y)
        assert not supports_dist(model)
        with pytest.raises(NotProbabilisticError, match="DecisionTreeRegressor"):
            predict_dist(model, X)

    @pytest.mark.parametrize("n_estimators", [1, 2, 2.5, 10**6, "many"])
    def test_the_number_of_members_does_not_matter_before_the_fit(self, n_estimators):
        bags = BaggingRegressor(BayesianRidge(), n_estimators)
        assert supports_dist(bags)
        assert len(inner_estimators(bags)) == (1 if n_estimators == 1 else 2)

    @pytest.mark.parametrize("weights", [None, [3.0, 100.0, 1.0]])
    def test_voting_is_the_weighted_mixture_without_the_dropped(self, data, weights):
        X, y = data
        logged = TransformedTargetRegressor(BayesianRidge(), func=np.log, inverse_func=np.exp)
        curve = make_pipeline(PolynomialFeatures(2), BayesianRidge())
        for second, family in ((curve, NormalMixture), (logged, Mixture)):
            members = [("line", BayesianRidge()), ("gone", "drop"), ("second", second)]
            model = VotingRegressor(members, weights=weights)
            assert supports_dist(model)
            dist = predict_dist(model.fit(X, y), X)
            assert isinstance(dist, family)
            cdfs = [predict_dist(member, X).cdf(y) for member in model.estimators_]
            share = 0.5 if weights is None else 0.75
            np.testing.assert_allclose(dist.cdf(y), share * cdfs[0] + (1 - share) * cdfs[1])
            if second is curve:
                np.testing.assert_allclose(dist.mean(), model.predict(X))
        model = VotingRegressor([*members, ("ridge", Ridge())])
        assert not supports_dist(model)
        with pytest.raises(NotProbabilisticError, match="Ridge gives no"):
            predict_dist(model.fit(X, y), X)


class ParallelPostFit(BaseEstimator):
    """A wrapper of a package without a rule in skuq."""

    def __init__(self, estimator=None):
        self.estimator = estimator

    def fit(self, X, y):
        self.estimator_ = clone(self.estimator).fit(X, y)
        return self

    def predict(self, X):
        return self.estimator_.predict(X)


class TestRefusals:
    def test_unfitted(self, data, subtests):
        for model in (
            pipeline(),
            make_pipeline(FunctionTransformer(), BayesianRidge()),
            RFE(BayesianRidge()),
            RFECV(BayesianRidge()),
            FrozenEstimator(pipeline()),
            StackingRegressor([("a", Ridge())], BayesianRidge()),
            BaggingRegressor(pipeline()),
            VotingRegressor([("line", BayesianRidge())]),
        ):
            with subtests.test(type(model).__name__):
                assert supports_dist(model)
                with pytest.raises(NotFittedError):
                    predict_dist(model, data[0])

    def test_unknown_wrapper_is_named_with_what_to_do(self, data):
        X, y = data
        model = ParallelPostFit(BayesianRidge()).fit(X, y)
        assert not supports_dist(model)
        with pytest.raises(NotProbabilisticError, match=r"ParallelPostFit gives no") as caught:
            predict_dist(model, X)
        assert "skuq.UncertaintyRegressor(ParallelPostFit(...))" in str(caught.value)
        assert "register(" in str(caught.value)

    def test_says_through_what_it_was_reached(self, data):
        X, y = data
        search = GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [1.0]}).fit(X, y)
        with pytest.raises(NotProbabilisticError, match="Ridge gives no") as caught:
            predict_dist(search, X)
        assert caught.value.__notes__ == [
            "It is an inner estimator of Pipeline.",
            "It is an inner estimator of GridSearchCV.",
        ]

    @pytest.mark.parametrize("function", [predict_dist, lambda thing, X: supports_dist(thing)])
    def test_what_is_no_estimator(self, data, function):
        with pytest.raises(TypeError, match="must be an instance, got the class BayesianRidge"):
            function(BayesianRidge, data[0])
        for thing in (None, "model", 3, np.zeros(3)):
            with pytest.raises(TypeError, match="`estimator` must be an estimator"):
                function(thing, data[0])

    def test_own_method_that_returns_something_else(self, data):
        class Wrong(BayesianRidge):
            def predict_dist(self, X):
                return np.zeros((len(X), 2))

        X, y = data
        with pytest.raises(TypeError, match="must be a skuq Distribution, got ndarray"):
            predict_dist(Wrong().fit(X, y), X)

    def test_errors_of_X_come_from_the_step_that_reads_it(self, data):
        X, y = data
        model = pipeline().fit(X, y)
        broken = X.copy()
        for bad in (np.nan, np.inf, -np.inf):
            broken[0, 0] = bad
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                predict_dist(model, broken)
        with pytest.raises(ValueError, match="0 sample"):
            predict_dist(model, X[:0])
        assert len(predict_dist(model, X[:1])) == 1


class TestSeveralTargets:
    def test_what_the_error_advises_works_around_any_regressor(self, data):
        X, y = data
        multi = MultiOutputRegressor(UncertaintyRegressor(Ridge(), cv=2, random_state=0))
        assert not supports_dist(multi.fit(X, np.column_stack([y, y**2])))
        advice = r"one target, got 2.*MultiOutputUncertaintyReg.*predict_dist\(multi.estimators_\[j\], X\)"
        with pytest.raises(NotProbabilisticError, match=advice):
            predict_dist(multi, X)
        alone = UncertaintyRegressor(Ridge(), cv=2, random_state=0).fit(X, y**2)
        np.testing.assert_allclose(predict_dist(multi.estimators_[1], X).std(), predict_dist(alone, X).std())

    def test_pipelines_of_several_targets(self, data):
        X, y = data
        chain = RegressorChain(BayesianRidge()).fit(X, np.column_stack([y, 3 * y, y]))
        with pytest.raises(NotProbabilisticError, match=r"one target, got 3.*MultiOutputUncertaintyReg"):
            predict_dist(make_pipeline(StandardScaler().fit(X), chain), X)
        pair = make_pipeline(StandardScaler(), DummyRegressor()).fit(X, np.column_stack([y, y]))
        with pytest.raises(ValueError, match="needs one target"):
            predict_dist(pair, X)

    @pytest.mark.parametrize("container", [MultiOutputRegressor, RegressorChain])
    def test_a_single_column_is_that_column(self, data, container):
        X, y = data
        frame = pd.DataFrame(X, columns=list("abc"))
        alone = container(BayesianRidge())
        assert supports_dist(alone)
        assert not supports_dist(container(Ridge()))
        alone.fit(frame, y.reshape(-1, 1))
        assert supports_dist(alone)
        dist = predict_dist(alone, frame)
        np.testing.assert_allclose(dist.std(), predict_dist(BayesianRidge().fit(X, y), X).std())

    @pytest.mark.parametrize("container", [MultiOutputRegressor, RegressorChain])
    def test_wrapping_one_raises_with_the_right_order(self, data, container):
        X, y = data
        with pytest.raises(ValueError, match=r"one target.*MultiOutputUncertaintyRegressor"):
            UncertaintyRegressor(make_pipeline(container(Ridge()))).fit(X, y)
        search = GridSearchCV(container(Ridge()), {}, cv=2)
        for inside in (search, make_pipeline(StandardScaler(), TransformedTargetRegressor(search))):
            with pytest.raises(ValueError, match=rf"one target, got a {container.__name__}\. For several"):
                UncertaintyRegressor(inside).fit(X, y)
        finished = FrozenEstimator(container(BayesianRidge()).fit(X, y.reshape(-1, 1)))
        assert_same(
            UncertaintyRegressor(finished, "native").fit(X, y).predict_dist(X), predict_dist(finished, X)
        )
        with pytest.raises(ValueError, match=r"one column, got 2.*MultiOutputUncertaintyRegressor"):
            ResidualRegressor(Ridge()).fit(X, np.column_stack([y, y]))
