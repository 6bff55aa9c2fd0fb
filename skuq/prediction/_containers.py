"""scikit-learn's containers: how each hands the question on to what is inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, StackingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq.distributions import Distribution, Mixture
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.prediction._rule import Predict, Rule, Supports
from skuq.prediction._target import map_back

__all__ = ["CONTAINERS"]


def _of(*classes: type) -> Callable[[Any], bool]:
    return lambda estimator: isinstance(estimator, classes)


def _part(estimator: Any, fitted: str, unfitted: str) -> Any:
    """Return the fitted inner estimator where there is one, else the one it will be made from."""
    return getattr(estimator, fitted, getattr(estimator, unfitted, None))


def _is_nothing(step: Any) -> bool:
    return step is None or isinstance(step, str)  # "passthrough" and "drop"


# ------------------------------------------------------------------------------------ Pipeline


def _pipeline_dist(pipeline: Pipeline, X: Any, predict: Predict) -> Distribution:
    last = _last_step(pipeline)
    if _is_nothing(last):
        raise NotProbabilisticError(
            f"the Pipeline ends in {last!r}, which predicts nothing. Make its last step a regressor or a "
            "recalibrator; IdentityRecalibrator is the one that changes nothing."
        )
    for _, step in pipeline.steps[:-1]:
        if not _is_nothing(step) and not hasattr(step, "fit_resample"):  # imbalanced-learn's only act in fit
            X = step.transform(X)
    return predict(last, X)


def _pipeline_supports(pipeline: Pipeline, supports: Supports) -> bool:
    last = _last_step(pipeline)
    return not _is_nothing(last) and supports(last)


def _last_step(pipeline: Pipeline) -> Any:
    if not pipeline.steps:
        raise ValueError("the Pipeline must have at least one step, got none.")
    return pipeline.steps[-1][1]


# ------------------------------------------------------------------------------------ searches


def _is_search(estimator: Any) -> bool:
    """Say whether it is a search: scikit-learn's, or another package's with the same words."""
    if hasattr(estimator, "best_estimator_"):
        return True
    return hasattr(estimator, "refit") and hasattr(estimator, "estimator")


def _search_dist(search: Any, X: Any, predict: Predict) -> Distribution:
    if hasattr(search, "best_estimator_"):
        return predict(search.best_estimator_, X)
    kind = type(search).__name__
    if search.refit is False and any(name.endswith("_") for name in vars(search)):
        raise NotRefittedError(
            f"this {kind} was fitted with `refit=False`, so it holds no fitted estimator. Use `refit=True` "
            "(or the name of a metric), or fit clone(search.estimator).set_params(**search.best_params_)."
        )
    raise NotFittedError(f"this {kind} is not fitted yet. Call `fit` before `predict_dist`.")


def _search_supports(search: Any, supports: Supports) -> bool:
    if hasattr(search, "best_estimator_"):
        return supports(search.best_estimator_)
    return search.refit is not False and supports(search.estimator)


# ------------------------------------------------------------------------- one inner estimator


def _frozen_dist(frozen: FrozenEstimator, X: Any, predict: Predict) -> Distribution:
    return predict(frozen.estimator, X)


def _selector_dist(selector: RFE, X: Any, predict: Predict) -> Distribution:
    check_is_fitted(selector)
    return predict(selector.estimator_, selector.transform(X))


def _target_dist(estimator: TransformedTargetRegressor, X: Any, predict: Predict) -> Distribution:
    check_is_fitted(estimator)
    return map_back(predict(estimator.regressor_, X), estimator.transformer_)


def _stacking_dist(stacking: StackingRegressor, X: Any, predict: Predict) -> Distribution:
    check_is_fitted(stacking)
    return predict(stacking.final_estimator_, stacking.transform(X))


# ------------------------------------------------------------------------------------ mixtures


def _bagging_dist(bagging: BaggingRegressor, X: Any, predict: Predict) -> Distribution:
    check_is_fitted(bagging)
    # As its own predict does: the members were fitted on columns of an array.
    X = validate_data(
        bagging, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False, reset=False
    )
    return Mixture(
        [
            predict(member, X[:, columns])
            for member, columns in zip(bagging.estimators_, bagging.estimators_features_, strict=True)
        ]
    )


def _bagging_supports(bagging: BaggingRegressor, supports: Supports) -> bool:
    members = getattr(bagging, "estimators_", None) or [bagging.estimator]
    return all(supports(member) for member in members)


def _voting_dist(voting: VotingRegressor, X: Any, predict: Predict) -> Distribution:
    check_is_fitted(voting)
    weights = None
    if voting.weights is not None:  # scikit-learn keeps the weights of dropped members
        weights = [
            weight
            for (_, member), weight in zip(voting.estimators, voting.weights, strict=True)
            if not _is_nothing(member)
        ]
    return Mixture([predict(member, X) for member in voting.estimators_], weights=weights)


def _voting_supports(voting: VotingRegressor, supports: Supports) -> bool:
    members = [member for _, member in voting.estimators if not _is_nothing(member)]
    return bool(members) and all(supports(member) for member in members)


CONTAINERS: tuple[Rule, ...] = (
    Rule(_of(FrozenEstimator), _frozen_dist, lambda frozen, supports: supports(frozen.estimator)),
    Rule(_of(Pipeline), _pipeline_dist, _pipeline_supports),
    Rule(_is_search, _search_dist, _search_supports),
    Rule(
        _of(RFE),  # RFECV is a subclass
        _selector_dist,
        lambda selector, supports: supports(_part(selector, "estimator_", "estimator")),
    ),
    Rule(
        _of(TransformedTargetRegressor),
        _target_dist,
        lambda estimator, supports: supports(_part(estimator, "regressor_", "regressor")),
    ),
    Rule(
        _of(StackingRegressor),
        _stacking_dist,
        lambda stacking, supports: supports(_part(stacking, "final_estimator_", "final_estimator")),
    ),
    Rule(_of(BaggingRegressor), _bagging_dist, _bagging_supports),
    Rule(_of(VotingRegressor), _voting_dist, _voting_supports),
)
"""In the order in which they are tried."""
