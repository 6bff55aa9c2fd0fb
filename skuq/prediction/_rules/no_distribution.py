"""Errors for estimators without a distribution. Each error states the reason and a remedy."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError

from skuq._sklearn_compat import is_classifying
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._rules.quantile_estimators import configured_levels


def no_distribution(estimator: Any) -> NotProbabilisticError:
    cls = type(estimator)
    if is_classifying(estimator):
        return NotProbabilisticError(
            f"{cls.__name__} is a classifier, which has class probabilities instead of a distribution. For "
            "prediction sets, call skuq.conformal.predict_set(estimator, X). For sets with guaranteed "
            "coverage, use skuq.conformal.ConformalClassifier."
        )
    levels = configured_levels(estimator)
    if levels is not None:
        return NotProbabilisticError(
            f"{cls.__name__} predicts a single quantile at level {levels[0]:g} and has no distribution. Wrap "
            f"it before fitting: skuq.UncertaintyRegressor({cls.__name__}(...)) fits many levels and "
            f"recalibrates the quantiles. skuq.regressors.MultiQuantileRegressor fits many levels without "
            f"recalibration."
        )
    if all(hasattr(estimator, method) for method in ("fit", "predict", "get_params")):
        remedy = f"Wrap it before fitting: skuq.UncertaintyRegressor({cls.__name__}(...))."
    else:
        remedy = (
            "It is not an estimator of scikit-learn, so skuq cannot wrap it: write a class with `fit`, "
            "`predict` and `get_params` around it."
        )
    return NotProbabilisticError(
        f"{cls.__name__} gives no predictive distribution. {remedy} If it has its own distribution or "
        "intervals, add a method `predict_dist(self, X)` that returns skuq.distributions.Normal(mean, std) "
        "or skuq.distributions.Quantiles([0.05, 0.95], bounds). If you cannot change the class, register it: "
        f"skuq.register('{cls.__module__}.{cls.__qualname__}', adapter)."
    )


def not_fitted(estimator: Any) -> NotFittedError:
    return NotFittedError(
        f"this {type(estimator).__name__} is not fitted yet. Call `fit` before `predict_dist`."
    )
