"""Predictions of meta-estimators from the predictions of their inner estimators.

A function ``..._inner`` returns the prediction of one inner estimator: a distribution or prediction sets. A
function ``..._dist`` combines the distributions of several inner estimators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, StackingClassifier, StackingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq.distributions import Distribution, JointDistribution, Mixture
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.prediction._adapters import AUTOML_CONTAINERS
from skuq.prediction._register import MetaEstimatorRule, Predict, from_room, is_search, one_column_each
from skuq.prediction._target import map_back

_map_joint_back = from_room("skuq.multivariate._transformed_target", "map_joint_back")


def _of(*classes: type) -> Callable[[Any], bool]:
    return lambda estimator: isinstance(estimator, classes)


def _part(estimator: Any, fitted: str, unfitted: str) -> Any:
    return getattr(estimator, fitted, getattr(estimator, unfitted, None))


def _is_nothing(step: Any) -> bool:
    return step is None or isinstance(step, str)  # The strings are "passthrough" and "drop".


def _pipeline_inner(pipeline: Pipeline, X: Any, predict: Predict) -> Any:
    last = _last_step(pipeline)
    if _is_nothing(last):
        raise NotProbabilisticError(
            f"the last step of the Pipeline must predict, got {last!r}. Use a regressor, a "
            "classifier or a recalibrator, for example IdentityRecalibrator, which changes nothing."
        )
    for _, step in pipeline.steps[:-1]:
        if not _is_nothing(step) and not hasattr(step, "fit_resample"):  # Samplers change rows only in `fit`.
            X = step.transform(X)
    return predict(last, X)


def _last_step(pipeline: Pipeline) -> Any:
    if not pipeline.steps:
        raise ValueError("the Pipeline must have at least one step, got none.")
    return pipeline.steps[-1][1]


def _search_inner(search: Any, X: Any, predict: Predict) -> Any:
    if hasattr(search, "best_estimator_"):
        return predict(search.best_estimator_, X)
    kind = type(search).__name__
    if not search.refit and any(name.endswith("_") for name in vars(search)):
        raise NotRefittedError(
            f"this {kind} was fitted with `refit=False` and has no fitted estimator. Set `refit=True`, or "
            f"set `refit` to the name of a metric. Or fit "
            f"clone(search.estimator).set_params(**search.best_params_)."
        )
    raise NotFittedError(f"this {kind} is not fitted yet. Call `fit` first.")


def _search_parts(search: Any) -> list[Any]:
    if hasattr(search, "best_estimator_"):
        return [search.best_estimator_]
    return [search.estimator] if search.refit else []


def _frozen_inner(frozen: FrozenEstimator, X: Any, predict: Predict) -> Any:
    return predict(frozen.estimator, X)


def _selector_inner(selector: RFE, X: Any, predict: Predict) -> Any:
    check_is_fitted(selector)
    return predict(selector.estimator_, selector.transform(X))


def _target_dist(estimator: TransformedTargetRegressor, X: Any, predict: Predict) -> Any:
    check_is_fitted(estimator)
    dist = predict(estimator.regressor_, X)
    if isinstance(dist, JointDistribution):
        return _map_joint_back(dist, estimator.transformer_)
    return map_back(dist, estimator.transformer_)


def _stacking_inner(stacking: StackingRegressor | StackingClassifier, X: Any, predict: Predict) -> Any:
    check_is_fitted(stacking)
    return predict(stacking.final_estimator_, stacking.transform(X))


def _bagging_dist(bagging: BaggingRegressor, X: Any, predict: Predict) -> Distribution:
    check_is_fitted(bagging)
    # BaggingRegressor fits its members to columns of an array, so X is converted.
    X = validate_data(
        bagging, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False, reset=False
    )
    return Mixture(
        [
            predict(member, X[:, columns])
            for member, columns in zip(bagging.estimators_, bagging.estimators_features_, strict=True)
        ]
    )


def _bagging_parts(bagging: BaggingRegressor) -> list[Any]:
    n_members = 1 if bagging.n_estimators == 1 else 2
    return getattr(bagging, "estimators_", None) or [bagging.estimator] * n_members


def _voting_dist(voting: VotingRegressor, X: Any, predict: Predict) -> Distribution:
    check_is_fitted(voting)
    weights = None
    if voting.weights is not None:  # The weights include the weights of dropped members.
        weights = [
            weight
            for (_, member), weight in zip(voting.estimators, voting.weights, strict=True)
            if not _is_nothing(member)
        ]
    return Mixture([predict(member, X) for member in voting.estimators_], weights=weights)


def _voting_parts(voting: VotingRegressor) -> list[Any]:
    return [member for _, member in voting.estimators if not _is_nothing(member)]


def _multi_output_dist(multi: MultiOutputRegressor, X: Any, predict: Predict) -> Any:
    check_is_fitted(multi)
    if len(multi.estimators_) > 1:
        raise NotProbabilisticError(
            f"this MultiOutputRegressor must predict one target, got {len(multi.estimators_)}. "
            f"{one_column_each()} UncertaintyRegressor is not needed if the inner estimator has its own "
            "distribution."
        )
    return predict(multi.estimators_[0], X)


def _chain_dist(chain: RegressorChain, X: Any, predict: Predict) -> Any:
    check_is_fitted(chain)
    if len(chain.estimators_) > 1:
        raise NotProbabilisticError(
            f"this RegressorChain must predict one target, got {len(chain.estimators_)}. The chain ignores "
            f"the uncertainty of earlier predictions. {one_column_each()}"
        )
    # RegressorChain fits its models to an array, so X is converted.
    return predict(chain.estimators_[0], validate_data(chain, X, accept_sparse=True, reset=False))


def _columns_parts(several: MultiOutputRegressor | RegressorChain) -> list[Any]:
    """Return the model of the only target, or an empty list. Before fitting, a single target is assumed."""
    models: list[Any] | None = getattr(several, "estimators_", None)
    if models is None:
        # Up to scikit-learn 1.6, the parameter of RegressorChain is `base_estimator`.
        return [_part(several, "estimator", "base_estimator")]
    return models if len(models) == 1 else []


CONTAINERS: tuple[MetaEstimatorRule, ...] = (
    MetaEstimatorRule(_of(FrozenEstimator), _frozen_inner, lambda frozen: [frozen.estimator], passes_on=True),
    MetaEstimatorRule(
        _of(Pipeline), _pipeline_inner, lambda pipeline: [_last_step(pipeline)], passes_on=True
    ),
    MetaEstimatorRule(is_search, _search_inner, _search_parts, passes_on=True),
    MetaEstimatorRule(  # This includes the subclass RFECV.
        _of(RFE),
        _selector_inner,
        lambda selector: [_part(selector, "estimator_", "estimator")],
        passes_on=True,
    ),
    MetaEstimatorRule(
        _of(TransformedTargetRegressor),
        _target_dist,
        lambda estimator: [_part(estimator, "regressor_", "regressor")],
    ),
    MetaEstimatorRule(
        _of(StackingRegressor, StackingClassifier),
        _stacking_inner,
        lambda stacking: [_part(stacking, "final_estimator_", "final_estimator")],
        passes_on=True,
    ),
    MetaEstimatorRule(_of(BaggingRegressor), _bagging_dist, _bagging_parts),
    MetaEstimatorRule(_of(VotingRegressor), _voting_dist, _voting_parts),
    MetaEstimatorRule(_of(MultiOutputRegressor), _multi_output_dist, _columns_parts),
    MetaEstimatorRule(_of(RegressorChain), _chain_dist, _columns_parts),
    *AUTOML_CONTAINERS,
)
"""Rules in order of priority."""
