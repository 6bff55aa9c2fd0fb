"""A model of all rows compared with the models of the folds, wherever a refit predicts."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from skuq._fitting.cross_fit import cross_fit, find_mismatch, point_predict
from skuq.conformal import CrossConformalRegressor
from skuq.distributions import Normal
from skuq.exceptions import FoldMismatchWarning
from skuq.regressors import (
    BaseUncertaintyRegressor,
    LeastSquaresRegressor,
    MixtureRegressor,
    RecalibratedRegressor,
    ResidualRegressor,
)

N = 120


def world(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=n)


def covered(model, seed=1):
    X, y = world(2000, seed)
    lower, upper = model.predict_interval(X).T
    return np.mean((lower <= y) & (y <= upper))


def test_distances_by_hand():
    class Constant(Ridge):
        def fit(self, X, y):
            self.value_ = {90: 4.0, 60: 1.0}[len(y)] + (self.alpha if len(y) == 60 else 0)
            return self

        def predict(self, X):
            return np.full(len(X), self.value_)

    X = np.zeros((90, 1))
    y = np.zeros(90)
    folds = cross_fit(Constant(0.0), X, y, cv=KFold(3), predict=point_predict)
    for one, value in zip(folds.estimators, [1.0, 1.5, 2.0], strict=True):
        one.value_ = value
    found = find_mismatch(Constant().fit(X, np.zeros(90)), folds, X, y, point_predict)
    # every row is known to two of the three models, and each pair of models is compared on a third of them
    pairs = [(1.0, 1.5), (1.0, 2.0), (1.5, 2.0)]
    assert found.folds == pytest.approx(np.sqrt(np.mean([(a - b) ** 2 for a, b in pairs])))
    assert found.refit == pytest.approx(np.sqrt(np.mean([(4 - a) ** 2 for pair in pairs for a in pair])))


@pytest.mark.parametrize(
    "child",
    [
        Ridge(),
        KNeighborsRegressor(),
        DecisionTreeRegressor(),
        DecisionTreeRegressor(min_samples_leaf=5),
        RandomForestRegressor(10),
        HistGradientBoostingRegressor(max_iter=20, early_stopping=True, random_state=0),
    ],
    ids=lambda child: type(child).__name__,
)
def test_no_false_alarm(child):
    halves = KFold(2, shuffle=True, random_state=0)
    for n, cv in ((300, KFold(3)), (300, KFold(10)), (300, TimeSeriesSplit(4)), (N, halves)):
        X, y = world(n)
        folds = cross_fit(child, X, y, cv=cv, predict=point_predict)
        assert find_mismatch(clone(child).fit(X, y), folds, X, y, point_predict) is None


def test_a_recalibrated_model_falls_back_to_the_mixture_of_the_folds():
    X, y = world()
    model = RecalibratedRegressor(StopsEarly(), random_state=0)
    with pytest.warns(
        FoldMismatchWarning, match="Therefore, new rows are predicted by the mixture of the models"
    ):
        model.fit(X, y)
    ensemble = RecalibratedRegressor(StopsEarly(), ensemble=True, random_state=0).fit(X, y)
    assert np.array_equal(model.predict_interval(X), ensemble.predict_interval(X))
    assert 0.86 < covered(model) < 0.94
    with pytest.warns(FoldMismatchWarning, match="New rows are predicted by the model fitted to all rows"):
        model.set_params(cv=TimeSeriesSplit(4)).fit(X, y)
    assert len(model.estimators_) == 1


def test_a_pool_warns_of_a_member():
    members = [("good", LeastSquaresRegressor()), ("stops", StopsEarly())]
    with pytest.warns(FoldMismatchWarning, match="models of the folds of member 'stops'"):
        MixtureRegressor(members, random_state=0).fit(*world())


def test_cross_conformal_prediction_warns_of_the_point_prediction():
    with pytest.warns(FoldMismatchWarning, match="the intervals use the models of the folds"):
        CrossConformalRegressor(StopsEarly(), random_state=0).fit(*world())


def test_out_of_fold_distributions_of_another_model_are_warned_of():
    X, y = world()

    class Marginal(BaseUncertaintyRegressor):
        def _fit(self, data, progress):
            self.loc_ = np.mean(data.y[:60]) + (len(data) == N)

        def _predict_dist(self, X):
            return Normal(np.full(len(X), self.loc_), 1.0)

    with pytest.warns(FoldMismatchWarning, match="returns distributions from the models of the folds"):
        Marginal().fit_transform(X, y)


def test_the_models_of_two_halves_are_compared_too():
    X, y = world()
    with pytest.warns(FoldMismatchWarning):
        model = ResidualRegressor(StopsEarly(), center="model", cv=2, random_state=0).fit(X, y)
    assert len(model.estimators_) == 2


def test_ordinary_models_give_no_warning():
    X, y = world()  # a warning is an error
    RecalibratedRegressor(BayesianRidge(), random_state=0).fit(X, y)
    ResidualRegressor(Ridge(), center="model", random_state=0).fit(X, y)
    CrossConformalRegressor(Ridge(), random_state=0).fit(X, y)
    CrossConformalRegressor(Ridge(), "jackknife+ab", random_state=0).fit(X, y)


@pytest.mark.parametrize("unit", [1e-90, 1e90])
def test_units_do_not_matter(unit):
    X, y = world()
    model = ResidualRegressor(StopsEarly(unit), center="model", random_state=0)
    with pytest.warns(FoldMismatchWarning):
        model.fit(X, y * unit)


class StopsEarly(BayesianRidge):
    """Predicts a constant and a wide distribution if fitted to all N rows."""

    def __init__(self, unit=1.0):
        super().__init__()
        self.unit = unit

    def fit(self, X, y):
        super().fit(X, y / self.unit)
        if len(y) == N:
            self.coef_ = np.zeros_like(self.coef_)
            self.alpha_ = self.alpha_ / 100
        return self

    def predict(self, X, return_std=False):
        if return_std:
            return tuple(self.unit * part for part in super().predict(X, return_std=True))
        return super().predict(X) * self.unit


def test_differences_that_are_small_beside_the_errors_do_not_matter():
    X, y = world()
    folds = cross_fit(Ridge(), X, y, cv=KFold(5), predict=point_predict)
    for one in folds.estimators:
        one.coef_ = np.ones(3)
    refit = Ridge().fit(X, y)
    refit.coef_ = np.ones(3) + 1e-3
    refit.intercept_ = folds.estimators[0].intercept_
    assert find_mismatch(refit, folds, X, y, point_predict) is None
