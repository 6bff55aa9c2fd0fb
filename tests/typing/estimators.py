"""Types of estimators: `fit` returns the class, and forecasts are distributions or arrays."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from skuq import conformal, model_selection, multivariate, recalibration, regressors
from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Distribution, JointDistribution
from skuq.multivariate._regions import PredictionRegion


def check_base(model: regressors.BaseUncertaintyRegressor, X: FloatArray, y: FloatArray) -> None:
    assert_type(model.predict(X), FloatArray)
    assert_type(model.predict(X, return_std=True), tuple[FloatArray, FloatArray])
    assert_type(model.predict_dist(X), Distribution)
    assert_type(model.fit_transform(X, y), Distribution)
    assert_type(model.predict_interval(X, coverage=[0.5, 0.9]), FloatArray)
    assert_type(model.predict_quantiles(X, [0.1, 0.9]), FloatArray)


def check_fit(estimator: Any, X: FloatArray, y: FloatArray, dist: Distribution) -> None:
    assert_type(regressors.UncertaintyRegressor(estimator).fit(X, y), regressors.UncertaintyRegressor)
    assert_type(recalibration.StdScalingRecalibrator().fit(dist, y), recalibration.StdScalingRecalibrator)
    assert_type(conformal.ConformalClassifier(estimator).fit(X, y), conformal.ConformalClassifier)
    search = model_selection.AutoUncertaintyRegressor().fit(X, y)
    assert_type(search, model_selection.AutoUncertaintyRegressor)
    assert_type(regressors.default_estimators(), list[tuple[str, Any]])
    assert_type(conformal.ConformalClassifier(estimator).predict_set(X), BoolArray)


def check_support(estimator: Any) -> None:
    regressors.UncertaintyRegressor(estimator, support="count")
    regressors.UncertaintyRegressor(estimator, support=(0.0, None))
    regressors.UncertaintyRegressor(estimator, support="negative")  # type: ignore[arg-type]


def check_several_targets(estimator: Any, X: FloatArray, Y: FloatArray) -> None:
    model = multivariate.MultiOutputUncertaintyRegressor(estimator)
    assert_type(model.predict_dist(X), JointDistribution)
    assert_type(model.fit_transform(X, Y), JointDistribution)
    region = multivariate.ConformalRegionRegressor(estimator)
    assert_type(region.predict_region(X), PredictionRegion)


def check_recalibration(model: recalibration.BaseRecalibrator, dist: Distribution, y: FloatArray) -> None:
    assert_type(model.transform(dist), Distribution)
    assert_type(model.predict(dist), FloatArray)
    assert_type(model.get_feature_names_out(), NDArray[np.object_])
