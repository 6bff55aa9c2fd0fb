"""Where an estimator keeps the level of its quantile loss: one record a class, found by name.

A new package is one more record in ``_KNOWN``; nothing is imported to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skuq._typing import FloatArray
from skuq._validation import as_float_array

__all__ = ["QuantileLoss", "find_quantile_loss", "last_step", "with_prefix"]

Params = dict[str, Any]


@dataclass(frozen=True)
class QuantileLoss:
    """How to ask one class of estimators for quantiles.

    Attributes
    ----------
    one : callable
        ``one(level)`` gives the parameters that make it predict the quantile at one level.
    many : callable or None
        ``many(levels)`` gives the parameters that make one fit predict them all; None if it cannot.
    predict : callable or None
        ``predict(fitted, X, levels)`` of such a fit, shape (n, k); None for the plain ``predict``.
    configured : callable
        ``configured(params)`` says whether its parameters already ask for a quantile.
    """

    one: Callable[[float], Params]
    many: Callable[[list[float]], Params] | None = None
    predict: Callable[[Any, Any, list[float]], Any] | None = None
    configured: Callable[[Params], bool] = lambda params: True


def _catboost_many(levels: list[float]) -> Params:
    return {"loss_function": "MultiQuantile:alpha=" + ",".join(repr(level) for level in levels)}


_KNOWN: dict[tuple[str, str], QuantileLoss] = {
    ("sklearn", "DummyRegressor"): QuantileLoss(
        lambda level: {"strategy": "quantile", "quantile": level},
        configured=lambda params: params.get("strategy") == "quantile",
    ),
    ("sklearn", "QuantileRegressor"): QuantileLoss(lambda level: {"quantile": level}),
    ("sklearn", "GradientBoostingRegressor"): QuantileLoss(
        lambda level: {"loss": "quantile", "alpha": level},
        configured=lambda params: params.get("loss") == "quantile",
    ),
    ("sklearn", "HistGradientBoostingRegressor"): QuantileLoss(
        lambda level: {"loss": "quantile", "quantile": level},
        configured=lambda params: params.get("loss") == "quantile",
    ),
    ("lightgbm", "LGBMRegressor"): QuantileLoss(
        lambda level: {"objective": "quantile", "alpha": level},
        configured=lambda params: params.get("objective") == "quantile",
    ),
    ("catboost", "CatBoostRegressor"): QuantileLoss(
        lambda level: {"loss_function": f"Quantile:alpha={level!r}"},
        many=_catboost_many,
        configured=lambda params: "Quantile" in str(params.get("loss_function")),
    ),
    ("xgboost", "XGBRegressor"): QuantileLoss(
        lambda level: {"objective": "reg:quantileerror", "quantile_alpha": level},
        many=lambda levels: {"objective": "reg:quantileerror", "quantile_alpha": np.array(levels)},
        configured=lambda params: params.get("objective") == "reg:quantileerror",
    ),
    ("quantile_forest", "BaseForestQuantileRegressor"): QuantileLoss(
        lambda level: {"default_quantiles": level},
        many=lambda levels: {},
        predict=lambda forest, X, levels: forest.predict(X, quantiles=levels),
    ),
}
"""(package, class name) -> record; subclasses are served too."""


def find_quantile_loss(estimator: Any, quantile_param: str | None = None) -> tuple[str, QuantileLoss] | None:
    """Return the prefix of the parameters and the record, or None if no quantile loss is known.

    Parameters
    ----------
    estimator : estimator
        A Pipeline is asked for its last step; the prefix is then ``<step>__``.
    quantile_param : str or None
        The parameter that holds the level, where the user named it.
    """
    if quantile_param is not None:
        return "", QuantileLoss(lambda level: {quantile_param: level})
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        found = find_quantile_loss(last)
        return None if found is None else (f"{name}__{found[0]}", found[1])
    for cls in type(estimator).__mro__:
        record = _KNOWN.get((cls.__module__.split(".")[0], cls.__name__))
        if record is not None:
            return "", record
    if "quantile" in (estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}):
        return "", QuantileLoss(lambda level: {"quantile": level}, configured=lambda params: False)
    return None


def is_configured(estimator: Any) -> bool:
    """Say whether the estimator, as it is, predicts a quantile."""
    found = find_quantile_loss(estimator)
    return found is not None and bool(found[1].configured(last_step(estimator).get_params(deep=False)))


def with_prefix(prefix: str, params: Params) -> Params:
    """Return the parameters as they are named from outside the Pipeline."""
    return {f"{prefix}{name}": value for name, value in params.items()}


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of nested Pipelines."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def predict_many(estimator: Any, loss: QuantileLoss, X: Any, levels: Sequence[float]) -> FloatArray:
    """Return the quantiles of one fit that predicts them all, shape (n, k)."""
    while isinstance(estimator, Pipeline):  # push X through, so that keywords reach the last step only
        X, estimator = estimator[:-1].transform(X) if len(estimator) > 1 else X, estimator.steps[-1][1]
    predict = loss.predict or (lambda fitted, features, _: fitted.predict(features))
    values = as_float_array(predict(estimator, X, list(levels)), "prediction")
    if values.ndim != 2 or values.shape[1] != len(levels):
        raise ValueError(
            f"{type(estimator).__name__} must predict {len(levels)} quantiles a row, "
            f"got shape {values.shape}."
        )
    return values
