"""Routing of metadata in ``fit`` to the splitter and to the wrapped estimator."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from skuq._compat import routing_enabled, splitter_ignores_groups
from skuq._typing import FloatArray
from skuq.prediction._register import child_of


def weight_keyword(estimator: Any) -> str | None:
    if isinstance(estimator, FrozenEstimator) or has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_keyword(last)
        return None if inner is None else f"{name}__{inner}"
    # The ``fit`` of a meta-estimator may accept every keyword, so its child is checked.
    child = child_of(estimator)
    return None if child is None else weight_keyword(child)


def splitter_of(estimator: Any) -> Any:
    cv = getattr(estimator, "cv", None)
    return cv if hasattr(cv, "split") else KFold()


def router_for(owner: Any, **children: Any) -> MetadataRouter:
    own = BaseEstimator.get_metadata_routing(owner)
    if own.fit.requests.get("sample_weight", True) is None:
        own.fit.requests.pop("sample_weight")
    router = MetadataRouter(owner=type(owner).__name__).add_self_request(own)
    fits = MethodMapping().add(caller="fit", callee="fit").add(caller="fit_transform", callee="fit")
    router.add(**children, method_mapping=fits)
    if hasattr(owner, "cv"):
        splits = MethodMapping().add(caller="fit", callee="split").add(caller="fit_transform", callee="split")
        router.add(splitter=splitter_of(owner), method_mapping=splits)
    return router


def split_metadata(
    owner: Any, caller: str, weight: FloatArray | None, fit_params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Split the arguments of ``fit`` except X and y by recipient.

    The results are the arguments of the wrapped estimator's ``fit`` without weights, its weights as keyword
    arguments, and the groups for the splitter.
    """
    if routing_enabled() and hasattr(owner, "estimator"):
        return _split_routed(owner, caller, weight, fit_params)
    return _split_plain(owner, weight, fit_params)


def _split_routed(
    owner: Any, caller: str, weight: FloatArray | None, fit_params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    given = dict(fit_params) if weight is None else {**fit_params, "sample_weight": weight}
    routed = process_routing(owner, caller, **given)
    params = dict(routed.estimator.fit)
    weight_params = {"sample_weight": params.pop("sample_weight")} if "sample_weight" in params else {}
    return params, weight_params, routed_groups(routed) if hasattr(owner, "cv") else None


def routed_groups(routed: Any) -> Any:
    split = dict(routed.splitter.split)
    groups = split.pop("groups", None)
    if split:
        raise ValueError(
            f"`cv` must not request metadata except `groups`, got a request for {sorted(split)}."
        )
    return groups


def _split_plain(
    owner: Any, weight: FloatArray | None, fit_params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    params = dict(fit_params)
    groups = params.pop("groups", None)
    if groups is not None and (not hasattr(owner, "cv") or splitter_ignores_groups(splitter_of(owner))):
        advice = (
            "pass cv=GroupKFold(5)"
            if hasattr(owner, "cv")
            else "pass the estimator to RecalibratedRegressor(..., cv=GroupKFold(5))"
        )
        raise ValueError(
            f"`groups` is given, but {type(owner).__name__} with these parameters does not use groups. "
            f"Remedy: {advice}, or leave `groups` out."
        )
    if params and not hasattr(owner, "estimator"):
        raise TypeError(f"{type(owner).__name__}.fit does not accept the parameters {sorted(params)}.")
    return params, weight_params_for(owner.estimator, weight) if weight is not None else {}, groups


def weight_params_for(estimator: Any, weight: FloatArray) -> dict[str, FloatArray]:
    keyword = weight_keyword(estimator)
    if keyword is None:
        raise ValueError(
            f"`sample_weight` is given, but `fit` of {type(estimator).__name__} does not accept weights. "
            "Leave `sample_weight` out, use an estimator that accepts weights, or use BootstrapRegressor, "
            "which draws rows in proportion to the weights."
        )
    return {keyword: weight}


def weights_for(estimator: Any, weight: FloatArray | None, name: str) -> dict[str, Any]:
    if weight is None:
        return {}
    keyword = weight_keyword(estimator)
    if keyword is None:
        raise ValueError(
            f"`sample_weight` is given, but `fit` of the `{name}` {type(estimator).__name__} does not accept "
            "weights. Leave `sample_weight` out, or use an estimator that accepts weights."
        )
    return {"sample_weight" if routing_enabled() else keyword: weight}
