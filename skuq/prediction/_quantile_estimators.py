"""Quantile losses of estimators, with one record per class.

A new package needs one more record in ``_RECORDS``. This module imports none of the packages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skuq._typing import FloatArray
from skuq._validation import as_float_array
from skuq.prediction._register import check_predictions, last_step

Params = dict[str, Any]

FINE_LEVELS = [level / 200 for level in range(1, 200)]
"""Levels of the quantiles that represent a distribution without a family."""


@dataclass(frozen=True)
class QuantileLoss:
    """Parameters by which a class of estimators selects the quantile that it predicts."""

    one: Callable[[float], Params]
    many: Callable[[list[float]], Params] | None = None
    predict: Callable[[Any, Any, list[float]], Any] | None = None
    levels: Callable[[Any], list[float] | None] = lambda estimator: None
    aliases: Callable[[Any], Params] = lambda estimator: {}
    exists: Callable[[Any], bool] = lambda estimator: True


def _level_in(name: str, default: float, **required: str) -> Callable[[Any], list[float] | None]:
    """Return a function that reads a level from an attribute.

    Other attributes must have the required values.
    """

    def levels(estimator: Any) -> list[float] | None:
        if any(getattr(estimator, other, None) != value for other, value in required.items()):
            return None
        level = getattr(estimator, name, None)
        return [default if level is None else float(level)]

    return levels


_LIGHTGBM_ALIASES = ("objective_type", "app", "application", "loss")
"""Synonyms of LightGBM's parameter ``objective``. A synonym takes precedence over ``objective``."""


def _lightgbm_aliases(estimator: Any) -> Params:
    set_by_user = (alias for alias in _LIGHTGBM_ALIASES if getattr(estimator, alias, None) is not None)
    return dict.fromkeys(set_by_user, "quantile")


def _lightgbm_levels(estimator: Any) -> list[float] | None:
    if estimator.__sklearn_is_fitted__():
        objective = estimator.objective_
    else:
        name = next(iter(_lightgbm_aliases(estimator)), "objective")
        objective = getattr(estimator, name, None)
    return _level_in("alpha", 0.9)(estimator) if objective == "quantile" else None


def catboost_loss(estimator: Any) -> tuple[str, dict[str, str]]:
    """Return the name and options of the loss of a CatBoost model, such as ("Quantile", {"alpha": "0.5"})."""
    if estimator.is_fitted():
        loss = str(estimator.get_all_params()["loss_function"])
    else:
        params = estimator.get_params()
        loss = str(params.get("objective") or params.get("loss_function"))
    name, _, options = loss.partition(":")
    pairs = (option.partition("=") for option in options.split(";"))
    return name, {key.strip(): value for key, _, value in pairs}


def _catboost_levels(estimator: Any) -> list[float] | None:
    name, options = catboost_loss(estimator)
    if name not in {"Quantile", "MultiQuantile"}:
        return None
    return [float(level) for level in options.get("alpha", "0.5").split(",")]


def _xgboost_levels(estimator: Any) -> list[float] | None:
    params = estimator.get_params()
    # These are the levels of the fit, which are also known after loading a model from a file.
    if estimator.__sklearn_is_fitted__():
        objective = json.loads(estimator.get_booster().save_config())["learner"]["objective"]
        if objective["name"] != "reg:quantileerror":
            return None
        fitted = _as_list(json.loads(objective["quantile_loss_param"]["quantile_alpha"]))
        # The booster stores the levels in single precision. The parameters have double precision, but may
        # have changed.
        given = _as_list([] if params.get("quantile_alpha") is None else params["quantile_alpha"])
        same = np.array_equal(np.array(given, np.float32), np.array(fitted, np.float32))
        return given if same else fitted
    if params.get("objective") != "reg:quantileerror" or params.get("quantile_alpha") is None:
        return None
    return _as_list(params["quantile_alpha"])


def _as_list(levels: Any) -> list[float]:
    return [float(level) for level in np.ravel(levels)]


def _catboost_many(levels: list[float]) -> Params:
    return {"loss_function": "MultiQuantile:alpha=" + ",".join(repr(level) for level in levels)}


_TREES = [
    ("sklearn", name) for name in ("DecisionTreeRegressor", "RandomForestRegressor", "ExtraTreesRegressor")
]
_OF_TREES = QuantileLoss(
    lambda level: {"criterion": "quantile", "quantile": level},
    levels=_level_in("quantile", 0.5, criterion="quantile"),
    exists=lambda estimator: hasattr(estimator, "quantile"),  # from scikit-learn 1.10 on
)

_RECORDS: dict[tuple[str, str], QuantileLoss] = {
    ("sklearn", "DummyRegressor"): QuantileLoss(
        lambda level: {"strategy": "quantile", "quantile": level},
        levels=_level_in("quantile", 0.5, strategy="quantile"),
    ),
    ("sklearn", "QuantileRegressor"): QuantileLoss(
        lambda level: {"quantile": level}, levels=_level_in("quantile", 0.5)
    ),
    **dict.fromkeys(_TREES, _OF_TREES),
    ("sklearn", "GradientBoostingRegressor"): QuantileLoss(
        lambda level: {"loss": "quantile", "alpha": level},
        levels=_level_in("alpha", 0.9, loss="quantile"),
    ),
    ("sklearn", "HistGradientBoostingRegressor"): QuantileLoss(
        lambda level: {"loss": "quantile", "quantile": level},
        levels=_level_in("quantile", 0.5, loss="quantile"),
    ),
    ("lightgbm", "LGBMRegressor"): QuantileLoss(
        lambda level: {"objective": "quantile", "alpha": level},
        levels=_lightgbm_levels,
        aliases=_lightgbm_aliases,
    ),
    ("catboost", "CatBoostRegressor"): QuantileLoss(
        lambda level: {"loss_function": f"Quantile:alpha={level!r}"},
        many=_catboost_many,
        levels=_catboost_levels,
    ),
    ("xgboost", "XGBRegressor"): QuantileLoss(
        lambda level: {"objective": "reg:quantileerror", "quantile_alpha": level},
        many=lambda levels: {"objective": "reg:quantileerror", "quantile_alpha": np.array(levels)},
        levels=_xgboost_levels,
    ),
    ("quantile_forest", "BaseForestQuantileRegressor"): QuantileLoss(
        lambda level: {"default_quantiles": level},
        many=lambda levels: {},
        predict=lambda forest, X, levels: forest.predict(X, quantiles=levels),
    ),
}
"""Records by package and class name. A record also applies to subclasses."""


def find_quantile_loss(estimator: Any, quantile_param: str | None = None) -> tuple[str, QuantileLoss] | None:
    """Return the prefix of the parameter names and the record, or None if there is no quantile loss.

    The last step of a Pipeline is searched. Other meta-estimators are not searched. For example, the mean of
    quantiles of resamples is not a quantile.
    """
    if quantile_param is not None:
        return "", QuantileLoss(lambda level: {quantile_param: level})
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        found = find_quantile_loss(last)
        return None if found is None else (f"{name}__{found[0]}", found[1])
    for cls in type(estimator).__mro__:
        record = _RECORDS.get((cls.__module__.split(".")[0], cls.__name__))
        if record is not None:
            return ("", record) if record.exists(estimator) else None
    params = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    # With a parameter for the loss, the quantile is predicted only for one value of this parameter.
    if "quantile" in params and not {"criterion", "loss"} & set(params):
        return "", QuantileLoss(lambda level: {"quantile": level})
    return None


def configured_levels(estimator: Any) -> list[float] | None:
    found = find_quantile_loss(estimator)
    return None if found is None else found[1].levels(last_step(estimator))


def predict_many(estimator: Any, loss: QuantileLoss, X: Any, levels: Sequence[float]) -> FloatArray:
    # X is transformed here, because a Pipeline passes keywords only to its last step.
    while isinstance(estimator, Pipeline):
        X, estimator = estimator[:-1].transform(X) if len(estimator) > 1 else X, estimator.steps[-1][1]
    predict = loss.predict or (lambda fitted, features, _: fitted.predict(features))
    values = as_float_array(predict(estimator, X, list(levels)), "prediction")
    if values.ndim != 2 or values.shape[1] != len(levels):
        raise ValueError(
            f"`predict` of {type(estimator).__name__} must return {len(levels)} quantiles per row, "
            f"got shape {values.shape}."
        )
    return check_predictions(values, estimator)
