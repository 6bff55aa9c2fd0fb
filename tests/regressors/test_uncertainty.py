"""The front door chooses the method and adds nothing of its own."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skuq.exceptions import NotProbabilisticError
from skuq.prediction import predict_dist
from skuq.prediction._cross_fit import cross_fit
from skuq.regressors import (
    BootstrapRegressor,
    ConformalRegressor,
    LeastSquaresRegressor,
    MultiQuantileRegressor,
    ResidualRegressor,
    UncertaintyRegressor,
)
from tests.regressors.worlds import linear_world

BOOSTED = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, max_iter=5)


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (LinearRegression(), "residual"),
        (make_pipeline(StandardScaler(), RandomForestRegressor(10)), "residual"),
        (HistGradientBoostingRegressor(max_iter=5), "residual"),
        (BayesianRidge(), "native"),
        (DummyRegressor(), "residual"),
        (make_pipeline(StandardScaler(), GaussianProcessRegressor(optimizer=None, alpha=0.5)), "native"),
        (LeastSquaresRegressor(), "native"),
        (QuantileRegressor(), "quantile"),
        (
            make_pipeline(StandardScaler(), BOOSTED),
            "quantile",
        ),
    ],
)
def test_auto_chooses_by_what_the_estimator_offers(estimator, method):
    X, y = linear_world(60)
    model = UncertaintyRegressor(estimator, random_state=0).fit(X, y)
    assert model.method_ == method
    assert np.isfinite(model.predict_interval(X)).all()


COMPOSED = {
    "bootstrap": lambda child: BootstrapRegressor(child, 10, random_state=3),
    "residual": lambda child: ResidualRegressor(child, cv=3, random_state=3),
    "conformal": lambda child: ConformalRegressor(child, "cv+", cv=3, random_state=3),
    "quantile": lambda child: MultiQuantileRegressor(child, [0.1, 0.9], cv=3, random_state=3),
}
OPTIONS = {
    "bootstrap": {"n_estimators": 10},
    "residual": None,
    "conformal": {"method": "cv+"},
    "quantile": {"levels": [0.1, 0.9]},
}


@pytest.mark.parametrize("method", COMPOSED)
def test_each_method_is_its_class(method):
    X, y = linear_world(60)
    child = QuantileRegressor(alpha=0) if method == "quantile" else LinearRegression()
    front = UncertaintyRegressor(child, method, method_params=OPTIONS[method], cv=3, random_state=3)
    own = COMPOSED[method](child)
    assert np.array_equal(
        front.fit_transform(X, y).quantile([0.2, 0.7]), own.fit_transform(X, y).quantile([0.2, 0.7])
    )
    assert np.array_equal(front.predict_interval(X), own.predict_interval(X))
    assert np.array_equal(front.predict(X), own.predict(X))


def test_native_is_the_model_itself_with_folds_for_fit_transform():
    X, y = linear_world(60)
    folds = KFold(3)
    model = UncertaintyRegressor(BayesianRidge(), cv=folds)
    honest = model.fit_transform(X, y)
    assert np.allclose(honest.std(), cross_fit(BayesianRidge(), X, y, cv=folds).in_row_order(60).std())
    plain = BayesianRidge().fit(X, y)
    assert np.array_equal(model.predict(X), plain.predict(X))
    assert np.array_equal(model.predict_interval(X), predict_dist(plain, X).interval())


def test_native_uses_what_a_skuq_regressor_knows_for_free():
    X, y = linear_world(60)
    honest = UncertaintyRegressor(LeastSquaresRegressor()).fit_transform(X, y)
    assert np.array_equal(honest.interval(), LeastSquaresRegressor().fit_transform(X, y).interval())


def test_a_supervised_selector_inside_is_fitted_by_each_fold():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 300)), rng.normal(size=80)
    inside = make_pipeline(SelectKBest(f_regression, k=10), LinearRegression())
    for method in ("residual", "bootstrap"):
        model = UncertaintyRegressor(inside, method, random_state=0)
        error = np.std(y - model.fit_transform(X, y).mean())
        assert error > 1.1 * np.std(y - model.predict(X))


def test_bad_methods():
    X, y = linear_world(30)
    with pytest.raises(ValueError, match=r"`method` must be one of 'auto'.*got 'magic'"):
        UncertaintyRegressor(LinearRegression(), "magic").fit(X, y)
    with pytest.raises(NotProbabilisticError, match=r"LinearRegression gives none.*method='auto'"):
        UncertaintyRegressor(LinearRegression(), "native").fit(X, y)
    with pytest.raises(ValueError, match="`method_params` must be empty"):
        UncertaintyRegressor(BayesianRidge(), method_params={"levels": [0.1]}).fit(X, y)
    with pytest.raises(TypeError, match="nonsense"):
        UncertaintyRegressor(LinearRegression(), method_params={"nonsense": 1}).fit(X, y)
    with pytest.raises(ValueError, match="none is known for LinearRegression"):
        UncertaintyRegressor(LinearRegression(), "quantile").fit(X, y)


def test_weights_by_method():
    X, y = linear_world(60)
    weight = np.ones(60)
    with pytest.raises(ValueError, match="KNeighborsRegressor takes none"):
        UncertaintyRegressor(KNeighborsRegressor()).fit(X, y, sample_weight=weight)
    resampled = UncertaintyRegressor(KNeighborsRegressor(), "bootstrap", random_state=0)
    assert np.isfinite(resampled.fit(X, y, sample_weight=weight).predict_interval(X)).all()
    pipeline = make_pipeline(StandardScaler(), Ridge())
    weighted = UncertaintyRegressor(pipeline, cv=KFold(3)).fit(X, y, sample_weight=np.arange(60) + 1.0)
    assert np.allclose(
        weighted.predict(X), pipeline.fit(X, y, ridge__sample_weight=np.arange(60) + 1.0).predict(X)
    )


def test_methods_in_one_grid():
    X, y = linear_world(60)
    grid = {"method": ["residual", "bootstrap"], "estimator__alpha": [0.1, 10.0]}
    search = GridSearchCV(UncertaintyRegressor(Ridge(), random_state=0), grid, cv=2, error_score="raise")
    assert predict_dist(search.fit(X, y), X).interval().shape == (60, 2)
