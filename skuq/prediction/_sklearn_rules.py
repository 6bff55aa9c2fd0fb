"""Rules for scikit-learn's estimators: regressors with a distribution, and meta-estimators around them.

The distributions include the noise that ``return_std`` omits. For a meta-estimator, a function ``..._inner``
returns the prediction of one inner estimator: a distribution or prediction sets. A function ``..._dist``
combines the distributions of several inner estimators.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import BaggingRegressor, StackingClassifier, StackingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ARDRegression, BayesianRidge
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from skuq._compat import count_rows, is_classifying, safe_indexing
from skuq._numeric import row_blocks
from skuq._typing import FloatArray
from skuq._validation import ONE_MODEL_EACH
from skuq.distributions import Distribution, JointDistribution, Mixture, Normal
from skuq.exceptions import NotProbabilisticError, NotRefittedError
from skuq.prediction._quantile_estimators import configured_levels
from skuq.prediction._register import (
    EstimatorRule,
    MetaEstimatorRule,
    Predict,
    from_room,
    is_search,
    single_output,
)
from skuq.prediction._target import map_back

_BLOCK = 32
"""Number of rows per block of the kernel matrix. Blocks are small, because only their diagonals are used."""


def _bayesian_linear_dist(estimator: BayesianRidge | ARDRegression, X: Any) -> Normal:
    check_is_fitted(estimator)
    X = _as_numeric(X)
    loc = single_output(estimator.predict(X), estimator)
    centered = np.asarray(X, dtype=np.float64) - estimator.X_offset_
    if isinstance(estimator, ARDRegression):
        centered = centered[:, estimator.lambda_ < estimator.threshold_lambda]
    coefficients = np.maximum(np.einsum("ij,ij->i", centered @ estimator.sigma_, centered), 0.0)
    return Normal(loc, np.sqrt(coefficients + 1.0 / float(estimator.alpha_)), np.sqrt(coefficients))


def _gaussian_process_dist(estimator: GaussianProcessRegressor, X: Any) -> Normal:
    """Return Normal distributions of new observations, which include the noise ``alpha``."""
    check_is_fitted(estimator, "X_train_")
    if not _gaussian_process_supports(estimator):
        raise NotProbabilisticError(
            "`alpha` of GaussianProcessRegressor must be a number, got one value per training row. The "
            "noise of new rows is then unknown. Pass a number as `alpha`, or add a WhiteKernel to "
            "`kernel`."
        )
    loc, reported = estimator.predict(X, return_std=True)
    loc, reported = single_output(loc, estimator), single_output(reported, estimator)
    target_scale = float(np.ravel(estimator._y_train_std)[0])
    points = np.asarray(X, dtype=np.float64) if estimator.kernel_.requires_vector_input else X
    white = _white_noise(estimator.kernel_, points) * target_scale**2
    alpha = float(np.ravel(estimator.alpha)[0]) * target_scale**2
    return Normal(loc, np.sqrt(reported**2 + alpha), np.sqrt(np.maximum(reported**2 - white, 0.0)))


def _gaussian_process_supports(estimator: GaussianProcessRegressor) -> bool:
    return np.size(estimator.alpha) == 1


def _dummy_dist(estimator: DummyRegressor, X: Any) -> Normal:
    """Return point masses at the constant. The CRPS is then the absolute error."""
    check_is_fitted(estimator)
    return Normal(single_output(estimator.predict(X), estimator), 0.0)


def _has_return_std(estimator: Any) -> bool:
    predict = getattr(type(estimator), "predict", None)
    try:
        return "return_std" in inspect.signature(predict).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _return_std_dist(estimator: Any, X: Any) -> Distribution:
    """Return Normal distributions from ``predict(X, return_std=True)`` of an estimator of any package."""
    loc, scale = estimator.predict(X, return_std=True)
    return Normal(single_output(loc, estimator), single_output(scale, estimator))


def _as_numeric(X: Any) -> Any:
    if hasattr(X, "dtypes") and hasattr(X, "astype"):  # A DataFrame keeps its column names.
        return X.astype(np.float64)
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        return np.asarray(X, dtype=np.float64)
    return X


def _white_noise(kernel: Any, X: Any) -> FloatArray:
    """Return the variance of WhiteKernel terms, which ``kernel(X)`` includes and ``kernel(X, X)`` omits."""
    diagonal = np.asarray(kernel.diag(X), dtype=np.float64)
    shared = np.empty_like(diagonal)
    for rows in row_blocks(count_rows(X), 1, _BLOCK):
        block = safe_indexing(X, rows)
        shared[rows] = np.diagonal(kernel(block, block))
    noise = diagonal - shared
    noise[noise <= 1e-12 * diagonal] = 0.0  # A very small difference is a rounding error.
    return noise


NATIVES: tuple[EstimatorRule, ...] = (
    EstimatorRule(
        lambda estimator: isinstance(estimator, BayesianRidge | ARDRegression),
        _bayesian_linear_dist,
        exact=True,
    ),
    EstimatorRule(
        lambda estimator: isinstance(estimator, GaussianProcessRegressor),
        _gaussian_process_dist,
        _gaussian_process_supports,
        exact=True,
    ),
    EstimatorRule(lambda estimator: isinstance(estimator, DummyRegressor), _dummy_dist),
    EstimatorRule(_has_return_std, _return_std_dist),
)
"""Rules in order of priority. The last rule applies to all estimators whose ``predict`` has
``return_std``."""


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
        shape = np.shape(getattr(estimator, "coef_", 0.0))
        n_targets = getattr(estimator, "n_outputs_", shape[0] if len(shape) == 2 else 1)
        several = isinstance(n_targets, int) and n_targets > 1
        wrapper = "multivariate.MultiOutputUncertaintyRegressor" if several else "UncertaintyRegressor"
        remedy = f"Wrap it before fitting: skuq.{wrapper}({cls.__name__}(...))."
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
            f"{ONE_MODEL_EACH} If the inner estimator has a distribution, the distribution of column j is "
            "predict_dist(multi.estimators_[j], X)."
        )
    return predict(multi.estimators_[0], X)


def _chain_dist(chain: RegressorChain, X: Any, predict: Predict) -> Any:
    check_is_fitted(chain)
    if len(chain.estimators_) > 1:
        raise NotProbabilisticError(
            f"this RegressorChain must predict one target, got {len(chain.estimators_)}. The chain ignores "
            f"the uncertainty of earlier predictions. {ONE_MODEL_EACH}"
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


SKLEARN_CONTAINERS: tuple[MetaEstimatorRule, ...] = (
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
)
"""Rules in order of priority."""
