"""A regressor and its recalibrator, fitted on rows the model is not trained on."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.preprocessing import StandardScaler

from skuq._fitting.cross_fit import cross_fit
from skuq.distributions import Mixture
from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist
from skuq.recalibration import IdentityRecalibrator, IsotonicRecalibrator, StdScalingRecalibrator
from skuq.regressors import LeastSquaresRegressor, RecalibratedRegressor
from tests.regressors.worlds import linear_world

FOLDS = KFold(4, shuffle=True, random_state=1)
TOO_SURE = GaussianProcessRegressor(alpha=1e-3, optimizer=None)


@pytest.mark.parametrize("recalibrator", [StdScalingRecalibrator(), IsotonicRecalibrator()])
def test_one_model_on_all_rows_and_one_recalibrator_from_the_folds(recalibrator):
    X, y = linear_world(60)
    model = RecalibratedRegressor(TOO_SURE, recalibrator, cv=FOLDS).fit(X, y)
    out_of_fold = cross_fit(TOO_SURE, X, y, cv=FOLDS).in_row_order(60)
    by_hand = recalibrator.fit(out_of_fold, y).transform(predict_dist(TOO_SURE.fit(X, y), X))
    assert np.allclose(model.predict_interval(X), by_hand.interval())


def test_ensemble_is_the_mixture_of_models_each_calibrated_on_its_own_test_rows():
    X, y = linear_world(60)
    model = RecalibratedRegressor(TOO_SURE, cv=FOLDS, ensemble=True).fit(X, y)
    folds = cross_fit(TOO_SURE, X, y, cv=FOLDS)
    parts = [
        StdScalingRecalibrator().fit(dist, y[rows]).transform(predict_dist(fitted, X))
        for fitted, rows, dist in zip(folds.estimators, folds.test_rows, folds.predictions, strict=True)
    ]
    assert np.allclose(model.predict_interval(X), Mixture(parts).interval())
    assert np.allclose(model.predict(X), np.mean([fitted.predict(X) for fitted in folds.estimators], axis=0))
    assert len(model.estimators_) == len(model.recalibrators_) == 4


def test_fit_transform_calibrates_each_fold_by_the_others():
    X, y = linear_world(60)
    out_of_sample = RecalibratedRegressor(TOO_SURE, cv=FOLDS).fit_transform(X, y)
    out_of_fold = cross_fit(TOO_SURE, X, y, cv=FOLDS).in_row_order(60)
    for train, test in FOLDS.split(X):
        by_hand = StdScalingRecalibrator().fit(out_of_fold[train], y[train]).transform(out_of_fold[test])
        assert np.allclose(out_of_sample[test].std(), by_hand.std())
    for cv in (TimeSeriesSplit(3), [(np.arange(40), np.arange(40, 60))], 3):
        model = RecalibratedRegressor(LeastSquaresRegressor(), cv=cv, random_state=0)
        assert np.isfinite(model.fit(X, y).predict_interval(X)).all()
        if cv != 3:
            with pytest.raises(ValueError, match="exactly once"):
                model.fit_transform(X, y)


def test_the_point_prediction_moves_only_with_the_location():
    X, y = linear_world(80)
    y = y + 0.5 * (y > 0)
    plain = BayesianRidge().fit(X, y).predict(X)
    for recalibrator in (None, StdScalingRecalibrator(), IdentityRecalibrator()):
        assert np.array_equal(
            RecalibratedRegressor(BayesianRidge(), recalibrator).fit(X, y).predict(X), plain
        )
    moved = RecalibratedRegressor(BayesianRidge(), IsotonicRecalibrator(), random_state=0).fit(X, y)
    assert np.allclose(moved.predict(X), moved.predict_dist(X).mean())
    assert not np.allclose(moved.predict(X), plain, atol=1e-3)


def test_a_finished_model_is_calibrated_on_the_rows_given():
    X, y = linear_world(120)
    finished = GaussianProcessRegressor(alpha=1e-3, optimizer=None).fit(X[:60], y[:60])
    model = RecalibratedRegressor(FrozenEstimator(finished), cv=FOLDS)
    out_of_sample = model.fit_transform(X[60:], y[60:])
    by_hand = StdScalingRecalibrator().fit(predict_dist(finished, X[60:]), y[60:])
    assert np.allclose(model.predict_dist(X).std(), by_hand.transform(predict_dist(finished, X)).std())
    assert np.array_equal(model.predict(X), finished.predict(X))
    train, test = next(iter(FOLDS.split(X[60:])))
    rows = 60 + train
    fold = StdScalingRecalibrator().fit(predict_dist(finished, X[rows]), y[rows])
    assert np.allclose(out_of_sample[test].std(), fold.transform(predict_dist(finished, X[60 + test])).std())


def test_weights_reach_model_and_recalibrator():
    X, y = linear_world(60)
    y[:20] += 30
    weight = np.where(np.arange(60) < 20, 0.0, 1.0)
    model = RecalibratedRegressor(LeastSquaresRegressor(), cv=FOLDS)
    weighted = model.fit(X, y, sample_weight=weight).predict_dist(X)
    assert np.allclose(weighted.mean(), LeastSquaresRegressor().fit(X[20:], y[20:]).predict(X))
    assert weighted.std().max() < 2


def test_a_grid_over_recalibrators():
    X, y = linear_world(80)
    grid = {"recalibrator": [IdentityRecalibrator(), StdScalingRecalibrator(), IsotonicRecalibrator()]}
    search = GridSearchCV(
        RecalibratedRegressor(TOO_SURE, cv=3, random_state=0),
        grid,
        cv=3,
        scoring=lambda model, X, y: -model.predict_dist(X).crps(y).mean(),
        error_score="raise",
    ).fit(X, y)
    assert not isinstance(search.best_params_["recalibrator"], IdentityRecalibrator)


@pytest.mark.parametrize("wrong", ["isotonic", IsotonicRecalibrator, StandardScaler(), BayesianRidge()])
def test_the_recalibrator_must_be_one(wrong):
    X, y = linear_world(40)
    for estimator in (BayesianRidge(), FrozenEstimator(BayesianRidge().fit(X, y))):
        with pytest.raises(TypeError, match=r"`recalibrator` must be a recalibrator, such as Isotonic"):
            RecalibratedRegressor(estimator, wrong).fit(X, y)
        with pytest.raises(ValueError, match=r"`ensemble` must be one of True, False, got"):
            RecalibratedRegressor(estimator, ensemble=1).fit(X, y)
    with pytest.raises(NotProbabilisticError, match=r"UncertaintyRegressor\(LinearRegression"):
        RecalibratedRegressor(LinearRegression()).fit(X, y)
