"""The errors for an estimator that gives no distribution: why, and which wrapper gives it one."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError

from skuq._sklearn_compat import is_classifying
from skuq.exceptions import NotProbabilisticError
from skuq.prediction._rules.quantile_estimators import configured_levels

__all__ = ["no_distribution", "not_fitted", "one_column_each"]


def no_distribution(estimator: Any) -> NotProbabilisticError:
    """Return the error that names the class and what to do."""
    cls = type(estimator)
    if is_classifying(estimator):
        return NotProbabilisticError(
            f"{cls.__name__} is a classifier, whose distribution is its `predict_proba`. For prediction sets "
            "call skuq.prediction.predict_set(estimator, X); skuq.classifiers.ConformalClassifier gives them "
            "a guaranteed coverage."
        )
    levels = configured_levels(estimator)
    if levels is not None:
        return NotProbabilisticError(
            f"{cls.__name__} predicts one quantile, at level {levels[0]:g}, which is no distribution. Wrap "
            f"it before fitting: skuq.UncertaintyRegressor({cls.__name__}(...)), which fits it at many "
            "levels and recalibrates them, or skuq.regressors.MultiQuantileRegressor, which fits them alone."
        )
    return NotProbabilisticError(
        f"{cls.__name__} gives no predictive distribution. To give it one, wrap it before "
        f"fitting: skuq.UncertaintyRegressor({cls.__name__}(...)). If it has one of its own, "
        f"register it: skuq.register('{cls.__module__}.{cls.__qualname__}', adapter)."
    )


def one_column_each(wrapper: str = "skuq.UncertaintyRegressor") -> str:
    """Return the advice for several targets: one model a column."""
    return (
        f"Fit one model a column: multi = MultiOutputRegressor({wrapper}(...)); the distribution of column j "
        "is then predict_dist(multi.estimators_[j], X)."
    )


def not_fitted(estimator: Any) -> NotFittedError:
    """Return the error for an estimator that has not been fitted, in scikit-learn's words."""
    return NotFittedError(
        f"this {type(estimator).__name__} is not fitted yet. Call `fit` before `predict_dist`."
    )
