"""Types of estimators: `fit` returns the class, and forecasts are distributions or arrays."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from skuq import classifiers, model_selection, recalibration, regressors
from skuq._typing import BoolArray, FloatArray
from skuq.distributions import Distribution, JointDistribution
from skuq.prediction import PredictionRegion


def check_base(model: regressors.BaseUncertaintyRegressor, X: FloatArray, y: FloatArray) -> None:
    assert_type(model.predict(X), FloatArray)
    assert_type(model.predict(X, return_std=True), tuple[FloatArray, FloatArray])
    assert_type(model.predict_dist(X), Distribution)
    assert_type(model.fit_transform(X, y), Distribution)
    assert_type(model.predict_interval(X, coverage=[0.5, 0.9]), FloatArray)
    assert_type(model.predict_quantiles(X, [0.1, 0.9]), FloatArray)


def check_regressors(estimator: Any, X: FloatArray, y: FloatArray) -> None:
    assert_type(regressors.BootstrapRegressor(estimator).fit(X, y), regressors.BootstrapRegressor)
    assert_type(regressors.CensoredBoostingRegressor().fit(X, y), regressors.CensoredBoostingRegressor)
    assert_type(
        regressors.CensoringWeightedRegressor(estimator).fit(X, y), regressors.CensoringWeightedRegressor
    )
    assert_type(regressors.ConformalRegionRegressor(estimator).fit(X, y), regressors.ConformalRegionRegressor)
    assert_type(regressors.ConformalRegressor(estimator).fit(X, y), regressors.ConformalRegressor)
    assert_type(
        regressors.ConformalSurvivalRegressor(estimator).fit(X, y), regressors.ConformalSurvivalRegressor
    )
    assert_type(regressors.CrossConformalRegressor(estimator).fit(X, y), regressors.CrossConformalRegressor)
    assert_type(
        regressors.ForestDistributionRegressor(estimator).fit(X, y), regressors.ForestDistributionRegressor
    )
    assert_type(regressors.FunctionalRegressor(estimator).fit(X, y), regressors.FunctionalRegressor)
    assert_type(regressors.HurdleRegressor(estimator, estimator).fit(X, y), regressors.HurdleRegressor)
    assert_type(regressors.LeastSquaresRegressor().fit(X, y), regressors.LeastSquaresRegressor)
    assert_type(regressors.MixtureRegressor().fit(X, y), regressors.MixtureRegressor)
    assert_type(
        regressors.MultiOutputUncertaintyRegressor(estimator).fit(X, y),
        regressors.MultiOutputUncertaintyRegressor,
    )
    assert_type(regressors.MultiQuantileRegressor(estimator).fit(X, y), regressors.MultiQuantileRegressor)
    assert_type(regressors.RecalibratedRegressor(estimator).fit(X, y), regressors.RecalibratedRegressor)
    assert_type(regressors.ResidualRegressor(estimator).fit(X, y), regressors.ResidualRegressor)
    assert_type(
        regressors.SparseGaussianProcessRegressor().fit(X, y), regressors.SparseGaussianProcessRegressor
    )
    assert_type(regressors.UncertaintyRegressor(estimator).fit(X, y), regressors.UncertaintyRegressor)
    assert_type(regressors.default_estimators(), list[tuple[str, Any]])
    assert_type(
        model_selection.AutoUncertaintyRegressor().fit(X, y), model_selection.AutoUncertaintyRegressor
    )


def check_support(estimator: Any) -> None:
    regressors.UncertaintyRegressor(estimator, support="count")
    regressors.UncertaintyRegressor(estimator, support=(0.0, None))
    regressors.UncertaintyRegressor(estimator, support="negative")  # type: ignore[arg-type]


def check_several_targets(estimator: Any, X: FloatArray, Y: FloatArray) -> None:
    model = regressors.MultiOutputUncertaintyRegressor(estimator)
    assert_type(model.predict_dist(X), JointDistribution)
    assert_type(model.fit_transform(X, Y), JointDistribution)
    region = regressors.ConformalRegionRegressor(estimator)
    assert_type(region.predict_region(X), PredictionRegion)


def check_classifiers(estimator: Any, X: FloatArray, y: FloatArray) -> None:
    model = classifiers.ConformalClassifier(estimator)
    assert_type(model.fit(X, y), classifiers.ConformalClassifier)
    assert_type(model.predict_set(X), BoolArray)


def check_recalibrators(dist: Distribution, y: FloatArray) -> None:
    assert_type(
        recalibration.BinnedScalingRecalibrator().fit(dist, y), recalibration.BinnedScalingRecalibrator
    )
    assert_type(recalibration.ConformalRecalibrator().fit(dist, y), recalibration.ConformalRecalibrator)
    assert_type(recalibration.EmpiricalRecalibrator().fit(dist, y), recalibration.EmpiricalRecalibrator)
    assert_type(recalibration.GPBetaRecalibrator().fit(dist, y), recalibration.GPBetaRecalibrator)
    assert_type(recalibration.GPCauchyRecalibrator().fit(dist, y), recalibration.GPCauchyRecalibrator)
    assert_type(recalibration.GPNormalRecalibrator().fit(dist, y), recalibration.GPNormalRecalibrator)
    assert_type(recalibration.IdentityRecalibrator().fit(dist, y), recalibration.IdentityRecalibrator)
    assert_type(
        recalibration.IsotonicDistributionalRecalibrator().fit(dist, y),
        recalibration.IsotonicDistributionalRecalibrator,
    )
    assert_type(recalibration.IsotonicRecalibrator().fit(dist, y), recalibration.IsotonicRecalibrator)
    assert_type(recalibration.OnlineRecalibrator().fit(dist, y), recalibration.OnlineRecalibrator)
    assert_type(
        recalibration.OperatingPointRecalibrator().fit(dist, y), recalibration.OperatingPointRecalibrator
    )
    assert_type(
        recalibration.QuantileShiftRecalibrator().fit(dist, y), recalibration.QuantileShiftRecalibrator
    )
    assert_type(
        recalibration.ShrunkIsotonicRecalibrator().fit(dist, y), recalibration.ShrunkIsotonicRecalibrator
    )
    assert_type(recalibration.StdScalingRecalibrator().fit(dist, y), recalibration.StdScalingRecalibrator)
    assert_type(recalibration.SupportMap().fit(dist, y), recalibration.SupportMap)
    assert_type(
        recalibration.VarianceIsotonicRecalibrator().fit(dist, y), recalibration.VarianceIsotonicRecalibrator
    )


def check_recalibration(model: recalibration.BaseRecalibrator, dist: Distribution, y: FloatArray) -> None:
    assert_type(model.transform(dist), Distribution)
    assert_type(model.predict(dist), FloatArray)
    assert_type(model.get_feature_names_out(), NDArray[np.object_])
