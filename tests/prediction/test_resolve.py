"""skuq's own regressors and recalibrators through the containers: the lines users will remember."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor, StackingRegressor, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - makes the next import work
from sklearn.feature_selection import RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.distributions import Distribution, StudentT
from skuq.exceptions import NotProbabilisticError
from skuq.metrics import get_scorer
from skuq.prediction import predict_dist, register, supports_dist
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import (
    BootstrapRegressor,
    LeastSquaresRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)


def test_the_lines_users_will_remember(data):
    X, y = data
    pipeline = make_pipeline(
        StandardScaler(), UncertaintyRegressor(Ridge(), random_state=0), StdScalingRecalibrator()
    )
    grid = {
        "uncertaintyregressor__estimator": [Ridge(), BayesianRidge()],
        "stdscalingrecalibrator": [StdScalingRecalibrator(), IsotonicRecalibrator(), IdentityRecalibrator()],
    }
    search = GridSearchCV(pipeline, grid, cv=2, scoring=get_scorer("neg_crps"), error_score="raise").fit(X, y)
    dist = predict_dist(search, X)
    assert dist.interval(0.9).shape == (60, 2)
    assert dist.std().shape == (60,)
    np.testing.assert_array_equal(dist.cdf(20.0), predict_dist(search.best_estimator_, X).cdf(20.0))
    assert dist.crps(y).mean() < 1.0


def test_recalibrator_as_the_last_step(data):
    X, y = data
    model = make_pipeline(StandardScaler(), LeastSquaresRegressor(), StdScalingRecalibrator())
    assert supports_dist(model)
    model.fit(X, y)
    before = predict_dist(model[:-1], X)
    assert isinstance(before, StudentT)
    expected = model[-1].predict_dist(before)
    np.testing.assert_array_equal(predict_dist(model, X).interval(), expected.interval())
    np.testing.assert_array_equal(predict_dist(model[-1], before).interval(), expected.interval())


@pytest.mark.parametrize("scaler", [StandardScaler(), None])
def test_inside_a_transformed_target(data, scaler):
    X, y = data
    functions = {} if scaler else {"func": np.log, "inverse_func": np.exp}
    model = TransformedTargetRegressor(LeastSquaresRegressor(), transformer=scaler, **functions)
    assert supports_dist(model)
    model.fit(X, y)
    dist = predict_dist(model, X)
    np.testing.assert_allclose(dist.median(), model.predict(X), rtol=1e-10)
    assert dist.crps(y).mean() < 0.8
    if scaler:
        plain = predict_dist(LeastSquaresRegressor().fit(X, y), X)
        np.testing.assert_allclose(dist.interval(), plain.interval(), rtol=1e-9)
        np.testing.assert_allclose(dist.epistemic().std(), plain.epistemic().std(), rtol=1e-9)


def test_recalibrated_regressor_of_a_container(data):
    X, y = data
    inner = TransformedTargetRegressor(BayesianRidge(), transformer=StandardScaler())
    model = RecalibratedRegressor(make_pipeline(StandardScaler(), inner), random_state=0).fit(X, y)
    assert isinstance(predict_dist(FrozenEstimator(model), X), Distribution)


def test_ensembles_of_skuq_regressors(data):
    X, y = data
    least_squares = LeastSquaresRegressor()
    bagging = BaggingRegressor(least_squares, n_estimators=3, random_state=0)
    voting = VotingRegressor([("a", least_squares), ("b", ResidualRegressor(Ridge(), random_state=0))])
    stacking = StackingRegressor([("a", Ridge())], least_squares, cv=3)
    for model in (bagging, voting, stacking):
        assert supports_dist(model)
        dist = predict_dist(model.fit(X, y), X)
        assert dist.crps(y).mean() < 0.8
        assert np.isfinite(dist.logpdf(y)).all()


def test_halving_search_and_feature_elimination_select_by_the_distribution(data):
    X, y = data
    scorer = get_scorer("neg_crps")
    halving = HalvingGridSearchCV(
        BayesianRidge(), {"alpha_1": [1e-6, 1.0]}, scoring=scorer, min_resources=20, random_state=0
    )
    assert predict_dist(halving.fit(X, y), X).crps(y).mean() < 0.8
    wide = np.column_stack([X, np.random.default_rng(1).normal(size=(60, 3))])
    selector = RFECV(BayesianRidge(), scoring=scorer, cv=3).fit(wide, y)
    assert selector.support_[:2].all()
    np.testing.assert_allclose(
        predict_dist(selector, wide).mean(), selector.estimator_.predict(wide[:, selector.support_])
    )


def test_the_scorer_refuses_what_gives_no_distribution(data):
    X, y = data
    with pytest.raises(ValueError, match="RandomForestRegressor gives no predictive distribution"):
        cross_val_score(
            RandomForestRegressor(n_estimators=3), X, y, scoring=get_scorer("neg_crps"), error_score="raise"
        )


def test_the_distribution_of_an_adapted_model_is_not_used_inside_bootstrap(data):
    X, y = data
    model = BootstrapRegressor(LinearRegression(), n_estimators=10, random_state=0).fit(X, y)
    np.testing.assert_array_equal(predict_dist(model, X).std(), model.predict_dist(X).std())


def test_uncertainty_regressor_takes_a_registered_or_native_model_as_it_is(data):
    X, y = data
    kernel_model = GaussianProcessRegressor(alpha=0.5, optimizer=None, normalize_y=True)
    wrapped = UncertaintyRegressor(kernel_model).fit(X, y)
    np.testing.assert_array_equal(
        predict_dist(wrapped, X).std(), predict_dist(kernel_model.fit(X, y), X).std()
    )


def test_public_names():
    import skuq

    assert skuq.predict_dist is predict_dist
    assert skuq.supports_dist is supports_dist
    assert skuq.register is register


def test_the_error_of_a_classifier_does_not_advise_to_wrap_it(data):
    X, y = data
    with pytest.raises(NotProbabilisticError, match="LogisticRegression is a classifier"):
        predict_dist(LogisticRegression().fit(X, y > np.median(y)), X)


def test_swapped_arguments_are_not_printed_in_full(data):
    X, y = data
    with pytest.raises(TypeError, match="`fit` and `predict`, got an object of class DataFrame") as raised:
        predict_dist(pd.DataFrame(X), BayesianRidge().fit(X, y))
    assert len(str(raised.value)) < 120
