"""Conformal regressors beside MAPIE and crepes: the same numbers, and where theirs are off."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import QuantileRegressor

from skuq.prediction import predict_dist
from skuq.regressors import (
    ConformalRegressor,
    MultiQuantileRegressor,
)
from tests.regressors.split_models import COVERAGES
from tests.regressors.worlds import linear_world


def mapie_regression():
    return pytest.importorskip("mapie.regression")


@pytest.mark.parametrize("symmetric", [True, False])
def test_split_has_the_bounds_of_mapie(finished, symmetric):
    mapie = mapie_regression()
    from mapie.conformity_scores import AbsoluteConformityScore

    model, X, y, X_new = finished["split"]
    peer = mapie.SplitConformalRegressor(
        model.estimator,
        confidence_level=COVERAGES,
        conformity_score=AbsoluteConformityScore(sym=symmetric),
        prefit=True,
    ).conformalize(X, y)
    point, bounds = peer.predict_interval(X_new)
    own = ConformalRegressor(model, symmetric=symmetric).fit(X, y)
    assert np.allclose(own.predict_interval(X_new, COVERAGES), bounds, rtol=0, atol=1e-10)
    assert np.array_equal(own.predict(X_new), point)


def quantile_models(X, y, coverage):
    levels = [(1 - coverage) / 2, (1 + coverage) / 2, 0.5]
    return [QuantileRegressor(quantile=level, alpha=0).fit(X, y) for level in levels]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [99, 100, 200])
def test_cqr_has_the_bounds_of_mapie(coverage, symmetric, n):
    mapie = mapie_regression()
    X, y = linear_world(500)
    lower, upper, median = models = quantile_models(X[:200], y[:200], coverage)
    X_cal, y_cal, X_new = X[200 : 200 + n], y[200 : 200 + n], X[400:]
    peer = mapie.ConformalizedQuantileRegressor(models, confidence_level=coverage, prefit=True)
    peer.conformalize(X_cal, y_cal)
    bounds = peer.predict_interval(X_new, symmetric_correction=symmetric)[1][:, :, 0]
    levels = [lower.quantile, 0.5, upper.quantile]
    own = MultiQuantileRegressor(QuantileRegressor(alpha=0), levels).fit(X[:200], y[:200])
    ordered = np.column_stack([lower.predict(X), median.predict(X), upper.predict(X)])
    assert np.array_equal(own.predict_dist(X).values, ordered)  # no quantiles cross
    regressor = ConformalRegressor(FrozenEstimator(own), "cqr", symmetric=symmetric).fit(X_cal, y_cal)
    assert np.allclose(regressor.predict_interval(X_new, coverage), bounds, rtol=0, atol=1e-10)


def test_a_rank_that_is_whole_is_not_rounded_up_as_in_mapie():
    """30 % of 10 is the third score; MAPIE's 1 - 0.7 is a little more than 0.3, which makes it the fourth."""
    mapie = mapie_regression()
    X, y = np.zeros((9, 1)), np.arange(1.0, 10.0)
    model = DummyRegressor(strategy="constant", constant=0.0).fit(X, y)
    peer = mapie.SplitConformalRegressor(model, confidence_level=0.3, prefit=True).conformalize(X, y)
    assert peer.predict_interval(X[:1])[1].ravel().tolist() == [-4, 4]
    own = ConformalRegressor(FrozenEstimator(model)).fit(X, y)
    assert own.predict_interval(X[:1], 0.3).ravel().tolist() == [-3, 3]


@pytest.mark.parametrize("n", [150, 200])
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("method", ["split", "normalized"])
def test_normalized_and_mondrian_have_the_bounds_of_crepes(finished, method, by_group, n):
    crepes = pytest.importorskip("crepes")
    model, X, y, X_new = finished[method]
    X, y = X[:n], y[:n]

    def group_by(rows):
        return np.digitize(rows[:, 1], [-1.0, 0.5])

    dist, new_dist = (predict_dist(model, rows) if method == "normalized" else None for rows in (X, X_new))
    loc, new_loc = (
        (dist.mean(), new_dist.mean()) if method == "normalized" else (model.predict(X), model.predict(X_new))
    )
    peer = crepes.ConformalRegressor()
    peer.fit(
        residuals=y - loc,
        sigmas=None if dist is None else dist.std(),
        bins=group_by(X) if by_group else None,
    )
    own = ConformalRegressor(model, method, group_by=group_by if by_group else None).fit(X, y)
    for coverage in (0.55, 0.75, 0.91):
        bounds = peer.predict_int(
            new_loc,
            sigmas=None if dist is None else new_dist.std(),
            bins=group_by(X_new) if by_group else None,
            confidence=coverage,
        )
        assert np.allclose(own.predict_interval(X_new, coverage), bounds, rtol=0, atol=1e-10)


def test_nine_rows_are_enough_for_90_percent_unlike_in_crepes():
    """(1 - 0.9) 10 is a little less than 1 in floating point, which crepes cuts off to 0."""
    crepes = pytest.importorskip("crepes")
    residual = np.arange(1.0, 10.0)
    peer = crepes.ConformalRegressor()
    peer.fit(residuals=residual)
    with pytest.warns(UserWarning, match="too small"):
        assert np.isinf(peer.predict_int(np.zeros(1), confidence=0.9)).all()
    X = np.zeros((9, 1))
    model = FrozenEstimator(DummyRegressor(strategy="constant", constant=0.0).fit(X, residual))
    bounds = ConformalRegressor(model).fit(X, residual).predict_interval(X[:1], 0.9)
    assert bounds.tolist() == [[-9.0, 9.0]]
