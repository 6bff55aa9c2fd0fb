"""Types of the quick start, as a user's program sees them."""

from __future__ import annotations

from typing import Any, assert_type

import skuq
from skuq import RecalibratedRegressor, UncertaintyRegressor, get_scorer, predict_dist, supports_dist
from skuq._typing import BoolArray, FloatArray
from skuq.conformal import predict_set
from skuq.datasets import load_concrete, make_chung
from skuq.distributions import Distribution, Normal
from skuq.evaluation import uncertainty_report
from skuq.evaluation._report_table import UncertaintyReport
from skuq.metrics import crps_loss, prediction_interval_coverage


def check_quick_start(forest: Any, X_test: FloatArray) -> None:
    X, y = load_concrete(return_X_y=True)
    assert_type(X, FloatArray)
    model = UncertaintyRegressor(forest, random_state=0).fit(X, y)
    assert_type(model, UncertaintyRegressor)
    bounds = model.predict_interval(X_test, coverage=0.9)
    assert_type(bounds, FloatArray)
    assert_type(prediction_interval_coverage(y, bounds), float)
    dist = predict_dist(model, X_test)
    assert_type(dist, Distribution)
    assert_type(dist.quantile([0.1, 0.5, 0.9]), FloatArray)
    assert_type(dist.std(), FloatArray)
    assert_type(crps_loss(y, dist), float)
    assert_type(uncertainty_report(y, dist), UncertaintyReport)
    assert_type(get_scorer("neg_crps").metric_name, str)
    assert_type(supports_dist(model), bool)
    assert_type(predict_set(forest, X_test), BoolArray)
    assert_type(RecalibratedRegressor(model).fit(X, y), RecalibratedRegressor)


def check_packages_of_skuq(y: FloatArray) -> None:
    assert_type(skuq.metrics.crps_loss(y, skuq.distributions.Normal(y, 1.0)), float)
    assert_type(skuq.show_versions(), None)
    skuq.metric  # type: ignore[attr-defined] # noqa: B018


def check_data_sets() -> None:
    assert_type(make_chung("quadrants"), tuple[FloatArray, FloatArray])
    assert_type(make_chung("quadrants", return_distribution=True), tuple[FloatArray, FloatArray, Normal])
